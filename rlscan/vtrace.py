"""V-trace (Espeholt et al. 2018, arXiv:1802.01561, eq. 1 and section 4.2), with λ.

    ρ_t = min(ρ̄, w_t), c_t = λ·min(c̄, w_t), w = π/μ        Δ_t = ρ_t·(r_t + γ·V'_t − V_t) + γ·c_t·(1 − end_t)·Δ_{t+1}
    targets v_t = V_t + Δ_t        advantages ρ^pg_t·(r_t + γ·v'_t − V_t),
                                   v'_t = v_{t+1} inside an episode, V'_t at its or the window's end

As a scan: α_t = ρ_t·(r_t + γ·V'_t − V_t), β_t = γ·c_t·(1 − end_t), backward, carry Δ_T = 0.
Unlike its siblings, the advantages read the scan at t+1 as well (the second shift).
"""

from typing import NamedTuple

import torch

from .affine import weighted
from .boundaries import SUCCESSOR_ARGUMENTS, successor_slots, successor_value, unless_ended
from .engine import option, run
from .engine.spec import Argument, Kind, Role, Slot, Spec
from .language import jit, tl
from .ratios import clip_number, clipped_ratio


@jit
def coefficients(
    reward,
    value,
    log_ratio,
    value_next,
    terminated,
    truncated,
    truncation_value,
    is_last,
    last_value,
    window_ends,
    value_after,
    gamma,
    lambda_,
    rho_clip,
    c_clip,
    pg_rho_clip,
):
    successor = successor_value(value_next, terminated, truncated, truncation_value, is_last, last_value)
    delta = reward + weighted(gamma, successor) - value
    c = weighted(lambda_, clipped_ratio(log_ratio, c_clip))
    return (
        weighted(clipped_ratio(log_ratio, rho_clip), delta),
        unless_ended(weighted(gamma, c), terminated, truncated),
    )


@jit
def impala_outputs(
    x,
    x_next,
    reward,
    value,
    log_ratio,
    value_next,
    terminated,
    truncated,
    truncation_value,
    is_last,
    last_value,
    window_ends,
    value_after,
    gamma,
    lambda_,
    rho_clip,
    c_clip,
    pg_rho_clip,
):
    """Targets, and advantages towards v_{t+1} (IMPALA)."""
    successor = successor_value(value_next, terminated, truncated, truncation_value, is_last, last_value)
    inside = value_after + x_next
    target_next = tl.where(terminated | truncated | window_ends, successor, inside)
    advantage = weighted(clipped_ratio(log_ratio, pg_rho_clip), reward + weighted(gamma, target_next) - value)
    return value + x, advantage


@jit
def mixed_outputs(
    x,
    x_next,
    reward,
    value,
    log_ratio,
    value_next,
    terminated,
    truncated,
    truncation_value,
    is_last,
    last_value,
    window_ends,
    value_after,
    gamma,
    lambda_,
    rho_clip,
    c_clip,
    pg_rho_clip,
):
    """Targets, and advantages towards λ·v_{t+1} + (1 − λ)·V'_t."""
    successor = successor_value(value_next, terminated, truncated, truncation_value, is_last, last_value)
    inside = weighted(lambda_, value_after + x_next) + weighted(1 - lambda_, successor)
    target_next = tl.where(terminated | truncated | window_ends, successor, inside)
    advantage = weighted(clipped_ratio(log_ratio, pg_rho_clip), reward + weighted(gamma, target_next) - value)
    return value + x, advantage


def _slots(given: frozenset[str]) -> tuple[Slot, ...]:
    after = ("values", Kind.NEXT) if "next_values" in given else ("value_next", Kind.ALIAS)
    return (
        Slot("reward", Kind.VALUE, "rewards"),
        Slot("value", Kind.VALUE, "values"),
        Slot("log_ratio", Kind.VALUE, "log_ratios"),
        *successor_slots(given),
        Slot("window_ends", Kind.LAST),
        Slot("value_after", after[1], after[0]),
        Slot("gamma", Kind.VALUE, "gamma"),
        Slot("lambda_", Kind.VALUE, "lambda_"),
        Slot("rho_clip", Kind.VALUE, "rho_clip"),
        Slot("c_clip", Kind.VALUE, "c_clip"),
        Slot("pg_rho_clip", Kind.VALUE, "pg_rho_clip"),
        Slot("carry", Kind.NO_VALUE),
    )


SPECS = {
    name: Spec(
        name="vtrace",
        arguments=(
            Argument("rewards", Role.REWARD),
            Argument("values", Role.DATA),
            Argument("log_ratios", Role.RATIO),
            *SUCCESSOR_ARGUMENTS,
            Argument("gamma", Role.WEIGHT),
            Argument("lambda_", Role.WEIGHT),
            Argument("rho_clip", Role.NUMBER),
            Argument("c_clip", Role.NUMBER),
            Argument("pg_rho_clip", Role.NUMBER),
        ),
        slots=_slots,
        coefficients=coefficients,
        outputs=outputs,
        result_count=2,
    )
    for name, outputs in (("impala", impala_outputs), ("mixed", mixed_outputs))
}


class VTrace(NamedTuple):
    """Value targets v_t and policy-gradient advantages, both of the rewards' shape."""

    targets: torch.Tensor
    advantages: torch.Tensor


def vtrace(
    rewards: torch.Tensor,
    values: torch.Tensor,
    log_ratios: torch.Tensor,
    terminated: torch.Tensor,
    truncated: torch.Tensor | None = None,
    *,
    last_values: torch.Tensor | float | None = None,
    truncation_values: torch.Tensor | None = None,
    next_values: torch.Tensor | None = None,
    gamma: torch.Tensor | float = 0.99,
    lambda_: torch.Tensor | float = 1.0,
    rho_clip: float | None = 1.0,
    c_clip: float | None = 1.0,
    pg_rho_clip: float | None = 1.0,
    advantage: str = "impala",
    time_dim: int = -1,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> VTrace:
    """Off-policy corrected value targets and policy-gradient advantages.

    Args:
        rewards, values, terminated, truncated, last_values, truncation_values, next_values, gamma, lambda_, time_dim,
            out: as in `gae`. With `next_values`, v_{t+1} is still the target of step t+1, values[t+1] + Δ_{t+1}.
        log_ratios: log π(a_t|s_t) − log μ(a_t|s_t) for t in [0, T): [N, T].
        rho_clip, c_clip, pg_rho_clip: ρ̄, c̄ and the clip of the advantages' ratio; numbers that are not negative, None
            for no clip.
        advantage: where λ < 1 two forms are published: "impala" takes v'_t = v_{t+1}, "mixed"
            v'_t = λ·v_{t+1} + (1 − λ)·V'_t.

    Returns:
        VTrace(targets, advantages), of the rewards' shape and the inputs' floating dtype.

    Raises:
        ValueError: a shape, device, bootstrap or option that does not fit; TypeError: a dtype or type that does not
            fit.

    >>> rewards, values = torch.tensor([[1.0, 2, 3]]), torch.tensor([[0.5, 1, 1.5]])
    >>> log_ratios = torch.tensor([[0.5, 2.0, 1.2]]).log()
    >>> vtrace(rewards, values, log_ratios, torch.zeros(1, 3), last_values=2.0, gamma=0.9).targets
    tensor([[3.5940, 6.3200, 4.8000]])
    """
    clips = (
        clip_number("rho_clip", rho_clip),
        clip_number("c_clip", c_clip),
        clip_number("pg_rho_clip", pg_rho_clip),
    )
    arguments = (
        *(rewards, values, log_ratios, terminated, truncated),
        *(last_values, truncation_values, next_values, gamma, lambda_, *clips),
    )
    spec = option("advantage", advantage, SPECS)
    return tuple.__new__(VTrace, run(spec, arguments, time_dim, out))  # in half the time of VTrace(*...)
