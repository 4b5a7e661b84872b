"""The tables: the baselines are right, what is wrong is not timed, and the renderer prints what was measured."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

from paper import baselines, bench, keeping, libraries, render, tables
from paper.cuda_rows import CUDA_ROWS
from paper.gate import Expected, check, expect

CASES = [
    (name, truncated)
    for name in baselines.ESTIMATORS
    for truncated in (False, True)[: 1 + (name in baselines.TRUNCATES)]
]
SCANS = (baselines.loop_scan, baselines.doubling_scan)
SHAPES = [(5, 1), (3, 2), (3, 127), (3, 128), (3, 129), (2, 4096)]
cases = pytest.mark.parametrize(("estimator", "truncated"), CASES)


def with_density(inputs: dict[str, Any], probability: float, seed: int) -> dict[str, Any]:
    """The same rollout with other boundaries."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.rand(x.shape, generator=generator) < probability
        if name in ("terminated", "truncated", "ends")
        else x
        for name, x in inputs.items()
    }


# The baselines


@cases
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]}x{shape[1]}")
def test_baselines_are_right_at_every_shape(estimator: str, truncated: bool, shape: tuple[int, int]) -> None:
    for dtype in (torch.float32, torch.float64):
        inputs = bench.rollout(estimator, truncated, *shape, seed=shape[1], dtype=dtype)
        expected = expect(estimator, inputs)
        for scan in SCANS:
            verdict = check(baselines.baseline(estimator, scan)(**inputs), expected)
            assert verdict.passed, (scan.__name__, dtype, verdict)


@cases
@pytest.mark.parametrize("probability", [0.0, 0.3, 0.9, 1.0])
def test_baselines_are_right_at_every_density_of_boundaries(
    estimator: str, truncated: bool, probability: float
) -> None:
    for seed in range(5):
        rollout = bench.rollout(estimator, truncated, 16, 7 + seed, seed=seed, dtype=torch.float64)
        inputs = with_density(rollout, probability, seed)
        expected = expect(estimator, inputs)
        for scan in SCANS:
            verdict = check(baselines.baseline(estimator, scan)(**inputs), expected)
            assert verdict.passed, (scan.__name__, seed, verdict)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="NOT RUN: the compiled baselines are a GPU's")
@pytest.mark.parametrize("name", ["doubling", "associative"])
@pytest.mark.parametrize("estimator", ["gae", "prefix_sum"])
@pytest.mark.parametrize("shape", [(64, 129), (8, 4096)], ids=lambda shape: f"{shape[0]}x{shape[1]}")
def test_compiled_baselines_are_right(name: str, estimator: str, shape: tuple[int, int]) -> None:
    torch._dynamo.reset()
    inputs = bench.rollout(estimator, False, *shape, device="cuda")
    assert check(baselines.BASELINES[name](estimator)(**inputs), expect(estimator, inputs)).passed


def test_rollouts_contain_every_boundary() -> None:
    inputs = bench.rollout("gae", True, 512, 64)
    terminated, truncated = inputs["terminated"], inputs["truncated"]
    for flags in (terminated & ~truncated, truncated & ~terminated, terminated & truncated, ~terminated & ~truncated):
        assert flags.any()
        assert flags[:, -1].any()
    for flags in (terminated, truncated):
        assert abs(flags.double().mean() - 0.05) < 0.005


def test_a_rollout_is_what_rlscan_takes() -> None:
    for estimator, truncated in CASES:
        inputs = bench.rollout(estimator, truncated, 4, 9)
        assert check(bench.rlscan_function(estimator)(**inputs), expect(estimator, inputs)).passed, estimator


# The gate


def shifted(estimator: str) -> Any:
    """A loop that takes the flags for those of the step that starts."""
    right = baselines.BASELINES["loop"](estimator)
    return lambda **x: right(**{k: v.roll(1, dims=1) if k in ("terminated", "ends") else v for k, v in x.items()})


def doubled_bootstrap(estimator: str) -> Any:
    right = baselines.BASELINES["loop"](estimator)
    return lambda **x: right(**{k: 2 * v if k == "last_values" else v for k, v in x.items()})


def nan_in_one_slot(estimator: str) -> Any:
    right = baselines.BASELINES["loop"](estimator)

    def run(**inputs: Any) -> Any:
        outputs = right(**inputs)
        outputs[-1][-1, -1] = float("nan")
        return outputs

    return run


def raises(estimator: str) -> Any:
    raise ImportError(f"{estimator} is not here")


@pytest.mark.parametrize("wrong", [shifted, doubled_bootstrap, nan_in_one_slot, raises])
def test_gate_refuses_what_is_wrong(
    wrong: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = {"title": "t", "label": "l", "device": "cpu", "shapes": [[4, 16]], "estimators": ["gae"],
             "implementations": ["loop", "wrong"], "protocol": bench.QUICK}  # fmt: skip
    monkeypatch.setattr(tables, "tables", lambda: {"tiny": block})
    monkeypatch.setitem(bench.IMPLEMENTATIONS, "wrong", wrong)
    assert tables.main(["--table", "tiny", "--out", str(tmp_path)]) == 1
    assert "failed the gate" in capsys.readouterr().err
    rows = json.loads((tmp_path / "tiny.json").read_text())["rows"]
    assert len(rows) == 4
    for row in rows:
        right = row["implementation"] == "loop"
        assert row["gate"]["passed"] is right
        assert bool(row["samples_us"]) is right
        assert (row["best_us"] is not None) is right


@pytest.mark.parametrize("outputs", [torch.zeros(2, 3), (torch.zeros(2, 4),) * 2, torch.zeros(2, 4, 1)])
def test_gate_compares_equal_shapes_only(outputs: Any) -> None:
    zeros, nothing = torch.zeros(2, 4).numpy(), torch.zeros(0, 4).numpy()
    assert check(torch.zeros(2, 4), Expected((zeros,), (zeros + 1,))).passed
    assert not check(outputs, Expected((zeros,), (zeros + 1,))).passed
    assert not check(torch.zeros(0, 4), Expected((nothing,), (nothing,))).passed


# The runner


def test_best_is_the_minimum_over_trials_of_the_median() -> None:
    assert bench.best([[9.0, 1.0, 5.0], [4.0, 4.5, 90.0]]) == 4.5
    assert bench.best([]) is None


def test_runner_follows_the_protocol_and_says_where_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLSCAN_COMMIT", "abc123-dirty")
    block = {"title": "t", "label": "l", "device": "cpu", "shapes": [[4, 16]], "estimators": ["gae", "prefix_sum"],
             "implementations": ["rlscan", "loop"], "protocol": {"iterations_per_trial": 3, "trials": 4}}  # fmt: skip
    monkeypatch.setattr(tables, "tables", lambda: {"tiny": block})
    assert tables.main(["--table", "tiny", "--out", str(tmp_path), "--seed", "3"]) == 0
    result = json.loads((tmp_path / "tiny.json").read_text())
    assert (result["commit"], result["dirty"], result["seed"]) == ("abc123", True, 3)
    assert result["protocol"]["gamma"] == 0.99
    recorded, running = (version.partition("+")[0] for version in (result["versions"]["torch"], torch.__version__))
    assert recorded == running  # a build (+cu130) may be named by one of them alone
    assert len(result["rows"]) == 2 * 2 + 2
    for row in result["rows"]:
        assert [len(trial) for trial in row["samples_us"]] == [3] * 4
        assert row["best_us"] == bench.best(row["samples_us"])


def test_every_table_names_what_exists() -> None:
    known = {*bench.IMPLEMENTATIONS, *libraries.CALLS, *CUDA_ROWS, *libraries.PUFFERLIB}
    for name, block in bench.tables().items():
        assert block["title"]
        assert set(block.get("estimators", [])) <= set(baselines.ESTIMATORS), name
        assert set(block.get("implementations", [])) <= known, name
        assert block.get("original", "table3") in bench.original(), name
        assert tables.Request(name, "cpu", 0).runner in {*tables.RUNNERS, "end_to_end"}, name


# The renderer


def synthetic(tmp_path: Path, ours: float = 10.0, wrong: str = "") -> None:
    """A checkout in which rlscan takes `ours` µs plain and twice that truncated, the baselines 40 and 4000 µs."""
    times = {"rlscan": ours, "doubling": 40.0, "loop": 4000.0}
    rows = [
        {
            "estimator": estimator, "truncated": truncated, "num_envs": 4096, "seq_len": 128, "implementation": name,
            "samples_us": [] if name == wrong else [[time * (1 + (truncated and name == "rlscan"))] * 3],
            "gate": {"passed": name != wrong, "error": "too far off"},
        }
        for estimator, truncated in CASES
        for name, time in times.items()
    ]  # fmt: skip
    result = {
        "table": "table3", "label": "l", "device": "Test GPU",
        "versions": {"torch": "2", "triton": "3", "cuda": "13", "python": "3"},
        "commit": "0123456789abcdef", "dirty": False, "seed": 7, "date": "2026-01-01", "empty_call_us": 1.0,
        "protocol": bench.original()["protocol"], "rows": rows,
    }  # fmt: skip
    keeping.write(result, tmp_path / "paper" / "results" / "test-gpu" / "table3.json")


def row_of(text: str, estimator: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| `{estimator}`"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_renderer_prints_ratios_beside_the_papers(tmp_path: Path) -> None:
    synthetic(tmp_path)
    assert render.main([], root=tmp_path) == 0
    text = (tmp_path / "paper" / "rendered" / "table3.md").read_text()
    theirs = bench.original()["table3"]["rows"]["gae"]["H100"]
    name, ours, loop, doubling, associative, paper_loop, paper_scan, missed = row_of(text, "gae")
    assert (name, ours, loop, doubling) == ("`gae`", "10.0 / 20.0", "400 / 200", "4.00 / 2.00")
    assert associative == "– / –"
    assert paper_loop == f"*{theirs['vs_loop']:.0f}*"
    assert paper_scan == f"*{theirs['vs_compiled_scan']:.2f} / {theirs['vs_compiled_scan_truncated']:.2f}*"
    assert missed == "none"
    assert row_of(text, "prefix_sum")[1] == "10.0"
    for fact in ("Test GPU", "0123456789ab", "seed 7", "2026-01-01", "torch 2, triton 3, cuda 13", "H100 80GB"):
        assert fact in text


def test_renderer_marks_misses(tmp_path: Path) -> None:
    synthetic(tmp_path, ours=30.0)
    text = render.page("table3", render.load(tmp_path)["table3"])
    missed = row_of(text, "gae")[-1]
    assert "slower than doubling, truncated: 0.67" in missed
    assert "below the paper vs loop, plain: 133 < 317" in missed
    assert "below the paper vs doubling, plain: 1.33 < 2.36" in missed
    assert "loop, truncated" not in missed  # the paper has no such figure


def test_renderer_prints_what_the_gate_refused(tmp_path: Path) -> None:
    synthetic(tmp_path, wrong="doubling")
    text = render.page("table3", render.load(tmp_path)["table3"])
    assert row_of(text, "gae")[3] == "– / –"
    assert "doubling failed the gate, truncated" in row_of(text, "gae")[-1]
    assert "doubling, `gae`, plain, 4096 × 128: too far off" in text


def test_check_catches_what_is_stale(tmp_path: Path) -> None:
    synthetic(tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- table3:begin -->\nold\n<!-- table3:end -->\nafter\n")
    assert render.main(["--check"], root=tmp_path) == 1
    assert "old" in readme.read_text()
    assert render.main([], root=tmp_path) == 0
    text = readme.read_text()
    assert text.startswith("before\n<!-- table3:begin -->")
    assert text.endswith("<!-- table3:end -->\nafter\n")
    assert "old" not in text
    assert row_of(text, "gae")[3] == "4.00 / 2.00"
    assert render.main(["--check"], root=tmp_path) == 0
    synthetic(tmp_path, ours=11.0)
    assert render.main(["--check"], root=tmp_path) == 1
    assert render.main([], root=tmp_path) == 0
    readme.write_text(readme.read_text().replace("364", "999"))
    assert render.main(["--check"], root=tmp_path) == 1


def test_readme_says_what_was_not_measured(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("<!-- table3:begin --><!-- table3:end -->\n")
    render.main([], root=tmp_path)
    assert "Not measured yet" in (tmp_path / "README.md").read_text()
