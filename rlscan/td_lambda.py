"""TD(λ) returns (Sutton & Barto 2018, eq. 12.18 and 12.20, with truncation).

    G_t = r_t + γ·V'_t where the episode or the window ends;  else r_t + γ·[(1 − λ)·V'_t + λ·G_{t+1}]

As a scan: α_t = r_t + γ·(1 − λ)·V'_t (r_t + γ·V'_t where the episode or the window ends), β_t = γλ (0 where either
ends), backward, carry G_T = 0: the window value enters through α alone, and λ_{T-1} is not read.
"""

import torch

from .affine import weighted
from .boundaries import SUCCESSOR_ARGUMENTS, successor_slots, successor_value, unless_ended
from .engine import run
from .engine.spec import Argument, Kind, Role, Slot, Spec
from .language import jit, tl


@jit
def coefficients(
    reward, value_next, terminated, truncated, truncation_value, is_last, last_value, window_ends, gamma, lambda_
):
    successor = successor_value(value_next, terminated, truncated, truncation_value, is_last, last_value)
    mixed = tl.where(terminated | truncated | window_ends, successor, weighted(1 - lambda_, successor))
    beta = tl.where(window_ends, 0.0, gamma * lambda_)
    return reward + weighted(gamma, mixed), unless_ended(beta, terminated, truncated)


@jit
def outputs(
    x,
    x_next,
    reward,
    value_next,
    terminated,
    truncated,
    truncation_value,
    is_last,
    last_value,
    window_ends,
    gamma,
    lambda_,
):
    return (x,)


def _slots(given: frozenset[str]) -> tuple[Slot, ...]:
    return (
        Slot("reward", Kind.VALUE, "rewards"),
        *successor_slots(given),
        Slot("window_ends", Kind.LAST),
        Slot("gamma", Kind.VALUE, "gamma"),
        Slot("lambda_", Kind.VALUE, "lambda_"),
        Slot("carry", Kind.NO_VALUE),
    )


SPEC = Spec(
    name="td_lambda",
    arguments=(
        Argument("rewards", Role.REWARD),
        Argument("values", Role.DATA),
        *SUCCESSOR_ARGUMENTS,
        Argument("gamma", Role.WEIGHT),
        Argument("lambda_", Role.WEIGHT),
    ),
    slots=_slots,
    coefficients=coefficients,
    outputs=outputs,
)


def td_lambda(
    rewards: torch.Tensor,
    values: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor | None = None,
    *,
    last_values: torch.Tensor | float | None = None,
    truncation_values: torch.Tensor | None = None,
    next_values: torch.Tensor | None = None,
    gamma: torch.Tensor | float = 0.99,
    lambda_: torch.Tensor | float = 0.95,
    time_dim: int = -1,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """λ-returns of a rollout window.

    Args:
        rewards, values, terminated, truncated, last_values, truncation_values, next_values, gamma, lambda_, time_dim:
            as in `gae`.
        out: a tensor of the rewards' shape and the result's dtype to write to.

    Returns:
        G_t for t in [0, T), of the rewards' shape and the inputs' floating dtype.

    Raises:
        ValueError: a shape, device or bootstrap that does not fit; TypeError: a dtype or type that does not fit.

    >>> rewards, values = torch.tensor([[1.0, 2, 3]]), torch.tensor([[10.0, 20, 30]])
    >>> td_lambda(rewards, values, torch.zeros(1, 3, dtype=torch.bool), last_values=40.0, gamma=0.5, lambda_=0.5)
    tensor([[ 9.8125, 15.2500, 23.0000]])
    """
    arguments = (rewards, values, terminated, truncated, last_values, truncation_values, next_values, gamma, lambda_)
    return run(SPEC, arguments, time_dim, out)[0]
