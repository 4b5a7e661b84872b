"""A symbolic window of one row: its arguments, and every window of a length that an estimator may be given.

Rows do not meet in the arithmetic: one is enough. Sampled: two actions, where there are action values.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from rlscan.engine.spec import Role, Spec

from .symbolic import Log, Symbols

ACTIONS = 2
ONE_VALUE = (Role.ROW, Role.NUMBER, Role.WEIGHT)  # may be given as one value for the whole row


@dataclasses.dataclass(frozen=True, repr=False)
class Window:
    """One row of T steps. An argument is a list over its steps, or one value; what was not given is absent."""

    T: int
    arguments: Mapping[str, Any]
    symbols: Symbols

    def __getitem__(self, place: tuple[str, int]) -> Any:
        """The argument at step t; the one value at every step."""
        value = self.arguments[place[0]]
        return value[place[1]] if isinstance(value, list) else value

    def flag(self, name: str, t: int) -> bool:
        return name in self.arguments and bool(self[name, t])

    def but(self, **changes: Any) -> "Window":
        """The window with other arguments; None takes one away."""
        arguments = {name: x for name, x in {**self.arguments, **changes}.items() if x is not None}
        return dataclasses.replace(self, arguments=arguments)

    def at(self, name: str, t: int, value: Any) -> "Window":
        """The window with another value at one step."""
        return self.but(**{name: [value if k == t else self[name, k] for k in range(self.T)]})

    def __repr__(self) -> str:
        marks = []
        for t in range(self.T):
            flags = (name for name in self.arguments if isinstance(self[name, t], bool) and self[name, t])
            marks.append("+".join(flags) or "-")
        data = [name for name in self.arguments if not isinstance(self[name, 0], bool)]
        return f"T={self.T} [{' '.join(marks)}] given {', '.join(data)}"


def windows(*specs: Spec, steps: int, one_number: bool = True, **fixed: Any) -> Iterator[Window]:
    """Every window of 1 to `steps` steps for the arguments of the specifications: every flag pattern, every choice of
    the optional arguments, weights per step and, if `one_number`, as one number; all values symbols. `fixed` are values
    for arguments by name, the same at every step; None for absent.
    """
    arguments = {argument.name: argument for spec in specs for argument in spec.arguments}
    fixed_roles = {name: arguments.pop(name).role for name in fixed}
    optional = [name for name, argument in arguments.items() if not argument.required]
    one_number = one_number and any(argument.role is Role.WEIGHT for argument in arguments.values())
    for T in range(1, steps + 1):
        present = {
            name: value if fixed_roles[name] in ONE_VALUE else [value] * T
            for name, value in fixed.items()
            if value is not None
        }
        symbols = _symbols(tuple((name, argument.role) for name, argument in arguments.items()), T)
        for bits in itertools.product((True, False), repeat=len(optional)):
            absent = {name for name, bit in zip(optional, bits, strict=True) if not bit}
            names = arguments.keys() - absent
            if not _may_be_given(names | present.keys(), {*arguments, *fixed}):
                continue
            flags = [name for name in arguments if name in names and arguments[name].role is Role.FLAG]
            for per_step in (True, False) if one_number else (True,):
                values = {
                    name: _values(name, arguments[name].role, T, symbols, per_step, "next_policy" in names)
                    for name in arguments
                    if name in names
                }
                for pattern in itertools.product((False, True), repeat=T * len(flags)):
                    for k, name in enumerate(flags):
                        values[name] = list(pattern[k :: len(flags)])
                    yield Window(T, {**values, **present}, symbols)


def _may_be_given(names: set[str], known: set[str]) -> bool:
    """What the public functions demand of the optional arguments."""
    if {"next_values", "truncation_values"} <= names:
        return False
    if "last_values" in known and not {"last_values", "next_values"} & names:
        return False
    return (
        "truncation_values" not in known
        or "truncated" not in names
        or bool({"next_values", "truncation_values"} & names)
    )


def _symbols(arguments: tuple[tuple[str, Role], ...], T: int) -> Symbols:
    names: list[str] = []
    clips = [name for name, role in arguments if role is Role.NUMBER]
    for name, role in arguments:
        if role in ONE_VALUE:
            names.append(name)
        if role is Role.NUMBER:
            names.append(f"min({name}, 1)")
        if role in (Role.ROW, Role.NUMBER, Role.FLAG):
            continue
        for t in range(T):
            names.append(f"{name}_{t}")
            if role is Role.RATIO:
                names += [f"min({clip}, {name}_{t})" for clip in clips]
            if role is Role.ACTIONS:
                names += [f"{name}_{t}_{a}" for a in range(ACTIONS)]
    return Symbols(names)


def _values(name: str, role: Role, T: int, symbols: Symbols, per_step: bool, with_policy: bool) -> Any:
    if role in (Role.ROW, Role.NUMBER) or (role is Role.WEIGHT and not per_step):
        return symbols[name]
    if role is Role.RATIO:
        return [Log(symbols[f"{name}_{t}"]) for t in range(T)]
    if role is Role.ACTIONS and with_policy:
        return [[symbols[f"{name}_{t}_{a}"] for a in range(ACTIONS)] for t in range(T)]
    return [] if role is Role.FLAG else [symbols[f"{name}_{t}"] for t in range(T)]
