"""The bound's counts of additions follow the plan, and its tightness is measured and rendered."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("hypothesis")

import rlscan
from paper import tightness
from rlscan.engine import forced
from rlscan.engine.plan import remembered
from rlscan.verify.environment import environment
from rlscan.verify.strategies import ESTIMATORS, Example, Setup
from rlscan.verify.tolerance import Mismatch, bounds, depth


@pytest.mark.parametrize(
    ("rows", "steps", "additions"), [(1, 5, 5), (1, 400, 40), (600, 128, 128), (600, 300, 131), (1, 10_000, 200)]
)
def test_additions_of_the_portable_path(rows: int, steps: int, additions: int) -> None:
    ones = torch.ones(rows, steps)
    with forced("portable"):
        (plan,) = remembered(lambda: rlscan.linear_scan(ones, ones))
    assert depth(steps, plan) == additions <= depth(steps) == steps


def test_a_plan_gives_the_smaller_bound() -> None:
    ones = np.ones((1, 400))
    example = Example(Setup("linear_scan"), {"alpha": ones, "beta": ones, "initial": 0.0})
    with forced("portable"):
        (plan,) = remembered(lambda: rlscan.linear_scan(torch.ones(1, 400), torch.ones(1, 400)))
    expected = (np.arange(1, 401.0)[None],)
    assert (bounds(example, expected, plan=plan)[0] < bounds(example, expected)[0]).all()
    assert (bounds(example, expected)[0] < bounds(example, expected, rounded_inputs=True)[0]).all()


def test_where_rounding_has_no_bound_the_comparison_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlscan.verify.tolerance.step_roundings", lambda *_: (2.0**24, 0.0))
    ones = np.ones((1, 2))
    example = Example(Setup("linear_scan"), {"alpha": ones, "beta": ones, "initial": 0.0})
    with pytest.raises(Mismatch, match="has no bound"):
        bounds(example, (ones,))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("dtype", tightness.STEPS)
def test_errors_are_within_the_bound_and_not_far_below(estimator: str, dtype: str) -> None:
    row = tightness.measure((estimator, dtype, 256, "cpu", 1))
    assert (0.001 if dtype == "float32" else 0.1) < row["share"] <= 1
    assert row["additions"] <= 256


def test_rows_are_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(job: Any) -> dict[str, Any]:
        estimator, dtype, steps, *_ = job
        return {"estimator": estimator, "dtype": dtype, "steps": steps, "path": "portable", "share": 0.25}

    (tmp_path / "rendered").mkdir()
    monkeypatch.setattr(tightness, "PAPER", tmp_path)
    shown = [rows((name, dtype, steps)) for name in ESTIMATORS for dtype in tightness.STEPS for steps in (4, 16)]
    tightness.write({**environment("cpu"), "seed": 0, "rows": shown}, tmp_path / "results" / "cpu" / "tightness.json")
    assert tightness.main(["--render", "--device", "cpu"]) == 0
    assert "| `gae` | 0.250 | 0.250 |" in (tmp_path / "rendered" / "tightness_cpu.md").read_text()
    assert all((tmp_path / "rendered" / f"tightness_cpu.{suffix}").stat().st_size for suffix in ("svg", "png"))
