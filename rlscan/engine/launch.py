"""The launch of the kernel: its constant arguments are worked out once, then only pointers and numbers are new."""

import contextlib
import math
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

import torch

from .. import language
from ..language import tl, triton
from .checks import Window, refuse_no_memory
from .kernel import affine_scan_kernel
from .spec import Kind, Role, Spec
from .tiles import UNROLLED, Tile, choose_tile

C_LAUNCHERS = ("3.5.", "3.6.")  # versions of Triton whose launcher is a function in C inside a Python one
FEWEST_ALIGNED = 4  # steps that are read together: with fewer, threads exchange what they read more often
runtime = triton.knobs.runtime
_address = torch.Tensor.data_ptr


class Launch:
    """One kind of launch: strides, sizes, tile and constants of `affine_scan_kernel`."""

    def __init__(
        self,
        spec: Spec,
        window: Window,
        kinds: Sequence[int],
        sources: Sequence[int],
        policy: int,
        arguments: tuple[Any, ...],
        results: tuple[torch.Tensor, ...],
        tile: Tile | None,
        tensor_names: Sequence[str],
    ) -> None:
        self.device, self.tensor_names = window.device, tensor_names
        self.sources = tuple(sources)
        self.policy = policy
        double = window.compute_dtype == torch.float64
        # a number reaches the kernel as float32: in float64 it goes through a 0-d tensor
        self.kinds = tuple(int(Kind.CELL) if double and kind == Kind.SCALAR else kind for kind in kinds)
        self.numbers_in_memory = [k for k, kind in enumerate(kinds) if double and kind == Kind.SCALAR]

        sizes = window.rows or (1,)
        layouts: list[tuple[int, ...]] = []  # row strides..., time stride; one entry for all tensors that share it

        def group_of(view: torch.Tensor, role: Role) -> int:
            layout = (*view.stride(), 0) if role is Role.ROW else view.stride()[: len(sizes) + 1]
            if layout not in layouts:
                layouts.append(layout)
            return layouts.index(layout)

        roles = [a.role for a in spec.arguments]
        views = {
            k: window.view(roles[source], arguments[source])
            for k, source in enumerate(sources)
            if source >= 0 and self.kinds[k] not in (Kind.SCALAR, Kind.CELL)
        }
        groups = tuple(group_of(views[k], roles[sources[k]]) if k in views else 0 for k in range(len(sources)))
        outputs = [window.view(Role.DATA, result) for result in results]
        output_groups = tuple(group_of(view, Role.DATA) for view in outputs)
        actions, alignment, policy_group, action_strides = 0, 1, 0, (0, 0)
        reached = [*views.values(), *outputs]
        if policy >= 0:
            probabilities = window.view(Role.ACTIONS, arguments[policy])
            values = next(views[k] for k in views if self.kinds[k] == Kind.EXPECTATION)
            policy_group = group_of(probabilities, Role.ACTIONS)
            actions = probabilities.shape[-1]
            action_strides = (values.stride(-1), probabilities.stride(-1))
            if action_strides == (1, 1):
                alignment = math.gcd(8, *values.stride()[:-1], *probabilities.stride()[:-1])
            reached.append(probabilities)

        first = views[0].stride()
        rows, merged, layouts = math.prod(sizes), *merge_rows(sizes, layouts)
        time_is_contiguous = rows == 1 or first[-1] <= min(first[:-1])
        self.tile = tile or choose_tile(
            rows,
            window.steps,
            time_is_contiguous=time_is_contiguous,
            reverse=spec.reverse,
            loads=sum(kind in (Kind.VALUE, Kind.NEXT, Kind.FLAG, Kind.PREVIOUS_FLAG) for kind in self.kinds),
            weight=len(self.kinds) - 1,
            actions=actions,
            compute_bytes=window.compute_dtype.itemsize,
            storage_bytes=window.dtype.itemsize,
        )
        run = min(self.tile.run, self.tile.steps)
        stepwise = [*(views[k] for k in views if self.kinds[k] <= Kind.PREVIOUS_FLAG), *outputs]
        apart = (n for x in stepwise for size, n in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size > 1)
        in_order = all(x.stride(-1) == 1 for x in stepwise)
        neighbours = math.gcd(run, window.steps, *apart) if in_order else 1
        self.vector, self.aligned = 0, 1
        if time_is_contiguous and self.tile.vector:
            self.vector = math.gcd(self.tile.vector, neighbours)
        elif time_is_contiguous and neighbours >= FEWEST_ALIGNED:
            self.aligned = neighbours
        tiles, blocks = -(-window.steps // self.tile.steps), -(-rows // self.tile.rows)
        programs = -(-tiles // self.tile.walk) if self.tile.group else 1  # that share a row
        group = self.tile.group if programs > 1 else 0
        self.grid = (programs, blocks, 1) if group else (blocks, 1, 1)
        levels = [programs]  # how many pairs there are to meet at
        while group and levels[-1] > group and len(levels) < 3:
            levels.append(-(-levels[-1] // group))
        self.group, self.levels = group, len(levels)
        self.words = (2 if double else 1) * rows * sum(levels) if group else 0
        block_actions = math.gcd(self.tile.actions, actions) or 1
        self.constants = (
            tuple(stride for layout in layouts for stride in layout),
            action_strides,
            merged,
            rows,
            window.steps,
            actions,
            spec.coefficients,
            spec.outputs,
            self.kinds,
            groups,
            output_groups,
            policy_group,
            len(merged),
            spec.reverse,
            int(time_is_contiguous),
            self.tile.rows,
            self.tile.steps,
            run,
            actions if actions <= UNROLLED * block_actions else 0,
            block_actions,
            math.gcd(alignment, block_actions),  # of the first action of every block
            window.steps % self.tile.steps == 0,
            any(reach(view) >= 2**31 for view in reached),
            group,
            self.levels,
            self.tile.walk if group else int(tiles == 1),
            self.aligned,
            self.vector,
            tl.float64 if double else tl.float32,
        )
        # where a slot finds its pointer or number among the addresses of the tensors, the arguments and a 0
        tensors = [k for k, value in enumerate(arguments) if isinstance(value, torch.Tensor)]
        places = {k: tensors.index(k) if k in tensors else len(tensors) + k for k in range(len(arguments))} | {-1: -1}
        self.pick = itemgetter(*[places[source] for source in self.sources])
        self.policy_place = places[policy]
        self.index = window.device.index
        self.kernel: Any = None  # as Triton compiled it
        self.compiled: Any = None  # its launcher, from the first launch on
        self.head: tuple[Any, ...] = ()  # what that takes before the kernel's arguments, after the stream
        if not language.INTERPRETED:
            active = triton.runtime.driver.active
            self.current_device = getattr(torch._C, "_cuda_getDevice", active.get_current_device)
            self.current_stream = active.get_current_stream

    def __call__(self, arguments: Sequence[Any], addresses: list[int], results: tuple[torch.Tensor, ...]) -> None:
        """The compiled kernel's own launcher once there is one; the ordinary launch before, and where hooks watch."""
        targets = tuple(map(_address, results))
        if 0 in addresses or 0 in targets:
            refuse_no_memory(self.tensor_names[addresses.index(0)] if 0 in addresses else "a result")
        if not self.is_direct():
            with torch.cuda.device(self.device) if self.device.type == "cuda" else contextlib.nullcontext():
                self.launch_ordinary(arguments, results)
            return
        found = (*addresses, *arguments, 0)
        words = self.meeting_place()
        self.compiled(
            *self.grid,
            self.current_stream(self.index),
            *self.head,
            self.pick(found),
            targets,
            found[self.policy_place],
            0 if words is None else words.data_ptr(),
            *self.constants,
        )

    def is_direct(self) -> bool:
        """Whether the compiled kernel's own launcher will do: there is one, no hook watches, the device is current."""
        try:
            watched = runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls
        except AttributeError:  # by Triton's version a hook is no chain, or None
            watched = runtime.launch_enter_hook or runtime.launch_exit_hook
        return not watched and self.compiled is not None and self.index == self.current_device()

    def flat(self) -> tuple[Any, tuple[Any, ...]] | None:
        """A launcher that takes what the kernel reads one by one, and those constants that it reads, if there is one.

        The kernel's own takes nested tuples, and all constants, most of which were compiled in.
        """
        launch, signature = flat_launcher(self.kernel)
        return launch and (launch, tuple(without_constants(self.constants, signature[4:])))

    def launch_ordinary(self, arguments: Sequence[Any], results: tuple[torch.Tensor, ...]) -> None:
        inputs = [arguments[source] if source >= 0 else 0 for source in self.sources]
        for k in self.numbers_in_memory:
            inputs[k] = torch.full((), inputs[k], dtype=torch.float64, device=self.device)
        policy = arguments[self.policy] if self.policy >= 0 else 0
        words = self.meeting_place()
        self.kernel = affine_scan_kernel[self.grid](
            *(tuple(inputs), results, policy, 0 if words is None else words, *self.constants),
            num_warps=self.tile.warps,
            enable_fp_fusion=True,
        )
        refuse_spilled(self.kernel, self.tile)
        if not language.INTERPRETED and not self.numbers_in_memory:
            compiled, self.head = launcher_of(self.kernel)
            self.compiled = compiled  # last, for a thread that launches once it is there

    def meeting_place(self) -> torch.Tensor | None:
        """Memory of its own for every launch, so that launches on several streams or in graphs do not meet."""
        return torch.zeros(self.words, dtype=torch.int64, device=self.device) if self.words else None


def reach(view: torch.Tensor) -> int:
    """The largest element offset in the view."""
    return sum((size - 1) * stride for size, stride in zip(view.shape, view.stride(), strict=True))


def merge_rows(sizes: tuple[int, ...], layouts: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Adjacent row dimensions become one where every layout allows it; dimensions of size 1 go.

    A single row is 0 from the next: the kernel promises alignment of rows that are not there as well.
    """
    kept = [axis for axis, size in enumerate(sizes) if size != 1]
    if not kept:
        return (1,), [(0, layout[-1]) for layout in layouts]
    merged = [sizes[axis] for axis in kept]
    rows = [[layout[axis] for axis in kept] for layout in layouts]
    for axis in reversed(range(len(merged) - 1)):
        if all(row[axis] == row[axis + 1] * merged[axis + 1] for row in rows):
            merged[axis] *= merged.pop(axis + 1)
            for row in rows:
                row.pop(axis)
    return tuple(merged), [(*row, layout[-1]) for row, layout in zip(rows, layouts, strict=True)]


def refuse_spilled(compiled: Any, tile: Tile) -> None:
    """Refuses a kernel whose threads keep more in memory than in registers: a tile too large for them.

    It is many times slower, and ptxas 12.8 made wrong code of one, at 32 registers (tests/test_gpu.py has it). Where
    wrong code begins is not known; no kernel with less than that was found wrong.
    """
    registers, spilled = getattr(compiled, "n_regs", None), getattr(compiled, "n_spills", None)
    if registers and spilled and spilled > registers:
        raise RuntimeError(
            f"the kernel of {tile} keeps {spilled} words of a thread in memory and {registers} in registers, and "
            "assemblers have made wrong code of such kernels: what it wrote (to `out` as well) is not to be used; it "
            "should be a tile of shorter runs, by rlscan.engine.forced(tile=...), or no kernel, by "
            'rlscan.engine.forced("portable")'
        )


def launcher_of(compiled: Any) -> tuple[Any, tuple[Any, ...]]:
    """The cheapest launcher of a compiled kernel, and what it takes between the stream and the kernel's arguments.

    It is called with grid, stream, these and the arguments; (None, ()) where this Triton has no such thing.
    """
    run, function = getattr(compiled, "run", None), getattr(compiled, "function", None)
    metadata = getattr(compiled, "packed_metadata", None)
    if run is None or function is None or metadata is None:
        return None, ()
    hooks = (metadata, None, None, None)
    try:  # the C function inside the launcher, if it needs no memory of its own
        if triton.__version__.startswith(C_LAUNCHERS) and run.global_scratch_size == run.profile_scratch_size == 0:
            return run.launch, (function, run.launch_cooperative_grid, run.launch_pdl, None, None, *hooks)
    except AttributeError:
        pass
    return run, (function, *hooks)


@cache
def flat_launcher(compiled: Any) -> tuple[Any, tuple[Any, ...]]:
    """A launcher for what the compiled kernel reads of its arguments, and its signature.

    (None, ()) where this Triton has no such thing, or no C compiler to make it with.
    """
    try:
        signature = tuple(compiled.src.signature.values())
        read = dict(enumerate(without_constants(signature, signature)))
        source = SimpleNamespace(fn=None, constants={}, signature=read)
        if triton.__version__.startswith(C_LAUNCHERS) and "constexpr" not in (*signature[0], *signature[2:4]):
            return type(compiled.run)(source, compiled.metadata).launch, signature
    except (AttributeError, TypeError, OSError, RuntimeError, subprocess.SubprocessError):
        pass
    return None, ()


def without_constants(values: Sequence[Any], signature: Sequence[Any]) -> Iterator[Any]:
    """The values in nested tuples one by one, but those that are constants of the kernel."""
    for value, kind in zip(values, signature, strict=True):
        if isinstance(kind, tuple):
            yield from without_constants(value, kind)
        elif kind != "constexpr":
            yield value
