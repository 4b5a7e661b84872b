"""Tensors of symbols, as the kernel's source computes with them.

Offsets, masks and flags are concrete integers and booleans, in the widths that the kernel gives them: an offset of 32
bits wraps around. Floating entries are the proofs' own numbers. So what a program reads, where and under which mask is
computed, and what it does to the values is a theorem about the reals.

The words through which programs meet hold the bits of numbers. Of those bits three things are known: where they came
from, that they are not `EMPTY` (a NaN that no arithmetic makes), and, so long as they are not xor-ed with it, nothing
about whether they are 0. Whatever needs to know more is a fault.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rlscan.engine.kernel import EMPTY
from rlscan.language import tl

from .symbolic import UNDEFINED


class Fault(Exception):  # noqa: N818  # as an assertion, it says what was found
    """Something that no program may do."""


class Half:
    """The 32 bits of one number of float32, or either half of one of float64."""

    def __init__(self, number: Any) -> None:
        self.number = number


SIGN = object()  # 32 copies of a sign that is not known


class Bits:
    """A word of two halves, each 0, a Half or SIGN; `masked` once it is xor-ed with EMPTY."""

    def __init__(self, high: Any, low: Any, masked: bool = False) -> None:
        self.high, self.low, self.masked = high, low, masked

    def plain(self) -> "Bits":
        if self.masked:
            raise Fault("the bits of a number are used before the xor is undone")
        return self

    def __lshift__(self, by: int) -> "Bits":
        if by != 32:
            raise Fault(f"the bits of a number are shifted by {by}")
        return Bits(self.plain().low, 0)

    def __rshift__(self, by: int) -> "Bits":
        if by != 32:
            raise Fault(f"the bits of a number are shifted by {by}")
        return Bits(SIGN, self.plain().high)

    def __or__(self, other: Any) -> "Bits":
        if not isinstance(other, Bits):
            raise Fault(f"the bits of a number are mixed with {other!r}")
        halves = [(self.plain().high, other.plain().high), (self.low, other.low)]
        if any(0 not in pair for pair in halves):
            raise Fault("the bits of two numbers are mixed")
        return Bits(*(one if other == 0 else other for one, other in halves))

    def __xor__(self, other: Any) -> "Bits":
        if other != EMPTY.value:
            raise Fault("the bits of a number are mixed with something that is not EMPTY")
        return Bits(self.high, self.low, not self.masked)

    def __eq__(self, other: object) -> bool:
        number = isinstance(self.high, Half) or isinstance(self.low, Half)
        if number and other == (0 if self.masked else EMPTY.value):
            return False
        raise Fault(f"whether the bits of a number are {other!r} is not known")

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # equality is not always decided


def bits_of(number: Any, dtype: Any) -> Bits:
    half = Half(number)
    if dtype.primitive_bitwidth == 64:
        return Bits(half, half)
    return Bits(SIGN if dtype.is_int_signed() else 0, half)


def number_of(bits: Any, width: int) -> Any:
    """What bits are as a number; of any that no number was written to, undefined."""
    if not isinstance(bits, Bits):
        return UNDEFINED
    halves = (bits.plain().low,) if width == 32 else (bits.plain().low, bits.high)
    if not isinstance(halves[0], Half) or any(half is not halves[0] for half in halves):
        raise Fault("bits that are not those of one number are read as one")
    return halves[0].number


def array(value: Any, dtype: Any) -> Any:
    """A NumPy array of the entries; numbers are kept as they are, as objects."""
    if isinstance(value, np.ndarray):
        return value
    if dtype.is_floating() or not isinstance(value, int | np.integer | np.bool_):
        result = np.empty((), object)
        result[()] = value
        return result
    return np.asarray(value)


def each(function: Callable[..., Any], *arrays: Any) -> Any:
    result = np.frompyfunc(function, len(arrays), 1)(*arrays)
    return result if isinstance(result, np.ndarray) else array(result, tl.float32)


RANK = {
    name: rank
    for rank, name in enumerate(("int1", "uint8", "int32", "uint32", "int64", "fp16", "bf16", "fp32", "fp64"))
}


def dtype_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, bool):
        return tl.int1
    if isinstance(value, int):
        return tl.int32 if -(2**31) <= value < 2**31 else tl.int64
    return tl.float32


def promoted(left: Any, right: Any) -> Any:
    """The dtype of an operation; a Python number takes that of the tensor."""
    dtypes = [dtype_of(left), dtype_of(right)]
    for one, other in ((left, dtypes[1]), (right, dtypes[0])):
        if isinstance(one, int | float) and not isinstance(one, bool) and other.is_floating():
            return other
    return max(dtypes, key=lambda dtype: RANK[dtype.name])


class Tensor:
    """A block of entries of one dtype. Comparisons give booleans, or conditions where symbols decide."""

    __slots__ = ("data", "dtype")
    __hash__ = None  # type: ignore[assignment]  # compares entry by entry

    def __init__(self, data: Any, dtype: Any) -> None:
        self.data, self.dtype = array(data, dtype), dtype
        if dtype.name == "int32" and self.data.dtype != object:
            wide = self.data.astype(np.int64)
            if wide.size and (wide.max() >= 2**31 or wide.min() < -(2**31)):
                wide = (wide + 2**31) % 2**32 - 2**31  # as 32 bits wrap around
            self.data = wide

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    def _with(self, other: Any, function: Any, reflected: bool = False) -> "Tensor":
        dtype = promoted(self, other)
        if dtype.is_floating() and dtype.primitive_bitwidth < 32:
            raise Fault(f"arithmetic in the storage dtype {dtype}")
        mine, theirs = self.operands(other, dtype)
        if function in (operator.mod, operator.floordiv) and (mine.min() < 0 or theirs.min() < 0):
            raise Fault("a division of a negative number, which rounds otherwise on a GPU")
        result = function(theirs, mine) if reflected else function(mine, theirs)
        return Tensor(result, dtype)

    def operands(self, other: Any, dtype: Any) -> tuple[Any, Any]:
        theirs = other.data if isinstance(other, Tensor) else array(other, dtype)
        if self.data.ndim and theirs.ndim and self.data.ndim != theirs.ndim:
            raise Fault(f"an operation on shapes {self.shape} and {theirs.shape}")
        try:
            np.broadcast_shapes(self.data.shape, theirs.shape)
        except ValueError:
            raise Fault(f"an operation on shapes {self.shape} and {theirs.shape}") from None
        return self.data, theirs

    def _compared(self, other: Any, function: Any) -> "Tensor":
        mine, theirs = self.operands(other, promoted(self, other))
        if mine.dtype != object and theirs.dtype != object:
            return Tensor(function(mine, theirs), tl.int1)
        found = each(function, mine, theirs)
        decided = all(isinstance(x, bool | np.bool_) for x in found.flat)
        return Tensor(found.astype(bool) if decided else found, tl.int1)

    def __add__(self, other: Any) -> "Tensor":
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> "Tensor":
        return self._with(other, operator.sub)

    def __rsub__(self, other: Any) -> "Tensor":
        return self._with(other, operator.sub, reflected=True)

    def __mul__(self, other: Any) -> "Tensor":
        return self._with(other, operator.mul)

    def __floordiv__(self, other: Any) -> "Tensor":
        return self._with(other, operator.floordiv)

    def __mod__(self, other: Any) -> "Tensor":
        return self._with(other, operator.mod)

    def __and__(self, other: Any) -> "Tensor":
        return self._with(other, operator.and_)

    def __or__(self, other: Any) -> "Tensor":
        return self._with(other, operator.or_)

    def __xor__(self, other: Any) -> "Tensor":
        return self._with(other, operator.xor)

    def __lshift__(self, other: Any) -> "Tensor":
        return self._with(other, operator.lshift)

    def __rshift__(self, other: Any) -> "Tensor":
        return self._with(other, operator.rshift)

    __radd__, __rmul__, __rand__, __ror__ = __add__, __mul__, __and__, __or__

    def __eq__(self, other: Any) -> "Tensor":  # type: ignore[override]  # entry by entry
        return self._compared(other, operator.eq)

    def __ne__(self, other: Any) -> "Tensor":  # type: ignore[override]  # entry by entry
        return self._compared(other, operator.ne)

    def __lt__(self, other: Any) -> "Tensor":
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> "Tensor":
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> "Tensor":
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> "Tensor":
        return self._compared(other, operator.ge)

    def __getitem__(self, index: Any) -> "Tensor":
        return Tensor(self.data[index], self.dtype)

    def __index__(self) -> int:
        return int(self.data.item())

    def __bool__(self) -> bool:
        return bool(self.data.item())

    def to(self, dtype: Any, bitcast: bool = False) -> "Tensor":
        if bitcast:
            if self.dtype.primitive_bitwidth != dtype.primitive_bitwidth:
                raise Fault(f"the bits of {self.dtype} taken for those of {dtype}")
            if self.dtype.is_floating():
                return Tensor(each(lambda number: bits_of(number, dtype), self.data), dtype)
            return Tensor(each(lambda bits: number_of(bits, dtype.primitive_bitwidth), self.data), dtype)
        if dtype.is_floating():  # over the reals a storage dtype holds every number
            data = self.data.astype(np.int64) if self.data.dtype == bool else self.data
            return Tensor(data.astype(object), dtype)
        if self.dtype.is_floating():
            raise Fault(f"{self.dtype} rounded to {dtype}")
        return Tensor(self.data if self.data.dtype == object else self.data.astype(np.int64), dtype)
