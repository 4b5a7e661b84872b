"""Tensors that are not just numbers in memory, and calls within what PyTorch transforms or records.

Each is computed as if it were an ordinary one, or refused by its name; also after an ordinary call, whose plan is kept.
"""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from misuse import arguments, every_estimator, numbers, valid
from properties import Path as Way
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import rlscan
from rlscan.engine import forced, plan
from rlscan.engine.checks import Layout
from rlscan.verify.compare import as_tuple

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # that PyTorch calls by itself
every_float = arguments(lambda name: name not in ("terminated", "truncated", "ends"))


def right(estimator: str, path: Way) -> dict[str, Any]:
    """Every tensor an object of its own, so that PyTorch's check compares them."""
    return {name: x.to(path[1], copy=True) for name, x in valid(estimator).items()}


@pytest.fixture(params=["PyTorch's check", "our own check"], autouse=True)
def check(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whether a call is like the one before."""
    if request.param == "our own check":
        monkeypatch.setattr(plan, "TensorGuards", None)
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(plan, "_recent", {})


def called(estimator: str, path: Way, given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    with forced(path[0]):
        return as_tuple(getattr(rlscan, estimator)(**given))


def refused(path: Way, estimator: str, name: str, value: Any, *parts: str) -> None:
    """By a first call, and by one whose like was taken before."""
    given = right(estimator, path)
    for before in (False, True):
        plan._plans.clear()
        plan._recent.clear()
        if before:
            called(estimator, path, given)
        with pytest.raises(ValueError, match=f"^{name} ") as caught:
            called(estimator, path, {**given, name: value})
        assert all(part in str(caught.value) for part in parts), str(caught.value)


@every_float
def test_a_view_that_negates(estimator: str, name: str, path: Way) -> None:
    x = right(estimator, path)[name]
    negated = torch.complex(x, -x).conj().imag
    assert negated.is_neg()
    refused(path, estimator, name, negated, "is_neg", f"it should be {name}.resolve_neg()")
    same = {**right(estimator, path), name: negated.resolve_neg()}
    wanted = called(estimator, path, right(estimator, path))
    for got, want in zip(called(estimator, path, same), wanted, strict=True):
        assert torch.equal(got, want)


def test_results_are_not_written_to_a_view_that_negates(path: Way) -> None:
    given = right("prefix_sum", path)
    out = torch.complex(given["inputs"], given["inputs"]).conj().imag
    refused(path, "prefix_sum", "out", out, "it should be out.resolve_neg()")


@every_float
def test_a_dual_tensor(estimator: str, name: str, path: Way) -> None:
    x = right(estimator, path)[name]
    with forward_ad.dual_level():
        called(estimator, path, right(estimator, path))  # no tangent, no harm
        refused(path, estimator, name, forward_ad.make_dual(x, x), "dual tensor", "no gradients yet", ".primal")


@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp", "functionalize"])
@every_estimator
def test_within_a_transform(estimator: str, transform: str, path: Way) -> None:
    given = right(estimator, path)
    name, x = next(iter(given.items()))

    def function(value: torch.Tensor) -> torch.Tensor:
        return called(estimator, path, {**given, name: value})[0].sum()

    calls: dict[str, Callable[[], Any]] = {
        "vmap": lambda: torch.vmap(function)(torch.stack([x, x])),
        "grad": lambda: torch.func.grad(function)(x),
        "jvp": lambda: torch.func.jvp(function, (x,), (x,)),
        "functionalize": lambda: torch.func.functionalize(function)(x),
    }
    for _ in range(2):
        with pytest.raises(ValueError, match=f"^{name} is a (tensor of torch.func|dual tensor).*it should be"):
            calls[transform]()
        called(estimator, path, given)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@every_estimator
def test_traced_by_jit(estimator: str, path: Way) -> None:
    given = right(estimator, path)
    name, x = next(iter(given.items()))
    for _ in range(2):
        with pytest.raises(ValueError, match=f"{name} is traced by torch.jit; it should not be"):
            torch.jit.trace(lambda value: called(estimator, path, {**given, name: value}), (x,))
        called(estimator, path, given)


@every_estimator
def test_recorded_by_make_fx(estimator: str, path: Way) -> None:
    """What can be recorded is: the graph computes with the inputs that it is given. A kernel can't be."""
    given = right(estimator, path)
    name, x = next(iter(given.items()))

    def function(value: torch.Tensor) -> torch.Tensor:
        return called(estimator, path, {**given, name: value})[0]

    for _ in range(2):
        if path[0] == "portable":
            assert torch.allclose(make_fx(function)(x)(x + 1), function(x + 1))
        else:
            with pytest.raises(RuntimeError, match="make_fx records here, and it should not"):
                make_fx(function)(x)
        function(x)


def test_other_modes_are_let_be(path: Way) -> None:
    given = right("gae", path)
    want = called("gae", path, given)
    with FlopCounterMode(display=False):
        got = called("gae", path, given)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@arguments(lambda name: True)
def test_no_memory(estimator: str, name: str, path: Way) -> None:
    """A kernel is given no null pointer, whatever PyTorch says the shape is; of a first call PyTorch says so itself."""
    if path[0] == "portable":
        pytest.skip("PyTorch's own operations say what they think of such a tensor")
    given = right(estimator, path)
    called(estimator, path, given)
    empty = given[name].clone()
    empty.untyped_storage().resize_(0)
    try:  # not by pytest.raises: whoever prints such a tensor reads from nowhere
        called(estimator, path, {**given, name: empty})
        said = "nothing"
    except ValueError as error:
        said = str(error)
    del empty
    assert said.startswith(f"{name} has no memory")


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_results_that_are_fake(path: Way) -> None:
    if path[0] == "portable":
        pytest.skip("a claim about kernels")
    given = right("gae", path)
    called("gae", path, given)
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(ValueError, match="a result has no memory"):
        called("gae", path, given)


@every_estimator
def test_results_are_of_the_class_of_the_first_tensor(estimator: str, path: Way) -> None:
    class Own(torch.Tensor):
        pass

    given = right(estimator, path)
    name, x = next(iter(given.items()))
    for made, kind in ((x.as_subclass(Own), Own), (torch.nn.Parameter(x, requires_grad=False), torch.Tensor)):
        for _ in range(3):
            assert {*map(type, called(estimator, path, {**given, name: made}))} == {kind}


@pytest.mark.parametrize("estimator", ["discounted_returns", "eligibility_traces", "prefix_sum"])
def test_the_default_dtype_changes(estimator: str, path: Way) -> None:
    """Integers become the default dtype of now, and not that of the call before."""
    given = right(estimator, path)
    given = {k: 0.5 if k in ("gamma", "lambda_", "last_values", "initial") else x for k, x in given.items()}
    for name in ("truncated", "truncation_values"):
        given.pop(name, None)
    whole = {**given, next(iter(given)): torch.ones(3, 4, dtype=torch.int32, device=path[1])}
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float64, torch.float32, torch.bfloat16):
            torch.set_default_dtype(dtype)
            assert called(estimator, path, whole)[0].dtype == dtype
    finally:
        torch.set_default_dtype(before)


def test_what_the_engine_asks_of_the_world_is_known() -> None:
    """A kept plan is wrong once such a state changes, unless a call like the last one asks again. Each of these does:
    the default dtype in `Plan.alike`, recording in `Plan.__call__`, hooks in `Launch.is_direct`.
    """
    asked = r"(?<!\w)(torch\.(?:get|is|are)_\w+|torch\.backends\S*|os\.(?:environ|getenv)|knobs\.\w+)"
    files = [*ROOT.glob("rlscan/engine/*.py"), *ROOT.glob("rlscan/[!_]*.py")]
    found = {name for file in files if file.name != "cli.py" for name in re.findall(asked, file.read_text())}
    assert found - {"torch.is_tensor"} == {"torch.get_default_dtype", "torch.is_grad_enabled", "knobs.runtime"}


def test_numbers_that_no_float_holds(path: Way) -> None:
    given = right("discounted_returns", path)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^gamma is 1000.*…; it should be a number that a float64 can hold"):
            called("discounted_returns", path, {**given, "gamma": 10**400})
        called("discounted_returns", path, {**given, "gamma": 1})


# Results in the caller's memory


def test_results_may_lie_between_inputs_and_not_in_them(path: Way) -> None:
    """Columns, halves of rows and permuted dimensions of one buffer."""
    buffer = torch.zeros(4000, device=path[1])
    ends = torch.zeros(16, 8, dtype=torch.bool, device=path[1])

    def block(start: int, *strides: int) -> torch.Tensor:
        return buffer.as_strided((16, 8), strides, start)

    apart = [((0, 16, 2), (1, 16, 2)), ((0, 16, 1), (8, 16, 1)), ((0, 1, 16), (128, 1, 16)), ((0, 1, 32), (16, 1, 32))]
    meeting = [((0, 16, 2), (2, 16, 2)), ((0, 16, 1), (7, 16, 1)), ((0, 1, 16), (16, 1, 16)), ((0, 16, 1), (3, 1, 16))]
    for pairs in (apart, meeting):
        for inputs_at, out_at in pairs:
            inputs, out = block(*inputs_at).copy_(numbers(16, 8)), block(*out_at)
            for _ in range(2):
                if pairs is meeting:
                    with pytest.raises(
                        ValueError, match=r"^out shares memory with inputs; it should be memory of its own"
                    ):
                        called("prefix_sum", path, {"inputs": inputs, "ends": ends, "out": out})
                else:
                    want = called("prefix_sum", path, {"inputs": inputs.clone(), "ends": ends})[0]
                    called("prefix_sum", path, {"inputs": inputs, "ends": ends, "out": out})
                    assert torch.equal(out, want)


@pytest.mark.parametrize("strides", [(1, 1), (0, 1), (2, 1), (1, 0), (3, 2)])
def test_results_that_overlap_themselves(strides: tuple[int, int], path: Way) -> None:
    out = torch.zeros(64, device=path[1]).as_strided((3, 4), strides)
    refused(path, "prefix_sum", "out", out, "it should have memory for each element")


def test_which_bytes_meet_is_counted() -> None:
    """Beside all bytes of two tensors, listed one by one."""
    generator = torch.Generator().manual_seed(0)
    buffer = torch.zeros(200, dtype=torch.uint8)
    met = 0
    for _ in range(2000):
        a, b, c, d = (int(torch.randint(0, 7, (), generator=generator)) for _ in range(4))
        start, other_start = (int(torch.randint(0, 60, (), generator=generator)) for _ in range(2))
        x, y = buffer.as_strided((3, 4), (a, b), start), buffer.as_strided((2, 5), (c, d), other_start)
        taken = [{start + i * a + j * b for i in range(3) for j in range(4)},
                 {other_start + i * c + j * d for i in range(2) for j in range(5)}]  # fmt: skip
        meets = Layout(x).meets(x.data_ptr(), Layout(y), y.data_ptr())
        assert meets == bool(taken[0] & taken[1])
        met += meets
    assert 200 < met < 1800
    empty = Layout(buffer[:0])
    assert not empty.meets(buffer.data_ptr(), Layout(buffer), buffer.data_ptr())


# Other threads


def test_explain_is_about_its_own_call() -> None:
    """While other threads call the same estimator, and others, on other shapes."""
    done = threading.Event()
    made: list[int] = []

    def busy(function: Callable[..., Any], *given: Any) -> None:
        with forced("portable"):  # Triton's interpreter is not for several threads
            while not done.is_set():
                function(*given)
                made.append(1)

    small = torch.ones(1, 2)
    threads = [threading.Thread(target=busy, args=(rlscan.linear_scan, small, small)),
               threading.Thread(target=busy, args=(rlscan.prefix_sum, small, small))]  # fmt: skip
    for thread in threads:
        thread.start()
    try:
        with forced("portable"):
            found = {rlscan.explain(rlscan.prefix_sum, torch.ones(3, 5), torch.ones(3, 5)).rows for _ in range(100)}
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert found == {3}
    assert len(made) > 20


def test_remembered_calls_leave_no_trace() -> None:
    """A plan found while it is watched is that of ordinary calls, and these are taken for the last one as ever."""
    x = torch.ones(2, 6)
    (first,) = plan.remembered(lambda: rlscan.prefix_sum(x, x))
    rlscan.prefix_sum(x, x)
    (again,) = plan.remembered(lambda: rlscan.prefix_sum(x, x))
    assert first is again
    assert first.wish is plan._forced.get()
    with forced("portable"):
        (nested,) = plan.remembered(lambda: rlscan.prefix_sum(x, x))
        assert nested.wish is plan._forced.get()
