"""The pages and plots of the tables: what was measured is printed, what was not is said, counts are the profiler's."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed
pytest.importorskip("matplotlib", reason="NOT RUN: matplotlib is not installed")

import synthetic_targets as synthetic

from paper import accesses, bench, jobs, keeping, render, table_pages, table_plots, tables

ROOT = Path(__file__).resolve().parents[1]
OF_CELLS = [name for name, block in bench.tables().items() if "section" in block]
CALLS = [
    {"estimator": "gae", "implementation": "rlscan", "bytes": 8912896, "gate": {"passed": True}, "launched": True},
    {"estimator": "gae", "implementation": "wrong", "bytes": 8912896, "gate": {"passed": False, "error": "far off"},
     "launched": False},
    {"estimator": "gae", "implementation": "doubling", "bytes": 8912896, "gate": {"passed": True}, "launched": True},
]  # fmt: skip
MARK = '"void at::cuda::<unnamed>::spin_kernel(long)"'
PROFILED = f"""==PROF== Connected to process 4242 (/usr/bin/python3)
==PROF== Profiling "spin_kernel" - 0: 0%....50%....100% - 1 pass
"ID","Process ID","Process Name","Kernel Name","Block Size","Grid Size","CC",{{metrics}}
"","","","","","","","inst","inst","sector","sector","byte","byte","register/thread"
"0","42","python3",{MARK},"(1, 1, 1)","(1, 1, 1)","9.0","0","0","0","0","1,024","0","16"
"1","42","python3","affine_scan_kernel","(128)","(1024)","9.0","20,480","8,192","147,456","131,072","4,718,592","4,194,304","40"
"2","42","python3",{MARK},"(1, 1, 1)","(1, 1, 1)","9.0","0","0","0","0","n/a","0","16"
"10","42","python3","triton_poi_fused_1","(128, 1, 1)","(1024, 1, 1)","9.0","3","3","3","3","2","4","32"
"9","42","python3","triton_poi_fused_0, again","(128, 1, 1)","(1024, 1, 1)","9.0","20480","1","1","1","1","n/a","48"
"""
COUNTS = ("load_requests", "store_requests", "load_sectors", "store_sectors", "dram_read_bytes", "dram_written_bytes",
          "registers")  # fmt: skip
METRICS = {name: accesses.METRICS[name][0] for name in COUNTS}


def profiled() -> list[str]:
    names = ",".join(f'"{metric}"' for metric in METRICS.values())
    return PROFILED.format(metrics=names).splitlines(keepends=True)


def result(name: str, **more: Any) -> dict[str, Any]:
    rows = [row for job in jobs.of_table(name) for row in synthetic.cell(job)] if name in OF_CELLS else []
    return {**synthetic.HEAD, "table": name, "label": "l", "not_run": {}, "rows": rows, **more}


# Pages


@pytest.mark.parametrize("name", OF_CELLS)
def test_each_table_is_rendered_with_its_plots(tmp_path: Path, name: str) -> None:
    keeping.write(result(name), tmp_path / "paper" / "results" / "test-gpu" / f"{name}.json")
    assert table_pages.main(["--check"], tmp_path) == 1
    assert table_pages.main([], tmp_path) == 0
    assert table_pages.main(["--check"], tmp_path) == 0
    rendered = tmp_path / "paper" / "rendered"
    text = (rendered / f"{name}.md").read_text()
    for fact in (bench.tables()[name]["title"], "Test GPU", "0123456789ab", "seed 7", "2026-01-01"):
        assert fact in text
    assert "nan" not in text
    assert "not measured" not in text
    plotted = {plot.file("test-gpu") for plot in table_plots.PLOTS if plot.table == name}
    assert {path.stem for path in rendered.iterdir()} == {name} | plotted
    assert {Path(link).stem for link in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)} == plotted


@pytest.mark.parametrize("name", OF_CELLS)
def test_numbers_come_from_the_rows(name: str) -> None:
    """With nothing measured there is no number of ours; where all is twice as slow, every time is."""
    found = result(name)
    blank = result(name, rows=[{**row, "us": None} for row in found["rows"]])
    text = table_pages.page(name, [("test-gpu", blank)])
    body = text.partition("truncations.")[2].partition("Refused")[0]
    for line in body.splitlines():
        if line.startswith("|") and "---" not in line:
            ours = re.sub(r"\*[^*]*\*", "", line).strip("|").split("|")[2:]  # the paper's own are in italics
            assert not re.search(r"\d\.\d", " ".join(ours)), line
    slow = result(name, rows=[{**row, "us": 2 * row["us"]} for row in found["rows"]])
    pages = [table_pages.page(name, [("test-gpu", one)]) for one in (found, slow)]
    assert pages[0] != pages[1]


def test_ratios_stand_beside_the_papers() -> None:
    found = result("table6")
    for row in found["rows"]:
        if row["metric"] == "full" and row["num_envs"] == 512 and row["seq_len"] == 128:
            row["us"] = {"rlscan": 10.0, "doubling": 25.0, "associative": 9.0, "loop": 5000.0}[row["implementation"]]
    text = table_pages.page("table6", [("test-gpu", found)])
    theirs = next(r for r in bench.original()["table6"] if (r["num_envs"], r["seq_len"]) == (512, 128))["H100"]
    assert f"| 512 × 128 | 2.50 / 2.50 *{theirs['vtrace']:.2f}* |" in text
    assert f"vtrace 512x128 2.50 &lt; {theirs['vtrace']:.2f}" in text
    assert "| 512 × 128 | **0.90** / **0.90** |" in text


def test_what_was_refused_and_what_is_missing_is_said() -> None:
    rows = synthetic.refuse(result("pufferlib")["rows"], "cuda_rows", num_envs=128, seq_len=128)
    found = result("pufferlib", rows=rows, not_run={"pufferlib": "pufferlib is not installed"})
    text = table_pages.page("pufferlib", [("test-gpu", found)])
    assert "Without pufferlib: pufferlib is not installed." in text
    assert "- cuda_rows, gae 128x128: `too far off`" in text
    assert "PufferLib itself" not in text.partition("truncations.")[2]


def test_pufferlib_itself_has_its_columns_where_it_was_called() -> None:
    rows = result("pufferlib")["rows"]
    own = [{**row, "implementation": "pufferlib", "us": 40.0} for row in rows if row["implementation"] == "cuda_rows"]
    measured = [row for row in own if row["metric"] == "full"]
    text = table_pages.page("pufferlib", [("test-gpu", result("pufferlib", rows=rows + measured))])
    full, _, device = text.partition("Device time: ")
    assert "PufferLib itself µs" in full
    assert "PufferLib itself µs" not in device


def test_what_is_committed_is_rendered() -> None:
    assert table_pages.main(["--check"], ROOT) == 0
    loaded = table_pages.load(ROOT)
    for name, results in loaded.items():
        text = (ROOT / "paper" / "rendered" / f"{name}.md").read_text()
        for _, found in results:
            assert table_pages.device_name(found) in text
            assert found["commit"][:12] in text


def test_pages_of_libraries_are_those_of_ratios(tmp_path: Path) -> None:
    keys = list(tables.call_cells(bench.tables()["libraries"]))
    rows = [
        {**key, "implementation": name, "best_us": us, "gate": {"passed": True}, "samples_us": [[us]]}
        for key in keys
        for name, us in (("rlscan", 20.0), ("jax_scan", 15.0), ("jax_associative", 90.0))
    ]
    missing = {"torchrl": "torchrl is not installed"}
    found = result("libraries", device="Test GPU", rows=rows, not_run=missing, empty_call_us=1.0)
    found["protocol"] = tables.protocol_of(tables.Request("libraries", "cuda", 0))
    keeping.write(found, tmp_path / "paper" / "results" / "test-gpu" / "libraries.json")
    render.main([], root=tmp_path)
    text = (tmp_path / "paper" / "rendered" / "libraries.md").read_text()
    assert "slower than jax_scan: 0.75 / 0.75" in text
    assert "Without torchrl: torchrl is not installed." in text
    assert "the wait for its result" in text


# Memory accesses


def test_the_profilers_table_is_read() -> None:
    kernels = accesses.read(profiled(), METRICS)
    assert [kernel["id"] for kernel in kernels] == [0, 1, 2, 9, 10]
    assert kernels[1] == {
        "id": 1, "kernel": "affine_scan_kernel", "load_requests": 20480, "store_requests": 8192,
        "load_sectors": 147456, "store_sectors": 131072, "dram_read_bytes": 4718592, "dram_written_bytes": 4194304,
        "registers": 40,
    }  # fmt: skip
    assert kernels[2]["dram_read_bytes"] is None


def test_kernels_belong_to_the_call_whose_mark_they_follow() -> None:
    ours, wrong, doubling = accesses.by_call(accesses.read(profiled(), METRICS), CALLS)
    assert [kernel["kernel"] for kernel in ours["kernels"]] == ["affine_scan_kernel"]
    assert wrong["kernels"] == []
    assert [kernel["registers"] for kernel in doubling["kernels"]] == [48, 32]
    with pytest.raises(accesses.ProfilerError, match="2 marks for 1 calls"):
        accesses.by_call(accesses.read(profiled(), METRICS), CALLS[:2])


def test_what_the_profiler_cannot_do_is_said() -> None:
    said = ["==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"]
    with pytest.raises(accesses.ProfilerError, match="ERR_NVGPUCTRPERM"):
        accesses.read(said, METRICS)
    with pytest.raises(accesses.ProfilerError, match="no table"):
        accesses.read([], METRICS)


def test_only_metrics_that_the_profiler_knows_are_asked_for() -> None:
    said = "Metric Name  Unit\n---\nsmsp__sass_inst_executed_op_global_ld  inst\ndram__bytes_read  byte\n"
    found = accesses.known_metrics(said)
    assert found == {
        "load_requests": "smsp__sass_inst_executed_op_global_ld.sum",
        "dram_read_bytes": "dram__bytes_read.sum",
        "registers": "launch__registers_per_thread",
    }
    assert accesses.known_metrics("").keys() == accesses.METRICS.keys()


FAKE = """#!{python}
import json, sys
arguments = sys.argv[1:]
if "--query-metrics" in arguments:
    print("\\n".join(name.partition(".")[0] + "  Counter" for name in {metrics!r}))
elif "--version" in arguments:
    print("NVIDIA Nsight Compute\\nVersion 1.2")
else:
    assert "--clock-control" in arguments and "none" in arguments
    assert arguments[arguments.index("--metrics") + 1] == {asked!r}
    open(arguments[arguments.index("--log-file") + 1], "w").write({log!r})
    open(arguments[arguments.index("--launch") + 1], "w").write({calls!r})
"""


def test_counting_from_the_profiler_to_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "ncu"
    names = list(METRICS.values())
    asked = ",".join(METRICS[name] for name in accesses.METRICS if name in METRICS)
    text = FAKE.format(
        python=sys.executable, metrics=names, asked=asked, log="".join(profiled()), calls=json.dumps(CALLS)
    )
    fake.write_text(text)
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(tables, "head_of", lambda request: result(request.name))
    path = tmp_path / "paper" / "results" / "test-gpu" / "accesses.json"
    request = tables.Request("accesses", "cuda", 0)
    assert tables.measure(request, path) == 1  # one call failed the gate
    assert table_pages.main([], tmp_path) == 0
    page = (tmp_path / "paper" / "rendered" / "accesses.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("| `gae` | rlscan"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2:5] == ["1", "20,480", "8,192"]
    moved = 32 * (147456 + 131072)
    assert cells[8:10] == [f"{moved / 8912896:.2f}", f"{moved / (4 * 4096 * 128):.2f}"]
    assert cells[-1] == "–"  # spills were not counted
    assert "| `gae` | doubling | 2 | 20,483 |" in page
    assert "gae 4096x128: `far off`" in page
    assert "Version 1.2" in page


def test_without_the_profiler_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tables.measure(tables.Request("accesses", "cuda", 0), tmp_path / "accesses.json") == 0
    assert "NOT RUN: accesses: Nsight Compute (ncu) is not installed" in capsys.readouterr().out
