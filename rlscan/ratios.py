"""Importance ratios w = π(a_t|s_t) / μ(a_t|s_t), given as log-ratios."""

import math
import numbers

from .language import jit, tl


@jit
def clipped_ratio(log_ratio, clip):
    """min(clip, exp(log_ratio)), decided in log space, so that ±1000 is clean; a NaN stays a NaN."""
    return tl.where(log_ratio > tl.log(clip), clip, tl.exp(log_ratio))


def clip_number(name: str, clip: float | None) -> float:
    """The clip as the kernel takes it: infinity where there is none."""
    if type(clip) is float and clip >= 0:
        return clip
    if clip is None:
        return math.inf
    if not isinstance(clip, numbers.Real) or isinstance(clip, bool):
        raise TypeError(f"{name} is a {type(clip).__qualname__}; it should be a number or None")
    if not clip >= 0:
        raise ValueError(f"{name} is {clip!r}; it should be a number that is not negative, or None")
    return float(clip)
