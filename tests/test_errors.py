"""Every misuse raises ValueError or TypeError that names the argument, what it was and what it should be."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from misuse import (
    BOOTSTRAPPED,
    FLAGS,
    ROWS,
    WEIGHTS,
    A,
    N,
    T,
    arguments,
    call,
    every_argument,
    every_estimator,
    numbers,
    refused,
    valid,
)

import rlscan

FIRST = ("rewards", "inputs", "alpha")  # what the others have to fit
OPTIONAL = ("truncated", "truncation_values", "next_policy")
Change = Callable[[torch.Tensor], torch.Tensor]


@every_estimator
def test_what_is_changed_below_is_accepted(estimator: str) -> None:
    assert all(x.shape == (N, T) and x.isfinite().all() for x in call(estimator))


@every_argument
@pytest.mark.parametrize(
    ("value", "was"),
    [([[0.0]], "list"), (np.zeros((N, T)), "numpy.ndarray"), ("x", "str"), (True, "bool"), (1j, "complex")],
)
def test_what_is_no_tensor(estimator: str, name: str, value: Any, was: str) -> None:
    should = "a number or a floating tensor" if name in ROWS + WEIGHTS else "tensor"
    refused(TypeError, estimator, f"{name} is a {was}; it should be a", should, **{name: value})


@arguments(lambda name: name not in ROWS + WEIGHTS)
def test_numbers_where_tensors_are_needed(estimator: str, name: str) -> None:
    refused(TypeError, estimator, f"{name} is a float; it should be a", "tensor", **{name: 0.5})


@every_argument
def test_sparse_tensors(estimator: str, name: str) -> None:
    sparse = valid(estimator)[name].float().to_sparse()
    refused(TypeError, estimator, f"{name} has layout torch.sparse_coo; it should be a dense", **{name: sparse})


@every_argument
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "int64", "int32", "uint8", "bool", "float8_e4m3fn"])
def test_dtypes(estimator: str, name: str, dtype: str) -> None:
    """Integers promote where they are rewards or inputs; flags may be bool or uint8; all else is floating."""
    allowed = {"uint8", "bool"} if name in FLAGS else {"int64", "int32", "uint8"} if name in FIRST[:2] else set()
    changed = valid(estimator)[name].to(getattr(torch, dtype))
    if dtype in allowed:
        call(estimator, **{name: changed})
        return
    should = "float32, bfloat16, float16 or float64"
    refused(TypeError, estimator, f"{name} has dtype {dtype}; it should be ", should, **{name: changed})


SHAPES: dict[str, Change] = {
    "a column": lambda x: x[:, :1],
    "a row": lambda x: x[:1],
    "one number": lambda x: x[:1, :1],
    "no dimension": lambda x: x[0, 0],
    "time alone": lambda x: x[0],
    "rows alone": lambda x: x[:, 0],
    "fewer rows": lambda x: x[1:],
    "fewer steps": lambda x: x[:, 1:],
    "one dimension more": lambda x: x.unsqueeze(2),
    "transposed": lambda x: x.transpose(0, 1),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


@arguments(lambda name: name not in FIRST + ROWS)
@every_shape
def test_nothing_is_broadcast(estimator: str, name: str, shape: str) -> None:
    right = valid(estimator)[name]
    wrong = SHAPES[shape](right)
    if name in WEIGHTS and wrong.ndim == 0:
        call(estimator, **{name: wrong})
        return
    should = (
        "it should be [3, 4, A]" if name == "next_q_values" and wrong.ndim != 3 else f"it should be {list(right.shape)}"
    )
    first = f"the shape of {next(iter(valid(estimator)))}"
    refused(ValueError, estimator, f"{name} has shape {list(wrong.shape)}; ", should, first, **{name: wrong})


@arguments(lambda name: name in FIRST)
@every_shape
def test_what_the_others_have_to_fit_is_not_broadcast(estimator: str, name: str, shape: str) -> None:
    """One of the others is named, as what does not fit the new shape."""
    wrong = SHAPES[shape](valid(estimator)[name])
    if wrong.ndim == 0:
        refused(ValueError, estimator, f"{name} has no dimensions; it should be [T], [N, T]", **{name: wrong})
    elif wrong.ndim == 3 and estimator == "retrace":
        refused(ValueError, estimator, f"{name} has shape [3, 4, 1]; it should be [T], [N, T]", **{name: wrong})
    else:
        refused(ValueError, estimator, " has shape [", "; it should be [", f"of {name})", **{name: wrong})


@arguments(lambda name: name in ROWS)
@pytest.mark.parametrize("shape", [(N, 1), (1,), (T,), (N - 1,), (1, N), (N, T)])
def test_a_value_for_every_row_is_not_broadcast(estimator: str, name: str, shape: tuple[int, ...]) -> None:
    parts = (f"{name} has shape {list(shape)}; it should be [3]", "a number")
    refused(ValueError, estimator, *parts, **{name: numbers(*shape)})


def test_a_column_against_a_vector() -> None:
    vector, column = torch.ones(N), torch.ones(N, 1)
    for rewards, values, flags in ((column, vector, column), (vector, column, vector), (vector, vector, column)):
        with pytest.raises(ValueError, match=r"has shape \[3(, 1)?\]; it should be \[3(, 1)?\]"):
            rlscan.gae(rewards, values, flags, last_values=0.0)
    with pytest.raises(ValueError, match=r"last_values has shape \[1\]; it should be \[\]"):
        rlscan.gae(vector, vector, vector, last_values=torch.ones(1))


def test_flags_have_no_features() -> None:
    x = numbers(N, T, 2)
    parts = ("terminated has shape [3, 4, 2]; it should be [3, 4]", "first two dimensions of rewards")
    refused(ValueError, "gae", *parts, rewards=x, values=x, terminated=torch.zeros(N, T, 2))


@every_argument
def test_devices(estimator: str, name: str) -> None:
    elsewhere, first = valid(estimator)[name].to("meta"), next(iter(valid(estimator)))
    part = f"{name} is on meta; it should be on cpu, as {first} is"
    if name == first:
        part = f" is on cpu; it should be on meta, as {first} is"
    refused(ValueError, estimator, part, **{name: elsewhere})


@arguments(lambda name: name not in OPTIONAL)
def test_missing_arguments(estimator: str, name: str) -> None:
    refused(ValueError, estimator, f"{name} is missing: ", " is needed", **{name: None})


@pytest.mark.parametrize("estimator", BOOTSTRAPPED)
def test_bootstraps(estimator: str) -> None:
    x = numbers(N, T)
    part = "last_values is missing: V(s_T), a number or a tensor [3], is needed"
    refused(ValueError, estimator, part, "next_values", last_values=None)
    part = "truncated is given without truncation_values or next_values: "
    refused(ValueError, estimator, part, truncation_values=None)
    refused(ValueError, estimator, "truncation_values is given without truncated: ", truncated=None)
    refused(ValueError, estimator, "next_values and truncation_values are both given", next_values=x)
    part = "next_values has shape [4]; it should be [3, 4]"
    refused(ValueError, estimator, part, truncation_values=None, next_values=x[0])
    call(estimator, last_values=None, truncation_values=None, next_values=x)


def test_bootstraps_of_retrace() -> None:
    call("retrace", next_q_values=numbers(N, T), next_policy=None)
    part = "next_q_values has shape [3, 4, 5]; it should be [3, 4]"
    refused(ValueError, "retrace", part, "it needs next_policy", next_policy=None)
    for actions in (A - 1, A + 1, 1, 0):
        part = f"next_policy has shape [3, 4, {actions}]; it should be [3, 4, 5]"
        refused(ValueError, "retrace", part, "then actions", next_policy=numbers(N, T, actions))
    parts = ("next_q_values has shape [3, 4, 0]", "it should be [3, 4, A], A > 0")
    refused(ValueError, "retrace", *parts, next_q_values=numbers(N, T, 0), next_policy=numbers(N, T, 0))
    for trace in ("retrace", "tree_backup", "importance"):
        refused(ValueError, "retrace", "log_ratios is missing: a floating tensor", log_ratios=None, trace=trace)
    call("retrace", log_ratios=None, trace="q_lambda")
