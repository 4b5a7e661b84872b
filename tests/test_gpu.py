"""What only a GPU can show: addresses beyond 2^31, CUDA graphs, streams,
and launches that are reused when they should not be.
"""

from typing import Any

import numpy as np
import pytest
import torch
from conftest import WITHOUT_GPU

import rlscan
from rlscan import language
from rlscan.engine import Tile, forced, plan
from rlscan.language import triton
from rlscan.verify.compare import as_tuple, call, expect
from rlscan.verify.strategies import ESTIMATORS, Example, Setup, fill
from rlscan.verify.tolerance import assert_exact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or language.INTERPRETED, reason=f"{WITHOUT_GPU}; there is none here"
    ),
]


@pytest.mark.parametrize("time_dim", [-1, 0])
def test_more_than_two_to_the_31_elements(time_dim: int) -> None:
    rows, steps = (2**16 + 3, 2**15 + 1) if time_dim == -1 else (2**15 + 1, 2**16 + 3)
    ones = torch.ones(rows, steps, dtype=torch.bfloat16, device="cuda")
    assert ones.numel() > 2**31
    ends = torch.zeros(rows, steps, dtype=torch.bool, device="cuda")
    axis = 1 if time_dim == -1 else 0
    ends.select(axis, ends.shape[axis] - 4).fill_(True)  # the last three steps of every row count 1, 2, 3
    sums = rlscan.prefix_sum(ones, ends, time_dim=time_dim)
    tail = sums.narrow(axis, sums.shape[axis] - 3, 3).movedim(axis, -1).float()
    assert torch.equal(tail, torch.tensor([1.0, 2.0, 3.0], device="cuda").expand_as(tail))
    head = sums.narrow(axis, 0, 3).movedim(axis, -1).float()
    assert torch.equal(head, torch.tensor([1.0, 2.0, 3.0], device="cuda").expand_as(head))


def plain(estimator: str, seed: int, rows: int = 5, steps: int = 9, **options: Any) -> Example:
    rng = np.random.default_rng(seed)
    return fill(Setup(estimator, **options), rng.integers(0, 4, (rows, steps)).astype(np.int8), rng, exact=True)


def tensors(example: Example) -> dict[str, Any]:
    """The example's arguments on the GPU, in float32."""
    return {
        name: torch.from_numpy(np.array(x)).to("cuda", torch.bool if x.dtype == bool else torch.float32)
        if isinstance(x, np.ndarray)
        else x
        for name, x in example.arguments.items()
    }


def arguments(estimator: str, rows: int, steps: int, seed: int = 0) -> dict[str, Any]:
    """Random float32 arguments of a call; one step in twenty ends an episode."""
    rng = np.random.default_rng(seed)
    pattern = np.where(rng.random((rows, steps)) < 0.05, rng.integers(1, 4, (rows, steps)), 0).astype(np.int8)
    return tensors(fill(Setup(estimator, actions=3 if estimator == "retrace" else 0), pattern, rng, exact=False))


@pytest.mark.parametrize(("rows", "steps"), [(5, 9), (2, 20000)], ids=["one program", "time split over programs"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_capture_and_replay(estimator: str, rows: int, steps: int) -> None:
    first, second = plain(estimator, 0, rows, steps), plain(estimator, 1, rows, steps)

    static = tensors(first)
    static |= {name: x for name, x in tensors(second).items() if not isinstance(x, torch.Tensor)}
    function = getattr(rlscan, estimator)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        function(**static)  # the plan and the kernel are made before the capture
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = function(**static)
    for name, x in tensors(second).items():
        if isinstance(x, torch.Tensor):
            static[name].copy_(x)
    for _ in range(3):  # what programs leave behind for each other does not outlive a replay
        graph.replay()
    torch.cuda.synchronize()
    for k, (got, want) in enumerate(zip(as_tuple(captured), expect(second), strict=True)):
        assert_exact(got, want, f"{estimator} result {k}")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_kept_plan_is_not_used_for_another_kind_of_call(estimator: str) -> None:
    kinds = (
        {},
        {"layout": "TN"},
        {"strides": "gapped"},
        {"dtype": "float64"},
        {"dtype": "bfloat16"},
        {"flags": "uint8"},
        {"gamma": "steps", "lambda_": "cell"},
        {"edge": "number"},
        {},
    )
    for repeat in range(2):
        for number, options in enumerate(kinds):
            for steps in (16, 9, 16):
                example = plain(estimator, 10 * repeat + number, steps=steps, **options)
                for k, (got, want) in enumerate(zip(call(example, "cuda", None, rlscan), expect(example), strict=True)):
                    assert_exact(got, want, f"{estimator} {options} result {k}")


@pytest.mark.parametrize("tile", [None, Tile(16, 4, 1, run=2, group=2)], ids=["walking", "split"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_shortest_way_is_taken(estimator: str, tile: Tile | None) -> None:
    """A call like the last one goes by its shortcut, and by a launcher without tuples where Triton can make one."""
    example = plain(estimator, 0, tile=tile)
    (made,) = plan.remembered(lambda: call(example, "cuda", None, rlscan))
    assert (made.launch.words > 0) == (tile is not None)
    assert (made.launch.flat() is not None) == triton.__version__.startswith(("3.5.", "3.6."))
    whole, taken = made.shortcut, []

    def watched(*given: Any) -> Any:
        taken.append(whole(*given))
        return taken[-1]

    made.shortcut = watched
    call(example, "cuda", None, rlscan)
    assert len(taken) == 2
    assert None not in taken


def test_alignment_changes_between_calls() -> None:
    buffer = torch.arange(4 * 65, dtype=torch.float32, device="cuda")
    ends = torch.zeros(4, 64, dtype=torch.bool, device="cuda")
    for offset in (0, 1, 0, 3, 0):
        x = buffer[offset : offset + 256].view(4, 64)
        assert torch.equal(rlscan.prefix_sum(x, ends), x.cumsum(1))


def test_a_tile_too_large_for_its_registers_is_refused() -> None:
    """Of one ptxas 12.8 made wrong code: 2 % of the results were others, each time. Other assemblers may do well."""
    x, ends = torch.randn(1, 2**20, device="cuda"), torch.rand(1, 2**20, device="cuda") < 0.01
    with forced("portable"):
        wanted = rlscan.discounted_returns(x.double(), ends, last_values=0.0, gamma=0.99)
    refused = ""
    with forced(tile=Tile(1, 8192, 8, run=32, group=32)):
        try:
            got = rlscan.discounted_returns(x, ends, last_values=0.0, gamma=0.99)
        except RuntimeError as error:
            refused = str(error)
    if refused:
        assert "tile of shorter runs" in refused
    else:
        torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-4)


def test_streams_do_not_mix() -> None:
    x = torch.ones(64, 2048, device="cuda")
    ends = torch.zeros(64, 2048, dtype=torch.bool, device="cuda")
    rlscan.prefix_sum(x, ends)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.mul_(2.0)
        doubled = rlscan.prefix_sum(x, ends)
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(doubled, x.cumsum(1))
    assert doubled[0, 0] == 2.0


def test_a_call_does_not_synchronise() -> None:
    x = torch.ones(64, 128, device="cuda")
    ends = torch.zeros(64, 128, dtype=torch.bool, device="cuda")
    for _ in range(2):
        rlscan.gae(x, x, ends, last_values=0.0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        rlscan.gae(x, x, ends, last_values=0.0)
        rlscan.gae(x.double(), x.double(), ends, last_values=0.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("shape", [(33, 700), (3, 40000)], ids=["rows", "time split over programs"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_same_input_gives_the_same_bits(estimator: str, shape: tuple[int, int]) -> None:
    """A hundred times, while another stream keeps the GPU busy at random."""
    inputs = arguments(estimator, *shape)
    first = as_tuple(getattr(rlscan, estimator)(**inputs))
    side, noise = torch.cuda.Stream(), torch.randn(512, 512, device="cuda")
    for k in range(100):
        with torch.cuda.stream(side):
            for _ in range(k % 4):
                noise = torch.tanh(noise @ noise)
        again = as_tuple(getattr(rlscan, estimator)(**inputs))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("shape", [(33, 700), (3, 40000)], ids=["rows", "time split over programs"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_row_has_the_same_bits_in_any_company(estimator: str, shape: tuple[int, int]) -> None:
    """Scope: calls of one shape, layout and dtype. More or fewer rows may take another tile, which rounds otherwise."""
    inputs = arguments(estimator, *shape)
    others = arguments(estimator, *shape, seed=1)
    order = torch.randperm(shape[0], device="cuda")
    mixed = {
        name: torch.cat([x[order][:1], others[name][1:]]) if torch.is_tensor(x) else x for name, x in inputs.items()
    }
    whole = as_tuple(getattr(rlscan, estimator)(**inputs))
    moved = as_tuple(getattr(rlscan, estimator)(**mixed))
    assert all(torch.equal(a[order[0]], b[0]) for a, b in zip(whole, moved, strict=True))


@pytest.mark.parametrize("shape", [(33, 701), (3, 40001)], ids=["rows", "time split over programs"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_nothing_is_written_around_the_results(estimator: str, shape: tuple[int, int]) -> None:
    inputs = arguments(estimator, *shape)
    wanted = as_tuple(getattr(rlscan, estimator)(**inputs))
    around = [torch.full((shape[0] + 2, shape[1] + 6), 12345.0, device="cuda") for _ in wanted]
    targets = tuple(x[1:-1, 3:-3] for x in around)
    getattr(rlscan, estimator)(**inputs, out=targets if len(targets) > 1 else targets[0])
    for x, target, want in zip(around, targets, wanted, strict=True):
        # how right results are is asked elsewhere, by the bound; here, that they are there and no canaries
        torch.testing.assert_close(target, want, rtol=1e-4, atol=1e-4)
        target.fill_(12345.0)
        assert (x == 12345.0).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_launches_on_two_streams_do_not_meet(estimator: str) -> None:
    """Time split over programs: each launch has memory of its own to meet in."""
    calls = [arguments(estimator, 2, 30000, seed) for seed in (0, 1)]
    wanted = [as_tuple(getattr(rlscan, estimator)(**inputs)) for inputs in calls]
    streams = [torch.cuda.Stream() for _ in calls]
    torch.cuda.synchronize()
    for _ in range(20):
        got = []
        for stream, inputs in zip(streams, calls, strict=True):
            with torch.cuda.stream(stream):
                got.append(as_tuple(getattr(rlscan, estimator)(**inputs)))
        torch.cuda.synchronize()
        for results, want in zip(got, wanted, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(results, want, strict=True))
