"""Memory of symbols, and the programs of a launch that read and write it.

Every tensor is a memory of its own, in which only its elements exist: a load or store beside them is a fault, and so
are two writes to one place, a write to an input and a load of what nobody wrote. Programs run one after the other, in
the order of their numbers, in which a wait for what no earlier one has written is a deadlock; or the last one first,
where a program that has to wait is tried again after the others. Other orders give the same: a word is written once,
and who reads it waits until it is.
"""

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from .symbolic_tensors import Fault, Tensor

NOBODY = -1


class Waiting(Exception):  # noqa: N818  # not an error: the program goes on later
    """A program asks again for a word that nobody has written yet."""


class Running:
    """The program at hand."""

    place: tuple[int, ...] = (0, 0, 0)
    number = 0
    attempt = 0
    question: Any = None  # the load that a program would repeat if it waited
    news = 0  # words written by anyone


class Memory:
    """One tensor's elements, in the order of their offsets. A writable one begins unwritten, words as 0."""

    def __init__(self, name: str, dtype: Any, offsets: Any, cells: Any, writable: bool = False) -> None:
        order = np.argsort(offsets)
        self.name, self.dtype, self.writable = name, dtype, writable
        self.offsets, self.cells = offsets[order], cells[order]
        self.written = np.full(cells.shape, not writable)
        self.writer = np.full(cells.shape, NOBODY)
        self.attempt = np.full(cells.shape, NOBODY)

    def find(self, offsets: Any, what: str) -> Any:
        """Which of the elements lie there."""
        found = np.searchsorted(self.offsets, offsets).clip(max=len(self.offsets) - 1)
        if (self.offsets[found] != offsets).any():
            raise Fault(f"program {Running.place} {what} {self.name} beside its elements")
        return found

    def load(self, offsets: Any, mask: Any, other: Any, volatile: bool) -> Any:
        wanted = self.find(offsets[mask], "reads")
        if not volatile and not self.written[wanted].all():
            raise Fault(f"program {Running.place} reads {self.name} where nothing was written")
        found = np.empty(offsets.shape, object)
        found.fill(other)
        found[mask] = self.cells[wanted]
        # a program that asks the same again has looped: nothing changes while it runs
        question = (self.name, wanted.tobytes(), mask.tobytes()) if volatile else None
        if volatile and question == Running.question and not self.written[wanted].all():
            raise Waiting
        Running.question = question
        return found

    def store(self, offsets: Any, mask: Any, values: Any) -> None:
        Running.question = None
        where = self.find(offsets[mask], "writes")
        if not self.writable:
            raise Fault(f"program {Running.place} writes to {self.name}")
        # a program that is tried again writes the same again
        others = (self.writer[where] != NOBODY) & (self.writer[where] != Running.number)
        if others.any() or (self.attempt[where] == Running.attempt).any() or len(np.unique(where)) < len(where):
            raise Fault(f"program {Running.place} writes to a place of {self.name} that is written twice")
        Running.news += int((~self.written[where]).sum())
        self.cells[where] = values[mask]
        self.written[where], self.writer[where], self.attempt[where] = True, Running.number, Running.attempt


class Pointer:
    """A memory and, once something is added, offsets into it."""

    def __init__(self, memory: Memory, offsets: Any = 0) -> None:
        self.memory, self.offsets = memory, offsets
        self.dtype = SimpleNamespace(element_ty=memory.dtype)

    def __add__(self, offset: Any) -> "Pointer":
        return Pointer(self.memory, offset + self.offsets)

    def spread(self, mask: Any) -> tuple[Any, Any]:
        """Offsets and mask of one shape."""
        offsets = self.offsets.data if isinstance(self.offsets, Tensor) else np.asarray(self.offsets)
        if mask is None:
            return offsets, np.ones(offsets.shape, bool)
        if mask.data.ndim != offsets.ndim:
            raise Fault(f"a mask of shape {mask.shape} for offsets of shape {offsets.shape}")
        shape = np.broadcast_shapes(offsets.shape, mask.data.shape)
        return np.broadcast_to(offsets, shape), np.broadcast_to(mask.data, shape)


def run_programs(program: Callable[[], Any], grid: Sequence[int], last_first: bool = False) -> None:
    """Runs one program for every place in the grid."""
    places = [place[::-1] for place in itertools.product(*(range(size) for size in reversed(grid)))]
    left = list(enumerate(places))
    if last_first:
        left.reverse()
    for attempt in itertools.count():
        waiting, news = [], Running.news
        for number, place in left:
            Running.place, Running.number, Running.attempt, Running.question = place, number, attempt, None
            try:
                program()
            except Waiting:
                if not last_first:
                    raise Fault(f"program {place} waits for a word that none before it writes: a deadlock") from None
                waiting.append((number, place))
        if not waiting:
            return
        if len(waiting) == len(left) and news == Running.news:
            raise Fault(f"programs {[place for _, place in waiting]} wait for each other: a deadlock")
        left = waiting
