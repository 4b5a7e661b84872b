"""The notebooks run: each in a fresh kernel, with its own assertions, from a clone, and with cells not measured."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient", reason="NOT RUN: it executes the notebooks")
pytest.importorskip("ipykernel", reason="NOT RUN: it executes the notebooks")
pytest.importorskip("matplotlib", reason="NOT RUN: the notebooks draw with it")
pytest.importorskip("hypothesis", reason="NOT RUN: a notebook fuzzes with it")
pytest.importorskip("sympy", reason="NOT RUN: a notebook proves with it")

import nbformat
from nbclient.exceptions import CellExecutionError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

from paper import notebooks

ROOT = Path(__file__).resolve().parents[1]
PATHS = notebooks.notebooks()
NAMES = ("01_the_scan", "02_boundaries", "03_verify_a_claim", "04_the_tables")
each = pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
# a reader's machine without a GPU; the tests' own interpreter is for short tests
ON_A_CPU = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"CUDA_VISIBLE_DEVICES": ""}


def pictures(book: Any) -> list[int]:
    """How many images each cell shows."""
    return [
        sum("image/png" in output.get("data", {}) for output in cell.get("outputs", ()))
        for cell in book.cells
        if cell.cell_type == "code"
    ]


def markdown(path: Path) -> str:
    return "\n\n".join(cell.source for cell in notebooks.read(path).cells if cell.cell_type == "markdown")


def test_there_are_four() -> None:
    assert tuple(path.stem for path in PATHS) == NAMES


@each
def test_it_runs_and_shows_what_is_committed(path: Path) -> None:
    """Whatever a cell asserts holds: the notebook raises if one does not."""
    new = notebooks.execute(path, path.parent, ON_A_CPU)
    assert sum(pictures(new)) >= 2
    assert pictures(new) == pictures(notebooks.read(path)), "`make notebooks` executes it"


@each
def test_it_is_committed_as_executed_from_top_to_bottom(path: Path) -> None:
    code = [cell for cell in notebooks.read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert any("assert " in cell.source for cell in code)
    assert path.stat().st_size < 2**20


@each
def test_its_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", markdown(path))
    assert targets
    for target in targets:
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_the_tables_hold_no_number_that_was_typed() -> None:
    text = re.sub(r"(\[arXiv:[\d.]+)?\]\([^)]*\)", "", markdown(ROOT / "notebooks" / "04_the_tables.ipynb"))
    assert not re.findall(r"\d+[.,]\d+|\d+ ?(?:×|µs|%)", text)


def checkout(folder: Path) -> Path:
    """What the tables need of a clone."""
    for part, patterns in {"paper": ("*.py", "*.json", "*.toml", "*.bib"), "notebooks": ("*.ipynb",)}.items():
        for pattern in patterns:
            for file in sorted((ROOT / part).rglob(pattern)):
                copy = folder / file.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_the_tables_run_from_the_root_with_results_missing(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    results = root / "paper" / "results"
    for path in sorted(results.glob("*/table3.json")) + sorted(results.glob("*/targets_rows.json")):
        result = json.loads(path.read_text())
        kept = [row for row in result["rows"] if row["estimator"] != "gae" and row.get("section") != "rows"]
        assert len(kept) < len(result["rows"])
        kept[0]["us"], kept[0]["gate"] = None, {"passed": False, "error": "made up"}
        path.write_text(json.dumps({**result, "rows": kept}))
    for path in [*results.glob("*/targets.json"), *results.glob("*/learning.json"), *results.glob("*/table3_cpu.json")]:
        path.unlink()
    book = notebooks.execute(root / "notebooks" / "04_the_tables.ipynb", root, ON_A_CPU)
    text = "".join(output.get("text", "") for cell in book.cells for output in cell.get("outputs", ()))
    assert "the targets were not measured" in text
    assert pictures(book) != pictures(notebooks.read(ROOT / "notebooks" / "04_the_tables.ipynb"))


@pytest.mark.gpu
def test_the_tables_are_measured_on_a_gpu(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("NOT RUN: a claim about compiled kernels on a GPU; there is none here")
    path = ROOT / "notebooks" / "04_the_tables.ipynb"
    book = notebooks.execute(path, path.parent, {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"})
    text = "".join(output.get("text", "") for cell in book.cells for output in cell.get("outputs", ()))
    assert f"{torch.cuda.get_device_name()}: " in text


# What the above relies on


def tiny(root: Path, name: str, *sources: str) -> Path:
    path = root / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(exist_ok=True)
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{k}") for k, source in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_an_assertion_in_a_cell_fails(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="no, it is not"):
        notebooks.execute(tiny(tmp_path, "00_wrong", "x = 1", "assert x == 2, 'no, it is not'"), tmp_path, ON_A_CPU)


def test_check_catches_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny(tmp_path, "04_the_tables", "import sys", "print(sys.executable)")
    result = tmp_path / "paper" / "results" / "some-gpu" / "table3.json"
    result.parent.mkdir(parents=True)
    result.write_text("{}")
    assert notebooks.main(["--check"], root=tmp_path) == 1
    assert notebooks.main([], root=tmp_path) == 0
    assert notebooks.main(["--check"], root=tmp_path) == 0
    made = notebooks.read(path)
    assert made.cells[1].outputs[0].text.strip() == sys.executable  # of the Python that asked
    result.write_text('{"measured": "anew"}')
    assert notebooks.main(["--check"], root=tmp_path) == 1
    result.write_text("{}")
    made.cells[0].source = "import os, sys"
    nbformat.write(made, path)
    assert notebooks.main(["--check"], root=tmp_path) == 1
    assert "stale: notebooks/04_the_tables.ipynb" in capsys.readouterr().out
