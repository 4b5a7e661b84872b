"""Discounted returns: the shipped scan is the discounted sum of the episode's rewards and of the value where it is cut.

Holds over the exact reals (rounding is bounded by the tests). Sampled: the length of the window, as each scope says.
"""

from collections.abc import Mapping
from typing import Any

from rlscan.discounted_returns import SPEC
from rlscan.engine.spec import Kind, Slot, Spec

from .claims import EVERY_CHOICE, EVERY_PATTERN, UNDEFINED_IN_TURN, against, with_undefined
from .episodes import ends, product, reads_window_value, rest, successor, times, total, window_value
from .registry import Case, Cases, Twin, statement
from .scan import pairs, scan
from .symbolic import derivative
from .twins import MULTIPLYING, changed, ignoring, rewired, with_multiplying_successor, wrong_sign
from .window import Window, windows

NOT_CARRIED = rewired(SPEC, carry=Slot("carry", Kind.NO_VALUE))
DOUBLED = changed(
    SPEC, lambda alpha, beta, gamma, is_last, last_value, **_: (alpha + (gamma * last_value if is_last else 0), beta)
)


def definition(window: Window) -> list[tuple[Any, ...]]:
    """G_t = Σ_{k=t}^{end} (Π_{j=t}^{k-1} γ_j)·r_k + (Π_{j=t}^{end} γ_j)·V'_end."""
    results = []
    for t in range(window.T):
        steps = rest(window, t)
        rewards = total(times(product(window["gamma", j] for j in range(t, k)), window["rewards", k]) for k in steps)
        results.append((rewards + times(product(window["gamma", j] for j in steps), successor(window, steps[-1])),))
    return results


@statement(
    scope=f"T ≤ 4, {EVERY_PATTERN}",
    twins=(
        Twin("β has the wrong sign", spec=wrong_sign(SPEC)),
        Twin("the window value is lost", spec=NOT_CARRIED),
        Twin("the window value enters twice", spec=DOUBLED),
        Twin("the termination flag is read one step late", spec=rewired(SPEC, terminated=Kind.PREVIOUS_FLAG)),
        Twin("truncation does not end an episode", spec=ignoring(SPEC, "truncated")),
    ),
)
def discounted_returns_are_a_backward_affine_scan(spec: Spec = SPEC) -> Cases:
    """G_t = Σ_{k=t}^{end} (Π γ_j)·r_k + (Π γ_j)·V'_end."""
    yield from against(definition, spec, steps=4)


@statement(
    scope=f"T ≤ 3, {EVERY_CHOICE}; {UNDEFINED_IN_TURN}",
    twins=(
        Twin("⊕ multiplies by zero", folding=MULTIPLYING),
        Twin("V' is multiplied by zero", spec=with_multiplying_successor(SPEC)),
    ),
)
def discounted_returns_use_what_their_definition_uses(
    spec: Spec = SPEC, folding: Mapping[str, Any] | None = None
) -> Cases:
    """An undefined reward, value or γ makes exactly those results undefined whose sum contains it."""
    yield from with_undefined(definition, spec, 3, folding)


@statement(
    scope="T ≤ 3, every flag pattern and choice of bootstrap; the derivative by V'_{T-1}",
    twins=(Twin("it is lost", spec=NOT_CARRIED), Twin("it enters twice", spec=DOUBLED)),
)
def the_window_value_enters_discounted_returns_with_weight_gamma(spec: Spec = SPEC) -> Cases:
    """V'_{T-1} enters through the carry alone, or α alone where the episode is cut there, with weight γ_{T-1}; and G_t
    with Π_{j=t}^{T-1} γ_j."""
    for window in windows(spec, steps=3):
        value, last = window_value(window), window.T - 1
        steps, carry = pairs(spec, window)
        reads = reads_window_value(window)
        for t, ((alpha, beta), (result,)) in enumerate(zip(steps, scan(spec, window), strict=True)):
            in_alpha = reads and t == last and ends(window, t)
            yield Case((window, t, "α"), derivative(alpha, value), window["gamma", t] if in_alpha else 0)
            yield Case((window, t, "β"), derivative(beta, value), 0)
            if t == last:
                carried = beta * derivative(carry, value)
                yield Case((window, t, "the carry"), carried, window["gamma", t] if reads and not in_alpha else 0)
            enters = reads and last in rest(window, t)
            weight = product(window["gamma", j] for j in rest(window, t))
            yield Case((window, t, "G"), derivative(result, value), weight if enters else 0)
