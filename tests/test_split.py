"""The rows of the speed targets in the files of the tables: each row once, and together they are all."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

import synthetic_targets as synthetic

from paper import bench, jobs, keeping, performance, split, tables, targets
from paper.verdicts import ROWS, WHOLES, evaluate

JUDGED = ("table4", "table6", "pufferlib", "retrace_long")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a run, split."""
    root = tmp_path_factory.mktemp("split")
    synthetic.write(root, synthetic.rows(), {})
    assert tables.main(["--from", str(root / "paper" / "results" / "test-gpu" / ROWS)]) == 0
    return root


@pytest.fixture
def folder(once: Path, tmp_path: Path) -> Path:
    shutil.copytree(once / "paper", tmp_path / "paper")
    return tmp_path / "paper" / "results" / "test-gpu"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["rows"]


def without_file(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps({k: v for k, v in row.items() if k != "file"}, sort_keys=True) for row in rows)


def test_every_row_has_one_home(folder: Path) -> None:
    parts = [rows_of(folder / f"{name}.json") for name in JUDGED]
    assert all(parts)
    every = [row for rows in (*parts, rows_of(folder / ROWS)) for row in rows]
    assert without_file(every) == without_file(synthetic.rows())
    assert {row["section"] for row in rows_of(folder / ROWS)}.isdisjoint(
        {bench.tables()[name]["section"] for name in JUDGED}
    )
    for name, rows in zip(JUDGED, parts, strict=True):
        wanted = {tuple(job.key.items()) for job in jobs.of_table(name)}
        assert {tuple((k, row[k]) for k in next(iter(jobs.of_table(name))).key) for row in rows} == wanted


def test_heads_say_where_and_when(folder: Path) -> None:
    for name in JUDGED:
        head = json.loads((folder / f"{name}.json").read_text())
        assert head["table"] == name
        assert head["label"] == bench.tables()[name]["label"]
        assert {k: head[k] for k in synthetic.HEAD} == synthetic.HEAD


def test_together_they_are_what_they_were(folder: Path) -> None:
    together = split.load(folder / ROWS)
    assert without_file(together["rows"]) == without_file(synthetic.rows())
    assert together["apart"] == {}
    found = json.loads((folder / "targets.json").read_text())["targets"]
    for name, parts in WHOLES.items():
        assert found.pop(name)["met"] == all(found[part]["met"] for part in parts)
    assert found == evaluate(together["rows"])
    alone = evaluate(synthetic.rows())
    for name, target in found.items():
        assert {k: v for k, v in target.items() if k not in ("rows", "missed")} == {
            k: v for k, v in alone[name].items() if k not in ("rows", "missed")
        }
        assert sorted(target["missed"]) == sorted(alone[name]["missed"])
        assert all((folder / file).exists() for file in target["rows"])
    assert found["headline"]["rows"] == ["table4.json", "table6.json"]
    assert found["rows_full"]["rows"] == ["pufferlib.json"]
    assert found["guard"]["rows"] == [ROWS]


def test_splitting_again_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "main", lambda argv: 0)  # the verdicts are another test's
    before = {path.name: path.read_text() for path in folder.iterdir()}
    assert tables.main(["--from", str(folder / ROWS)]) == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == before


def test_a_new_run_replaces_the_older_tables(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "main", lambda argv: 0)
    new = [row for row in synthetic.rows() if row["section"] in ("grid", "guard")]
    path = tmp_path / "new" / ROWS
    keeping.write({**synthetic.HEAD, "date": "2026-02-02", "rows": new}, path)
    assert tables.main(["--from", str(path), "--out", str(folder)]) == 0
    assert json.loads((folder / "table4.json").read_text())["date"] == "2026-02-02"
    assert json.loads((folder / ROWS).read_text())["tables"] == ["table4.json", "table6.json"]
    assert split.load(folder / ROWS)["apart"] == {}


def test_a_table_that_was_measured_apart_is_said(folder: Path) -> None:
    path = folder / "table4.json"
    path.write_text(path.read_text().replace("0123456789abcdef", "fedcba9876543210"))
    (run,) = performance.load(folder.parents[2])
    assert list(run.head["apart"]) == ["table4.json"]
    text = performance.page([run])
    assert "[table4.json](results/test-gpu/table4.json) was measured apart, at commit fedcba987654" in text


def test_every_cell_of_a_judged_table_is_a_target() -> None:
    everything = list(jobs.jobs())
    assert {name: sum(1 for _ in jobs.of_table(name)) for name in JUDGED} == {
        "table4": 12 * 4, "table6": 12 * 8, "pufferlib": 39, "retrace_long": 16,
    }  # fmt: skip
    assert [job for name in JUDGED for job in jobs.of_table(name)] == everything[: 48 + 96 + 39 + 16]
    assert len(set(everything)) == len(everything)
    assert targets.unmeasured(everything, synthetic.rows()) == []
