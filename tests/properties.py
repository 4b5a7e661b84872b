"""What the laws share: properties on every path, and the two comparisons between one call and another."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rlscan
from rlscan.verify.compare import call, expect
from rlscan.verify.strategies import DTYPES, Example, Setup, examples, setups
from rlscan.verify.tolerance import assert_exact, assert_within, bounds

Path = tuple[str, str]
Results = Sequence[torch.Tensor]
# on the interpreter a tile costs some 30 ms, and a call has many; on a GPU each kind of call is a compilation
EXAMPLES = {"portable": 150, "interpreter": 8, "triton": 24}  # of a law
AT_LEAST = {"portable": 30, "interpreter": 3, "triton": 4}  # of each of its estimators
STEPS = {"portable": 40, "interpreter": 9, "triton": 40}
FEATURES = {"portable": 6, "interpreter": 3, "triton": 6}
ROWS = ("last_values", "initial")
SEEDS = st.integers(0, 2**32 - 1)
KINDS = 4 if torch.cuda.is_available() else 64


class Draw(NamedTuple):
    """An example, whether its data is dyadic (so that nothing rounds), and a number to choose other things by."""

    exact: bool
    example: Example
    seed: int


def profile(count: int) -> settings:
    slow = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
    return settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=slow)


def law(
    *estimators: str,
    exact: Sequence[bool] = (True, False),
    dtypes: tuple[str, ...] = DTYPES,
    where: Callable[[Setup], bool] = lambda setup: True,
    when: Callable[[Example], bool] = lambda example: True,
    **changes: Any,
) -> Callable[[Callable[[Path, Draw], None]], Callable[[Path, str], None]]:
    """The test as a property on every path of each of these estimators, of setups with `changes` made, where and when
    said.

    Derandomised: a run says the same twice.
    """

    def decorate(test: Callable[[Path, Draw], None]) -> Callable[[Path, str], None]:
        # an estimator by itself: on a GPU it is many compilations, which processes can share
        @pytest.mark.parametrize("estimator", estimators)
        def holds_on(path: Path, estimator: str) -> None:
            def holds(draw: Draw) -> None:
                test(path, draw)

            name, count = path[0], max(AT_LEAST[path[0]], EXAMPLES[path[0]] // len(estimators))
            holds.__name__ = f"{test.__name__}_{estimator}"
            choices = [
                replace(setup, **changes)
                for setup in setups(estimator, KINDS, 0, dtypes)
                if where(setup) and math.prod(setup.features) <= FEATURES[name]
            ]
            draws = [
                st.builds(Draw, st.just(kind), examples(choices, kind, STEPS[name]).filter(when), SEEDS)
                for kind in exact
            ]
            profile(count)(given(st.one_of(draws))(holds))()

        holds_on.__name__, holds_on.__doc__ = test.__name__, test.__doc__
        return holds_on

    return decorate


def answers(path: Path, example: Example) -> Results:
    """The public function's results as canonical [N, T, ...] tensors."""
    return call(example, path[1], path[0], rlscan)


def arrays(results: Results) -> list[Any]:
    return [x.double().cpu().numpy() for x in results]


def is_exactly(path: Path, got: torch.Tensor, expected: Any) -> None:
    assert_exact(got, expected, "the result", truncates=path[0] == "interpreter")


def limits(path: Path, example: Example) -> Sequence[Any]:
    return bounds(example, expect(example), truncates=path[0] == "interpreter")


def same_bits(got: Results, want: Results) -> None:
    """Equal bit for bit (NaN is NaN, ±0 are equal)."""
    for k, (x, y) in enumerate(zip(got, arrays(want), strict=True)):
        assert_exact(x, y, f"result {k}")


def agree(
    path: Path, exact: bool, one: Example, *others: Example, pairs: Sequence[tuple[int, int]] | None = None
) -> None:
    """Results of each call equal those of the first: bit for bit on dyadic data, else within the sum of their bounds.

    `pairs`: which result of the first is which of the other; all in order by default.
    """
    got = answers(path, one)
    pairs = pairs or [(k, k) for k in range(len(got))]
    mine = [] if exact else limits(path, one)
    for other in others:
        want = answers(path, other)
        if exact:
            same_bits([got[i] for i, _ in pairs], [want[j] for _, j in pairs])
            continue
        theirs = limits(path, other)
        for i, j in pairs:
            assert_within(got[i], arrays(want)[j], mine[i] + theirs[j], f"result {i}")


def like(
    example: Example,
    *,
    estimator: str | None = None,
    drop: Sequence[str] = (),
    options: tuple[tuple[str, Any], ...] = (),
    **changes: Any,
) -> Example:
    """The example with other arguments; of another estimator with these options, if one is named."""
    kept = {name: value for name, value in example.arguments.items() if name not in drop}
    setup = replace(example.setup, estimator=estimator, options=options) if estimator else example.setup
    return Example(setup, {**kept, **changes})


def with_setup(example: Example, **changes: Any) -> Example:
    return Example(replace(example.setup, **changes), example.arguments)


def steps_of(example: Example, start: int, stop: int) -> Example:
    """The window [start, stop) of the example; what belongs to rows is left as it is."""
    arguments = {
        name: value[:, start:stop] if name not in ROWS and np.ndim(value) >= 2 else value
        for name, value in example.arguments.items()
    }
    return Example(example.setup, arguments)


def joined(early: Example, late: Example, cut: int) -> Example:
    """Steps before `cut` of the one, the others of the other; numbers and what belongs to rows are those of `late`."""
    arguments = dict(late.arguments)
    for name, value in early.arguments.items():
        if name not in ROWS and np.ndim(value) >= 2:
            arguments[name] = np.concatenate([value[:, :cut], late.arguments[name][:, cut:]], 1)
    return Example(early.setup, arguments)


def finite(example: Example) -> bool:
    """All numbers that are used: those that are not finite stand in slots that the definition does not read."""
    return bool(np.isfinite(next(iter(example.arguments.values()))).all())


def widened(x: Any, example: Example) -> Any:
    """[N, T] against trailing features."""
    return x[(..., *[None] * len(example.setup.features))]
