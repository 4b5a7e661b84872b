"""The sweep behind rlscan/engine/tiles.py: `python -m paper.sweep --out FILE` times candidate tiles of many shapes.

Device time by CUDA-graph replay over inputs that rotate, beside an add kernel that moves as many bytes. A tile whose
results differ from those of the others is an error.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gc
import itertools
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import rlscan
from paper.bench import bytes_moved
from paper.jobs import Job
from paper.keeping import write
from paper.timing import device_samples, rotation, stream_samples
from rlscan.engine import Tile, forced
from rlscan.engine.plan import remembered
from rlscan.engine.tiles import GROUP, WARP, power_of_two_at_least
from rlscan.verify.compare import as_tuple
from rlscan.verify.environment import environment


class Case(NamedTuple):
    estimator: str
    num_envs: int
    seq_len: int
    truncated: bool = False
    actions: int = 4
    layout: str = "NT"
    dtype: str = "float32"

    def inputs(self, seed: int) -> dict[str, Any]:
        job = Job(
            "sweep", self.estimator, (self.num_envs, self.seq_len),
            truncated=self.truncated, actions=self.actions, layout=self.layout, dtype=self.dtype,
        )  # fmt: skip
        return job.inputs(seed)


def rows_in_time(
    runs: tuple[int, ...], warps: tuple[int, ...], groups: tuple[int, ...], actions: int = 1
) -> list[Tile]:
    """[N, T]: one row a program, one run a thread."""
    return [Tile(1, 32 * run * w, w, actions, run, group) for run, w, group in itertools.product(runs, warps, groups)]


def rows_together(steps: int, runs: tuple[int, ...], warps: tuple[int, ...], actions: int = 1) -> list[Tile]:
    """[N, T]: as many rows a program as fill its warps, one run a thread."""
    tiles = []
    for run, w in itertools.product(runs, warps):
        rows = 32 * run * w // min(steps, 32 * run)
        tiles.append(Tile(rows, min(steps, 32 * run), w, actions, min(run, steps)))
    return tiles


def whole_window(steps: int, runs: tuple[int, ...], rows: tuple[int, ...] = (1,), actions: int = 1) -> list[Tile]:
    """[N, T]: the window in one tile, one run a thread, a row spread over several warps where it needs them."""
    return [
        Tile(r, steps, r * steps // run // 32, actions, run)
        for run, r in itertools.product(runs, rows)
        if r * steps // run >= 32
    ]


def time_major(rows: tuple[int, ...], steps: tuple[int, ...], runs: tuple[int, ...]) -> list[Tile]:
    """[T, N]: one run a thread."""
    return [
        Tile(r, s, r * s // run // 32, 1, run)
        for r, s, run in itertools.product(rows, steps, runs)
        if run <= s and 32 <= r * s // run <= 512 and s // run * r >= 32
    ]


def plan() -> Iterator[tuple[Case, list[Tile]]]:
    """What decides for many short windows, then one long row, then actions, then [T, N]."""
    walks = ("prefix_sum", "gae", "vtrace", "discounted_returns")
    for estimator in walks:
        for shape in ((512, 128), (4096, 128), (16384, 128)):
            yield Case(estimator, *shape), whole_window(128, (4, 8, 16), (1, 2, 4, 8))
        for shape in ((64, 512), (512, 512), (4096, 512)):
            yield Case(estimator, *shape), [*whole_window(512, (8, 16), (1, 2)), *rows_in_time((4, 8), (1,), (0,))]
        yield Case(estimator, 256, 1024), whole_window(1024, (8, 16, 32))
        for shape in ((512, 2048), (512, 4096)):
            yield Case(estimator, *shape), rows_in_time((8, 16, 32), (1,), (0, 32))
        for truncated in (False, True) if estimator != "prefix_sum" else (False,):
            for shape in ((16384, 512), (4096, 2048)):
                yield Case(estimator, *shape, truncated), rows_together(512, (4, 8, 16), (1, 2))
        for shape in ((16384, 512), (4096, 2048)):
            yield Case(estimator, *shape, dtype="bfloat16"), rows_together(512, (8, 16, 32), (1, 2))
        for shape in ((1, 131072), (16, 2**20), (1, 2**24)):
            yield Case(estimator, *shape), rows_in_time((8, 16, 32), (1,), (32,))
    few_rows = (*((512, T) for T in (128, 512, 2048, 4096)), (128, 8192), (64, 16384), (64, 65536), (1, 2**22))
    for actions, block, runs in ((4, 4, (4, 8, 16)), (6, 2, (2, 4, 8)), (8, 4, (2, 4, 8)), (18, 2, (1, 2, 4))):
        for shape in few_rows:
            alone = (32,) if shape[1] > 2**15 else (0, 32)
            tiles = rows_in_time(runs, (1, 2, 4), alone, block)
            yield Case("retrace", *shape, actions=actions), [t for t in tiles if t.steps <= shape[1]]
    for shape in ((4096, 128), (16384, 512), (4096, 2048)):
        yield Case("retrace", *shape), rows_in_time((2, 4, 8), (1,), (0,), 4)
        yield Case("retrace", *shape, dtype="bfloat16"), rows_in_time((2, 4, 8), (1,), (0,), 4)
        yield Case("retrace", *shape, actions=18), rows_in_time((1, 2), (1,), (0,), 2)
        yield Case("retrace", *shape, actions=6), rows_in_time((2, 4), (1,), (0,), 2)
    yield from few_neighbours()
    for estimator in ("gae", "vtrace", "td_lambda", "prefix_sum", "retrace"):
        for shape in ((4096, 24), (4096, 128), (16384, 512), (65536, 64)):
            tiles = time_major((16, 32), tuple(s for s in (8, 16, 32, 64, 128) if s < 2 * shape[1]), (8, 16))
            actions = 4 if estimator == "retrace" else 1
            yield Case(estimator, *shape, layout="TN"), [replace(t, actions=actions) for t in tiles if t.warps <= 8]
    yield from rows_over_warps()
    yield from programs_of_several_tiles()
    yield from neighbours_in_one_tile()
    yield from many_rows_over_warps()
    yield from neighbours_read_together()
    yield from windows_of_other_lengths()


def few_neighbours() -> Iterator[tuple[Case, list[Tile]]]:
    """[T, N] over few rows: programs share them, or each walks over its own."""
    shapes = ((64, 1024), (1024, 2048), (64, 16384), (16, 2**17))
    plain, four, many = Tile(32, 64, 4, 1, 16), Tile(32, 32, 2, 4, 16), Tile(32, 32, 8, 2, 4)  # that walk
    for estimator, actions, runs, walking in (
        *(("gae", 4, (8,), plain), ("vtrace", 4, (8,), plain), ("prefix_sum", 4, (8, 16), plain)),
        *(("retrace", 4, (4, 8), four), ("retrace", 18, (4,), many)),
    ):
        split = [Tile(8, 32 * run, 8, walking.actions, run, group) for run in runs for group in (8, 32)]
        for shape in shapes:
            yield Case(estimator, *shape, actions=actions, layout="TN"), split + [walking] * (shape[1] <= 2048)


def rows_over_warps() -> Iterator[tuple[Case, list[Tile]]]:
    """[N, T] over few rows: a row spread over warps, whose threads read their own runs, beside a warp a row."""
    for estimator in ("prefix_sum", "gae", "vtrace", "discounted_returns"):
        for shape in (
            *((64, 512), (512, 512), (2048, 512), (128, 1024), (256, 1024), (1024, 1024), (512, 2048)),
            *((64, 4096), (512, 4096), (64, 8192), (512, 256), (64, 1000), (64, 1001)),
        ):
            window = min(power_of_two_at_least(shape[1]), 2048)
            cuts = [(steps, run, steps // run // WARP) for steps in (window, window // 2) for run in (4, 8, 16)]
            spread = [Tile(1, steps, warps, 1, run, vector=4) for steps, run, warps in cuts if 1 < warps <= 8]
            yield Case(estimator, *shape), [*spread, *rows_in_time((8, 16, 32), (1,), (0,))]


def programs_of_several_tiles() -> Iterator[tuple[Case, list[Tile]]]:
    """[N, T] over few, very long rows: programs that read their tiles twice, as many as there is room for."""
    for shape in ((16, 2**20), (1, 2**24)):
        for estimator in ("prefix_sum", "discounted_returns", "vtrace", "gae"):
            cuts = ((8, 16), (8, 32), (16, 8), (16, 16))
            walking = [Tile(1, WARP * run, 1, 1, run, GROUP, walk) for run, walk in cuts]
            yield Case(estimator, *shape), [*walking, *rows_in_time((16, 32), (1,), (GROUP,))]


def neighbours_in_one_tile() -> Iterator[tuple[Case, list[Tile]]]:
    """[T, N], short windows: fewer or more rows a program, and threads that share a row."""
    for shape, steps, runs in (((4096, 128), 128, (4, 8, 16)), ((4096, 24), 32, (2, 4, 8))):
        for estimator in ("gae", "vtrace", "td_lambda", "prefix_sum", "discounted_returns"):
            tiles = [Tile(r, steps, r * steps // run // WARP, 1, run) for r in (8, 16, 32) for run in runs]
            yield Case(estimator, *shape, layout="TN"), [tile for tile in tiles if 1 <= tile.warps <= 16]


def many_rows_over_warps() -> Iterator[tuple[Case, list[Tile]]]:
    """[N, T] over many rows of some length: a row spread over warps, beside tiles that are read together."""
    for estimator, shape, truncated, dtype in (
        *(("vtrace", (4096, T), False, "float32") for T in (2048, 512)),
        *(("prefix_sum", (4096, 2048), False, dtype) for dtype in ("bfloat16", "float32")),
        *(("gae", (4096, T), False, "float32") for T in (2048, 512)),
        *((name, (16384, 512), False, "float32") for name in ("vtrace", "gae")),
        *((name, (4096, 2048), True, "float32") for name in ("vtrace", "gae")),
        *((name, (4096, 2048), False, "float32") for name in ("discounted_returns", "td_lambda")),
        ("vtrace", (4096, 2048), False, "bfloat16"),
        ("gae", (8192, 4096), False, "float32"),
    ):
        most, vector = min(shape[1], 2048), 4 if dtype == "float32" else 8
        cuts = [(steps, run) for steps in (most, most // 2) for run in (4, 8, 16) if 1 < steps // run // WARP <= 8]
        spread = [Tile(1, steps, steps // run // WARP, 1, run, vector=min(run, vector)) for steps, run in cuts]
        together = [Tile(2, 256, 2, 1, 8), Tile(2, 256, 2, 1, 8, vector=vector), Tile(1, 512, 1, 1, 16)]
        yield Case(estimator, *shape, truncated, dtype=dtype), [*spread, *together]


def neighbours_read_together() -> Iterator[tuple[Case, list[Tile]]]:
    """[T, N], short windows: a thread has runs of several neighbouring rows, which it reads as vectors."""
    for estimator in ("vtrace", "prefix_sum", "gae", "td_lambda", "eligibility_traces"):
        cuts = ((32, 4, 8), (32, 8, 8), (32, 8, 4), (16, 4, 4), (16, 2, 8), (16, 4, 8), (8, 2, 4))
        yield Case(estimator, 4096, 128, layout="TN"), [Tile(rows, 128, warps, 1, run) for rows, warps, run in cuts]


def windows_of_other_lengths() -> Iterator[tuple[Case, list[Tile]]]:
    """[N, T], many rows that do not begin at multiples of 16, beside windows of nearly the same length that do."""
    for estimator in ("gae", "prefix_sum", "vtrace"):
        for shape in ((4096, 1000), (4096, 1008), (16384, 100), (16384, 112), (16384, 250), (16384, 256)):
            run = 4 if shape[1] <= 128 else 8
            window = min(power_of_two_at_least(shape[1]), 1024)
            tile = Tile(1, window, window // run // WARP, 1, run, vector=4)
            yield Case(estimator, *shape), [tile]


def call(case: Case, inputs: dict[str, Any], tile: Tile | None) -> Any:
    with forced(tile=tile):
        return getattr(rlscan, case.estimator)(**inputs)


def chosen(case: Case, inputs: dict[str, Any]) -> Tile:
    """The tile that the engine takes by itself."""
    (plan,) = remembered(lambda: call(case, inputs, None))
    tile: Tile = plan.launch.tile
    return tile


def compile_one(job: tuple[Case, Tile]) -> str:
    """In a process of its own: fills Triton's cache."""
    case, tile = job
    steps = case.seq_len if tile.group else min(case.seq_len, 65536)  # how many programs share a row is compiled in
    small = case._replace(num_envs=min(case.num_envs, 2), seq_len=steps)
    try:
        call(small, small.inputs(0), tile)
    except Exception as error:
        return f"{case} {tile}: {type(error).__name__}: {error}"[:300]
    return ""


def measure(case: Case, tiles: list[Tile]) -> dict[str, Any]:
    moved = bytes_moved(case.estimator, case.inputs(0))
    sets = [case.inputs(seed) for seed in range(rotation(moved, 4))]
    rows: list[dict[str, Any]] = []
    tolerance = 1e-3 if case.dtype == "float32" else 2e-2
    wanted = as_tuple(call(case, sets[0], None))
    for tile in [None, *tiles]:
        row: dict[str, Any] = {"tile": list(vars(tile or chosen(case, sets[0])).values()), "chosen": tile is None}
        try:
            for a, b in zip(as_tuple(call(case, sets[0], tile)), wanted, strict=True):
                torch.testing.assert_close(a, b, rtol=tolerance, atol=10 * tolerance)
            row["us"] = min(device_samples([partial(call, case, x, tile) for x in sets], 5, 600.0))
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:300]
        rows.append(row)
    return {**case._asdict(), "bytes": moved, "stream_us": min(stream_samples(moved, len(sets))), "rows": rows}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.sweep", description="Time candidate tiles.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=14, help="processes that compile")
    parser.add_argument("--cases", default=":", help="only these, as in 0:20 or 1::2")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop measuring after so many")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    cases = list(plan())[slice(*(int(edge) if edge else None for edge in args.cases.split(":")))]
    jobs = list(dict.fromkeys((case, tile) for case, tiles in cases for tile in tiles))
    # shapes share kernels: strides and sizes are arguments
    seen: dict[Any, tuple[Case, Tile]] = {}
    for case, tile in jobs:
        length = case.seq_len if tile.group else (case.seq_len % tile.steps, case.seq_len <= tile.steps)
        seen.setdefault((case._replace(num_envs=min(case.num_envs, 2), seq_len=0), length, tile), (case, tile))
    with concurrent.futures.ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        failures = [failure for failure in pool.map(compile_one, seen.values(), chunksize=2) if failure]
    print(f"{len(seen)} kernels compiled in {time.perf_counter() - start:.0f} s", *failures, sep="\n", file=sys.stderr)
    gc.freeze()  # PyTorch collects garbage before every graph
    shapes = []
    for case, tiles in cases:
        if time.perf_counter() - start > args.seconds:
            print(f"out of time before {case}", file=sys.stderr)
            break
        shapes.append(measure(case, tiles))
        best = sorted((r for r in shapes[-1]["rows"] if "us" in r), key=lambda r: r["us"])
        default = next((r.get("us") for r in shapes[-1]["rows"] if r["chosen"]), None)
        what = " ".join(map(str, case))
        print(
            f"{what} stream {shapes[-1]['stream_us']:.1f} default {default} best",
            *(f"{r['us']:.2f}{r['tile']}" for r in best[:4]),
            *(r["error"][:60] for r in shapes[-1]["rows"] if "error" in r),
            flush=True,
        )
    what = (
        "device time of one call, µs, by CUDA-graph replay over inputs that rotate; "
        "tiles are (rows, steps, warps, actions, run, group, walk, vector), "
        "`chosen` the one that the engine takes by itself"
    )
    head = {"what": what, **environment("cuda"), "seed": 0}
    write({**head, "shapes": shapes}, args.out, "shapes")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
