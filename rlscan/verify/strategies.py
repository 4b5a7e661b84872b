"""Where all test inputs come from: random rollouts with random boundaries, in every layout and dtype,
edges drawn often.

A `Setup` is what a kernel is compiled for (options, dtypes, layout, tile); an `Example` adds shapes and data. Data is
kept as float64 that the storage dtype represents exactly, so that the reference and the function under test see the
same numbers.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ..engine import Tile

ESTIMATORS = (
    "gae",
    "vtrace",
    "retrace",
    "td_lambda",
    "discounted_returns",
    "eligibility_traces",
    "prefix_sum",
    "linear_scan",
)
BOOTSTRAPPED = ("gae", "vtrace", "td_lambda", "discounted_returns")
FLAGGED_BY_END = ("eligibility_traces", "prefix_sum")
DTYPES = ("float32", "bfloat16", "float16", "float64")
NONE, TERMINATED, TRUNCATED, BOTH = range(4)
# no tile has fewer runs than threads: Triton 3.6 fails to compile some of those
TILES = (
    *(None, Tile(16, 4, 1, run=2), Tile(16, 8, 1, actions=2), Tile(16, 16, 1, run=8), Tile(8, 8, 2, run=1)),
    *(Tile(16, 4, 1, run=2, group=2), Tile(16, 8, 1, group=2), Tile(32, 4, 1, actions=2, run=4, group=4)),
    *(Tile(16, 4, 1, run=2, group=2, walk=2), Tile(2, 128, 2, run=4, vector=4), Tile(16, 8, 1, actions=2, vector=2)),
)
MOST_HALVES = 10  # steps in a row with β = 1/2 where arithmetic is to be exact
EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33)  # around the tiles' sizes


@dataclass(frozen=True)
class Setup:
    """One kind of call of one estimator."""

    estimator: str
    dtype: str = "float32"
    flags: str = "bool"  # dtype of the flags
    layout: str = "NT"  # NT, TN or T
    strides: str = "packed"  # packed, gapped (every other element) or transposed (the other layout's memory)
    features: tuple[int, ...] = ()
    truncates: bool = True  # pass `truncated`
    bootstrap: str = "last"  # last (last_values + truncation_values) or next (next_values)
    edge: str = "rows"  # last_values or initial as a tensor (rows) or a number
    gamma: str = "number"  # number, cell (0-d tensor) or steps ([N, T])
    lambda_: str = "number"
    options: tuple[tuple[str, Any], ...] = ()  # clips, advantage, trace, boundary, reverse
    actions: int = 0  # 0: the expectation itself is passed
    tile: Tile | None = None


@dataclass
class Example:
    """A setup with data: canonical [N, T, ...] arrays by argument name, float64 or bool, and numbers."""

    setup: Setup
    arguments: dict[str, Any] = field(default_factory=dict)
    exact: bool = False  # whether float32 arithmetic on the data does not round

    @property
    def steps(self) -> int:
        return int(next(x for x in self.arguments.values() if isinstance(x, np.ndarray) and x.ndim >= 2).shape[1])


def setups(estimator: str, count: int, seed: int, dtypes: tuple[str, ...] = DTYPES) -> list[Setup]:
    """`count` different kinds of call, the plain one first; seeded, so that a run can be repeated."""
    rng = random.Random(f"{estimator} {seed}")
    chosen = {Setup(estimator): None}
    while len(chosen) < count:
        chosen[_random_setup(estimator, rng, dtypes)] = None
    return list(chosen)


def _random_setup(estimator: str, rng: random.Random, dtypes: tuple[str, ...]) -> Setup:
    options: tuple[tuple[str, Any], ...] = ()
    actions = 0
    clip = (None, 0.0, 0.5, 1.0, 2.0)
    if estimator == "vtrace":
        options = tuple((name, rng.choice(clip)) for name in ("rho_clip", "pg_rho_clip"))
        options += (("c_clip", rng.choice(clip[:-1])), ("advantage", rng.choice(("impala", "mixed"))))
    elif estimator == "retrace":
        trace = rng.choice(("retrace", "retrace", "tree_backup", "importance", "q_lambda"))
        options = (("trace", trace), ("c_clip", rng.choice(clip[:-1])))
        actions = rng.choice((0, 1, 2, 3, 4, 6, 18))
    elif estimator == "prefix_sum":
        options = (("boundary", rng.choice(("ends_at", "starts_at"))),)
    elif estimator == "linear_scan":
        options = (("reverse", rng.choice((False, True))),)
    layout = rng.choice(("NT", "NT", "TN", "T"))
    return Setup(
        estimator,
        dtype=rng.choice(("float32", *dtypes)),
        flags=rng.choice(("bool", "uint8", "float32")),
        layout=layout,
        strides=rng.choice(("packed", "packed", "gapped", "transposed")),
        features=rng.choice(((), (), (3,), (2, 3))) if layout != "T" and estimator != "retrace" else (),
        truncates=rng.random() < 0.75,
        bootstrap=rng.choice(("last", "next")),
        edge=rng.choice(("rows", "number")),
        gamma=rng.choice(("number", "cell", "steps")),
        lambda_=rng.choice(("number", "cell", "steps")),
        options=options,
        actions=actions,
        tile=rng.choice(TILES),
    )


def examples(
    choices: list[Setup],
    exact: bool,
    max_steps: int = 40,
    *,
    shapes: tuple[tuple[int, int], ...] = (),
    closed: bool = False,
    finite: bool = False,
) -> st.SearchStrategy[Example]:
    """Rollouts for these setups; exact: small dyadic numbers on which float32 arithmetic does not round.

    shapes: these [N, T] alone (a function that is compiled for each). closed: every row terminates at T-1.
    finite: no NaN or Inf, not even where the definition does not look.
    """
    lengths = st.sampled_from([edge for edge in EDGES if edge <= max_steps]) | st.integers(1, max_steps)
    sizes = st.sampled_from(shapes) if shapes else st.tuples(st.integers(1, 5), lengths)

    @st.composite
    def build(draw: st.DrawFn) -> Example:
        setup = draw(st.sampled_from(choices))
        rows, steps = draw(sizes)
        rows = 1 if setup.layout == "T" else rows
        density = draw(st.sampled_from((0.0, 0.1, 0.3, 1.0)))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        pattern = draw(_patterns(rows, steps, density, rng))
        hazard = draw(st.sampled_from((None, None, None, "nan"))) if not finite else None
        return fill(
            setup, close(pattern) if closed else pattern, rng, exact=exact, hazard=hazard == "nan", finite=finite
        )

    return build()


def _patterns(rows: int, steps: int, density: float, rng: np.random.Generator) -> st.SearchStrategy[Any]:
    """Boundary patterns [N, T] of NONE, TERMINATED, TRUNCATED, BOTH: drawn one by one where small, else by density."""
    if rows * steps <= 48:
        return hnp.arrays(np.int8, (rows, steps), elements=st.integers(NONE, BOTH), fill=st.just(NONE))
    drawn = np.where(rng.random((rows, steps)) < density, rng.integers(TERMINATED, BOTH + 1, (rows, steps)), NONE)
    return st.just(drawn.astype(np.int8))


def close(pattern: Any) -> Any:
    """The pattern with a termination at the last step of every row."""
    closed = pattern.copy()
    closed[:, -1:] = TERMINATED
    return closed


def fill(
    setup: Setup, pattern: Any, rng: np.random.Generator, *, exact: bool, hazard: bool = False, finite: bool = False
) -> Example:
    """Random data over a boundary pattern [N, T], garbage in every slot that the definition does not use."""
    numbers = Numbers(setup, rng, exact, pattern.shape[1], finite)
    rows, steps = pattern.shape
    shape, edge_shape = (rows, steps, *setup.features), (rows, *setup.features)
    ended = pattern != NONE
    arguments: dict[str, Any] = {}

    def edge() -> Any:
        return numbers.values(edge_shape) if setup.edge == "rows" else float(numbers.values(()))

    def weight(kind: str, choose: Callable[[Any], Any]) -> Any:
        if kind == "steps":
            return choose((rows, steps))
        return float(choose(())) if kind == "number" else choose(())

    if setup.estimator == "linear_scan":
        beta_shape = shape if rng.random() < 0.5 else (rows, steps)
        beta = numbers.betas(beta_shape)
        beta[ended] = 0.0
        arguments = {"alpha": numbers.values(shape), "beta": beta, "initial": edge()}
    elif setup.estimator in FLAGGED_BY_END:
        arguments = {"inputs": numbers.values(shape), "ends": ended, "initial": edge()}
    else:
        arguments["rewards"] = numbers.values(shape)
        if setup.estimator in ("gae", "vtrace", "td_lambda"):
            arguments["values"] = numbers.values(shape)
        if setup.estimator == "retrace":
            arguments["q_values"] = numbers.values(shape)
        if setup.estimator in ("vtrace", "retrace"):
            arguments["log_ratios"] = numbers.log_ratios((rows, steps))
        terminated = (pattern & TERMINATED) != 0 if setup.truncates else ended
        arguments["terminated"] = terminated
        truncated = (pattern & TRUNCATED) != 0 if setup.truncates else np.zeros_like(ended)
        if setup.truncates:
            arguments["truncated"] = truncated
        last = np.arange(steps)[None, :] == steps - 1
        if setup.estimator == "td_lambda":  # reads V_{t+1} inside an episode, and no other V
            inside = np.concatenate([np.zeros((rows, 1), bool), ~ended[:, :-1]], 1)
            numbers.poison(arguments["values"], ~inside | (setup.bootstrap == "next"))
        if setup.estimator == "retrace":
            arguments |= _successor_actions(setup, numbers, (rows, steps), terminated)
            if arguments["log_ratios"] is not None:
                used = np.concatenate([np.zeros((rows, 1), bool), ~ended[:, :-1]], 1)
                numbers.poison(arguments["log_ratios"], ~used)
        elif setup.bootstrap == "next":
            arguments["next_values"] = numbers.values(shape)
            used = truncated | last if setup.estimator == "discounted_returns" else True
            numbers.poison(arguments["next_values"], terminated | ~(used | np.zeros_like(ended)))
        else:
            arguments["last_values"] = edge()
            if setup.edge == "rows":
                numbers.poison(arguments["last_values"], ended[:, -1])
            if setup.truncates:
                arguments["truncation_values"] = numbers.values(shape)
                numbers.poison(arguments["truncation_values"], terminated | ~truncated)
    if setup.estimator not in ("linear_scan", "prefix_sum"):
        arguments["gamma"] = weight(setup.gamma, numbers.gammas)
    if setup.estimator not in ("linear_scan", "prefix_sum", "discounted_returns"):
        arguments["lambda_"] = weight(setup.lambda_, numbers.lambdas)
    if setup.lambda_ == "steps" and setup.estimator == "td_lambda":
        numbers.poison(arguments["lambda_"], ended | (np.arange(steps) == steps - 1))
    elif setup.lambda_ == "steps" and setup.estimator == "gae":
        numbers.poison(arguments["lambda_"], ended)
    if hazard:
        first = arguments[next(iter(arguments))]
        first[tuple(int(rng.integers(size)) for size in first.shape)] = np.nan
    return Example(setup, arguments, exact)


def _successor_actions(setup: Setup, numbers: "Numbers", shape: tuple[int, int], terminated: Any) -> dict[str, Any]:
    if not setup.actions:
        expected = numbers.values(shape)
        numbers.poison(expected, terminated)
        return {"next_q_values": expected}
    q = numbers.values((*shape, setup.actions))
    policy = numbers.probabilities((*shape, setup.actions))
    numbers.poison(q, terminated)
    numbers.poison(q, policy == 0)
    return {"next_q_values": q, "next_policy": policy}


class Numbers:
    """Draws of every kind of number, representable in the setup's dtype; dyadic and few-bit where exact."""

    GARBAGE = (np.nan, np.inf, -np.inf, 3e4)
    FINITE_GARBAGE = (11.0, -13.0, 17.0, 19.0)  # larger than what is drawn, and of finite exponential

    def __init__(self, setup: Setup, rng: np.random.Generator, exact: bool, steps: int, finite: bool = False) -> None:
        self.rng, self.exact, self.dtype = rng, exact, setup.dtype
        self.garbage = self.FINITE_GARBAGE if finite else self.GARBAGE
        self.options = dict(setup.options)
        # every factor 1/2 in β costs a bit a step; 24 bits hold the sum of a window only if it is short
        self.halves = steps <= MOST_HALVES

    def stored(self, x: Any) -> Any:
        """Rounded to the storage dtype, as float64."""
        return torch.from_numpy(np.array(x, np.float64)).to(getattr(torch, self.dtype)).double().numpy()

    def values(self, shape: tuple[int, ...]) -> Any:
        if self.exact:
            return self.rng.integers(-4, 5, shape) * np.float64(1.0)
        return self.stored(self.rng.uniform(-10, 10, shape) * (self.rng.random(shape) < 0.9))

    def fractions(self, shape: tuple[int, ...], choices: tuple[float, ...]) -> Any:
        if self.exact:
            return self.rng.choice(np.array(choices), shape)
        typical = self.rng.choice([0.0, 1.0, 0.9, 0.99], shape)
        return self.stored(np.where(self.rng.random(shape) < 0.5, typical, self.rng.random(shape)))

    def gammas(self, shape: tuple[int, ...]) -> Any:
        return self.fractions(shape, (0.0, 0.5, 1.0) if self.halves else (0.0, 1.0, 1.0))

    def lambdas(self, shape: tuple[int, ...]) -> Any:
        return self.fractions(shape, (0.0, 1.0, 1.0, 1.0))

    def betas(self, shape: tuple[int, ...]) -> Any:
        if self.exact:
            return self.rng.choice([0.0, 1.0, -1.0, *([0.5] if self.halves else [])], shape)
        return self.stored(self.rng.uniform(-1, 1, shape) * (self.rng.random(shape) < 0.9))

    def probabilities(self, shape: tuple[int, ...]) -> Any:
        if self.exact:
            return self.rng.choice([0.0, 0.5, 1.0], shape)
        weights = self.rng.random(shape) * (self.rng.random(shape) < 0.8)
        return self.stored(weights / np.maximum(weights.sum(-1, keepdims=True), 1e-3))

    def log_ratios(self, shape: tuple[int, ...]) -> Any:
        trace = self.options.get("trace")
        if trace == "q_lambda" and self.rng.random() < 0.5:
            return None
        clips = [self.options[name] for name in self.options if name.endswith("clip")]
        clipped = trace in (None, "retrace") and None not in clips
        extreme = (-1000.0, 1000.0) if clipped else (-1000.0,)
        if self.exact:
            drawn = self.rng.choice(np.array([0.0, 0.0, *extreme]), shape)
            clipped_at_half = trace in (None, "retrace") and self.options.get("c_clip") == 0.5
            if clipped_at_half and not self.halves:  # β ends before it is small
                drawn[:, self.rng.integers(MOST_HALVES) :: MOST_HALVES] = -1000.0
            return drawn
        usual = self.rng.uniform(-3, 0 if trace == "tree_backup" else 1, shape)
        return self.stored(np.where(self.rng.random(shape) < 0.1, self.rng.choice(np.array(extreme), shape), usual))

    def poison(self, x: Any, unused: Any) -> None:
        """Garbage where the definition does not look; `unused` covers the leading dimensions of x."""
        count = int(x[unused].size)
        x[unused] = self.rng.choice(np.array(self.garbage), count).reshape(x[unused].shape)
