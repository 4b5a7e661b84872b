"""The page of the speed targets prints what was measured, says what was not, and is stale when it should be."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed
pytest.importorskip("matplotlib", reason="NOT RUN: matplotlib is not installed")

import synthetic_targets as synthetic

from paper import performance, plots, render
from paper.bench import original
from paper.verdicts import evaluate

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return synthetic.rows()


def written(root: Path, rows: Rows) -> str:
    """The page of these rows, without its plots."""
    synthetic.write(root, rows, evaluate(rows))
    return performance.page(performance.load(root))


def section(text: str, title: str) -> str:
    return text.partition(f"### {title}\n")[2].partition("\n### ")[0]


def row_of(text: str, start: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def scaled(rows: Rows, factor: float, **where: Any) -> Rows:
    return [
        {**row, "us": row["us"] * factor} if all(row.get(k) == v for k, v in where.items()) else row for row in rows
    ]


def test_the_page_says_where_when_and_how(tmp_path: Path, rows: Rows) -> None:
    text = written(tmp_path, rows)
    for fact in ("Test GPU", "0123456789ab", "seed 7", "2026-01-01", "torch 2, triton 3, cuda 13", "5 trials of 50"):
        assert fact in text
    assert "nan" not in text
    body, _, refused = text.partition("### Refused or not measured")
    assert "ot measured" not in body
    assert refused.strip() == "Nothing."


def test_ratios_stand_beside_the_papers(tmp_path: Path, rows: Rows) -> None:
    times = {"rlscan": 10.0, "doubling": 43.2, "associative": 31.5}
    where = {"section": "grid", "estimator": "gae", "num_envs": 64, "seq_len": 512, "metric": "full"}
    for name, us in times.items():
        cell = {**where, "implementation": name}
        rows = [{**r, "us": us} if all(r.get(k) == v for k, v in cell.items()) else r for r in rows]
    text = section(written(tmp_path, rows), "Full call")
    doubling, _, associative = text.partition("associative_scan")
    theirs = original()["table4"][0]["H100"]["gae"]
    assert row_of(doubling, "64 × 512")[1] == f"4.32 / 4.32 *{theirs:.2f}*"
    assert row_of(associative, "64 × 512")[1] == "3.15 / 3.15"
    figure = original()["figures_2_3_pufferlib"]["rows"][0]["full_call_ms"]
    words = row_of(section(written(tmp_path, rows), "One CUDA thread a row"), "128 × 128")
    assert words[-3:-1] == [f"*{1e3 * figure['rl_triton']:.1f}*", f"*{1e3 * figure['pufferlib']:.1f}*"]


def test_losses_are_listed_and_bold(tmp_path: Path, rows: Rows) -> None:
    where = {"section": "rows", "num_envs": 32768, "seq_len": 8}
    text = written(tmp_path, scaled(rows, 0.5, implementation="cuda_rows_prepared", metric="full", **where))
    lost = section(text, "Where rlscan is slower")
    assert "In 1 of " in lost
    assert row_of(lost, "`rows`: gae 32768x8")[1:3] == ["full call", "`cuda_rows_prepared`"]
    assert row_of(section(text, "One CUDA thread a row"), "32768 × 8")[4].startswith("**0.")
    assert "faster than either at 38 of 39 distinct shapes" in section(text, "One CUDA thread a row")
    targets = section(text, "Targets")
    assert row_of(targets, "`rows_full`")[-1] == "**MISSED**, 1 of 39 cells"
    assert "- `rows_full`: 32768x8" in targets
    assert row_of(targets, "`rows_device`")[-1] == "met"


def test_no_losses_is_said(tmp_path: Path, rows: Rows) -> None:
    assert section(written(tmp_path, rows), "Where rlscan is slower").strip().startswith("Nowhere")


@pytest.mark.parametrize("missing", sorted({row["section"] for row in synthetic.rows()}))
def test_a_section_that_is_not_there_is_said(tmp_path: Path, rows: Rows, missing: str) -> None:
    text = written(tmp_path, [row for row in rows if row["section"] != missing])
    assert "Not measured." in text or "not measured" in text
    assert "nan" not in text


def test_nothing_but_errors_renders(tmp_path: Path) -> None:
    text = written(tmp_path, [])
    assert f"0 of {len(evaluate([]))} met" in text
    assert "Nothing was compared." in text


def test_what_the_gate_refused_is_listed(tmp_path: Path, rows: Rows) -> None:
    where = {"section": "grid", "estimator": "gae", "truncated": False, "num_envs": 512, "seq_len": 4096}
    text = written(tmp_path, synthetic.refuse(rows, "doubling", **where))
    assert "- doubling, grid: gae 512x4096 NT float32: `too far off`" in section(text, "Refused or not measured")
    assert row_of(section(text, "Full call"), "512 × 4096")[1].startswith("not measured / ")
    assert "no comparison where the baseline was refused: gae 512x4096 doubling" in section(text, "Targets")


def test_two_files_of_different_runs_are_refused(tmp_path: Path) -> None:
    written(tmp_path, [])
    path = tmp_path / "paper" / "results" / "test-gpu" / "targets.json"
    path.write_text(path.read_text().replace("2026-01-01", "2026-01-02"))
    with pytest.raises(SystemExit, match="different runs"):
        performance.load(tmp_path)


def test_check_catches_what_is_stale(tmp_path: Path, rows: Rows, capsys: pytest.CaptureFixture[str]) -> None:
    page, svg = tmp_path / "paper" / "performance.md", f"{plots.file_name('test-gpu', 'rows')}.svg"
    assert render.main(["--check"], root=tmp_path) == 0
    assert "not measured" in capsys.readouterr().out
    rows = [row for row in rows if row["section"] == "rows"]
    written(tmp_path, rows)
    assert render.main(["--check"], root=tmp_path) == 1
    assert not page.exists()
    assert render.main([], root=tmp_path) == 0
    assert render.main(["--check"], root=tmp_path) == 0
    for text in page.read_text().split("](")[1:]:
        assert (page.parent / text.partition(")")[0]).exists()
    rendered = tmp_path / "paper" / "rendered"
    for path in sorted(rendered.iterdir()):
        start = b"\x89PNG" if path.suffix == ".png" else b"<?xml"
        assert path.read_bytes().startswith(start)
        kept = path.read_bytes()
        path.write_bytes(kept.replace(b"points ", b"pounts "))
        assert performance.main(["--check"], tmp_path) == 1
        path.write_bytes(kept)
    assert len(list(rendered.iterdir())) == 2 * len(plots.TITLES)
    (rendered / svg).unlink()
    assert performance.main(["--check"], tmp_path) == 1
    assert performance.main([], tmp_path) == 0
    written(tmp_path, scaled(rows, 2.0, implementation="rlscan", metric="full", num_envs=128))
    capsys.readouterr()
    assert performance.main(["--check"], tmp_path) == 1
    stale = capsys.readouterr().out
    assert "performance.md" in stale
    assert svg in stale
    assert "roofline" not in stale  # it shows device times
    for path in (tmp_path / "paper" / "results" / "test-gpu").iterdir():
        path.unlink()
    assert render.main(["--check"], root=tmp_path) == 1
    assert render.main([], root=tmp_path) == 0
    assert not page.exists()
    assert render.main(["--check"], root=tmp_path) == 0


def test_the_readme_says_how_many_targets_are_met(tmp_path: Path, rows: Rows) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- targets:begin -->\n<!-- targets:end -->\nafter\n")
    written(tmp_path, scaled(rows, 100.0, implementation="rlscan", section="rows", metric="device"))
    assert performance.main([], tmp_path) == 0
    (run,) = performance.load(tmp_path)
    met = sum(target["met"] for target in run.targets.values())
    text = readme.read_text()
    assert f"**Test GPU**: {met} of {len(run.targets)} speed targets are met. Missed: " in text
    for name, target in run.targets.items():
        assert (f"`{name}` (" in text) is not target["met"]
    assert f"`rows_device` ({len(run.targets['rows_device']['missed'])} of " in text
    readme.write_text(text.replace(f"{met} of", f"{met + 1} of"))
    assert performance.main(["--check"], tmp_path) == 1


def test_a_plot_is_the_same_twice(tmp_path: Path, rows: Rows) -> None:
    for root in (tmp_path / "a", tmp_path / "b"):
        written(root, [row for row in rows if row["section"] == "rows"])
        performance.main([], root)
    for path in sorted((tmp_path / "a" / "paper" / "rendered").glob("*.svg")):
        assert path.read_bytes() == (tmp_path / "b" / "paper" / "rendered" / path.name).read_bytes()
