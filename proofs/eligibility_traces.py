"""Accumulating eligibility traces: the shipped scan is the decayed sum of the episode's inputs so far.

Holds over the exact reals (rounding is bounded by the tests). Sampled: the length of the window, as each scope says.
"""

from collections.abc import Mapping
from typing import Any

from rlscan.eligibility_traces import SPEC
from rlscan.engine.spec import Kind, Slot, Spec

from .claims import against, with_undefined
from .episodes import product, so_far, times, total
from .registry import Cases, Twin, statement
from .twins import MULTIPLYING, rewired, wrong_sign
from .window import Window


def definition(window: Window) -> list[tuple[Any, ...]]:
    """z_t = Σ_{k=start}^{t} (Π_{j=k+1}^{t} γ_j·λ_j)·x_k, and (Π_{j=0}^{t} γ_j·λ_j)·z_{-1} in the first episode."""
    results = []
    for t in range(window.T):
        steps = so_far(window, t)

        def decay(k: int, t: int = t) -> Any:
            return product(window["gamma", j] * window["lambda_", j] for j in reversed(range(k + 1, t + 1)))

        trace = total(times(decay(k), window["inputs", k]) for k in steps)
        results.append((trace + times(decay(-1), window["initial", t]) if 0 in steps else trace,))
    return results


@statement(
    scope="T ≤ 5, every pattern of ends; γ, λ per step or one number",
    twins=(
        Twin("β has the wrong sign", spec=wrong_sign(SPEC)),
        Twin("the flag of step t", spec=rewired(SPEC, ended_before=Kind.FLAG)),
        Twin("the initial trace is lost", spec=rewired(SPEC, carry=Slot("carry", Kind.NO_VALUE))),
        Twin("γ_{t+1} in the place of γ_t", spec=rewired(SPEC, gamma=Kind.NEXT)),
    ),
)
def eligibility_traces_are_a_forward_affine_scan(spec: Spec = SPEC) -> Cases:
    """z_t = Σ_{k=start}^{t} (Π_{j=k+1}^{t} γ_j·λ_j)·x_k, and the initial trace decays into the first episode."""
    yield from against(definition, spec, steps=5)


@statement(
    scope="T ≤ 4, every pattern of ends; one value undefined, each in turn",
    twins=(Twin("⊕ multiplies by zero", folding=MULTIPLYING),),
)
def eligibility_traces_use_what_their_definition_uses(
    spec: Spec = SPEC, folding: Mapping[str, Any] | None = None
) -> Cases:
    """An undefined input, initial trace, γ or λ makes exactly those results undefined whose sum contains it."""
    yield from with_undefined(definition, spec, 4, folding, special_steps=4)
