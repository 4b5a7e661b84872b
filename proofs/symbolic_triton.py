"""The part of `triton.language` that the kernel uses, on tensors of symbols; and how the kernel's source is read in it.

What differs from a GPU: an associative scan is one tree (that every bracketing gives the same is a statement of
`affine.py`), and numbers do not round.
"""

import dis
import functools
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rlscan.language import is_jit, tl

from .symbolic import Reals
from .symbolic_memory import Pointer, Running
from .symbolic_tensors import Fault, Tensor, array, each, promoted


def wrapped(data: Any, like: Tensor) -> Tensor:
    return Tensor(data, like.dtype)


class SymbolicTriton:
    """Stands in for `tl`."""

    int32, int64, uint32, float32, float64 = tl.int32, tl.int64, tl.uint32, tl.float32, tl.float64
    static_range = range

    @staticmethod
    def cdiv(x: int, y: int) -> int:
        return -(-x // y)

    @staticmethod
    def program_id(axis: int) -> Tensor:
        return Tensor(Running.place[axis], tl.int32)

    @staticmethod
    def arange(start: int, end: int) -> Tensor:
        if (end - start) & (end - start - 1) or end <= start:
            raise Fault(f"arange({start}, {end}) is not a power of two")
        return Tensor(np.arange(start, end), tl.int32)

    @staticmethod
    def zeros(shape: Any, dtype: Any) -> Tensor:
        return Tensor(np.full(tuple(shape), 0, object if dtype.is_floating() else np.int64), dtype)

    @staticmethod
    def full(shape: Any, value: Any, dtype: Any) -> Tensor:
        return Tensor(np.full(tuple(shape), value, object if dtype.is_floating() else np.int64), dtype)

    @staticmethod
    def trans(x: Tensor) -> Tensor:
        return wrapped(x.data.T, x)

    @staticmethod
    def expand_dims(x: Tensor, axis: int) -> Tensor:
        return wrapped(np.expand_dims(x.data, axis), x)

    @staticmethod
    def broadcast_to(x: Tensor, shape: Any) -> Tensor:
        return wrapped(np.broadcast_to(x.data, tuple(shape)), x)

    @staticmethod
    def reshape(x: Tensor, shape: Any) -> Tensor:
        return wrapped(x.data.reshape(tuple(shape)), x)

    @staticmethod
    def split(x: Tensor) -> tuple[Tensor, Tensor]:
        if x.shape[-1] != 2:
            raise Fault(f"split of shape {x.shape}")
        return wrapped(x.data[..., 0], x), wrapped(x.data[..., 1], x)

    @staticmethod
    def join(x: Tensor, y: Tensor) -> Tensor:
        return Tensor(np.stack([x.data, y.data], -1), promoted(x, y))

    @staticmethod
    def gather(x: Tensor, index: Tensor, axis: int) -> Tensor:
        if (index.data < 0).any() or (index.data >= x.shape[axis]).any():
            raise Fault(f"gather beside a tensor of shape {x.shape}")
        return wrapped(np.take_along_axis(x.data, index.data, axis), x)

    @staticmethod
    def multiple_of(x: Tensor, values: Any) -> Tensor:
        """A promise to the compiler: along each dimension every value-th offset is a multiple of the value."""
        for axis, value in enumerate(values):
            if (np.take(x.data, range(0, x.shape[axis], value), axis) % value).any():
                raise Fault(f"an offset is promised to be a multiple of {value}, and is not")
        return x

    @staticmethod
    def max_constancy(x: Tensor, values: Any) -> Tensor:
        """A promise to the compiler: along each dimension so many neighbours are the same."""
        for axis, value in enumerate(values):
            groups = np.arange(x.shape[axis]) // value * value
            if (x.data != np.take(x.data, groups, axis)).any():
                raise Fault(f"{value} neighbours are promised to be the same, and are not")
        return x

    @staticmethod
    def maximum(x: Any, y: Any) -> Any:
        if not isinstance(x, Tensor) and not isinstance(y, Tensor):
            return max(x, y)
        return Tensor(np.maximum(*(v.data if isinstance(v, Tensor) else v for v in (x, y))), promoted(x, y))

    @staticmethod
    def minimum(x: Tensor, y: Any) -> Tensor:
        if not isinstance(y, Tensor):  # counts
            return Tensor(np.minimum(x.data, y), promoted(x, y))
        return Tensor(each(Reals.minimum, x.data, y.data), promoted(x, y))

    @staticmethod
    def abs(x: Tensor) -> Tensor:
        return wrapped(each(Reals.abs, x.data), x)

    @staticmethod
    def min(x: Tensor) -> Tensor:
        return wrapped(x.data.min(), x)

    @staticmethod
    def sum(x: Tensor, axis: int, keep_dims: bool = False) -> Tensor:
        return wrapped(np.add.reduce(x.data, axis=axis, keepdims=keep_dims), x)

    @staticmethod
    def where(condition: Any, chosen: Any, otherwise: Any) -> Any:
        if not isinstance(condition, Tensor):
            return Reals.where(condition, chosen, otherwise)
        dtype = promoted(chosen, otherwise)
        values = [x.data if isinstance(x, Tensor) else array(x, dtype) for x in (chosen, otherwise)]
        if condition.data.dtype == object:  # symbols decide
            return Tensor(each(Reals.where, condition.data, *values), dtype)
        return Tensor(np.where(condition.data, *values), dtype)

    @staticmethod
    def exp(x: Any) -> Any:
        return wrapped(each(Reals.exp, x.data), x) if isinstance(x, Tensor) else Reals.exp(x)

    @staticmethod
    def log(x: Any) -> Any:
        return wrapped(each(Reals.log, x.data), x) if isinstance(x, Tensor) else Reals.log(x)

    @staticmethod
    def load(pointer: Pointer, mask: Any = None, other: Any = 0, volatile: bool = False) -> Tensor:
        return Tensor(pointer.memory.load(*pointer.spread(mask), other, volatile), pointer.memory.dtype)

    @staticmethod
    def store(pointer: Pointer, value: Tensor, mask: Any = None) -> None:
        if value.dtype.name != pointer.memory.dtype.name:
            raise Fault(f"{value.dtype} stored where {pointer.memory.dtype} belongs")
        offsets, inside = pointer.spread(mask)
        pointer.memory.store(offsets, inside, np.broadcast_to(value.data, offsets.shape))

    @staticmethod
    def associative_scan(pairs: tuple[Tensor, ...], axis: int, combine: Callable[..., Any]) -> tuple[Tensor, ...]:
        """Each entry folded with all before it: after step k, with the 2^k - 1 nearest ones."""
        size, distance = pairs[0].shape[axis], 1

        def part(x: Tensor, first: int, end: int) -> Tensor:
            return wrapped(np.take(x.data, range(first, end), axis), x)

        while distance < size:
            behind = [part(x, 0, size - distance) for x in pairs]
            folded = combine(*behind, *(part(x, distance, size) for x in pairs))
            pairs = tuple(
                wrapped(np.concatenate([part(x, 0, distance).data, y.data], axis), x)
                for x, y in zip(pairs, folded, strict=True)
            )
            distance *= 2
        return pairs


class Edit(NamedTuple):
    """One expression of one function's source, and what a twin has in its place."""

    function: str
    old: str
    new: str


def edited(source: Any, edits: tuple[Edit, ...]) -> types.CodeType:
    """The code of a function, or that of its source with the edits made."""
    mine = [edit for edit in edits if edit.function == source.__name__]
    if not mine:
        code: types.CodeType = source.__code__
        return code
    text = textwrap.dedent(inspect.getsource(source))
    text = text[text.index("def ") :]
    for edit in mine:
        if text.count(edit.old) != 1:
            raise ValueError(f"{edit.old!r} is {text.count(edit.old)} times in {edit.function}; it should be once")
        text = text.replace(edit.old, edit.new)
    found: dict[str, Any] = {}
    exec(compile("from __future__ import annotations\n" + text, f"<edited {source.__name__}>", "exec"), found)
    code = found[source.__name__].__code__
    return code


@functools.cache
def kernel_source(function: Any, edits: tuple[Edit, ...] = ()) -> Callable[..., Any]:
    """The source of a jit function as plain Python in SymbolicTriton, and so all that it calls."""
    source = function.fn
    code = edited(source, edits)
    scope: dict[str, Any] = {"__builtins__": __builtins__}
    for name in {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}:
        value = source.__globals__.get(name)
        if value is tl:
            scope[name] = SymbolicTriton
        elif is_jit(value):
            scope[name] = kernel_source(value, edits)
        elif value is not None:
            scope[name] = value.value if isinstance(value, tl.constexpr) else value
    return types.FunctionType(code, scope, source.__name__, source.__defaults__)
