"""The only place where arguments are checked: every error names the argument, what it was and what it should be."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import torch
from torch.autograd import forward_ad

from .spec import Argument, Role, Spec

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLAGS = (torch.bool, torch.uint8, *FLOATS)
FLOAT_NAMES = "float32, bfloat16, float16 or float64"
Choice = TypeVar("Choice")


def time_axis(rank: int, time_dim: int) -> int:
    """The position of time in flags of this rank; `time_dim` counts within [N, T] (or [T])."""
    if rank not in (1, 2):
        raise ValueError(f"flags have {rank} dimensions; they should be [T], [N, T] or, with time_dim=0, [T, N]")
    if not isinstance(time_dim, int) or isinstance(time_dim, bool):
        raise TypeError(f"time_dim is a {type_name(time_dim)}; it should be an integer, -1, 1, 0 or -2")
    if time_dim not in (-1, 1, 0, -2):
        raise ValueError(f"time_dim is {time_dim!r}; it should be -1 or 1 for [N, T], 0 or -2 for [T, N]")
    return 0 if rank == 1 else time_dim % 2


class Window:
    """What the arguments of one call agree on: the shape, the layout, the dtypes and the device."""

    def __init__(self, spec: Spec, arguments: Sequence[Any], time_dim: int) -> None:
        self.spec = spec
        self.given = {a.name: value for a, value in zip(spec.arguments, arguments, strict=True) if value is not None}
        for argument in spec.arguments:
            if argument.required and argument.name not in self.given:
                raise ValueError(f"{argument.name} is missing: {expected_type(argument.role)} is needed")
        self.primary_name = spec.arguments[0].name
        primary = self.given[self.primary_name]
        check_tensor(self.primary_name, primary, spec.arguments[0].role)
        if primary.ndim == 0:
            raise ValueError(
                f"{self.primary_name} has no dimensions; it should be [T], [N, T] or, with time_dim=0, [T, N]"
            )
        self.shape = tuple(primary.shape)
        self.batch = self.shape[:2]
        self.features = self.shape[2:]
        if self.features and not spec.features:
            raise ValueError(
                f"{self.primary_name} has shape {list(self.shape)}; "
                f"it should be [T], [N, T] or, with time_dim=0, [T, N]: {spec.name} has no feature dimensions"
            )
        self.time_axis = time_axis(len(self.batch), time_dim)
        self.steps = self.batch[self.time_axis]
        self.rows = tuple(size for axis, size in enumerate(self.batch) if axis != self.time_axis) + self.features
        self.device = primary.device
        for argument in spec.arguments:
            if argument.name in self.given:
                self.check(argument, self.given[argument.name])
        if {"next_values", "truncation_values"} <= self.given.keys():
            raise ValueError(
                "next_values and truncation_values are both given; next_values already says V(s_{t+1}) at every step"
            )
        self.check_bootstrap()
        data = [
            self.given[a.name].dtype
            for a in spec.arguments
            if a.name in self.given and a.role in (Role.DATA, Role.REWARD, Role.RATIO, Role.ACTIONS, Role.BETA)
        ]
        floats = [dtype for dtype in data if dtype.is_floating_point]
        self.takes_default_dtype = not floats
        floats = floats or [torch.get_default_dtype()]
        self.dtype = floats[0]
        for dtype in floats[1:]:
            self.dtype = torch.promote_types(self.dtype, dtype)
        self.compute_dtype = torch.float64 if self.dtype == torch.float64 else torch.float32

    def check_bootstrap(self) -> None:
        names = {a.name for a in self.spec.arguments}
        if "last_values" in names and not {"last_values", "next_values"} & self.given.keys():
            raise ValueError(
                "last_values is missing: V(s_T), a number or a tensor "
                f"{list(self.rows)}, is needed (0.0 if there is nothing to bootstrap from), or next_values"
            )
        sources = {"truncation_values", "next_values"} & names
        if "truncated" in self.given and sources and not sources & self.given.keys():
            raise ValueError(
                "truncated is given without truncation_values or next_values: "
                "a truncated step bootstraps from the value of its final observation, which is not in the buffer"
            )
        if "truncation_values" in self.given and "truncated" not in self.given:
            raise ValueError(
                "truncation_values is given without truncated: the steps that it is for should be flagged there"
            )

    def check(self, argument: Argument, value: Any) -> None:
        name, role = argument.name, argument.role
        if role in (Role.ROW, Role.WEIGHT, Role.NUMBER) and is_number(value):
            return
        check_tensor(name, value, role)
        if value.device != self.device:
            raise ValueError(f"{name} is on {value.device}; it should be on {self.device}, as {self.primary_name} is")
        shapes = self.shapes_for(role)
        if tuple(value.shape) not in shapes:
            wanted = " or ".join(str([*shape]) for shape in dict.fromkeys(shapes))
            raise ValueError(f"{name} has shape {list(value.shape)}; it should be {wanted} ({self.reason(role)})")

    def shapes_for(self, role: Role) -> list[tuple[int, ...]]:
        if role in (Role.DATA, Role.REWARD):
            return [self.shape]
        if role is Role.ROW:
            return [self.rows, ()]
        if role is Role.WEIGHT:
            return [self.batch, ()]
        if role is Role.BETA:
            return [self.shape, self.batch]
        if role is Role.ACTIONS and "next_policy" in self.given:
            return [(*self.batch, *self.actions())]
        return [self.batch]

    def actions(self) -> tuple[int, ...]:
        """The size of the last dimension of the action values, once it is known to be one."""
        shape = tuple(getattr(self.given["next_q_values"], "shape", ()))
        if len(shape) != len(self.batch) + 1 or shape[-1] == 0:
            raise ValueError(
                f"next_q_values has shape {list(shape)}; with next_policy it should be "
                f"[{', '.join(map(str, self.batch))}, A], A > 0 (the shape of {self.primary_name}, then actions)"
            )
        return shape[-1:]

    def reason(self, role: Role) -> str:
        if role is Role.ROW:
            return f"a number, or one value a row of {self.primary_name}"
        if role is Role.ACTIONS and "next_policy" in self.given:
            return f"the shape of {self.primary_name}, then actions"
        if role is Role.ACTIONS:
            return f"the shape of {self.primary_name}; with actions last it needs next_policy"
        if self.features and role in (Role.FLAG, Role.RATIO, Role.WEIGHT):
            return f"the first two dimensions of {self.primary_name}"
        return f"the shape of {self.primary_name}"

    def view(self, role: Role, value: torch.Tensor) -> torch.Tensor:
        """The argument with its row dimensions first and time last ([rows..., T, A] for actions), without a copy."""
        if value.ndim == 0:
            return value
        if role is Role.ROW:
            return value if value.ndim else value.reshape(1)
        view = value.movedim(self.time_axis, -2 if value.ndim > len(self.shape) else -1)
        if len(self.batch) == 1:
            return view.unsqueeze(0)
        if self.features and value.ndim == 2:
            view = view.reshape(view.shape[0], *[1] * len(self.features), view.shape[-1]).expand(*self.rows, self.steps)
        return view


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def type_name(value: Any) -> str:
    module, name = type(value).__module__, type(value).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


def expected_type(role: Role) -> str:
    return {
        Role.REWARD: "a floating or integer tensor",
        Role.FLAG: "a bool, uint8 or floating tensor",
        Role.ROW: "a number or a floating tensor",
        Role.WEIGHT: "a number or a floating tensor",
        Role.NUMBER: "a number",
    }.get(role, "a floating tensor")


def check_tensor(name: str, value: Any, role: Role) -> None:
    if not isinstance(value, torch.Tensor) or role is Role.NUMBER:
        raise TypeError(f"{name} is a {type_name(value)}; it should be {expected_type(role)}")
    if value.layout != torch.strided:
        raise TypeError(f"{name} has layout {value.layout}; it should be a dense (strided) tensor")
    allowed: tuple[torch.dtype, ...]
    if role is Role.FLAG:
        allowed, names = FLAGS, f"bool, uint8, {FLOAT_NAMES}"
    elif role is Role.REWARD:
        allowed, names = (*FLOATS, *INTEGERS), f"{FLOAT_NAMES}, or an integer dtype, which promotes"
    else:
        allowed, names = FLOATS, FLOAT_NAMES
    if value.dtype not in allowed:
        raise TypeError(f"{name} has dtype {str(value.dtype).removeprefix('torch.')}; it should be {names}")
    check_signs(name, value)


def check_signs(name: str, value: torch.Tensor) -> None:
    if value.is_neg():
        raise ValueError(
            f"{name} is a view that negates what is in memory (Tensor.is_neg); it should be {name}.resolve_neg()"
        )


def as_float(name: str, value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} is {str(value)[:20]}…; it should be a number that a float64 can hold") from None


def check_transforms(tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Refuses the tensors of function transforms and traces, whose memory is not what a kernel or a plan can use."""
    tracing = torch._C._get_tracing_state() is not None
    for name, value in tensors:
        if torch._C._functorch.is_functorch_wrapped_tensor(value):
            raise ValueError(
                f"{name} is a tensor of torch.func; it should be an ordinary one: no call within a transform"
            )
        if tracing:
            raise ValueError(f"{name} is traced by torch.jit; it should not be: a trace keeps results as constants")


def refuse_tangents(tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
    for name, value in tensors:
        if forward_ad.unpack_dual(value).tangent is not None:
            raise ValueError(
                f"{name} is a dual tensor, and there are no gradients yet: "
                f"it should be torch.autograd.forward_ad.unpack_dual({name}).primal"
            )


def refuse_recording() -> None:
    """Refuses a kernel where torch.fx records: it sees what is allocated, and not what is launched."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    if get_proxy_mode() is not None:
        raise RuntimeError(
            "make_fx records here, and it should not: it can't record a kernel; "
            'with rlscan.engine.forced("portable") it records PyTorch operations'
        )


def refuse_no_memory(name: str) -> None:
    raise ValueError(
        f"{name} has no memory (its storage is empty, or it is fake); it should be a tensor with its values"
    )


def refuse_gradients(names: Sequence[str]) -> None:
    raise ValueError(
        f"{names[0]} requires grad, and there are no gradients yet: "
        f"it should be {names[0]}.detach(), or the call under torch.no_grad()"
    )


class Layout:
    """Which bytes a tensor has, from its address on."""

    def __init__(self, x: torch.Tensor) -> None:
        self.shape, size = tuple(x.shape), x.element_size()
        self.strides = tuple(stride * size for stride in x.stride())
        self.type = f"|V{size}"
        self.bytes = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)) + size
        self.bytes *= 0 not in self.shape

    def at(self, address: int) -> np.ndarray:
        """An array that lies there, to be compared and not to be read."""
        place = {"data": (address, True), "shape": self.shape, "strides": self.strides, "typestr": self.type}
        return np.asarray(SimpleNamespace(__array_interface__={**place, "version": 3}))

    def meets(self, address: int, other: "Layout", other_address: int) -> bool:
        """Whether the two share a byte; results may not lie in inputs, which are read while they are written."""
        if address >= other_address + other.bytes or other_address >= address + self.bytes:
            return False
        try:
            return np.shares_memory(self.at(address), other.at(other_address), max_work=10**5)
        except np.exceptions.TooHardError:
            return True


def refuse_shared_memory(name: str) -> None:
    if name == "out":
        raise ValueError("out is the same memory twice; it should be tensors that share none")
    raise ValueError(f"out shares memory with {name}; it should be memory of its own")


def check_out(out: torch.Tensor, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> None:
    if out.layout != torch.strided:
        raise TypeError(f"out has layout {out.layout}; it should be a dense (strided) tensor")
    if tuple(out.shape) != tuple(shape) or out.dtype != dtype or out.device != device:
        raise ValueError(
            f"out has shape {list(out.shape)}, {out.dtype} on {out.device}; "
            f"it should be {list(shape)}, {dtype} on {device}"
        )
    check_signs("out", out)
    reach = 0  # the last element that the dimensions of smaller strides lead to
    for stride, size in sorted((stride, size) for size, stride in zip(out.shape, out.stride(), strict=True)):
        if size > 1 and stride <= reach and out.numel():
            kind = "an expanded view" if stride == 0 else f"a view of shape {list(out.shape)} that may overlap itself"
            raise ValueError(f"out is {kind}, of strides {list(out.stride())}; it should have memory for each element")
        reach += max(0, size - 1) * stride


def option(name: str, value: Any, choices: Mapping[Any, Choice]) -> Choice:
    """The choice of that name; all names are of one type."""
    kind = type(next(iter(choices)))
    if not isinstance(value, kind):
        raise TypeError(f"{name} is a {type_name(value)}; it should be one of {', '.join(map(repr, choices))}")
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it should be one of {', '.join(map(repr, choices))}")
    return choices[value]
