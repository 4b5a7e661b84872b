"""Episode boundaries: V'_t, end_t and the flag conventions. Nothing else in the project decides what a boundary means.

Flags sit on the step that ends. `terminated_t`: the MDP ended at s_{t+1}, whose value is 0. `truncated_t`: the episode
was cut, and s_{t+1} has a value that is not in the buffer. Both set: termination wins.
"""

from typing import NamedTuple

import torch

from .engine.checks import check_tensor, time_axis
from .engine.spec import Argument, Kind, Role, Slot
from .language import jit, tl


@jit
def successor_value(value_next, terminated, truncated, truncation_value, is_last, last_value):
    """V'_t: 0 where terminated, else the truncation value where truncated, else the window's last value at T-1,
    else V_{t+1}.
    """
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
        starts: [T], [N, T] or (time_dim=0) [T, N]; bool, uint8 or floating; nonzero where step t is the first of an
            episode.
        last_done: [N] (or a bool for all rows): whether the last step of the window ended its episode.
        time_dim: -1 or 1 for [N, T], 0 or -2 for [T, N].

    Returns:
        A bool tensor of the shape of `starts`.

    Raises:
        ValueError: wrong rank, or `last_done` of another shape than [N] or on another device.
        TypeError: a dtype or type that does not fit.

    >>> ends_from_starts(torch.tensor([[1.0, 0, 1, 0]]), torch.tensor([True]))
    tensor([[False,  True, False,  True]])
    """
    check_tensor("starts", starts, Role.FLAG)
    axis = time_axis(starts.ndim, time_dim)
    flags = (starts != 0).movedim(axis, -1)
    rows = flags.shape[:-1]
    if isinstance(last_done, bool):
        last_done = flags.new_full(rows, last_done)
    check_tensor("last_done", last_done, Role.FLAG)
    if last_done.shape != rows:
        raise ValueError(f"last_done has shape {list(last_done.shape)}; it should be {list(rows)}, one flag a row")
    if last_done.device != starts.device:
        raise ValueError(f"last_done is on {last_done.device}; it should be on {starts.device}, as starts is")
    last = (last_done != 0).unsqueeze(-1)
    ends = torch.cat([flags[..., 1:], last], -1) if flags.shape[-1] else flags
    return ends.movedim(-1, axis)


class NextStepAutoreset(NamedTuple):
    """A next-step autoreset rollout in the flags that every estimator takes; see `next_step_autoreset`."""

    terminated: torch.Tensor
    truncated: torch.Tensor
    valid: torch.Tensor
    truncation_values: torch.Tensor | None
    last_done: torch.Tensor


def next_step_autoreset(
    terminated: torch.Tensor,
    truncated: torch.Tensor,
    *,
    previous_done: torch.Tensor | bool,
    values: torch.Tensor | None = None,
    last_values: torch.Tensor | float | None = None,
    time_dim: int = -1,
) -> NextStepAutoreset:
    """Flags and bootstraps of a rollout whose environments reset on the step after an end.

    Under next-step autoreset (Gymnasium's `AutoresetMode.NEXT_STEP`) the step after an end is no transition: its
    action is ignored, its reward is 0, its flags are clear, and it leads from the final observation to the first one
    of the next episode. So where step t ends, s_{t+1} *is* in the buffer, as the observation of the reset row t+1:

        reset_t = end_{t-1}, reset_0 = previous_done        V(s_{t+1}) = values[t+1], at T-1 last_values

    A reset row becomes an episode of its own, by a termination there: nothing enters it, nothing leaves it and it
    bootstraps from nothing, in backward and forward estimators alike. Its own result means nothing: `valid` is False
    there, and losses and statistics leave it out. Every other row keeps its flags.

    Args:
        terminated: as the environment gave it, t in [0, T): [N, T], [T], or [T, N] with time_dim=0; bool, uint8 or
            floating. Both flags have to be clear on reset rows, as autoreset leaves them.
        truncated: as the environment gave it, of the same shape.
        previous_done: whether the step before the window ended, which makes row 0 a reset row: [N], or a bool for all
            rows. False for a window that starts at `reset()`, then the `last_done` returned for the window before.
        values: V(s_t) for t in [0, T), of the flags' shape or with trailing features [N, T, F]. Optional.
        last_values: V(s_T), a number or [N] ([N, F]). Required with `values`.
        time_dim: -1 or 1 for [N, T], 0 or -2 for [T, N].

    Returns:
        terminated, truncated: bool, to hand to an estimator with `truncation_values`.
        valid: bool, True on real transitions.
        truncation_values: V(s_{t+1}) for t in [0, T), of the shape of `values`, or None without them.
        last_done: bool [N], whether the last step of the window ended; the next window's `previous_done`.

    Raises:
        ValueError: a shape, device or time_dim that does not fit, or only one of `values` and `last_values`.
        TypeError: a dtype or type that does not fit.

    >>> terminated = torch.tensor([[False, True, False, False, False]])
    >>> step = next_step_autoreset(terminated, torch.zeros_like(terminated), previous_done=False)
    >>> step.valid
    tensor([[ True,  True, False,  True,  True]])
    >>> step.terminated
    tensor([[False,  True,  True, False, False]])
    """
    check_tensor("terminated", terminated, Role.FLAG)
    time, shape = time_axis(terminated.ndim, time_dim), tuple(terminated.shape)
    rows = shape[:time] + shape[time + 1 :]

    def check(name: str, x: torch.Tensor, role: Role, wanted: tuple[int, ...]) -> None:
        check_tensor(name, x, role)
        if x.shape not in (wanted, () if role is Role.ROW else wanted):
            raise ValueError(f"{name} has shape {list(x.shape)}; it should be {list(wanted)}")
        if x.device != terminated.device:
            raise ValueError(f"{name} is on {x.device}; it should be on {terminated.device}, as terminated is")

    if isinstance(previous_done, bool):
        previous_done = terminated.new_full(rows, previous_done, dtype=torch.bool)
    check("truncated", truncated, Role.FLAG, shape)
    check("previous_done", previous_done, Role.FLAG, rows)
    ended, cut = terminated != 0, truncated != 0
    ends_before = torch.cat([(previous_done != 0).unsqueeze(time), ended | cut], time)  # end_{t-1} for t in [0, T]
    reset = ends_before.narrow(time, 0, shape[time])

    if (values is None) != (last_values is None):
        missing, given = ("values", "last_values") if values is None else ("last_values", "values")
        raise ValueError(f"{missing} is missing: it is needed, because {given} is given")
    successors = None
    if values is not None and last_values is not None:
        check_tensor("values", values, Role.DATA)
        features = tuple(values.shape[len(shape) :])
        check("values", values, Role.DATA, shape + features)
        if isinstance(last_values, float | int):
            last_values = values.new_full((), last_values)
        check("last_values", last_values, Role.ROW, rows + features)
        last = last_values.to(values.dtype).expand(rows + features).unsqueeze(time)
        successors = torch.cat([values, last], time).narrow(time, 1, shape[time])
    return NextStepAutoreset(ended | reset, cut, ~reset, successors, ends_before.select(time, shape[time]))
