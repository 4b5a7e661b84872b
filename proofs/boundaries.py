"""What a boundary means: V'_t by precedence, the reset at an end, and the two flag conventions.

Holds over the exact reals and booleans (nothing here rounds). Sampled: windows of up to 6 steps for the conversion of
flags; the rest is every combination there is.
"""

import itertools
from typing import Any

import torch

from rlscan.boundaries import ends_from_starts, successor_value, unless_ended
from rlscan.prefix_sum import SPECS

from .claims import agree
from .registry import Case, Cases, Twin, statement
from .scan import read, scan
from .symbolic import UNDEFINED, Symbols
from .twins import multiplying_successor
from .window import Window

SYMBOLS = Symbols(["value_next", "truncation_value", "last_value", "initial", *(f"x_{t}" for t in range(6))])
BOOLS = (False, True)


def truncation_wins(value_next: Any, terminated: bool, truncated: bool, *rest: Any) -> Any:
    return read(successor_value)(value_next, terminated and not truncated, truncated, *rest)


@statement(
    scope="every combination of terminated, truncated and last step; the values that do not count undefined",
    twins=(
        Twin("truncation wins over termination", successor=truncation_wins),
        Twin("it multiplies by zero", successor=multiplying_successor),
    ),
)
def the_successor_value_follows_the_precedence(successor: Any = successor_value) -> Cases:
    """V' is 0 where terminated, else the truncation value where truncated, else the last value at T-1, else V_{t+1}."""
    for terminated, truncated, is_last in itertools.product(BOOLS, repeat=3):
        rules = {
            "zero": terminated,
            "truncation_value": truncated,
            "last_value": is_last,
            "value_next": True,
        }
        first = next(name for name, applies in rules.items() if applies)
        values = {name: SYMBOLS[name] if name == first else UNDEFINED for name in rules if name != "zero"}
        found = read(successor)(
            *(values["value_next"], terminated, truncated, values["truncation_value"], is_last, values["last_value"])
        )
        yield Case((terminated, truncated, is_last), found, values.get(first, 0))


@statement(
    scope="every combination of the flags; the weight undefined at an end",
    twins=(Twin("truncation does not end", ended=lambda weight, terminated, _: 0 if terminated else weight),),
)
def nothing_behind_an_end_has_a_weight(ended: Any = unless_ended) -> Cases:
    """The weight of what lies behind step t is 0 where either flag is set, and unchanged elsewhere."""
    for terminated, truncated in itertools.product(BOOLS, repeat=2):
        ends = terminated or truncated
        weight = UNDEFINED if ends else SYMBOLS["value_next"]
        yield Case((terminated, truncated), read(ended)(weight, terminated, truncated), 0 if ends else weight)


def every_pattern(T: int) -> list[list[bool]]:
    return [list(pattern) for pattern in itertools.product(BOOLS, repeat=T)]


def unshifted(starts: torch.Tensor, last_done: Any, time_dim: int = -1) -> torch.Tensor:
    return starts != 0


def without_last(starts: torch.Tensor, last_done: Any, time_dim: int = -1) -> torch.Tensor:
    return ends_from_starts(starts, False, time_dim=time_dim)


CONVERSIONS = (Twin("flags stay where they are", convert=unshifted),)


@statement(
    scope="T ≤ 6, every pattern and both values of last_done, both layouts",
    over="booleans",
    twins=(*CONVERSIONS, Twin("last_done is lost", convert=without_last)),
)
def ends_from_starts_is_exact(convert: Any = ends_from_starts) -> Cases:
    """end_t = start_{t+1}, and end_{T-1} = last_done."""
    for T, last in itertools.product(range(1, 7), BOOLS):
        starts = every_pattern(T)
        rows = torch.tensor(starts)
        done = torch.full((len(starts),), last)
        expected = [[*row[1:], last] for row in starts]
        yield Case((T, last, "[N, T]"), convert(rows, done).tolist(), expected)
        yield Case((T, last, "[T, N]"), convert(rows.T, done, time_dim=0).T.tolist(), expected)
        yield Case((T, last, "a bool"), convert(rows, last).tolist(), expected)
        for row, ends in zip(starts, expected, strict=True):
            yield Case((T, last, row), convert(torch.tensor(row), last).tolist(), ends)


@statement(
    scope="T ≤ 6, every pattern, symbolic inputs; the carry 0 where step 0 begins an episode (ends_at flags cannot)",
    twins=(*CONVERSIONS, Twin("the carry enters an episode that begins at step 0", carried=True)),
)
def both_flag_conventions_give_the_same_sums(convert: Any = ends_from_starts, carried: bool = False) -> Cases:
    """prefix_sum with starts_at flags is prefix_sum with the ends_at flags that ends_from_starts makes of them."""
    for T in range(1, 7):
        for starts, last in itertools.product(every_pattern(T), BOOLS):
            ends = convert(torch.tensor(starts), last).tolist()
            initial = SYMBOLS["initial"] if carried or not starts[0] else 0
            window = Window(T, {"inputs": [SYMBOLS[f"x_{t}"] for t in range(T)], "initial": initial}, SYMBOLS)
            yield from agree(
                window,
                scan(SPECS["starts_at"], window.but(ends=starts)),
                scan(SPECS["ends_at"], window.but(ends=ends)),
            )
