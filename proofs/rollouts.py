"""A batch of windows as a public function is given it: every boundary pattern a row, every entry a symbol of its row.

The symbols of two rows cannot meet in an expression; those of numbers that the whole call shares meet them all.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlscan.engine.spec import Argument, Role, Spec

from .symbolic import UNDEFINED, Log, Symbols
from .window import Window

NUMBER, CELL, GIVEN = "number", "cell", "given"  # one value for the call, as a number or in memory; or in full
DEFAULT_ACTIONS = 2
WITH_FEATURES = (Role.DATA, Role.REWARD, Role.BETA)


@dataclass(frozen=True)
class Call:
    """What is called: the arguments left out, those given as one value for all rows, sizes, and which patterns."""

    steps: int
    absent: tuple[str, ...] = ()
    single: tuple[tuple[str, str], ...] = ()  # (argument, NUMBER or CELL)
    features: int = 0
    actions: int = DEFAULT_ACTIONS
    every_pattern: bool = True
    infinite: tuple[str, ...] = ()  # clips that are not there
    undefined: tuple[str, ...] = ()  # where not empty, every pattern is a row for each entry of these: undefined there

    def form(self, argument: Argument) -> str:
        return NUMBER if argument.role is Role.NUMBER else dict(self.single).get(argument.name, GIVEN)


class Rollouts:
    """The call's arguments by name, as arrays [N, T, ...] of symbols or single values, and a window for every row."""

    def __init__(self, spec: Spec, call: Call) -> None:
        self.spec, self.call = spec, call
        self.arguments = [a for a in spec.arguments if a.name not in call.absent]
        self.actions = call.actions if any(a.name == "next_policy" for a in self.arguments) else 0
        self.patterns = [(pattern, hole) for pattern in patterns(spec, call) for hole in self.holes()]
        self.rows, self.columns = len(self.patterns), max(call.features, 1)
        single = [a.name for a in self.arguments if call.form(a) != GIVEN]
        self.numbers = Symbols([*single, *(f"min({name}, 1)" for name in single)])
        clips = [a.name for a in self.arguments if a.role is Role.NUMBER]
        self.values: dict[str, Any] = {}
        for a in self.arguments:
            if call.form(a) == GIVEN:
                self.values[a.name] = np.empty((self.rows, *self.row_shape(a)), object)
            else:
                self.values[a.name] = float("inf") if a.name in call.infinite else self.numbers[a.name]
        for n, (pattern, hole) in enumerate(self.patterns):
            given = [a for a in self.arguments if call.form(a) == GIVEN and a.name not in pattern]
            places = [(a, place) for a in given for place in np.ndindex(self.row_shape(a))]
            names = [f"{a.name}[{', '.join(map(str, (n, *place)))}]" for a, place in places]
            ratios = [name for (a, _), name in zip(places, names, strict=True) if a.role is Role.RATIO]
            symbols = Symbols(
                [*names, *(f"min({clip}, {ratio})" for ratio in ratios for clip in clips)],
                self.numbers if single else None,
            )
            for (a, place), name in zip(places, names, strict=True):
                value = Log(symbols[name]) if a.role is Role.RATIO else symbols[name]
                self.values[a.name][(n, *place)] = value
                zeros = pattern.get(f"zeros of {a.name}")
                if zeros and zeros[place[0]]:
                    self.values[a.name][(n, *place)] = 0
                if hole == (a.name, place):
                    self.values[a.name][(n, *place)] = UNDEFINED
            for name, flags in pattern.items():
                if name in self.values:
                    self.values[name][n] = flags
        self.symbols = symbols

    def holes(self) -> list[Any]:
        """The entries that are undefined in turn; None where nothing is."""
        undefined = [a for a in self.arguments if a.name in self.call.undefined]
        return [(a.name, place) for a in undefined for place in np.ndindex(self.row_shape(a))] or [None]

    def row_shape(self, argument: Argument) -> tuple[int, ...]:
        features = (self.call.features,) if self.call.features else ()
        if argument.role is Role.ROW:
            return features
        if argument.role is Role.ACTIONS and self.actions:
            return (self.call.steps, self.actions)
        return (self.call.steps, *(features if argument.role in WITH_FEATURES else ()))

    def window(self, n: int, feature: int) -> Window:
        """Row n (and one of its features) as the definitions read it."""
        arguments: dict[str, Any] = {}
        for a in self.arguments:
            value = self.values[a.name]
            if isinstance(value, np.ndarray):
                value = value[n]
                if self.call.features and a.role in (*WITH_FEATURES, Role.ROW):
                    value = value[..., feature]
                value = value.tolist() if isinstance(value, np.ndarray) else value
            arguments[a.name] = value
        return Window(self.call.steps, arguments, self.symbols)

    def windows(self) -> Iterator[tuple[int, int, Window]]:
        for n, feature in itertools.product(range(self.rows), range(self.columns)):
            yield n, feature, self.window(n, feature)


def patterns(spec: Spec, call: Call) -> Iterator[Mapping[str, Sequence[bool]]]:
    """Flags by argument, a list over the steps; for bare coefficients where β is 0."""
    names = [a.name for a in spec.arguments if a.role is Role.FLAG and a.name not in call.absent]
    names = names or [f"zeros of {a.name}" for a in spec.arguments if a.role is Role.BETA]
    if call.every_pattern:
        for bits in itertools.product((False, True), repeat=call.steps * len(names)):
            yield {name: bits[k :: len(names)] for k, name in enumerate(names)}
        return
    kinds = [bits for bits in itertools.product((False, True), repeat=len(names)) if any(bits)]
    for t in range(-1, call.steps):  # none, and one of every kind in turn
        yield {name: [k == t and kinds[t % len(kinds)][j] for k in range(call.steps)] for j, name in enumerate(names)}
    yield {name: [kinds[k % len(kinds)][j] for k in range(call.steps)] for j, name in enumerate(names)}


@functools.lru_cache(maxsize=8)
def rollouts(spec: Spec, call: Call) -> Rollouts:
    return Rollouts(spec, call)
