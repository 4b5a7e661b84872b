"""Accumulating eligibility traces: Sutton & Barto 2018, eq. 12.5. Runs forward in time, and takes no values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, layout, weighted


def eligibility_traces(
    inputs: ArrayLike,
    ends: ArrayLike,
    *,
    initial: ArrayLike = 0.0,
    gamma: ArrayLike = 0.99,
    lambda_: ArrayLike = 0.9,
    time_dim: int = -1,
) -> Array:
    """Trace after each step.

        z_t = x_t + γλ(1−end_{t-1})z_{t-1},   end_{-1} = 0,  z_{-1} = initial

    Args:
        inputs: x_t, t in [0, T). [N, T, *F]; with time_dim=0 [T, N, *F]; or [T].
        ends: nonzero where the episode ends with step t, terminated or truncated. [N, T], [T, N] or [T].
        initial: z_{-1}, a float or [N, *F].
        gamma, lambda_: γ_t and λ_t, which decay z_{t-1} into z_t; a number or shaped as ends.
        time_dim: the axis of time, -1 or 1 for [N, T], 0 or -2 for [T, N].

    Raises:
        ValueError, TypeError: a wrong shape or dtype.

    >>> eligibility_traces([1, 1, 1], [0, 1, 0], initial=2.0, gamma=0.5, lambda_=1.0)
    array([2., 2., 1.])
    """
    shapes = layout("ends", ends, "inputs", inputs, time_dim)
    x, end = shapes.steps("inputs", inputs), shapes.flags("ends", ends)
    discount, decay = shapes.coefficient("gamma", gamma), shapes.coefficient("lambda_", lambda_)

    end_before = np.zeros_like(end)  # end_{t-1}
    end_before[1:] = end[:-1]

    traces = np.empty_like(x)
    trace = shapes.edge("initial", initial)
    with np.errstate(all="ignore"):
        for t in range(len(x)):
            carry = weighted(discount[t], weighted(decay[t], trace))
            trace = x[t] + np.where(end_before[t], 0.0, carry)
            traces[t] = trace
    return shapes.restore(traces)
