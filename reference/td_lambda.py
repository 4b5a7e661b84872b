"""λ-returns: Sutton & Barto 2018, eq. 12.18 (γ_t and λ_t here are those of the step that leaves s_t)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, boundaries, layout, weighted


def td_lambda(
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
) -> Array:
    """λ-return of each step.

        G_t = r_t + γV'_t                          where the episode or the window ends
        G_t = r_t + γ[(1−λ)V'_t + λG_{t+1}]        inside

    Args:
        rewards: r_t, t in [0, T). [N, T, *F]; with time_dim=0 [T, N, *F]; or [T].
        values: V(s_t), t in [0, T), shaped as rewards; V(s_0) is unused.
        terminated: nonzero where the MDP ended at s_{t+1}. [N, T], [T, N] or [T].
        truncated: nonzero where the episode was cut at s_{t+1}, shaped as terminated; terminated wins.
        last_values: V(s_T), a float or [N, *F]. Must be given unless next_values is.
        truncation_values: V(s_{t+1}) at truncated steps, shaped as rewards; unused elsewhere.
        next_values: V(s_{t+1}) at every step, shaped as rewards; unused at terminated steps.
        gamma, lambda_: γ_t and λ_t, a number or shaped as terminated.
        time_dim: the axis of time, -1 or 1 for [N, T], 0 or -2 for [T, N].

    Raises:
        ValueError, TypeError: a wrong shape or dtype, or a successor value that is missing or given twice.

    >>> td_lambda([1, 2], [0, 4], [0, 0], last_values=8.0, gamma=0.5, lambda_=0.5)
    array([3.5, 6. ])
    """
    shapes = layout("terminated", terminated, "rewards", rewards, time_dim)
    reward, value = shapes.steps("rewards", rewards), shapes.steps("values", values)
    discount, decay = shapes.coefficient("gamma", gamma), shapes.coefficient("lambda_", lambda_)
    _, cut, value_next = boundaries(shapes, value, terminated, truncated, last_values, truncation_values, next_values)

    returns = np.empty_like(reward)
    return_next = np.zeros(reward.shape[1:])  # unused at T-1
    with np.errstate(all="ignore"):
        for t in reversed(range(len(reward))):
            inside = weighted(1.0 - decay[t], value_next[t]) + weighted(decay[t], return_next)
            return_next = reward[t] + weighted(discount[t], np.where(cut[t], value_next[t], inside))
            returns[t] = return_next
    return shapes.restore(returns)
