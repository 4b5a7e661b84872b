"""The language in which the kernel is proved finds what no program may do; test_proofs.py runs the proofs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sympy")
pytest.importorskip("triton")

from rlscan.proofs import DEEP
from rlscan.proofs.executions import TARGETS, far, stored, trials
from rlscan.proofs.kernel_twins import TWINS
from rlscan.proofs.registry import outcome
from rlscan.proofs.symbolic import UNDEFINED, Symbols, same
from rlscan.proofs.symbolic_memory import Memory, Pointer, run_programs
from rlscan.proofs.symbolic_tensors import Fault, Tensor
from rlscan.proofs.symbolic_triton import Edit, SymbolicTriton, edited

import rlscan
from rlscan import affine
from rlscan.engine import kernel
from rlscan.engine.kernel import EMPTY
from rlscan.language import is_jit, tl
from rlscan.verify.strategies import ESTIMATORS

X, Y = (Symbols(["x", "y"])[name] for name in ("x", "y"))
FLOATS = tl.float32


def memory(size: int, *, writable: bool = True, dtype: Any = FLOATS) -> Memory:
    return Memory("words" if dtype is tl.int64 else "x", dtype, 2 * np.arange(size), np.zeros(size, object), writable)


def at(memory: Memory, *offsets: int) -> Pointer:
    return Pointer(memory) + Tensor(np.array(offsets), tl.int32)


def values(*entries: Any) -> Tensor:
    return Tensor(np.array(entries, object), FLOATS)


def test_memory_has_its_elements_and_no_others() -> None:
    x = memory(3, writable=False)
    assert SymbolicTriton.load(at(x, 0, 4)).shape == (2,)
    for offset in (-2, 1, 6):
        with pytest.raises(Fault, match="beside its elements"):
            SymbolicTriton.load(at(x, offset))
    masked = SymbolicTriton.load(at(x, 0, 6), mask=Tensor(np.array([True, False]), tl.int1), other=7)
    assert masked.data.tolist() == [0, 7]


def test_a_place_is_written_once_and_read_after_that() -> None:
    x = memory(3)
    with pytest.raises(Fault, match="nothing was written"):
        SymbolicTriton.load(at(x, 0))
    SymbolicTriton.store(at(x, 0, 2), values(X, Y))
    assert same(SymbolicTriton.load(at(x, 2)).data[0], Y)
    for again in ((2,), (4, 4)):
        with pytest.raises(Fault, match="written twice"):
            SymbolicTriton.store(at(x, *again), values(*[X] * len(again)))
    with pytest.raises(Fault, match="writes to x"):
        SymbolicTriton.store(at(memory(1, writable=False), 0), values(X))
    with pytest.raises(Fault, match="where fp16 belongs"):
        SymbolicTriton.store(at(memory(1, dtype=tl.float16), 0), values(X))


def waiting(words: Memory, own: Callable[[int], int], other: Callable[[int], int]) -> Callable[[], None]:
    def program() -> None:
        number = int(SymbolicTriton.program_id(0))
        if own(number) >= 0:
            SymbolicTriton.store(at(words, 2 * own(number)), Tensor(np.array([1]), tl.int64))
        while other(number) >= 0 and SymbolicTriton.load(at(words, 2 * other(number)), volatile=True) == 0:
            pass

    return program


def test_a_wait_for_what_nobody_writes_is_a_deadlock_and_does_not_loop() -> None:
    behind = (lambda k: k, lambda k: k - 1)
    run_programs(waiting(memory(3, dtype=tl.int64), *behind), (3, 1, 1))
    run_programs(waiting(memory(3, dtype=tl.int64), *behind), (3, 1, 1), last_first=True)
    ahead = (lambda k: k, lambda k: min(k + 1, 2))
    with pytest.raises(Fault, match=r"program \(0, 0, 0\) waits.*deadlock"):
        run_programs(waiting(memory(3, dtype=tl.int64), *ahead), (3, 1, 1))
    run_programs(waiting(memory(3, dtype=tl.int64), *ahead), (3, 1, 1), last_first=True)
    with pytest.raises(Fault, match="wait for each other"):
        run_programs(waiting(memory(3, dtype=tl.int64), lambda k: -1, lambda k: 0), (3, 1, 1), last_first=True)


def test_the_bits_of_numbers_are_found_again_and_nothing_else_is_known_of_them() -> None:
    alpha, beta = values(X), values(Y)
    high = alpha.to(tl.int32, bitcast=True).to(tl.int64) << 32
    word = (high | beta.to(tl.uint32, bitcast=True).to(tl.int64)) ^ EMPTY.value
    assert (word != 0).data.tolist() == [True]
    plain = word ^ EMPTY.value
    assert same((plain >> 32).to(tl.int32).to(FLOATS, bitcast=True).data[0], X)
    assert same(plain.to(tl.int32).to(FLOATS, bitcast=True).data[0], Y)
    nothing = Tensor(np.array([0], object), tl.int32).to(FLOATS, bitcast=True)
    assert same(nothing.data[0], UNDEFINED)
    with pytest.raises(Fault, match="not known"):
        plain != 0  # noqa: B015  # raises
    with pytest.raises(Fault, match="mixed"):
        high | beta.to(tl.int32, bitcast=True).to(tl.int64)


def test_offsets_wrap_at_32_bits_and_no_arithmetic_is_in_a_storage_dtype() -> None:
    large = Tensor(np.array([2**30]), tl.int32)
    assert (large * 2).data.tolist() == [-(2**31)]
    assert (large.to(tl.int64) * 2).data.tolist() == [2**31]
    with pytest.raises(Fault, match="storage dtype"):
        values(X).to(tl.float16) + values(X).to(tl.float16)
    with pytest.raises(Fault, match="power of two"):
        SymbolicTriton.arange(0, 3)


def test_a_twins_expression_has_to_be_in_the_source() -> None:
    edits = (Edit("affine_scan_kernel", "no such expression", ""),)
    tried = outcome(lambda: stored("gae", edits=edits))
    assert not tried.differs
    assert "should be once" in tried.finding


@pytest.mark.parametrize("name", TWINS)
def test_the_expressions_of_all_twins_are_in_the_source(name: str) -> None:
    """Those of the deep statements too, which run seldom."""
    functions = {name: f.fn for name, f in {**vars(affine), **vars(kernel)}.items() if is_jit(f)}
    for twin in TWINS[name]:
        for edit in twin.parts.get("edits", ()):
            assert edited(functions[edit.function], (edit,)) != functions[edit.function].__code__, twin.name


def test_every_estimator_is_executed() -> None:
    assert {target.function for target in TARGETS.values()} == set(ESTIMATORS)
    assert all(getattr(rlscan, target.function) for target in TARGETS.values())
    assert len(DEEP) >= 2


@pytest.mark.parametrize("name", TARGETS)
def test_trials_have_tiles_layouts_strides_and_splits(name: str) -> None:
    shapes = [(call, shape) for call, shapes in trials(TARGETS[name]) for shape in shapes]
    assert {shape.layout for _, shape in shapes} == {"NT", "TN"}
    assert {shape.strides for _, shape in shapes} >= {"packed", "gapped", "transposed", "mixed"}
    assert any(call.steps > shape.tile.steps and call.steps % shape.tile.steps for call, shape in shapes)
    # three levels: more groups than are folded at a time
    assert any(shape.tile.group and call.steps > shape.tile.group**2 for call, shape in shapes if shape.tile.steps == 1)


def test_offsets_beyond_32_bits_take_no_memory() -> None:
    tried = outcome(lambda: stored("eligibility_traces", among=far))
    assert tried.holds, tried.finding
