"""What the loops share: shapes, the boundary definition V'_t and end_t, the select, and the clipped ratio.

Inside this folder every array is time first, [T, N, *F] or [T] for a single row, so that x[t] is step t of every row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def weighted(weight: Any, x: Any) -> Array:
    """weight · x, and exactly 0 where weight is 0, whatever x is."""
    return np.where(weight == 0.0, 0.0, weight * x)


def ratios(log_ratios: Array, clip_name: str, clip: float | None) -> Array:
    """min(clip, w) from log w, clipped before exp so that ±1000 is clean. NaN stays NaN. None does not clip."""
    with np.errstate(all="ignore"):
        if clip is None:
            return np.exp(log_ratios)
        if not clip >= 0.0:
            raise ValueError(f"{clip_name} must be a number >= 0 or None, got {clip!r}")
        log_clip = np.log(np.float64(clip))  # -inf for a clip of 0
        return np.where(log_ratios >= log_clip, clip, np.exp(np.minimum(log_ratios, log_clip)))


class Layout(NamedTuple):
    """The caller's shapes, and the way from them to time first and back."""

    rows: tuple[int, ...]  # of flags, γ, λ and ratios: [N, T], [T, N] or [T]
    full: tuple[int, ...]  # of rewards, values and results: rows and any trailing features
    axis: int  # of time, in both

    def steps(self, name: str, x: ArrayLike) -> Array:
        """One number per step and feature, as [T, N, *F]."""
        return np.moveaxis(_of_shape(name, x, self.full), self.axis, 0).astype(np.float64)

    def row_steps(self, name: str, x: ArrayLike) -> Array:
        """One number per step, shared by the features, as [T, N, *1]."""
        return self._over_features(_of_shape(name, x, self.rows)).astype(np.float64)

    def coefficient(self, name: str, x: ArrayLike) -> Array:
        """γ or λ: one number, or one per step; as [T, N, *1]."""
        if np.ndim(x) == 0:
            return np.full(self._over_features(np.empty(self.rows)).shape, _numbers(name, x), dtype=np.float64)
        return self.row_steps(name, x)

    def flags(self, name: str, x: ArrayLike | None) -> Flags:
        """Nonzero is set, None is never set; as [T, N, *1]."""
        if x is None:
            return np.zeros(self._over_features(np.empty(self.rows)).shape, dtype=np.bool_)
        return self._over_features(_of_shape(name, x, self.rows)).astype(np.bool_)

    def edge(self, name: str, x: ArrayLike) -> Array:
        """The value outside the window, one number or one per row; as [N, *F]."""
        shape = self.full[: self.axis] + self.full[self.axis + 1 :]
        value = _numbers(name, x) if np.ndim(x) == 0 else _of_shape(name, x, shape)
        return np.full(shape, value, dtype=np.float64)

    def restore(self, x: Array) -> Array:
        """Time first → the caller's layout."""
        return np.ascontiguousarray(np.moveaxis(x, 0, self.axis))

    def _over_features(self, x: NDArray[Any]) -> NDArray[Any]:
        features = len(self.full) - len(self.rows)
        return np.moveaxis(x, self.axis, 0).reshape(self._time_first_rows() + (1,) * features)

    def _time_first_rows(self) -> tuple[int, ...]:
        return (self.rows[self.axis], *self.rows[: self.axis], *self.rows[self.axis + 1 :])


def layout(row_name: str, row_array: ArrayLike, name: str, array: ArrayLike, time_dim: int) -> Layout:
    """The layout that `row_array` (one number per step) and `array` (and per feature) agree on."""
    rows, full = np.shape(row_array), np.shape(array)
    if len(rows) not in (1, 2):
        raise ValueError(f"{row_name} must be [T], [N, T] or, with time_dim=0, [T, N], got shape {rows}")
    if not -len(rows) <= time_dim < len(rows):
        raise ValueError(f"time_dim must be an axis of {row_name} of shape {rows}, got {time_dim!r}")
    if full[: len(rows)] != rows or (len(rows) == 1 and len(full) > 1):
        raise ValueError(
            f"{name} must have the shape {rows} of {row_name} (trailing features need 2-D {row_name}), got {full}"
        )
    return Layout(rows, full, time_dim % len(rows))


class Boundaries(NamedTuple):
    """Where episodes end and what follows each step; time first."""

    end: Flags  # end_t = terminated_t or truncated_t
    cut: Flags  # end_t, or the last step of the window
    value_next: Array  # V'_t


def boundaries(
    shapes: Layout,
    values: Array,
    terminated: ArrayLike,
    truncated: ArrayLike | None,
    last_values: ArrayLike | None,
    truncation_values: ArrayLike | None,
    next_values: ArrayLike | None,
) -> Boundaries:
    """V'_t by precedence: (1) terminated_t → 0; (2) truncated_t → truncation_values_t; (3) t = T-1 → last_values;
    (4) otherwise values_{t+1}. `next_values`, if given, replaces rules 2 to 4. Written below from the last rule to
    the first, each overriding the one before.
    """
    if next_values is not None and truncation_values is not None:
        raise ValueError(
            "next_values and truncation_values were both given: next_values holds V at truncated steps too"
        )
    if next_values is None and last_values is None:
        raise ValueError(
            "last_values is missing: give V(s_T) as a float such as 0.0 or one per row, or give next_values"
        )
    if truncated is not None and truncation_values is None and next_values is None:
        raise ValueError("truncated needs truncation_values or next_values: V(s_{t+1}) is not in the buffer there")

    is_terminated = shapes.flags("terminated", terminated)
    is_truncated = shapes.flags("truncated", truncated)
    end = is_terminated | is_truncated
    cut = end.copy()
    cut[-1:] = True

    value_next = np.empty_like(values)
    value_next[:-1] = values[1:]
    if last_values is not None:
        value_next[-1:] = shapes.edge("last_values", last_values)
    if truncation_values is not None:
        value_next = np.where(is_truncated, shapes.steps("truncation_values", truncation_values), value_next)
    if next_values is not None:
        value_next = shapes.steps("next_values", next_values)
    value_next = np.where(is_terminated, 0.0, value_next)
    return Boundaries(end, cut, value_next)


def _numbers(name: str, x: ArrayLike) -> NDArray[Any]:
    array = np.asarray(x)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers or booleans, got {type(x).__name__} of dtype {array.dtype}")
    return array


def _of_shape(name: str, x: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    array = _numbers(name, x)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array
