"""A call like the one before, as straight-line Python of its own: nothing is looked up that does not change."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .plan import Plan

Shortcut = Callable[[tuple[Any, ...], int], tuple[torch.Tensor, ...] | None]
SOURCE = """
def shortcut(arguments, time_dim):
    {arguments} = arguments
    if not (time_dim is TIME_DIM and {types} and plan.matches({tensors}) and forced() is WISH and is_direct()):
        return None
    {addresses} = {take_addresses}
    if ({bits}) & 15 or not ({all}):
        return None
    {results} = {allocate}
    {meet}
    launch(X, Y, Z, stream(INDEX), *HEAD, {inputs}{policy}, {words}, *CONSTANTS)
    return {results}
"""


def shortcut(plan: "Plan", forced: Callable[[], Any]) -> Shortcut | None:
    """A function of a call's arguments (without `out`) and time_dim: its results, or None if the call is another.

    None where more is left to do than to check, to allocate and to launch.
    """
    launch, count = plan.launch, plan.spec.result_count
    if not plan.aligned or launch.compiled is None or plan.other_numbers:
        return None
    flat = launch.flat()
    launcher, constants = flat or (launch.compiled, launch.constants)
    tensors = plan.positions
    address = {k: f"p{k}" for k in tensors} | {-1: "0"}
    slots = listed(address.get(k, f"a{k}") for k in launch.sources)
    targets = listed(f"r{k}.data_ptr()" for k in range(count))
    meet, words = ("words = meeting_place()", "words.data_ptr()") if launch.words else ("", "0")
    source = SOURCE.format(
        arguments=listed(f"a{k}" for k in range(plan.count)),
        types=" and ".join(f"type(a{k}) is T{k}" for k in range(plan.count) if k not in tensors) or "True",
        tensors=listed(f"a{k}" for k in tensors),
        addresses=listed(f"p{k}" for k in tensors),
        take_addresses=listed(f"a{k}.data_ptr()" for k in tensors),
        bits=" | ".join(f"p{k}" for k in tensors),
        all=" and ".join(f"p{k}" for k in tensors),  # of an address of 0 there is no memory
        results=listed(f"r{k}" for k in range(count)),
        allocate=listed("new()" for _ in range(count)),
        meet=meet,
        words=words,
        inputs=f"{slots}{targets}" if flat else f"({slots}), ({targets}), ",
        policy=address[launch.policy],
    )
    names: dict[str, Any] = {f"T{k}": kind for k, kind in enumerate(plan.types)}
    names |= {"plan": plan, "TIME_DIM": plan.time_dim, "WISH": plan.wish, "forced": forced, "new": plan.new}
    names |= {"is_direct": launch.is_direct, "stream": launch.current_stream, "INDEX": launch.index}
    names |= {"launch": launcher, "HEAD": launch.head, "CONSTANTS": constants, "meeting_place": launch.meeting_place}
    names |= dict(zip("XYZ", launch.grid, strict=True))
    exec(compile(source, "<shortcut of rlscan>", "exec"), names)
    made: Shortcut = names["shortcut"]
    return made


def listed(parts: Iterable[str]) -> str:
    """The parts as they stand in a tuple or a call."""
    return "".join(f"{part}, " for part in parts)
