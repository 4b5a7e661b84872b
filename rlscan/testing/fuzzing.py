"""Looks for a rollout on which a function disagrees with the definition, and makes it small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed

from ..verify.compare import FLAGS, expect
from ..verify.strategies import Example, Numbers, close, examples, fill
from ..verify.tolerance import Mismatch, bounds, depth, outside, require, stored, unequal
from .options import RESULTS, Misuse, Options, call

Function = Callable[..., Any]
TRIES = 400  # calls that may go into making a counterexample small
MORE = 24  # rollouts that a diagnosis has to explain besides the counterexample


@dataclass(frozen=True)
class Failure:
    """What is wrong on a rollout: the place nearest to where the scan starts, or what was raised."""

    example: Example
    words: str = ""  # instead of a place: an exception, a shape
    result: str = ""
    row: int = 0
    step: int = 0
    expected: Any = None
    got: Any = None
    wrong: Any = None
    error: Exception | None = None


def expected(example: Example) -> dict[str, Any]:
    """What the definition gives, by the result's name: float64 [N, T]."""
    return dict(zip(RESULTS[example.setup.estimator], expect(example), strict=True))


def bound(example: Example) -> dict[str, Any]:
    """How far from `expected` a right implementation may be, be it a loop over time or a scan: [N, T]."""
    found = expect(example)
    additions = max(depth(example.steps), example.steps)
    return dict(zip(RESULTS[example.setup.estimator], bounds(example, found, additions=additions), strict=True))


def try_on(function: Function, options: Options, example: Example) -> Failure | None:
    """None if the function agrees with the definition on this rollout."""
    try:
        found = call(function, options, example)
    except Misuse:
        raise
    except Exception as error:
        return Failure(example, f"raised {type(error).__name__}: {error}", error=error)
    right, limits = expected(example), bound(example)
    for name, x in zip(options.results, found, strict=True):
        want = right[name]
        try:
            values = require(x, want, name)
        except Mismatch as mismatch:
            return Failure(example, f"gave a wrong shape: {mismatch}{shape_hint(tuple(x.shape), want.shape)}")
        exact = options.exact and example.exact
        wrong = unequal(values, stored(want, x.dtype)) if exact else outside(values, want, limits[name])
        if wrong.any():
            row = int(np.argwhere(wrong.any(1))[0, 0])
            steps = np.flatnonzero(wrong[row])
            step = int(steps[0] if options.forward else steps[-1])
            return Failure(example, "", name, row, step, want, values, wrong)
    return None


def shape_hint(got: tuple[int, ...], want: tuple[int, ...]) -> str:
    if got == want[::-1]:
        return " (the axes are swapped: is the layout the other one?)"
    if len(got) > len(want) or int(np.prod(got)) > int(np.prod(want)):
        return " (arrays were broadcast against each other)"
    return ""


def search(function: Function, options: Options) -> Failure | None:
    """The first failure among random rollouts: half of them of small dyadic numbers, half of general ones."""
    found: list[Failure] = []
    for exact in (True, False):
        rollouts = examples(
            [options.setup()],
            exact,
            options.max_steps,
            shapes=options.shapes,
            closed=not options.last_values,
            finite=options.unused == "finite",
        )

        @with_seed(options.seed)
        @settings(
            max_examples=-(-options.examples // 2),
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),
        )
        @given(rollouts)
        def agrees(example: Example) -> None:
            failure = None if found else try_on(function, options, prepared(options, example))
            if failure:
                found.append(failure)

        agrees()
        if found:
            return found[0]
    return None


def prepared(options: Options, example: Example) -> Example:
    """Without what the function does not take."""
    fixed: dict[str, Any] = {"initial": 0.0} if options.forward and not options.initial else {}
    fixed |= {"lambda_": 1.0} if options.lambda_ == "one" else {}
    return replace(example, arguments={**example.arguments, **fixed})


def more(options: Options, count: int = MORE) -> Iterator[Example]:
    """Further rollouts, on which a suspected fault has to give what the function gives; half of them dyadic."""
    rng = np.random.default_rng(options.seed)
    setup = options.setup()
    shapes = options.shapes or ((1, 3), (2, 5), (4, 4), (3, 8))
    for k in range(count):
        rows, steps = shapes[k % len(shapes)]
        pattern = rng.integers(0, 4, (1 if options.layout == "T" else rows, steps)) * (rng.random(steps) < 0.5)
        pattern = close(pattern) if not options.last_values else pattern
        exact = k % 2 == 0
        yield prepared(options, fill(setup, pattern, rng, exact=exact, finite=options.unused == "finite"))


def minimise(function: Function, options: Options, failure: Failure) -> Failure:
    """The same failure on a rollout of fewer rows and steps, fewer flags and plainer numbers."""
    tries = TRIES
    while tries > 0:
        for example in smaller(failure.example, options):
            tries -= 1
            found = try_on(function, options, example) if usable(example) else None
            if found and found.result == failure.result and type(found.error) is type(failure.error):
                failure = found
                break
            if tries <= 0:
                break
        else:
            return failure
    return failure


def usable(example: Example) -> bool:
    """Not where an infinity that was garbage is now used: no bound is about those."""
    return not any(np.isinf(x).any() for x in expected(example).values())


def smaller(example: Example, options: Options) -> Iterator[Example]:
    """Rollouts one change simpler, the largest changes first."""
    arguments = example.arguments
    grids = {k: x for k, x in arguments.items() if isinstance(x, np.ndarray) and x.ndim >= 2}
    rows, steps = next(iter(grids.values())).shape[:2]

    def with_(changed: dict[str, Any]) -> Example:
        return replace(example, arguments={**arguments, **changed})

    for row in range(rows) if rows > 1 else ():
        yield with_({k: x[row : row + 1] for k, x in arguments.items() if isinstance(x, np.ndarray) and x.ndim})
    halves = [slice(steps // 2, None), slice(0, steps // 2)] if steps > 2 else []
    for kept in halves:
        if options.last_values or kept.stop is None:
            yield with_({k: x[:, kept] for k, x in grids.items()})
    for step in range(steps - (not options.last_values)) if steps > 1 else ():
        yield with_({k: np.delete(x, step, 1) for k, x in grids.items()})
    for name, x in arguments.items():
        if name in FLAGS:
            for at in map(tuple, np.argwhere(x)):
                if options.last_values or name != "terminated" or at[1] < steps - 1:
                    yield with_({name: _put(x, at, False)})
    for name in ("gamma", "lambda_"):
        if isinstance(arguments.get(name), float) and arguments[name] != 1.0:
            yield with_({name: 1.0})
    for name, x in arguments.items():
        if name in FLAGS or not isinstance(x, np.ndarray):
            continue
        for plain in (0.0, 1.0) if name != "next_policy" else ():
            for at in map(tuple, np.argwhere((x != plain) & ((x != 0.0) | (plain == 0.0)) & (np.isfinite(x)))):
                if np.ndim(x) and not (plain == 1.0 and x[at] in Numbers.FINITE_GARBAGE):
                    yield with_({name: _put(x, at, plain)})


def _put(x: Any, at: tuple[int, ...], value: Any) -> Any:
    changed = x.copy()
    changed[at] = value
    return changed
