"""The speed targets: `python -m paper.targets --out FOLDER` measures them all in one run on one GPU.

Writes targets.json (a value, a target and whether it is met, by name) and targets_rows.json (every cell, with raw
samples). Processes first compile and check side by side, each its own cells; then, all idle, one at a time measures. So
what is compared is measured in one process, one after the other, on the same data.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import queue
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import rlscan
from paper import split
from paper.baselines import BASELINES
from paper.bench import TURN, Trial, best, bytes_moved, original, time_side_by_side
from paper.cuda_rows import CUDA_ROWS
from paper.gate import GATE, Expected, Verdict, admit, expect
from paper.jobs import GATED_STEPS, KEY, Job, cost, jobs
from paper.keeping import write
from paper.libraries import PUFFERLIB, absent
from paper.timing import device_samples, host_pace, host_samples, rotation, stream_samples
from paper.unguarded import without_guard
from paper.verdicts import ROWS, evaluate, wholes
from rlscan.engine import forced
from rlscan.engine.kernel import affine_scan_kernel
from rlscan.engine.plan import remembered
from rlscan.verify.compare import as_tuple
from rlscan.verify.environment import environment

LOOP_PROTOCOL = {"warmup_calls": 0, "iterations_per_trial": 1, "trials": 2}  # hundreds of milliseconds a call
DEADLINE = 1200.0
SLOWER = 1.15  # times the host's own pace: a trial beside which it was slower is measured again
PAUSE = 0.05  # seconds before that
MOST_SETS = 4  # of inputs, over which a device time rotates, and that of the stream


class Ready(NamedTuple):
    job: Job
    functions: dict[str, Callable[..., Any]]
    verdicts: dict[str, Verdict]


def prepare(job: Job, unguarded: Any) -> Ready:
    """Compiles every implementation and checks it on the data that it will be timed on."""
    inputs = job.inputs()
    makers: dict[str, Callable[[], Callable[..., Any]]] = {
        "rlscan": lambda: getattr(rlscan, job.estimator),
        "unguarded": lambda: getattr(unguarded, job.estimator),
        "ordinary": lambda: ordinary(job, inputs),
        **{name: partial(make, job.estimator) for name, make in BASELINES.items()},
        **CUDA_ROWS,
        **PUFFERLIB,
    }
    if job.layout == "NT" and job.shape[1] <= GATED_STEPS and job.dtype == "float32":
        expected = expect(job.estimator, inputs)
        # PufferLib computes advantages alone
        alone = Expected(expected.values[:1], expected.bounds[:1])
        admitted = {
            name: admit(makers[name], inputs, alone if name in PUFFERLIB else expected) for name in job.implementations
        }
    else:
        admitted = {name: admit_beside_portable(makers[name], job, inputs) for name in job.implementations}
    functions = {name: function for name, (function, _) in admitted.items() if function is not None}
    return Ready(job, functions, {name: verdict for name, (_, verdict) in admitted.items()})


def admit_beside_portable(
    make: Callable[[], Callable[..., Any]], job: Job, inputs: dict[str, Any]
) -> tuple[Callable[..., Any] | None, Verdict]:
    """The paper's tolerance (1e-4, wider for bfloat16), against the portable path in float64."""
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


class Steady:
    """Measures a trial again if the host was slower, just before or just after, than at its own pace.

    That is the least that a fixed piece of its work took so far; nothing else decides. No sample is lost:
    `disturbed` has those of trials that were measured again. After `patience` of them, trials are taken as they are.
    """

    def __init__(self, own: Any, patience: int) -> None:
        self.own, self.patience = own, patience  # `own.value` is shared by all processes
        self.disturbed: list[dict[str, Any]] = []

    def pace(self) -> float:
        pace = host_pace()
        self.own.value = min(self.own.value, pace)
        return pace

    def __call__(self, trial: Callable[[], Trial]) -> Trial:
        while self.patience:
            before = self.pace()
            samples = trial()
            pace = max(before, self.pace()) / self.own.value
            if pace <= SLOWER:
                return samples
            self.patience -= 1
            self.disturbed.append({"pace": round(pace, 3), "samples_us": samples})
            time.sleep(PAUSE)
        return trial()


def measure(ready: Ready, own_pace: Any) -> list[dict[str, Any]]:
    """The rows of a cell. `own_pace.value` is the host's own pace, as far as known."""
    job = ready.job
    torch.set_grad_enabled(False)
    inputs = job.inputs()
    moved = bytes_moved(job.estimator, inputs)
    sets = [inputs, *(job.inputs(turn) for turn in range(1, rotation(moved, MOST_SETS)))]
    key = {**job.key, "bytes": moved}
    rows: list[dict[str, Any]] = []
    protocol = original()["protocol"]
    quick = {name: f for name, f in ready.functions.items() if name != "loop"}
    for metric in job.metrics:
        if metric == "full":
            steady = Steady(own_pace, job.patience)
            for repeat in range(job.repeats):
                samples = time_side_by_side(quick, inputs, protocol, "cuda", steady)
                disturbed, steady.disturbed = steady.disturbed, []
                for name, x in samples.items():
                    row = {**key, "implementation": name, "metric": metric, "repeat": repeat, "us": best(x)}
                    again = [{**one, "samples_us": one["samples_us"][name]} for one in disturbed]
                    rows.append({**row, "samples_us": x, **({"disturbed": again} if again else {})})
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
            if name in PUFFERLIB and metric == "device":
                row["error"] = "launches on the default stream, which a CUDA graph does not capture"
                continue
            try:  # what cannot be captured in a graph does not take the others' times with it
                times = device_samples(calls) if metric == "device" else host_samples(calls[0])
                row |= {"us": min(times), "samples_us": times}
            except Exception as error:
                row["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if job.stream:
        times = stream_samples(moved, len(sets))
        rows.append({**key, "implementation": "stream", "metric": "device", "us": min(times), "samples_us": times})
    for name, verdict in ready.verdicts.items():
        for row in rows:
            if row["implementation"] == name:
                row["gate"] = verdict.evidence()
        if not verdict.passed:
            rows.append({**key, "implementation": name, "metric": "none", "us": None, "gate": verdict.evidence()})
    return rows


def blank(job: Job, reason: str) -> list[dict[str, Any]]:
    """The rows of a cell that has no time."""
    blank = {"bytes": None, "us": None, "samples_us": [], "gate": {"passed": False, "error": reason}}
    return [
        {**job.key, "implementation": implementation, "metric": metric, **blank}
        for metric in job.metrics
        for implementation in job.implementations
    ]


def unmeasured(wanted: list[Job], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without a time for the cells that have none at all, so that a target does not overlook them."""
    names = (*KEY, "num_envs", "seq_len")
    found = {tuple(row[name] for name in names) for row in rows}
    left = [job for job in wanted if tuple(job.key.values()) not in found]
    return [row for job in left for row in blank(job, "not measured")]


def worker(mine: list[Job], folder: str, barrier: Any, turn: Any, own_pace: Any, results: Any) -> None:
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
                results.put((one.job, measure(one, own_pace), ""))
            except Exception as error:
                results.put((one.job, [], f"{type(error).__name__}: {error}"))
            torch.cuda.empty_cache()


def run(
    wanted: list[Job], processes: int, seconds: float, tell: Callable[[Job, list[dict[str, Any]]], None] | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of all jobs, and what went wrong. `tell` gets those of each cell as soon as they are there."""
    context = multiprocessing.get_context("spawn")
    barrier, turn, results = context.Barrier(processes), context.Lock(), context.Queue()
    own_pace = context.Value("d", min(host_pace() for _ in range(100)))
    shares: list[list[Job]] = [[] for _ in range(processes)]
    for job in sorted(wanted, key=cost, reverse=True):
        min(shares, key=lambda share: sum(map(cost, share))).append(job)
    start = time.perf_counter()
    rows: list[dict[str, Any]] = []
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        without_guard(Path(folder))
        workers = [
            context.Process(target=worker, args=(share, folder, barrier, turn, own_pace, results)) for share in shares
        ]
        try:
            for process in workers:
                process.start()
            for number in range(len(wanted)):
                try:
                    job, found, error = results.get(timeout=max(1.0, seconds - (time.perf_counter() - start)))
                except queue.Empty:
                    errors.append(f"out of time: {len(wanted) - number} of {len(wanted)} cells not measured")
                    break
                rows += found
                if error:
                    errors.append(f"{job}: {error}"[:500])
                if tell:
                    tell(job, blank(job, error[:300]) if error else found)
                if number % 25 == 0:
                    seen = f"[{number + 1}/{len(wanted)}] {time.perf_counter() - start:.0f} s"
                    print(seen, file=sys.stderr, flush=True)
        finally:
            for process in workers:
                process.join(timeout=5)
                if process.is_alive():
                    process.terminate()
    return rows, errors


def judge(folder: Path, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Writes targets.json and prints it."""
    targets = evaluate(rows)
    found = {**head, "targets": {**targets, **wholes(targets)}}
    (folder / "targets.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
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
        head = split.load(args.out / ROWS)
        rows = head.pop("rows")
        judge(args.out, {name: x for name, x in head.items() if name not in ("tables", "apart")}, rows)
        return 0
    if not torch.cuda.is_available():
        parser.error("the targets need a CUDA GPU and none is available")
    sections = args.sections.split(",") if args.sections else None
    wanted = [
        job
        for job in jobs()
        if (sections is None or job.section in sections) and args.shape in (None, f"{job.shape[0]}x{job.shape[1]}")
    ]
    lacking = {
        name: why for name in sorted({n for job in wanted for n in job.implementations}) if (why := absent(name))
    }
    for name, why in lacking.items():
        print(f"without {name}: {why}", file=sys.stderr)
    wanted = [job.without(lacking) for job in wanted]
    rows, errors = run(wanted, args.jobs, args.seconds)
    rows += unmeasured(wanted, rows)
    protocol = {**original()["protocol"], "correctness_gate": GATE, "calls_in_turn": TURN, "most_sets": MOST_SETS}
    head = {**environment("cuda"), "seed": 0, "protocol": protocol, "not_run": lacking}
    head["errors"] = errors
    write({**head, "rows": rows}, args.out / ROWS)
    for error in errors:
        print(error, file=sys.stderr)
    judge(args.out, head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
