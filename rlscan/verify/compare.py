"""One example through a public function and through the reference."""

from typing import Any

import numpy as np
import torch

import rlscan
import rlscan.reference as reference

from ..engine import path_for
from .strategies import Example, Setup
from .tolerance import Mismatch, assert_exact, assert_within, bounds

FLAGS = ("terminated", "truncated", "ends")
ROWS = ("last_values", "initial")


def tensor(setup: Setup, name: str, value: Any, device: str) -> Any:
    """A canonical [N, T, ...] array as the setup's function takes it: dtype, layout and strides."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    dtype = getattr(torch, setup.flags if name in FLAGS else setup.dtype)
    x = torch.from_numpy(np.array(value)).to(device=device, dtype=dtype)
    if x.ndim == 0:
        return x
    if name in ROWS:
        return x[0] if setup.layout == "T" else x
    if setup.layout == "T":
        x = x[0]
    elif setup.layout == "TN":
        x = x.transpose(0, 1).contiguous()
    if setup.strides == "gapped":
        # every other element of a larger buffer whose other elements are garbage
        wide = torch.full((*x.shape, 2), True if dtype == torch.bool else 113, dtype=dtype, device=device)
        wide[..., 0] = x
        x = wide[..., 0]
    elif setup.strides == "transposed" and x.ndim >= 2:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    return x


def call(example: Example, device: str, path: str | None, api: Any) -> tuple[torch.Tensor, ...]:
    """The public function's results as canonical [N, T, ...] tensors; inputs are checked to be unchanged.

    On a GPU it is called again, because a call like the last one takes a shorter way, and has to give the same bits.
    """
    setup = example.setup
    arguments = {name: tensor(setup, name, value, device) for name, value in example.arguments.items()}
    before = {name: x.clone() for name, x in arguments.items() if isinstance(x, torch.Tensor)}
    arguments |= dict(setup.options)
    arguments["time_dim"] = 0 if setup.layout == "TN" else -1
    function = getattr(api, setup.estimator)
    with api.engine.forced(path, setup.tile):
        results = as_tuple(function(**arguments))
        again = results if device == "cpu" else as_tuple(function(**arguments))
    for k, (x, y) in enumerate(zip(results, again, strict=True)):
        if not ((x == y) | x.isnan() & y.isnan()).all():
            raise Mismatch(f"{setup.estimator} result {k} differs from that of the same call before")
    for name, x in before.items():
        if not torch.equal(x.double().nan_to_num(7.0), arguments[name].double().nan_to_num(7.0)):
            raise Mismatch(f"{setup.estimator} changed its argument {name}")
    if setup.layout == "TN":
        return tuple(x.transpose(0, 1) for x in results)
    return tuple(x.unsqueeze(0) for x in results) if setup.layout == "T" else results


def expect(example: Example) -> tuple[Any, ...]:
    """The reference's results on the canonical arrays."""
    return as_tuple(getattr(reference, example.setup.estimator)(**example.arguments, **dict(example.setup.options)))


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def compare(example: Example, *, exact: bool, device: str = "cpu", path: str | None = None, api: Any = rlscan) -> float:
    """Raises Mismatch unless the public function agrees with the reference;
    returns the largest share of the bound used.
    """
    estimator = example.setup.estimator
    results, expected = call(example, device, path, api), expect(example)
    if len(results) != len(expected):
        raise Mismatch(f"{estimator} returned {len(results)} results, not {len(expected)}")
    dtype = getattr(torch, example.setup.dtype)
    share = 0.0
    truncates = (path or path_for(torch.device(device))) == "interpreter"
    limits = expected if exact else bounds(example, expected, truncates)
    for k, (got, want, limit) in enumerate(zip(results, expected, limits, strict=True)):
        what = f"{estimator} result {k}"
        if got.dtype != dtype:
            raise Mismatch(f"{what} has dtype {got.dtype}, not {dtype}")
        if exact:
            assert_exact(got, want, what, truncates)
        else:
            share = max(share, assert_within(got, want, limit, what))
    return share
