"""Ways to make a specification false, for the twins."""

import dataclasses
from collections.abc import Callable
from inspect import signature
from typing import Any

from rlscan.engine.spec import Kind, Slot, Spec

from .scan import read


def rewired(spec: Spec, **slots: Kind | Slot) -> Spec:
    """The specification with slots that read something else: a kind, or a whole slot, by the slot's name."""

    def wrong(given: frozenset[str]) -> tuple[Slot, ...]:
        return tuple(
            dataclasses.replace(slot, kind=other)
            if isinstance(other := slots.get(slot.name, slot), Kind)
            else dataclasses.replace(other, name=slot.name)
            for slot in spec.slots(given)
        )

    return dataclasses.replace(spec, slots=wrong)


def ignoring(spec: Spec, *slots: str) -> Spec:
    """The specification without these flags."""
    return rewired(spec, **{slot: Slot(slot, Kind.NO_FLAG) for slot in slots})


def changed(spec: Spec, change: Callable[..., tuple[Any, Any]]) -> Spec:
    """The specification with other coefficients: `change` takes alpha, beta and the operands by slot."""

    def coefficients(*values: Any) -> tuple[Any, Any]:
        alpha, beta = read(spec.coefficients)(*values)
        return change(alpha, beta, **dict(zip(signature(read(spec.coefficients)).parameters, values, strict=True)))

    return dataclasses.replace(spec, coefficients=coefficients)


def reading(spec: Spec, **slots: Any) -> Spec:
    """The specification whose outputs (not its coefficients) see other values in these slots."""

    def outputs(x: Any, x_next: Any, *values: Any) -> Any:
        _, _, *names = signature(read(spec.outputs)).parameters
        return read(spec.outputs)(x, x_next, *{**dict(zip(names, values, strict=True)), **slots}.values())

    return dataclasses.replace(spec, outputs=outputs)


def wrong_sign(spec: Spec) -> Spec:
    return changed(spec, lambda alpha, beta, /, **_: (alpha, -1 * beta))


def multiplying_apply(alpha: Any, beta: Any, x: Any) -> Any:
    return alpha + beta * x


def multiplying_combine(alpha_a: Any, beta_a: Any, alpha_b: Any, beta_b: Any) -> tuple[Any, Any]:
    return alpha_b + beta_b * alpha_a, beta_b * beta_a


# ⊕ that multiplies by zero where it should select
MULTIPLYING = {"combine": multiplying_combine, "apply": multiplying_apply}


def multiplying_successor(
    value_next: Any, terminated: bool, truncated: bool, truncation_value: Any, is_last: bool, last_value: Any
) -> Any:
    """V' with products where it should select."""
    inside = (1 - int(is_last)) * value_next + int(is_last) * last_value
    return (1 - int(terminated)) * ((1 - int(truncated)) * inside + int(truncated) * truncation_value)


def with_multiplying_successor(spec: Spec) -> Spec:
    """α with a term that is zero, but for the values that V' should not read."""

    def change(alpha: Any, beta: Any, /, **slots: Any) -> tuple[Any, Any]:
        names = ("value_next", "terminated", "truncated", "truncation_value", "is_last", "last_value")
        return alpha + 0 * multiplying_successor(*(slots[name] for name in names)), beta

    return changed(spec, change)
