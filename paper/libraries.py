"""Other people's code in the tables: JAX, TorchRL and PufferLib, where they are installed.

None of them is needed: `absent` says why one can't be used, and a table then goes on without it. What a library wants
in another shape or type is converted beforehand and not timed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paper import peer_adapters
from paper.bench import best, rlscan_function, rollout, time_side_by_side
from paper.gate import Verdict, check, expect

Row = dict[str, Any]
Call = Callable[[], Any]
MODULES = {"jax_associative": "jax", "jax_scan": "jax", "torchrl": "torchrl", "pufferlib": "pufferlib"}
SOURCES = (
    "PUFFERLIB_SOURCES"  # the folder `extensions` of PufferLib's package, to be built for the PyTorch that is here
)
# before JAX is imported: it shares the GPU's memory, and one CPU thread is one
BEFORE_JAX = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def absent(name: str, device: str = "cuda") -> str | None:
    """Why a library can't be called here, in words; None where it can, or is none."""
    module = MODULES.get(name)
    if module is None:
        return None
    if name == "pufferlib" and os.environ.get(SOURCES):
        return None
    if importlib.util.find_spec(module) is None:
        return f"{module} is not installed"
    if module == "jax":
        return jax_trouble(device)
    return None


@cache
def jax_trouble(device: str) -> str | None:
    os.environ.update({name: os.environ.get(name, value) for name, value in BEFORE_JAX.items()})
    if device == "cpu":
        os.environ.setdefault("XLA_FLAGS", ONE_THREAD)
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        import jax

        backend = jax.default_backend()
    except Exception as error:  # a plugin that does not fit raises what it likes
        return " ".join(f"jax: {type(error).__name__}: {error}".split())[:200]
    wanted = "gpu" if device == "cuda" else "cpu"
    return None if backend == wanted else f"jax finds no {wanted} here, only {backend}"


def versions(names: list[str]) -> dict[str, str]:
    """The versions of the libraries that are used."""
    import importlib.metadata

    found = {}
    for module in dict.fromkeys(MODULES[name] for name in names if name in MODULES):
        for package in (module, f"{module}-core"):
            try:
                found[module] = importlib.metadata.version(package)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


# The calls: of an estimator on given arguments, as a function without any


def of_rlscan(estimator: str, inputs: Row) -> Call:
    return partial(rlscan_function(estimator), **inputs)


def of_jax(scan: str, estimator: str, inputs: Row) -> Call:
    import jax.numpy as jnp

    from paper import jax_scans

    def array(x: Tensor) -> Any:
        if x.dtype == torch.bool:
            return jnp.from_dlpack(x.view(torch.uint8)).astype(bool)
        return jnp.from_dlpack(x)

    arrays = {name: array(x) for name, x in inputs.items() if isinstance(x, Tensor)}
    numbers = {name: x for name, x in inputs.items() if not isinstance(x, Tensor)}
    return jax_scans.compiled(estimator, getattr(jax_scans, scan), arrays, numbers)


def of_torchrl(estimator: str, inputs: Row) -> Call:
    """TorchRL takes V(s_{t+1}) of every step, done and terminated."""
    x = dict(inputs)
    last = x.pop("last_values")
    values, truncated = x.get("values"), x.pop("truncated", None)
    after = torch.zeros_like(x["rewards"]) if values is None else values.roll(-1, 1)
    after[:, -1] = last
    cut = x.pop("truncation_values", None)
    x["truncated"] = torch.zeros_like(x["terminated"]) if truncated is None else truncated
    x["next_values"] = after if truncated is None else torch.where(truncated, cut, after)
    return partial(TORCHRL[estimator], **x)


TORCHRL = {
    "gae": peer_adapters.torchrl_gae("vec_generalized_advantage_estimate"),
    "td_lambda": peer_adapters.torchrl_td_lambda("vec_td_lambda_return_estimate"),
    "discounted_returns": peer_adapters.torchrl_td1("vec_td1_return_estimate"),
}
CALLS: dict[str, Callable[[str, Row], Call]] = {
    "rlscan": of_rlscan,
    "jax_associative": partial(of_jax, "by_associative_scan"),
    "jax_scan": partial(of_jax, "by_scan"),
    "torchrl": of_torchrl,
}


def has(name: str, estimator: str) -> bool:
    return name != "torchrl" or estimator in TORCHRL


# PufferLib


@cache
def puffer_advantage() -> Callable[..., None]:
    """PufferLib's own operator: imported, or built from its own sources."""
    folder = os.environ.get(SOURCES)
    if folder:
        from torch.utils.cpp_extension import load

        sources = [str(Path(folder) / name) for name in ("pufferlib.cpp", "cuda/advantage.cu")]
        load("pufferlib_advantage", sources, is_python_module=False)
    else:
        importlib.import_module("pufferlib._C")
    operator: Callable[..., None] = torch.ops.pufferlib.compute_puff_advantage
    return operator


def puffer_gae() -> Callable[..., Any]:
    """GAE's advantages, which is all that it computes.

    It takes windows of T + 1 steps in which rewards and ends stand a step later, ends as floats, and importance ratios.
    """
    operator = puffer_advantage()
    converted: dict[int, tuple[Tensor, ...]] = {}

    def gae(rewards: Tensor, values: Tensor, terminated: Tensor, *, last_values: Tensor, gamma: float, lambda_: float):
        window = converted.get(rewards.data_ptr())
        if window is None:
            nothing = torch.zeros_like(rewards[:, :1])
            late = [torch.cat([nothing, x.to(rewards.dtype)], 1) for x in (rewards, terminated)]
            every = torch.cat([values, last_values[:, None]], 1)
            window = converted[rewards.data_ptr()] = (every, *late, torch.ones_like(every))
        advantages = torch.zeros_like(window[0])  # as its trainer does, for every call
        operator(*window, advantages, gamma, lambda_, 1.0, 1.0)
        return (advantages[:, :-1],)

    return gae


PUFFERLIB: dict[str, Callable[[], Callable[..., Any]]] = {"pufferlib": puffer_gae}


# The table


def wait_for(name: str, device: str) -> Callable[[Any], Any]:
    """What returns when a result is there."""
    if name.startswith("jax"):
        import jax

        return jax.block_until_ready
    return (lambda result: result) if device == "cpu" else (lambda result: torch.cuda.synchronize())


def as_tensors(outputs: Any) -> tuple[Tensor, ...]:
    import numpy as np

    found = outputs if isinstance(outputs, tuple) else (outputs,)
    return tuple(x if isinstance(x, Tensor) else torch.from_numpy(np.array(x)) for x in found)


def measure(
    estimator: str, truncated: bool, shape: tuple[int, int], names: list[str], protocol: Row, device: str, seed: int
) -> list[Row]:
    """The rows of one estimator at one shape: gate, then time what passed, all by the same clock."""
    inputs = rollout(estimator, truncated, *shape, seed=seed, device=device)
    expected = expect(estimator, inputs)
    verdicts, timed = {}, {}
    for name in names:
        try:
            call, wait = CALLS[name](estimator, inputs), wait_for(name, device)
            verdicts[name] = check(as_tensors(call()), expected)
        except Exception as error:  # whatever a library raises belongs in its row
            verdicts[name] = Verdict(float("inf"), " ".join(f"{type(error).__name__}: {error}".split())[:300])
            continue
        if verdicts[name].passed:
            timed[name] = lambda call=call, wait=wait: wait(call())
    samples = time_side_by_side(timed, {}, protocol, "cpu")  # the host's clock
    key = {"estimator": estimator, "truncated": truncated, "num_envs": shape[0], "seq_len": shape[1]}
    return [
        {**key, "implementation": name, "best_us": best(samples.get(name, [])), "gate": verdict.evidence(),
         "samples_us": samples.get(name, [])}
        for name, verdict in verdicts.items()
    ]  # fmt: skip
