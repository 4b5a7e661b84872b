"""Episodic prefix sums: a running sum that begins anew with every episode (Blelloch 1990's segmented scan).

    C_t = x_t + (1 − f)·C_{t-1},    f = end_{t-1} (boundary="ends_at", end_{-1} = 0)
                                 or f = flag_t (boundary="starts_at")

As a scan: α_t = x_t, β_t = 1 − f, forward, carry C_{-1} = `initial`.
"""

import torch

from .engine import option, run
from .engine.spec import Argument, Kind, Role, Slot, Spec
from .language import jit, tl


@jit
def coefficients(x, restart):
    return x, tl.where(restart, 0.0, 1.0)


@jit
def outputs(result, result_next, x, restart):
    return (result,)


def _spec(flag: Kind) -> Spec:
    def slots(given: frozenset[str]) -> tuple[Slot, ...]:
        return (Slot("x", Kind.VALUE, "inputs"), Slot("restart", flag, "ends"), Slot("carry", Kind.ROW, "initial"))

    return Spec(
        name="prefix_sum",
        arguments=(Argument("inputs", Role.REWARD), Argument("ends", Role.FLAG), Argument("initial", Role.ROW)),
        slots=slots,
        coefficients=coefficients,
        outputs=outputs,
        reverse=False,
    )


SPECS = {"ends_at": _spec(Kind.PREVIOUS_FLAG), "starts_at": _spec(Kind.FLAG)}


def prefix_sum(
    inputs: torch.Tensor,
    ends: torch.Tensor,
    *,
    initial: torch.Tensor | float = 0.0,
    boundary: str = "ends_at",
    time_dim: int = -1,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Running sums of the inputs within each episode.

    Args:
        inputs: x_t for t in [0, T): [N, T], [T], [N, T, F...], or [T, N, F...] with time_dim=0.
            float32, bfloat16, float16 or float64; integers promote.
        ends: [N, T], bool, uint8 or floating (nonzero is set); what it flags is said by `boundary`.
        initial: C_{-1}, a number or [N, F...].
        boundary: "ends_at" if a flag sits on the last step of an episode, "starts_at" if on its first.
        time_dim: -1 or 1 for [N, T], 0 or -2 for [T, N].
        out: a tensor of the inputs' shape and the result's dtype to write to.

    Returns:
        C_t for t in [0, T), of the inputs' shape and floating dtype.

    Raises:
        ValueError: a shape, device or `boundary` that does not fit; TypeError: a dtype or type that does not fit.

    >>> prefix_sum(torch.ones(1, 4), torch.tensor([[False, True, False, False]]))
    tensor([[1., 2., 1., 2.]])
    """
    return run(option("boundary", boundary, SPECS), (inputs, ends, initial), time_dim, out)[0]
