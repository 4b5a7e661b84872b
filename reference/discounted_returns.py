"""Discounted returns: Sutton & Barto 2018, eq. 3.9, with a bootstrap where the episode is cut or the window ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, boundaries, layout, weighted


def discounted_returns(
    rewards: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    *,
    last_values: ArrayLike | None = None,
    truncation_values: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
    gamma: ArrayLike = 0.99,
    time_dim: int = -1,
) -> Array:
    """Discounted return of each step.

        G_t = r_t + γV'_t         where the episode or the window ends
        G_t = r_t + γG_{t+1}      inside

    Args:
        rewards: r_t, t in [0, T). [N, T, *F]; with time_dim=0 [T, N, *F]; or [T].
        terminated: nonzero where the MDP ended at s_{t+1}. [N, T], [T, N] or [T].
        truncated: nonzero where the episode was cut at s_{t+1}, shaped as terminated; terminated wins.
        last_values: V(s_T), a float or [N, *F]. Must be given unless next_values is.
        truncation_values: V(s_{t+1}) at truncated steps, shaped as rewards; unused elsewhere.
        next_values: V(s_{t+1}), shaped as rewards; used at truncated steps and at the last step only.
        gamma: γ_t, a number or shaped as terminated.
        time_dim: the axis of time, -1 or 1 for [N, T], 0 or -2 for [T, N].

    Raises:
        ValueError, TypeError: a wrong shape or dtype, or a successor value that is missing or given twice.

    >>> discounted_returns([1, 2, 4], [0, 1, 0], last_values=8.0, gamma=0.5)
    array([2., 2., 8.])
    """
    shapes = layout("terminated", terminated, "rewards", rewards, time_dim)
    reward = shapes.steps("rewards", rewards)
    discount = shapes.coefficient("gamma", gamma)
    no_values = np.full_like(reward, np.nan)  # V'_t inside an episode is unused
    _, cut, value_next = boundaries(
        shapes, no_values, terminated, truncated, last_values, truncation_values, next_values
    )

    returns = np.empty_like(reward)
    return_next = np.zeros(reward.shape[1:])  # unused at T-1
    with np.errstate(all="ignore"):
        for t in reversed(range(len(reward))):
            return_next = reward[t] + weighted(discount[t], np.where(cut[t], value_next[t], return_next))
            returns[t] = return_next
    return shapes.restore(returns)
