"""V-trace: Espeholt et al. 2018, arXiv:1802.01561, eq. 1 and section 4.2, with λ as in its remark 2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, boundaries, layout, ratios, weighted


class VTrace(NamedTuple):
    """Value targets v_t and policy-gradient advantages."""

    targets: Array
    advantages: Array


def vtrace(
    rewards: ArrayLike,
    values: ArrayLike,
    log_ratios: ArrayLike,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    *,
    last_values: ArrayLike | None = None,
    truncation_values: ArrayLike | None = None,
    next_values: ArrayLike | None = None,
    gamma: ArrayLike = 0.99,
    lambda_: ArrayLike = 1.0,
    rho_clip: float | None = 1.0,
    c_clip: float | None = 1.0,
    pg_rho_clip: float | None = 1.0,
    advantage: str = "impala",
    time_dim: int = -1,
) -> VTrace:
    """Off-policy value targets and policy advantages of each step.

        ρ_t = min(ρ̄, w_t),  c_t = λ·min(c̄, w_t),  ρ^pg_t = min(ρ̄^pg, w_t),  w = π/μ
        Δ_t = ρ_t(r_t + γV'_t − V_t) + γc_t(1−end_t)Δ_{t+1},   Δ_T = 0
        v_t = V_t + Δ_t
        advantage_t = ρ^pg_t(r_t + γv'_t − V_t)
        v'_t = V'_t where the episode or the window ends; inside, v_{t+1} ("impala") or λv_{t+1} + (1−λ)V'_t ("mixed")

    Args:
        rewards: r_t, t in [0, T). [N, T, *F]; with time_dim=0 [T, N, *F]; or [T].
        values: V(s_t), t in [0, T), shaped as rewards.
        log_ratios: log w_t = log π(a_t|s_t) − log μ(a_t|s_t), shaped as terminated. NaN stays NaN.
        terminated: nonzero where the MDP ended at s_{t+1}. [N, T], [T, N] or [T].
        truncated: nonzero where the episode was cut at s_{t+1}, shaped as terminated; terminated wins.
        last_values: V(s_T), a float or [N, *F]. Must be given unless next_values is.
        truncation_values: V(s_{t+1}) at truncated steps, shaped as rewards; unused elsewhere.
        next_values: V(s_{t+1}) at every step, shaped as rewards; unused at terminated steps. v_{t+1} stays
            the target of step t+1.
        gamma, lambda_: γ_t and λ_t, a number or shaped as terminated.
        rho_clip, c_clip, pg_rho_clip: ρ̄, c̄ and ρ̄^pg, a number >= 0, or None for no clip.
        advantage: "impala" or "mixed"; the same at λ = 1.
        time_dim: the axis of time, -1 or 1 for [N, T], 0 or -2 for [T, N].

    Raises:
        ValueError, TypeError: a wrong shape, dtype or clip, or a successor value that is missing or given twice.

    >>> vtrace([1, 2], [0, 0], [1000, 0], [0, 0], last_values=4.0, gamma=0.5)
    VTrace(targets=array([3., 4.]), advantages=array([3., 4.]))
    """
    if advantage not in ("impala", "mixed"):
        raise ValueError(f'advantage must be "impala" or "mixed", got {advantage!r}')
    shapes = layout("terminated", terminated, "rewards", rewards, time_dim)
    reward, value = shapes.steps("rewards", rewards), shapes.steps("values", values)
    log_ratio = shapes.row_steps("log_ratios", log_ratios)
    discount, decay = shapes.coefficient("gamma", gamma), shapes.coefficient("lambda_", lambda_)
    end, cut, value_next = boundaries(shapes, value, terminated, truncated, last_values, truncation_values, next_values)
    rho = ratios(log_ratio, "rho_clip", rho_clip)
    pg_rho = ratios(log_ratio, "pg_rho_clip", pg_rho_clip)

    targets, advantages = np.empty_like(reward), np.empty_like(reward)
    correction = np.zeros(reward.shape[1:])  # Δ
    target_next = np.zeros(reward.shape[1:])  # v_{t+1}; unused at T-1
    with np.errstate(all="ignore"):
        c = weighted(decay, ratios(log_ratio, "c_clip", c_clip))
        for t in reversed(range(len(reward))):
            delta = weighted(rho[t], reward[t] + weighted(discount[t], value_next[t]) - value[t])
            carry = weighted(discount[t], weighted(c[t], correction))
            correction = delta + np.where(end[t], 0.0, carry)
            targets[t] = value[t] + correction

            inside = target_next
            if advantage == "mixed":
                inside = weighted(decay[t], target_next) + weighted(1.0 - decay[t], value_next[t])
            pg_value_next = np.where(cut[t], value_next[t], inside)
            advantages[t] = weighted(pg_rho[t], reward[t] + weighted(discount[t], pg_value_next) - value[t])
            target_next = targets[t]
    return VTrace(shapes.restore(targets), shapes.restore(advantages))
