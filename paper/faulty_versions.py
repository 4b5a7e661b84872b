"""Deliberately faulty versions of `paper.plain_estimators`: one replacement in the source of each, and what it is.

`python -m paper.peers` and tests/test_testing.py put each to `rlscan.testing`, which has to reject it and to name its kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paper import plain_estimators


@dataclass(frozen=True)
class Faulty:
    """A version that does `wrong` where the plain one does `right`, checked under `convention`."""

    estimator: str
    kind: str
    right: str
    wrong: str
    convention: dict[str, Any] = field(default_factory=dict)

    def function(self) -> Callable[..., Any]:
        source = inspect.getsource(getattr(plain_estimators, self.estimator))
        if self.right not in source:
            raise LookupError(f"{self.kind!r} does not apply: {self.estimator} has no {self.right!r}")
        namespace: dict[str, Any] = {"np": np, "Any": Any}
        exec(source.replace(self.right, self.wrong), namespace)
        function: Callable[..., Any] = namespace[self.estimator]
        return function


STEPS = {"gamma": "steps", "lambda_": "steps"}
TERM_TRUNC = "term, trunc = terminated[:, t], truncated[:, t]"
EARLY = "term, trunc = (np.roll(f, 1, 1)[:, t] * (t > 0) != 0 for f in (terminated, truncated))"
LATE = "term, trunc = (np.roll(f, -1, 1)[:, t] * (t < f.shape[1] - 1) != 0 for f in (terminated, truncated))"
EXCEPT_LAST = "term, trunc = (f[:, t] * (t < f.shape[1] - 1) != 0 for f in (terminated, truncated))"
SELECT = "np.where(trunc, truncation_values[:, t], next_values) * (1.0 - term)"
DELTA = "delta = rewards[:, t] + gamma * successor - values[:, t]"
GATES = f"successor = {SELECT}\n        {DELTA}\n        going_on = 1.0 - (term | trunc)"
TRACE = "trace + inputs[:, t]\n        traces[:, t] = trace\n        trace = trace * (1.0 - ends[:, t])"
SUM = "total = total + inputs[:, t]\n        sums[:, t] = total\n        total = total * (1.0 - ends[:, t])"
STEP = f"{TERM_TRUNC}\n        successor = {SELECT}\n        {DELTA}"
ARRIVAL = f"""if t == rewards.shape[1] - 1:
            next_values = values[:, t]
            continue
        {STEP.replace("[:, t]", "[:, t + 1]").replace("- values[:, t + 1]", "- values[:, t]")}"""
NEXT_LAMBDA = f"""{TERM_TRUNC}
        if t == rewards.shape[1] - 1:
            gammas, lambdas = gamma, lambda_
        gamma, lambda_ = gammas[:, t], lambdas[:, min(t + 1, rewards.shape[1] - 1)]"""

FAULTY = (
    Faulty("gae", "flag shifted", TERM_TRUNC, LATE),
    Faulty("td_lambda", "flag shifted", TERM_TRUNC, EARLY),
    Faulty("eligibility_traces", "flag shifted", TRACE, "trace * (1.0 - ends[:, t]) + inputs[:, t]\n        traces[:, t] = trace"),
    Faulty("prefix_sum", "flag shifted", SUM, "total = total * (1.0 - ends[:, t]) + inputs[:, t]\n        sums[:, t] = total"),
    Faulty("gae", "last step's flag ignored", TERM_TRUNC, EXCEPT_LAST),
    Faulty("discounted_returns", "last step's flag ignored", TERM_TRUNC, EXCEPT_LAST),
    Faulty("gae", "gate on the wrong index", "* (1.0 - term)", "* (1.0 - terminated[:, min(t + 1, rewards.shape[1] - 1)])"),
    Faulty("gae", "truncation wins over termination", SELECT, "np.where(trunc, truncation_values[:, t], next_values * (1.0 - term))"),
    Faulty("gae", "bitwise not of an integer flag", GATES, GATES.replace("(1.0 - term)", "~term").replace("1.0 - (term | trunc)", "~(term | trunc)"), {"flag_dtype": "uint8"}),
    Faulty("gae", "bootstrap lost at truncation", SELECT, "next_values * (1.0 - (term | trunc))"),
    Faulty("vtrace", "bootstrap lost at truncation", SELECT, "next_values * (1.0 - (term | trunc))"),
    Faulty("retrace", "bootstrap lost at truncation", "gamma * (1.0 - term) *", "gamma * (1.0 - (term | trunc)) *"),
    Faulty("discounted_returns", "bootstrap lost at truncation", "np.where(trunc, truncation_values[:, t], next_return) * (1.0 - term)", "next_return * (1.0 - (term | trunc))"),
    Faulty("gae", "bootstrap lost at the window's end", "next_values = last_values", "next_values = 0.0 * last_values"),
    Faulty("td_lambda", "bootstrap lost at the window's end", "next_values, next_return = last_values, last_values", "next_values, next_return = 0.0, 0.0"),
    Faulty("discounted_returns", "bootstrap lost at the window's end", "next_return = np.zeros_like(rewards), last_values", "next_return = np.zeros_like(rewards), 0.0"),
    Faulty("gae", "bootstrap counted twice", "np.zeros_like(rewards), 0.0", "np.zeros_like(rewards), last_values"),
    Faulty("vtrace", "bootstrap counted twice", "correction, next_values, next_target = 0.0,", "correction, next_values, next_target = last_values,"),
    Faulty("discounted_returns", "bootstrap counted twice", "rewards[:, t] + gamma * next_return", "rewards[:, t] + gamma * next_return + gamma * trunc * (1.0 - term) * truncation_values[:, t]"),
    Faulty("gae", "bootstrap not discounted", DELTA, "delta = rewards[:, t] + successor - values[:, t]"),
    Faulty("gae", "termination bootstraps", " * (1.0 - term)", ""),
    Faulty("retrace", "termination bootstraps", "gamma * (1.0 - term) *", "gamma *"),
    Faulty("gae", "wrong state's value", SELECT, "next_values * (1.0 - term)"),
    Faulty("td_lambda", "wrong state's value", SELECT, "values[:, t] * (1.0 - term)"),
    Faulty("gae", "carry leaked at termination", "going_on = 1.0 - (term | trunc)", "going_on = 1.0 - trunc * (1.0 - term)"),
    Faulty("vtrace", "carry leaked at truncation", "going_on = 1.0 - (term | trunc)", "going_on = 1.0 - term"),
    Faulty("retrace", "carry leaked at truncation", "next_c * (1.0 - (term | trunc))", "next_c * (1.0 - term)"),
    Faulty("td_lambda", "carry leaked at truncation", "np.where(term | trunc, successor, inside)", "np.where(term, successor, inside)"),
    Faulty("gae", "carry leaked at every boundary", "going_on = 1.0 - (term | trunc)", "going_on = 1.0"),
    Faulty("eligibility_traces", "carry leaked at every boundary", "trace = trace * (1.0 - ends[:, t])", "pass"),
    Faulty("prefix_sum", "carry leaked at every boundary", "total = total * (1.0 - ends[:, t])", "pass"),
    Faulty("gae", "carry cut twice", "going_on = 1.0 - (term | trunc)", "after = slice(t + 1, t + 2)\n        going_on = (1.0 - (term | trunc)) * (1.0 - (terminated | truncated)[:, after].any(1))"),
    Faulty("vtrace", "second shift leaks", "np.where(term | trunc, successor, next_target)", "np.where(term, successor, next_target)"),
    Faulty("eligibility_traces", "initial value lost", "np.zeros_like(inputs), initial", "np.zeros_like(inputs), 0.0"),
    Faulty("prefix_sum", "initial value lost", "np.zeros_like(inputs), initial", "np.zeros_like(inputs), 0.0"),
    Faulty("gae", "reward shifted", "delta = rewards[:, t]", "delta = (rewards[:, t - 1] if t else 0.0)"),
    Faulty("gae", "arrival-indexed storage", STEP, ARRIVAL),
    Faulty("gae", "γ or λ of the wrong step", TERM_TRUNC, NEXT_LAMBDA, STEPS),
    Faulty("gae", "λ lost", "gamma * lambda_ * going_on", "gamma * going_on"),
    Faulty("vtrace", "λ lost", "lambda_ * np.minimum(1.0, ratio)", "np.minimum(1.0, ratio)"),
    Faulty("eligibility_traces", "γ lost", "gamma * lambda_ * trace", "lambda_ * trace"),
    Faulty("td_lambda", "λ and 1 − λ swapped", "(1.0 - lambda_) * successor + lambda_ * next_return", "lambda_ * successor + (1.0 - lambda_) * next_return"),
    Faulty("gae", "sign of V'", "+ gamma * successor", "- gamma * successor"),
    Faulty("gae", "returns are not advantages plus values", "advantages + values", "advantages + rewards"),
    Faulty("retrace", "ratio of the wrong step", "gamma * next_c *", "gamma * c[:, t] *"),
    Faulty("retrace", "ratio multiplies the error", "q_values[:, t] + correction", "q_values[:, t] + np.minimum(1.0, np.exp(log_ratios[:, t])) * correction"),
    Faulty("retrace", "policy of the wrong state", "(next_policy * next_q_values)", "(np.roll(next_policy, 1, 1) * next_q_values)"),
    Faulty("retrace", "ratio not clipped", "np.minimum(1.0, np.exp(log_ratios))", "np.exp(log_ratios)"),
    Faulty("vtrace", "ratio not exponentiated", "np.exp(log_ratios)", "log_ratios"),
    Faulty("vtrace", "ratio not clipped before exp", "rho, c, pg_rho = np.minimum(1.0, ratio)", "rho, c, pg_rho = ratio * np.minimum(1.0, 1.0 / ratio)"),
    Faulty("vtrace", "ρ and c swapped", "np.minimum(1.0, ratio), lambda_ * np.minimum(1.0, ratio)", "np.minimum(1.0, ratio), lambda_ * np.minimum(2.0, ratio)", {"rho_clip": 2.0}),
    Faulty("vtrace", "other policy advantage", "next_target)\n", "lambda_ * next_target + (1.0 - lambda_) * successor)\n"),
    Faulty("prefix_sum", "own step left out", "sums[:, t] = total", "sums[:, t] = total - inputs[:, t]"),
    Faulty("prefix_sum", "runs the wrong way", "range(inputs.shape[1]):\n        " + SUM, "reversed(range(inputs.shape[1])):\n        total = total * (1.0 - ends[:, t]) + inputs[:, t]\n        sums[:, t] = total"),
    Faulty("gae", "multiplied by zero instead of selected", "advantage", "advantage", {"unused": "nan"}),
    Faulty("gae", "axes swapped", "rewards.shape[1]", "rewards.shape[1]", {"layout": "TN"}),
)  # fmt: skip
