"""The estimators taken apart, so that one part at a time can be made wrong.

The same definitions as `rlscan.reference`, as the arrays that they are made of: V'_t, what is kept behind a step, the
clipped ratios, the carry. A known fault (`kinds`) changes one of them; what then comes out is what code with that fault
gives. Unchanged, the parts give the reference's results (tests/test_testing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..verify.strategies import FLAGGED_BY_END, Example

# attributes are [N, T] float64 or bool, unless said otherwise
Parts = SimpleNamespace
Step = Callable[[Parts], None]


def following(x: Any, last: Any) -> Any:
    """x_{t+1}, and `last` at T-1."""
    return np.concatenate([x[:, 1:], np.broadcast_to(last, x[:, 0].shape)[:, None]], 1)


def preceding(x: Any, first: Any) -> Any:
    """x_{t-1}, and `first` at 0."""
    return np.concatenate([np.broadcast_to(first, x[:, 0].shape)[:, None], x[:, :-1]], 1)


def times(weight: Any, x: Any) -> Any:
    return np.where(weight == 0, 0.0, weight * x)


def solve(
    example: Example, before: Sequence[Step] = (), after: Sequence[Step] = (), finish: Sequence[Step] = ()
) -> tuple[Any, ...]:
    """The results, with `before` applied to the inputs, `after` to what is derived, `finish` to the results."""
    with np.errstate(all="ignore"):
        parts = inputs_of(example)
        for step in before:
            step(parts)
        derive(parts)
        for step in after:
            step(parts)
        RECURRENCES.get(parts.estimator, forward)(parts)
        for step in finish:
            step(parts)
    return tuple(parts.results)


def inputs_of(example: Example) -> Parts:
    """Canonical arguments, each spread over [N, T]."""
    a, setup = example.arguments, example.setup
    p = Parts(estimator=setup.estimator, options=dict(setup.options), shape=(0, 0))
    if setup.estimator in FLAGGED_BY_END:
        p.inputs, p.ends = a["inputs"].copy(), a["ends"].copy()
        p.shape = p.inputs.shape
        p.initial = np.broadcast_to(a["initial"], p.shape[:1]).astype(np.float64)
    else:
        p.rewards, p.terminated = a["rewards"].copy(), a["terminated"].copy()
        p.shape = p.rewards.shape
        p.truncated = a.get("truncated", np.zeros(p.shape, bool)).copy()
        p.values = a.get("values", a.get("q_values", np.zeros(p.shape))).copy()
        p.last = np.broadcast_to(a.get("last_values", np.nan), p.shape[:1]).astype(np.float64)
        p.truncation_values = a.get("truncation_values", np.full(p.shape, np.nan)).copy()
        p.next_values = a["next_values"].copy() if "next_values" in a else None
        p.log_ratios = np.zeros(p.shape) if a.get("log_ratios") is None else a["log_ratios"].copy()
        p.next_q_values, p.next_policy = a.get("next_q_values"), a.get("next_policy")
    p.gamma = np.broadcast_to(a.get("gamma", 1.0), p.shape).astype(np.float64)
    p.lambda_ = np.broadcast_to(a.get("lambda_", 1.0), p.shape).astype(np.float64)
    return p


def derive(p: Parts) -> None:
    """V'_t, what is kept behind step t, where a bootstrap stands alone, ratios, and the empty carry [N]."""
    p.carry = np.zeros(p.shape[0])
    p.gamma_bootstrap, p.gamma_carry = p.gamma, p.gamma  # of V', and of what lies behind
    if p.estimator in FLAGGED_BY_END:
        starts = p.options.get("boundary") == "starts_at"
        p.keep = np.where(p.ends if starts else preceding(p.ends, False), 0.0, 1.0)
        p.carry = p.initial
        return
    end = p.terminated | p.truncated
    p.keep = np.where(end, 0.0, 1.0)
    p.window = np.zeros(p.shape, bool)  # where the window ends, if that is a rule of its own
    p.window[:, -1:] = True
    p.cut = end | p.window
    p.cut_advantage = p.cut  # of V-trace's second shift
    p.beyond = np.zeros(p.shape[0])  # v_T [N]
    if p.estimator == "retrace":
        p.bootstrap = expectation(p)
    elif p.next_values is not None:
        p.bootstrap = p.next_values
    else:
        p.bootstrap = np.where(p.truncated, p.truncation_values, following(p.values, p.last))
    p.successor = np.where(p.terminated, 0.0, p.bootstrap)
    p.successor_advantage = None  # V-trace's advantages take another than its targets
    p.ratio = np.ones(p.shape) if p.options.get("trace") == "q_lambda" else np.exp(p.log_ratios)
    p.clips = {"rho_clip": 1.0, "c_clip": 1.0, "pg_rho_clip": 1.0, **p.options}
    if p.options.get("trace", "retrace") != "retrace":
        p.clips["c_clip"] = None
    p.lambda_c = p.lambda_
    clip(p)
    p.mixed = p.options.get("advantage") == "mixed"


def start_from_last_value(p: Parts) -> None:
    """The other way to write the same: V(s_T) is what is carried into the last step, which mixes like any other.

    Right parts give the same results either way; wrong ones need not.
    """
    if p.estimator in ("td_lambda", "discounted_returns", "vtrace"):
        p.window = np.zeros(p.shape, bool)
        p.cut = p.cut_advantage = p.terminated | p.truncated
        p.beyond = p.last if p.next_values is None else p.next_values[:, -1]
        if p.estimator != "vtrace":
            p.carry = p.beyond


def clip(p: Parts) -> None:
    """ρ, c, c_{t+1} (0 at T-1) and ρ^pg of the ratios and the clips."""
    bars = (p.clips[name] for name in ("rho_clip", "c_clip", "pg_rho_clip"))
    p.rho, c, p.pg_rho = (p.ratio if bar is None else np.minimum(p.ratio, bar) for bar in bars)
    p.c = times(p.lambda_c, c)
    p.c_next = following(p.c, 0.0)


def expectation(p: Parts) -> Any:
    if p.next_policy is None:
        return p.next_q_values
    return times(p.next_policy, p.next_q_values).sum(-1)


def backward(p: Parts, alpha: Any, beta: Any) -> Any:
    x, state = np.empty(p.shape), p.carry
    for t in reversed(range(p.shape[1])):
        # an empty carry adds nothing, whatever it would be multiplied by
        state = alpha[:, t] + np.where(state == 0, 0.0, times(beta[:, t], state))
        x[:, t] = state
    return x


def forward(p: Parts) -> None:
    decay = times(p.keep, times(p.gamma_carry, p.lambda_))
    x, state = np.empty(p.shape), p.carry
    for t in range(p.shape[1]):
        state = p.inputs[:, t] + times(decay[:, t], state)
        x[:, t] = state
    p.results = [x]


def gae(p: Parts) -> None:
    delta = p.rewards + times(p.gamma_bootstrap, p.successor) - p.values
    x = backward(p, delta, times(p.keep, times(p.gamma_carry, p.lambda_)))
    p.results = [x, x + p.values]


def vtrace(p: Parts) -> None:
    if p.successor_advantage is None:
        p.successor_advantage = p.successor
    delta = p.rewards + times(p.gamma_bootstrap, p.successor) - p.values
    targets = p.values + backward(p, times(p.rho, delta), times(p.keep, times(p.gamma_carry, p.c)))
    inside = following(targets, p.beyond)
    if p.mixed:
        inside = times(p.lambda_, inside) + times(1 - p.lambda_, p.successor_advantage)
    p.target_next = np.where(p.cut_advantage, p.successor_advantage, inside)
    p.results = [targets, times(p.pg_rho, p.rewards + times(p.gamma_bootstrap, p.target_next) - p.values)]


def retrace(p: Parts) -> None:
    delta = p.rewards + times(p.gamma_bootstrap, p.successor) - p.values
    p.results = [p.values + backward(p, delta, times(p.keep, times(p.gamma_carry, p.c_next)))]


def td_lambda(p: Parts) -> None:
    mixed = np.where(p.cut, p.successor, times(1 - p.lambda_, p.successor))
    p.results = [
        backward(p, p.rewards + times(p.gamma_bootstrap, mixed), times(p.keep, times(p.gamma_carry, p.lambda_)))
    ]


def discounted_returns(p: Parts) -> None:
    alone = np.where(p.cut, p.successor, 0.0)
    p.results = [backward(p, p.rewards + times(p.gamma_bootstrap, alone), times(p.keep, p.gamma_carry))]


RECURRENCES: dict[str, Step] = {f.__name__: f for f in (gae, vtrace, retrace, td_lambda, discounted_returns)}
