"""Generalised advantage estimation: the shipped scan is the discounted sum of the episode's TD errors.

Holds over the exact reals (rounding is bounded by the tests). Sampled: the length of the window, as each scope says;
every flag pattern of that length, every choice of bootstrap and every value is covered.
"""

from collections.abc import Mapping
from typing import Any

from rlscan.engine.spec import Kind, Slot, Spec
from rlscan.gae import SPEC

from .claims import BUT_THE_CARRYS, EVERY_CHOICE, EVERY_PATTERN, against, with_undefined
from .episodes import product, reads_window_value, rest, successor, times, total, window_value
from .registry import Case, Cases, Twin, statement
from .scan import pairs, scan
from .symbolic import derivative
from .twins import MULTIPLYING, changed, ignoring, rewired, with_multiplying_successor, wrong_sign
from .window import Window, windows

CARRIED = rewired(SPEC, carry=Slot("carry", Kind.ROW, "last_values"))


def delta(window: Window, t: int) -> Any:
    return window["rewards", t] + times(window["gamma", t], successor(window, t)) - window["values", t]


def definition(window: Window) -> list[tuple[Any, ...]]:
    """A_t = Σ_{k=t}^{end} (Π_{j=t}^{k-1} γ_j·λ_j)·δ_k, R_t = A_t + V_t."""
    results = []
    for t in range(window.T):
        advantage = total(
            times(product(window["gamma", j] * window["lambda_", j] for j in range(t, k)), delta(window, k))
            for k in rest(window, t)
        )
        results.append((advantage, advantage + window["values", t]))
    return results


@statement(
    scope=f"T ≤ 4, {EVERY_PATTERN}",
    twins=(
        Twin("β has the wrong sign", spec=wrong_sign(SPEC)),
        Twin("the bootstrap is counted twice", spec=CARRIED),
        Twin("the termination flag is read one step late", spec=rewired(SPEC, terminated=Kind.PREVIOUS_FLAG)),
        Twin("truncation does not end an episode", spec=ignoring(SPEC, "truncated")),
        Twin("V_t in the place of V_{t+1}", spec=rewired(SPEC, value_next=Kind.VALUE)),
        Twin("λ discounts the TD error", spec=changed(SPEC, lambda alpha, beta, lambda_, **_: (lambda_ * alpha, beta))),
    ),
)
def gae_is_a_backward_affine_scan(spec: Spec = SPEC) -> Cases:
    """A_t = Σ_{k=t}^{end} (Π γ_j·λ_j)·δ_k and R_t = A_t + V_t."""
    yield from against(definition, spec, steps=4)


@statement(
    scope=f"T ≤ 3, {EVERY_CHOICE}; {BUT_THE_CARRYS}",
    twins=(
        Twin("⊕ multiplies by zero", folding=MULTIPLYING),
        Twin("V' is multiplied by zero", spec=with_multiplying_successor(SPEC)),
    ),
)
def gae_uses_what_its_definition_uses(spec: Spec = SPEC, folding: Mapping[str, Any] | None = None) -> Cases:
    """An undefined reward, value, γ or λ makes exactly those results undefined whose sum contains it."""
    yield from with_undefined(definition, spec, 3, folding, carry_weights=("lambda_",))


@statement(
    scope="T ≤ 3, every flag pattern and choice of bootstrap; the derivative by V'_{T-1}",
    twins=(
        Twin("it enters through α and the carry", spec=CARRIED),
        Twin("it is lost", spec=rewired(SPEC, last_value=Kind.NO_VALUE, value_next=Kind.NO_VALUE)),
    ),
)
def the_window_value_enters_gae_once(spec: Spec = SPEC) -> Cases:
    """V'_{T-1} enters through α_{T-1} alone, with weight γ_{T-1}; and A_t with Π_{j=t}^{T-1} γ_j·Π_{j=t}^{T-2} λ_j."""
    for window in windows(spec, steps=3):
        value, last = window_value(window), window.T - 1
        steps, carry = pairs(spec, window)
        yield Case((window, "the carry"), derivative(carry, value), 0)
        for t, ((alpha, beta), (advantage, _)) in enumerate(zip(steps, scan(spec, window), strict=True)):
            enters = reads_window_value(window) and last in rest(window, t)
            discount = product(window["gamma", j] for j in range(t, last + 1))
            decay = product(window["lambda_", j] for j in range(t, last))
            yield Case((window, t, "α"), derivative(alpha, value), window["gamma", t] if enters and t == last else 0)
            yield Case((window, t, "β"), derivative(beta, value), 0)
            yield Case((window, t, "A"), derivative(advantage, value), discount * decay if enters else 0)
