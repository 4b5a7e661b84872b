"""A counterexample in words."""

from __future__ import annotations

import math

import numpy as np

from .diagnosis import CASES, Diagnosis
from .fuzzing import Failure
from .options import RESULTS, Options
from .weights import KINDS

COLUMNS = (
    "rewards",
    "values",
    "q_values",
    "inputs",
    "log_ratios",
    "truncation_values",
    "next_values",
    "gamma",
    "lambda_",
)


class Counterexample(AssertionError):  # noqa: N818  # as AssertionError, it says what was found
    """A function gave something else than the definition.

    estimator; result (its name), row, step, expected and got, where numbers differ; kinds, the known faults that it
    looks like; together, whether it takes all of them at once; arguments, the rollout as canonical [N, T] arrays.
    """

    def __init__(self, name: str, options: Options, failure: Failure, diagnosis: Diagnosis) -> None:
        super().__init__(text(name, options, failure, diagnosis))
        self.estimator, self.kinds, self.together = options.estimator, diagnosis.kinds, diagnosis.together
        self.arguments = failure.example.arguments
        self.result = self.row = self.step = self.expected = self.got = None
        if not failure.words:
            self.result, self.row, self.step = failure.result, failure.row, failure.step
            self.expected = float(failure.expected[failure.row, failure.step])
            self.got = float(failure.got[failure.row, failure.step])


def text(name: str, options: Options, failure: Failure, diagnosis: Diagnosis) -> str:
    lines = [f"{name} is not {options.estimator} as rlscan defines it.", ""]
    lines += [f"  {name} {failure.words}"] if failure.words else where(options, failure)
    return "\n".join([*lines, "", *kinds(options, diagnosis), "", *rollout(options, failure)])


def number(x: float) -> str:
    return f"{x + 0.0:.6g}" if math.isfinite(x) else str(x)


def where(options: Options, failure: Failure) -> list[str]:
    t, row = failure.step, failure.row
    want, got = failure.expected[row], failure.got[row]
    lines = [
        f"  {failure.result}[row {row}, step {t}]: expected {number(want[t])}, got {number(got[t])}.",
        f"  {boundaries(options, failure)}",
    ]
    others = int(failure.wrong.sum()) - 1
    start = "first" if options.forward else "last"
    lines += (
        [f"  It is the {start} wrong step of its row; {others} more are wrong after it, as the scan runs."]
        if others
        else []
    )
    return lines


def boundaries(options: Options, failure: Failure) -> str:
    """Which boundary is at the step and which is nearest on either side."""
    marks = marks_of(failure)
    t, steps = failure.step, len(marks)
    here = f"Step {t} {says(marks[t])}" if marks[t] else f"No boundary is at step {t}"
    around = [f"step {s} {says(marks[s])}" for s in (t - 1, t + 1) if 0 <= s < steps and marks[s]]
    if t == 0:
        around.append("the window starts with it")
    if t == steps - 1:
        around.append("the window ends with it")
    return "; ".join([here, *around]) + "."


def says(mark: str) -> str:
    return {
        "terminated": "terminates its episode",
        "truncated": "is where the episode is cut (truncated)",
        "both": "is both terminated and truncated: termination wins",
        "end": "ends its episode",
        "start": "starts an episode",
    }[mark]


def marks_of(failure: Failure) -> list[str]:
    a = failure.example.arguments
    if "ends" in a:
        word = "start" if dict(failure.example.setup.options).get("boundary") == "starts_at" else "end"
        return [word if flag else "" for flag in a["ends"][failure.row]]
    truncated = a.get("truncated", np.zeros_like(a["terminated"]))[failure.row]
    return [
        ("", "terminated", "truncated", "both")[int(x) + 2 * int(y)]
        for x, y in zip(a["terminated"][failure.row], truncated, strict=True)
    ]


def kinds(options: Options, diagnosis: Diagnosis) -> list[str]:
    if not diagnosis.kinds:
        if not diagnosis.tried:
            return ["Known kinds of fault: none is told from this."]
        return [
            f"Known kinds of fault: none of {diagnosis.tried} gives these numbers, on this rollout and on others, nor "
            "do any two of them."
        ]
    head = "It looks like two faults at once:" if diagnosis.together else "It looks like:"
    lines = [head]
    for name, word in zip(diagnosis.kinds, diagnosis.says, strict=True):
        entries = [k for k in KINDS if k.name == name and k.says == word and options.estimator in k.estimators]
        cases = sorted({*(case for entry in entries for case in entry.cases), *CASES.get(name, ())})
        shown = f" (as in {', '.join(cases)})" if cases else ""
        lines.append(f"  {name}: {word}{shown}")
    return [*lines, "  (It gives the same numbers as the function, here and on other rollouts.)"]


def rollout(options: Options, failure: Failure) -> list[str]:
    """The counterexample's row as a table of steps, then what is one number a row or in all."""
    a, row = failure.example.arguments, failure.row
    rows, steps = failure.example.arguments[next(iter(a))].shape[:2]
    columns: dict[str, list[str]] = {"step": [str(t) for t in range(steps)]}
    columns["boundary"] = [{"both": "term.+trunc."}.get(mark, mark) or "-" for mark in marks_of(failure)]
    for name in COLUMNS:
        if isinstance(a.get(name), np.ndarray) and a[name].ndim >= 2:
            columns[name] = [number(x) for x in a[name][row]]
    for name in ("next_q_values", "next_policy"):
        if a.get(name) is not None:
            columns[name] = [" ".join(map(number, np.atleast_1d(x))) for x in a[name][row]]
    if not failure.words:
        columns |= {"expected": [number(x) for x in failure.expected[row]]}
        columns |= {
            "got": [number(x) + (" <" if w else "") for x, w in zip(failure.got[row], failure.wrong[row], strict=True)]
        }
    names = {
        "truncation_values": "V(cut)",
        "next_values": "V(next)",
        "next_q_values": "Q(next)",
        "next_policy": "π(next)",
    }
    names |= {"gamma": "γ", "lambda_": "λ", "log_ratios": "log w"}
    table = [[names.get(k, k), *v] for k, v in columns.items()]
    widths = [max(map(len, column)) for column in table]
    which = f"row {row} of {rows}" if rows > 1 else f"1 row of {steps} step{'s' * (steps > 1)}"
    lines = [f"The rollout ({which}; layout {options.layout}, flags {options.flags}):"]
    lines += [
        "  " + "  ".join(x.rjust(w) for x, w in zip(cells, widths, strict=True)) for cells in zip(*table, strict=True)
    ]
    rest = {
        name: a[name] for name in ("last_values", "initial", "gamma", "lambda_") if name in a and np.ndim(a[name]) < 2
    }
    shown = [f"{name} = {number(float(np.broadcast_to(x, (rows,))[row]))}" for name, x in rest.items()]
    shown += [f"{name} = {value}" for name, value in options.settings]
    return [*lines, "  " + ", ".join(shown)] if shown else lines


__all__ = ["RESULTS", "Counterexample"]
