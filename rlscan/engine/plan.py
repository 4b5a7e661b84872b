"""From arguments to a launch: one plan per kind of call, kept and reused.

Everything that is checked or chosen (shapes, strides, dtypes, device, alignment, options) is in the plan's key, so a
call that finds its plan has been checked already; only pointers and numbers are new.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from .. import language
from .checks import Window, check_memory, check_out, refuse_gradients, time_axis
from .portable import run_portable
from .spec import Kind, Role, Slot, Spec
from .tiles import Tile

PATHS = ("triton", "interpreter", "portable")


class Forced(NamedTuple):
    """What a test or a verification run wants instead of the plan's own choice."""

    path: str | None = None
    tile: Tile | None = None


_NOTHING_FORCED = Forced()
_forced: contextvars.ContextVar[Forced] = contextvars.ContextVar("rlscan_forced", default=_NOTHING_FORCED)
_plans: dict[Any, "Plan"] = {}
_recent: dict[Spec, tuple[list[Any], "Plan"]] = {}  # per estimator the key and plan of its last call
_PLAN_LIMIT = 4096
_STRIDED = torch.strided


@contextlib.contextmanager
def forced(path: str | None = None, tile: Tile | None = None) -> Iterator[None]:
    """Inside the block, calls take this path ("triton", "interpreter" or "portable") and this tile."""
    if path is not None and path not in PATHS:
        raise ValueError(f"path is {path!r}; it should be one of {', '.join(PATHS)}")
    token = _forced.set(Forced(path, tile))
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
    targets = () if out is None else as_targets(out, spec.result_count)
    key: list[Any] = [time_dim, _forced.get(), len(targets)]
    raw: list[Any] = []  # pointers and numbers, as a launch takes them
    for value in (*arguments, *targets) if targets else arguments:
        if value is None:
            raw.append(0)
            key.append(None)
        elif isinstance(value, torch.Tensor) and value.layout is _STRIDED:
            pointer = value.data_ptr()
            raw.append(pointer)
            key += (value.shape, value.stride(), value.dtype, value.device, pointer & 15 == 0, value.requires_grad)
        else:
            raw.append(value)
            key.append(type(value))
    # most calls are like the last one, and a comparison is cheaper than a hash
    recent = _recent.get(spec)
    if recent is not None and recent[0] == key:
        plan = recent[1]
    else:
        plan = find_plan(spec, arguments, targets, time_dim, (spec, *key))
        _recent[spec] = (key, plan)
    if targets:
        check_memory(spec, arguments, targets)
    if plan.requires_grad and torch.is_grad_enabled():
        refuse_gradients(plan.requires_grad)
    return plan(arguments, targets, raw)


def find_plan(
    spec: Spec, arguments: tuple[Any, ...], targets: tuple[torch.Tensor, ...], time_dim: int, signature: tuple[Any, ...]
) -> "Plan":
    time_axis(1, time_dim)  # before it is hashed
    plan = _plans.get(signature)
    if plan is None:
        plan = Plan(spec, arguments, targets, time_dim, _forced.get())
        if len(_plans) >= _PLAN_LIMIT:
            _plans.clear()
        _plans[signature] = plan
    return plan


class Plan:
    """A checked kind of call: which path, which slots, which tile,
    and the arguments of the launch that do not change.
    """

    def __init__(
        self,
        spec: Spec,
        arguments: tuple[Any, ...],
        targets: tuple[torch.Tensor, ...],
        time_dim: int,
        wish: Forced,
    ) -> None:
        window = Window(spec, arguments, time_dim)
        for target in targets:
            check_out(target, window.shape, window.dtype, window.device)
        self.requires_grad = [name for name, value in window.given.items() if getattr(value, "requires_grad", False)]
        self.requires_grad += ["out" for target in targets if target.requires_grad]
        self.dtype = None if window.dtype == arguments[0].dtype else window.dtype  # of the results, where it differs
        self.spec, self.window = spec, window
        self.path = wish.path or path_for(window.device)
        if self.path != "portable" and not language.HAS_TRITON:
            raise RuntimeError(f"the path {self.path!r} needs Triton, which is not installed")
        if self.path != "portable" and (self.path == "interpreter") != language.INTERPRETED:
            raise RuntimeError(
                f"no path {self.path!r} here: TRITON_INTERPRET=1, set before Triton is imported, decides"
            )
        names = [a.name for a in spec.arguments]
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
        self.launch: Any = None
        if self.path != "portable" and 0 not in window.shape:
            from .launch import Launch  # only here: without Triton there is no kernel

            policy = names.index("next_policy") if "next_policy" in window.given else -1
            results = targets or self.allocate(arguments)
            self.launch = Launch(spec, window, self.kinds, self.sources, policy, arguments, results, wish.tile)

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

    def __call__(
        self, arguments: tuple[Any, ...], targets: tuple[torch.Tensor, ...], raw: list[Any]
    ) -> tuple[torch.Tensor, ...]:
        results = targets or self.allocate(arguments)
        if self.launch is not None:
            self.launch(arguments, results, raw)
        elif 0 not in self.window.shape:
            views = [self.portable_view(source, arguments) for source in self.sources]
            outputs = [self.window.view(Role.DATA, result) for result in results]
            run_portable(self.spec, self.kinds, views, outputs, self.window.compute_dtype)
        return results

    def allocate(self, arguments: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        like = arguments[0]
        if self.spec.result_count == 1:
            return (torch.empty_like(like, dtype=self.dtype),)
        return torch.empty_like(like, dtype=self.dtype), torch.empty_like(like, dtype=self.dtype)

    def portable_view(self, source: int, arguments: tuple[Any, ...]) -> Any:
        """An argument as the portable path reads it; the action values come with the policy."""
        if source < 0 or not isinstance(arguments[source], torch.Tensor):
            return None if source < 0 else arguments[source]
        role = self.spec.arguments[source].role
        view = self.window.view(role, arguments[source])
        if role is Role.ACTIONS and "next_policy" in self.window.given:
            index = [a.name for a in self.spec.arguments].index("next_policy")
            return view, self.window.view(role, arguments[index])
        return view


def as_targets(out: Any, count: int) -> tuple[torch.Tensor, ...]:
    """`out` as a tuple of `count` tensors that the results can be written to."""
    targets = (out,) if isinstance(out, torch.Tensor) else out
    if not isinstance(targets, tuple) or len(targets) != count or not all(isinstance(x, torch.Tensor) for x in targets):
        wanted = "a tensor" if count == 1 else f"a tuple of {count} tensors"
        raise TypeError(f"out is a {type(out).__qualname__}; it should be {wanted}")
    return tuple(targets)
