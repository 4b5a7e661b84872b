"""The kernels behind the speed targets as machine code for an H200: `python -m paper.machine_code`, without a GPU.

Compiles what the calls of the paper's grid launch, and of the cells of missed targets, with and without the guard where
the guard is the point. Writes paper/results/sm90/machine_code.json: a row a kernel, with its registers, its
instructions by class, how long it took to compile, and the cells that launch it. Takes some minutes on one core.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from paper import jobs
from paper.bench import PAPER, device_name, rollout
from paper.keeping import write
from paper.unguarded import without_guard
from paper.verdicts import CELL, label
from rlscan.verify.environment import environment

RESULT = PAPER / "results" / "sm90" / "machine_code.json"
# of one multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, technical specifications)
REGISTERS, WARPS, BLOCKS, SHARED = 65536, 64, 32, 228 * 1024
REGISTER_UNIT, SHARED_RESERVED = 8, 1024  # what a thread gets a multiple of; what each block takes beside its own
WARP = 32
# the cells whose kernels are looked at beside the grid's: of a missed target what is compared with as well
SECTIONS = {
    "grid_device": "grid",
    "rows_full": "rows",
    "retrace_long": "retrace_long",
    "long": "long",
    "time_major": "time_major",
    "half": "half",
    "guard": "guard",
}
KEY = (*jobs.KEY, "num_envs", "seq_len")


class Engine(NamedTuple):
    """A package that the calls are made of: rlscan, or its copy without a guard."""

    guarded: bool
    package: ModuleType

    def part(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package.__name__}.engine.{name}")


def described(job: jobs.Job) -> dict[str, Any]:
    """The arguments of the call, without memory behind them."""
    sizes = dict(zip((2, 3), job.shape, strict=True))  # a rollout of 2 rows and 3 steps says what there is
    inputs = rollout(
        job.estimator, job.truncated, *sizes, dtype=getattr(torch, job.dtype), actions=job.actions, layout=job.layout
    )

    def large(x: torch.Tensor) -> torch.Tensor:
        shape = [sizes[n] for n in x.shape[:2]] + [*x.shape[2:]]
        return torch.empty(shape, dtype=x.dtype, device="meta")

    return {name: large(x) if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}


def wanted(missed: dict[str, list[str]]) -> Iterator[tuple[jobs.Job, bool]]:
    """The grid; then the cells of the sections whose targets are missed, and whether guarded."""
    every = list(jobs.jobs())
    yield from ((job, True) for job in every if job.section == "grid")
    for name, cells in missed.items():
        for job in every:
            if SECTIONS.get(name) != job.section or job.section == "grid":
                continue
            key = job.key
            words = {label(tuple(key[k] for k in CELL)), label((job.estimator, *job.shape)), label(job.shape)}
            # of few cells all, so that one can see where it differs from those that are met
            if job.section in ("retrace_long", "long", "guard") or words & {*cells}:
                yield job, True
                if job.section == "guard":
                    yield job, False


def warps_an_sm(registers: int, warps: int, shared: int) -> int:
    """How many warps a multiprocessor holds at a time, in whole programs."""
    a_thread = -(-registers // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // (a_thread * WARP) // warps
    by_memory = SHARED // (shared + SHARED_RESERVED)
    return warps * min(by_registers, by_memory, WARPS // warps, BLOCKS)


def launched(job: jobs.Job, engine: Engine) -> tuple[Any, Any]:
    """The plan of a call, and what its kernel would be compiled from."""
    from paper.compiling import recording

    plans = engine.part("plan")
    with recording(engine.part("launch")) as recorder, plans.forced("triton"):
        (plan,) = plans.remembered(lambda: getattr(engine.package, job.estimator)(**described(job)))
    return plan, recorder.specialised()


def processor_seconds() -> float:
    """Of this process and of the assemblers that it ran."""
    return sum(os.times()[:4])


def kernel_row(plan: Any, source: Any, guarded: bool) -> dict[str, Any]:
    from paper import sass

    start, before = time.perf_counter(), processor_seconds()
    compiled = source.compile()
    seconds, of_processor = time.perf_counter() - start, processor_seconds() - before
    used, instructions = sass.read(compiled.asm["cubin"])
    found = sass.body(instructions)
    tile, shared = plan.launch.tile, compiled.metadata.shared
    a_thread = tile.rows * tile.steps / (WARP * tile.warps)
    resident = warps_an_sm(used["registers"], tile.warps, shared)
    count = plan.window.steps
    for size in plan.window.rows:
        count *= size
    read = plan.bytes_read / count
    return {
        "guarded": guarded, "compile_s": round(seconds, 2), "compile_cpu_s": round(of_processor, 2),
        **used, "shared_bytes": shared,
        "tile_rows": tile.rows, "tile_steps": tile.steps, "run": tile.run, "warps": tile.warps,
        "split": bool(plan.launch.group), "walk": tile.walk, "elements_a_thread": a_thread,
        "is_loop": found.is_loop, "instructions": found.instructions, "outside_loop": found.outside,
        "instructions_an_element": round(sum(found.instructions.values()) / a_thread, 2),
        "warps_an_sm": resident, "read_bytes_an_element": round(read, 3),
        "bytes_in_flight_an_sm": round(resident * WARP * a_thread * read),
    }  # fmt: skip


@contextlib.contextmanager
def compilers() -> Iterator[list[Engine]]:
    """The two engines; inside the block nothing is kept from one process to the next."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = str(Path(folder) / "cache")
        without_guard(Path(folder))
        sys.path.insert(0, folder)
        yield [Engine(name == "rlscan", importlib.import_module(name)) for name in ("rlscan", "rlscan_unguarded")]
        sys.path.remove(folder)


def measure(cells: list[tuple[jobs.Job, bool]], engines: list[Engine]) -> list[dict[str, Any]]:
    """A row a kernel. Compiled from nothing: what Triton keeps of earlier runs is not looked at."""
    rows: dict[str, dict[str, Any]] = {}
    for number, (job, guarded) in enumerate(cells):
        engine = next(engine for engine in engines if engine.guarded == guarded)
        plan, source = launched(job, engine)
        if source.key not in rows:
            rows[source.key] = {"kernel": len(rows), **kernel_row(plan, source, guarded), "cells": []}
            print(f"[{number + 1}/{len(cells)}] {len(rows)} kernels, {label(tuple(job.key.values()))}", file=sys.stderr)
        row = rows[source.key]
        row["cells"].append({**job.key, "programs": plan.launch.grid[0] * plan.launch.grid[1]})
    return [*rows.values()]


def missed_in(folder: Path) -> dict[str, list[str]]:
    """The cells that miss, by target."""
    targets = json.loads((folder / "targets.json").read_text())["targets"]
    return {name: target["missed"] for name, target in targets.items() if target.get("missed")}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.machine_code", description="Look at what is compiled.")
    parser.add_argument("--targets", type=Path, default=PAPER / "results" / "h200", help="the folder of targets.json")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args(argv)
    if "TRITON_INTERPRET" in os.environ:
        parser.error("TRITON_INTERPRET is set: nothing would be compiled")
    from paper import sass

    cells = list(wanted(missed_in(args.targets)))
    head = {**environment("cpu"), "compiled_on": device_name("cpu"), "compiled_for": "sm_90", "seed": 0}
    head |= {"ptxas": sass.assembler(), "measured_by": "python -m paper.machine_code"}
    with compilers() as engines:
        rows = measure(cells, engines)
    write({**head, "rows": rows}, args.out)
    seconds = [row["compile_cpu_s"] for row in rows]
    print(
        f"{args.out}: {len(rows)} kernels, of processor time a median of {statistics.median(seconds):.2f} s, "
        f"at most {max(seconds)} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
