"""The two claims that every estimator's file makes: it is its definition, and it uses what its definition uses."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlscan.engine.spec import Role, Spec

from .registry import Case, Cases
from .scan import scan
from .symbolic import UNDEFINED, Reals
from .window import Window, windows

EVERY_PATTERN = (
    "every pattern of none, terminated, truncated, both; every choice of bootstrap; γ, λ per step or one number"
)
EVERY_CHOICE = "every flag pattern and choice of bootstrap"
UNDEFINED_IN_TURN = "one value undefined, each in turn; T ≤ 2 with a weight of exactly 0 or 1 besides"
BUT_THE_CARRYS = f"{UNDEFINED_IN_TURN}; but for a weight at T-1 that meets the carry"

Definition = Callable[[Window], list[tuple[Any, ...]]]


def agree(window: Window, left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> Cases:
    """Two lists of results over a window, step by step and result by result."""
    for t, (one, other) in enumerate(zip(left, right, strict=True)):
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            yield Case((window, f"result {k} at step {t}"), a, b)


def against(definition: Definition, spec: Spec, steps: int, **fixed: Any) -> Cases:
    """The specification, run as the engine runs it, against a definition: every window of up to `steps` steps."""
    for window in windows(spec, steps=steps, **fixed):
        yield from agree(window, scan(spec, window), definition(window))


def with_undefined(
    definition: Definition,
    spec: Spec,
    steps: int,
    folding: Mapping[str, Any] | None = None,
    *,
    special_steps: int = 2,
    carry_weights: tuple[str, ...] = (),
    **fixed: Any,
) -> Cases:
    """The same with one value undefined, each in turn: a result is undefined exactly where the definition uses it. In
    windows of up to `special_steps` steps also with one weight besides that is exactly 0 or 1, each in turn.

    `carry_weights` multiply the carry where the window ends inside an episode: undefined there, they are left out.
    """
    for window in windows(spec, steps=steps, one_number=False, **fixed):
        for special in (window, *(with_special_weight(spec, window) if special_steps >= window.T else ())):
            for where, undefined in each_undefined(spec, special, carry_weights):
                for case in agree(undefined, scan(spec, undefined, **(folding or {})), definition(undefined)):
                    yield case._replace(where=(f"{where} undefined", *case.where))


def with_special_weight(spec: Spec, window: Window) -> Iterator[Window]:
    """The window with each weight of each step exactly 0, then 1, and each ratio 0, in turn."""
    special = {Role.WEIGHT: (0, 1), Role.RATIO: (Reals.log(0),)}
    for argument in spec.arguments:
        if argument.name in window.arguments:
            for t, value in itertools.product(range(window.T), special.get(argument.role, ())):
                yield window.at(argument.name, t, value)


def each_undefined(spec: Spec, window: Window, carry_weights: tuple[str, ...]) -> Iterator[tuple[str, Window]]:
    cut_inside = not any(window.flag(name, window.T - 1) for name in ("terminated", "truncated"))
    for argument in spec.arguments:
        name = argument.name
        if name not in window.arguments or argument.role in (Role.FLAG, Role.NUMBER):
            continue
        if not isinstance(window.arguments[name], list):
            yield name, window.but(**{name: UNDEFINED})
            continue
        for t in range(window.T):
            if name not in carry_weights or not cut_inside or t < window.T - 1:
                value = window[name, t]
                undefined = [UNDEFINED, *value[1:]] if isinstance(value, list) else UNDEFINED
                yield f"{name}[{t}]", window.at(name, t, undefined)
