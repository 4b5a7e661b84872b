"""Discounted returns with bootstrap (Sutton & Barto 2018, eq. 3.9, with truncation).

    G_t = r_t + γ·V'_t where the episode or the window ends;  else r_t + γ·G_{t+1}

As a scan: α_t = r_t (r_t + γ·V'_t at an end), β_t = γ·(1 − end_t), backward, carry G_T = V'_{T-1}: the window value
enters through the carry alone. No state values are read but those of the ends.
"""

import torch

from .affine import weighted
from .boundaries import SUCCESSOR_ARGUMENTS, final_value, successor_slots, successor_value, unless_ended
from .engine import run
from .engine.spec import Argument, Kind, Role, Slot, Spec
from .language import jit, tl


@jit
def coefficients(reward, value_next, terminated, truncated, truncation_value, is_last, last_value, gamma):
    successor = successor_value(value_next, terminated, truncated, truncation_value, is_last, last_value)
    bootstrap = tl.where(terminated | truncated, weighted(gamma, successor), 0.0)
    return reward + bootstrap, unless_ended(gamma, terminated, truncated)


@jit
def outputs(x, x_next, reward, value_next, terminated, truncated, truncation_value, is_last, last_value, gamma):
    return (x,)


def _slots(given: frozenset[str]) -> tuple[Slot, ...]:
    return (
        Slot("reward", Kind.VALUE, "rewards"),
        *successor_slots(given, values=None),
        Slot("gamma", Kind.VALUE, "gamma"),
        final_value(given),
    )


SPEC = Spec(
    name="discounted_returns",
    arguments=(Argument("rewards", Role.REWARD), *SUCCESSOR_ARGUMENTS, Argument("gamma", Role.WEIGHT)),
    slots=_slots,
    coefficients=coefficients,
    outputs=outputs,
)


def discounted_returns(
    rewards: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor | None = None,
    *,
    last_values: torch.Tensor | float | None = None,
    truncation_values: torch.Tensor | None = None,
    next_values: torch.Tensor | None = None,
    gamma: torch.Tensor | float = 0.99,
    time_dim: int = -1,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Discounted returns of a rollout window, bootstrapped where it is cut.

    Args:
        rewards, terminated, truncated, last_values, truncation_values, next_values, gamma, time_dim: as in `gae`.
        out: a tensor of the rewards' shape and the result's dtype to write to.

    Returns:
        G_t for t in [0, T), of the rewards' shape and the inputs' floating dtype (the default dtype if all are
        integers).

    Raises:
        ValueError: a shape, device or bootstrap that does not fit; TypeError: a dtype or type that does not fit.

    >>> discounted_returns(torch.tensor([[1, 2, 3]]), torch.tensor([[False, True, False]]), last_values=4.0, gamma=0.5)
    tensor([[2., 2., 5.]])
    """
    arguments = (rewards, terminated, truncated, last_values, truncation_values, next_values, gamma)
    return run(SPEC, arguments, time_dim, out)[0]
