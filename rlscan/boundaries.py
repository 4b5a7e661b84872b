"""Episode boundaries: V'_t, end_t and the flag conventions. Nothing else in the project decides what a boundary means.

Flags sit on the step that ends. `terminated_t`: the MDP ended at s_{t+1}, whose value is 0. `truncated_t`: the episode was cut, and
s_{t+1} has a value that is not in the buffer. Both set: termination wins.
"""

import torch

from .language import jit, tl
from .engine.checks import time_axis
from .engine.spec import Argument, Kind, Role, Slot


@jit
def successor_value(value_next, terminated, truncated, truncation_value, is_last, last_value):
    """V'_t: 0 where terminated, else the truncation value where truncated, else the window's last value at T-1, else V_{t+1}."""
    value = tl.where(is_last, last_value, value_next)
    value = tl.where(truncated, truncation_value, value)
    return tl.where(terminated, 0.0, value)


@jit
def unless_ended(weight, terminated, truncated):
    """The weight of what lies behind step t: 0 where the episode ends at t, by either flag."""
    return tl.where(terminated | truncated, 0.0, weight)


SUCCESSOR_ARGUMENTS = (
    Argument("terminated", Role.FLAG),
    Argument("truncated", Role.FLAG, required=False),
    Argument("last_values", Role.ROW, required=False),
    Argument("truncation_values", Role.DATA, required=False),
    Argument("next_values", Role.DATA, required=False),
)


def successor_slots(given: frozenset[str], values: str | None = "values") -> tuple[Slot, ...]:
    """The slots of `successor_value`, in its order. `next_values` replaces the last three rules at every step."""
    flags = (Slot("terminated", Kind.FLAG, "terminated"), Slot("truncated", Kind.FLAG, "truncated"))
    if "next_values" in given:
        return (
            Slot("value_next", Kind.VALUE, "next_values"),
            *flags,
            Slot("truncation_value", Kind.ALIAS, "value_next"),
            Slot("is_last", Kind.NO_FLAG),
            Slot("last_value", Kind.NO_VALUE),
        )
    return (
        Slot("value_next", Kind.NEXT, values) if values else Slot("value_next", Kind.NO_VALUE),
        *flags,
        Slot("truncation_value", Kind.VALUE, "truncation_values"),
        Slot("is_last", Kind.LAST),
        Slot("last_value", Kind.ROW, "last_values"),
    )


def final_value(given: frozenset[str]) -> Slot:
    """V'_{T-1} as the carry behind the window."""
    if "next_values" in given:
        return Slot("carry", Kind.FINAL, "next_values")
    return Slot("carry", Kind.ROW, "last_values")


def ends_from_starts(starts: torch.Tensor, last_done: torch.Tensor | bool, *, time_dim: int = -1) -> torch.Tensor:
    """Flags on the first step of an episode, turned into flags on the step that ends one.

    end_t = start_{t+1} for t < T-1, and end_{T-1} = last_done: whether the step after the window begins an episode.

    Args:
        starts: [T], [N, T] or (time_dim=0) [T, N]; bool, uint8 or floating; nonzero where step t is the first of an episode.
        last_done: [N] (or a bool for all rows): whether the last step of the window ended its episode.
        time_dim: -1 or 1 for [N, T], 0 or -2 for [T, N].

    Returns:
        A bool tensor of the shape of `starts`.

    Raises:
        ValueError: wrong rank, or `last_done` of another shape than [N].

    >>> ends_from_starts(torch.tensor([[1, 0, 1, 0]]), torch.tensor([True]))
    tensor([[False,  True, False,  True]])
    """
    axis = time_axis(starts.ndim, time_dim)
    flags = (starts != 0).movedim(axis, -1)
    if isinstance(last_done, torch.Tensor):
        if last_done.shape != flags.shape[:-1]:
            raise ValueError(
                f"last_done has shape {list(last_done.shape)}; it should be {list(flags.shape[:-1])}, one flag a row"
            )
        last = (last_done != 0).unsqueeze(-1)
    else:
        last = flags.new_full((*flags.shape[:-1], 1), bool(last_done))
    ends = torch.cat([flags[..., 1:], last], -1) if flags.shape[-1] else flags
    return ends.movedim(-1, axis)
