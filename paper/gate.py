"""The gate: an implementation is timed only after it agreed with the float64 reference on the very same data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from rlscan import reference
from rlscan.verify.compare import as_tuple
from rlscan.verify.strategies import Example, Setup
from rlscan.verify.tolerance import Mismatch, assert_within, bounds

GATE = (
    "the float64 reference, within the a-priori bound, before any timing; [T, N], windows of more than 131,072 steps "
    "and bfloat16 beside the portable path in float64, within 1e-4 (bfloat16: 2e-2). Device times rotate over up to "
    "three more sets of inputs, drawn likewise, which are not compared"
)  # of python -m paper.targets
OPTIONS = ("rho_clip", "c_clip", "pg_rho_clip", "advantage", "trace", "boundary", "reverse")


class Expected(NamedTuple):
    """The reference's results, and how far from them a right implementation may be."""

    values: tuple[Any, ...]
    bounds: tuple[Any, ...]


class Verdict(NamedTuple):
    """The largest share of the a-priori bound that an error took, or why the implementation is not right."""

    share_of_bound: float
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.error

    def evidence(self) -> dict[str, Any]:
        """The verdict as JSON."""
        found = {"error": self.error} if self.error else {"share_of_bound": round(self.share_of_bound, 4)}
        return {"passed": self.passed, **found}


def expect(estimator: str, inputs: dict[str, Any]) -> Expected:
    """What the float64 reference makes of these very inputs."""
    arguments = {name: as_numpy(x) for name, x in inputs.items()}
    values = as_tuple(getattr(reference, estimator)(**arguments))
    options = tuple((name, arguments.pop(name)) for name in OPTIONS if name in arguments)
    if estimator in ("eligibility_traces", "prefix_sum", "linear_scan"):
        arguments.setdefault("initial", 0.0)
    dtype = str(next(x.dtype for x in inputs.values() if isinstance(x, Tensor))).removeprefix("torch.")
    actions = inputs["next_policy"].shape[-1] if "next_policy" in inputs else 0
    example = Example(Setup(estimator, dtype=dtype, options=options, actions=actions), arguments)
    return Expected(values, bounds(example, values))


def check(outputs: Any, expected: Expected) -> Verdict:
    """Compare every output with the reference. Unequal shapes, empty outputs and NaN do not pass."""
    results = as_tuple(outputs)
    try:
        if len(results) != len(expected.values):
            raise Mismatch(f"{len(results)} results, not {len(expected.values)}")
        shares = [
            assert_within(result, value, bound, f"result {k}")
            for k, (result, value, bound) in enumerate(zip(results, *expected, strict=True))
        ]
    except Mismatch as mismatch:
        return Verdict(float("inf"), str(mismatch))
    return Verdict(max(shares))


def admit(
    make: Callable[[], Callable[..., Any]], inputs: dict[str, Any], expected: Expected
) -> tuple[Callable[..., Any] | None, Verdict]:
    """The function to time, or None where it is not right, cannot be made or does not run; and the verdict."""
    try:
        function = make()
        verdict = check(function(**inputs), expected)
    except Exception as error:  # whatever a peer raises belongs in its row
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return None, Verdict(float("inf"), reason)
    return function if verdict.passed else None, verdict


def as_numpy(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    return (x.double() if x.is_floating_point() else x).cpu().numpy()
