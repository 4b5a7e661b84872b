"""What stops a missed target is said with computed numbers: the machine code is read rightly, the page has its part."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="NOT RUN: Triton, whose tools read machine code, is not installed")
pytest.importorskip("matplotlib", reason="NOT RUN: matplotlib is not installed")

import synthetic_targets as synthetic

from paper import jobs, limits, machine_code, performance, sass
from paper.limit_facts import Code, executed
from paper.limit_words import PARAGRAPHS
from paper.verdicts import Cells, evaluate

ROOT = Path(__file__).resolve().parents[1]
LOOP = """
affine_scan_kernel:
.text.affine_scan_kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 EXIT ;
.L_x_1:
        /*0020*/              @!P2 LDG.E.128 R8, desc[UR4][R20.64] ;
        /*0030*/               @P0 BRA `(.L_x_0) ;
        /*0040*/                   FFMA R2, R3, R4, R5 ;
        /*0050*/                   FSEL R2, R3, R4, P0 ;
        /*0060*/                   SHFL.UP PT, R45, R37, 0x1, RZ ;
        /*0070*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0080*/              @!P2 STG.E.128 desc[UR4][R2.64], R4 ;
        /*0090*/              @!P1 BRA `(.L_x_1) ;
        /*00a0*/                   EXIT ;
.L_x_0:
        /*00b0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*00c0*/                   BRA `(.L_x_0) ;
.L_x_2:
        /*00d0*/                   BRA `(.L_x_2);
        /*00e0*/                   NOP;
"""


def test_the_loop_over_tiles_is_what_holds_the_stores() -> None:
    found = sass.body(sass.parse(LOOP))
    assert found.is_loop
    kinds = ("loads", "stores", "shuffles", "barriers", "compares", "floating")
    assert [found.instructions[kind] for kind in kinds] == [1, 1, 1, 1, 1, 1]
    assert found.instructions["other"] == 2  # branches: out of the loop and back
    assert found.outside == 3  # before it, and the end; what lies behind the end is not counted


def test_without_a_loop_over_tiles_the_whole_kernel_counts() -> None:
    waits = LOOP.replace("@!P1 BRA `(.L_x_1)", "@!P1 BRA `(.L_x_0)")  # forward
    found = sass.body(sass.parse(waits))
    assert not found.is_loop
    assert sum(found.instructions.values()) == 11
    assert found.outside == 0


def test_what_is_no_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="stores"):
        sass.body(sass.parse(LOOP.replace("STG", "LDG")))


def test_resources_are_read() -> None:
    text = " Function affine_scan_kernel:\n  REG:46 STACK:8 SHARED:0 LOCAL:0 CONSTANT[0]:672 TEXTURE:0"
    assert sass.resources(text) == {"registers": 46, "spilled_bytes": 8}


@pytest.mark.parametrize(
    ("registers", "warps", "shared", "resident"),
    [
        (46, 4, 0, 40),  # 48 · 32 · 4 registers a program
        (32, 4, 0, 64),  # no more warps than that
        (32, 1, 0, 32),  # nor programs
        (168, 1, 1024, 12),
        (32, 1, 100 * 1024, 2),  # shared memory
    ],
)
def test_warps_that_fit(registers: int, warps: int, shared: int, resident: int) -> None:
    assert machine_code.warps_an_sm(registers, warps, shared) == resident


def code_of(cells: list[dict[str, Any]]) -> Code:
    """Made-up machine code of these cells, in one kernel with and one without a guard."""
    row = {
        "compile_s": 2.5, "compile_cpu_s": 2.0, "registers": 46, "spilled_bytes": 0, "shared_bytes": 0,
        "tile_rows": 4, "tile_steps": 128,
        "run": 4, "warps": 4, "split": False, "elements_a_thread": 4.0, "is_loop": True, "outside_loop": 20,
        "instructions": dict.fromkeys((*sass.CLASSES, "other"), 8), "warps_an_sm": 40, "read_bytes_an_element": 9.0,
        "bytes_in_flight_an_sm": 46080,
    }  # fmt: skip
    bare = {**row, "instructions": {**row["instructions"], "compares": 4}}  # type: ignore[dict-item]  # a dict among them
    cells = [{**cell, "programs": 1024} for cell in cells]
    rows = [{**x, "kernel": k, "guarded": not k, "cells": cells} for k, x in enumerate((row, bare))]
    return Code({**synthetic.HEAD, "compiled_for": "sm_90", "compiled_on": "CPU X", "ptxas": "Build Y", "rows": rows})


@pytest.fixture(scope="module")
def facts() -> limits.Facts:
    """Everything missed: rlscan a hundred times as slow as it is made up to be elsewhere."""

    def is_slow(row: dict[str, Any]) -> bool:
        as_wide = row["section"] == "half" and row["dtype"] == "float32"
        return (
            row["implementation"] == "rlscan"
            and not as_wide
            and (row["section"], row["layout"]) != ("time_major", "NT")
        )

    rows = [{**row, "us": 100 * row["us"]} if is_slow(row) else row for row in synthetic.rows()]
    return limits.Facts(evaluate(rows), Cells(rows), synthetic.HEAD, None, None, None)


def test_a_paragraph_for_each_target_that_is_missed(facts: limits.Facts) -> None:
    # a hundred times as slow, all repeats of the headline agree
    assert PARAGRAPHS.keys() - {"headline_agrees"} <= {x for x, found in facts.targets.items() if not found["met"]}
    keys = [job.key for job in jobs.jobs()]
    with_code = facts._replace(code=code_of(keys))
    for known in (facts, with_code):
        text = limits.missed(known)
        assert "nan" not in text
        for name, found in facts.targets.items():
            assert (f"**`{name}`**" in text) != found["met"]
    text = limits.missed(with_code)
    assert "46 registers a thread, so 40 warps a multiprocessor, and 18.0 instructions an element" in text


def test_a_repeat_of_the_headline_that_misses_is_named_with_its_trials() -> None:
    def changed(row: dict[str, Any]) -> dict[str, Any]:
        whose = (row["section"], row["estimator"], row["truncated"], row.get("repeat"), row["implementation"])
        slow = whose == ("grid", "gae", False, 7, "rlscan") and (row["num_envs"], row["seq_len"]) == (4096, 128)
        again = [{"pace": 2.0, "samples_us": [80.0]}]
        found = {"us": 40.0, "samples_us": [[40.0]], "disturbed": again}
        return {**row, **found} if slow and row["metric"] == "full" else row

    rows = [changed(row) for row in synthetic.rows()]
    facts = limits.Facts(evaluate(rows), Cells(rows), synthetic.HEAD, None, None, None)
    assert facts.targets["headline"]["missed"] == ["gae run 7"]
    text = limits.missed(facts)
    assert "1 of 120 repeats miss. In that of `gae`, run 7, rlscan's" in text
    assert "trials took 40.0 to 40.0 µs" in text
    assert "1 trials of this call were measured again" in text
    assert "**`headline_agrees`**" in text


def test_a_later_sweep_of_tiles_is_quoted_at_its_own_cell_alone(facts: limits.Facts) -> None:
    cell = {"estimator": "vtrace", "num_envs": 4096, "seq_len": 2048, "truncated": False, "actions": 4}
    cell |= {"layout": "NT", "dtype": "float32"}
    rule, fastest, unlike = [2, 256, 2, 1, 8, 0, 1, 0], [4, 128, 4, 1, 4, 0, 1, 0], [4, 128, 4, 1, 4, 0, 1, 4]
    tiles = [{"tile": rule, "us": 60.0, "chosen": True}, {"tile": fastest, "us": 50.0, "chosen": False}]
    shape = {**cell, "stream_us": 40.0, "rows": tiles, "file": "x/tiles_y.json"}

    def said(shape: dict[str, Any], code: Code | None = None) -> str:
        return limits.paragraph(facts._replace(swept=(shape, {**shape, "num_envs": 3}), code=code), "bandwidth")

    unmeasured = {"tile": unlike, "us": None, "chosen": False}
    text = said({**shape, "rows": [*tiles, unmeasured]})
    assert text.count("later sweep") == 1
    assert "`vtrace` at 4096×2048: " in text
    assert (
        "A [later sweep](results/x/tiles_y.json) of 2 tiles has 50.0 µs for the fastest, 80 % of stream bandwidth, "
        "beside 60.0 µs for the tile that was the rule."
    ) in text
    # machine code is of the fastest, or of a tile that it does not tell from another
    since = "The fastest is the rule since."
    assert since not in text
    assert since in said(shape, code_of([cell]))
    assert since not in said({**shape, "rows": [*tiles, {**unmeasured, "us": 55.0}]}, code_of([cell]))


@pytest.mark.parametrize("name", ["rlscan", "doubling", "associative", "cuda_rows_prepared", "unguarded", "stream"])
def test_what_was_not_measured_takes_no_paragraph_with_it(facts: limits.Facts, name: str) -> None:
    """Half of the times of an implementation are not there."""
    left = [row for row in facts.cells.rows if row["implementation"] != name or row["num_envs"] % 3 == 1]
    partly = facts._replace(cells=Cells(left), targets=evaluate(left), code=code_of([job.key for job in jobs.jobs()]))
    text = limits.missed(partly)
    assert "nan" not in text
    assert all(f"**`{name}`**: " in text for name, found in partly.targets.items() if not found["met"])


def test_no_paragraph_for_a_target_that_is_met(facts: limits.Facts) -> None:
    met = {name: {**found, "met": True, "missed": []} for name, found in facts.targets.items()}
    assert limits.missed(facts._replace(targets=met)) == "Every target is met."
    assert limits.compiled(facts).startswith("Nothing is known of it here")


def test_what_the_profiler_counted_stands_beside_the_machine_code(facts: limits.Facts) -> None:
    code = code_of([job.key for job in jobs.jobs()])
    row = {"estimator": "gae", "implementation": "rlscan", "num_envs": 4096, "seq_len": 128}
    counted = {"rows": [{**row, "kernels": [{"instructions": 4096 * 128}]}]}
    kernel = code.of(estimator="gae", num_envs=4096, seq_len=128)
    assert kernel
    assert executed(kernel, 128) == (20 + 9 * 8) / 4
    text = limits.missed(facts._replace(code=code, accesses=counted))
    assert "at 4096×128" in text
    assert "`gae` 32.0 (23.0)" in text


def test_first_calls_and_kernels_are_counted(facts: limits.Facts) -> None:
    rows = [
        {"estimator": "gae", "num_envs": n, "seq_len": 8, "first_call_s": s, "second_call_s": 5e-5, "new_kernels": new}
        for n, s, new in ((4, 3.0, 1), (8, 0.001, 0), (16, 1.0, 1))
    ]
    first = {**synthetic.HEAD, "rows": rows}
    code = code_of([job.key for job in jobs.jobs()])
    text = limits.compiled(facts._replace(code=code, first_calls=first))
    assert "| `gae` | 3 | 2 | 2 | 3 | 0.001 | 50 |" in text
    assert "144 calls of the grid, 12 kinds of call at 12 shapes, share 1 kernels, 1 to 1 a kind." in text


def test_every_missed_target_of_the_committed_results_has_its_paragraph() -> None:
    runs = performance.load(ROOT)
    if not runs:
        pytest.skip("NOT RUN: no speed targets are committed")
    page = (ROOT / "paper" / "performance.md").read_text()
    for run in runs:
        text = limits.missed(run.facts)
        assert "nan" not in text
        for name, found in run.targets.items():
            assert (f"**`{name}`**" in text) != found["met"]
            assert (f"**`{name}`**" in page) != found["met"]


def test_the_committed_machine_code_has_the_grid() -> None:
    result = json.loads(machine_code.RESULT.read_text())
    cells = [cell for row in result["rows"] for cell in row["cells"] if cell["section"] == "grid"]
    keys = [tuple(cell[name] for name in machine_code.KEY) for cell in cells]
    assert sorted(keys) == sorted(tuple(job.key.values()) for job in jobs.jobs() if job.section == "grid")
    assert all(row["registers"] <= 255 and row["instructions"]["stores"] for row in result["rows"])


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="NOT RUN: Triton carries NVIDIA's assembler for x86-64 Linux"
)
def test_a_kernel_and_its_unguarded_twin_are_compiled_and_read() -> None:
    program = (
        "import json; from paper import jobs, machine_code as m; job = jobs.Job('guard', 'prefix_sum', (512, 128))\n"
        "with m.compilers() as engines: print(json.dumps(m.measure([(job, True), (job, False), (job, True)], engines)))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    guarded, bare = json.loads(done.stdout)
    assert len(guarded["cells"]) == 2
    assert (guarded["guarded"], bare["guarded"]) == (True, False)
    assert guarded["instructions"]["compares"] > bare["instructions"]["compares"]
    assert guarded["instructions"]["stores"] == bare["instructions"]["stores"] > 0
    assert 16 <= guarded["registers"] <= 255
