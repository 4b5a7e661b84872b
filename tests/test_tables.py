"""The runner of the tables: a run that is stopped goes on, what is missing is named, and rows have one home."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

import synthetic_targets as synthetic

from paper import bench, jobs, libraries, reproduce, tables, targets
from rlscan import cli

ROOT = Path(__file__).resolve().parents[1]
TINY: dict[str, Any] = {
    "title": "t", "label": "l", "device": "cpu", "shapes": [[4, 16], [2, 8]], "estimators": ["gae", "prefix_sum"],
    "implementations": ["loop"], "protocol": bench.QUICK,
}  # fmt: skip
CELLS = 2 * 3  # of TINY: gae plain and truncated, prefix sums


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(tables, "tables", lambda: {"tiny": TINY})
    return TINY


def measured(monkeypatch: pytest.MonkeyPatch, stop_after: int | None = None) -> list[Any]:
    """The cells that are measured from now on; after so many the runner is interrupted."""
    cells: list[Any] = []
    real = bench.measure_cell

    def measure(*arguments: Any) -> Any:
        if stop_after is not None and len(cells) == stop_after:
            raise KeyboardInterrupt
        cells.append(arguments[:3])
        return real(*arguments)

    monkeypatch.setattr(tables, "measure_cell", measure)
    return cells


def structure(path: Path) -> list[Any]:
    rows = json.loads(path.read_text())["rows"]
    return [
        [(k, v) for k, v in row.items() if k not in ("best_us", "samples_us", "gate")]
        + [[len(trial) for trial in row["samples_us"]]]
        for row in rows
    ]


# Going on


def test_a_run_that_was_stopped_goes_on(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tables.main(["--table", "tiny", "--out", str(tmp_path / "whole")]) == 0
    first = measured(monkeypatch, stop_after=4)
    arguments = ["--table", "tiny", "--out", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        tables.main(arguments)
    assert len(first) == 4
    assert not (tmp_path / "tiny.json").exists()
    before = json.loads((tmp_path / "tiny.json.partial").read_text())["rows"]
    monkeypatch.undo()
    monkeypatch.setattr(tables, "tables", lambda: {"tiny": TINY})
    rest = measured(monkeypatch)
    capsys.readouterr()
    assert tables.main(arguments) == 0
    assert "4 rows of tiny.json.partial are kept" in capsys.readouterr().err
    assert len(rest) == CELLS - 4
    assert not set(map(str, rest)) & set(map(str, first))
    assert not (tmp_path / "tiny.json.partial").exists()
    assert json.loads((tmp_path / "tiny.json").read_text())["rows"][: len(before)] == before
    assert structure(tmp_path / "tiny.json") == structure(tmp_path / "whole" / "tiny.json")


KILLED = """
import sys, time
from paper import bench, tables
tables.tables = lambda: {"tiny": %r}
real, count = bench.measure_cell, iter(range(100))
def measure(*arguments):
    if next(count) == 3:
        print("three", flush=True)
        time.sleep(600)
    return real(*arguments)
tables.measure_cell = measure
tables.main(["--table", "tiny", "--out", sys.argv[1]])
"""


def test_a_run_that_was_killed_goes_on(tiny: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED % TINY, str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "three\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    rest = measured(monkeypatch)
    # the killed run was another process of this machine, with this very code
    assert tables.main(["--table", "tiny", "--out", str(tmp_path)]) == 0
    assert len(rest) == CELLS - 3
    assert len(json.loads((tmp_path / "tiny.json").read_text())["rows"]) == CELLS


def test_what_is_there_is_kept_and_measured_again_when_asked(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--table", "tiny", "--out", str(tmp_path)]
    assert tables.main(arguments) == 0
    text = (tmp_path / "tiny.json").read_text()
    cells = measured(monkeypatch)
    assert tables.main(arguments) == 0
    assert cells == []
    assert (tmp_path / "tiny.json").read_text() == text
    assert "are kept: measured here by this very code" in capsys.readouterr().err
    assert tables.main([*arguments, "--again"]) == 0
    assert len(cells) == CELLS


@pytest.mark.parametrize("field", ["commit", "source", "seed", "versions"])
def test_what_other_code_has_measured_is_not_gone_on_with(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    measured(monkeypatch, stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        tables.main(["--table", "tiny", "--out", str(tmp_path)])
    path = tmp_path / "tiny.json.partial"
    old = json.loads(path.read_text())
    old[field] = {**old[field], "torch": "0.1"} if field == "versions" else "other"
    path.write_text(json.dumps(old))
    cells = measured(monkeypatch)
    assert tables.main(["--table", "tiny", "--out", str(tmp_path)]) == 0
    assert len(cells) == CELLS
    said = capsys.readouterr().err
    assert "is not gone on with, because" in said
    assert ("versions: torch was 0.1" if field == "versions" else f"{field} was other") in said


def test_an_older_result_stays_until_the_new_one_is_whole(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert tables.main(["--table", "tiny", "--out", str(tmp_path)]) == 0
    old = (tmp_path / "tiny.json").read_text()
    measured(monkeypatch, stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        tables.main(["--table", "tiny", "--out", str(tmp_path), "--seed", "1"])
    assert (tmp_path / "tiny.json").read_text() == old


def test_a_cell_that_fails_is_a_row_that_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(wanted: list[jobs.Job], processes: int, seconds: float, tell: Any) -> Any:
        for job in wanted:
            tell(job, targets.blank(job, "out of memory") if job.shape[1] == 65536 else list(synthetic.cell(job)))
        return [], ["out of memory"]

    monkeypatch.setattr(targets, "run", run)
    monkeypatch.setattr(tables, "head_of", lambda request: {**synthetic.HEAD, "table": request.name, "not_run": {}})
    assert tables.measure(tables.Request("retrace_long", "cuda", 0), tmp_path / "retrace_long.json") == 1
    result = json.loads((tmp_path / "retrace_long.json").read_text())
    failed = [row for row in result["rows"] if row["us"] is None]
    assert {(row["seq_len"], row["gate"]["error"]) for row in failed} == {(65536, "out of memory")}
    assert "[16/16]" in capsys.readouterr().err


def test_a_section_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[list[jobs.Job]] = []

    def run(wanted: list[jobs.Job], processes: int, seconds: float, tell: Any) -> Any:
        asked.append(wanted)
        for job in wanted[: 5 if len(asked) == 1 else None]:
            tell(job, list(synthetic.cell(job)))
        return [], ["out of time"] if len(asked) == 1 else []

    monkeypatch.setattr(targets, "run", run)
    monkeypatch.setattr(tables, "head_of", lambda request: {**synthetic.HEAD, "table": request.name, "not_run": {}})
    request, path = tables.Request("table4", "cuda", 0), tmp_path / "table4.json"
    assert tables.measure(request, path) == 1
    assert not path.exists()
    assert tables.measure(request, path) == 0
    everything = list(jobs.of_table("table4"))
    assert [len(wanted) for wanted in asked] == [len(everything), len(everything) - 5]
    rows = json.loads(path.read_text())["rows"]
    assert rows == [row for job in everything for row in synthetic.cell(job)]


# What is asked for


@pytest.mark.parametrize(
    ("said", "meant"), [("4", "table4"), ("table6", "table6"), ("figure2", "pufferlib"), ("1", None), ("table9", None)]
)
def test_tables_by_their_names(said: str, meant: str | None) -> None:
    assert tables.by_name(said) == meant


@pytest.mark.parametrize(("table", "words"), [("9", "no table '9'"), ("4", "table4 can't be measured on cpu")])
def test_reproduce_says_what_it_cannot_measure_before_it_verifies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: str, words: str
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(cli, "verify", lambda options: pytest.fail("it verified"))
    assert cli.main(["reproduce", "--device", "cpu", "--table", table]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert "table3_cpu" in line


def test_a_gpu_measures_its_tables_and_a_cpu_its_own() -> None:
    on_gpu, on_cpu = reproduce.chosen(None, "cuda:0"), reproduce.chosen(None, "cpu")
    assert {"table3", "table4", "table6", "pufferlib", "retrace_long", "figure1", "accesses", "table5"} <= set(on_gpu)
    assert set(on_cpu) == {"table3_cpu", "libraries_cpu", "table5"}


def test_reproduce_goes_through_all_and_names_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(tables, "measure", lambda request, out, again: seen.append(request.name) or 1)
    monkeypatch.setattr(reproduce.render, "main", lambda argv: 0)
    assert reproduce.main(device="cpu", table=None, seed=0) == 1
    assert seen == reproduce.chosen(None, "cpu")
    said = capsys.readouterr().out
    assert "NOT RUN on cpu: table3, table4" in said
    assert "rendered as committed: h200/table4.json, measured on NVIDIA H200, commit" in said


# Libraries


def test_a_library_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    block = {**TINY, "shapes": [[1, 2]], "runner": "libraries", "implementations": ["rlscan", "jax_scan", "torchrl"]}
    monkeypatch.setattr(tables, "tables", lambda: {"tiny": block})
    gone = {"torchrl": "torchrl is not installed"}
    monkeypatch.setattr(libraries, "absent", lambda name, device: gone.get(name))
    monkeypatch.setattr(libraries, "has", lambda name, estimator: name == "rlscan")
    assert tables.main(["--table", "tiny", "--out", str(tmp_path)]) == 0
    assert "without torchrl: torchrl is not installed" in capsys.readouterr().err
    result = json.loads((tmp_path / "tiny.json").read_text())
    assert result["not_run"] == gone
    assert {row["implementation"] for row in result["rows"]} == {"rlscan"}
    gone["jax_scan"] = "jax is not installed"
    assert tables.main(["--table", "tiny", "--out", str(tmp_path / "none")]) == 0
    assert "NOT RUN: tiny: jax is not installed; torchrl is not installed" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


def test_absent_says_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda module: None)
    monkeypatch.delenv(libraries.SOURCES, raising=False)
    assert libraries.absent("rlscan") is None
    assert libraries.absent("jax_scan", "cpu") == "jax is not installed"
    assert libraries.absent("pufferlib") == "pufferlib is not installed"


@pytest.mark.parametrize("name", ["jax_associative", "jax_scan", "torchrl"])
def test_libraries_agree_with_the_reference(name: str) -> None:
    reason = libraries.absent(name, "cpu")
    if reason:
        pytest.skip(f"NOT RUN: {reason}")
    protocol = {"warmup_calls": 0, "iterations_per_trial": 1, "trials": 1}
    for key in tables.call_cells({**bench.tables()["libraries"], "shapes": [[3, 17]]}):
        if libraries.has(name, key["estimator"]):
            shape = (key["num_envs"], key["seq_len"])
            (row,) = libraries.measure(key["estimator"], key["truncated"], shape, [name], protocol, "cpu", 0)
            assert row["gate"]["passed"], row
            assert row["best_us"] > 0


def test_pufferlib_is_asked_for_gae(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what its operator documents: windows of T + 1 steps, rewards and ends a step later."""

    def operator(values: Any, rewards: Any, ends: Any, ratios: Any, advantages: Any, *numbers: float) -> None:
        gamma, lambda_, rho, c = numbers
        assert (rho, c) == (1.0, 1.0)
        assert (ratios == 1).all()
        following = torch.zeros_like(values[:, 0])
        for t in reversed(range(values.shape[1] - 1)):
            goes_on = 1 - ends[:, t + 1]
            delta = rewards[:, t + 1] + gamma * values[:, t + 1] * goes_on - values[:, t]
            following = advantages[:, t] = delta + gamma * lambda_ * goes_on * following

    monkeypatch.setattr(libraries, "puffer_advantage", lambda: operator)
    inputs = bench.rollout("gae", False, 5, 33)
    (found,) = libraries.puffer_gae()(**inputs)
    wanted = bench.rlscan_function("gae")(**inputs).advantages
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
