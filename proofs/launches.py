"""A public function's call, from its arguments to the memory that the kernel has written, without a GPU.

The plan, the tile, the strides and the launch are the shipped ones: the function is called on real tensors, of which
only the shapes, strides and addresses count, and what it hands to the kernel is kept. Then the kernel's source runs on
memories of symbols that stand at those addresses.
"""

import contextlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rlscan import language
from rlscan.engine import Tile, forced, launch
from rlscan.engine.kernel import affine_scan_kernel
from rlscan.engine.spec import Role
from rlscan.language import tl

from .rollouts import CELL, GIVEN, Rollouts
from .symbolic_memory import Memory, Pointer, run_programs
from .symbolic_tensors import Fault, Tensor
from .symbolic_triton import Edit, kernel_source

DTYPES = {
    torch.float32: tl.float32,
    torch.float64: tl.float64,
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
    torch.bool: tl.int1,
    torch.uint8: tl.uint8,
    torch.int64: tl.int64,
}
PARAMETERS = list(inspect.signature(affine_scan_kernel.fn).parameters)
PATTERNS_OF_STRIDES = ("packed", "gapped", "transposed")


@dataclass(frozen=True)
class Shape:
    """How a call is laid out and cut."""

    tile: Tile
    layout: str = "NT"  # or TN
    strides: str = "packed"  # one of PATTERNS_OF_STRIDES, mixed: another one for every argument; or far: of flags
    dtype: str = "float32"
    flags: str = "bool"
    last_first: bool = False  # the order of the programs


class Recorder:
    """Stands in for the kernel: keeps the grid and the arguments of a launch."""

    grid: tuple[int, ...]
    arguments: tuple[Any, ...]

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def record(*arguments: Any, **_: Any) -> None:
            self.grid, self.arguments = grid, arguments

        return record


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    """Inside the block, launches go to the recorder."""
    recorder = Recorder()
    active = types.SimpleNamespace(get_current_device=lambda: 0, get_current_stream=lambda index: 0)
    driver = types.SimpleNamespace(active=active)
    stand_ins = {
        "affine_scan_kernel": recorder,
        "triton": types.SimpleNamespace(runtime=types.SimpleNamespace(driver=driver)),
    }
    kept = {name: getattr(launch, name) for name in stand_ins}
    vars(launch).update(stand_ins)
    try:
        yield recorder
    finally:
        vars(launch).update(kept)


def place(shape: tuple[int, ...], dtype: torch.dtype, strides: str) -> torch.Tensor:
    """A tensor of that shape."""
    if strides == "far":  # the last row begins 2^31 elements behind the first; memory that is not touched costs nothing
        apart = -(-(2**31) // (shape[0] - 1))
        return torch.empty(apart * (shape[0] - 1) + shape[1], dtype=dtype).as_strided(shape, (apart, 1))
    if strides == "gapped":  # every other element of a larger buffer
        return torch.zeros((*shape, 2), dtype=dtype)[..., 0]
    if strides == "transposed" and len(shape) > 1:
        return torch.zeros((shape[1], shape[0], *shape[2:]), dtype=dtype).transpose(0, 1)
    return torch.zeros(shape, dtype=dtype)


def offsets(x: torch.Tensor) -> Any:
    """Of every element from the first one's address."""
    indices = np.indices(tuple(x.shape)) if x.ndim else np.zeros((0,), int)
    return sum(
        (index * stride for index, stride in zip(indices, x.stride(), strict=True)), np.zeros(tuple(x.shape), int)
    )


def memory(name: str, x: torch.Tensor, values: Any = None) -> Memory:
    """The tensor's memory, holding `values` of its shape; without them it is there to be written, and holds 0."""
    cells = np.zeros(x.numel(), object) if values is None else values.reshape(-1)
    return Memory(name, DTYPES[x.dtype], offsets(x).reshape(-1), cells, writable=values is None)


class Execution:
    """One call: what is given to the public function, what that gives to the kernel, and what the programs write."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any], rollouts: Rollouts, shape: Shape):
        self.rollouts, self.shape = rollouts, shape
        self.memories: dict[int, Memory] = {}
        self.numbers: dict[float, Any] = {}
        self.tensors: list[torch.Tensor] = []  # kept, so that no two have one address
        arguments = {a.name: self.argument(k, a) for k, a in enumerate(rollouts.arguments)}
        for a in rollouts.spec.arguments:
            if a.name not in arguments and not a.required and a.role is Role.RATIO:
                arguments[a.name] = None  # has no default
        arguments |= options
        path = "interpreter" if language.INTERPRETED else "triton"
        with recording() as recorder, forced(path, shape.tile):
            results = function(**arguments, time_dim=0 if shape.layout == "TN" else -1)
        self.results = results if isinstance(results, tuple) else (results,)
        self.grid = recorder.grid
        self.launched = dict(zip(PARAMETERS, recorder.arguments, strict=True))

    def argument(self, k: int, a: Any) -> Any:
        values, shape = self.rollouts.values[a.name], self.shape
        form = self.rollouts.call.form(a)
        if form != GIVEN and isinstance(values, float):
            return None  # a clip that is not there
        number = float(k + 2) / 16  # stands for a symbol wherever it turns up
        if form != GIVEN:
            self.numbers[number] = values
        if form == CELL:
            return torch.tensor(number, dtype=getattr(torch, shape.dtype))
        if form != GIVEN:
            return number
        dtype = getattr(torch, shape.flags if a.role is Role.FLAG else shape.dtype)
        strides = PATTERNS_OF_STRIDES[k % 3] if shape.strides == "mixed" else shape.strides
        if strides == "far" and a.role is not Role.FLAG:
            strides = "packed"
        swap = shape.layout == "TN" and a.role is not Role.ROW
        x = place(values.swapaxes(0, 1).shape if swap else values.shape, dtype, strides)
        self.tensors.append(x)
        self.memories[x.data_ptr()] = memory(a.name, x, values.swapaxes(0, 1) if swap else values)
        return x

    def symbolic(self, value: Any, name: str) -> Any:
        """A launch's argument on symbols: a pointer for a tensor, a symbol for the number that stands for it."""
        if isinstance(value, float):
            return Tensor(self.numbers.get(value, value), tl.float32)
        if not isinstance(value, torch.Tensor):
            return value
        if value.data_ptr() not in self.memories:
            made = value.ndim == 0  # a number that goes through memory
            values = np.array(self.numbers.get(value.item(), value.item()), object) if made else None
            self.memories[value.data_ptr()] = memory(name, value, values)
            self.tensors.append(value)
        return Pointer(self.memories[value.data_ptr()])

    def run(self, edits: tuple[Edit, ...] = ()) -> None:
        """Runs every program; a Fault says what one of them did wrong."""
        kernel = kernel_source(affine_scan_kernel, edits)
        given: dict[str, Any] = {}
        for name, value in self.launched.items():
            if name in ("inputs", "outputs"):
                given[name] = tuple(self.symbolic(x, f"{name}[{k}]") for k, x in enumerate(value))
            elif name in ("policy", "words"):
                given[name] = self.symbolic(value, name)
            else:
                given[name] = value
        for name in ("COEFFICIENTS", "OUTPUTS"):
            given[name] = kernel_source(given[name], edits)
        try:
            run_programs(lambda: kernel(**given), self.grid, self.shape.last_first)
        except TypeError as error:
            if "'PolyElement' and 'PolyElement'" not in str(error):
                raise
            raise Fault("values of two rows meet") from error

    def found(self) -> list[Any]:
        """What was written, per result as [N, T, ...]."""
        found = []
        for k, result in enumerate(self.results):
            memory = self.memories[result.data_ptr()]
            where = memory.find(offsets(result), "is asked for")
            if not memory.written[where].all():
                raise Fault(f"result {k} is not written at every step")
            values = memory.cells[where]
            found.append(values.swapaxes(0, 1) if self.shape.layout == "TN" else values)
        return found
