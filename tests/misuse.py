"""Calls that are right in all but one argument, and what has to become of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import rlscan
from rlscan.engine import forced
from rlscan.verify.compare import as_tuple
from rlscan.verify.strategies import BOOTSTRAPPED as BOOTSTRAPPED
from rlscan.verify.strategies import ESTIMATORS

N, T, A = 3, 4, 5
FLAGS = ("terminated", "truncated", "ends")
ROWS = ("last_values", "initial")
WEIGHTS = ("gamma", "lambda_")


def numbers(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(len(shape)))


def valid(estimator: str) -> dict[str, Any]:
    """Every tensor that the estimator takes, in its fullest shape."""
    x, flags = numbers(N, T), numbers(N, T) < 0.3
    weights = {"gamma": x, "lambda_": x}
    successor = {"terminated": flags, "truncated": ~flags, "last_values": numbers(N), "truncation_values": x}
    actions = {
        "terminated": flags,
        "truncated": ~flags,
        "next_q_values": numbers(N, T, A),
        "next_policy": numbers(N, T, A),
    }
    return {
        "gae": {"rewards": x, "values": x, **successor, **weights},
        "vtrace": {"rewards": x, "values": x, "log_ratios": x, **successor, **weights},
        "retrace": {"rewards": x, "q_values": x, "log_ratios": x, **actions, **weights},
        "td_lambda": {"rewards": x, "values": x, **successor, **weights},
        "discounted_returns": {"rewards": x, **successor, "gamma": x},
        "eligibility_traces": {"inputs": x, "ends": flags, "initial": numbers(N), **weights},
        "prefix_sum": {"inputs": x, "ends": flags, "initial": numbers(N)},
        "linear_scan": {"alpha": x, "beta": x, "initial": numbers(N)},
    }[estimator]


every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def arguments(of: Callable[[str], bool]) -> pytest.MarkDecorator:
    """Every estimator with each of its tensors whose name fits."""
    pairs = [(estimator, name) for estimator in ESTIMATORS for name in valid(estimator) if of(name)]
    return pytest.mark.parametrize(("estimator", "name"), pairs)


every_argument = arguments(lambda name: True)


def call(estimator: str, **changes: Any) -> tuple[torch.Tensor, ...]:
    """On the portable path: arguments are checked before any path is taken."""
    with forced("portable"):
        return as_tuple(getattr(rlscan, estimator)(**{**valid(estimator), **changes}))


def refused(error: type[Exception], estimator: str, *parts: str, **changes: Any) -> None:
    """Raises exactly this error, and its message has every part."""
    with pytest.raises(error) as caught:
        call(estimator, **changes)
    assert caught.type is error
    for part in parts:
        assert part in str(caught.value), str(caught.value)
