"""Accumulating eligibility traces (Sutton & Barto 2018, eq. 12.25).

    z_t = x_t + γλ·(1 − end_{t-1})·z_{t-1},    end_{-1} = 0

As a scan: α_t = x_t, β_t = γλ·(1 − end_{t-1}), forward, carry z_{-1} = `initial`. γ and λ as tensors are read at t:
γ_t λ_t decays z_{t-1} into z_t.
"""

import torch

from .engine import run
from .engine.spec import Argument, Kind, Role, Slot, Spec
from .language import jit, tl


@jit
def coefficients(x, ended_before, gamma, lambda_):
    return x, tl.where(ended_before, 0.0, gamma * lambda_)


@jit
def outputs(result, result_next, x, ended_before, gamma, lambda_):
    return (result,)


def _slots(given: frozenset[str]) -> tuple[Slot, ...]:
    return (
        Slot("x", Kind.VALUE, "inputs"),
        Slot("ended_before", Kind.PREVIOUS_FLAG, "ends"),
        Slot("gamma", Kind.VALUE, "gamma"),
        Slot("lambda_", Kind.VALUE, "lambda_"),
        Slot("carry", Kind.ROW, "initial"),
    )


SPEC = Spec(
    name="eligibility_traces",
    arguments=(
        Argument("inputs", Role.REWARD),
        Argument("ends", Role.FLAG),
        Argument("initial", Role.ROW),
        Argument("gamma", Role.WEIGHT),
        Argument("lambda_", Role.WEIGHT),
    ),
    slots=_slots,
    coefficients=coefficients,
    outputs=outputs,
    reverse=False,
)


def eligibility_traces(
    inputs: torch.Tensor,
    ends: torch.Tensor,
    *,
    initial: torch.Tensor | float = 0.0,
    gamma: torch.Tensor | float = 0.99,
    lambda_: torch.Tensor | float = 0.9,
    time_dim: int = -1,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Traces of the inputs (usually ∇V(s_t), features last) over a rollout window.

    Args:
        inputs: x_t for t in [0, T): [N, T], [T], [N, T, F...], or [T, N, F...] with time_dim=0.
            float32, bfloat16, float16 or float64; integers promote.
        ends: the episode ends at step t, by termination or truncation: [N, T], bool, uint8 or floating (nonzero is
            set).
        initial: z_{-1}, a number or [N, F...].
        gamma: discount in [0, 1]: a number, a 0-d tensor or [N, T].
        lambda_: trace decay in [0, 1], likewise.
        time_dim: -1 or 1 for [N, T], 0 or -2 for [T, N].
        out: a tensor of the inputs' shape and the result's dtype to write to.

    Returns:
        z_t for t in [0, T), of the inputs' shape and floating dtype.

    Raises:
        ValueError: a shape or device that does not fit; TypeError: a dtype or type that does not fit.

    >>> eligibility_traces(torch.ones(1, 4), torch.tensor([[0.0, 1, 0, 0]]), gamma=0.5, lambda_=0.5)
    tensor([[1.0000, 1.2500, 1.0000, 1.2500]])
    """
    return run(SPEC, (inputs, ends, initial, gamma, lambda_), time_dim, out)[0]
