"""The kernel language, and how the same jit functions are read in another one.

A coefficient function is written once, decorated with `@jit`. Triton compiles it; `read_in` gives the same source as
plain Python with another language in the place of `tl`: PyTorch on the portable path, SymPy in the proofs.
"""

import functools
import math
import types
from collections.abc import Callable
from typing import Any

import torch

try:
    import triton
    import triton.language as tl

    jit = triton.jit
    HAS_TRITON = True
    INTERPRETED = bool(triton.knobs.runtime.interpret)
except ImportError:  # macOS and Windows have no Triton; the portable path needs only the functions' source
    HAS_TRITON = INTERPRETED = False

    class tl:  # type: ignore[no-redef]  # noqa: N801  # stands in for the module of that name
        pass

    class jit:  # type: ignore[no-redef]  # noqa: N801  # stands in for the decorator of that name
        def __init__(self, fn: Callable[..., Any]) -> None:
            self.fn = fn


def is_jit(value: Any) -> bool:
    return callable(getattr(value, "fn", None)) and not isinstance(value, types.ModuleType)


@functools.cache
def read_in(function: Any, language: Any) -> Callable[..., Any]:
    """The source of a jit function as plain Python,
    with `language` in the place of `tl` in it and in all that it calls.
    """
    source = function.fn
    scope: dict[str, Any] = {"__builtins__": __builtins__}
    for name in source.__code__.co_names:
        value = source.__globals__.get(name)
        if value is tl:
            scope[name] = language
        elif is_jit(value):
            scope[name] = read_in(value, language)
        elif value is not None:
            scope[name] = value
    return types.FunctionType(source.__code__, scope, source.__name__, source.__defaults__)


class TorchLanguage:
    """The part of `tl` that coefficient functions use, on PyTorch tensors and Python numbers,
    computing in one dtype.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def where(self, condition: Any, chosen: Any, otherwise: Any) -> Any:
        if isinstance(condition, bool):
            return chosen if condition else otherwise
        if not isinstance(chosen, torch.Tensor) and not isinstance(otherwise, torch.Tensor):
            # of two numbers PyTorch would make the default dtype
            otherwise = torch.tensor(otherwise, dtype=self.dtype, device=condition.device)
        return torch.where(condition, chosen, otherwise)

    def exp(self, x: Any) -> Any:
        return torch.exp(x) if isinstance(x, torch.Tensor) else math.exp(x)

    def log(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return torch.log(x)
        return math.log(x) if x > 0 else -math.inf


TORCH = {dtype: TorchLanguage(dtype) for dtype in (torch.float32, torch.float64)}
