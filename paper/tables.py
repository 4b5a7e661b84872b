"""The runner: `python -m paper.tables --table table4` measures a block of tables.toml, or several.

Checks every implementation on the very data, times those that are right, and writes the raw samples cell by cell to
paper/results/<device>/<table>.json. What was measured by the same code on the same machine is kept: a run that was
stopped goes on where it was. A library that is not installed is named and left out.

`python -m paper.tables --from targets_rows.json` gives each table the rows that paper/targets.py has measured of it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from paper import accesses, jobs, libraries, split
from paper.baselines import TRUNCATES
from paper.bench import PAPER, QUICK, best, device_name, measure_cell, original, results_folder, tables
from paper.keeping import Kept, source
from paper.timing import timer
from rlscan.verify.environment import environment

Row = dict[str, Any]


class IncompleteError(Exception):
    """Measuring ended before every cell was there, with the reason."""


class Request(NamedTuple):
    """A table on a device."""

    name: str
    device: str
    seed: int
    quick: bool = False

    @property
    def block(self) -> Row:
        return tables()[self.name]

    @property
    def runner(self) -> str:
        return str(self.block.get("runner", "jobs" if "section" in self.block else "calls"))


# What a machine can measure


def names() -> list[str]:
    return list(tables())


def by_name(text: str) -> str | None:
    """`table4`, `4`, `figure2`: the block that is meant."""
    known = {"figure2": "pufferlib", "figure3": "pufferlib"}
    for name in (text, f"table{text}", known.get(text, "")):
        if name in tables():
            return name
    return None


def fits(name: str, device: str) -> bool:
    return tables()[name]["device"] in (device.partition(":")[0], "any")


def missing(request: Request) -> dict[str, str]:
    """The implementations that can't be called here, and why."""
    device = request.device.partition(":")[0]
    found = {name: libraries.absent(name, device) for name in request.block.get("implementations", [])}
    return {name: reason for name, reason in found.items() if reason}


def why_not(request: Request) -> str | None:
    """Why a table can't be measured here at all."""
    if request.runner == "accesses":
        return accesses.absent()
    if request.runner == "libraries":
        lacking = missing(request)
        if len(lacking) == len(request.block["implementations"]) - 1:
            return "; ".join(dict.fromkeys(lacking.values()))
    return None


# Measuring


def protocol_of(request: Request) -> Row:
    block = request.block
    protocol = {**original()["protocol"], **block.get("protocol", {}), **(QUICK if request.quick else {})}
    if request.device == "cpu" and "timer" not in block.get("protocol", {}):
        protocol["timer"] = "time.perf_counter around the full call"
    protocol["correctness_gate"] = "float64 reference on this very data, before any timing"
    return protocol


def head_of(request: Request) -> Row:
    found = environment(request.device)
    found["versions"] |= libraries.versions(request.block.get("implementations", []))
    named = {} if request.runner == "jobs" else {"device": device_name(request.device)}
    return {
        "table": request.name, "label": request.block["label"], **found, **named, "source": source(),
        "seed": request.seed, "protocol": protocol_of(request), "not_run": missing(request),
    }  # fmt: skip


def calls(request: Request, kept: Kept, say: Callable[[str], None]) -> Row:
    """One cell after the other, in this process."""
    block, protocol = request.block, kept.result["protocol"]
    present = [name for name in block["implementations"] if name not in missing(request)]
    measure = measure_cell if request.runner == "calls" else libraries.measure
    empty_call = [[round(timer(request.device)(lambda: None), 3) for _ in range(protocol["iterations_per_trial"])]]
    for key in call_cells(block):
        if kept.has(key):
            continue
        right = [name for name in present if request.runner == "calls" or libraries.has(name, key["estimator"])]
        shape = (key["num_envs"], key["seq_len"])
        rows = measure(key["estimator"], key["truncated"], shape, right, protocol, request.device, request.seed)
        kept.add(rows)
        say(words(rows))
    return {"empty_call_us": best(empty_call)}


def call_cells(block: Row) -> Iterator[Row]:
    for num_envs, seq_len in block["shapes"]:
        for estimator in block["estimators"]:
            for truncated in (False, True) if estimator in TRUNCATES else (False,):
                yield {"estimator": estimator, "truncated": truncated, "num_envs": num_envs, "seq_len": seq_len}


def section(request: Request, kept: Kept, say: Callable[[str], None]) -> Row:
    """The cells of a section of paper/targets.py, by several processes."""
    from paper import targets  # it needs Triton

    lacking = missing(request)
    wanted = [job.without(lacking) for job in jobs.of_table(request.name, request.seed)]
    left = [job for job in wanted if not kept.has(job.key)]

    def found(job: jobs.Job, rows: list[Row]) -> None:
        kept.add(rows)
        say(f"[{sum(kept.has(job.key) for job in wanted)}/{len(wanted)}] {words(rows)}")

    processes = max(1, min(14, len(left), (os.cpu_count() or 2) - 1))
    _, errors = targets.run(left, processes, targets.DEADLINE, found) if left else ([], [])
    if not all(kept.has(job.key) for job in wanted):
        raise IncompleteError("; ".join(errors)[:2000])
    return {"errors": errors}  # of cells that can't be measured here: their rows say so


def profiled(request: Request, kept: Kept, say: Callable[[str], None]) -> Row:
    try:
        rows, asked = accesses.count(request.seed)
    except accesses.ProfilerError as trouble:
        raise IncompleteError(str(trouble)) from trouble
    kept.add(rows)
    say(f"{sum(len(row['kernels']) for row in rows)} kernels of {len(rows)} calls")
    return asked


def words(rows: list[Row]) -> str:
    """A cell on one line."""
    first = rows[0]
    parts = [first["estimator"], "truncated" if first["truncated"] else "plain"]
    parts += [f"{first['num_envs']} x {first['seq_len']}"]
    shown = {}
    for row in rows:
        us = row.get("best_us", row.get("us"))
        metric = f" {row['metric']}" if row.get("metric") not in (None, "none") else ""
        text = f"{us:.1f} µs" if us is not None else f"FAILED {row.get('error') or row['gate'].get('error', '')}"
        shown.setdefault(f"{row['implementation']}{metric}", text)
    return f"{' '.join(parts):<42}" + "   ".join(f"{name} {text}" for name, text in shown.items())


RUNNERS = {"calls": calls, "libraries": calls, "jobs": section, "accesses": profiled}


def measure(request: Request, out: Path | None, again: bool = False) -> int:
    """Measures a table. 0 if it is there and right, 1 if something failed the gate or was not measured."""
    if request.runner == "end_to_end":
        from paper import end_to_end

        flags = [*(["--out", str(out)] if out else []), *(["--quick"] if request.quick else [])]
        flags += [] if again else ["--resume"]
        device = request.device.partition(":")[0]
        return end_to_end.main(["--part", "synthetic", "--device", device, "--seed", str(request.seed), *flags])
    start = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - start:7.1f} s  {request.name}  {text}", file=sys.stderr, flush=True)

    reason = why_not(request)
    if reason:
        print(f"NOT RUN: {request.name}: {reason}")
        return 0
    for name, why in missing(request).items():
        say(f"without {name}: {why}")
    torch.set_num_threads(request.block.get("threads", torch.get_num_threads()))
    kept = Kept(head_of(request), out, again)
    for line in kept.said:
        say(line)
    if not kept.done:
        try:
            with torch.no_grad():
                kept.finish(**RUNNERS[request.runner](request, kept, say))
        except IncompleteError as stopped:
            print(f"{request.name}: stopped with {len(kept.rows)} rows: {stopped}", file=sys.stderr)
            return 1
    if out is not None:
        print(out)
    failed = [row for row in kept.rows if not row.get("gate", {"passed": True})["passed"]]
    if failed:
        print(f"{len(failed)} of {len(kept.rows)} rows failed the gate and were not timed", file=sys.stderr)
    return 1 if failed else 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.tables", description="Measure tables of paper/tables.toml.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--table", nargs="+", metavar="TABLE", help=f"some of {', '.join(names())}")
    what.add_argument("--from", dest="rows", type=Path, metavar="FILE", help="split what paper/targets.py measured")
    parser.add_argument("--device", help="cuda or cpu; default: the table's own")
    parser.add_argument("--out", type=Path, help="folder of the results; default: paper/results/<device>")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="measure anew what was measured by this very code")
    parser.add_argument("--quick", action="store_true", help="few calls, and nothing is written: shows that it runs")
    args = parser.parse_args(argv)
    if args.rows:
        return split.main(args.rows, args.out or args.rows.parent)
    code = 0
    for text in args.table:
        name = by_name(text)
        if name is None:
            parser.error(f"no table {text!r} in paper/tables.toml; there are {', '.join(names())}")
        own = tables()[name]["device"]
        device = args.device or ({"any": "cuda" if torch.cuda.is_available() else "cpu"}.get(own, own))
        if device.startswith("cuda") and not torch.cuda.is_available():
            parser.error(f"{name} needs a CUDA GPU and none is available")
        request = Request(name, device, args.seed, args.quick)
        if args.quick and request.runner in ("jobs", "accesses"):
            parser.error(f"--quick is for tables of calls; {name} is measured by other processes")
        folder = args.out or PAPER / "results" / results_folder(device)
        out = None if args.quick else folder / f"{name}.json"
        code = max(code, measure(request, out, args.again))
    return code


if __name__ == "__main__":
    sys.exit(main())
