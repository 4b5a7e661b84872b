"""The speed targets: `python -m paper.targets --out FOLDER` measures them all in one run on one GPU.

Writes targets.json (a value, a target and whether it is met, by name) and targets_rows.json (every cell, with raw
samples). Processes first compile and check side by side, each its own cells; then, all idle, one at a time measures. So
what is compared is measured in one process, one after the other, on the same data.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import rlscan
from paper.baselines import BASELINES, TRUNCATES
from paper.bench import best, bytes_moved, original, rollout, time_side_by_side, write
from paper.cuda_rows import CUDA_ROWS
from paper.gate import Verdict, admit, as_tuple, expect
from paper.timing import device_samples, host_samples, rotation, stream_samples
from paper.verdicts import HEADLINE, LARGE, evaluate
from rlscan.engine import forced
from rlscan.engine.kernel import affine_scan_kernel
from rlscan.engine.plan import remembered
from rlscan.verify.environment import environment
from rlscan.verify.strategies import ESTIMATORS

SEVEN = tuple(name for name in ESTIMATORS if name != "linear_scan")
CELLS = [(name, truncated) for name in SEVEN for truncated in ((False, True) if name in TRUNCATES else (False,))]
LOOP_PROTOCOL = {"warmup_calls": 0, "iterations_per_trial": 1, "trials": 2}  # hundreds of milliseconds a call
GATED_STEPS = 2**17  # longer windows are checked against the portable path in float64: the reference would take minutes
DEADLINE = 1200.0


# file, what guards there, and what stands there without a guard
UNGUARDED = (
    ("affine.py", "    return tl.where(beta == 0, alpha, alpha + beta * x)", "    return alpha + beta * x"),
    ("affine.py", "    product = tl.where(product == 0, 1e-45, product)\n    reset", "    reset"),
    ("affine.py", "tl.where(reset, 0.0, product)", "product"),
    ("affine.py", "    return tl.where(least == 0, alpha, alpha + beta * x)", "    return alpha + beta * x"),
    ("affine.py", "    product = tl.where(product == 0, 1e-45, product)\n    return", "    return"),
    ("affine.py", "tl.minimum(least_a, least_b)", "least_b"),
    ("affine.py", "tl.where(least == 0, 0.0, beta)", "beta"),
    (
        "engine/kernel.py",
        "run_alpha, run_beta, run_least = tl.associative_scan(\n"
        "                (run_alpha, run_beta, run_least), TIME_AXIS, join_spans\n            )",
        "run_alpha, run_beta = tl.associative_scan((run_alpha, run_beta), TIME_AXIS, combine)",
    ),
)


class Job(NamedTuple):
    """One cell: the inputs of one kind of call, and what is timed on them."""

    section: str
    estimator: str
    shape: tuple[int, int]
    implementations: tuple[str, ...] = ("rlscan",)
    metrics: tuple[str, ...] = ("device",)
    truncated: bool = False
    actions: int = 4
    layout: str = "NT"
    dtype: str = "float32"
    repeats: int = 1
    stream: bool = False

    def inputs(self, seed: int) -> dict[str, Any]:
        return rollout(
            self.estimator, self.truncated, *self.shape, seed=seed, device="cuda", dtype=getattr(torch, self.dtype),
            actions=self.actions, layout=self.layout,
        )  # fmt: skip


def jobs() -> Iterator[Job]:
    """Every cell of every target."""
    figures = original()
    shapes = [(row["num_envs"], row["seq_len"]) for row in figures["table4"]]
    compiled = ("rlscan", "doubling", "associative")
    for shape in shapes:
        for name, truncated in CELLS:
            repeats = 10 if shape == HEADLINE else 1
            stream = math.prod(shape) >= LARGE
            yield Job(
                "grid",
                name,
                shape,
                (*compiled, "loop"),
                ("full", "device"),
                truncated,
                4,
                repeats=repeats,
                stream=stream,
            )
            if not truncated:
                yield Job("guard", name, shape, ("rlscan", "unguarded"))
    large = [shape for shape in shapes if math.prod(shape) >= LARGE]
    for shape in large:
        yield Job("bandwidth", "retrace", shape, actions=18, stream=True)
        for name in SEVEN:
            for dtype in ("float32", "bfloat16"):
                yield Job("half", name, shape, dtype=dtype, stream=True)
    for row in figures["figures_2_3_pufferlib"]["rows"]:
        yield Job("rows", "gae", (row["num_envs"], row["seq_len"]), ("rlscan", *CUDA_ROWS), ("full", "device"))
    for actions in (4, 18):
        for rows, steps in (
            (512, 128),
            (512, 512),
            (512, 2048),
            (512, 4096),
            (512, 8192),
            (64, 16384),
            (64, 32768),
            (64, 65536),
        ):
            yield Job(
                "retrace_long",
                "retrace",
                (rows, steps),
                ("rlscan", "doubling"),
                ("full", "device"),
                actions=actions,
                stream=True,
            )
    for name in SEVEN:
        for shape in ((1, 2**24), (16, 2**20), (1, 131072)):
            yield Job("long", name, shape, stream=True)
        for shape in ((4096, 24), (4096, 128), (16384, 512), (65536, 64)):
            for layout in ("NT", "TN"):
                yield Job("time_major", name, shape, layout=layout)
    yield Job("host", "gae", HEADLINE, ("rlscan", "ordinary"), ("host",))


def cost(job: Job) -> float:
    """Roughly the seconds that a job takes to prepare, to spread them evenly."""
    compiled = sum(name in ("doubling", "associative") for name in job.implementations)
    return (
        2.0
        + 0.7 * compiled * math.log2(job.shape[1])
        + math.prod(job.shape) / 4e6
        + min(job.shape[1], GATED_STEPS) / 2e4
    )


class Ready(NamedTuple):
    job: Job
    functions: dict[str, Callable[..., Any]]
    verdicts: dict[str, Verdict]


def prepare(job: Job, unguarded: Any) -> Ready:
    """Compiles every implementation and checks it on the data that it will be timed on."""
    inputs = job.inputs(0)
    makers: dict[str, Callable[[], Callable[..., Any]]] = {
        "rlscan": lambda: getattr(rlscan, job.estimator),
        "unguarded": lambda: getattr(unguarded, job.estimator),
        "ordinary": lambda: ordinary(job, inputs),
        **{name: partial(make, job.estimator) for name, make in BASELINES.items()},
        **CUDA_ROWS,
    }
    if job.layout == "NT" and job.shape[1] <= GATED_STEPS and job.dtype == "float32":
        expected = expect(job.estimator, inputs)
        admitted = {name: admit(makers[name], inputs, expected) for name in job.implementations}
    else:
        admitted = {name: admit_beside_portable(makers[name], job, inputs) for name in job.implementations}
    functions = {name: function for name, (function, _) in admitted.items() if function is not None}
    return Ready(job, functions, {name: verdict for name, (_, verdict) in admitted.items()})


def admit_beside_portable(
    make: Callable[[], Callable[..., Any]], job: Job, inputs: dict[str, Any]
) -> tuple[Callable[..., Any] | None, Verdict]:
    """The gate of the paper (a tolerance of 1e-4, wider for bfloat16), against the portable path in float64."""
    exact = {k: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for k, x in inputs.items()}
    tolerance = 1e-4 if job.dtype == "float32" else 2e-2
    try:
        function = make()
        with forced("portable"):
            wanted = as_tuple(getattr(rlscan, job.estimator)(**exact))
        for got, want in zip(as_tuple(function(**inputs)), wanted, strict=True):
            torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)
    except Exception as error:
        return None, Verdict(float("inf"), " ".join(f"{type(error).__name__}: {error}".split())[:300])
    return function, Verdict(0.0)


def ordinary(job: Job, inputs: dict[str, Any]) -> Callable[..., Any]:
    """Allocates the results and launches the same kernel through Triton's ordinary launch, and nothing else."""
    (plan,) = remembered(lambda: getattr(rlscan, job.estimator)(**inputs))
    arguments = [inputs.get(argument.name) for argument in plan.spec.arguments]
    launch, first = plan.launch, arguments[0]
    slots = tuple(arguments[source] if source >= 0 else 0 for source in launch.sources)
    kernel, warps = affine_scan_kernel[launch.grid], launch.tile.warps

    def call(**_: Any) -> Any:
        results = torch.empty_like(first), torch.empty_like(first)
        kernel(slots, results, 0, 0, *launch.constants, num_warps=warps)
        return results

    return call


def measure(ready: Ready) -> list[dict[str, Any]]:
    job = ready.job
    torch.set_grad_enabled(False)
    inputs = job.inputs(0)
    moved = bytes_moved(job.estimator, inputs)
    sets = [inputs, *(job.inputs(seed) for seed in range(1, rotation(moved, 4)))]
    described = ("section", "estimator", "truncated", "actions", "layout", "dtype")
    key = {name: getattr(job, name) for name in described}
    key |= {"num_envs": job.shape[0], "seq_len": job.shape[1], "bytes": moved}
    rows: list[dict[str, Any]] = []
    protocol = original()["protocol"]
    quick = {name: f for name, f in ready.functions.items() if name != "loop"}
    for metric in job.metrics:
        if metric == "full":
            for repeat in range(job.repeats):
                samples = time_side_by_side(quick, inputs, protocol, "cuda")
                rows += [
                    {**key, "implementation": name, "metric": metric, "repeat": repeat, "us": best(x), "samples_us": x}
                    for name, x in samples.items()
                ]
            if "loop" in ready.functions:
                (samples,) = time_side_by_side(
                    {"loop": ready.functions["loop"]}, inputs, LOOP_PROTOCOL, "cuda"
                ).values()
                rows.append(
                    {
                        **key,
                        "implementation": "loop",
                        "metric": metric,
                        "repeat": 0,
                        "us": best(samples),
                        "samples_us": samples,
                    }
                )
            continue
        for name, function in quick.items():
            calls = [partial(function, **x) for x in sets]
            row = {**key, "implementation": name, "metric": metric, "us": None, "samples_us": []}
            rows.append(row)
            try:  # what cannot be captured in a graph does not take the others' times with it
                times = device_samples(calls) if metric == "device" else host_samples(calls[0])
                row |= {"us": min(times), "samples_us": times}
            except Exception as error:
                row["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if job.stream:
        times = stream_samples(moved)
        rows.append({**key, "implementation": "stream", "metric": "device", "us": min(times), "samples_us": times})
    for name, verdict in ready.verdicts.items():
        for row in rows:
            if row["implementation"] == name:
                row["gate"] = verdict.evidence()
        if not verdict.passed:
            rows.append({**key, "implementation": name, "metric": "none", "us": None, "gate": verdict.evidence()})
    return rows


def unmeasured(wanted: list[Job], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without a time for the cells that have none at all, so that a target does not overlook them."""
    names = ("section", "estimator", "truncated", "actions", "layout", "dtype")

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return (*(row[name] for name in names), (row["num_envs"], row["seq_len"]))

    found = {key(row) for row in rows}
    blank = {"bytes": None, "us": None, "samples_us": [], "gate": {"passed": False, "error": "not measured"}}
    return [
        {**{name: getattr(job, name) for name in names}, "num_envs": job.shape[0], "seq_len": job.shape[1],
         "implementation": implementation, "metric": metric, **blank}
        for job in wanted
        if (*(getattr(job, name) for name in names), job.shape) not in found
        for metric in job.metrics
        for implementation in job.implementations
    ]  # fmt: skip


def without_guard(folder: Path) -> None:
    """A copy of the package whose ⊕ multiplies by zero instead of selecting, as `rlscan_unguarded`."""
    copy = folder / "rlscan_unguarded"
    shutil.copytree(Path(rlscan.__file__).parent, copy, ignore=shutil.ignore_patterns("verify", "__pycache__"))
    for name, guarded, unguarded in UNGUARDED:
        source = (copy / name).read_text()
        assert source.count(guarded) == 1, guarded
        (copy / name).write_text(source.replace(guarded, unguarded))


def worker(mine: list[Job], folder: str, barrier: Any, turn: Any, results: Any) -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    sys.path.insert(0, folder)
    unguarded = importlib.import_module("rlscan_unguarded")
    ready = []
    for job in mine:
        try:
            ready.append(prepare(job, unguarded))
        except Exception as error:
            results.put((job, [], f"{type(error).__name__}: {error}"))
        torch.cuda.empty_cache()
    barrier.wait()
    for one in ready:
        with turn:
            try:
                results.put((one.job, measure(one), ""))
            except Exception as error:
                results.put((one.job, [], f"{type(error).__name__}: {error}"))
            torch.cuda.empty_cache()


def run(wanted: list[Job], processes: int, seconds: float) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of all jobs, and what went wrong."""
    context = multiprocessing.get_context("spawn")
    barrier, turn, results = context.Barrier(processes), context.Lock(), context.Queue()
    shares: list[list[Job]] = [[] for _ in range(processes)]
    for job in sorted(wanted, key=cost, reverse=True):
        min(shares, key=lambda share: sum(map(cost, share))).append(job)
    start = time.perf_counter()
    rows: list[dict[str, Any]] = []
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        without_guard(Path(folder))
        workers = [context.Process(target=worker, args=(share, folder, barrier, turn, results)) for share in shares]
        for process in workers:
            process.start()
        for number in range(len(wanted)):
            try:
                job, found, error = results.get(timeout=max(1.0, seconds - (time.perf_counter() - start)))
            except Exception:
                errors.append(f"out of time: {len(wanted) - number} of {len(wanted)} cells not measured")
                break
            rows += found
            if error:
                errors.append(f"{job}: {error}"[:500])
            if number % 25 == 0:
                print(f"[{number + 1}/{len(wanted)}] {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        for process in workers:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
    return rows, errors


def judge(folder: Path, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Writes targets.json and prints it."""
    targets = evaluate(rows)
    (folder / "targets.json").write_text(json.dumps({**head, "targets": targets}, indent=1, ensure_ascii=False) + "\n")
    for name, target in targets.items():
        missed = f"; {len(target['missed'])} of {target['cells']} cells miss" if target["missed"] else ""
        verdict = "met   " if target["met"] else "MISSED"
        print(f"{verdict} {name:<24} {target['value']} ({target['worst']}) target {target['target']}{missed}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m paper.targets", description="Measure the speed targets on this GPU."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for targets.json and targets_rows.json")
    parser.add_argument("--sections", help="comma-separated: only these")
    parser.add_argument("--shape", help="only this one, as in 4096x128")
    parser.add_argument("--jobs", type=int, default=14, help="processes that compile")
    parser.add_argument("--seconds", type=float, default=DEADLINE, help="stop after so many")
    parser.add_argument("--judge", action="store_true", help="measure nothing: judge the rows that FOLDER has anew")
    args = parser.parse_args(argv)
    if args.judge:
        head = json.loads((args.out / "targets_rows.json").read_text())
        rows = head.pop("rows")
        judge(args.out, head, rows)
        return 0
    if not torch.cuda.is_available():
        parser.error("the targets need a CUDA GPU and none is available")
    sections = args.sections.split(",") if args.sections else None
    wanted = [
        job
        for job in jobs()
        if (sections is None or job.section in sections) and args.shape in (None, f"{job.shape[0]}x{job.shape[1]}")
    ]
    rows, errors = run(wanted, args.jobs, args.seconds)
    rows += unmeasured(wanted, rows)
    head = {**environment("cuda"), "seed": 0, "protocol": original()["protocol"], "errors": errors}
    write({**head, "rows": rows}, args.out / "targets_rows.json")
    for error in errors:
        print(error, file=sys.stderr)
    judge(args.out, head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
