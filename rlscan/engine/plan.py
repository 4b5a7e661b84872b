"""From arguments to a launch: one plan per kind of call, kept and reused.

Everything that is checked or chosen (shapes, strides, dtypes, device, alignment, options) is in the plan's key, so a call that finds
its plan has been checked already; only pointers and numbers are new.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from .. import language
from .checks import Window, check_out
from .portable import run_portable
from .spec import Kind, Role, Slot, Spec
from .tiles import Tile, choose_tile

PATHS = ("triton", "interpreter", "portable")


class Forced(NamedTuple):
    """What a test or a verification run wants instead of the plan's own choice."""

    path: str | None = None
    tile: Tile | None = None


_forced: contextvars.ContextVar[Forced] = contextvars.ContextVar("rlscan_forced", default=Forced())
_plans: dict[Any, "Plan"] = {}
_PLAN_LIMIT = 4096


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
    key: list[Any] = [spec, time_dim, _forced.get(), len(targets)]
    for value in arguments + targets:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            grad = value.requires_grad and torch.is_grad_enabled()
            key += (value.shape, value.stride(), value.dtype, value.device, value.data_ptr() % 16, grad)
        else:
            key.append(None if value is None else type(value))
    signature = tuple(key)
    plan = _plans.get(signature)
    if plan is None:
        plan = Plan(spec, arguments, targets, time_dim, _forced.get())
        if len(_plans) >= _PLAN_LIMIT:
            _plans.clear()
        _plans[signature] = plan
    return plan(arguments, targets)


class Plan:
    """A checked kind of call: which path, which slots, which tile, and the arguments of the launch that do not change."""

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
        self.spec, self.window = spec, window
        self.path = wish.path or path_for(window.device)
        if self.path != "portable" and not language.HAS_TRITON:
            raise RuntimeError(f"the path {self.path!r} needs Triton, which is not installed")
        if self.path != "portable" and (self.path == "interpreter") != language.INTERPRETED:
            raise RuntimeError(
                f"no path {self.path!r} here: TRITON_INTERPRET=1, set before Triton is imported, decides"
            )
        names = [a.name for a in spec.arguments]
        self.roles = [a.role for a in spec.arguments]
        self.policy = names.index("next_policy") if "next_policy" in window.given else -1
        slots = spec.slots(frozenset(window.given))
        positions = {slot.name: k for k, slot in enumerate(slots)}
        self.kinds: list[int] = []
        self.sources: list[int] = []  # per slot the argument it reads, or -1
        for slot in slots:
            alias = slot.kind == Kind.ALIAS
            self.kinds.append(Kind.ALIAS + positions[slot.argument] if alias else int(self.kind_of(slot)))
            self.sources.append(names.index(slot.argument) if slot.argument in window.given else -1)
        self.empty = 0 in window.shape
        if self.path != "portable" and not self.empty:
            self.plan_launch(arguments, targets or self.allocate(arguments), wish.tile)

    def kind_of(self, slot: Slot) -> Kind:
        """The slot's kind for the argument it was given: a tensor of its full shape, a 0-d tensor, a number or nothing."""
        if not slot.argument:
            return slot.kind
        if slot.argument not in self.window.given:
            return Kind.NO_FLAG if slot.kind in (Kind.FLAG, Kind.PREVIOUS_FLAG) else Kind.NO_VALUE
        value = self.window.given[slot.argument]
        if not isinstance(value, torch.Tensor):
            return Kind.SCALAR
        if slot.kind == Kind.EXPECTATION and self.policy < 0:
            return Kind.VALUE
        return Kind.CELL if value.ndim == 0 else slot.kind

    def __call__(self, arguments: tuple[Any, ...], targets: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        results = targets or self.allocate(arguments)
        if self.empty:
            return results
        if self.path == "portable":
            views = [self.portable_view(source, arguments) for source in self.sources]
            outputs = [self.window.view(Role.DATA, result) for result in results]
            run_portable(self.spec, self.kinds, views, outputs, self.window.compute_dtype)
        else:
            self.launch(arguments, results)
        return results

    def allocate(self, arguments: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(torch.empty_like(arguments[0], dtype=self.window.dtype) for _ in range(self.spec.result_count))

    def portable_view(self, source: int, arguments: tuple[Any, ...]) -> Any:
        """An argument as the portable path reads it; the action values come with the policy."""
        if source < 0 or not isinstance(arguments[source], torch.Tensor):
            return None if source < 0 else arguments[source]
        view = self.window.view(self.roles[source], arguments[source])
        if self.policy >= 0 and self.roles[source] is Role.ACTIONS:
            return view, self.window.view(Role.ACTIONS, arguments[self.policy])
        return view

    def plan_launch(self, arguments: tuple[Any, ...], results: tuple[torch.Tensor, ...], tile: Tile | None) -> None:
        """Which tensors share their strides, the tile, and everything else that the kernel is told."""
        from .kernel import affine_scan_kernel, tl  # only here: without Triton there is no kernel

        window = self.window
        self.kernel = affine_scan_kernel
        if window.compute_dtype == torch.float64:
            # a number reaches the kernel as float32: in float64 it goes through a 0-d tensor
            self.kinds = [int(Kind.CELL) if kind == Kind.SCALAR else kind for kind in self.kinds]
        sizes = window.rows or (1,)
        rank = len(sizes)
        layouts: list[tuple[int, ...]] = []  # row strides..., time stride

        def group(view: torch.Tensor, role: Role) -> int:
            layout = (*view.stride(), 0) if role is Role.ROW else view.stride()[: rank + 1]
            if layout not in layouts:
                layouts.append(layout)
            return layouts.index(layout)

        views = {
            k: window.view(self.roles[source], arguments[source])
            for k, source in enumerate(self.sources)
            if source >= 0 and self.kinds[k] not in (Kind.SCALAR, Kind.CELL)
        }
        groups = [group(views[k], self.roles[self.sources[k]]) if k in views else 0 for k in range(len(self.sources))]
        outputs = [window.view(Role.DATA, result) for result in results]
        output_groups = [group(view, Role.DATA) for view in outputs]
        policy = window.view(Role.ACTIONS, arguments[self.policy]) if self.policy >= 0 else None
        policy_group = 0 if policy is None else group(policy, Role.ACTIONS)
        actions = 0 if policy is None else policy.shape[-1]
        expected = [views[k] for k in views if self.kinds[k] == Kind.EXPECTATION]
        action_strides = (expected[0].stride(-1), policy.stride(-1)) if expected and policy is not None else (0, 0)

        reach = max(
            sum((size - 1) * stride for size, stride in zip(view.shape, view.stride(), strict=True))
            for view in (*views.values(), *outputs, *(() if policy is None else (policy,)))
        )
        merged, layouts = merge_rows(sizes, layouts)
        rows = math.prod(sizes)
        first = views[0].stride()
        self.tile = tile or choose_tile(
            rows, window.steps, time_is_contiguous=rows == 1 or first[-1] <= min(first[:-1]), actions=actions
        )
        time_is_contiguous = rows == 1 or first[-1] <= min(first[:-1])
        self.grid = (-(-rows // self.tile.rows), 1, 1)
        self.constants = (
            tuple(stride for layout in layouts for stride in layout),
            action_strides,
            merged,
            rows,
            window.steps,
            actions,
            self.spec.coefficients,
            self.spec.outputs,
            tuple(self.kinds),
            tuple(groups),
            tuple(output_groups),
            policy_group,
            len(merged),
            self.spec.reverse,
            self.spec.uses_next_result,
            1 if time_is_contiguous else 0,
            self.tile.rows,
            self.tile.steps,
            self.tile.actions,
            reach >= 2**31,
            tl.float64 if window.compute_dtype == torch.float64 else tl.float32,
        )

    def launch(self, arguments: tuple[Any, ...], results: tuple[torch.Tensor, ...]) -> None:
        inputs: list[Any] = []
        for kind, source in zip(self.kinds, self.sources, strict=True):
            value = arguments[source] if source >= 0 else 0
            if source >= 0 and not isinstance(value, torch.Tensor):
                value = float(value)
                if kind == Kind.CELL:
                    value = torch.full((), value, dtype=torch.float64, device=self.window.device)
            inputs.append(value)
        policy = arguments[self.policy] if self.policy >= 0 else 0
        self.kernel[self.grid](tuple(inputs), results, policy, *self.constants, num_warps=self.tile.warps)


def merge_rows(sizes: tuple[int, ...], layouts: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Adjacent row dimensions become one where every layout allows it; dimensions of size 1 go."""
    kept = [axis for axis, size in enumerate(sizes) if size != 1] or [0]
    merged = [sizes[axis] for axis in kept]
    rows = [[layout[axis] for axis in kept] for layout in layouts]
    axis = len(merged) - 2
    while axis >= 0:
        if all(row[axis] == row[axis + 1] * merged[axis + 1] for row in rows):
            merged[axis] *= merged.pop(axis + 1)
            for row in rows:
                row.pop(axis)
        axis -= 1
    return tuple(merged), [(*row, layout[-1]) for row, layout in zip(rows, layouts, strict=True)]


def as_targets(out: Any, count: int) -> tuple[torch.Tensor, ...]:
    """`out` as a tuple of `count` tensors that the results can be written to."""
    targets = (out,) if isinstance(out, torch.Tensor) else out
    if not isinstance(targets, tuple) or len(targets) != count or not all(isinstance(x, torch.Tensor) for x in targets):
        wanted = "a tensor" if count == 1 else f"a tuple of {count} tensors"
        raise TypeError(f"out is a {type(out).__qualname__}; it should be {wanted}")
    return tuple(targets)
