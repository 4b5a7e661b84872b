"""Known kinds of fault, each as a change of one part of the definition, with the cases of `cases.json` that show it.

A kind has one entry for every way in which code gets there: a flag can be shifted either way, and the step that then has
no flag can take either value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..verify.strategies import FLAGGED_BY_END, Example
from .anatomy import Parts, Step, following, preceding, solve

BOOTSTRAPPED = ("gae", "vtrace", "td_lambda", "discounted_returns")
BACKWARD = (*BOOTSTRAPPED, "retrace")
VALUED = ("gae", "vtrace", "td_lambda")  # whose V(s_{t+1}) is in the buffer
STAGES = ("before", "after", "finish")
DECAYING = ("gae", "vtrace", "td_lambda", "retrace", "eligibility_traces")


@dataclass(frozen=True)
class Kind:
    """One way to a wrong result: where a part is changed (see `anatomy.solve`), and for which estimators."""

    name: str
    says: str
    stage: str  # before, after or finish
    change: Step
    estimators: tuple[str, ...]
    cases: tuple[str, ...] = ()

    def results(self, example: Example, *others: Kind, style: Sequence[Step] = ()) -> tuple[Any, ...]:
        """What code with this fault, and the others, gives."""
        stages = {stage: [k.change for k in (self, *others) if k.stage == stage] for stage in STAGES}
        return solve(example, stages["before"], [*style, *stages["after"]], stages["finish"])


KINDS: list[Kind] = []


def kind(
    name: str, says: str, estimators: tuple[str, ...] = BACKWARD, stage: str = "after", cases: tuple[str, ...] = ()
) -> Callable[[Step], Step]:
    """Enters the decorated change in the table."""

    def enter(change: Step) -> Step:
        KINDS.append(Kind(name, says, stage, change, estimators, cases))
        return change

    return enter


def cut(p: Parts) -> Any:
    """Where the episode was cut: at these steps alone the truncation value counts."""
    return p.truncated & ~p.terminated


# Flags

SHIFTED = "flag shifted"


@kind(
    SHIFTED,
    "flags on the step that ends are read as flags on the first step of an episode",
    BACKWARD,
    "before",
    ("c01_done_shift",),
)
def _(p: Parts) -> None:
    p.terminated, p.truncated = following(p.terminated, False), following(p.truncated, False)


@kind(
    SHIFTED,
    "flags on the step that ends are read as flags on the first step, and the last one twice",
    BACKWARD,
    "before",
)
def _(p: Parts) -> None:
    p.terminated = following(p.terminated, p.terminated[:, -1])
    p.truncated = following(p.truncated, p.truncated[:, -1])


@kind(SHIFTED, "the flag of the step before is read", BACKWARD, "before")
def _(p: Parts) -> None:
    p.terminated, p.truncated = preceding(p.terminated, False), preceding(p.truncated, False)


@kind(SHIFTED, "flags on the first step of an episode are read as flags on the step that ends", BACKWARD, "before")
def _(p: Parts) -> None:
    ended = p.terminated | p.truncated
    first = np.arange(len(ended)) % 2 == 0  # as the check gives them
    p.terminated, p.truncated = preceding(ended, first), np.zeros_like(ended)


@kind(SHIFTED, "the flag is read on the other side of the transition", FLAGGED_BY_END, "after", ("c74_elig_trace",))
def _(p: Parts) -> None:
    starts = p.options.get("boundary") == "starts_at"
    p.keep = np.where(preceding(p.ends, False) if starts else p.ends, 0.0, 1.0)


@kind(SHIFTED, "starts are read one step early or late", FLAGGED_BY_END)
def _(p: Parts) -> None:
    starts = p.options.get("boundary") == "starts_at"
    flags = following(p.ends, False) if starts else preceding(preceding(p.ends, False), False)
    p.keep = np.where(flags, 0.0, 1.0)


@kind(
    "last step's flag ignored",
    "the last step is treated as if its flag were clear",
    BACKWARD,
    "before",
    ("c04_last_step_done",),
)
def _(p: Parts) -> None:
    p.terminated[:, -1], p.truncated[:, -1] = False, False


@kind(
    "gate on the wrong index",
    "the value is masked by the flag of its own step, then shifted",
    VALUED,
    cases=("c18_gate_index",),
)
def _(p: Parts) -> None:
    p.successor = np.where(following(p.terminated, p.terminated[:, -1]), 0.0, p.bootstrap)


@kind("gate on the wrong index", "the value is masked by the flag of its own step, then shifted", VALUED)
def _(p: Parts) -> None:
    p.successor = np.where(following(p.terminated, False), 0.0, p.bootstrap)


@kind(
    "truncation wins over termination",
    "where both flags are set the value behind the cut is used",
    cases=("c06_term_and_trunc",),
)
def _(p: Parts) -> None:
    p.successor = np.where(p.truncated, p.bootstrap, p.successor)


@kind("bitwise not of an integer flag", "~flag is 255 or 254 for uint8, and multiplies", cases=("c63_uint8_done",))
def _(p: Parts) -> None:
    p.successor = p.bootstrap * (255.0 - p.terminated)
    p.keep = 255.0 - (p.terminated | p.truncated)


# Bootstraps


@kind(
    "bootstrap lost at truncation", "truncation is treated as termination", BACKWARD, "before", ("c05_trunc_as_term",)
)
def _(p: Parts) -> None:
    p.terminated = p.terminated | p.truncated


@kind(
    "bootstrap lost at the window's end",
    "V(s_T) is taken as 0",
    BOOTSTRAPPED,
    "before",
    ("c10_missing_boot", "c48_no_eos"),
)
def _(p: Parts) -> None:
    p.last[:] = 0.0
    if p.next_values is not None:
        p.next_values[:, -1] = 0.0


@kind("bootstrap lost at the window's end", "the last step has no successor", ("retrace",))
def _(p: Parts) -> None:
    p.successor[:, -1] = 0.0


@kind(
    "bootstrap counted twice",
    "V(s_T) enters through the last step and again as the carry",
    BOOTSTRAPPED,
    cases=("c09_double_boot",),
)
def _(p: Parts) -> None:
    p.carry = p.bootstrap[:, -1]


@kind("bootstrap counted twice", "the truncation value enters through the step and again as the carry", BOOTSTRAPPED)
def _(p: Parts) -> None:
    decay = p.gamma if p.estimator == "discounted_returns" else p.gamma * p.lambda_
    p.rewards = p.rewards + np.where(cut(p), decay * p.bootstrap, 0.0)


@kind("bootstrap counted twice", "the truncation value is added to the reward, and used as V' as well", BACKWARD)
def _(p: Parts) -> None:
    p.rewards = p.rewards + np.where(cut(p), p.gamma * p.bootstrap, 0.0)


@kind("bootstrap not discounted", "V' is not multiplied by γ", BOOTSTRAPPED)
def _(p: Parts) -> None:
    p.gamma_bootstrap = np.ones(p.shape)


@kind(
    "termination bootstraps", "V' is not set to 0 where the episode terminates", cases=("c20_next_value_at_terminal",)
)
def _(p: Parts) -> None:
    p.successor = p.bootstrap


@kind(
    "wrong state's value",
    "at a truncation, V of the next episode's first state",
    VALUED,
    cases=("c05_trunc_as_term",),
)
def _(p: Parts) -> None:
    p.successor = np.where(cut(p), following(p.values, p.last), p.successor)


@kind("wrong state's value", "at a truncation, V(s_t) itself", VALUED, cases=("c05_trunc_as_term",))
def _(p: Parts) -> None:
    p.successor = np.where(cut(p), p.values, p.successor)


@kind(
    "wrong state's value",
    "V(s_t) in place of V(s_{t+1}) at every step",
    VALUED,
    cases=("c34_lambda_return_alignment",),
)
def _(p: Parts) -> None:
    p.successor = np.where(p.terminated, 0.0, p.values)


# Carries


@kind("carry leaked at termination", "the next episode enters where this one terminates", cases=("c14_carry_not_cut",))
def _(p: Parts) -> None:
    p.keep = np.where(cut(p), 0.0, 1.0)


@kind("carry leaked at termination", "terminations are ignored", BACKWARD, "before")
def _(p: Parts) -> None:
    p.terminated[:] = False


@kind("carry leaked at truncation", "the next episode enters where this one is cut")
def _(p: Parts) -> None:
    p.keep = np.where(p.terminated, 0.0, 1.0)


@kind("carry leaked at truncation", "truncations are ignored", BACKWARD, "before", ("c05_trunc_as_term",))
def _(p: Parts) -> None:
    p.truncated[:] = False


@kind("carry leaked at truncation", "truncations mix and carry as inside an episode", ("td_lambda",))
def _(p: Parts) -> None:
    p.keep = np.where(p.terminated, 0.0, 1.0)
    p.cut = p.terminated | p.window


@kind("carry leaked at every boundary", "the next episode enters where this one ends, in any way")
def _(p: Parts) -> None:
    p.keep[:] = 1.0


@kind("carry leaked at every boundary", "flags are ignored", FLAGGED_BY_END)
def _(p: Parts) -> None:
    p.keep[:] = 1.0


@kind("carry cut twice", "the carry is masked by the next step's flag as well", cases=("c15_carry_cut_twice",))
def _(p: Parts) -> None:
    p.keep = p.keep * following(p.keep, 1.0)


@kind("initial value lost", "the scan starts from 0", FLAGGED_BY_END)
def _(p: Parts) -> None:
    p.carry = np.zeros_like(p.carry)
