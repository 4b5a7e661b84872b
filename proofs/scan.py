"""What the engine makes of a window when it follows a specification, on symbols.

`scan` reads `Spec.slots` as the engine does (shifts, flags, carry and all), calls the shipped coefficient function,
folds with the shipped ⊕ and calls the shipped output function. So the proofs are about what the engine is told, and not
about a retelling.
"""

from collections.abc import Mapping
from typing import Any

from rlscan import affine
from rlscan.engine.spec import Kind, Role, Slot, Spec
from rlscan.language import is_jit, read_in

from .symbolic import Reals
from .window import Window


def read(function: Any) -> Any:
    """A jit function on symbols; a plain function, as twins have them, is what it is."""
    return read_in(function, Reals) if is_jit(function) else function


def kind_of(slot: Slot, role: Role | None, window: Window) -> Kind:
    """The slot's kind for the argument it was given, as the engine plans it; one value a row comes as a tensor."""
    if not slot.argument or slot.kind is Kind.ALIAS:
        return slot.kind
    if slot.argument not in window.arguments:
        return Kind.NO_FLAG if slot.kind in (Kind.FLAG, Kind.PREVIOUS_FLAG) else Kind.NO_VALUE
    value = window.arguments[slot.argument]
    if not isinstance(value, list) and role is not Role.ROW:
        return Kind.SCALAR
    if slot.kind is Kind.EXPECTATION and not isinstance(value[0], list):
        return Kind.VALUE
    return slot.kind


def operand(slot: Slot, kind: Kind, window: Window, t: int, before: Mapping[str, Any]) -> Any:
    """What the slot reads at step t; `before` are the operands already read."""
    T = window.T
    if kind is Kind.VALUE:
        return window[slot.argument, t]
    if kind is Kind.NEXT:
        return window[slot.argument, t + 1] if t + 1 < T else 0
    if kind is Kind.FLAG:
        return bool(window[slot.argument, t])
    if kind is Kind.PREVIOUS_FLAG:
        return t > 0 and bool(window[slot.argument, t - 1])
    if kind is Kind.FINAL:
        return window[slot.argument, T - 1]
    if kind is Kind.LAST:
        return t == T - 1
    if kind is Kind.EXPECTATION:
        pairs = zip(window["next_policy", t], window[slot.argument, t], strict=True)
        return sum(read(affine.apply)(0, probability, value) for probability, value in pairs)
    if kind is Kind.ALIAS:
        return before[slot.argument]
    if kind in (Kind.NO_VALUE, Kind.NO_FLAG):
        return 0 if kind is Kind.NO_VALUE else False
    return window.arguments[slot.argument]  # ROW, CELL, SCALAR


def operands(spec: Spec, window: Window, t: int) -> dict[str, Any]:
    """The operands of the coefficient function at step t by slot, and the carry."""
    roles = {argument.name: argument.role for argument in spec.arguments}
    found: dict[str, Any] = {}
    for slot in spec.slots(frozenset(roles.keys() & window.arguments.keys())):
        found[slot.name] = operand(slot, kind_of(slot, roles.get(slot.argument), window), window, t, found)
    return found


def rows_and_carry(spec: Spec, window: Window) -> tuple[list[list[Any]], Any]:
    rows = [operands(spec, window, t) for t in range(window.T)]
    carries = [row.pop("carry") for row in rows]
    return [list(row.values()) for row in rows], carries[0]


def pairs(spec: Spec, window: Window) -> tuple[list[tuple[Any, Any]], Any]:
    """(α_t, β_t) of every step, and the carry."""
    rows, carry = rows_and_carry(spec, window)
    return [read(spec.coefficients)(*row) for row in rows], carry


def scan(spec: Spec, window: Window, combine: Any = affine.combine, apply: Any = affine.apply) -> list[tuple[Any, ...]]:
    """The results of the specification at every step: its pairs folded by ⊕, what lies behind first, and applied to the
    carry."""
    rows, carry = rows_and_carry(spec, window)
    steps = [read(spec.coefficients)(*row) for row in rows]
    combine, apply = read(combine), read(apply)
    x: dict[int, Any] = {}
    x_behind: dict[int, Any] = {}
    folded: tuple[Any, Any] | None = None
    latest = carry
    for t in reversed(range(window.T)) if spec.reverse else range(window.T):
        folded = combine(*folded, *steps[t]) if folded else steps[t]
        x_behind[t], x[t] = latest, apply(*folded, carry)
        latest = x[t]
    return [read(spec.outputs)(x[t], x_behind[t], *row) for t, row in enumerate(rows)]
