"""The runner: `python -m paper.bench --table table3`.

Checks every implementation on the very data, times those that are right, then writes the raw samples to
paper/results/<device>/<table>.json. The protocol is the paper's (original.json).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paper.baselines import BASELINES, TRUNCATES
from paper.gate import admit, expect
from paper.timing import timer
from rlscan.verify.environment import environment

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAPER = Path(__file__).parent
RETRACE_ACTIONS = 4
QUICK = {"warmup_calls": 2, "iterations_per_trial": 5, "trials": 2}

Inputs = dict[str, Any]
Implementation = Callable[..., Any]


def original() -> dict[str, Any]:
    """The paper's own figures and protocol."""
    figures: dict[str, Any] = json.loads((PAPER / "original.json").read_text())
    return figures


def tables() -> dict[str, Any]:
    return tomllib.loads((PAPER / "tables.toml").read_text())


def rlscan_function(estimator: str) -> Implementation:
    import rlscan

    function: Implementation = getattr(rlscan, estimator)
    return function


IMPLEMENTATIONS: dict[str, Callable[[str], Implementation]] = {"rlscan": rlscan_function, **BASELINES}


def rollout(
    estimator: str, truncated: bool, num_envs: int, seq_len: int, *, seed: int = 0, device: str = "cpu",
    dtype: torch.dtype = torch.float32, actions: int = RETRACE_ACTIONS, layout: str = "NT",
) -> Inputs:  # fmt: skip
    """Random arguments of one call: what a user would pass to rlscan.<estimator>, in the layout [N, T] or [T, N]."""
    protocol = original()["protocol"]
    generator = torch.Generator(device).manual_seed(seed)
    shape = (num_envs, seq_len) if layout == "NT" else (seq_len, num_envs)

    def normal(*trailing: int) -> Tensor:
        return torch.randn(*shape, *trailing, generator=generator, device=device).to(dtype)

    def flags(probability: float) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device) < probability

    ends = flags(protocol["termination_probability"])
    gamma, lambda_ = protocol["gamma"], protocol["lambda"]
    inputs: Inputs = {} if layout == "NT" else {"time_dim": 0}
    if estimator in ("prefix_sum", "eligibility_traces"):
        inputs |= {"inputs": normal(), "ends": ends}
        if estimator == "eligibility_traces":
            inputs |= {"gamma": gamma, "lambda_": protocol["lambda_eligibility"]}
        return inputs

    inputs |= {"rewards": normal(), "terminated": ends, "gamma": gamma}
    if estimator != "discounted_returns":
        inputs["lambda_"] = lambda_
    if estimator in ("gae", "vtrace", "td_lambda"):
        inputs["values"] = normal()
    if estimator in ("vtrace", "retrace"):
        inputs["log_ratios"] = 0.5 * normal()
    if estimator == "retrace":
        inputs["q_values"] = normal()
        inputs["next_q_values"] = normal(actions)
        inputs["next_policy"] = normal(actions).softmax(dim=-1)
    else:
        inputs["last_values"] = torch.randn(num_envs, generator=generator, device=device).to(dtype)
    if truncated:
        inputs["truncated"] = flags(protocol["truncation_probability_in_truncated_tables"])
        if estimator != "retrace":  # its next_q_values already are those of s_{t+1}
            inputs["truncation_values"] = normal()
    return inputs


def bytes_moved(estimator: str, inputs: Inputs) -> int:
    """What one call has to read and to write, each byte once."""
    tensors = [x for x in inputs.values() if isinstance(x, Tensor)]
    first = tensors[0]
    results = 2 if estimator in ("gae", "vtrace") else 1
    return sum(x.numel() * x.element_size() for x in tensors) + results * first.numel() * first.element_size()


def time_side_by_side(
    implementations: dict[str, Implementation], inputs: Inputs, protocol: dict[str, Any], device: str
) -> dict[str, list[list[float]]]:
    """Samples of every trial. Implementations take turns, trial by trial, so that a ratio compares like with like."""
    measure = timer(device)
    calls = {name: partial(function, **inputs) for name, function in implementations.items()}
    samples: dict[str, list[list[float]]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(protocol["warmup_calls"]):
            call()
    gc.collect()
    gc.disable()
    try:
        for _ in range(protocol["trials"]):
            for name, call in calls.items():
                trial = [round(measure(call), 3) for _ in range(protocol["iterations_per_trial"])]
                samples[name].append(trial)
    finally:
        gc.enable()
    return samples


def best(samples: list[list[float]]) -> float | None:
    """The protocol's estimator: the minimum over trials of the per-trial median."""
    return round(min(map(statistics.median, samples)), 3) if samples else None


def measure_cell(
    estimator: str, truncated: bool, shape: tuple[int, int], names: list[str], protocol: dict[str, Any], device: str,
    seed: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of one estimator at one shape: gate, then time what passed."""
    inputs = rollout(estimator, truncated, *shape, seed=seed, device=device)
    expected = expect(estimator, inputs)
    admitted = {name: admit(partial(IMPLEMENTATIONS[name], estimator), inputs, expected) for name in names}
    right = {name: function for name, (function, _) in admitted.items() if function is not None}
    samples = time_side_by_side(right, inputs, protocol, device)
    key = {"estimator": estimator, "truncated": truncated, "num_envs": shape[0], "seq_len": shape[1]}
    return [
        {**key, "implementation": name, "best_us": best(samples.get(name, [])), "gate": verdict.evidence(),
         "samples_us": samples.get(name, [])}
        for name, (_, verdict) in admitted.items()
    ]  # fmt: skip


def run_table(name: str, device: str, protocol: dict[str, Any], seed: int) -> dict[str, Any]:
    """Measure one block of tables.toml."""
    table = tables()[name]
    torch.set_num_threads(table.get("threads", torch.get_num_threads()))
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for shape in table["shapes"]:
            for estimator in table["estimators"]:
                for truncated in (False, True) if estimator in TRUNCATES else (False,):
                    cell = measure_cell(
                        estimator, truncated, tuple(shape), table["implementations"], protocol, device, seed
                    )
                    rows += cell
                    print(progress(cell), file=sys.stderr, flush=True)
    empty_call = [[round(timer(device)(lambda: None), 3) for _ in range(protocol["iterations_per_trial"])]]
    return {
        "table": name,
        "label": table["label"],
        **environment(device),
        "device": device_name(device),
        "seed": seed,
        "protocol": protocol,
        "empty_call_us": best(empty_call),
        "rows": rows,
    }


def progress(cell: list[dict[str, Any]]) -> str:
    def cell_text(row: dict[str, Any]) -> str:
        time_text = f"{row['best_us']:.1f} µs" if row["gate"]["passed"] else f"FAILED {row['gate']}"
        return f"{row['implementation']} {time_text}"

    row = cell[0]
    kind = "truncated" if row["truncated"] else "plain"
    return f"{row['estimator']:<20}{kind:<11}" + "   ".join(map(cell_text, cell))


def device_name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"CPU {model}, {torch.get_num_threads()} of {os.cpu_count()} threads"


def write(result: dict[str, Any], path: Path, many: str = "rows") -> None:
    """One of the `many` a line, so that a diff shows which row moved."""
    head = json.dumps({k: v for k, v in result.items() if k != many}, indent=1, ensure_ascii=False)
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in result[many])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head[:-2]},\n "{many}": [\n  {rows}\n ]\n}}\n')


def results_folder(device: str) -> str:
    return (
        "cpu"
        if device == "cpu"
        else torch.cuda.get_device_name().lower().replace("nvidia", "").strip().replace(" ", "-")
    )


def main(argv: list[str] | None = None) -> int:
    blocks = tables()
    parser = argparse.ArgumentParser(
        prog="python -m paper.bench", description="Measure one table of paper/tables.toml."
    )
    parser.add_argument("--table", choices=list(blocks), required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], help="default: the table's own")
    parser.add_argument("--out", type=Path, help="default: paper/results/<device>/<table>.json; none for --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few calls: shows that it runs, not how fast")
    args = parser.parse_args(argv)

    block = blocks[args.table]
    device = args.device or block["device"]
    if device == "cuda" and not torch.cuda.is_available():
        parser.error(f"{args.table} needs a CUDA GPU and none is available")
    protocol = {**original()["protocol"], **block.get("protocol", {}), **(QUICK if args.quick else {})}
    protocol["timer"] = "time.perf_counter around the full call" if device == "cpu" else protocol["timer"]
    protocol["correctness_gate"] = "float64 reference on this very data, before any timing"
    result = run_table(args.table, device, protocol, args.seed)

    out = args.out or (None if args.quick else PAPER / "results" / results_folder(device) / f"{args.table}.json")
    if out is not None:
        write(result, out)
        print(out)
    failed = [row for row in result["rows"] if not row["gate"]["passed"]]
    if failed:
        print(f"{len(failed)} of {len(result['rows'])} rows failed the gate and were not timed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
