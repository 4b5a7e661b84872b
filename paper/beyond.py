"""Beyond RL: GAE over the tokens of ragged responses, and backpropagation through time of spiking neurons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

import rlscan
from paper.baselines import Recurrence, as_they_are, compiled, doubling_scan, loop_scan, only
from paper.bench import IMPLEMENTATIONS, bytes_moved, original, time_side_by_side
from paper.end_to_end import NAMES, Cell, Row
from paper.examples import spiking, token_gae
from paper.gate import Expected, Verdict, admit, check, expect
from paper.targets import LOOP_PROTOCOL, Job, admit_beside_portable
from paper.timing import device_samples, rotation, stream_samples
from rlscan.verify.tolerance import UNIT

REFERENCE_STEPS = 2**20  # more than so many in a batch: the reference, a loop in NumPy, checks rows of it
TOKENS = {
    "cuda": [(n, t) for t in (8192, 16384, 32768) for n in (64, 256, 1024)],
    "cpu": [(8, 1024), (16, 2048)],
}
LLM = {
    "alone": original()["protocol"],
    "loop": LOOP_PROTOCOL,
    "timer": original()["protocol"]["timer"],
    "lengths": "uniform from an eighth of the longest to the longest; a quarter are cut by their budget",
    "gamma": token_gae.GAMMA,
    "lambda": token_gae.LAMBDA,
}
NEURONS = {"cuda": [(4096, 128), (4096, 1024), (65536, 128), (65536, 1024)], "cpu": [(64, 64), (64, 256)]}
SPIKING = {
    "alone": {**original()["protocol"], "warmup_calls": 2, "iterations_per_trial": 3},
    "timer": original()["protocol"]["timer"],
    "decay": spiking.DECAY,
    "threshold": spiking.THRESHOLD,
}


def timed(functions: dict[str, Callable[..., Any]], inputs: Row, protocol: Row, device: str) -> dict[str, Any]:
    """Samples of the quick ones side by side, then of the loop, which takes as long as all of them."""
    quick = {name: f for name, f in functions.items() if name != "loop"}
    samples = time_side_by_side(quick, inputs, protocol["alone"], device)
    if "loop" in functions:
        samples |= time_side_by_side({"loop": functions["loop"]}, inputs, protocol["loop"], device)
    return samples


# Tokens


def llm(device: str, seed: int, protocol: Row) -> Iterator[Cell]:
    for responses, tokens in TOKENS[device]:
        key = {"responses": responses, "tokens": tokens}
        yield Cell(key, partial(measure_tokens, key, device, seed, protocol))


@torch.no_grad()
def measure_tokens(key: Row, device: str, seed: int, protocol: Row) -> list[Row]:
    responses = token_gae.sample(key["responses"], key["tokens"], seed=seed, device=device)
    inputs = token_gae.inputs(responses)
    rows = spread(key["responses"], key["tokens"])
    some = {k: x[rows] if isinstance(x, Tensor) else x for k, x in inputs.items()}
    some_expected = expect("gae", some)
    changed = tokens_changed_by_padding(responses)
    job = Job("llm", "gae", (key["responses"], key["tokens"]))
    found, functions = [], {}
    for name in NAMES[device]:
        # all rows beside the portable path in float64, then those rows as they are in the whole beside the reference
        function, verdict = admit_beside_portable(partial(IMPLEMENTATIONS[name], "gae"), job, inputs)
        if function is not None:
            results = tuple(x[rows] for x in function(**inputs))
            verdict = check(results, some_expected)
        if name == "rlscan" and changed:
            verdict = Verdict(float("inf"), f"padding changes {changed} tokens")
        if verdict.passed and function is not None:
            functions[name] = function
        found.append(
            {**key, "implementation": name, "gate": {**verdict.evidence(), "rows_beside_reference": len(rows)}}
        )
    samples = timed(functions, inputs, protocol, device)
    moved = bytes_moved("gae", {**inputs, "truncation_values": responses.next_values})
    filled = 1 - token_gae.padding(responses).double().mean().item()
    on_device = {}
    if device == "cuda":
        others = [token_gae.sample(*key.values(), seed=seed + k, device=device) for k in range(1, rotation(moved))]
        calls = [partial(rlscan.gae, **x) for x in (inputs, *map(token_gae.inputs, others))]
        on_device = {"rlscan": device_samples(calls), "stream": stream_samples(moved, len(calls))}
    for row in found:
        name = row["implementation"]
        row |= {"bytes": moved, "share_of_tokens": round(filled, 4), "samples_us": samples.get(name, [])}
        row["padding_changes_tokens"] = changed if name == "rlscan" else None
        if name == "rlscan":
            row["device_us"] = on_device
    return found


def spread(responses: int, tokens: int) -> Tensor:
    """The rows that the reference checks: all, or as many as it can, from the first to the last."""
    count = max(2, min(responses, REFERENCE_STEPS // tokens))
    return torch.linspace(0, responses - 1, count).long().unique()


def tokens_changed_by_padding(responses: token_gae.Responses) -> int:
    """How many real tokens get another bit when padding is NaN instead of what it was."""
    tokens = ~token_gae.padding(responses)
    before = rlscan.gae(**token_gae.inputs(responses))
    behind = rlscan.gae(**token_gae.inputs(token_gae.filled(responses, math.nan)))
    return sum(int((x != y)[tokens].sum()) for x, y in zip(before, behind, strict=True))


# Spiking neurons


def scan_of(scan: Callable[[Recurrence], Tensor], device: str) -> spiking.Scan:
    """A baseline's scan in the place of rlscan.linear_scan; compiled on a GPU."""

    def run(alpha: Tensor, beta: Tensor, *, reverse: bool = False) -> Tensor:
        return scan(Recurrence((alpha, beta), as_they_are, only, forward=not reverse))

    return compiled(run) if scan is doubling_scan and device == "cuda" else run


def spiking_cells(device: str, seed: int, protocol: Row) -> Iterator[Cell]:
    for neurons, steps in NEURONS[device]:
        key = {"neurons": neurons, "steps": steps}
        yield Cell(key, partial(measure_spiking, key, device, seed, protocol))


def measure_spiking(key: Row, device: str, seed: int, protocol: Row) -> list[Row]:
    """The backward recurrence alone, then forward and backward of the whole."""
    current, weights = spiking.sample(key["neurons"], key["steps"], seed=seed, device=device)
    scans: dict[str, spiking.Scan] = {"rlscan": rlscan.linear_scan, "loop": scan_of(loop_scan, device)}
    if "doubling" in NAMES[device]:
        scans["doubling"] = scan_of(doubling_scan, device)
    with torch.no_grad():
        spikes = spiking.spikes_by_step(current)
        potential = rlscan.linear_scan(*spiking.forward_coefficients(current, spikes))
        alpha, beta = spiking.backward_coefficients(potential, spikes, weights, potential)
        inputs = {"alpha": alpha, "beta": beta, "reverse": True}
        expected = expect("linear_scan", some_rows(inputs))
        admitted = {name: admit(partial(first_rows, f), inputs, expected) for name, f in scans.items()}
        right = {name: scans[name] for name, (function, _) in admitted.items() if function is not None}
        samples = time_side_by_side(right, inputs, protocol["alone"], device)
    rows = [
        {**key, "what": "backward scan", "implementation": name, "gate": verdict.evidence(),
         "samples_us": samples.get(name, [])}
        for name, (_, verdict) in admitted.items()
    ]  # fmt: skip
    models: dict[str, Callable[..., Any]] = {
        "rlscan": spiking.neurons,
        "rlscan, spikes in sweeps": partial(spiking.neurons, sweep=True),
        "loop": spiking.neurons_by_loop,
    }
    if "doubling" in scans:
        models["doubling"] = partial(spiking.neurons, scan=scans["doubling"])
    _, sweeps = spiking.spikes_by_sweep(current)
    verdicts = {name: check_model(model, current, weights) for name, model in models.items()}
    calls = {name: partial(spiking.gradient, model) for name, model in models.items() if verdicts[name].passed}
    samples = time_side_by_side(calls, {"current": current, "weights": weights}, protocol["alone"], device)
    return rows + [
        {**key, "what": "forward and backward", "implementation": name, "gate": verdict.evidence(),
         "spikes": round(spikes.mean().item(), 4), "sweeps": sweeps if "sweeps" in name else None,
         "samples_us": samples.get(name, [])}
        for name, verdict in verdicts.items()
    ]  # fmt: skip


def some_rows(inputs: Row) -> Row:
    """The rows that the reference checks."""
    rows, steps = inputs["alpha"].shape
    chosen = spread(rows, steps)
    return {k: x[chosen] if isinstance(x, Tensor) else x for k, x in inputs.items()}


def first_rows(scan: spiking.Scan) -> Callable[..., Tensor]:
    """The scan of all rows, and of its result the rows that the reference checks."""
    return lambda **inputs: some_rows({"alpha": scan(**inputs)})["alpha"]


def check_model(model: Callable[..., Any], current: Tensor, weights: Tensor) -> Verdict:
    """Spikes, potential and gradient of a model beside the reference, given what stands before each.

    The potential is the forward recurrence of the model's own spikes. A spike is where the exact potential reaches the
    threshold, and may be either where that is within the bound of it. The gradient is the backward recurrence of both.
    Autograd through the loop sums the terms of β one by one, which rounds more often than the bound of a scan counts:
    it runs in float64, and has to be as near as float32 could be.
    """
    units = 1.0
    if model is spiking.neurons_by_loop:
        current, weights = some_rows({"alpha": current, "beta": weights}).values()
        current, weights, units = current.double(), weights.double(), UNIT["float32"] / UNIT["float64"]
    spikes, potential = (x.detach() for x in model(current))
    gradient = spiking.gradient(model, current, weights)
    forward = recurrence(spiking.forward_coefficients(current, spikes), units)
    verdict = check(some_rows({"alpha": potential})["alpha"], forward)
    (exact,), (bound,) = forward
    fired = some_rows({"alpha": spikes})["alpha"].cpu().numpy() > 0
    wrong = (fired & (exact < spiking.THRESHOLD - bound)) | (~fired & (exact >= spiking.THRESHOLD + bound))
    if wrong.any():
        return Verdict(float("inf"), f"{int(wrong.sum())} spikes are not where the potential reaches the threshold")
    backward = recurrence(spiking.backward_coefficients(potential, spikes, weights, potential), units, reverse=True)
    verdicts = [verdict, check(some_rows({"alpha": gradient})["alpha"], backward)]
    failed = [verdict for verdict in verdicts if not verdict.passed]
    return failed[0] if failed else Verdict(max(verdict.share_of_bound for verdict in verdicts))


def recurrence(pair: tuple[Tensor, Tensor], units: float, **options: bool) -> Expected:
    """What the reference makes of α and β, on the rows that it checks; its bounds times `units`."""
    alpha, beta = pair
    expected = expect("linear_scan", some_rows({"alpha": alpha, "beta": beta, **options}))
    return expected._replace(bounds=tuple(units * bound for bound in expected.bounds))
