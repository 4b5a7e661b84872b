"""What credit assignment is worth in a whole update, and beyond RL: `python -m paper.end_to_end --part PART`.

    synthetic   Table 5: a PPO update on random data, by the loop, by the compiled doubling scan and by rlscan
    learning    PPO that learns, rlscan against the loop in the same seeds, and truncation treated as termination
    llm         GAE over the tokens of ragged responses
    spiking     backpropagation through time of spiking neurons with a hard reset

Results are checked before they are timed. The result (--out FILE) is written cell by cell, so a run that is stopped
loses nothing that was measured; with --resume it goes on. On a CPU the sizes are small. `python -m paper.render` prints
what was measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from paper.bench import IMPLEMENTATIONS, PAPER, device_name, original, results_folder, rollout, time_side_by_side
from paper.examples import ppo
from paper.gate import admit, expect
from paper.keeping import write
from paper.timing import laps
from rlscan.verify.environment import environment

Row = dict[str, Any]
NAMES = {"cuda": ("rlscan", "doubling", "loop"), "cpu": ("rlscan", "loop")}  # on a CPU nothing is compiled
OBSERVATION, ACTIONS = 64, 8  # of the synthetic update; the paper does not give its own


class Cell(NamedTuple):
    """One piece of a part: what names its rows, and how they are measured."""

    key: Row
    measure: Callable[[], list[Row]]


class Part(NamedTuple):
    file: str
    title: str
    protocol: Row
    cells: Callable[[str, int, Row], Iterator[Cell]]  # of a device, a seed and the protocol


# Table 5


SHAPES = {
    "cuda": [(row["hidden"], row["num_envs"], row["seq_len"]) for row in original()["table5"]],
    "cpu": [([64, 64], 64, 32), ([16, 16], 256, 32)],
}
SYNTHETIC = {
    "observation_size": OBSERVATION,
    "actions": ACTIONS,
    "epochs": 4,
    "minibatches": 4,
    "dtype": "float32",
    "matmul_precision": torch.get_float32_matmul_precision(),
    "network": "one trunk of tanh layers, a head for the policy and one for the value; Adam",
    "update": "values of the window, credit assignment, then the epochs; the rollout itself is not part of it",
    "warmup_updates": 1,
    "trials": 5,
    "updates_per_trial": 2,
    "timer": original()["protocol"]["timer"],
    "alone": original()["protocol"],
}


class SyntheticUpdate:
    """One PPO update on a window of random data, [N, T], with a given GAE."""

    def __init__(self, hidden: list[int], num_envs: int, seq_len: int, *, seed: int, device: str) -> None:
        self.settings = ppo.Settings(epochs=SYNTHETIC["epochs"], minibatches=SYNTHETIC["minibatches"])
        self.inputs = rollout("gae", False, num_envs, seq_len, seed=seed, device=device)
        self.generator = torch.Generator(device).manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = ppo.Network(OBSERVATION, ACTIONS, tuple(hidden)).to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4, fused=True)
        normal = partial(torch.randn, generator=self.generator, device=device)
        self.observations = normal(num_envs, seq_len, OBSERVATION)
        self.last_observations = normal(num_envs, OBSERVATION)
        shape = (num_envs, seq_len)
        self.actions = torch.randint(ACTIONS, shape, generator=self.generator, device=device)
        self.log_probs = torch.full(shape, -math.log(ACTIONS), device=device)
        self.evaluate()

    @torch.no_grad()
    def evaluate(self) -> None:
        self.inputs["values"] = self.network(self.observations)[1]
        self.inputs["last_values"] = self.network(self.last_observations)[1]

    def __call__(self, gae: Callable[..., Any], mark: Callable[[], Any]) -> None:
        self.evaluate()
        mark()
        with torch.no_grad():
            advantages, returns = gae(**self.inputs)
        mark()
        window = (self.observations, self.actions, self.log_probs, advantages, returns)
        batch = ppo.Batch(*(x.flatten(0, 1) for x in window))
        ppo.optimise(self.network, self.optimizer, batch, self.settings, self.generator)


def synthetic(device: str, seed: int, protocol: Row) -> Iterator[Cell]:
    for hidden, num_envs, seq_len in SHAPES[device]:
        key = {"hidden": hidden, "num_envs": num_envs, "seq_len": seq_len}
        yield Cell(key, partial(measure_update, key, device, seed, protocol))


def measure_update(key: Row, device: str, seed: int, protocol: Row) -> list[Row]:
    """Credit assignment alone, then whole updates, turn by turn."""
    update = SyntheticUpdate(**key, seed=seed, device=device)
    expected = expect("gae", update.inputs)
    with torch.no_grad():
        admitted = {
            name: admit(partial(IMPLEMENTATIONS[name], "gae"), update.inputs, expected) for name in NAMES[device]
        }
        right = {name: function for name, (function, _) in admitted.items() if function is not None}
        alone = time_side_by_side(right, update.inputs, protocol["alone"], device)
    measure = laps(device)
    samples: dict[str, list[list[list[float]]]] = {name: [] for name in right}
    for gae in right.values():
        for _ in range(protocol["warmup_updates"]):
            measure(partial(update, gae))
    gc.collect()
    gc.disable()
    try:
        for _ in range(protocol["trials"]):
            for name, gae in right.items():
                trial = [measure(partial(update, gae)) for _ in range(protocol["updates_per_trial"])]
                samples[name].append([[round(lap, 1) for lap in found] for found in trial])
    finally:
        gc.enable()
    return [
        {**key, "implementation": name, "gate": verdict.evidence(), "alone_us": alone.get(name, []),
         "values_credit_epochs_us": samples.get(name, [])}
        for name, (_, verdict) in admitted.items()
    ]  # fmt: skip


# The runner


def parts() -> dict[str, Part]:
    from paper import beyond, learning  # they take what stands above

    return {
        "synthetic": Part("table5", "Table 5: a synthetic PPO update", SYNTHETIC, synthetic),
        "learning": Part("learning", "PPO that learns", learning.PROTOCOL, learning.cells),
        "llm": Part("llm", "Beyond RL: GAE over tokens", beyond.LLM, beyond.llm),
        "spiking": Part("spiking", "Beyond RL: spiking neurons", beyond.SPIKING, beyond.spiking_cells),
    }


def run(
    part: Part, name: str, device: str, seed: int, protocol: Row, out: Path | None, resume: bool, beside: str = ""
) -> Row:
    """Measures the cells that are missing, and writes after each."""
    head: Row = {"part": name, "label": part.title, **environment(device), "device": device_name(device), "seed": seed}
    head["protocol"] = json.loads(json.dumps(protocol))
    if beside:
        head["beside"] = beside
    result = {**head, "rows": []}
    if resume and out is not None and out.exists():
        old = json.loads(out.read_text())
        same = ("part", "device", "versions", "commit", "seed", "protocol")
        if all(old[field] == result[field] for field in same):
            result = old
    start = time.perf_counter()
    for cell in part.cells(device, seed, protocol):
        words = ", ".join(f"{k} {v}" for k, v in cell.key.items())
        if any(all(row[k] == v for k, v in json.loads(json.dumps(cell.key)).items()) for row in result["rows"]):
            print(f"kept: {words}", file=sys.stderr, flush=True)
            continue
        rows = cell.measure()
        result["rows"] += rows
        if out is not None:
            write(result, out)
        failed = "".join(
            f"; {row.get('implementation')} FAILED {row['gate']}" for row in rows if not row["gate"]["passed"]
        )
        print(f"{time.perf_counter() - start:6.1f} s  {words}{failed}", file=sys.stderr, flush=True)
        if device == "cuda":
            torch.cuda.empty_cache()
    return result


def main(argv: list[str] | None = None) -> int:
    known = parts()
    parser = argparse.ArgumentParser(prog="python -m paper.end_to_end", description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=list(known), required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], help="default: the GPU if there is one")
    parser.add_argument("--out", type=Path, help="default: paper/results/<device>/<part's file>.json; none for --quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, help="how many seeds learn, from --seed on (default 3; on a CPU 1)")
    parser.add_argument("--beside", default="", help="what else runs on this machine meanwhile, for the page")
    parser.add_argument("--quick", action="store_true", help="the least that runs: shows that it runs, not how fast")
    parser.add_argument("--resume", action="store_true", help="keep the cells that FILE has from this very commit")
    args = parser.parse_args(argv)
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda needs a CUDA GPU and none is available")
    part = known[args.part]
    protocol = {**part.protocol, "timer": part.protocol["timer"] if device == "cuda" else "time.perf_counter"}
    protocol["correctness_gate"] = "float64 reference on this very data, before any timing"
    if args.quick:
        protocol |= {
            "quick": True,
            "trials": 1,
            "updates_per_trial": 1,
            "alone": {**original()["protocol"], "warmup_calls": 1, "iterations_per_trial": 2, "trials": 1},
        }
    if args.seeds is not None:
        protocol["seeds"] = {device: args.seeds}
    default = PAPER / "results" / results_folder(device) / f"{part.file}.json"
    out = args.out or (None if args.quick else default)
    result = run(part, args.part, device, args.seed, protocol, out, args.resume, args.beside)
    if out is not None:
        print(out)
    failed = [row for row in result["rows"] if not row["gate"]["passed"]]
    if failed:
        print(f"{len(failed)} of {len(result['rows'])} rows failed the gate", file=sys.stderr)
    return 1 if failed or not result["rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
