"""Which known fault a function looks like: what code with each of them would give, against what it gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from ..verify.strategies import Example, Numbers
from ..verify.tolerance import UNIT, outside
from .anatomy import start_from_last_value
from .fuzzing import Failure, Function, bound, expected, more, try_on
from .kinds import Kind
from .options import RESULTS, Options, call
from .weights import KINDS, axes_swapped

MULTIPLIED = "multiplied by zero instead of selected"
OVERFLOWED = "ratio not clipped before exp"
AXES = "axes swapped"
# of the kinds that are not parts of a definition
CASES = {
    MULTIPLIED: ("c54_nan_next", "c55_nan_other_episode"),
    OVERFLOWED: ("c29_logratio_overflow",),
    AXES: ("c64_layout",),
}


def finite(example: Example) -> Example:
    """With a number wherever there was NaN or Inf."""
    return changed(example, lambda x: np.where(np.isfinite(x), x, Numbers.FINITE_GARBAGE[0]))


def moderate(example: Example) -> Example:
    """With log-ratios whose exponential does not overflow."""
    return changed(example, lambda x: np.clip(x, -8.0, 8.0), ("log_ratios",))


def changed(example: Example, change: Callable[[Any], Any], names: tuple[str, ...] = ()) -> Example:
    """Every array of numbers, or those of these names, changed."""
    arguments = {
        name: change(x) if isinstance(x, np.ndarray) and x.dtype != bool and name in (names or (name,)) else x
        for name, x in example.arguments.items()
    }
    return replace(example, arguments=arguments, exact=False)


HARMLESS = (
    (
        MULTIPLIED,
        "right where no NaN or Inf is about: a product with a weight of 0 keeps a NaN, a select does not",
        finite,
    ),
    (OVERFLOWED, "right where log-ratios are moderate: exp of a large one is Inf, and Inf times 0 is NaN", moderate),
)


@dataclass(frozen=True)
class Diagnosis:
    """Kinds that explain every result seen, likeliest first; several names in `kinds` where it takes two at once."""

    kinds: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    together: bool = False
    tried: int = 0


@dataclass(frozen=True)
class Evidence:
    """What the function gave on a rollout, and how far a right one may be from its own definition."""

    example: Example
    got: dict[str, Any]
    bound: dict[str, Any]

    @property
    def tells(self) -> bool:
        """Whether some number is wrong, rather than NaN or infinite."""
        right = expected(self.example)
        return any((outside(x, right[k], self.bound[k]) & np.isfinite(x)).any() for k, x in self.got.items())

    def fits(self, results: tuple[Any, ...]) -> bool:
        """Whether these are the function's results. A wrong result rounds like a right one of its own size;
        where a function overflows, nothing is said.
        """
        names = RESULTS[self.example.setup.estimator]
        for name, x in zip(names, results, strict=True):
            if name in self.got:
                size = UNIT[self.example.setup.dtype] * 64
                limit = np.where(np.isfinite(self.bound[name]), self.bound[name], 0.0) * 2
                if (outside(self.got[name], x, limit + size * np.abs(x)) & np.isfinite(self.got[name])).any():
                    return False
        return True


def diagnose(function: Function, options: Options, failure: Failure) -> Diagnosis:
    """The kinds that give what the function gives on the counterexample and on more rollouts."""
    found = [failure.example, *more(options)]
    for name, says, harmless in HARMLESS:
        if all(try_on(function, options, harmless(example)) is None for example in found):
            return Diagnosis((name,), (says,), tried=1)
    evidence = [e for e in (look(function, options, example) for example in found) if e]
    if not any(e.tells for e in evidence):
        return Diagnosis()
    swapped = [(e, axes_swapped(e.example)) for e in evidence if e.example.steps > 1]
    square = [e.fits(results) for e, results in swapped if results is not None]
    if square and all(square):
        return Diagnosis((AXES,), ("time was read along the rows: the layout is the other one",), tried=1)
    if failure.words:
        return Diagnosis()
    candidates = [kind for kind in KINDS if options.estimator in kind.estimators]
    alone = [kind for kind in candidates if explains(evidence, kind)]
    if alone:
        names = tuple(dict.fromkeys(kind.name for kind in alone))
        return Diagnosis(
            names, tuple(next(k.says for k in alone if k.name == name) for name in names), tried=len(candidates)
        )
    for pair in combinations(candidates, 2):
        if explains(evidence, *pair):
            return Diagnosis(tuple(k.name for k in pair), tuple(k.says for k in pair), True, len(candidates))
    return Diagnosis(tried=len(candidates))


def explains(evidence: list[Evidence], kind: Kind, *others: Kind) -> bool:
    """In either way to write the right thing."""
    return any(
        all(e.fits(kind.results(e.example, *others, style=style)) for e in evidence)
        for style in ((), (start_from_last_value,))
    )


def look(function: Function, options: Options, example: Example) -> Evidence | None:
    """None where it raises, or gives another shape: that explains nothing."""
    try:
        got = call(function, options, example)
    except Exception:
        return None
    limits = bound(example)
    values = {name: x.detach().double().numpy() for name, x in zip(options.results, got, strict=True)}
    if any(x.shape != limits[name].shape for name, x in values.items()):
        return None
    return Evidence(example, values, limits)
