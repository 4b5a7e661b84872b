"""TD(λ): the shipped scan is the λ-weighted mixture of the n-step returns.

Holds over the exact reals (rounding is bounded by the tests). Sampled: the length of the window, as each scope says.
"""

from collections.abc import Mapping
from typing import Any

from rlscan.engine.spec import Kind, Spec
from rlscan.td_lambda import SPEC

from .claims import EVERY_CHOICE, EVERY_PATTERN, against, with_undefined
from .episodes import product, reads_window_value, rest, successor, times, total, window_value
from .registry import Case, Cases, Twin, statement
from .scan import pairs, scan
from .symbolic import derivative
from .twins import MULTIPLYING, changed, ignoring, rewired, with_multiplying_successor, wrong_sign
from .window import Window, windows

# the window value with its share 1 − λ, as inside an episode
MIXED = changed(
    SPEC,
    lambda alpha, beta, gamma, lambda_, is_last, last_value, **_: (
        alpha - (gamma * lambda_ * last_value if is_last else 0),
        beta,
    ),
)
DOUBLED = changed(
    SPEC,
    lambda alpha, beta, gamma, lambda_, is_last, last_value, **_: (
        alpha + (gamma * lambda_ * last_value if is_last else 0),
        beta,
    ),
)


def n_step_return(window: Window, t: int, n: int) -> Any:
    """G_t^{(n)} = Σ_{i<n} (Π γ)·r_{t+i} + (Π γ)·V'_{t+n-1}."""
    rewards = total(
        times(product(window["gamma", j] for j in range(t, k)), window["rewards", k]) for k in range(t, t + n)
    )
    return rewards + times(product(window["gamma", j] for j in range(t, t + n)), successor(window, t + n - 1))


def definition(window: Window) -> list[tuple[Any, ...]]:
    """G_t = Σ_n (Π_{j<n-1} λ_{t+j})·(1 − λ_{t+n-1})·G_t^{(n)}, the longest return with all the weight that is left."""
    results = []
    for t in range(window.T):
        longest = len(rest(window, t))
        left = [product(window["lambda_", t + j] for j in range(n - 1)) for n in range(1, longest + 1)]
        mixture = total(
            times(left[n - 1], times(1 - window["lambda_", t + n - 1], n_step_return(window, t, n)))
            for n in range(1, longest)
        )
        results.append((mixture + times(left[-1], n_step_return(window, t, longest)),))
    return results


@statement(
    scope=f"T ≤ 4, {EVERY_PATTERN}",
    twins=(
        Twin("β has the wrong sign", spec=wrong_sign(SPEC)),
        Twin("the window value is mixed", spec=MIXED),
        Twin("the window value enters twice", spec=DOUBLED),
        Twin("the truncation flag is read one step late", spec=rewired(SPEC, truncated=Kind.PREVIOUS_FLAG)),
        Twin("truncation does not end an episode", spec=ignoring(SPEC, "truncated")),
        Twin(
            "V' has the weight 1 inside an episode",
            spec=changed(
                SPEC,
                lambda alpha, beta, gamma, lambda_, value_next, is_last, terminated, truncated, **_: (
                    alpha if is_last or terminated or truncated else alpha + gamma * lambda_ * value_next,
                    beta,
                ),
            ),
        ),
    ),
)
def td_lambda_is_a_backward_affine_scan(spec: Spec = SPEC) -> Cases:
    """G_t is the mixture of the n-step returns to the episode's end, weighted (1 − λ)·λ^{n-1}, the longest λ^{n-1}."""
    yield from against(definition, spec, steps=4)


@statement(
    scope=f"T ≤ 3, {EVERY_CHOICE}",
    twins=(
        Twin("⊕ multiplies by zero", folding=MULTIPLYING),
        Twin("V' is multiplied by zero", spec=with_multiplying_successor(SPEC)),
    ),
)
def td_lambda_uses_what_its_definition_uses(spec: Spec = SPEC, folding: Mapping[str, Any] | None = None) -> Cases:
    """An undefined reward, value, γ or λ makes exactly those results undefined whose mixture contains it."""
    yield from with_undefined(definition, spec, 3, folding)


@statement(
    scope="T ≤ 3, every flag pattern and choice of bootstrap; the derivative by V'_{T-1}",
    twins=(Twin("it is mixed", spec=MIXED), Twin("it enters twice", spec=DOUBLED)),
)
def the_window_value_enters_td_lambda_with_weights_that_add_to_gamma(spec: Spec = SPEC) -> Cases:
    """V'_{T-1} enters through α_{T-1} with γ and through the carry with 0, which add to γ; and G_t with
    Π_{j=t}^{T-1} γ_j·Π_{j=t}^{T-2} λ_j."""
    for window in windows(spec, steps=3):
        value, last = window_value(window), window.T - 1
        steps, carry = pairs(spec, window)
        reads = reads_window_value(window)
        for t, ((alpha, beta), (result,)) in enumerate(zip(steps, scan(spec, window), strict=True)):
            enters = reads and last in rest(window, t)
            yield Case((window, t, "β"), derivative(beta, value), 0)
            if t < last:
                yield Case((window, t, "α"), derivative(alpha, value), 0)
            else:
                through_carry = beta * derivative(carry, value)
                gamma = window["gamma", t] if reads else 0
                yield Case((window, t, "the carry"), through_carry, 0)
                yield Case((window, t, "the sum"), derivative(alpha, value) + through_carry, gamma)
            weight = product(window["gamma", j] for j in rest(window, t)) * product(
                window["lambda_", j] for j in range(t, last)
            )
            yield Case((window, t, "G"), derivative(result, value), weight if enters else 0)
