"""The end-to-end parts: each runs and is checked before it is timed, and the pages print what was measured."""

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed
pytest.importorskip("matplotlib", reason="NOT RUN: matplotlib is not installed")

from paper import bench, end_to_end, end_to_end_page, keeping, learning, learning_page, render
from paper.timing import laps
from rlscan.engine import forced

Result = dict[str, Any]


@pytest.fixture(autouse=True)
def portable() -> Iterator[None]:
    """Without a GPU the tests' own path is the interpreter, which is slow."""
    with forced("portable"):
        yield


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """What `--quick` measures on a CPU, by part."""
    folder = tmp_path_factory.mktemp("results")
    found = {}
    with forced("portable"):
        for part in end_to_end.parts():
            out = folder / f"{part}.json"
            assert end_to_end.main(["--part", part, "--quick", "--device", "cpu", "--out", str(out)]) == 0
            found[part] = json.loads(out.read_text())
    return found


def checkout(root: Path, results: dict[str, Result]) -> Path:
    for part, result in results.items():
        keeping.write(result, root / "paper" / "results" / "test-gpu" / f"{end_to_end_page.PAGES[part][0]}.json")
    return root


def section(root: Path, name: str) -> list[list[str]]:
    """The cells of every table row of a page, without headings."""
    lines = (root / "paper" / "rendered" / f"{name}.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


# The runner


def test_every_part_checks_and_measures(results: dict[str, Result]) -> None:
    samples = {"synthetic": "values_credit_epochs_us", "learning": "rollout_credit_epochs_us"}
    for part, result in results.items():
        assert {"commit", "dirty", "versions", "device", "seed", "date", "protocol"} <= set(result)
        assert result["part"] == part
        assert len(result["rows"]) >= 4
        for row in result["rows"]:
            assert row["gate"]["passed"]
            assert row[samples.get(part, "samples_us")]
    rows = results["llm"]["rows"]
    assert {row["padding_changes_tokens"] for row in rows if row["implementation"] == "rlscan"} == {0}
    assert all(0.2 < row["share_of_tokens"] < 0.9 for row in rows)


def test_float64_inside_takes_rounding_out_of_learning(results: dict[str, Result]) -> None:
    rows = {(row["task"], row["variant"]): row for row in results["learning"]["rows"]}
    assert {variant for _, variant in rows} == set(learning.VARIANTS)
    for task in ("cartpole", "pendulum"):
        ours, loop = rows[task, "rlscan in float64"], rows[task, "loop in float64"]
        assert ours["actions"] == loop["actions"]
        assert ours["weights"] == loop["weights"]


def test_wrong_credit_fails_the_gate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(estimator: str) -> Any:
        right = bench.BASELINES["loop"](estimator)
        return lambda **x: right(**{**x, "last_values": 2 * x["last_values"]})

    monkeypatch.setitem(bench.IMPLEMENTATIONS, "loop", wrong)
    monkeypatch.setitem(end_to_end.SHAPES, "cpu", [([8], 4, 16)])
    assert end_to_end.main(["--part", "synthetic", "--quick", "--device", "cpu"]) == 1
    assert "loop FAILED" in capsys.readouterr().err


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLSCAN_COMMIT", "abc")
    shapes = [([8], 4, 16), ([8], 5, 16)]
    out = tmp_path / "out.json"
    command = ["--part", "synthetic", "--quick", "--device", "cpu", "--out", str(out)]
    monkeypatch.setitem(end_to_end.SHAPES, "cpu", shapes[:1])
    assert end_to_end.main(command) == 0
    first = json.loads(out.read_text())["rows"]
    monkeypatch.setitem(end_to_end.SHAPES, "cpu", shapes)
    assert end_to_end.main([*command, "--resume"]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert rows[: len(first)] == first
    assert len(rows) == 2 * len(first)
    monkeypatch.setenv("RLSCAN_COMMIT", "def")  # another commit measures everything anew
    assert end_to_end.main([*command, "--resume"]) == 0
    assert json.loads(out.read_text())["rows"][0] != first[0]


def test_laps_are_the_time_between_marks() -> None:
    def call(mark: Any) -> None:
        torch.ones(300, 300) @ torch.ones(300, 300)
        mark()
        mark()

    long, short, rest = laps("cpu")(call)
    assert long > short >= 0
    assert rest >= 0


# The pages


def test_what_is_not_measured_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert render.main([], root=tmp_path) == 0
    said = capsys.readouterr().out
    for part in end_to_end_page.PAGES:
        assert f"{part} not measured" in said
    assert not (tmp_path / "paper").exists()


def test_table_5_stands_beside_the_papers(tmp_path: Path) -> None:
    """Loop 10 ms of 110 ms, rlscan 0.1 ms of 100.5 ms."""
    (large, small) = bench.original()["table5"]
    times = {"rlscan": (100.0, 200.0, 100.3), "doubling": (200.0, 200.0, 100.3), "loop": (10000.0, 9700.0, 100.3)}
    rows = [
        {"hidden": cell["hidden"], "num_envs": cell["num_envs"], "seq_len": cell["seq_len"], "implementation": name,
         "gate": {"passed": name != "doubling" or cell is large, "error": "too far off"}, "alone_us": [[alone] * 3],
         "values_credit_epochs_us": [[[300.0, credit, epochs * 1e3 - 300.0]] * 2]}
        for cell in (large, small)
        for name, (alone, credit, epochs) in times.items()
    ]  # fmt: skip
    head = {"part": "synthetic", "label": "Table 5", "device": "Test GPU", "commit": "0123456789abcdef", "dirty": False,
            "versions": {"torch": "2", "triton": "3", "cuda": "13", "python": "3"}, "seed": 7, "date": "2026-01-01",
            "protocol": {**end_to_end.SYNTHETIC, "correctness_gate": "the reference"}}  # fmt: skip
    root = checkout(tmp_path, {"synthetic": {**head, "rows": rows}})
    assert render.main([], root=root) == 0
    found = {(row[0], row[1]): row[2:] for row in section(root, "table5")}
    cell = found["1024 × 1024, 4096 × 128", "loop"]
    alone, credit, whole, within, by_itself, measured, predicted, share, end_to_end_ratio = cell
    assert (alone, credit, whole) == ("10000", "9700", "110")
    assert (within, by_itself, measured) == ("8.82 %", "9.09 %", "1.095")
    assert predicted == "1.099"  # 110 / (110 - 10 + 0.1)
    assert share == f"*{100 * large['gae_share_vs_loop']:g} %*"
    assert end_to_end_ratio == f"*{large['end_to_end_vs_loop']:g}*"
    low, high = small["end_to_end_vs_loop"]
    assert found["128 × 128, 16384 × 128", "loop"][-1] == f"*{low:g} to {high:g}*"
    assert ("128 × 128, 16384 × 128", "doubling") not in found
    text = (root / "paper" / "rendered" / "table5.md").read_text()
    assert "too far off" in text
    assert "&lt; 0.1 %" in text
    for fact in ("Test GPU", "0123456789ab", "seed 7", "2026-01-01", "torch 2, triton 3, cuda 13"):
        assert fact in text


def test_every_part_has_a_page_and_check_catches_what_is_stale(tmp_path: Path, results: dict[str, Result]) -> None:
    root = checkout(tmp_path, results)
    assert end_to_end_page.main(["--check"], root) == 1
    assert not (root / "paper" / "rendered").exists()
    assert end_to_end_page.main([], root) == 0
    assert end_to_end_page.main(["--check"], root) == 0
    rendered = root / "paper" / "rendered"
    assert {path.name for path in rendered.iterdir()} == {
        "table5.md", "learning.md", "llm.md", "spiking.md", "learning_test-gpu.svg", "learning_test-gpu.png",
    }  # fmt: skip
    for path in rendered.glob("*.md"):
        assert "nan" not in path.read_text()
    (rendered / "learning_test-gpu.svg").unlink()
    assert end_to_end_page.main(["--check"], root) == 1
    checkout(root, {"llm": {**results["llm"], "seed": 9}})
    assert end_to_end_page.main([], root) == 0
    (root / "paper" / "results" / "test-gpu" / "llm.json").unlink()
    assert end_to_end_page.main(["--check"], root) == 1
    assert end_to_end_page.main([], root) == 0
    assert not (rendered / "llm.md").exists()


def test_learning_that_parts_is_said(results: dict[str, Result]) -> None:
    agreed = learning_page.agreement_table(results["learning"])
    assert agreed.count("the same bits") == 2
    other = copy.deepcopy(results["learning"])
    changed = next(row for row in other["rows"] if row["variant"] == "loop in float64")
    changed["actions"][1] = "0"
    assert "**part at update 1**" in learning_page.agreement_table(other)
    changed["actions"] = next(r for r in other["rows"] if r["variant"] == "rlscan in float64")["actions"]
    changed["weights"] = "0"
    assert "**part at update the end**" in learning_page.agreement_table(other)


def test_a_loss_is_bold() -> None:
    assert end_to_end_page.ratio(1.0, 2.0) == "**0.50**"
    assert end_to_end_page.ratio(2.0, 1.0) == "2.00"
    assert end_to_end_page.ratio(None, 1.0) == "–"
    assert learning_page.words(0.99) == "**0.990**"
