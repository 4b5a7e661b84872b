"""Plans and launches: what a plan keeps, time split over programs, and what `explain` says."""

import ctypes
import gc
import mmap
import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from misuse import every_estimator, valid
from torch.utils.flop_counter import FlopCounterMode

import rlscan
from rlscan import language
from rlscan.engine import Tile, forced, plan
from rlscan.engine import launch as launch_module
from rlscan.engine import shortcut as shortcut_module
from rlscan.engine.spec import Kind
from rlscan.engine.tiles import WARP, choose_tile
from rlscan.verify.compare import as_tuple, compare
from rlscan.verify.strategies import ESTIMATORS, Setup, fill

# three levels of groups and more blocks than one group; two levels; one
DEEP, MIDDLE, FLAT = Tile(16, 2, 1, run=1, group=2), Tile(32, 4, 1, 2, run=4, group=4), Tile(16, 4, 1, run=2, group=16)
# programs of two tiles, on two levels, and of four
PAIRS, FOURS = Tile(16, 2, 1, run=1, group=2, walk=2), Tile(16, 4, 1, 2, run=2, group=4, walk=4, vector=2)


# Plans


@every_estimator
def test_a_plan_outlives_the_tensors_of_its_calls(estimator: str) -> None:
    arguments = valid(estimator)
    results = getattr(rlscan, estimator)(**arguments)
    watched = [weakref.ref(x) for x in (*arguments.values(), *([results] if torch.is_tensor(results) else results))
               if torch.is_tensor(x)]  # fmt: skip
    del arguments, results
    gc.collect()
    assert not any(reference() is not None for reference in watched)


CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nothing": lambda x: x.clone(),
    "alignment": lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape),
    "strides": lambda x: x.mT.contiguous().mT,
    "dtype": lambda x: x.double(),
    "a view": lambda x: torch.stack([x, x], -1)[..., 0],
    "inference mode": lambda x: torch.inference_mode()(lambda y: y.clone())(x),
    "a parameter": lambda x: torch.nn.Parameter(x, requires_grad=False),
}


@every_estimator
@pytest.mark.parametrize("check", ["PyTorch's", "our own"])
def test_a_call_that_differs_from_the_last_one(estimator: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of change, after a call that it must not be taken for, and back again."""
    if check == "our own":
        monkeypatch.setattr(plan, "TensorGuards", None)
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(plan, "_recent", {})
    function = getattr(rlscan, estimator)
    arguments = valid(estimator)
    name = next(name for name, x in arguments.items() if torch.is_tensor(x) and x.ndim == 2)
    wanted = as_tuple(function(**arguments))
    for change in (*CHANGES.values(), *reversed(CHANGES.values())):
        got = as_tuple(function(**{**arguments, name: change(arguments[name])}))
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a.to(b.dtype), b, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match=f"{name} has shape|should be"):
        function(**{**arguments, name: arguments[name][:, 1:]})


@every_estimator
def test_a_plan_for_aligned_memory_is_for_no_other(estimator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is compiled for pointers that are multiples of 16, or not."""
    monkeypatch.setattr(plan, "_recent", {})
    function, arguments = getattr(rlscan, estimator), valid(estimator)
    name = next(name for name, x in arguments.items() if torch.is_tensor(x) and x.ndim == 2)
    elsewhere = {**arguments, name: CHANGES["alignment"](arguments[name])}
    assert elsewhere[name].data_ptr() % 16
    taken = []
    for given in (arguments, elsewhere, arguments):
        function(**given)
        taken += plan._recent.values()
    assert [each.aligned for each in taken] == [True, False, True]


@every_estimator
def test_the_same_tensor_twice(estimator: str) -> None:
    arguments = valid(estimator)
    names = [name for name, x in arguments.items() if torch.is_tensor(x) and x.ndim == 2 and x.is_floating_point()]
    same = {**arguments, **dict.fromkeys(names, arguments[names[0]])}
    copies = {**same, **{name: same[name].clone() for name in names}}
    for _ in range(2):
        for a, b in zip(as_tuple(getattr(rlscan, estimator)(**same)),
                        as_tuple(getattr(rlscan, estimator)(**copies)), strict=True):  # fmt: skip
            assert torch.equal(a, b)


@pytest.mark.parametrize("estimator", ["gae", "vtrace"])
def test_values_are_read_once(estimator: str) -> None:
    """V(s_{t+1}) is the value of the next step: no second tensor, unless there is one."""
    given = valid(estimator)
    (made,) = plan.remembered(lambda: getattr(rlscan, estimator)(**given))
    slots = made.spec.slots(frozenset(given))
    (successor,) = [kind for slot, kind in zip(slots, made.kinds, strict=True) if slot.kind == Kind.NEXT]
    values = next(k for k, slot in enumerate(slots) if (slot.argument, slot.kind) == ("values", Kind.VALUE))
    assert successor == Kind.SHIFTED + values


# Time split over programs


@every_estimator
@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_split_time_is_the_definition(estimator: str, layout: str, path: tuple[str, str]) -> None:
    name, device = path
    if name == "portable":
        pytest.skip("the portable path has no programs")
    rng = np.random.default_rng(0)
    deep = ((31, DEEP, True), (31, DEEP, False), (31, PAIRS, True), (31, PAIRS, False))
    for steps, tile, exact in (*deep, (22, MIDDLE, True), (9, FLAT, True), (34, FOURS, True), (33, FOURS, False)):
        pattern = np.where(rng.random((2, steps)) < 0.08, rng.integers(1, 4, (2, steps)), 0).astype(np.int8)
        setup = Setup(estimator, layout=layout, tile=tile, actions=2 if estimator == "retrace" else 0)
        compare(fill(setup, pattern, rng, exact=exact), exact=exact, device=device, path=name)


def test_split_time_in_float64_and_with_nan(path: tuple[str, str]) -> None:
    name, device = path
    if name == "portable":
        pytest.skip("the portable path has no programs")
    rng = np.random.default_rng(1)
    for estimator in ESTIMATORS:
        for dtype, hazard in (("float64", True), ("float32", True)):
            pattern = np.where(rng.random((2, 19)) < 0.1, 1, 0).astype(np.int8)
            for tile in (DEEP, PAIRS):
                example = fill(Setup(estimator, dtype=dtype, tile=tile), pattern, rng, exact=True, hazard=hazard)
                compare(example, exact=True, device=device, path=name)


def test_bits_that_mean_nothing_is_there_yet(path: tuple[str, str]) -> None:
    """A NaN whose bits are those of an empty word is still a NaN to the programs that wait for it."""
    name, device = path
    if name == "portable":
        pytest.skip("the portable path has no programs")
    for integer, floating, bits in ((torch.int32, torch.float32, 0x7FF8ABCD),
                                    (torch.int32, torch.float32, 0x7FC0ABCD),
                                    (torch.int64, torch.float64, 0x7FF8ABCD7FC0ABCD)):  # fmt: skip
        nan = torch.full((1, 12), bits, dtype=integer).view(floating).to(device)
        with forced(name, DEEP):
            got = rlscan.linear_scan(nan, nan)
        assert got.isnan().all()


@pytest.mark.parametrize("path", ["cuda", ""])
def test_a_path_that_there_is_not(path: str) -> None:
    with pytest.raises(ValueError, match=f"path is '{path}'; it should be one of triton, interpreter, portable"):
        forced(path).__enter__()


@pytest.mark.parametrize(
    ("has_triton", "interpreted", "on_cuda", "on_cpu", "on_meta"),
    [
        (True, False, "triton", "portable", "portable"),
        (True, True, "interpreter", "interpreter", "portable"),
        (False, False, "portable", "portable", "portable"),
    ],
    ids=["compiled", "in-python", "without"],
)
def test_the_path_of_a_device(
    monkeypatch: pytest.MonkeyPatch, has_triton: bool, interpreted: bool, on_cuda: str, on_cpu: str, on_meta: str
) -> None:
    monkeypatch.setattr(language, "HAS_TRITON", has_triton)
    monkeypatch.setattr(language, "INTERPRETED", interpreted)
    wanted = {"cuda": on_cuda, "cpu": on_cpu, "meta": on_meta}
    assert {name: plan.path_for(torch.device(name)) for name in wanted} == wanted


# The launch


def test_rows_that_lie_apart_evenly_are_one_dimension() -> None:
    merge = launch_module.merge_rows
    assert merge((2, 3), [(12, 4, 1)]) == ((6,), [(4, 1)])
    assert merge((2, 3), [(12, 4, 1), (0, 0, 1)]) == ((6,), [(4, 1), (0, 1)])
    assert merge((2, 3), [(12, 4, 1), (3, 1, 0)]) == ((6,), [(4, 1), (1, 0)])
    assert merge((2, 3), [(12, 4, 1), (16, 4, 1)]) == ((2, 3), [(12, 4, 1), (16, 4, 1)])
    assert merge((2, 1, 3), [(13, 7, 4, 1)]) == ((2, 3), [(13, 4, 1)])
    assert merge((1, 1), [(5, 7, 1), (1, 1, 2)]) == ((1,), [(0, 1), (0, 2)])
    assert merge((2, 3, 4), [(48, 16, 4, 1), (50, 16, 4, 1)]) == ((2, 12), [(48, 4, 1), (50, 4, 1)])


class Launched:
    """What the kernel would have been launched with, by Triton's ordinary launch or by a compiled kernel's launcher."""

    def __init__(self) -> None:
        self.ordinarily: list[tuple[Any, ...]] = []
        self.directly: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *arguments, **_: self.ordinarily.append((*grid, *map(addresses, arguments)))

    def compile(self, launch: Any) -> None:
        """From now on there is a compiled kernel, and the device of the call is current."""
        launch.compiled, launch.head = lambda *arguments: self.directly.append(arguments), ("head",)
        launch.current_device, launch.current_stream = lambda: launch.index, lambda index: ("stream", index)


def addresses(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(addresses, x))
    return x.data_ptr() if torch.is_tensor(x) else x


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Launched:
    if not language.INTERPRETED:
        pytest.skip("kernels that are compiled are launched for real")
    found = Launched()
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(plan, "_recent", {})
    monkeypatch.setattr(launch_module, "affine_scan_kernel", found)
    return found


def direct(found: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Grid and arguments of a direct launch but the results, as of an ordinary one; and the results' addresses."""
    *grid, stream, head, slots, results = found[:7]
    assert (stream, head) == (("stream", None), "head")
    return (*grid, slots, *found[7:]), results


@every_estimator
@pytest.mark.parametrize("tile", [None, DEEP], ids=["walking", "split"])
def test_every_way_to_launch_is_given_the_same(estimator: str, tile: Tile | None, launched: Launched) -> None:
    function, arguments = getattr(rlscan, estimator), valid(estimator)
    with forced("interpreter", tile):
        kept = [function(**arguments)]
        (made,) = plan._recent.values()
        assert made.shortcut is None
        launched.compile(made.launch)
        for _ in range(3):  # as the first call of a compiled kernel, then by the shortcut
            kept.append(function(**arguments))
            assert made.shortcut is not None
    assert len(launched.ordinarily) == 1
    *grid, slots, results, policy, words = launched.ordinarily[0][:7]
    assert results == tuple(x.data_ptr() for x in as_tuple(kept[0]))
    assert (words != 0) == (tile is not None)
    assert len(launched.directly) == 3
    for found, returned in zip(launched.directly, kept[1:], strict=True):
        same, results = direct(found)
        assert (same[5] != 0) == (words != 0)
        assert same == (*grid, slots, policy, same[5], *launched.ordinarily[0][7:])
        assert type(returned) is type(kept[0])
        assert results == tuple(x.data_ptr() for x in as_tuple(returned))
        for x, first in zip(as_tuple(returned), as_tuple(kept[0]), strict=True):
            assert (x.shape, x.stride(), x.dtype) == (first.shape, first.stride(), first.dtype)
    assert len({x.data_ptr() for returned in kept for x in as_tuple(returned)}) == 4 * len(as_tuple(kept[0]))


def test_programs_of_every_launch_meet_in_memory_that_is_empty(launched: Launched) -> None:
    """Also where a call takes the shortcut, and in memory that the last launch has written to."""
    x, ends = torch.ones(2, 24), torch.zeros(2, 24, dtype=torch.bool)
    met = []
    with forced("interpreter", DEEP):
        rlscan.prefix_sum(x, ends)
        (made,) = plan._recent.values()
        launched.compile(made.launch)

        def publish(*found: Any) -> None:
            words = (ctypes.c_int64 * made.launch.words).from_address(direct(found)[0][5])
            met.append(any(words))
            words[:] = [1] * len(words)

        made.launch.compiled = publish
        for _ in range(5):
            rlscan.prefix_sum(x, ends)
    assert made.shortcut is not None
    assert met == [False] * 5


@dataclass(eq=False)
class Compiled:
    """A kernel that Triton has compiled."""

    src: Any
    metadata: Any
    run: Any


def kinds(value: Any) -> Any:
    """As in a kernel's signature: a 1 is a constant."""
    if isinstance(value, tuple):
        return tuple(map(kinds, value))
    return "fp32" if isinstance(value, float) else "constexpr" if value == 1 else "i64"


def read_by_the_kernel(value: Any, kind: Any) -> list[Any]:
    if isinstance(kind, tuple):
        return [x for pair in zip(value, kind, strict=True) for x in read_by_the_kernel(*pair)]
    return [] if kind == "constexpr" else [value]


@every_estimator
def test_a_shortcut_by_a_launcher_that_takes_no_tuples(
    estimator: str, launched: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Launcher:
        def __init__(self, source: Any, metadata: str) -> None:
            assert (source.fn, source.constants, metadata) == (None, {}, "metadata")
            self.types = [*source.signature.values()]
            assert [*source.signature] == [*range(len(self.types))]

        def launch(self, *arguments: Any) -> None:
            assert "constexpr" not in self.types
            assert len(arguments) == 5 + len(self.types)
            launched.directly.append(arguments)

    function, arguments = getattr(rlscan, estimator), valid(estimator)
    kept = [function(**arguments)]
    (made,) = plan._recent.values()
    launched.compile(made.launch)
    ordinary = launched.ordinarily[0][3:]
    signature = (*map(kinds, ordinary[:10]), *["constexpr"] * len(ordinary[10:]))
    source = SimpleNamespace(signature=dict(enumerate(signature)))
    made.launch.kernel = Compiled(source, "metadata", object.__new__(Launcher))
    monkeypatch.setattr(launch_module.triton, "__version__", "3.6.0")
    kept += [function(**arguments) for _ in range(2)]
    results = tuple(x.data_ptr() for x in as_tuple(kept[2]))
    wanted = read_by_the_kernel((ordinary[0], results, *ordinary[2:]), signature)
    assert launched.directly[1] == (*launched.ordinarily[0][:3], ("stream", None), "head", *wanted)


SIGNATURE = {0: ("*fp32",), 1: "i32", 2: "i32", 3: "i32"}


@pytest.mark.parametrize("fault", [RuntimeError, OSError, TypeError, AttributeError, {0: ("constexpr", "*fp32")}, None])
def test_a_shortcut_does_without_a_launcher_that_cannot_be_made(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no C compiler, Triton says so by RuntimeError; the kernel itself may be in its cache."""

    class Launcher:
        def __init__(self, source: Any, metadata: str) -> None:
            if isinstance(fault, type):
                raise fault("Failed to find C compiler")
            self.launch = "made"

    monkeypatch.setattr(launch_module.triton, "__version__", "3.6.0")
    signature = SIGNATURE | (fault if isinstance(fault, dict) else {})
    compiled = Compiled(SimpleNamespace(signature=signature), "metadata", object.__new__(Launcher))
    assert launch_module.flat_launcher(compiled)[0] == (None if fault else "made")


def test_which_way_to_launch_is_kept(launched: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled kernel's launcher; none of the interpreter, nor where numbers go through memory."""
    monkeypatch.setattr(launch_module, "launcher_of", lambda kernel: ("its launcher", ("head",)))
    for dtype, compiled, kept in (
        (torch.float32, False, None),
        (torch.float32, True, "its launcher"),
        (torch.float64, True, None),
    ):
        x = torch.ones(2, 8, dtype=dtype)
        (made,) = plan.remembered(partial(rlscan.discounted_returns, x, x, last_values=0.0, gamma=0.5))
        assert made.launch.compiled is None
        with monkeypatch.context() as patched:
            patched.setattr(language, "INTERPRETED", not compiled)
            made.launch.launch_ordinary((x, x, None, 0.0, None, None, 0.5), (x,))
        assert made.launch.compiled == kept


@pytest.mark.parametrize(
    ("registers", "spilled", "refused"),
    [(32, 1248, True), (32, 33, True), (32, 32, False), (255, 0, False), (None, None, False)],
)
def test_a_kernel_that_keeps_more_in_memory_than_in_registers_is_refused(
    registers: int | None, spilled: int | None, refused: bool, launched: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Kernel:
        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
            return lambda *_, **__: SimpleNamespace(n_regs=registers, n_spills=spilled)

    monkeypatch.setattr(launch_module, "affine_scan_kernel", Kernel())
    x, wanted = torch.ones(2, 8), Tile(2, 8, 1, run=2)
    for _ in range(2):  # again, as long as that is the kernel
        with forced(tile=wanted), pytest.raises(RuntimeError) if refused else nullcontext() as caught:
            rlscan.prefix_sum(x, x)
        if refused:
            assert f"the kernel of {wanted} keeps {spilled} words of a thread in memory" in str(caught.value)


def test_a_plan_expects_the_kind_of_tensors_that_it_was_found_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of inference mode have the plan of others, which is looked for once."""
    looked: list[Any] = []
    find = plan.find_plan
    monkeypatch.setattr(plan, "find_plan", lambda *call: looked.append(call) or find(*call))
    x, ends = torch.ones(2, 8), torch.zeros(2, 8)
    rlscan.prefix_sum(x, ends)
    looked.clear()
    with torch.inference_mode():
        given = x.clone(), ends.clone()
    for _ in range(3):
        rlscan.prefix_sum(*given)
    assert len(looked) <= 1


def unlike(value: Any) -> list[Any]:
    """Arguments that this one may not be taken for."""
    if not torch.is_tensor(value):
        return [1, 0.5 if value is None else None, torch.tensor(0.5)]
    strided = torch.stack([value, value], -1)[..., 0]
    needs_gradients = value.detach().clone().float().requires_grad_()
    return [value.double(), strided, torch.cat([value, value]), needs_gradients, None, 0.5]


@every_estimator
@pytest.mark.parametrize("tensors", ["that come twice", "all different"])
def test_a_shortcut_is_for_calls_like_the_one_it_was_made_for(estimator: str, tensors: str, launched: Launched) -> None:
    """It refuses every other, and each part of its condition is needed for that."""
    given = valid(estimator) | ({"gamma": 0.5} if "gamma" in valid(estimator) else {})
    if tensors == "all different":
        given = {name: x.clone() if torch.is_tensor(x) else x for name, x in given.items()}
    function = getattr(rlscan, estimator)
    function(**given)
    (made,) = plan._recent.values()
    launched.compile(made.launch)
    calls: list[tuple[Any, ...]] = []
    made.shortcut = lambda *call: calls.append(call)
    function(**given)
    arguments, time_dim = calls[0]
    now = SimpleNamespace(wish=made.wish, device=made.launch.index)
    made.launch.current_device = lambda: now.device

    def goes_on(source: str, *call: Any) -> bool:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(shortcut_module, "SOURCE", source)
            built = shortcut_module.shortcut(made, lambda: now.wish)
        assert built is not None
        try:
            return built(*call) is not None
        except AttributeError:  # what is no tensor has no address
            return True

    def refuses(part: str, *call: Any, instead: str = "True") -> None:
        whole = shortcut_module.SOURCE
        assert part in whole
        assert not goes_on(whole, *call), (part, call)
        assert goes_on(whole.replace(part, instead), *call), (part, call)

    assert goes_on(shortcut_module.SOURCE, arguments, time_dim)
    refuses("time_dim is TIME_DIM", arguments, 0)
    for k, value in enumerate(arguments):
        part = "plan.matches({tensors})" if torch.is_tensor(value) else "{types}"
        for other in unlike(value):
            refuses(part, (*arguments[:k], other, *arguments[k + 1 :]), time_dim)
        if torch.is_tensor(value):
            elsewhere = (*arguments[:k], CHANGES["alignment"](value), *arguments[k + 1 :])
            refuses("({bits}) & 15", elsewhere, time_dim, instead="False")
            empty = value.clone()
            empty.untyped_storage().resize_(0)
            refuses("not ({all})", (*arguments[:k], empty, *arguments[k + 1 :]), time_dim, instead="False")
    now.wish = plan.Forced()
    refuses("forced() is WISH", arguments, time_dim)
    now.wish, now.device = made.wish, -1
    refuses("is_direct()", arguments, time_dim)


def test_a_shortcut_allocates_what_an_ordinary_call_does(launched: Launched) -> None:
    """Results that promote, and inputs whose memory has gaps."""
    x = torch.arange(48.0).reshape(4, 12)
    for inputs in (x.half(), x.int(), x[:, ::2], x[:1].expand(4, 12), x.mT.contiguous().mT):
        weight = torch.tensor(0.5, dtype=torch.float64) if inputs.dtype == torch.float16 else 0.5
        call = partial(rlscan.discounted_returns, inputs, inputs > 30, last_values=0.0, gamma=weight)
        first = call()
        launched.compile(plan._recent[next(iter(plan._recent))].launch)
        for again in (call(), call()):
            assert (again.shape, again.stride(), again.dtype) == (first.shape, first.stride(), first.dtype)
        plan._recent.clear()


def test_what_a_shortcut_would_leave_out(launched: Launched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that are no floats, `out`, results of a class of their own, another device,
    and whoever watches launches or operations.
    """
    x, ends = torch.ones(2, 24), torch.zeros(2, 24, dtype=torch.bool)
    call = partial(rlscan.discounted_returns, x, ends, last_values=0.0)

    def made(call: Callable[[], Any]) -> plan.Plan:
        call()
        (found,) = plan._recent.values()
        launched.compile(found.launch)
        call()
        plan._recent.clear()
        return found

    def last_slots() -> tuple[Any, ...]:
        return direct(launched.directly[-1])[0][3]

    assert made(partial(call, gamma=0.5)).shortcut is not None
    assert made(partial(call, gamma=1)).shortcut is None
    assert [type(x) for x in last_slots() if x == 1] == [float]
    assert made(partial(call, gamma=0.5, out=torch.empty_like(x))).shortcut is None
    own = partial(rlscan.discounted_returns, x.as_subclass(type("Own", (torch.Tensor,), {})), ends, last_values=0.0)
    assert made(partial(own, gamma=0.5)).shortcut is None
    assert len(launched.directly) == 4
    call(gamma=0.5)
    (found,) = plan._recent.values()
    whole, found.shortcut = found.shortcut, lambda *_: pytest.fail("a mode does not see what a shortcut allocates")
    with FlopCounterMode(display=False):
        call(gamma=0.5)
    found.shortcut = whole
    assert len(launched.directly) == 6
    with monkeypatch.context() as watched:
        watched.setattr(launch_module, "runtime", SimpleNamespace(launch_enter_hook=None, launch_exit_hook=print))
        call(gamma=0.5)
    found.launch.current_device = lambda: 1
    call(gamma=0.5)
    assert len(launched.directly) == 6


# Memory


def guarded(x: torch.Tensor, end: str) -> torch.Tensor:
    """A copy of x that begins or ends where memory that may not be touched does."""
    size, page = x.numel() * x.element_size(), mmap.PAGESIZE
    inside = -(-size // page) * page
    memory = mmap.mmap(-1, inside + 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (address, address + page + inside):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0  # no access
    offset = page if end == "front" else page + inside - size
    return torch.frombuffer(memory, dtype=x.dtype, count=x.numel(), offset=offset).view(x.shape).copy_(x)


@pytest.mark.skipif(sys.platform != "linux", reason="NOT RUN: no guarded memory here")
@pytest.mark.parametrize("end", ["front", "back"])
@pytest.mark.parametrize("time_dim", [-1, 0])
@pytest.mark.parametrize("estimator", ["gae", "retrace", "prefix_sum"])
def test_nothing_outside_is_touched(path: tuple[str, str], estimator: str, time_dim: int, end: str) -> None:
    """Rows and steps that a tile has and the window has not lie in memory of somebody else: to touch it is the end."""
    name, device = path
    if device != "cpu":
        pytest.skip("NOT RUN: memory is guarded on a CPU; compute-sanitizer watches a GPU's")
    flipped = {key: x.transpose(0, 1).contiguous() if torch.is_tensor(x) and x.ndim > 1 and time_dim == 0 else x
               for key, x in valid(estimator).items()}  # fmt: skip
    given = {key: guarded(x, end) if torch.is_tensor(x) else x for key, x in flipped.items()}
    for tile in (Tile(16, 2, 1, run=1), Tile(16, 8, 1, run=2), Tile(16, 4, 1, run=2, vector=2)):
        with forced(name, tile):
            want = as_tuple(getattr(rlscan, estimator)(**flipped, time_dim=time_dim))
            out = tuple(guarded(torch.empty_like(x), end) for x in want)
            got = getattr(rlscan, estimator)(**given, time_dim=time_dim, out=out if len(out) > 1 else out[0])
        assert all(torch.equal(x, y) for x, y in zip(as_tuple(got), want, strict=True))


# Offsets


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("time_dim", [-1, 0])
def test_offsets_beyond_31_bits(path: tuple[str, str], time_dim: int, width: int) -> None:
    """Three rows, or three steps, 2^30 elements apart: no stride needs 64 bits, and an offset does, 2^31 itself too."""
    name, device = path
    far = torch.empty(2**31 + 6, dtype=torch.uint8, device=device)  # of which nine bytes are touched
    ends = far.as_strided((3, width), (2**30, 1))
    ends.copy_(torch.tensor([[0, 1, 0], [1, 0, 1], [0, 0, 1]])[:, :width])
    inputs = torch.arange(1.0, 10.0, device=device).reshape(3, 3)[:, :width]
    for each in (Tile(16, 4, 1, run=2), Tile(16, 2, 1, run=1, group=2), Tile(16, 4, 1, run=2, vector=2)):
        with forced(name, each):
            got = rlscan.prefix_sum(inputs, ends, time_dim=time_dim)
        with forced("portable"):
            assert torch.equal(got, rlscan.prefix_sum(inputs, ends.clone(), time_dim=time_dim))


def test_the_offsets_of_a_policy_beyond_31_bits(path: tuple[str, str]) -> None:
    """They decide by themselves: all else lies close together."""
    name, device = path
    far = torch.empty(2**31 + 6, dtype=torch.float16, device=device)
    policy = far.as_strided((3, 3, 2), (2**30, 2, 1))
    policy.copy_(torch.tensor([[[0.5, 0.5], [1, 0], [0, 1]], [[0, 1], [0.5, 0.5], [1, 0]], [[1, 0], [0, 1], [0, 0]]]))
    x = torch.arange(1.0, 10.0, device=device).reshape(3, 3)
    given = {"terminated": x > 8, "next_q_values": torch.stack([x, -x], -1), "gamma": 0.5, "trace": "q_lambda"}
    with forced(name, Tile(16, 4, 1, run=2)):
        got = rlscan.retrace(x, x, None, **given, next_policy=policy)
        want = rlscan.retrace(x, x, None, **given, next_policy=policy.clone())
    assert torch.equal(got, want)


# Tiles


@pytest.mark.parametrize("time_dim", [-1, 0])
@pytest.mark.parametrize("run", [1, 2, 4, 8, 16, 32])
def test_runs_of_every_length(path: tuple[str, str], run: int, time_dim: int) -> None:
    """As many as `choose_tile` may say: one full tile of two runs, and one that ends inside a run."""
    name, device = path
    steps = 2 * run + run // 2 + 1
    inputs = torch.arange(2.0 * steps, device=device).reshape((2, steps) if time_dim else (steps, 2))
    ends = inputs % 5 == 0
    with forced("portable"):
        wanted = rlscan.prefix_sum(inputs, ends, time_dim=time_dim)
    for vector in (0, 1, 2, 4, 8):
        with forced(name, Tile(max(1, 32 // run), 2 * run, 1, run=run, vector=vector)):
            assert torch.equal(rlscan.prefix_sum(inputs, ends, time_dim=time_dim), wanted)


def test_vectors_are_as_long_as_windows_and_strides_allow() -> None:
    """Whatever is read or written step by step: a row that begins elsewhere, a window that ends within a vector.

    Threads read vectors of their runs, or without such tiles several steps together, from 4 on.
    """
    x, ends = torch.zeros(4, 24), torch.zeros(4, 24, dtype=torch.bool)
    wide, gapped = torch.zeros(4, 26)[:, :24], torch.zeros(4, 28)[:, :24]
    odd, spread = torch.zeros(4, 25, dtype=torch.bool)[:, :24], torch.zeros(4, 48, dtype=torch.bool)[:, ::2]
    eight, four = Tile(16, 8, 1, run=8, vector=8), Tile(16, 8, 1, run=4, vector=8)
    for inputs, flags, tile, vector, aligned in (
        (x, ends, eight, 8, 8),
        (x, ends, four, 4, 4),
        (x[:, :20], ends[:, :20], eight, 4, 4),
        (x[:, :18], ends[:, :18], eight, 2, 1),
        (x[:, :17], ends[:, :17], eight, 1, 1),
        (gapped, ends, eight, 4, 4),
        (wide, ends, eight, 2, 1),
        (x, odd, eight, 1, 1),
        (odd[:1].float(), odd[:1], eight, 8, 8),
        (x, spread, eight, 1, 1),
        (spread.float(), ends, eight, 8, 8),
        (torch.zeros(4, 48)[:, ::2], ends, eight, 1, 1),
        (x.mT.contiguous().mT, ends.mT.contiguous().mT, eight, 0, 1),
    ):
        for given, wanted in ((tile, (vector, 1)), (replace(tile, vector=0), (0, aligned))):
            with forced("interpreter" if language.INTERPRETED else "portable", given):
                (made,) = plan.remembered(partial(rlscan.prefix_sum, inputs, flags))
            if made.launch is None:
                pytest.skip("NOT RUN: launches without a GPU need TRITON_INTERPRET=1")
            assert (made.launch.vector, made.launch.aligned) == wanted


# loads, weight, actions, bytes of a number
KINDS = (
    (2, 4, 0, 4),
    (3, 10, 0, 2),
    (3, 10, 0, 4),
    (5, 16, 0, 8),
    (5, 16, 0, 2),
    (4, 10, 4, 4),
    (4, 10, 18, 4),
    (4, 10, 3, 8),
)


@pytest.mark.parametrize("time_is_contiguous", [True, False])
def test_every_tile_has_a_run_for_every_thread(time_is_contiguous: bool) -> None:
    for rows in (1, 2, 31, 512, 2048, 2049, 4096, 70000):
        if rows == 1 and not time_is_contiguous:
            continue
        for steps in (1, 2, 3, 8, 17, 32, 33, 64, 100, 128, 129, 300, 4096, 2**24):
            for loads, weight, actions, size in KINDS:
                kind: dict[str, Any] = {"loads": loads, "weight": weight, "actions": actions, "reverse": weight > 4}
                kind |= {"compute_bytes": max(size, 4), "storage_bytes": size}
                tile = choose_tile(rows, steps, time_is_contiguous=time_is_contiguous, **kind)
                assert tile.warps >= 1
                assert tile.steps % tile.run == 0
                assert tile.rows * (tile.steps // tile.run) >= WARP * tile.warps, (rows, steps, tile)
                assert all(x & (x - 1) == 0 for x in vars(tile).values())


# explain


@every_estimator
def test_explain_says_what_ran(estimator: str) -> None:
    arguments = valid(estimator)
    with forced("portable"):
        said = rlscan.explain(getattr(rlscan, estimator), **arguments)
    assert (said.estimator, said.path, said.tile) == (estimator, "portable", None)
    first = next(iter(arguments.values()))
    assert (said.rows, said.steps) == tuple(first.shape)
    given = sum(x.numel() * x.element_size() for x in arguments.values() if torch.is_tensor(x))
    assert said.bytes_read <= given
    results = 2 if estimator in ("gae", "vtrace") else 1
    assert said.bytes_written == results * first.numel() * first.element_size()
    assert estimator in str(said)


def test_explain_names_the_tile_and_the_programs(path: tuple[str, str]) -> None:
    name, device = path
    if name == "portable":
        pytest.skip("the portable path has no tiles")
    tile = Tile(16, 4, 1, run=2, group=2)
    inputs, ends = torch.ones(3, 9, device=device), torch.zeros(3, 9, device=device)
    for each, programs, scratch, words in (
        (tile, 3, 8 * 3 * (3 + 2), "each tile is a program"),
        (replace(tile, walk=2), 2, 8 * 3 * 2, "each walks over 2 tiles, twice"),
        (replace(tile, walk=4), 1, 0, "each program walks over time"),
        (replace(tile, group=0), 1, 0, "each program walks over time"),
        (replace(tile, group=0, vector=2), 1, 0, "2 steps a thread, which it reads itself, 1 warps"),
    ):
        with forced(name, each):
            said = rlscan.explain(rlscan.prefix_sum, inputs, ends)
        assert (said.path, said.tile, said.programs, said.scratch_bytes) == (name, each, programs, scratch)
        assert "4 steps" in str(said)
        assert words in str(said)
        assert (said.registers is not None) == (name == "triton")


def test_explain_refuses_what_is_no_estimator() -> None:
    for function in (torch.cumsum, len, rlscan.GAE, lambda: None):
        with pytest.raises(TypeError, match="it should be an estimator of rlscan"):
            rlscan.explain(function)
