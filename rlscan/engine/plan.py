"""From arguments to a launch: one plan per kind of call, kept and reused.

Everything that is checked or chosen (shapes, strides, dtypes, device, alignment, options) is in the plan's key, so a
call that finds its plan has been checked already; only pointers and numbers are new.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

try:  # PyTorch's own check of many tensors at once, and ways to allocate past its dispatcher
    from torch._C._dynamo import guards as _guards

    guards: Any = _guards
    TensorGuards: Any = guards.TensorGuards
except (ImportError, AttributeError):
    guards = TensorGuards = None

from .. import language
from .checks import (
    Layout,
    Window,
    as_float,
    check_out,
    check_transforms,
    refuse_gradients,
    refuse_recording,
    refuse_shared_memory,
    refuse_tangents,
    time_axis,
)
from .portable import run_portable
from .shortcut import Shortcut, shortcut
from .spec import Kind, Role, Slot, Spec
from .tiles import Tile

PATHS = ("triton", "interpreter", "portable")


class Forced(NamedTuple):
    """What a test or a verification run wants instead of the plan's own choice."""

    path: str | None = None
    tile: Tile | None = None


_wish = cache(Forced)  # one object for all that is alike: calls compare by `is`
_NOTHING_FORCED = _wish(None, None)
_forced: contextvars.ContextVar[Forced] = contextvars.ContextVar("rlscan_forced", default=_NOTHING_FORCED)
_plans: dict[Any, "Plan"] = {}
_recent: dict[Spec, "Plan"] = {}  # per estimator the plan of its last call
_seen: contextvars.ContextVar[list["Plan"] | None] = contextvars.ContextVar("rlscan_seen", default=None)
_PLAN_LIMIT = 4096
_address = torch.Tensor.data_ptr
_modes = torch._C._len_torch_dispatch_stack  # how many modes watch what PyTorch does


@contextlib.contextmanager
def forced(path: str | None = None, tile: Tile | None = None) -> Iterator[None]:
    """Inside the block, calls take this path ("triton", "interpreter" or "portable") and this tile."""
    if path is not None and path not in PATHS:
        raise ValueError(f"path is {path!r}; it should be one of {', '.join(PATHS)}")
    # an object of its own is that of no plan, so that a call within `remembered` looks for its plan
    token = _forced.set(_wish(path, tile) if _seen.get() is None else Forced(path, tile))
    try:
        yield
    finally:
        _forced.reset(token)


def path_for(device: torch.device) -> str:
    """The path a call on this device takes, when none is forced."""
    if language.HAS_TRITON and language.INTERPRETED and device.type in ("cpu", "cuda"):
        return "interpreter"
    return "triton" if language.HAS_TRITON and device.type == "cuda" else "portable"


def run(spec: Spec, arguments: tuple[Any, ...], time_dim: int, out: Any = None) -> tuple[torch.Tensor, ...]:
    """The results of `spec` on the arguments (in the order of `spec.arguments`)."""
    plan = _recent.get(spec)
    # most calls are like the last one, and to compare is cheaper than to hash
    if out is not None:
        arguments += as_targets(out, spec.result_count)
    if forward_ad._current_level >= 0:
        refuse_tangents(spec.tensors(arguments))
    elif out is None and plan is not None and plan.shortcut is not None and not _modes():
        results = plan.shortcut(arguments, time_dim)
        if results is not None:
            return results
    if (
        plan is not None
        and time_dim is plan.time_dim
        and [*map(type, arguments)] == plan.types
        and plan.matches(*(tensors := plan.tensors(arguments)))
        and _forced.get() is plan.wish
    ):
        addresses = [*map(_address, tensors)]
        bits = 0
        for address in addresses:
            bits |= address
        if plan.aligned and bits & 15 == 0:
            return plan(arguments, addresses)
    plan = find_plan(spec, arguments, time_dim)
    _recent[spec] = plan
    return plan(arguments, [*map(_address, plan.tensors(arguments))])


def find_plan(spec: Spec, arguments: tuple[Any, ...], time_dim: int) -> "Plan":
    """The plan for calls like this one, made if there is none yet."""
    time_axis(1, time_dim)  # before it is hashed
    check_transforms(spec.tensors(arguments))
    wish = _wish(*_forced.get())
    key: list[Any] = [spec, time_dim, wish, torch.get_default_dtype()]
    for value in arguments:
        key.append(type(value))
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            key += (*metadata(value), value.data_ptr() & 15 == 0)
    signature = tuple(key)
    plan = _plans.get(signature)
    if plan is None:
        plan = Plan(spec, arguments, time_dim, wish)
        if len(_plans) >= _PLAN_LIMIT:
            _plans.clear()
        _plans[signature] = plan
    plan.expect(arguments)
    if (seen := _seen.get()) is not None:
        seen.append(plan)
    return plan


def remembered(call: Callable[[], Any]) -> list["Plan"]:
    """The plans that `call` uses, each once, whatever other threads call meanwhile."""
    seen: list[Plan] = []
    watching, wishing = _seen.set(seen), _forced.set(Forced(*_forced.get()))
    try:
        call()
    finally:
        _seen.reset(watching)
        _forced.reset(wishing)
    return [*dict.fromkeys(seen)]


def metadata(x: torch.Tensor) -> tuple[Any, ...]:
    return x.shape, x.stride(), x.dtype, x.device, x.requires_grad, x.is_neg()


def allocator(like: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Makes tensors like this one on the device that is current, without a way through PyTorch's dispatcher."""
    make = getattr(guards, f"_empty_strided_{like.device.type}", None)
    if make is None:
        return partial(torch.empty_strided, like.shape, like.stride(), dtype=like.dtype, device=like.device)
    return partial(make, tuple(like.shape), like.stride(), like.dtype)


def total_bytes(x: Any) -> int:
    return x.numel() * x.element_size() if isinstance(x, torch.Tensor) else 0


def same_metadata(tensors: Sequence[torch.Tensor]) -> Callable[..., bool]:
    """A check that tensors have the shapes, strides, dtypes, devices and requires_grad of these."""
    if TensorGuards is not None and len({*map(id, tensors)}) == len(tensors):  # it refuses a tensor that comes twice
        sizes: Any = [list(x.shape) for x in tensors]
        strides: Any = [list(x.stride()) for x in tensors]
        check: Callable[..., bool] = TensorGuards(
            *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
        ).check
        return check
    types, wanted = [*map(type, tensors)], [metadata(x) for x in tensors]

    def check_here(*others: torch.Tensor) -> bool:
        return untransformed() and [*map(type, others)] == types and [metadata(x) for x in others] == wanted

    return check_here


def untransformed() -> bool:
    """Whether no transform of torch.func and no trace is under way: PyTorch's own check sees that of a tensor."""
    return torch._C._functorch.maybe_current_level() is None and torch._C._get_tracing_state() is None


class Plan:
    """A checked kind of call: which path, which slots, which tile,
    and the arguments of the launch that do not change.
    """

    def __init__(self, spec: Spec, arguments: tuple[Any, ...], time_dim: int, wish: Forced) -> None:
        self.count = len(spec.arguments)
        self.time_dim, self.wish = time_dim, wish
        targets = arguments[self.count :]
        window = Window(spec, arguments[: self.count], time_dim)
        for target in targets:
            check_out(target, window.shape, window.dtype, window.device)
        self.tensor_names = [name for name, _ in spec.tensors(arguments)]
        self.requires_grad = [name for name, tensor in spec.tensors(arguments) if tensor.requires_grad]
        self.dtype = None if window.dtype == arguments[0].dtype else window.dtype  # of the results, where it differs
        self.spec, self.window = spec, window
        self.path = wish.path or path_for(window.device)
        if self.path != "portable" and not language.HAS_TRITON:
            raise RuntimeError(f"the path {self.path!r} needs Triton, which is not installed")
        if self.path != "portable" and (self.path == "interpreter") != language.INTERPRETED:
            raise RuntimeError(
                f"no path {self.path!r} here: TRITON_INTERPRET=1, set before Triton is imported, decides"
            )
        names = [*spec.names]
        slots = spec.slots(frozenset(window.given))
        positions = {slot.name: k for k, slot in enumerate(slots)}
        self.kinds: list[int] = []
        self.sources: list[int] = []  # per slot the argument it reads, or -1
        for slot in slots:
            alias = slot.kind == Kind.ALIAS
            self.kinds.append(Kind.ALIAS + positions[slot.argument] if alias else int(self.kind_of(slot)))
            self.sources.append(names.index(slot.argument) if slot.argument in window.given else -1)
        for k, (kind, source) in enumerate(zip(self.kinds, self.sources, strict=True)):
            earlier = [j for j in range(k) if self.sources[j] == source and self.kinds[j] == Kind.VALUE]
            if kind == Kind.NEXT and earlier:
                self.kinds[k] = Kind.SHIFTED + earlier[0]
        self.positions = [k for k, value in enumerate(arguments) if isinstance(value, torch.Tensor)]
        self.launch: Any = None
        policy = names.index("next_policy") if "next_policy" in window.given else -1
        results = targets or self.allocate(arguments[0])
        if self.path != "portable" and 0 not in window.shape:
            from .launch import Launch  # only here: without Triton there is no kernel

            kinds, sources = self.kinds, self.sources
            self.launch = Launch(spec, window, kinds, sources, policy, arguments, results, wish.tile, self.tensor_names)
        self.types = [*map(type, arguments)]
        numbers = [k for k, value in enumerate(arguments) if value is not None and k not in self.positions]
        self.other_numbers = [k for k in numbers if self.types[k] is not float]
        self.tensors = itemgetter(*self.positions)
        self.aligned = all(arguments[k].data_ptr() & 15 == 0 for k in self.positions)
        # what writing to `out` may not touch: pairs of tensors, and which bytes each has
        layouts = [Layout(arguments[k]) for k in self.positions] if targets else []
        written = [k for k, position in enumerate(self.positions) if position >= self.count]
        self.apart = [(j, k, layouts[j], layouts[k]) for k in written for j in range(k)]
        # from the first launch on, where nothing is left to do but to allocate and to launch
        self.shortcut: Shortcut | None = None
        plain = type(arguments[0]) in (torch.Tensor, torch.nn.Parameter)  # results of another are of its class
        longer = self.requires_grad or targets or self.launch is None or not plain
        self.new = None if longer else allocator(results[0])
        self.matches = self.alike(self.tensors(arguments))
        read = {k for k in self.sources if k >= 0} | ({policy} if policy >= 0 else set())
        self.bytes_read = sum(total_bytes(arguments[k]) for k in read)
        self.bytes_written = sum(total_bytes(x) for x in results)
        window.given = dict.fromkeys(window.given)  # names only: a plan outlives the tensors of its first call

    def expect(self, arguments: tuple[Any, ...]) -> None:
        """Prepares for a next call like this one."""
        tensors = self.tensors(arguments)
        if not self.matches(*tensors):  # alike in all that counts here, and not in all that PyTorch keeps of a tensor
            self.matches = self.alike(tensors)

    def alike(self, tensors: Sequence[torch.Tensor]) -> Callable[..., bool]:
        """A check that tensors are like these, and the default dtype as it was if results take it."""
        same = same_metadata(tensors)
        if not self.window.takes_default_dtype:
            return same
        dtype = self.window.dtype
        return lambda *others: torch.get_default_dtype() == dtype and same(*others)

    def kind_of(self, slot: Slot) -> Kind:
        """The slot's kind for the argument it was given: a tensor of its full shape, a 0-d tensor,
        a number or nothing.
        """
        if not slot.argument:
            return slot.kind
        if slot.argument not in self.window.given:
            return Kind.NO_FLAG if slot.kind in (Kind.FLAG, Kind.PREVIOUS_FLAG) else Kind.NO_VALUE
        value = self.window.given[slot.argument]
        if not isinstance(value, torch.Tensor):
            return Kind.SCALAR
        if slot.kind == Kind.EXPECTATION and "next_policy" not in self.window.given:
            return Kind.VALUE
        return Kind.CELL if value.ndim == 0 else slot.kind

    def __call__(self, arguments: tuple[Any, ...], addresses: list[int]) -> tuple[torch.Tensor, ...]:
        """`addresses` are those of the tensors among the arguments."""
        if self.requires_grad and torch.is_grad_enabled():
            refuse_gradients(self.requires_grad)
        if self.launch is not None and _modes():
            refuse_recording()
        for j, k, layout, other in self.apart:
            if layout.meets(addresses[j], other, addresses[k]):
                refuse_shared_memory(self.tensor_names[j])
        if self.other_numbers:
            found = [*arguments]
            for k in self.other_numbers:
                found[k] = as_float(self.spec.names[k], found[k])
            arguments = tuple(found)
        results = arguments[self.count :] or self.allocate(arguments[0])
        if self.launch is not None:
            self.launch(arguments, addresses, results)
            if self.new is not None and self.shortcut is None:
                self.shortcut = shortcut(self, _forced.get)
        elif 0 not in self.window.shape:
            views = [self.portable_view(source, arguments) for source in self.sources]
            outputs = [self.window.view(Role.DATA, result) for result in results]
            run_portable(self.spec, self.kinds, views, outputs, self.window.compute_dtype)
        return results

    def allocate(self, like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.empty_like(like, dtype=self.dtype) for _ in range(self.spec.result_count))

    def portable_view(self, source: int, arguments: tuple[Any, ...]) -> Any:
        """An argument as the portable path reads it; the action values come with the policy."""
        if source < 0 or not isinstance(arguments[source], torch.Tensor):
            return None if source < 0 else arguments[source]
        role = self.spec.arguments[source].role
        view = self.window.view(role, arguments[source])
        if role is Role.ACTIONS and "next_policy" in self.window.given:
            return view, self.window.view(role, arguments[self.spec.names.index("next_policy")])
        return view


def as_targets(out: Any, count: int) -> tuple[torch.Tensor, ...]:
    """`out` as a tuple of `count` tensors that the results can be written to."""
    targets = (out,) if isinstance(out, torch.Tensor) else out
    if not isinstance(targets, tuple) or len(targets) != count or not all(isinstance(x, torch.Tensor) for x in targets):
        wanted = "a tensor" if count == 1 else f"a tuple of {count} tensors"
        raise TypeError(f"out is a {type(out).__qualname__}; it should be {wanted}")
    return tuple(targets)
