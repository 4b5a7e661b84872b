"""The kernel of a call, compiled for an H200 on a machine without a GPU.

A stand-in for the kernel keeps the arguments that the engine launches it with, and Triton compiles for what it would
specialise these to. Needs a process without TRITON_INTERPRET.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

H200 = GPUTarget("cuda", 90, 32)
TYPES = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.bool: "*i1",
    torch.uint8: "*u8",
    torch.int64: "*i64",
}


class Recorder:
    """Stands in for the kernel: keeps the arguments of a launch."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Any:
        def record(*arguments: Any, num_warps: int, **_: Any) -> None:
            self.arguments, self.warps = arguments, num_warps

        return record

    def specialised(self) -> Source:
        """What a launch with these arguments would be compiled for."""
        constants: dict[Any, Any] = {}
        attributes: dict[Any, Any] = {}
        signatures: dict[str, Any] = {}
        for i, (parameter, value) in enumerate(zip(self.kernel.params, self.arguments, strict=True)):
            if parameter.is_constexpr:
                constants[(i,)], signatures[parameter.name] = value, "constexpr"
            else:
                signatures[parameter.name] = signature(value, (i,), constants, attributes)
        return Source(self.kernel, signatures, constants, attributes, self.warps)


class Source(NamedTuple):
    """All that decides what the compiler makes."""

    kernel: Any
    signatures: dict[str, Any]
    constants: dict[Any, Any]
    attributes: dict[Any, Any]
    warps: int

    @property
    def key(self) -> str:
        """Two launches with the same key share a kernel."""
        return repr((id(self.kernel), self.signatures, self.constants, self.attributes, self.warps))

    def compile(self) -> Any:
        source = ASTSource(self.kernel, self.signatures, self.constants, self.attributes)
        return triton.compile(source, target=H200, options={"num_warps": self.warps})


def signature(value: Any, path: tuple[int, ...], constants: dict[Any, Any], attributes: dict[Any, Any]) -> Any:
    """What a launch would specialise this argument to."""
    if isinstance(value, tuple):
        return tuple(signature(x, (*path, i), constants, attributes) for i, x in enumerate(value))
    if isinstance(value, torch.Tensor):
        if value.data_ptr() % 16 == 0:
            attributes[path] = [["tt.divisibility", 16]]
        return TYPES[value.dtype]
    if isinstance(value, float):
        return "fp32"
    if value == 1:
        constants[path] = 1
        return "constexpr"
    if value % 16 == 0:
        attributes[path] = [["tt.divisibility", 16]]
    return "i32"


@contextlib.contextmanager
def recording(launch: Any) -> Iterator[Recorder]:
    """Inside the block, what the module `launch` of an engine launches is kept and not run."""
    kept = launch.affine_scan_kernel, launch.triton, launch.refuse_no_memory
    recorder = Recorder(launch.affine_scan_kernel)
    active = types.SimpleNamespace(get_current_device=lambda: 0, get_current_stream=lambda index: 0)
    driver = types.SimpleNamespace(active=active)
    launch.affine_scan_kernel = recorder
    launch.refuse_no_memory = lambda name: None  # nothing is read of tensors that are only described
    launch.triton = types.SimpleNamespace(runtime=types.SimpleNamespace(driver=driver), __version__=triton.__version__)
    try:
        yield recorder
    finally:
        launch.affine_scan_kernel, launch.triton, launch.refuse_no_memory = kept
