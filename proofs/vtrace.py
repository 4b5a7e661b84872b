"""V-trace: the shipped scan is the episode's sum of TD errors weighted by truncated ratios, and both published policy
advantages follow.

Holds over the exact reals (rounding is bounded by the tests). min(clip, w) is a symbol of its own, so every clip is
covered both reached and not reached; that the shipped select is this minimum is a statement of `ratios.py`. Sampled:
the length of the window, as each scope says.
"""

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

from rlscan.engine.spec import Kind, Slot, Spec
from rlscan.vtrace import SPECS

from .claims import BUT_THE_CARRYS, EVERY_CHOICE, EVERY_PATTERN, against, with_undefined
from .episodes import goes_on, product, reads_window_value, rest, successor, times, total, window_value
from .registry import Case, Cases, Twin, statement
from .scan import pairs, scan
from .symbolic import Reals, derivative, minimum
from .twins import MULTIPLYING, reading, rewired, with_multiplying_successor, wrong_sign
from .window import Window, windows

IMPALA, MIXED = SPECS["impala"], SPECS["mixed"]
RHO_CLIP, C_CLIP = (Slot(name, Kind.VALUE, name) for name in ("rho_clip", "c_clip"))
CARRIED = rewired(IMPALA, carry=Slot("carry", Kind.ROW, "last_values"))


def clipped(window: Window, clip: str, t: int) -> Any:
    return minimum(window[clip, t], Reals.exp(window["log_ratios", t]))


def delta(window: Window, t: int) -> Any:
    return window["rewards", t] + times(window["gamma", t], successor(window, t)) - window["values", t]


def decay(window: Window, first: int, end: int) -> Any:
    """Π γ_j·c_j of the steps from `first` up to, not including, `end`."""
    return product(
        times(window["gamma", j], times(window["lambda_", j], clipped(window, "c_clip", j))) for j in range(first, end)
    )


def target(window: Window, t: int) -> Any:
    """v_t = V_t + Σ_{k=t}^{end} (Π_{j=t}^{k-1} γ_j·c_j)·ρ_k·δ_k."""
    return window["values", t] + total(
        times(decay(window, t, k), times(clipped(window, "rho_clip", k), delta(window, k))) for k in rest(window, t)
    )


def definition(window: Window, advantage: str) -> list[tuple[Any, ...]]:
    """v_t, and ρ^pg_t·(r_t + γ_t·v'_t − V_t)."""
    results = []
    for t in range(window.T):
        target_next = successor(window, t)
        if goes_on(window, t):
            target_next = target(window, t + 1)
            if advantage == "mixed":
                lambda_ = window["lambda_", t]
                target_next = times(lambda_, target_next) + times(1 - lambda_, successor(window, t))
        error = window["rewards", t] + times(window["gamma", t], target_next) - window["values", t]
        results.append((target(window, t), times(clipped(window, "pg_rho_clip", t), error)))
    return results


impala, mixed = (functools.partial(definition, advantage=name) for name in ("impala", "mixed"))
DEFINITIONS = {"impala": impala, "mixed": mixed}


@statement(
    scope=f"T ≤ 4, {EVERY_PATTERN}",
    twins=(
        Twin("β has the wrong sign", spec=wrong_sign(IMPALA)),
        Twin("ρ and c are swapped", spec=rewired(IMPALA, rho_clip=C_CLIP, c_clip=RHO_CLIP)),
        Twin("the bootstrap is counted twice", spec=CARRIED),
        Twin("the truncation flag is read one step late", spec=rewired(IMPALA, truncated=Kind.PREVIOUS_FLAG)),
        Twin("the advantage reads the next episode behind a truncation", spec=reading(IMPALA, truncated=False)),
        Twin("the advantage reads behind the window", spec=reading(IMPALA, window_ends=False)),
        Twin("the advantage's ratio is not its own", spec=rewired(IMPALA, pg_rho_clip=RHO_CLIP)),
        Twin("the advantage is the mixed one", spec=MIXED),
    ),
)
def vtrace_is_a_backward_affine_scan(spec: Spec = IMPALA) -> Cases:
    """v_t = V_t + Σ_{k=t}^{end} (Π γ_j·c_j)·ρ_k·δ_k, the advantage is ρ^pg_t·(r_t + γ_t·v'_t − V_t), v'_t = v_{t+1}."""
    yield from against(impala, spec, steps=4)


@statement(
    scope="T ≤ 3, as vtrace_is_a_backward_affine_scan",
    twins=(
        Twin("v_{t+1} alone", spec=IMPALA),
        Twin("the advantage reads the next episode", spec=reading(MIXED, truncated=False, terminated=False)),
    ),
)
def mixed_vtrace_advantages_follow_their_definition(spec: Spec = MIXED) -> Cases:
    """With advantage="mixed" v'_t = λ_t·v_{t+1} + (1 − λ_t)·V'_t inside an episode."""
    yield from against(mixed, spec, steps=3)


@statement(
    scope="T ≤ 2, every flag pattern and choice of bootstrap, both advantages; each clip 0 or absent",
    twins=(Twin("ρ and c are swapped", specs={"impala": rewired(IMPALA, rho_clip=C_CLIP, c_clip=RHO_CLIP)}),),
)
def vtrace_without_a_clip_or_with_clip_zero_is_vtrace(specs: Mapping[str, Spec] = SPECS) -> Cases:
    """An absent clip is min(∞, w) = w, and clip 0 is min(0, w) = 0."""
    for name, spec in specs.items():
        for clips in itertools.product((0, math.inf), repeat=3):
            named = dict(zip(("rho_clip", "c_clip", "pg_rho_clip"), clips, strict=True))
            yield from against(DEFINITIONS[name], spec, steps=2, **named)


@statement(
    scope=f"T ≤ 2, {EVERY_CHOICE}, both advantages; {BUT_THE_CARRYS}",
    twins=(
        Twin("⊕ multiplies by zero", folding=MULTIPLYING),
        Twin("V' is multiplied by zero", specs={"impala": with_multiplying_successor(IMPALA)}),
        Twin("the advantage reads the next episode", specs={"impala": reading(IMPALA, truncated=False)}),
    ),
)
def vtrace_uses_what_its_definition_uses(
    specs: Mapping[str, Spec] = SPECS, folding: Mapping[str, Any] | None = None
) -> Cases:
    """An undefined reward, value, ratio, γ or λ makes exactly those results undefined whose definition contains it."""
    for name, spec in specs.items():
        special = 2 if name == "mixed" else 1
        weights = ("gamma", "lambda_")
        yield from with_undefined(DEFINITIONS[name], spec, 2, folding, special_steps=special, carry_weights=weights)


@statement(
    scope=f"T ≤ 3, {EVERY_CHOICE}; the derivative by V'_{{T-1}}",
    twins=(
        Twin("it enters through α and the carry", spec=CARRIED),
        Twin("it is lost", spec=rewired(IMPALA, last_value=Kind.NO_VALUE, value_next=Kind.NO_VALUE)),
    ),
)
def the_window_value_enters_vtrace_once(spec: Spec = IMPALA) -> Cases:
    """V'_{T-1} enters through α_{T-1} alone, as ρ_{T-1}·γ_{T-1}; and v_t with that times Π_{j=t}^{T-2} γ_j·c_j."""
    for window in windows(spec, steps=3):
        value, last = window_value(window), window.T - 1
        steps, carry = pairs(spec, window)
        yield Case((window, "the carry"), derivative(carry, value), 0)
        weight = clipped(window, "rho_clip", last) * window["gamma", last]
        for t, ((alpha, beta), (v, _)) in enumerate(zip(steps, scan(spec, window), strict=True)):
            enters = reads_window_value(window) and last in rest(window, t)
            yield Case((window, t, "α"), derivative(alpha, value), weight if enters and t == last else 0)
            yield Case((window, t, "β"), derivative(beta, value), 0)
            yield Case((window, t, "v"), derivative(v, value), decay(window, t, last) * weight if enters else 0)
