"""Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438, eq. 11 to 16).

    δ_t = r_t + γ·V'_t − V_t        A_t = δ_t + γλ·(1 − end_t)·A_{t+1}        R_t = A_t + V_t

As a scan: α_t = δ_t, β_t = γλ·(1 − end_t), backward, carry A_T = 0.
"""

from typing import NamedTuple

import torch

from .affine import weighted
from .boundaries import SUCCESSOR_ARGUMENTS, successor_slots, successor_value, unless_ended
from .engine import run
from .engine.spec import Argument, Kind, Role, Slot, Spec
from .language import jit, tl  # noqa: F401  # the interpreter wants tl in sight of every jit function


@jit
def coefficients(
    reward, value, value_next, terminated, truncated, truncation_value, is_last, last_value, gamma, lambda_
):
    successor = successor_value(value_next, terminated, truncated, truncation_value, is_last, last_value)
    delta = reward + weighted(gamma, successor) - value
    return delta, unless_ended(gamma * lambda_, terminated, truncated)


@jit
def outputs(
    x, x_next, reward, value, value_next, terminated, truncated, truncation_value, is_last, last_value, gamma, lambda_
):
    return x, x + value


def _slots(given: frozenset[str]) -> tuple[Slot, ...]:
    return (
        Slot("reward", Kind.VALUE, "rewards"),
        Slot("value", Kind.VALUE, "values"),
        *successor_slots(given),
        Slot("gamma", Kind.VALUE, "gamma"),
        Slot("lambda_", Kind.VALUE, "lambda_"),
        Slot("carry", Kind.NO_VALUE),
    )


SPEC = Spec(
    name="gae",
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
    result_count=2,
)


class GAE(NamedTuple):
    """Advantages A_t and returns R_t = A_t + V_t, both of the rewards' shape."""

    advantages: torch.Tensor
    returns: torch.Tensor


def gae(
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
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> GAE:
    """Advantages and returns of a rollout window.

    Args:
        rewards: r_t for t in [0, T): [N, T], [T], [T, N] with time_dim=0, or with trailing features [N, T, F].
            float32, bfloat16, float16 or float64; integers promote.
        values: V(s_t) for t in [0, T), of the rewards' shape.
        terminated: the MDP ended at s_{t+1}: [N, T], bool, uint8 or floating (nonzero is set).
        truncated: the episode was cut at s_{t+1}: as `terminated`. Where both are set, termination wins.
        last_values: V(s_T), a number or [N] ([N, F]); 0.0 has to be said. Required unless `next_values` is given.
        truncation_values: V of the final observation at truncated steps, of the rewards' shape; other entries are not
            read.
        next_values: V(s_{t+1}) of the true successor at every non-terminated step, instead of the two above.
        gamma: discount γ_t in [0, 1]: a number, a 0-d tensor or [N, T].
        lambda_: λ_t in [0, 1], likewise.
        time_dim: -1 or 1 for [N, T], 0 or -2 for [T, N].
        out: two tensors of the rewards' shape and the result's dtype to write to.

    Returns:
        GAE(advantages, returns), of the rewards' shape and the inputs' floating dtype.

    Raises:
        ValueError: a shape, device or bootstrap that does not fit; TypeError: a dtype or type that does not fit.

    >>> rewards, values = torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([[0.5, 1, 1.5, 2]])
    >>> ended = torch.tensor([[False, True, False, False]])
    >>> gae(rewards, values, ended, last_values=2.5, gamma=0.9, lambda_=0.8).advantages
    tensor([[2.1200, 1.0000, 6.3600, 4.2500]])
    """
    arguments = (rewards, values, terminated, truncated, last_values, truncation_values, next_values, gamma, lambda_)
    return tuple.__new__(GAE, run(SPEC, arguments, time_dim, out))  # in half the time of GAE(*...)
