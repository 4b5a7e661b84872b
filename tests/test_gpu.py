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
from rlscan.verify.compare import call, expect
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


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_capture_and_replay(estimator: str) -> None:
    first, second = plain(estimator, 0), plain(estimator, 1)

    def tensors(example: Example) -> dict[str, Any]:
        return {
            name: torch.from_numpy(np.array(x)).to("cuda", torch.bool if x.dtype == bool else torch.float32)
            if isinstance(x, np.ndarray)
            else x
            for name, x in example.arguments.items()
        }

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
    graph.replay()
    torch.cuda.synchronize()
    results = captured if isinstance(captured, tuple) else (captured,)
    for k, (got, want) in enumerate(zip(results, expect(second), strict=True)):
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


def test_alignment_changes_between_calls() -> None:
    buffer = torch.arange(4 * 65, dtype=torch.float32, device="cuda")
    ends = torch.zeros(4, 64, dtype=torch.bool, device="cuda")
    for offset in (0, 1, 0, 3, 0):
        x = buffer[offset : offset + 256].view(4, 64)
        assert torch.equal(rlscan.prefix_sum(x, ends), x.cumsum(1))


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


def test_the_same_input_gives_the_same_bits() -> None:
    x, lr = torch.randn(33, 700, device="cuda"), torch.randn(33, 700, device="cuda")
    ends = torch.rand(33, 700, device="cuda") < 0.05
    first = rlscan.vtrace(x, x, lr, ends, last_values=0.0)
    for _ in range(100):
        again = rlscan.vtrace(x, x, lr, ends, last_values=0.0)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
