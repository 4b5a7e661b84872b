"""The verification of one mutant: what rejects it first, cheapest checks first.

Runs in a process of its own, in which the mutant *is* the package: fuzzing, proofs and tests import it as `rlscan`. So
nothing of rlscan may be imported when this module is.
"""

from __future__ import annotations

import importlib
import io
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
# test files, and which of their tests: the path's name is in a test's, and tests of tiles and plans run on no path
TESTS = {
    "portable": (
        *(("errors", "options", "unusual_tensors", "boundaries", "launch", "forms", "laws", "long_windows"),),
        "not interpreter and not triton",
    ),
    # laws and split windows are fuzzed with the same tiles before, and take minutes
    "interpreter": (
        ("launch", "unusual_tensors", "forms", "long_windows"),
        "(interpreter or tile) and not (triton or split_time_is_the_definition or flag_dtypes or same_input"
        " or strided_views_agree or layouts_agree or gamma_forms)",
    ),
    # short ones that are closest to a file, first
    "kernels": (
        ("launch", "tiles", "forms"),
        "not triton and (every_tile or the_rule or among_the_best or way_to_launch or shortcut or are_one_dimension"
        " or interpreter and (every_length or outside or beyond_31 or explain or mean_nothing or flag_dtypes))",
    ),
    "engine/checks.py": (("errors", "unusual_tensors"), "not interpreter and not triton"),
    "engine/plan.py": (("options",), "not interpreter and not triton"),
    "boundaries.py": (("boundaries",), ""),
    "ratios.py": (("options",), "clips"),
}
# seconds of processor time that one check (an example, a statement, a test) may take; the slowest takes a third
LIMIT = {
    "fixed": 8,
    "exhaustive": 20,
    "exact": 20,
    "bounded": 20,
    "cases": 60,
    "proof": 30,
    "near test": 60,
    "test": 80,
}
# what a mutant goes through of which is argued that it is equivalent: the last stage takes minutes
SHORT = tuple(stage for stage in LIMIT if stage != "test")
KERNEL_FILES = tuple(f"engine/{name}.py" for name in ("kernel", "launch", "shortcut", "tiles"))
# what all estimators share
FORMULAS = ("affine", "boundaries", "ratios")

Tick = Callable[[str], None]
# where a copy or a package happened to lie
PLACES = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+(?=(?:rlscan|tests|proofs|reference|triton|torch|numpy|hypothesis)/)")


class Verdict(NamedTuple):
    killed_by: str | None  # the stage, and what in it
    detail: str
    examples: int  # checks begun: examples, windows, statements, tests; the rejecting one included
    seconds: float


class Stage(NamedTuple):
    name: str
    run: Callable[[Tick], tuple[str, str] | None]  # what rejected the mutant, and what it said


def stages(file: str) -> Iterator[Stage]:
    """What the file's mutants go through: kernels in Triton's interpreter, everything else on the portable path."""
    from rlscan.verify.strategies import ESTIMATORS

    name = Path(file).stem
    estimators = (name,) if name in ESTIMATORS else ESTIMATORS
    if file in TESTS:
        yield Stage("near test", lambda tick: tested(tick, file))
    if file in KERNEL_FILES:
        if name != "tiles":  # these come with a tile
            yield Stage("fixed", lambda tick: fixed_examples(tick, split=False))
            yield Stage("proof", lambda tick: proved(tick, "kernel"))
        yield Stage("near test", lambda tick: tested(tick, "kernels"))
        if name != "tiles":
            yield Stage("fixed", lambda tick: fixed_examples(tick, split=True))
        for kind in ("exact", "bounded"):
            yield Stage(kind, lambda tick, kind=kind: fuzzed(tick, ESTIMATORS, kind, "interpreter", 10))
    else:
        yield Stage("exhaustive", lambda tick: exhausted(tick, estimators))
        for kind in ("exact", "bounded"):
            count = 200 if len(estimators) == 1 else 100
            yield Stage(kind, lambda tick, kind=kind, count=count: fuzzed(tick, estimators, kind, "portable", count))
        yield Stage("cases", cases)
    if name == "plan":  # it has a way of its own to the kernels
        yield Stage("fixed", lambda tick: fixed_examples(tick, split=False))
    if name in (*ESTIMATORS, *FORMULAS):
        yield Stage("proof", lambda tick: proved(tick, name if name in ESTIMATORS else ""))
    yield Stage("test", lambda tick: tested(tick, "interpreter" if file in KERNEL_FILES else "portable"))


def fixed_examples(tick: Tick, split: bool) -> tuple[str, str] | None:
    """Every estimator in both layouts, ragged, in tiles that one program walks over, or, split, that are programs."""
    import numpy as np

    from rlscan.engine import Tile
    from rlscan.verify.compare import compare
    from rlscan.verify.strategies import ESTIMATORS, Setup, fill

    walked, spread = Tile(16, 4, 1, run=2), Tile(16, 8, 1, run=4, vector=2)
    shared, deep, pairs = (Tile(16, 4, 1, run=4, group=4), *(Tile(16, 2, 1, run=1, group=2, walk=n) for n in (1, 2)))
    # 31 steps: three levels of groups and more blocks than one group
    forms = (("NT", shared, 11), ("TN", shared, 9), ("NT", pairs, 11), ("NT", deep, 11), ("NT", deep, 31))
    if not split:
        forms = (("NT", walked, 7), ("TN", walked, 7), ("NT", spread, 10))
    # every form early, each time with another estimator
    for turn in range(len(ESTIMATORS)):
        for k, (layout, tile, steps) in enumerate(forms):
            estimator = ESTIMATORS[(turn + 3 * k) % len(ESTIMATORS)]
            if steps == 31 and estimator not in ("prefix_sum", "discounted_returns"):
                continue
            rng = np.random.default_rng(0)
            pattern = np.where(rng.random((3, steps)) < 0.2, rng.integers(1, 4, (3, steps)), 0).astype(np.int8)
            actions = 2 if estimator == "retrace" else 0
            setup = Setup(estimator, layout=layout, tile=tile, actions=actions, gamma="steps")
            what = f"{estimator}, {layout}, {steps} steps, {tile}"
            tick(what)
            example = fill(setup, pattern, rng, exact=True)
            try:
                for _ in range(2 if (layout, tile) == ("NT", walked) else 1):  # the second call finds its plan
                    compare(example, exact=True, path="interpreter")
            except Exception as error:
                return what, f"{type(error).__name__}: {error}"
    return None


def exhausted(tick: Tick, estimators: tuple[str, ...]) -> tuple[str, str] | None:
    from rlscan.verify.fuzz import exhaust

    for estimator in estimators:
        outcome = exhaust(estimator, steps=3, path="portable", progress=lambda done, name=estimator: tick(name))
        if outcome.error:
            return estimator, outcome.error
    return None


def fuzzed(tick: Tick, estimators: tuple[str, ...], kind: str, path: str, count: int) -> tuple[str, str] | None:
    from rlscan.verify.fuzz import fuzz

    for estimator in estimators:
        outcome = fuzz(
            estimator, exact=kind == "exact", count=count, seed=0, path=path, kinds_of_call=256, shrink=False,
            max_steps=12 if path == "interpreter" else 40, progress=lambda done, name=estimator: tick(name),
        )  # fmt: skip
        if outcome.error:
            return estimator, outcome.error
    return None


def cases(tick: Tick) -> tuple[str, str] | None:
    from rlscan.verify.cases import NAMES, run_case

    for name in NAMES:
        tick(name)
        error = run_case(name, path="portable").error
        if error:
            return name, error
    return None


def proved(tick: Tick, module: str) -> tuple[str, str] | None:
    """The statements of that file of proofs, for an estimator with those that relate it to others; without a name those
    of every file but the kernel's.
    """
    import rlscan.proofs as proofs
    from rlscan.proofs.registry import outcome

    for claim in proofs.STATEMENTS:
        found = claim.prove.__module__.split(".")[-1]
        related = found in ("identities", "boundaries") and module != "kernel"
        if found == "kernel" != module or (module and found != module and not related):
            continue
        tick(claim.name)
        tried = outcome(claim.prove)
        if not tried.holds:
            return claim.name, tried.finding
    return None


class Watch:
    """Hears from pytest of every test before it runs and after it failed."""

    def __init__(self, tick: Tick) -> None:
        self.tick = tick
        self.ran = 0
        self.failure: tuple[str, str] | None = None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tick(nodeid)
        self.ran += 1

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.failure is None:
            self.failure = report.nodeid, str(getattr(report.longrepr, "reprcrash", report.longrepr))

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and self.failure is None:
            self.failure = report.nodeid, str(report.longrepr)


def tested(tick: Tick, which: str) -> tuple[str, str] | None:
    import pytest

    watch = Watch(tick)
    names, chosen = TESTS[which]
    files = [str(ROOT / "tests" / f"test_{name}.py") for name in names]
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:benchmark",
        "--override-ini=pythonpath=",
    ]
    code = pytest.main([*options, "-k", chosen, *files], plugins=[watch])
    if watch.failure is None and (code or not watch.ran):
        return "the tests as a whole", f"pytest ended with {code}"
    return watch.failure


def judge(
    file: str,
    send: Callable[[Verdict], None],
    note: Callable[[int, str], None],
    stage_names: Sequence[str] | None = None,
) -> None:
    """Puts the package that is now importable as `rlscan` through the stages of the file, and sends what it met.

    Before each check it notes how many there were and which it is, for a process that dies.
    """
    begun, at, examples = time.perf_counter(), ["", ""], 0

    def verdict(killed_by: str | None, detail: str) -> Verdict:
        told = PLACES.sub("", detail)
        return Verdict(killed_by, told[:400], examples, round(time.perf_counter() - begun, 2))

    def tick(what: str) -> None:
        nonlocal examples
        examples += 1
        at[1] = what
        note(examples, f"{at[0]}: {what}")
        signal.setitimer(signal.ITIMER_PROF, LIMIT[at[0]])

    def too_long(number: int, frame: object) -> None:
        send(verdict(f"time limit: {at[0]}: {at[1]}", f"no end within {LIMIT.get(at[0], 20)} s"))
        os._exit(0)

    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, 20)
    note(0, "import")
    warnings.simplefilter("ignore")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            importlib.import_module("rlscan")
            planned = [stage for stage in stages(file) if stage_names is None or stage.name in stage_names]
        except Exception as error:
            send(verdict("import", f"{type(error).__name__}: {error}"))
            return
        for stage in planned:
            at[:] = [stage.name, ""]
            try:
                found = stage.run(tick)
            except Exception as error:
                found = at[1], f"{type(error).__name__}: {error}"
            if found:
                send(verdict(f"{stage.name}: {found[0]}", found[1]))
                return
    send(verdict(None, ""))
