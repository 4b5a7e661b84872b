"""The memory accesses of one call, counted by Nsight Compute: `python -m paper.tables --table accesses`.

The profiler runs `python -m paper.accesses --launch`, which checks every implementation and then launches each once,
behind a kernel that marks where its own begin. What the profiler says of the kernels between two marks is one call's.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from paper.bench import IMPLEMENTATIONS, PAPER, bytes_moved, rollout, tables
from paper.gate import admit, expect

Row = dict[str, Any]
MARK = "spin_kernel"  # torch.cuda._sleep
SECTOR = 32  # bytes
SECONDS = 150.0
# what is read of every kernel: the first of these names that the profiler knows
METRICS = {
    "load_requests": ("smsp__inst_executed_op_global_ld.sum", "smsp__sass_inst_executed_op_global_ld.sum"),
    "store_requests": ("smsp__inst_executed_op_global_st.sum", "smsp__sass_inst_executed_op_global_st.sum"),
    "load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "l2_read_sectors": ("lts__t_sectors_op_read.sum",),
    "l2_write_sectors": ("lts__t_sectors_op_write.sum",),
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_written_bytes": ("dram__bytes_write.sum",),
    "spill_load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",),
    "spill_store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",),
    "instructions": ("smsp__inst_executed.sum",),
    "registers": ("launch__registers_per_thread",),
}


class ProfilerError(Exception):
    """The profiler can't be used here, or said what can't be read."""


def absent() -> str | None:
    """Why nothing can be counted here, in words."""
    return None if shutil.which("ncu") else "Nsight Compute (ncu) is not installed"


def cells(block: Row) -> list[tuple[str, str]]:
    return [(estimator, name) for estimator in block["estimators"] for name in block["implementations"]]


# Under the profiler


def launch(seed: int, told: Path) -> None:
    """Every call once, each behind a mark; what was launched, and the verdicts of the gate, as JSON."""
    block = tables()["accesses"]
    ready, calls = [], []
    torch.set_grad_enabled(False)
    for estimator, name in cells(block):
        inputs = rollout(estimator, False, *block["shapes"][0], seed=seed, device="cuda")
        function, verdict = admit(partial(IMPLEMENTATIONS[name], estimator), inputs, expect(estimator, inputs))
        key = {"estimator": estimator, "implementation": name, "bytes": bytes_moved(estimator, inputs)}
        calls.append({**key, "gate": verdict.evidence(), "launched": function is not None})
        if function is not None:
            function(**inputs)  # nothing is compiled or chosen when it counts
            ready.append(partial(function, **inputs))
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for call in ready:
        torch.cuda._sleep(1)
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    told.write_text(json.dumps(calls))


# The profiler


def known_metrics(said: str) -> dict[str, str]:
    """Of each count the name to ask for, given what `ncu --query-metrics` says; those without one are left out."""
    there = {line.split()[0] for line in said.splitlines() if line.strip()}
    found = {}
    for count, names in METRICS.items():
        for name in names:
            if not there or name.startswith("launch__") or name.partition(".")[0] in there:
                found[count] = name
                break
    return found


def read(lines: Iterable[str], metrics: dict[str, str]) -> list[Row]:
    """The kernels in the order of their launch, from `ncu --csv --page raw`.

    Before the table the profiler talks; the table's second line has the units.
    """
    rest = list(lines)
    start = next((k for k, line in enumerate(rest) if line.startswith('"ID"')), None)
    if start is None:
        said = [line.strip() for line in rest if line.startswith("==ERROR==") or "ERR_" in line]
        raise ProfilerError(" ".join(said)[:300] or "the profiler wrote no table")
    table = csv.DictReader(rest[start:])
    kernels = []
    for row in table:
        if not (row["ID"] or "").strip().isdigit():  # units
            continue
        counts = {count: quantity(row.get(name)) for count, name in metrics.items()}
        kernels.append({"id": int(row["ID"]), "kernel": row["Kernel Name"], **counts})
    return sorted(kernels, key=lambda kernel: kernel["id"])


def quantity(text: str | None) -> float | None:
    """1,024 is 1024; what is not a number is unknown."""
    try:
        found = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return int(found) if found.is_integer() else found


def by_call(kernels: list[Row], calls: list[Row]) -> list[Row]:
    """The calls, each with the kernels behind its mark."""
    marks = [k for k, kernel in enumerate(kernels) if MARK in kernel["kernel"]]
    launched = [call for call in calls if call["launched"]]
    if len(marks) != len(launched):
        raise ProfilerError(f"the profiler saw {len(marks)} marks for {len(launched)} calls")
    bounds = zip(launched, marks, [*marks[1:], len(kernels)], strict=True)
    found = {
        (c["estimator"], c["implementation"]): [
            {name: x for name, x in kernel.items() if name != "id"} for kernel in kernels[begin + 1 : end]
        ]
        for c, begin, end in bounds
    }
    return [
        {**{k: x for k, x in call.items() if k != "launched"},
         "kernels": found.get((call["estimator"], call["implementation"]), [])}
        for call in calls
    ]  # fmt: skip


def ncu(*arguments: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["ncu", *arguments], capture_output=True, text=True, check=False, timeout=seconds,
                              cwd=PAPER.parent)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfilerError(f"{type(error).__name__}: {error}"[:300]) from error


def count(seed: int) -> tuple[list[Row], Row]:
    """The rows of the table, and what was asked of the profiler."""
    queried = ncu("--query-metrics", seconds=60)
    metrics = known_metrics(queried.stdout if queried.returncode == 0 else "")
    with tempfile.TemporaryDirectory() as folder:
        log, told = Path(folder) / "ncu.csv", Path(folder) / "calls.json"
        # the clocks stay as they are: counts do not depend on them
        options = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
        options += [
            "--profile-from-start",
            "off",
            "--target-processes",
            "application-only",
            "--metrics",
            ",".join(metrics.values()),
            "--log-file",
            str(log),
        ]
        program = [sys.executable, "-m", "paper.accesses", "--launch", str(told), "--seed", str(seed)]
        ran = ncu(*options, *program)
        said = log.read_text().splitlines(keepends=True) if log.exists() else []
        if not told.exists():
            talk = " ".join([*said, ran.stdout, ran.stderr][-3:]).split()
            raise ProfilerError(f"what was to be profiled ended with {ran.returncode}: {' '.join(talk)[-400:]}")
        rows = by_call(read(said, metrics), json.loads(told.read_text()))
    shape = dict(zip(("num_envs", "seq_len"), tables()["accesses"]["shapes"][0], strict=True))
    version = ncu("--version", seconds=60).stdout.strip().splitlines()
    asked = {"metrics": metrics, "profiler": version[-1] if version else "ncu"}
    return [{**shape, "truncated": False, **row} for row in rows], asked


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m paper.accesses", description="What the profiler runs.")
    parser.add_argument("--launch", type=Path, required=True, metavar="FILE", help="says here what it launched")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    launch(args.seed, args.launch)


if __name__ == "__main__":
    main()
