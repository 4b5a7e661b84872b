"""A clip in log space is the minimum.

Holds over the exact reals with ±∞ (rounding is bounded by the tests). Nothing is sampled: a ratio above, at or below
a clip is clip·(1 + d), clip or clip/(1 + d) with a positive d.
"""

from typing import Any

import sympy

from rlscan.language import is_jit, read_in
from rlscan.ratios import clipped_ratio

from .registry import Case, Cases, Twin, statement
from .symbolic import Expressions

CLIP, D, RATIO = sympy.symbols("clip d ratio", positive=True)


def maximum(log_ratio: Any, clip: Any) -> Any:
    return Expressions.where(log_ratio < Expressions.log(clip), clip, Expressions.exp(log_ratio))


def without_exp(log_ratio: Any, clip: Any) -> Any:
    return Expressions.where(log_ratio > Expressions.log(clip), clip, log_ratio)


@statement(
    scope="clip 0, a positive symbol or ∞; ratio 0, a symbol above, at or below the clip, or ∞",
    over="exact reals with ±∞",
    twins=(
        Twin("the maximum", clipped=maximum),
        Twin("the log ratio in the place of the ratio", clipped=without_exp),
    ),
)
def a_clip_in_log_space_is_the_minimum(clipped: Any = clipped_ratio) -> Cases:
    """clipped_ratio(log w, clip) = min(clip, w)."""
    clipped = read_in(clipped, Expressions) if is_jit(clipped) else clipped
    log_clip, log_step = sympy.log(CLIP), sympy.log(1 + D)
    yield Case("above", clipped(log_clip + log_step, CLIP), CLIP)
    yield Case("at", clipped(log_clip, CLIP), CLIP)
    yield Case("below", sympy.expand_mul(clipped(log_clip - log_step, CLIP) * (1 + D) / CLIP), 1)
    yield Case("ratio 0", clipped(-sympy.oo, CLIP), 0)
    yield Case("ratio ∞", clipped(sympy.oo, CLIP), CLIP)
    yield Case("no clip", clipped(sympy.log(RATIO), sympy.oo), RATIO)
    yield Case("no clip, ratio ∞", clipped(sympy.oo, sympy.oo), sympy.oo)
    yield Case("clip 0", clipped(sympy.log(1 + D), sympy.Integer(0)), 0)
    yield Case("clip 0, ratio 0", clipped(-sympy.oo, sympy.Integer(0)), 0)
