"""The kinds that are about weights, indices, ratios and results; `kinds` has those about boundaries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..verify.strategies import FLAGGED_BY_END, Example
from .anatomy import Parts, clip, expectation, following, preceding, solve, times
from .kinds import BACKWARD, BOOTSTRAPPED, DECAYING, KINDS, cut, kind


@kind("reward shifted", "the reward of the step before is used", BACKWARD, "before", ("c13_reward_shift",))
def _(p: Parts) -> None:
    p.rewards = preceding(p.rewards, 0.0)


@kind("reward shifted", "the reward of the next step is used", BACKWARD, "before")
def _(p: Parts) -> None:
    p.rewards = following(p.rewards, 0.0)


@kind(
    "arrival-indexed storage",
    "rewards and flags are read with the state they arrive at; the last result is 0",
    ("gae",),
    "before",
    ("c12_puffer_shift",),
)
def _(p: Parts) -> None:
    p.rewards, p.terminated = following(p.rewards, 0.0), following(p.terminated, True)
    p.truncated, p.truncation_values = following(p.truncated, False), following(p.truncation_values, 0.0)
    p.rewards[:, -1] = p.values[:, -1]  # so that the last δ is 0


@kind(
    "γ or λ of the wrong step",
    "γ_{t+1} in place of γ_t",
    (*DECAYING, "discounted_returns"),
    "before",
    ("c38_gamma_vec",),
)
def _(p: Parts) -> None:
    p.gamma = following(p.gamma, p.gamma[:, -1])


@kind("γ or λ of the wrong step", "γ_{t-1} in place of γ_t", (*DECAYING, "discounted_returns"), "before")
def _(p: Parts) -> None:
    p.gamma = preceding(p.gamma, p.gamma[:, 0])


@kind("γ or λ of the wrong step", "λ_{t+1} in place of λ_t", DECAYING, "before")
def _(p: Parts) -> None:
    p.lambda_ = following(p.lambda_, p.lambda_[:, -1])


@kind("γ or λ of the wrong step", "λ_{t-1} in place of λ_t", DECAYING, "before")
def _(p: Parts) -> None:
    p.lambda_ = preceding(p.lambda_, p.lambda_[:, 0])


@kind("λ lost", "λ is taken as 1", DECAYING, "before", ("c23_vtrace_lambda",))
def _(p: Parts) -> None:
    p.lambda_[:] = 1.0


@kind("γ lost", "what is carried is not discounted by γ", DECAYING)
def _(p: Parts) -> None:
    p.gamma_carry = np.ones(p.shape)


@kind("λ and 1 − λ swapped", "the mixture of λ-return and V' is turned round", ("td_lambda",), "before")
def _(p: Parts) -> None:
    p.lambda_ = 1.0 - p.lambda_


@kind("sign of V'", "γV' is subtracted")
def _(p: Parts) -> None:
    p.successor = -p.successor


@kind("sign of V'", "V' is discounted and V_t is not subtracted", ("gae", "vtrace", "retrace"), "after")
def _(p: Parts) -> None:
    p.rewards = p.rewards + p.values


@kind("returns are not advantages plus values", "the returns are those advantages", ("gae",), "finish")
def _(p: Parts) -> None:
    p.results[1] = p.results[0]


@kind("returns are not advantages plus values", "rewards are added in place of values", ("gae",), "finish")
def _(p: Parts) -> None:
    p.results[1] = p.results[0] + p.rewards


@kind("ratio of the wrong step", "c_t in place of c_{t+1}", ("retrace",), cases=("c31_retrace_index",))
def _(p: Parts) -> None:
    p.c_next = p.c


@kind("ratio of the wrong step", "c_{t+1} in place of c_t", ("vtrace",))
def _(p: Parts) -> None:
    p.c = p.c_next


@kind(
    "ratio multiplies the error",
    "the correction is multiplied by the ratio, as V-trace does",
    ("retrace",),
    "finish",
    ("c31_retrace_index",),
)
def _(p: Parts) -> None:
    p.results[0] = p.values + np.minimum(p.ratio, 1.0) * (p.results[0] - p.values)


@kind("ratio multiplies the error", "δ is multiplied by the ratio, as V-trace does", ("retrace",))
def _(p: Parts) -> None:
    p.rewards = np.minimum(p.ratio, 1.0) * (p.rewards + times(p.gamma, p.successor) - p.values) + p.values
    p.successor = np.zeros(p.shape)


@kind("ratio multiplies the error", "the ratio does not multiply δ", ("vtrace",))
def _(p: Parts) -> None:
    p.rho = np.ones(p.shape)


@kind("policy of the wrong state", "E_π takes the policy one state early, π(·|s_t)", ("retrace",), "before")
def _(p: Parts) -> None:
    if p.next_policy is not None:
        p.next_policy = np.concatenate([p.next_policy[:, :1], p.next_policy[:, :-1]], 1)


@kind(
    "policy of the wrong state",
    "E_π takes the policy one state early, and the last one at the first",
    ("retrace",),
    "before",
)
def _(p: Parts) -> None:
    if p.next_policy is not None:
        p.next_policy = np.roll(p.next_policy, 1, 1)


@kind("policy of the wrong state", "max_a Q in place of E_π[Q]", ("retrace",))
def _(p: Parts) -> None:
    if p.next_policy is not None:
        p.successor = np.where(p.terminated, 0.0, p.next_q_values.max(-1))


@kind("wrong state's value", "the expectation is taken one state early, at s_t", ("retrace",))
def _(p: Parts) -> None:
    successors = expectation(p)
    p.successor = np.where(p.terminated, 0.0, preceding(successors, successors[:, 0]))


@kind("ratio not clipped", "c is not clipped", ("vtrace", "retrace"))
def _(p: Parts) -> None:
    p.clips["c_clip"] = None
    clip(p)


@kind("ratio not clipped", "ρ is not clipped", ("vtrace",))
def _(p: Parts) -> None:
    p.rho = p.ratio


@kind("ratio not clipped", "neither ρ nor c is clipped", ("vtrace",))
def _(p: Parts) -> None:
    p.clips = dict.fromkeys(p.clips)
    clip(p)


@kind("ρ and c swapped", "each ratio is clipped as the other", ("vtrace",))
def _(p: Parts) -> None:
    p.clips["rho_clip"], p.clips["c_clip"] = p.clips["c_clip"], p.clips["rho_clip"]
    clip(p)


@kind("ratio not exponentiated", "log-ratios are used as ratios", ("vtrace", "retrace"))
def _(p: Parts) -> None:
    p.ratio = p.log_ratios
    clip(p)


@kind("λ lost", "λ does not multiply c", ("vtrace",))
def _(p: Parts) -> None:
    p.lambda_c = np.ones(p.shape)
    clip(p)


@kind(
    "other policy advantage",
    'the other published form where λ < 1: "impala" for "mixed" or the reverse',
    ("vtrace",),
    cases=("c23_vtrace_lambda", "c24_vtrace_onpolicy_is_gae"),
)
def _(p: Parts) -> None:
    p.mixed = not p.mixed


@kind("other policy advantage", "towards V' in place of v'", ("vtrace",))
def _(p: Parts) -> None:
    p.cut_advantage = np.ones(p.shape, bool)


@kind("other policy advantage", "its ratio is ρ rather than ρ^pg", ("vtrace",))
def _(p: Parts) -> None:
    p.pg_rho = p.rho


@kind(
    "second shift leaks",
    "v_{t+1} of the next episode is used where this one is cut",
    ("vtrace",),
    cases=("c21_vtrace_trunc_leak",),
)
def _(p: Parts) -> None:
    p.cut_advantage = p.terminated | p.window


@kind("second shift leaks", "v_{t+1} of the next episode is used where this one terminates", ("vtrace",))
def _(p: Parts) -> None:
    p.cut_advantage = cut(p) | p.window


@kind("second shift leaks", "v_{t+1} of the next episode is used where this one ends", ("vtrace",))
def _(p: Parts) -> None:
    p.cut_advantage = p.window


@kind(
    "wrong state's value",
    "in the advantage at a truncation, v_{t+1} and V of the next episode's first state",
    ("vtrace",),
)
def _(p: Parts) -> None:
    p.successor_advantage = np.where(cut(p), following(p.values, p.last), p.successor)
    p.cut_advantage = p.terminated | p.window


@kind("wrong state's value", "in the advantage at a truncation, V of the next episode's first state", ("vtrace",))
def _(p: Parts) -> None:
    p.successor_advantage = np.where(cut(p), following(p.values, p.bootstrap[:, -1]), p.successor)


@kind("own step left out", "a sum over the steps before, without its own", FLAGGED_BY_END, "finish")
def _(p: Parts) -> None:
    p.results[0] = p.results[0] - p.inputs


@kind("runs the wrong way", "time runs backward", FLAGGED_BY_END, "finish")
def _(p: Parts) -> None:
    x, state = np.empty(p.shape), p.carry
    decay = np.where(p.ends, 0.0, p.gamma * p.lambda_)
    for t in reversed(range(p.shape[1])):
        state = p.inputs[:, t] + times(decay[:, t], state)
        x[:, t] = state
    p.results = [x]


def axes_swapped(example: Example) -> tuple[Any, ...] | None:
    """Time read along the rows: of a rollout with as many rows as steps, what code for the other layout gives."""
    every = {k: x for k, x in example.arguments.items() if isinstance(x, np.ndarray) and x.ndim >= 2}
    if len({x.shape[:2] for x in every.values()}) != 1 or len(set(next(iter(every.values())).shape[:2])) != 1:
        return None
    swapped = {name: x.swapaxes(0, 1) for name, x in every.items()}
    return tuple(x.T for x in solve(replace(example, arguments={**example.arguments, **swapped})))


__all__ = ["BOOTSTRAPPED", "KINDS", "axes_swapped"]
