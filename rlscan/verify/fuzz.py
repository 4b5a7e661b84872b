"""Exhaustive, exact and bounded fuzzing of one estimator on one path."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed

import rlscan

from ..engine import Tile
from .compare import compare
from .strategies import Example, Setup, examples, fill, setups
from .tolerance import Mismatch


@dataclass
class Outcome:
    """What a run did: how many examples (or patterns) agreed, the share of the bound that was used,
    and the first failure.
    """

    cases: int = 0
    share: float = 0.0
    error: str | None = None
    seconds: float = 0.0


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """One run's outcome from those of its parts; the first part that failed, or tried nothing, fails the run."""
    return Outcome(
        cases=sum(outcome.cases for outcome in outcomes),
        share=max(outcome.share for outcome in outcomes),
        error=next((outcome.error or "nothing was tried" for outcome in outcomes if failed(outcome)), None),
        seconds=sum(outcome.seconds for outcome in outcomes),
    )


def failed(outcome: Outcome) -> bool:
    return bool(outcome.error) or not outcome.cases


def fuzz(
    estimator: str,
    *,
    exact: bool,
    count: int,
    seed: int,
    device: str = "cpu",
    path: str | None = None,
    api: Any = rlscan,
    kinds_of_call: int = 64,
    max_steps: int = 40,
    shrink: bool = True,
    part: int = 0,
    parts: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """`count` random examples over `kinds_of_call` setups: bit for bit on dyadic data, or within the a-priori bound.

    One of several `parts` has its share of the setups and of the examples, and draws its own; all of them together
    have every setup, and `count` examples or a few more.
    """
    outcome = Outcome()
    failing: list[Example] = []
    choices = setups(estimator, kinds_of_call, seed)[part::parts]

    # a text, for whole numbers of more than 32 bits can seed Python's generator alike
    @with_seed(f"{seed}, part {part} of {parts}" if parts > 1 else seed)
    @settings(
        max_examples=-(-count // parts),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )
    @given(examples(choices, exact, max_steps))
    def agrees(example: Example) -> None:
        if not failing:
            outcome.cases += 1
            progress(outcome.cases)
        try:
            outcome.share = max(outcome.share, compare(example, exact=exact, device=device, path=path, api=api))
        except Exception:
            failing.append(example)
            raise

    start = time.perf_counter()
    try:
        agrees()
    except Exception as error:
        where = f"\n{describe(failing[-1])}" if failing else ""
        outcome.error = f"{type(error).__name__}: {error}{where}"
    outcome.seconds = time.perf_counter() - start
    return outcome


def exhaust(
    estimator: str,
    *,
    steps: int,
    device: str = "cpu",
    path: str | None = None,
    api: Any = rlscan,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Every pattern of (none, terminated, truncated, both) over up to `steps` steps, for every option, bit for bit."""
    outcome = Outcome()
    start = time.perf_counter()
    try:
        for setup in every_option(estimator):
            for length in range(1, steps + 1):
                patterns = np.array(list(itertools.product(range(4), repeat=length)), np.int8)
                progress(outcome.cases)
                example = fill(setup, patterns, np.random.default_rng(seed), exact=True)
                compare(example, exact=True, device=device, path=path, api=api)
                outcome.cases += len(patterns)
    except (Mismatch, ArithmeticError, ValueError, TypeError, RuntimeError) as error:
        outcome.error = f"{type(error).__name__}: {error}\n{setup}, {length} steps"
    outcome.seconds = time.perf_counter() - start
    return outcome


def every_option(estimator: str) -> list[Setup]:
    """Every combination of the options that change the formula, in float32,
    with a tile of two steps and one of the window.
    """
    options: dict[str, tuple[Any, ...]] = {
        "vtrace": (
            *((("advantage", form),) for form in ("impala", "mixed")),
            (("rho_clip", 0.5), ("c_clip", 1.0), ("pg_rho_clip", 2.0)),
        ),
        "retrace": tuple((("trace", trace),) for trace in ("retrace", "tree_backup", "importance", "q_lambda")),
        "prefix_sum": tuple((("boundary", boundary),) for boundary in ("ends_at", "starts_at")),
        "linear_scan": tuple((("reverse", reverse),) for reverse in (False, True)),
    }
    return [
        Setup(estimator, bootstrap=bootstrap, options=option, actions=actions, tile=tile, layout=layout)
        for option in options.get(estimator, ((),))
        for bootstrap in (
            ("last", "next") if estimator in ("gae", "vtrace", "td_lambda", "discounted_returns") else ("last",)
        )
        for actions in ((0, 3) if estimator == "retrace" else (0,))
        for tile, layout in ((Tile(256, 2, 1, run=1), "NT"), (Tile(256, 4, 1, run=2), "TN"))
    ]


def describe(example: Example) -> str:
    """The example as text that can be read and typed in again."""
    lines = [str(example.setup)]
    for name, value in example.arguments.items():
        shown = np.array2string(np.asarray(value), separator=", ", threshold=200) if np.ndim(value) else repr(value)
        lines.append(f"  {name} = {shown}")
    return "\n".join(lines)
