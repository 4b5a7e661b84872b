"""Prefix sums within episodes (a segmented scan: Blelloch 1990, section 1.5). Runs forward, has no γ or λ."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, layout


def prefix_sum(
    inputs: ArrayLike,
    ends: ArrayLike,
    *,
    initial: ArrayLike = 0.0,
    boundary: str = "ends_at",
    time_dim: int = -1,
) -> Array:
    """Sum of each episode's inputs up to and including each step.

        C_t = x_t + (1−f)C_{t-1},   C_{-1} = initial
        f = end_{t-1}, end_{-1} = 0 ("ends_at"), or f = flag_t ("starts_at")

    Args:
        inputs: x_t, t in [0, T). [N, T, *F]; with time_dim=0 [T, N, *F]; or [T].
        ends: nonzero where the episode ends with step t ("ends_at") or starts with step t ("starts_at").
            [N, T], [T, N] or [T].
        initial: C_{-1}, a float or [N, *F].
        boundary: "ends_at" or "starts_at".
        time_dim: the axis of time, -1 or 1 for [N, T], 0 or -2 for [T, N].

    Raises:
        ValueError, TypeError: a wrong shape, dtype or boundary.

    >>> prefix_sum([1, 2, 4], [0, 1, 0], initial=8.0)
    array([ 9., 11.,  4.])
    """
    if boundary not in ("ends_at", "starts_at"):
        raise ValueError(f'boundary must be "ends_at" or "starts_at", got {boundary!r}')
    shapes = layout("ends", ends, "inputs", inputs, time_dim)
    x, flag = shapes.steps("inputs", inputs), shapes.flags("ends", ends)

    restart = flag  # f
    if boundary == "ends_at":
        restart = np.zeros_like(flag)
        restart[1:] = flag[:-1]

    sums = np.empty_like(x)
    total = shapes.edge("initial", initial)
    with np.errstate(all="ignore"):
        for t in range(len(x)):
            total = x[t] + np.where(restart[t], 0.0, total)
            sums[t] = total
    return shapes.restore(sums)
