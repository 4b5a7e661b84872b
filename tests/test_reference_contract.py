"""What the reference accepts, ignores and refuses: layouts, unused slots, missing and misshapen arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rlscan.reference as reference

pytestmark = pytest.mark.filterwarnings("error")

N, T, A = 24, 9, 3
Inputs = dict[str, Any]
Estimator = Callable[[Inputs], tuple[np.ndarray, ...]]


def rollout(seed: int) -> Inputs:
    rng = np.random.default_rng(seed)
    x = {name: rng.normal(size=(N, T)) for name in ("rewards", "values", "truncation_values", "log_ratios")}
    policy = rng.random((N, T, A)) + 0.1
    x["next_policy"] = policy / policy.sum(axis=-1, keepdims=True)
    x["next_q_values"] = rng.normal(size=(N, T, A))
    x["last_values"] = rng.normal(size=N)
    x["terminated"] = rng.random((N, T)) < 0.2
    x["truncated"] = rng.random((N, T)) < 0.2
    x["gamma"] = rng.uniform(0.5, 1.0, (N, T))
    x["lambda_"] = rng.uniform(0.5, 1.0, (N, T))
    return x


def call(function: Callable[..., Any], x: Inputs, **settings: Any) -> tuple[np.ndarray, ...]:
    """`function` on those of its arguments that x has; always a tuple."""
    renamed = x | {"inputs": x["rewards"], "ends": x["terminated"], "initial": x["last_values"]}
    renamed |= {"q_values": x["values"], "alpha": x["rewards"], "beta": x["lambda_"]}
    names = inspect.signature(function).parameters
    result = function(**{name: value for name, value in renamed.items() if name in names}, **settings)
    return result if isinstance(result, tuple) else (result,)


def estimator(name: str, **settings: Any) -> Estimator:
    return lambda x: call(getattr(reference, name), x, **(settings | x.get("settings", {})))


BACKWARD: dict[str, Estimator] = {
    "gae": estimator("gae"),
    "vtrace impala": estimator("vtrace"),
    "vtrace mixed": estimator("vtrace", advantage="mixed", rho_clip=None, c_clip=2.0, pg_rho_clip=0.5),
    "retrace": estimator("retrace"),
    "retrace tree_backup": estimator("retrace", trace="tree_backup"),
    "retrace q_lambda": estimator("retrace", trace="q_lambda"),
    "retrace importance": estimator("retrace", trace="importance"),
    "td_lambda": estimator("td_lambda"),
    "discounted_returns": estimator("discounted_returns"),
    "linear_scan reverse": estimator("linear_scan", reverse=True),
}
FORWARD: dict[str, Estimator] = {
    "eligibility_traces": estimator("eligibility_traces"),
    "prefix_sum ends_at": estimator("prefix_sum"),
    "prefix_sum starts_at": estimator("prefix_sum", boundary="starts_at"),
    "linear_scan": estimator("linear_scan"),
}
ESTIMATORS = BACKWARD | FORWARD
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def equal(got: tuple[np.ndarray, ...], want: tuple[np.ndarray, ...]) -> bool:
    assert len(got) == len(want) > 0
    assert all(a.size for a in got)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(got, want, strict=True))


# --- layouts -----------------------------------------------------------------------------------------------------


@every_estimator
@pytest.mark.parametrize("time_dim", [0, -2])
def test_time_first_is_the_transpose(name: str, time_dim: int) -> None:
    x = rollout(0)
    flipped = {key: a.swapaxes(0, 1) if a.ndim > 1 else a for key, a in x.items()}
    got = ESTIMATORS[name](flipped | {"settings": {"time_dim": time_dim}})
    assert equal(tuple(a.T for a in got), ESTIMATORS[name](x))


@every_estimator
def test_one_row_may_drop_its_axis(name: str) -> None:
    x = rollout(1)
    whole = ESTIMATORS[name](x)
    for n in range(3):
        assert equal(ESTIMATORS[name]({key: a[n] for key, a in x.items()}), tuple(a[n] for a in whole))


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if not name.startswith("retrace")])
@pytest.mark.parametrize("time_dim", [1, 0])
def test_features_are_separate_calls(name: str, time_dim: int) -> None:
    rows = [rollout(seed) for seed in (2, 3)]
    per_feature = ("rewards", "values", "truncation_values", "last_values")
    x = rows[0] | {key: np.stack([row[key] for row in rows], axis=-1) for key in per_feature}
    separate = [ESTIMATORS[name](rows[0] | {key: row[key] for key in per_feature}) for row in rows]
    want = tuple(np.stack(outputs, axis=-1) for outputs in zip(*separate, strict=True))
    if time_dim == 0:
        x = {key: a.swapaxes(0, 1) if a.ndim > 1 and key != "last_values" else a for key, a in x.items()}
        want = tuple(a.swapaxes(0, 1) for a in want)
    assert equal(ESTIMATORS[name](x | {"settings": {"time_dim": time_dim}}), want)


@every_estimator
def test_flags_of_any_dtype_and_lists_are_the_same(name: str) -> None:
    x = rollout(4)
    want = ESTIMATORS[name](x)
    for factor, dtype in ((255, np.uint8), (0.5, np.float32), (-1, np.int64)):
        flags = {key: (x[key] * factor).astype(dtype) for key in ("terminated", "truncated")}
        assert equal(ESTIMATORS[name](x | flags), want)
    assert equal(ESTIMATORS[name]({key: a.tolist() for key, a in x.items()}), want)


@every_estimator
def test_inputs_are_left_alone_and_not_returned(name: str) -> None:
    x = rollout(5)
    before = {key: a.copy() for key, a in x.items()}
    results = ESTIMATORS[name](x)
    assert all(np.array_equal(x[key], before[key]) for key in x)
    assert not any(np.shares_memory(result, a) for result in results for a in x.values())


# --- select, never multiply by zero ------------------------------------------------------------------------------


@every_estimator
@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e300])
def test_unused_slots_change_nothing(name: str, garbage: float) -> None:
    x = rollout(6)
    x["next_policy"][..., 1] = 0.0
    poisoned = {key: a.copy() for key, a in x.items()}
    terminated, truncated = x["terminated"], x["truncated"]
    poisoned["truncation_values"][terminated | ~truncated] = garbage
    poisoned["next_q_values"][..., 1] = garbage
    poisoned["next_q_values"][terminated] = garbage
    if name in BACKWARD and name != "linear_scan reverse":
        poisoned["last_values"][(terminated | truncated)[:, -1]] = garbage
    if name.startswith("retrace"):
        after_an_end = np.ones((N, T), dtype=bool)  # c_0, and c_{t+1} where end_t
        after_an_end[:, 1:] = (terminated | truncated)[:, :-1]
        poisoned["log_ratios"][after_an_end] = garbage
    if name == "td_lambda":
        poisoned["values"][:, 0] = garbage
    assert equal(ESTIMATORS[name](poisoned), ESTIMATORS[name](x))


@pytest.mark.parametrize("name", ["gae", "vtrace impala", "vtrace mixed", "td_lambda", "discounted_returns"])
def test_next_values_at_terminated_steps_change_nothing(name: str) -> None:
    x = rollout(7)
    x["next_values"] = x.pop("truncation_values")
    poisoned = x | {"next_values": np.where(x["terminated"], np.nan, x["next_values"])}
    if name == "discounted_returns":
        inside = ~x["truncated"]
        inside[:, -1] = False
        poisoned["next_values"][inside] = np.nan
    without_last = {key: a for key, a in poisoned.items() if key != "last_values"} | {"last_values": None}
    assert equal(ESTIMATORS[name](poisoned), ESTIMATORS[name](x))
    assert equal(ESTIMATORS[name](without_last), ESTIMATORS[name](x))


@every_estimator
def test_nan_stays_in_its_episode(name: str) -> None:
    """A NaN reward reaches all earlier steps (forward: later ones) of its episode in its row, and no others."""
    x = rollout(8)
    ends = x["terminated"] | x["truncated"] if name in BACKWARD else x["terminated"]
    shift = 0 if name == "prefix_sum starts_at" else 1
    episode = np.zeros((N, T), dtype=int)
    episode[:, shift:] = np.cumsum(ends, axis=1)[:, : T - shift]
    if name.startswith("linear_scan"):
        episode[:] = 0
    steps = np.arange(T)
    for n, s in ((n, s) for n in range(N) for s in range(T)):
        rewards = x["rewards"].copy()
        rewards[n, s] = np.nan
        reached = np.zeros((N, T), dtype=bool)
        reached[n] = (episode[n] == episode[n, s]) & (steps <= s if name in BACKWARD else steps >= s)
        for result in ESTIMATORS[name](x | {"rewards": rewards}):
            assert np.array_equal(np.isnan(result), reached), (n, s)


def weights(name: str) -> tuple[str, ...]:
    named = {"discounted_returns": ("gamma",), "prefix_sum": (), "linear_scan": ("lambda_",)}  # its β here
    return named.get(name.split()[0], ("gamma", "lambda_"))


@pytest.mark.parametrize(("name", "weight"), [(name, weight) for name in ESTIMATORS for weight in weights(name)])
def test_a_weight_of_zero_selects(name: str, weight: str) -> None:
    """At γ_t = 0 or λ_t = 0 nothing later enters through the carry; at γ_t = 0 no successor value either."""
    x = rollout(9)
    x[weight] = np.zeros((N, T))
    want = ESTIMATORS[name](x)
    poisoned = dict(x)
    if name in FORWARD or name == "linear_scan reverse":
        poisoned["last_values"] = np.full(N, np.nan)
    elif weight == "gamma":
        poisoned |= {key: np.full_like(x[key], np.inf) for key in ("truncation_values", "last_values", "next_q_values")}
    else:
        poisoned["rewards"] = x["rewards"].copy()
        poisoned["rewards"][:, -1] = np.nan
    used = slice(None, -2) if name.startswith("vtrace") else slice(None, -1)  # advantage_{T-2} holds v_{T-1}
    got = ESTIMATORS[name](poisoned)
    assert equal(tuple(a[:, used] for a in got), tuple(a[:, used] for a in want))
    assert not any(np.isnan(a).any() for a in want)


# --- ratios ------------------------------------------------------------------------------------------------------


def vtrace_step(log_ratio: float, **clips: float | None) -> np.ndarray:
    """ρ and ρ^pg, read off one step with r = 1, V = 0."""
    settings = {"rho_clip": 1.0, "pg_rho_clip": 1.0} | clips
    return np.concatenate(reference.vtrace([1.0], [0.0], [log_ratio], [1], last_values=0.0, **settings))


def test_log_ratios_are_clipped_before_exp() -> None:
    for clip in (3.0, 0.1, 1.0):
        assert (vtrace_step(1000.0, rho_clip=clip, pg_rho_clip=clip) == clip).all()
        assert (vtrace_step(np.inf, rho_clip=clip, pg_rho_clip=clip) == clip).all()
        assert (vtrace_step(-1000.0, rho_clip=clip, pg_rho_clip=clip) == 0.0).all()
    assert (vtrace_step(1000.0, rho_clip=None, pg_rho_clip=0.0) == [np.inf, 0.0]).all()
    assert (vtrace_step(1.5, rho_clip=None, pg_rho_clip=None) == np.exp(1.5)).all()


def test_a_nan_log_ratio_stays_nan() -> None:
    assert np.isnan(vtrace_step(np.nan)).all()
    assert np.isnan(vtrace_step(np.nan, rho_clip=None, pg_rho_clip=2.0)).all()
    got = reference.retrace([1, 1], [0, 0], [0, np.nan], [0, 1], next_q_values=[1, 1], gamma=0.5)
    assert np.isnan(got[0])
    assert got[1] == 1.0


def test_a_ratio_of_zero_selects() -> None:
    got = reference.vtrace([np.nan, 1.0], [2.0, 2.0], [-np.inf, 0.0], [0, 1], last_values=0.0)
    assert np.array_equal(got.targets, [2.0, 1.0])
    assert np.array_equal(got.advantages, [0.0, -1.0])


# --- refusals ----------------------------------------------------------------------------------------------------

BOOTSTRAPPED = ("gae", "vtrace impala", "td_lambda", "discounted_returns")


@pytest.mark.parametrize("name", BOOTSTRAPPED)
def test_missing_or_doubled_successor_values_are_refused(name: str) -> None:
    x = rollout(10)
    with pytest.raises(ValueError, match="last_values is missing"):
        ESTIMATORS[name](x | {"last_values": None})
    with pytest.raises(ValueError, match="truncated needs truncation_values or next_values"):
        ESTIMATORS[name](x | {"truncation_values": None})
    with pytest.raises(ValueError, match="next_values and truncation_values were both given"):
        ESTIMATORS[name](x | {"next_values": x["values"]})
    ESTIMATORS[name](x | {"truncated": None, "truncation_values": None})


def test_retrace_needs_next_q_values_and_log_ratios() -> None:
    with pytest.raises(TypeError, match="next_q_values"):
        reference.retrace([1], [0], [0], [0])  # type: ignore[call-arg]  # the point of the test
    for trace in ("retrace", "importance", "tree_backup"):
        with pytest.raises(ValueError, match="log_ratios is None"):
            reference.retrace([1], [0], None, [0], next_q_values=[0], trace=trace)


@pytest.mark.parametrize("argument", ["values", "truncated", "truncation_values", "last_values", "gamma", "lambda_"])
def test_nothing_is_broadcast(argument: str) -> None:
    x = rollout(11)
    for wrong in (x[argument][:, None], x[argument][:1], x[argument][None]):
        message = f"^{argument} must have shape .*, got {re.escape(str(wrong.shape))}"
        with pytest.raises(ValueError, match=message):
            ESTIMATORS["gae"](x | {argument: wrong})


def test_misshapen_and_mistyped_arguments_are_named() -> None:
    x = rollout(12)
    for change, error, message in (
        ({"rewards": x["rewards"][:, :-1]}, ValueError, "rewards must have the shape"),
        ({"terminated": x["terminated"][..., None]}, ValueError, "terminated must be"),
        ({"settings": {"time_dim": 2}}, ValueError, "time_dim must be an axis"),
        ({"values": x["values"] + 1j}, TypeError, "values must hold real numbers"),
        ({"terminated": x["terminated"].astype(str)}, TypeError, "terminated must hold real numbers"),
    ):
        with pytest.raises(error, match=message):
            ESTIMATORS["gae"](x | change)
    for name, settings in (
        ("vtrace impala", {"advantage": "gae"}),
        ("vtrace impala", {"rho_clip": -1.0}),
        ("vtrace impala", {"c_clip": np.nan}),
        ("retrace", {"c_clip": -1.0}),
        ("retrace", {"trace": "watkins"}),
        ("prefix_sum ends_at", {"boundary": "both"}),
    ):
        with pytest.raises(ValueError, match=next(iter(settings))):
            ESTIMATORS[name](x | {"settings": settings})
    with pytest.raises(ValueError, match="last_values must have shape"):
        reference.gae([1.0], [1.0], [0], last_values=[1.0])
    with pytest.raises(ValueError, match="trailing features need 2-D"):
        reference.prefix_sum([[1.0, 2.0]], [0])
