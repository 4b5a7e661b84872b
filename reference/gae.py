"""Generalized advantage estimation: Schulman et al. 2016, arXiv:1506.02438, eq. 16."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, boundaries, layout, weighted


class GAE(NamedTuple):
    """Advantages A_t and returns R_t = A_t + V_t."""

    advantages: Array
    returns: Array


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    *,
    last_values: ArrayLike | None = None,
    truncation_values: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
    gamma: ArrayLike = 0.99,
    lambda_: ArrayLike = 0.95,
    time_dim: int = -1,
) -> GAE:
    """Advantages and returns of each step.

        δ_t = r_t + γV'_t − V_t
        A_t = δ_t + γλ(1−end_t)A_{t+1},   A_T = 0
        R_t = A_t + V_t

    Args:
        rewards: r_t, t in [0, T). [N, T, *F]; with time_dim=0 [T, N, *F]; or [T].
        values: V(s_t), t in [0, T), shaped as rewards.
        terminated: nonzero where the MDP ended at s_{t+1}. [N, T], [T, N] or [T].
        truncated: nonzero where the episode was cut at s_{t+1}, shaped as terminated; terminated wins.
        last_values: V(s_T), a float or [N, *F]. Must be given unless next_values is.
        truncation_values: V(s_{t+1}) at truncated steps, shaped as rewards; unused elsewhere.
        next_values: V(s_{t+1}) at every step, shaped as rewards; unused at terminated steps.
        gamma, lambda_: γ_t and λ_t, a number or shaped as terminated.
        time_dim: the axis of time, -1 or 1 for [N, T], 0 or -2 for [T, N].

    Raises:
        ValueError, TypeError: a wrong shape or dtype, or a successor value that is missing or given twice.

    >>> gae([1, 2, 4], [0, 0, 0], [0, 1, 0], last_values=8.0, gamma=0.5, lambda_=1.0).advantages
    array([2., 2., 8.])
    """
    shapes = layout("terminated", terminated, "rewards", rewards, time_dim)
    reward, value = shapes.steps("rewards", rewards), shapes.steps("values", values)
    discount, decay = shapes.coefficient("gamma", gamma), shapes.coefficient("lambda_", lambda_)
    end, _, value_next = boundaries(shapes, value, terminated, truncated, last_values, truncation_values, next_values)

    advantages = np.empty_like(reward)
    advantage = np.zeros(reward.shape[1:])
    with np.errstate(all="ignore"):
        for t in reversed(range(len(reward))):
            delta = reward[t] + weighted(discount[t], value_next[t]) - value[t]
            carry = weighted(discount[t], weighted(decay[t], advantage))
            advantage = delta + np.where(end[t], 0.0, carry)
            advantages[t] = advantage
        returns = advantages + value
    return GAE(shapes.restore(advantages), shapes.restore(returns))
