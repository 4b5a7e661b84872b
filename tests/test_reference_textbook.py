"""The reference agrees with the textbook's sums over each episode, to the last bit.

The sums and products are written out in rational numbers and share nothing with the loops. The inputs are dyadic, so
that float64 rounds nothing and every comparison is an equality.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import rlscan.reference as reference

pytestmark = pytest.mark.filterwarnings("error")

NONE, TERMINATED, TRUNCATED, BOTH = range(4)


class Row:
    """One row in rational numbers, and the definition read off it step by step."""

    def __init__(self, x: dict[str, np.ndarray], n: int) -> None:
        self.x = {name: a[n] if a.ndim else a for name, a in x.items()}
        self.steps = len(self.x["rewards"])

    def __call__(self, name: str, t: int) -> Fraction:
        return Fraction(float(self.x[name][t]))

    def end(self, t: int) -> bool:
        return bool(self.x["terminated"][t] or self.x["truncated"][t])

    def last_step(self, t: int) -> int:
        """The step at which the episode of step t ends, or the window."""
        return next((s for s in range(t, self.steps) if self.end(s)), self.steps - 1)

    def first_step(self, t: int) -> int:
        return next((s + 1 for s in range(t - 1, -1, -1) if self.end(s)), 0)

    def value_next(self, t: int) -> Fraction:
        if self.x["terminated"][t]:
            return Fraction(0)
        if "next_values" in self.x:
            return self("next_values", t)
        if self.x["truncated"][t]:
            return self("truncation_values", t)
        return Fraction(float(self.x["last_values"])) if t == self.steps - 1 else self("values", t + 1)

    def product(self, names: tuple[str, ...], start: int, stop: int) -> Fraction:
        result = Fraction(1)
        for k in range(start, stop):
            for name in names:
                result *= self(name, k)
        return result

    def delta(self, t: int) -> Fraction:
        return self("rewards", t) + self("gamma", t) * self.value_next(t) - self("values", t)


def textbook_gae(row: Row, t: int) -> tuple[Fraction, Fraction]:
    """A_t = Σ_s (Π_{k<s} γ_k λ_k) δ_s"""
    steps = range(t, row.last_step(t) + 1)
    advantage = sum((row.product(("gamma", "lambda_"), t, s) * row.delta(s) for s in steps), Fraction(0))
    return advantage, advantage + row("values", t)


def clipped(w: Fraction, clip: float | None) -> Fraction:
    return w if clip is None else min(w, Fraction(clip))


def vtrace_target(row: Row, t: int, rho_clip: float | None, c_clip: float | None) -> Fraction:
    """v_t = V_t + Σ_s (Π_{k<s} γ_k λ_k min(c̄, w_k)) ρ_s δ_s"""
    target = row("values", t)
    for s in range(t, row.last_step(t) + 1):
        weight = clipped(row("ratio", s), rho_clip)
        for k in range(t, s):
            weight *= row("gamma", k) * row("lambda_", k) * clipped(row("ratio", k), c_clip)
        target += weight * row.delta(s)
    return target


def textbook_vtrace(
    row: Row, t: int, rho_clip: float | None, c_clip: float | None, pg_rho_clip: float | None, advantage: str
) -> tuple[Fraction, Fraction]:
    successor = row.value_next(t)
    if t < row.last_step(t):
        target_next = vtrace_target(row, t + 1, rho_clip, c_clip)
        mix = row("lambda_", t) if advantage == "mixed" else Fraction(1)
        successor = mix * target_next + (1 - mix) * successor
    q = row("rewards", t) + row("gamma", t) * successor
    policy_advantage = clipped(row("ratio", t), pg_rho_clip) * (q - row("values", t))
    return vtrace_target(row, t, rho_clip, c_clip), policy_advantage


def textbook_retrace(row: Row, t: int, c_clip: float | None, trace: str) -> Fraction:
    """Q_t + Σ_s (Π_{t≤k<s} γ_k) (Π_{t<k≤s} c_k) δ_s, δ with the expectation under the policy at s_{t+1}"""
    target = row("values", t)
    for s in range(t, row.last_step(t) + 1):
        actions = zip(row.x["next_policy"][s], row.x["next_q_values"][s], strict=True)
        expected = sum((Fraction(float(p)) * Fraction(float(q)) for p, q in actions), Fraction(0))
        bootstrap = Fraction(0) if row.x["terminated"][s] else row("gamma", s) * expected
        weight = row.product(("gamma",), t, s)
        for k in range(t + 1, s + 1):
            w = row("ratio", k)
            weight *= row("lambda_", k) * {"retrace": clipped(w, c_clip), "q_lambda": Fraction(1)}.get(trace, w)
        target += weight * (row("rewards", s) + bootstrap - row("values", s))
    return target


def n_step_return(row: Row, t: int, s: int) -> Fraction:
    """Rewards of steps t to s, then the value of what follows s."""
    rewards = sum((row.product(("gamma",), t, k) * row("rewards", k) for k in range(t, s + 1)), Fraction(0))
    return rewards + row.product(("gamma",), t, s + 1) * row.value_next(s)


def textbook_td_lambda(row: Row, t: int) -> Fraction:
    """The forward view: n-step returns weighted by (1−λ_s) Π_{k<s} λ_k, the rest on the longest one."""
    last = row.last_step(t)
    mixture = row.product(("lambda_",), t, last) * n_step_return(row, t, last)
    for s in range(t, last):
        mixture += row.product(("lambda_",), t, s) * (1 - row("lambda_", s)) * n_step_return(row, t, s)
    return mixture


def textbook_discounted_returns(row: Row, t: int) -> Fraction:
    return n_step_return(row, t, row.last_step(t))


def textbook_eligibility_traces(row: Row, t: int) -> Fraction:
    first, weights = row.first_step(t), ("gamma", "lambda_")
    inputs = ((row.product(weights, s + 1, t + 1), row("rewards", s)) for s in range(first, t + 1))
    start = row.product(weights, 0, t + 1) * Fraction(float(row.x["last_values"])) if first == 0 else Fraction(0)
    return sum((weight * x for weight, x in inputs), start)


def textbook_prefix_sum(row: Row, t: int, boundary: str) -> Fraction:
    starts = [s for s in range(t + 1) if (row.end(s) if boundary == "starts_at" else s > 0 and row.end(s - 1))]
    total = Fraction(0) if starts else Fraction(float(row.x["last_values"]))
    return sum((row("rewards", s) for s in range(max(starts, default=0), t + 1)), total)


def textbook_linear_scan(row: Row, t: int, reverse: bool) -> Fraction:
    initial = Fraction(float(row.x["last_values"]))
    if reverse:
        terms = (row.product(("lambda_",), t, s) * row("rewards", s) for s in range(t, row.steps))
        return sum(terms, row.product(("lambda_",), t, row.steps) * initial)
    terms = (row.product(("lambda_",), s + 1, t + 1) * row("rewards", s) for s in range(t + 1))
    return sum(terms, row.product(("lambda_",), 0, t + 1) * initial)


def rollout(patterns: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Dyadic inputs, γ_t and λ_t per step, for rows of (none, terminated, truncated, both)."""
    rng = np.random.default_rng(seed)
    shape = patterns.shape
    policies = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5], [0, 0.75, 0.25]])
    x: dict[str, np.ndarray] = {
        "terminated": np.isin(patterns, (TERMINATED, BOTH)),
        "truncated": np.isin(patterns, (TRUNCATED, BOTH)),
        "gamma": rng.choice([0.0, 0.5, 1.0], shape, p=[0.1, 0.5, 0.4]),
        "lambda_": rng.choice([0.0, 0.5, 1.0], shape, p=[0.1, 0.5, 0.4]),
        "ratio": rng.choice([0.0, 0.25, 0.5, 1.0, 2.0, 4.0], shape),
        "last_values": rng.integers(-16, 17, shape[0]) / 4,
        "next_policy": rng.choice(policies, shape),
        "next_q_values": rng.integers(-16, 17, (*shape, 3)) / 4,
    }
    x |= {name: rng.integers(-16, 17, shape) / 4 for name in ("rewards", "values", "truncation_values")}
    return x


ALL_PATTERNS = np.array(list(itertools.product(range(4), repeat=4)))
RANDOM_PATTERNS = np.random.default_rng(0).choice(4, (64, 7), p=[0.7, 0.1, 0.1, 0.1])
ROLLOUTS = {"all patterns of T = 4": rollout(ALL_PATTERNS, 1), "random patterns": rollout(RANDOM_PATTERNS, 2)}
ROLLOUTS["one step"] = rollout(np.arange(4)[:, None], 3)


def with_next_values(x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    given = np.random.default_rng(4).integers(-16, 17, x["rewards"].shape) / 4
    return {name: a for name, a in x.items() if name != "truncation_values"} | {"next_values": given}


def log(ratio: np.ndarray) -> np.ndarray:
    """log w, such that exp gives w back exactly."""
    with np.errstate(divide="ignore"):
        log_ratio = np.log(ratio)
    assert np.array_equal(np.exp(log_ratio), ratio)
    return log_ratio


def pick(x: dict[str, np.ndarray], *names: str) -> dict[str, np.ndarray]:
    successor = ("last_values", "truncation_values", "next_values")
    common = ("rewards", "terminated", "truncated", "gamma", *successor)
    return {name: x[name] for name in (*common, *names) if name in x}


def check(textbook: Callable[..., Any], x: dict[str, np.ndarray], *results: np.ndarray, **settings: Any) -> None:
    n, steps = x["rewards"].shape
    assert all(result.shape == (n, steps) and result.dtype == np.float64 for result in results)
    for i, t in itertools.product(range(n), range(steps)):
        want = textbook(Row(x, i), t, **settings)
        got = tuple(Fraction(float(result[i, t])) for result in results)
        assert got == (want if isinstance(want, tuple) else (want,)), (i, t, settings)


@pytest.fixture(params=ROLLOUTS)
def x(request: pytest.FixtureRequest) -> dict[str, np.ndarray]:
    return ROLLOUTS[request.param]


@pytest.mark.parametrize("successor", [dict, with_next_values])
def test_gae_is_the_textbook_sum(x: dict[str, np.ndarray], successor: Callable[..., Any]) -> None:
    x = successor(x)
    check(textbook_gae, x, *reference.gae(**pick(x, "values", "lambda_")))


@pytest.mark.parametrize("successor", [dict, with_next_values])
@pytest.mark.parametrize("advantage", ["impala", "mixed"])
@pytest.mark.parametrize("clips", [(1.0, 1.0, 1.0), (2.0, 0.5, None), (None, None, 0.0)])
def test_vtrace_is_the_textbook_sum(
    x: dict[str, np.ndarray], successor: Callable[..., Any], advantage: str, clips: tuple[float | None, ...]
) -> None:
    x = successor(x)
    settings = {"advantage": advantage} | dict(zip(("rho_clip", "c_clip", "pg_rho_clip"), clips, strict=True))
    got = reference.vtrace(log_ratios=log(x["ratio"]), **pick(x, "values", "lambda_"), **settings)
    check(textbook_vtrace, x, *got, **settings)


@pytest.mark.parametrize("c_clip", [1.0, 2.0, None])
@pytest.mark.parametrize("trace", ["retrace", "importance", "tree_backup", "q_lambda"])
def test_retrace_is_the_textbook_sum(x: dict[str, np.ndarray], trace: str, c_clip: float | None) -> None:
    names = ("rewards", "terminated", "truncated", "gamma", "lambda_", "next_q_values", "next_policy")
    kwargs = {name: x[name] for name in names} | {"q_values": x["values"], "c_clip": c_clip, "trace": trace}
    log_ratios = None if trace == "q_lambda" else log(x["ratio"])
    got = reference.retrace(log_ratios=log_ratios, **kwargs)
    check(textbook_retrace, x, got, c_clip=c_clip, trace=trace)
    expectation = (x["next_policy"] * x["next_q_values"]).sum(axis=-1)
    kwargs |= {"next_q_values": expectation, "next_policy": None}
    assert np.array_equal(got, reference.retrace(log_ratios=log_ratios, **kwargs))


@pytest.mark.parametrize("successor", [dict, with_next_values])
def test_lambda_and_discounted_returns_are_textbook_sums(
    x: dict[str, np.ndarray], successor: Callable[..., Any]
) -> None:
    x = successor(x)
    check(textbook_td_lambda, x, reference.td_lambda(**pick(x, "values", "lambda_")))
    check(textbook_discounted_returns, x, reference.discounted_returns(**pick(x)))


@pytest.mark.parametrize("boundary", ["ends_at", "starts_at"])
def test_forward_estimators_are_textbook_sums(x: dict[str, np.ndarray], boundary: str) -> None:
    inputs, ends, initial = x["rewards"], x["terminated"] | x["truncated"], x["last_values"]
    z = reference.eligibility_traces(inputs, ends, initial=initial, gamma=x["gamma"], lambda_=x["lambda_"])
    check(textbook_eligibility_traces, x, z)
    sums = reference.prefix_sum(inputs, ends, initial=initial, boundary=boundary)
    check(textbook_prefix_sum, x, sums, boundary=boundary)


@pytest.mark.parametrize("reverse", [False, True])
def test_linear_scan_is_the_textbook_sum(x: dict[str, np.ndarray], reverse: bool) -> None:
    scanned = reference.linear_scan(x["rewards"], x["lambda_"], initial=x["last_values"], reverse=reverse)
    check(textbook_linear_scan, x, scanned, reverse=reverse)
