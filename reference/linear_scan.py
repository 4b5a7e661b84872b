"""The first-order linear recurrence itself (Blelloch 1990, section 1.4). Takes α and β, either direction, no flags."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, layout, weighted


def linear_scan(
    alpha: ArrayLike,
    beta: ArrayLike,
    *,
    initial: ArrayLike = 0.0,
    reverse: bool = False,
    time_dim: int = -1,
) -> Array:
    """Solution of the recurrence.

        x_t = α_t + β_t · x_{t-1},   x_{-1} = initial      (forward)
        x_t = α_t + β_t · x_{t+1},   x_T = initial         (reverse)

    Args:
        alpha: α_t, t in [0, T). [N, T, *F]; with time_dim=0 [T, N, *F]; or [T].
        beta: β_t, shaped as alpha, or [N, T] ([T, N]) shared by the features. β_t = 0 cuts, whatever lies beyond.
        initial: a float or [N, *F].
        reverse: run from the last step to the first.
        time_dim: the axis of time, -1 or 1 for [N, T], 0 or -2 for [T, N].

    Raises:
        ValueError, TypeError: a wrong shape or dtype.

    >>> linear_scan([1, 2, 4], [0.5, 0.5, 0.5], initial=8.0, reverse=True)
    array([4., 6., 8.])
    """
    per_feature = np.ndim(beta) > 2
    rows = np.empty(np.shape(beta)[:2]) if per_feature else beta
    shapes = layout("beta", rows, "alpha", alpha, time_dim)
    a = shapes.steps("alpha", alpha)
    b = shapes.steps("beta", beta) if per_feature else shapes.row_steps("beta", beta)

    states = np.empty_like(a)
    state = shapes.edge("initial", initial)
    with np.errstate(all="ignore"):
        for t in reversed(range(len(a))) if reverse else range(len(a)):
            state = a[t] + weighted(b[t], state)
            states[t] = state
    return shapes.restore(states)
