"""No length ceiling: windows of many tiles and blocks in either direction; the portable path's cost grows like √T."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from properties import Path, answers, is_exactly, limits
from torch.utils._python_dispatch import TorchDispatchMode

import rlscan
from rlscan.engine import Tile, forced
from rlscan.verify.compare import compare, expect
from rlscan.verify.strategies import ESTIMATORS, MOST_HALVES, Example, Setup, fill
from rlscan.verify.tolerance import assert_within

# on the interpreter a step costs about a millisecond
LONG = {"portable": 200_000, "interpreter": 2_000, "triton": 200_000}
TILE = {"portable": None, "interpreter": Tile(1, 64, 1), "triton": None}
EPISODE = 500  # no episode is longer: the reference takes each stretch of as many steps for a row


def stretches(estimator: str, rows: int, options: tuple[tuple[str, Any], ...], actions: int = 3) -> Example:
    """`rows` windows of EPISODE steps that nothing crosses, with ends at random besides."""
    rng = np.random.default_rng(0)
    pattern = np.where(rng.random((rows, EPISODE)) < 0.01, rng.integers(1, 4, (rows, EPISODE)), 0)
    pattern[:, 0 if estimator == "linear_scan" and not dict(options)["reverse"] else -1] = 1
    setup = Setup(estimator, options=options, actions=actions if estimator == "retrace" else 0)
    example = fill(setup, pattern, rng, exact=False)
    edges = {name: 0.0 for name in ("last_values", "initial") if name in example.arguments}
    weights = {name: x for name, x in (("gamma", 0.99), ("lambda_", 0.95)) if name in example.arguments}
    return Example(setup, {**example.arguments, **edges, **weights})


@pytest.mark.parametrize(
    ("estimator", "options"),
    [(name, ()) for name in ESTIMATORS[:-1]] + [("linear_scan", (("reverse", reverse),)) for reverse in (False, True)],
)
@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_long_windows(path: Path, estimator: str, options: tuple[tuple[str, Any], ...], layout: str) -> None:
    rows = 1 if path[0] == "interpreter" and layout == "NT" else 2
    check(path, stretches(estimator, rows * LONG[path[0]] // EPISODE, options), rows, TILE[path[0]], layout)


# the smallest that is split, so many tiles that there are groups of groups, and so many that groups are larger
@pytest.mark.parametrize("steps", [600, 20_000, 70_000])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_neighbouring_rows_by_the_tile_that_is_chosen(path: Path, estimator: str, steps: int) -> None:
    if steps > 600 and path[0] == "interpreter":
        pytest.skip("NOT RUN: 140,000 steps would take minutes in Triton's interpreter")
    rng = np.random.default_rng(0)
    pattern = np.where(rng.random((2, steps)) < 0.05, rng.integers(1, 4, (2, steps)), 0).astype(np.int8)
    example = fill(Setup(estimator, layout="TN", actions=3 if estimator == "retrace" else 0), pattern, rng, exact=False)
    for got, want, limit in zip(answers(path, example), expect(example), limits(path, example), strict=True):
        assert_within(got, want, limit, estimator)


@pytest.mark.parametrize("layout", ["NT", "TN"])
@pytest.mark.parametrize("actions", [6, 18, 40])
def test_retrace_over_long_windows_by_the_tile_that_is_chosen(path: Path, actions: int, layout: str) -> None:
    """More actions leave a thread fewer steps, and a row several warps."""
    rows = 1 if layout == "NT" else 2
    steps = 1_000 // rows if path[0] == "interpreter" else 20_000
    check(path, stretches("retrace", rows * steps // EPISODE, (), actions), rows, None, layout)


def check(path: Path, short: Example, rows: int, tile: Tile | None, layout: str) -> None:
    """What stands one below the other in `short`, end to end in few rows."""
    steps = next(x.shape[0] * EPISODE // rows for x in short.arguments.values() if np.ndim(x) == 2)
    arguments = {name: x.reshape(rows, steps, *x.shape[2:]) if np.ndim(x) else x for name, x in short.arguments.items()}
    setup = short.setup
    whole = Setup(setup.estimator, options=setup.options, tile=tile, actions=setup.actions, layout=layout)
    long = Example(whole, arguments)
    # nothing is added behind the end of an episode: the bound of the short windows is that of the long one
    for got, want, limit in zip(answers(path, long), expect(short), limits(path, short), strict=True):
        assert_within(got, want.reshape(rows, steps), limit.reshape(rows, steps), setup.estimator)


def test_a_long_window_without_ends(path: Path) -> None:
    """Sums of ones are exact below 2^24, whatever the tiles."""
    name, device = path
    steps = LONG[name]
    ones, never = torch.ones(1, steps, device=device), torch.zeros(1, steps, dtype=torch.bool, device=device)
    up = np.arange(1, steps + 1.0)[None]
    with forced(name, TILE[name]):
        is_exactly(path, rlscan.prefix_sum(ones, never, initial=5.0), up + 5)
        is_exactly(path, rlscan.discounted_returns(ones, never, last_values=5.0, gamma=1.0), up[:, ::-1] + 5)
        is_exactly(path, rlscan.linear_scan(ones, -ones, initial=3.0), np.where(up % 2 == 1, -2.0, 3.0))
        is_exactly(path, rlscan.linear_scan(ones, ones / 2, initial=2.0, reverse=True), np.full((1, steps), 2.0))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("far", [math.nan, math.inf, -math.inf, 1.0])
@pytest.mark.parametrize("factor", [0.5, 2.0**-20])
def test_underflow_is_no_reset(path: Path, reverse: bool, far: float, factor: float) -> None:
    """The product of 400 steps is no float32 (in blocks of 20 steps it is none for 2^-20): NaN and inf still arrive."""
    steps = 400
    alpha, beta = np.zeros((1, steps)), np.full((1, steps), factor)
    alpha[0, -1 if reverse else 0] = far
    setup = Setup("linear_scan", options=(("reverse", reverse),))
    example = Example(setup, {"alpha": alpha, "beta": beta, "initial": 0.0})
    got = answers(path, example)[0]
    with np.errstate(under="ignore"):
        powers = np.maximum(factor ** np.arange(steps), 2.0**-1000)
    expected = far * powers[None, :: -1 if reverse else 1]
    if math.isfinite(far):
        normal = expected[0] >= 2.0**-126
        is_exactly(path, got[:, normal], expected[:, normal])
        assert_within(got, expected, limits(path, example)[0], "x")
    else:
        is_exactly(path, got, expected)


@pytest.mark.parametrize("beta", [0.0, -0.0])
def test_only_zero_is_a_reset(path: Path, beta: float) -> None:
    alpha = torch.ones(1, 9, device=path[1])
    betas = torch.ones(1, 9, device=path[1])
    alpha[0, 2], betas[0, 6] = math.nan, beta
    with forced(path[0]):
        got = rlscan.linear_scan(alpha, betas)
    is_exactly(path, got, np.array([[1, 2, *[math.nan] * 4, 1, 2, 3]]))


class Count(TorchDispatchMode):
    """Counts the PyTorch operations of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_portable_steps_grow_like_the_root_of_the_window(estimator: str) -> None:
    operations = []
    for steps in (1_000, 4_000, 16_000):
        options = (("reverse", True),) if estimator == "linear_scan" else ()
        example = stretches(estimator, steps // EPISODE, options)
        arguments = {
            name: x.reshape(1, steps, *x.shape[2:]) if np.ndim(x) else x for name, x in example.arguments.items()
        }
        with Count() as count:
            answers(("portable", "cpu"), Example(Setup(estimator, options=options), arguments))
        operations.append(count.operations)
    # for four times the steps at most twice the operations
    assert operations[1] <= 2.2 * operations[0]
    assert operations[2] <= 2.2 * operations[1]
    assert operations[2] < 16_000


CLIPPED = (("pg_rho_clip", 1.0), ("c_clip", 0.5), ("advantage", "impala"))


@pytest.mark.parametrize(
    "setup",
    [
        Setup("retrace", options=(("trace", "retrace"), ("c_clip", 0.5))),
        *(
            Setup("vtrace", features=features, options=(("rho_clip", rho_clip), *CLIPPED))
            for features in ((), (3,))
            for rho_clip in (0.5, None)
        ),
    ],
    ids=lambda setup: f"{setup.estimator} {dict(setup.options).get('rho_clip')} {setup.features}",
)
def test_exact_examples_do_not_round_over_long_windows(setup: Setup) -> None:
    """A ratio clipped at 1/2 at every step would need a bit a step."""
    for seed in range(100):
        example = fill(setup, np.zeros((3, 40), np.int8), np.random.default_rng(seed), exact=True)
        compare(example, exact=True, path="portable")
        reset = np.pad(example.arguments["log_ratios"] == -1000.0, ((0, 0), (1, 1)), constant_values=True)
        longest = max(int(np.diff(np.flatnonzero(row)).max()) - 1 for row in reset)
        assert longest <= MOST_HALVES
