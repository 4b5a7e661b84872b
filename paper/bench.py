"""One cell of a table: a rollout, every implementation checked on it, and those that are right timed.

The protocol is the paper's (original.json). paper/tables.py runs whole tables.
"""

from __future__ import annotations

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

from paper.baselines import BASELINES
from paper.gate import admit, expect
from paper.timing import timer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAPER = Path(__file__).parent
RETRACE_ACTIONS = 4
QUICK = {"warmup_calls": 2, "iterations_per_trial": 5, "trials": 2}

Inputs = dict[str, Any]
Implementation = Callable[..., Any]
Trial = dict[str, list[float]]  # microseconds of every call, by implementation

TURN = 10  # calls in a row of one implementation


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
    implementations: dict[str, Implementation],
    inputs: Inputs,
    protocol: dict[str, Any],
    device: str,
    around: Callable[[Callable[[], Trial]], Trial] = lambda trial: trial(),
) -> dict[str, list[list[float]]]:
    """Samples of every trial. In it implementations take turns, `TURN` calls each, so that a ratio compares like with
    like even while the host's speed changes. `around` measures a trial, and may do so more than once.
    """
    measure = timer(device)
    calls = {name: partial(function, **inputs) for name, function in implementations.items()}
    for call in calls.values():
        for _ in range(protocol["warmup_calls"]):
            call()

    def trial() -> Trial:
        samples: Trial = {name: [] for name in calls}
        for left in range(protocol["iterations_per_trial"], 0, -TURN):
            for name, call in calls.items():
                samples[name] += [round(measure(call), 3) for _ in range(min(left, TURN))]
        return samples

    gc.collect()
    gc.disable()
    try:
        trials = [around(trial) for _ in range(protocol["trials"])]
    finally:
        gc.enable()
    return {name: [samples[name] for samples in trials] for name in calls}


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


def device_name(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"CPU {model}, {torch.get_num_threads()} of {os.cpu_count()} threads"


def results_folder(device: str) -> str:
    return (
        "cpu"
        if device == "cpu"
        else torch.cuda.get_device_name().lower().replace("nvidia", "").strip().replace(" ", "-")
    )
