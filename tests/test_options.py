"""Misuse of options, of `time_dim` and `out`, and of inputs that need gradients; integer rewards, which promote."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from misuse import N, T, arguments, call, every_argument, every_estimator, numbers, refused, valid

import rlscan
from rlscan.engine import forced


@pytest.mark.parametrize(
    ("estimator", "name", "choices"),
    [
        ("vtrace", "advantage", "'impala', 'mixed'"),
        ("retrace", "trace", "'retrace', 'tree_backup', 'importance', 'q_lambda'"),
        ("prefix_sum", "boundary", "'ends_at', 'starts_at'"),
    ],
)
def test_options(estimator: str, name: str, choices: str) -> None:
    refused(ValueError, estimator, f"{name} is 'Other'; it should be one of {choices}", **{name: "Other"})
    for value, was in ((None, "NoneType"), (1, "int"), (["ends_at"], "list"), (torch.ones(9), "torch.Tensor")):
        refused(TypeError, estimator, f"{name} is a {was}; it should be one of {choices}", **{name: value})


@pytest.mark.parametrize(
    ("estimator", "name"),
    [("vtrace", "rho_clip"), ("vtrace", "c_clip"), ("vtrace", "pg_rho_clip"), ("retrace", "c_clip")],
)
def test_clips(estimator: str, name: str) -> None:
    for value in (None, 0, 0.0, 2, math.inf, np.float32(1)):
        call(estimator, **{name: value})
    for value in (-1, -0.5, math.nan, -math.inf):
        part = f"{name} is {value!r}; it should be a number that is not negative, or None"
        refused(ValueError, estimator, part, **{name: value})
    for value, was in (("1", "str"), (True, "bool"), (torch.tensor(1.0), "Tensor"), ([1.0], "list"), (1j, "complex")):
        refused(TypeError, estimator, f"{name} is a ", f"{was}; it should be a number or None", **{name: value})


@arguments(lambda name: name not in ("terminated", "truncated", "ends"))
def test_gradients(estimator: str, name: str) -> None:
    """Refused, also by a call whose like was allowed before; allowed where nothing records."""
    recording = valid(estimator)[name].requires_grad_()
    want = call(estimator)
    for context in (torch.no_grad, torch.inference_mode):
        parts = (f"{name} requires grad", f"it should be {name}.detach()", "torch.no_grad()")
        refused(ValueError, estimator, *parts, **{name: recording})
        with context():
            got = call(estimator, **{name: recording})
        assert all(torch.equal(a, b) and not a.requires_grad for a, b in zip(got, want, strict=True))


@every_estimator
def test_time_dim(estimator: str) -> None:
    for value in (2, -3, 7):
        part = f"time_dim is {value}; it should be -1 or 1 for [N, T], 0 or -2 for [T, N]"
        refused(ValueError, estimator, part, time_dim=value)
    for value, was in ((1.5, "float"), ("0", "str"), (None, "NoneType")):
        refused(TypeError, estimator, f"time_dim is a {was}; it should be an integer", time_dim=value)
    if estimator != "retrace":  # it has nothing that belongs to rows alone
        refused(ValueError, estimator, "has shape [3]; it should be [4]", time_dim=0)


@every_estimator
def test_out(estimator: str) -> None:
    right = tuple(torch.empty(N, T) for _ in call(estimator))
    should = f"it should be a tuple of {len(right)} tensors" if len(right) > 1 else "it should be a tensor"

    def out(last: Any) -> Any:
        return (*right[:-1], last) if len(right) > 1 else last

    for wrong in (*right[:-1], list(right), right + right, "out", out(np.zeros((N, T)))):
        refused(TypeError, estimator, "out is a", should, out=wrong)
    parts = ("out has shape [4, 3]", "it should be [3, 4]")
    refused(ValueError, estimator, *parts, out=out(torch.empty(T, N)))
    parts = ("out has shape [3, 4], torch.float64", "it should be [3, 4], torch.float32")
    refused(ValueError, estimator, *parts, out=out(torch.empty(N, T, dtype=torch.float64)))
    refused(ValueError, estimator, "on meta; it should be", "on cpu", out=out(torch.empty(N, T, device="meta")))
    parts = ("out is an expanded view", "it should have memory for each element")
    refused(ValueError, estimator, *parts, out=out(torch.empty(N, 1).expand(N, T)))
    parts = ("out has layout torch.sparse_coo", "it should be a dense")
    refused(TypeError, estimator, *parts, out=out(torch.zeros(N, T).to_sparse()))
    parts = ("out requires grad", "it should be out.detach()")
    refused(ValueError, estimator, *parts, out=out(torch.empty(N, T, requires_grad=True)))


def test_a_call_like_an_earlier_one_is_checked_too() -> None:
    """Plans are kept: what is checked once must be part of what makes calls alike."""
    for name, value in (("gamma", True), ("last_values", True), ("values", numbers(N, 1)), ("rewards", [[1.0]])):
        call("gae", gamma=1, last_values=1)
        refused(TypeError if value is True or isinstance(value, list) else ValueError, "gae", name, **{name: value})


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integer_rewards_promote(dtype: torch.dtype, path: tuple[str, str]) -> None:
    whole, flags = torch.tensor([[3, 0, 7, 1]], device=path[1]), torch.tensor([[0.0, 1, 0, 0]], device=path[1])
    with forced(path[0]):
        for wide in (torch.float32, torch.float64):
            values = torch.full((1, 4), 0.5, dtype=wide, device=path[1])
            got = rlscan.gae(whole.to(dtype), values, flags, last_values=2.0, gamma=0.5, lambda_=0.5)
            want = rlscan.gae(whole.to(wide), values, flags, last_values=2.0, gamma=0.5, lambda_=0.5)
            assert got.advantages.dtype == wide
            assert torch.equal(got.advantages, want.advantages)
            assert torch.equal(got.returns, want.returns)
        # integers alone become the default dtype
        returns = rlscan.discounted_returns(whole.to(dtype), flags, last_values=2.0, gamma=0.5)
        assert returns.dtype == torch.get_default_dtype()
        assert returns.tolist() == [[3.0, 0.0, 8.0, 2.0]]
        assert rlscan.prefix_sum(whole.to(dtype), flags).tolist() == [[3.0, 3.0, 7.0, 8.0]]
        assert rlscan.eligibility_traces(whole.to(dtype), flags, gamma=1, lambda_=0.5).tolist() == [
            [3.0, 1.5, 7.0, 4.5]
        ]


REFUSED = [
    ("gae", {"out": (lambda x: (x, x))(torch.empty(N, T))}, ValueError, "out"),
    ("linear_scan", {"reverse": "no"}, TypeError, "reverse"),
    ("gae", {"time_dim": [0]}, TypeError, "time_dim"),
]


@pytest.mark.parametrize(
    ("estimator", "changes", "error", "part"), REFUSED, ids=lambda x: x if isinstance(x, str) else ""
)
def test_what_should_be_refused(estimator: str, changes: dict[str, Any], error: type[Exception], part: str) -> None:
    refused(error, estimator, f"{part} is", "it should be", **changes)


def test_out_that_is_an_input() -> None:
    values = numbers(N, T)
    refused(ValueError, "gae", "out shares", values=values, out=(values, torch.empty(N, T)))


@every_argument
def test_out_beside_an_input(estimator: str, name: str) -> None:
    """One buffer for both: where they share an element that is refused, and where they only touch it is not."""
    given = valid(estimator)[name]
    rest = tuple(torch.empty(N, T) for _ in call(estimator))[1:]
    size, room = given.numel() * given.element_size(), 4 * N * T
    for input_at, out_at in ((room - 4, 0), (room, 0), (0, size - 4), (0, size)):
        memory = torch.zeros(room + size, dtype=torch.uint8)
        value = memory[input_at : input_at + size].view(given.dtype).view(given.shape).copy_(given)
        target = memory[out_at : out_at + room].view(torch.float32).view(N, T)
        out = (target, *rest) if rest else target
        if input_at < out_at + room and out_at < input_at + size:
            refused(ValueError, estimator, f"out shares memory with {name}", **{name: value, "out": out})
        else:
            call(estimator, **{name: value, "out": out})


@pytest.mark.parametrize(
    ("starts", "last_done", "name"),
    [
        ([[0, 1]], True, "starts"),
        (torch.zeros(1, 2, dtype=torch.complex64), True, "starts"),
        (torch.zeros(1, 2), [True], "last_done"),
        (torch.zeros(1, 2), None, "last_done"),
        (torch.zeros(1, 2), torch.zeros(1, device="meta"), "last_done"),
    ],
)
def test_flag_conversion(starts: Any, last_done: Any, name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{name} (is|has) .*; it should be"):
        rlscan.boundaries.ends_from_starts(starts, last_done)
