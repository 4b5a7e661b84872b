"""Compiles the kernel of many kinds of call for an H200, down to machine code, on a machine without a GPU.

Run in a process of its own, without TRITON_INTERPRET: `python tests/compile_for_h200.py SETUPS`. Prints one line a
failure and a count.
"""

import sys
import types
from typing import Any

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import rlscan
from rlscan.engine import forced, launch
from rlscan.engine.kernel import affine_scan_kernel
from rlscan.verify.compare import tensor
from rlscan.verify.strategies import ESTIMATORS, Setup, fill, setups

TYPES = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.bool: "*i1",
    torch.uint8: "*u8",
    torch.int64: "*i64",
}
SIZES = ((3, 9), (16, 64), (2, 1))


class Recorder:
    """Stands in for the kernel: keeps the arguments of a launch."""

    def __getitem__(self, grid: Any) -> Any:
        def record(*arguments: Any, num_warps: int, **_: Any) -> None:
            self.arguments, self.warps = arguments, num_warps

        return record


def signature(value: Any, path: tuple[int, ...], constants: dict[Any, Any], attributes: dict[Any, Any]) -> Any:
    """What a launch would specialise this argument to."""
    if isinstance(value, tuple):
        return tuple(signature(x, (*path, i), constants, attributes) for i, x in enumerate(value))
    if isinstance(value, torch.Tensor):
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


def compile_call(setup: Setup, rows: int, steps: int, recorder: Recorder) -> None:
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 4, (1 if setup.layout == "T" else rows, steps)).astype(np.int8)
    example = fill(setup, pattern, rng, exact=True)
    arguments = {name: tensor(setup, name, value, "cpu") for name, value in example.arguments.items()}
    with forced("triton", setup.tile):
        function = getattr(rlscan, setup.estimator)
        function(**arguments, **dict(setup.options), time_dim=0 if setup.layout == "TN" else -1)
    constants: dict[Any, Any] = {}
    attributes: dict[Any, Any] = {}
    types_of = {}
    for i, (parameter, value) in enumerate(zip(affine_scan_kernel.params, recorder.arguments, strict=True)):
        if parameter.is_constexpr:
            constants[(i,)], types_of[parameter.name] = value, "constexpr"
        else:
            types_of[parameter.name] = signature(value, (i,), constants, attributes)
    source = ASTSource(affine_scan_kernel, types_of, constants, attributes)
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": recorder.warps})


def main(count: int) -> int:
    recorder = Recorder()
    launch.affine_scan_kernel = recorder
    active = types.SimpleNamespace(get_current_device=lambda: 0, get_current_stream=lambda index: 0)
    driver = types.SimpleNamespace(active=active)
    launch.triton = types.SimpleNamespace(runtime=types.SimpleNamespace(driver=driver))
    compiled = failed = 0
    for estimator in ESTIMATORS:
        for number, setup in enumerate(setups(estimator, count, seed=0)):
            rows, steps = SIZES[number % len(SIZES)]
            try:
                compile_call(setup, rows, steps, recorder)
                compiled += 1
            except Exception as error:
                failed += 1
                print(f"{rows} x {steps}, {setup}: {type(error).__name__}: {error}")
    print(f"{compiled} compiled, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
