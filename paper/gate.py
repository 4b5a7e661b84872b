"""The gate: an implementation is timed only after it agreed with the float64 reference on the very same data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

ROUNDOFFS = 128  # of the outputs' dtype; float32: 1.5e-5, a sixth of the paper's gate

Array = np.ndarray[Any, Any]


class Verdict(NamedTuple):
    """The largest error of any element, as a share of its row's largest magnitude (at least 1), and what is allowed."""

    max_err: float
    bound: float
    error: str = ""  # why there is nothing to compare

    @property
    def passed(self) -> bool:
        return not self.error and self.max_err <= self.bound  # false for NaN

    def evidence(self) -> dict[str, Any]:
        """The verdict as JSON."""
        max_err = self.max_err if np.isfinite(self.max_err) else None
        reason = self.error or ("not finite" if max_err is None else "" if self.passed else "error above the bound")
        return {"max_err": max_err, "bound": self.bound, "passed": self.passed, **({"error": reason} if reason else {})}


def expect(estimator: str, inputs: dict[str, Any]) -> list[Array]:
    """What the float64 reference makes of these very inputs."""
    from rlscan import reference

    def as_float64(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return (x.double() if x.is_floating_point() else x).cpu().numpy()

    return [
        np.asarray(x) for x in as_tuple(getattr(reference, estimator)(**{k: as_float64(v) for k, v in inputs.items()}))
    ]


def check(outputs: Any, expected: list[Array]) -> Verdict:
    """Compare every output with the reference. Unequal shapes, empty outputs and NaN do not pass."""
    results = as_tuple(outputs)
    bound = ROUNDOFFS * torch.finfo(results[0].dtype).eps
    shapes, wanted = [tuple(result.shape) for result in results], [want.shape for want in expected]
    if shapes != wanted or any(want.size == 0 for want in expected):
        return Verdict(float("inf"), bound, f"shapes {shapes} where the reference has {wanted}")
    errors = []
    for result, want in zip(results, expected, strict=True):
        scale = np.abs(want).max(axis=-1, keepdims=True).clip(min=1.0)
        errors.append((np.abs(result.cpu().double().numpy() - want) / scale).max())
    return Verdict(float(np.max(errors)), bound)


def admit(
    make: Callable[[], Callable[..., Any]], inputs: dict[str, Any], expected: list[Array]
) -> tuple[Callable[..., Any] | None, Verdict]:
    """The function to time, or None where it is not right, cannot be made or does not run; and the verdict."""
    try:
        function = make()
        verdict = check(function(**inputs), expected)
    except Exception as error:  # whatever a peer raises belongs in its row
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return None, Verdict(float("inf"), 0.0, reason)
    return function if verdict.passed else None, verdict


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, tuple) else (outputs,)
