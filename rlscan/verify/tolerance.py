"""The only comparisons in the project: bit for bit, or within an a-priori bound. Neither can pass by comparing nothing.

The bound. A result is a sum of terms Π β · α, folded in some bracketing (runs within a thread, a tree across threads, a
chain of carries, groups of tiles: whatever the execution). With unit roundoff u every operation is exact·(1 + δ),
|δ| ≤ u (the standard model: Higham 2002, Accuracy and Stability of Numerical Algorithms, 2.2), so a term picks up at
most m factors (1 + δ), m ≤ c0 + D + c1·k: c0 roundings in α and in what is made of x, at most D additions on the way
(`depth`), and c1 per step of distance k: one multiplication, since a product of k factors takes k of them in any
bracketing, and the roundings inside β. With γ_m = m·u / (1 − m·u) (Higham 2002, Lemma 3.1; sums in any order, 4.2)

    |error_t| ≤ Σ_k |Π β| |α_k| γ_m ≤ u / (1 − M·u) · [(c0 + D)·X_t + c1·Y_t],    M the largest m

where X is the same recurrence on absolute values, and Y_t = Σ k·(term k) = γ ∂X/∂γ is bounded by a difference quotient
of X in γ, because X is a polynomial in γ with coefficients that are not negative, hence convex. Both come from the
reference itself. Results kept in 16 bits are rounded once more on their way to memory, and everything that is too small
for its format may lose all of itself. `paper/rounding.md` is the derivation, `proofs/rounding.py` counts D and k on the
shipped source, `paper/tightness.py` measures how near errors come.
"""

import math
from typing import Any

import numpy as np
import torch

import rlscan.reference as reference

from ..engine.plan import Plan
from .additions import additions
from .strategies import BOOTSTRAPPED, Example

UNIT = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11, "float64": 2.0**-53}
SMALLEST = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-24, "float64": 2.0**-126}


class Mismatch(AssertionError):  # noqa: N818  # as AssertionError, it says what was found
    """A result that is not what the definition says."""


def depth(steps: int, plan: Plan | None = None) -> int:
    """Additions on any path from a term to a result over so many steps: for the execution of a plan, or for any."""
    return steps if plan is None else min(steps, additions(plan))


def require(got: torch.Tensor, expected: Any, what: str) -> Any:
    """`got` as float64, after everything about it but its values is right."""
    if tuple(got.shape) != tuple(expected.shape):
        raise Mismatch(f"{what} has shape {list(got.shape)}, not {list(expected.shape)}")
    if expected.size == 0:
        raise Mismatch(f"{what} is empty: nothing was compared")
    return got.detach().cpu().double().numpy()


def stored(x: Any, dtype: torch.dtype, truncates: bool = False) -> Any:
    """x as it reads back from the dtype;
    Triton's interpreter truncates to bfloat16 where hardware rounds to nearest.
    """
    exact = torch.from_numpy(np.array(x, np.float64))
    if truncates and dtype == torch.bfloat16:
        return (exact.float().view(torch.int32) & -65536).view(torch.float32).double().numpy()
    return exact.to(dtype).double().numpy()


def assert_exact(got: torch.Tensor, expected: Any, what: str, truncates: bool = False) -> None:
    """Equal bit for bit once `expected` is stored in the dtype of `got`; NaN only where NaN is expected;
    ±0 are equal.
    """
    values = require(got, expected, what)
    wanted = stored(expected, got.dtype, truncates)
    report(unequal(values, wanted), values, wanted, what, "exactly")


def assert_within(got: torch.Tensor, expected: Any, bound: Any, what: str) -> float:
    """Within `bound` of `expected`, NaN only where NaN is expected;
    returns the largest share of the bound that was used.
    """
    values = require(got, expected, what)
    both_nan = np.isnan(values) & np.isnan(expected)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.abs(values - expected)
        share = np.where(both_nan | (error == 0), 0.0, error / bound)
    report(outside(values, expected, bound), values, np.asarray(expected), what, "within the bound")
    return float(share.max())


def unequal(values: Any, wanted: Any) -> Any:
    """Where they differ; ±0 are equal, and NaN is equal to NaN alone."""
    return ~((values == wanted) | (np.isnan(values) & np.isnan(wanted)))


def outside(values: Any, expected: Any, bound: Any) -> Any:
    """Where they differ by more than the bound; NaN only where NaN is expected."""
    with np.errstate(invalid="ignore"):
        return ~((np.abs(values - expected) <= bound) | (np.isnan(values) & np.isnan(expected)))


def report(wrong: Any, values: Any, expected: Any, what: str, how: str) -> None:
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise Mismatch(
            f"{what} is {values[at]!r} at {list(at)}, not {how} {expected[at]!r}; "
            f"{int(wrong.sum())} of {wrong.size} wrong"
        )


def bounds(
    example: Example,
    expected: tuple[Any, ...],
    truncates: bool = False,
    plan: Plan | None = None,
    rounded_inputs: bool = False,
    additions: float | None = None,
) -> tuple[Any, ...]:
    """Per result, how far a right implementation may be from the reference; infinite where the reference is NaN.

    With a plan, how far that plan's execution may be. With `rounded_inputs`, the implementation saw the example's
    numbers rounded once. `additions` are those of an implementation that is not the engine's; a loop over time has one
    a step.
    """
    name, setup = example.setup.estimator, example.setup
    wide = setup.dtype == "float64"
    unit = UNIT["float64" if wide else "float32"]
    per_step, roundings = step_roundings(example, rounded_inputs)
    roundings += depth(example.steps, plan) if additions is None else additions
    most = unit * (roundings + per_step * example.steps)
    if most >= 1:
        raise Mismatch(f"{name}: over {example.steps} steps of {setup.dtype} rounding has no bound")
    unit = unit / (1 - most) * (1 + 2.0**-30)  # the last factor: majorants are rounded themselves
    h = 1.0 / max(example.steps, 2)
    with np.errstate(all="ignore"):
        magnitudes = majorants(example, 1.0)
        stretched = majorants(example, 1.0 + h)
        result = []
        for value, x, x_h in zip(expected, magnitudes, stretched, strict=True):
            error = unit * (roundings * x + per_step * (x_h - x) / h)
            error = error + SMALLEST["float32"] * (1 + x) * example.steps  # underflow, flushed or gradual
            if wide:
                error = 2 * error  # the reference rounds as well
            elif setup.dtype != "float32":
                storage = UNIT[setup.dtype] * (2 if truncates and setup.dtype == "bfloat16" else 1)
                error = error + storage * (np.abs(value) + error) + SMALLEST[setup.dtype]
            result.append(np.where(np.isnan(value), np.inf, error))
    if any(np.isnan(bound).any() for bound in result):
        raise Mismatch(f"{name}: the bound is not a number")
    return tuple(result)


def step_roundings(example: Example, rounded_inputs: bool = False) -> tuple[float, float]:
    """(c1, c0): roundings per step of distance, and in α and what is made of x.

    A ratio exp(l) counts 4 + 2|l|: the exponential within 2 ulp of an argument l·log2(e) that is itself rounded twice.
    Inputs that were rounded themselves count once each: |l| more for a ratio, two for the weights of a step or a β, and
    four for what a δ, or a product of π and Q, is made of.
    """
    name = example.setup.estimator
    ratio = 0.0
    if example.arguments.get("log_ratios") is not None:
        usual = example.arguments["log_ratios"]
        usual = usual[np.isfinite(usual) & (np.abs(usual) < 100)]
        ratio = 4 + (3 if rounded_inputs else 2) * float(np.abs(usual).max(initial=0))
    per_step = {"vtrace": 5 + ratio, "retrace": 5 + ratio, "prefix_sum": 0, "linear_scan": 1, "discounted_returns": 2}
    roundings = 8 + 2 * ratio + 2 * example.setup.actions
    given = (2, 4) if rounded_inputs else (0, 0)
    return per_step.get(name, 4) + given[0], roundings + given[1]


def majorants(example: Example, stretch: float) -> tuple[Any, ...]:
    """The estimator's recurrence on absolute values, discounts multiplied by `stretch`; one array per result."""
    setup, a = example.setup, dict(example.arguments)
    options = dict(setup.options)
    size = {
        k: np.abs(v)
        for k, v in a.items()
        if v is not None and k not in ("terminated", "truncated", "ends", "log_ratios")
    }
    if setup.estimator == "linear_scan":
        return (reference.linear_scan(size["alpha"], size["beta"] * stretch, initial=size["initial"], **options),)
    if setup.estimator == "prefix_sum":
        return (reference.prefix_sum(size["inputs"], a["ends"], initial=size["initial"], **options),)
    gamma = size["gamma"] * stretch
    if setup.estimator == "eligibility_traces":
        weights = {"gamma": gamma, "lambda_": size["lambda_"]}
        return (reference.eligibility_traces(size["inputs"], a["ends"], initial=size["initial"], **weights),)

    features = len(setup.features)
    ends = {"terminated": a["terminated"], "truncated": a.get("truncated", np.zeros_like(a["terminated"]))}
    rewards = size["rewards"]
    if setup.estimator == "retrace":
        q = size["q_values"]
        successor = {k: size[k] for k in ("next_q_values", "next_policy") if k in size}
        weights = {"gamma": gamma, "lambda_": size["lambda_"], **options}
        # with −|Q| for Q every term of δ adds up
        delta = reference.retrace(rewards, -q, a["log_ratios"], **ends, **successor, **weights) + q
        return (delta + q,)
    successor_size = np.abs(successors(example))
    # TD(λ) reads V as a successor only
    values = size["values"] if setup.estimator in ("gae", "vtrace") else np.zeros_like(rewards)
    if setup.estimator == "vtrace":
        clips = {name: options.get(name, 1.0) for name in ("rho_clip", "c_clip", "pg_rho_clip")}
        weights = {"gamma": gamma, "lambda_": size["lambda_"]}
        targets, _ = reference.vtrace(
            rewards, -values, a["log_ratios"], **ends, next_values=successor_size, **weights, **clips
        )
        targets = targets + 2 * values
        target_next = np.concatenate([targets[:, 1:], np.zeros_like(targets[:, :1])], 1)
        if options.get("advantage") == "mixed":
            target_next = times(np.ceil(widen(size["lambda_"], features)), target_next)  # 0 where λ is 0
        inside = np.where(widen(ends["terminated"] | ends["truncated"], features), 0.0, target_next)
        beyond = np.where(widen(ends["terminated"], features), 0.0, successor_size) + inside
        clip = math.inf if clips["pg_rho_clip"] is None else clips["pg_rho_clip"]
        ratio = widen(np.minimum(clip, np.exp(a["log_ratios"])), features)
        advantage = times(ratio, rewards + times(widen(gamma, features), beyond) + values)
        return targets, advantage
    # 1 − λ is taken as 1: its rounding error is relative to λ, not to itself
    lambda_ = size.get("lambda_", np.float64(1.0))
    if setup.estimator == "td_lambda" and np.ndim(lambda_):
        lambda_ = np.where(np.arange(lambda_.shape[1]) == lambda_.shape[1] - 1, 0.0, lambda_)  # not read there
    x = reference.gae(rewards, -values, **ends, next_values=successor_size, gamma=gamma, lambda_=lambda_).advantages
    return (x, x + values) if setup.estimator == "gae" else (2 * x,)


def widen(x: Any, features: int) -> Any:
    """[N, T] against trailing feature dimensions; a number is left as it is."""
    return x[(..., *[None] * features)] if np.ndim(x) else x


def times(weight: Any, x: Any) -> Any:
    return np.where(weight == 0, 0.0, weight * x)


def successors(example: Example) -> Any:
    """V'_t at steps that are not terminated, by the precedence of the definition."""
    assert example.setup.estimator in BOOTSTRAPPED
    a = example.arguments
    rewards = a["rewards"]

    features = len(example.setup.features)
    if "next_values" in a:
        values = a["next_values"]
        if example.setup.estimator == "discounted_returns":  # reads them only where the episode or the window ends
            cut = a.get("truncated", np.zeros_like(a["terminated"])).copy()
            cut[:, -1] = True
            values = np.where(widen(cut, features), values, 0.0)
        return values
    last = np.broadcast_to(a["last_values"], rewards[:, 0].shape)[:, None]
    values = np.concatenate([a.get("values", np.zeros_like(rewards))[:, 1:], last], 1)
    if "truncated" in a:
        values = np.where(widen(a["truncated"], features), a["truncation_values"], values)
    return values
