"""Episodic prefix sums: the shipped scan is the sum of the episode's inputs so far, for both flag conventions.

Holds over the exact reals (rounding is bounded by the tests). Sampled: the length of the window, as each scope says.
That the conventions convert into each other exactly is a statement of `boundaries.py`.
"""

from collections.abc import Mapping
from typing import Any

from rlscan.engine.spec import Kind, Slot, Spec
from rlscan.prefix_sum import SPECS

from .claims import Definition, against, with_undefined
from .episodes import so_far, total
from .registry import Cases, Twin, statement
from .twins import MULTIPLYING, rewired, wrong_sign
from .window import Window


def ends_at(window: Window) -> list[tuple[Any, ...]]:
    """C_t = Σ_{k=start}^{t} x_k, and C_{-1} in the first episode; `ends` flags the last step of an episode."""
    results = []
    for t in range(window.T):
        steps = so_far(window, t)
        carried = window["initial", t] if 0 in steps else 0
        results.append((carried + total(window["inputs", k] for k in steps),))
    return results


def starts_at(window: Window) -> list[tuple[Any, ...]]:
    """The same where `ends` flags the first step of an episode: a flag at step 0 leaves C_{-1} out."""
    results = []
    for t in range(window.T):
        starts = [k for k in range(t + 1) if window["ends", k]]
        carried = 0 if starts else window["initial", t]
        results.append((carried + total(window["inputs", k] for k in range(starts[-1] if starts else 0, t + 1)),))
    return results


DEFINITIONS: dict[str, Definition] = {"ends_at": ends_at, "starts_at": starts_at}
SWAPPED = {"ends_at": SPECS["starts_at"], "starts_at": SPECS["ends_at"]}


@statement(
    scope="T ≤ 6, every pattern of flags, both conventions",
    twins=(
        Twin("the conventions are swapped", specs=SWAPPED),
        Twin("β has the wrong sign", specs={name: wrong_sign(spec) for name, spec in SPECS.items()}),
        Twin(
            "the initial sum is lost",
            specs={name: rewired(spec, carry=Slot("carry", Kind.NO_VALUE)) for name, spec in SPECS.items()},
        ),
    ),
)
def prefix_sum_is_a_forward_affine_scan(specs: Mapping[str, Spec] = SPECS) -> Cases:
    """C_t = Σ_{k=start}^{t} x_k, and the initial sum enters the episode that is under way."""
    for name, spec in specs.items():
        yield from against(DEFINITIONS[name], spec, steps=6)


@statement(
    scope="T ≤ 4, every pattern of flags, both conventions; one value undefined, each in turn",
    twins=(Twin("⊕ multiplies by zero", folding=MULTIPLYING),),
)
def prefix_sum_uses_what_its_definition_uses(folding: Mapping[str, Any] | None = None) -> Cases:
    """An undefined input or initial sum makes exactly those results undefined whose sum contains it."""
    for name, spec in SPECS.items():
        yield from with_undefined(DEFINITIONS[name], spec, 4, folding)
