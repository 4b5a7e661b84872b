"""Made-up measurements of every cell of paper/targets.py, plausible in size: for the tests of verdicts and page."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paper.bench import original
from paper.jobs import Job, jobs

BYTES = {"gae": 17, "vtrace": 21, "retrace": 49, "td_lambda": 13, "discounted_returns": 9, "eligibility_traces": 9,
         "prefix_sum": 9}  # fmt: skip
STREAM = 4.3e6  # bytes a µs
LAUNCH = 15.0  # µs
HEAD = {
    "device": {"type": "cuda", "name": "Test GPU", "multiprocessors": 132, "memory_gib": 139.0},
    "versions": {"python": "3.12", "rlscan": "0", "torch": "2", "triton": "3", "cuda": "13", "numpy": "2"},
    "commit": "0123456789abcdef",
    "dirty": False,
    "date": "2026-01-01T00:00:00+00:00",
    "seed": 7,
    "protocol": original()["protocol"],
    "errors": [],
}  # fmt: skip


def device_us(job: Job, implementation: str, moved: int) -> float:
    stream = 2.0 + moved / STREAM
    steps = job.shape[1]
    return {
        "rlscan": 1.1 * stream * (1.2 if job.layout == "TN" else 1.0),
        "unguarded": 1.09 * stream,
        "doubling": 2.0 + (1 + math.log2(steps)) * 0.5 * stream,
        "associative": 2.5 * stream,
        "cuda_rows": 3.0 + 0.45 * steps,
        "cuda_rows_prepared": 3.0 + 0.45 * steps,
        "ordinary": stream,
        "stream": stream,
    }.get(implementation, 30.0 * steps)


def full_us(job: Job, implementation: str, moved: int) -> float:
    host = {"rlscan": 0.0, "doubling": 80.0, "associative": 55.0, "cuda_rows": 6.0, "cuda_rows_prepared": -1.0}
    return LAUNCH + host.get(implementation, 0.0) + device_us(job, implementation, moved)


def cell(job: Job) -> Iterator[dict[str, Any]]:
    """What one job would give, where PufferLib is not installed."""
    job = job.without(["pufferlib"])
    width = 2 if job.dtype == "bfloat16" else 4
    a_step = BYTES[job.estimator] + 8 * (job.actions - 4) * (job.estimator == "retrace") + 5 * job.truncated
    moved = math.prod(job.shape) * a_step * width // 4
    key = {name: getattr(job, name) for name in ("section", "estimator", "truncated", "actions", "layout", "dtype")}
    key |= {"num_envs": job.shape[0], "seq_len": job.shape[1], "bytes": moved}
    gate = {"gate": {"passed": True, "share_of_bound": 0.01}}
    for metric in job.metrics:
        for name in job.implementations:
            if metric == "host":
                us = 9.0 if name == "rlscan" else 20.0
                yield {**key, "implementation": name, "metric": metric, "us": us, "samples_us": [us], **gate}
            elif metric == "full":
                us = round(full_us(job, name, moved), 3)
                for repeat in range(1 if name == "loop" else job.repeats):
                    row = {**key, "implementation": name, "metric": metric, "repeat": repeat, "us": us}
                    yield {**row, "samples_us": [[us]], **gate}
            elif name != "loop":
                us = round(device_us(job, name, moved), 4)
                yield {**key, "implementation": name, "metric": metric, "us": us, "samples_us": [us], **gate}
    if job.stream:
        us = round(device_us(job, "stream", moved), 4)
        yield {**key, "implementation": "stream", "metric": "device", "us": us, "samples_us": [us]}


def rows() -> list[dict[str, Any]]:
    return [row for job in jobs() for row in cell(job)]


def refuse(rows: list[dict[str, Any]], implementation: str, **where: Any) -> list[dict[str, Any]]:
    """The rows as they are when the gate refuses an implementation in the cells of `where`."""

    def hit(row: dict[str, Any]) -> bool:
        return row["implementation"] == implementation and all(row[k] == v for k, v in where.items())

    gate = {"passed": False, "error": "too far off"}
    refused = {
        json.dumps({k: v for k, v in row.items() if k not in ("repeat", "samples_us", "gate", "us", "metric")}): row
        for row in filter(hit, rows)
    }
    left = [row for row in rows if not hit(row)]
    for row in refused.values():
        found = {k: v for k, v in row.items() if k not in ("repeat", "samples_us")}
        left.append({**found, "metric": "none", "us": None, "gate": gate})
    return left


def write(root: Path, rows: list[dict[str, Any]], targets: dict[str, Any], folder: str = "test-gpu") -> None:
    """A checkout at `root` with these results."""
    results = root / "paper" / "results" / folder
    results.mkdir(parents=True, exist_ok=True)
    (results / "targets_rows.json").write_text(json.dumps({**HEAD, "rows": rows}))
    (results / "targets.json").write_text(json.dumps({**HEAD, "targets": targets}))
