"""What an estimator tells the engine: its slots (what one step reads), its coefficients and its outputs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import zip_longest
from typing import Any

import torch


class Kind(IntEnum):
    """How a slot is read at step t. The kernel compiles one load per kind; the numbers are its constants."""

    VALUE = 0  # argument[n, t]
    NEXT = 1  # argument[n, t + 1]; 0 at t = T - 1
    FLAG = 2  # argument[n, t] != 0
    PREVIOUS_FLAG = 3  # argument[n, t - 1] != 0; False at t = 0
    ROW = 4  # argument[n]
    CELL = 5  # a 0-d tensor
    SCALAR = 6  # a Python number
    LAST = 7  # t == T - 1
    EXPECTATION = 8  # sum over a of policy[n, t, a] * argument[n, t, a]
    NO_VALUE = 9  # the argument was not given: 0.0
    NO_FLAG = 10  # the argument was not given: False
    FINAL = 11  # argument[n, T - 1]; for the carry only
    SHIFTED = 12  # NEXT of an argument that an earlier slot reads as a VALUE (the engine's own; SHIFTED + its position)
    ALIAS = 32  # the slot that `argument` names, read once (ALIAS + its position in the kernel)


@dataclass(frozen=True)
class Slot:
    """One operand of the coefficient function, in the order of its parameters."""

    name: str
    kind: Kind
    argument: str = ""


class Role(IntEnum):
    """What an argument of a public function may be; S is the flags' shape [N, T] or [T],
    F are trailing feature dimensions.
    """

    DATA = 0  # floating tensor [S, F]
    REWARD = 1  # floating or integer tensor [S, F]
    RATIO = 2  # floating tensor [S]
    FLAG = 3  # bool, uint8 or floating tensor [S]
    ROW = 4  # number or floating tensor [N, F]
    WEIGHT = 5  # number, 0-d tensor or floating tensor [S]
    ACTIONS = 6  # floating tensor [S, A]
    BETA = 7  # floating tensor [S, F] or [S]
    NUMBER = 8  # number


@dataclass(frozen=True)
class Argument:
    name: str
    role: Role
    required: bool = True


@dataclass(frozen=True, eq=False)
class Spec:
    """One estimator: x_t = alpha_t + beta_t · x_{t+1} (reverse) or x_{t-1} (forward), and what is made of x."""

    name: str
    arguments: tuple[Argument, ...]
    slots: Callable[[frozenset[str]], tuple[Slot, ...]]  # names of the arguments given → slots, the carry last
    coefficients: Any  # jit: (*slots) → (alpha, beta)
    outputs: Any  # jit: (x, x one step behind, *slots) → one tuple of results
    reverse: bool = True
    result_count: int = 1
    features: bool = True  # trailing feature dimensions make sense

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.arguments)

    def tensors(self, arguments: Sequence[Any]) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors among the arguments, and what an error calls each; those of `out` stand last."""
        for name, value in zip_longest(self.names, arguments, fillvalue="out"):
            if isinstance(value, torch.Tensor):
                yield name, value
