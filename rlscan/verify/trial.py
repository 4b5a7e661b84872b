"""What the recipes of the cases share: a call with its a-priori bound, and the comparison with right and wrong numbers.

The numbers of `cases.json` are decimals, each rounded once on its way into the dtype; the bound of `tolerance` is told
so.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from .compare import call, expect
from .strategies import Example, Setup
from .tolerance import Mismatch, assert_within, bounds

CASES: dict[str, Any] = json.loads(Path(__file__).with_name("cases.json").read_text())
NAN = float("nan")


class Answer(NamedTuple):
    """A result as the case writes it (without the row where there is one), and how far a right one may be off."""

    got: torch.Tensor
    bound: Any


@dataclass
class Trial:
    """One case on one path."""

    name: str
    device: str
    path: str | None
    api: Any
    setup: Setup
    checks: int = 0
    rejected: set[str] = field(default_factory=set)

    @property
    def case(self) -> dict[str, Any]:
        case: dict[str, Any] = CASES[self.name]
        return case

    def solve(self, estimator: str, arguments: Mapping[str, Any], **changes: Any) -> list[Answer]:
        """The public function on canonical arguments; `changes` are the setup's."""
        example = Example(replace(self.setup, estimator=estimator, **changes), dict(arguments))
        limits = bounds(example, expect(example), rounded_inputs=True)
        answers = zip(call(example, self.device, self.path, self.api), limits, strict=True)
        return [Answer(got[0], limit[0]) if len(limit) == 1 else Answer(got, limit) for got, limit in answers]

    def check(self, answer: Answer, key: str, wrong: Mapping[str, Any] | None = None) -> None:
        """The answer is the case's `key`, and the same comparison rejects the case's wrong numbers, and `wrong`."""
        every = {**self.wrong_answers(key), **(wrong or {})}
        self.compare(answer, numbers(self.case[key]), {name: numbers(value) for name, value in every.items()}, key)

    def compare(self, answer: Answer, right: Any, wrong: Mapping[str, Any], what: str) -> None:
        if (np.isinf(answer.bound) & np.isfinite(right)).any():
            raise Mismatch(f"{what}: the reference is not a number where the case is one")
        assert_within(answer.got, right, answer.bound, what)
        self.checks += 1
        for name, value in wrong.items():
            steps = len(value)  # some are of the first steps only
            try:
                assert_within(torch.from_numpy(value), right[:steps], answer.bound[:steps], name)
            except Mismatch:
                self.rejected.add(name)
            else:
                raise Mismatch(f"{what}: {name} would be accepted")

    def wrong_answers(self, key: str) -> dict[str, Any]:
        """Those of this output: the one whose name theirs begins with, else the first."""
        outputs = [
            name for name, value in self.case.items() if isinstance(value, list) and not name.startswith("wrong")
        ]
        found = {}
        for name, value in self.case.items():
            if name.startswith("wrong_") and isinstance(value, list):
                owners = [output for output in outputs if name.startswith(f"wrong_{output}")] or outputs[:1]
                if max(owners, key=len) == key:
                    found[name] = value
        return found


def numbers(x: Any) -> Any:
    """JSON as float64; "nan" and null are NaN."""
    return np.array(np.vectorize(lambda y: NAN if y is None else float(y), otypes=[float])(np.array(x, dtype=object)))
