"""Retrace and its relatives: Munos et al. 2016, arXiv:1606.02647, eq. 3 and table 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, Layout, layout, ratios, weighted

TRACES = ("retrace", "tree_backup", "q_lambda", "importance")


def retrace(
    rewards: ArrayLike,
    q_values: ArrayLike,
    log_ratios: ArrayLike | None,
    terminated: ArrayLike,
    truncated: ArrayLike | None = None,
    *,
    next_q_values: ArrayLike,
    next_policy: ArrayLike | None = None,
    gamma: ArrayLike = 0.99,
    lambda_: ArrayLike = 1.0,
    c_clip: float | None = 1.0,
    trace: str = "retrace",
    time_dim: int = -1,
) -> Array:
    """Off-policy action-value targets Q_t + Δ_t of each step.

        δ_t = r_t + γ(1−terminated_t)·E_π[Q(s_{t+1},·)] − Q_t
        Δ_t = δ_t + γc_{t+1}(1−end_t)Δ_{t+1},   c_T = 0,  Δ_T = 0

        "retrace"      c = λ·min(c̄, w),  w = π/μ
        "importance"   c = λ·w
        "tree_backup"  c = λ·π(a_t|s_t)
        "q_lambda"     c = λ

    Args:
        rewards: r_t, t in [0, T). [N, T]; with time_dim=0 [T, N]; or [T].
        q_values: Q(s_t, a_t), t in [0, T), shaped as rewards.
        log_ratios: log w_t = log π(a_t|s_t) − log μ(a_t|s_t); for "tree_backup" log π(a_t|s_t); for "q_lambda" unused,
            may be None. Shaped as rewards. NaN stays NaN. The first step's is unused.
        terminated: nonzero where the MDP ended at s_{t+1}, shaped as rewards.
        truncated: nonzero where the episode was cut at s_{t+1}, shaped as rewards; terminated wins.
        next_q_values: Q(s_{t+1}, ·), [.., A], where next_policy is given, else E_π[Q(s_{t+1},·)], shaped as rewards.
            Needed at truncated steps, unused at terminated ones.
        next_policy: π(·|s_{t+1}), the policy at the successor, [.., A]. An action of probability 0 is left out.
        gamma, lambda_: γ_t and λ_t, a number or shaped as rewards; λ_t belongs to c_t.
        c_clip: c̄, a number >= 0, or None for no clip; for "retrace" only.
        trace: which c.
        time_dim: the axis of time, -1 or 1 for [N, T], 0 or -2 for [T, N].

    Raises:
        ValueError, TypeError: a wrong shape, dtype, clip or trace.

    >>> q_next, policy_next = [[4, 8], [2, 6]], [[1, 0], [0.5, 0.5]]
    >>> retrace([1, 2], [0, 0], [0, 0], [0, 0], next_q_values=q_next, next_policy=policy_next, gamma=0.5)
    array([5., 4.])
    """
    if trace not in TRACES:
        raise ValueError(f"trace must be one of {', '.join(TRACES)}, got {trace!r}")
    if log_ratios is None and trace != "q_lambda":
        raise ValueError(f'log_ratios is None: only trace="q_lambda" does without, got trace={trace!r}')
    shapes = layout("terminated", terminated, "rewards", rewards, time_dim)
    reward, q_value = shapes.row_steps("rewards", rewards), shapes.row_steps("q_values", q_values)
    discount, decay = shapes.coefficient("gamma", gamma), shapes.coefficient("lambda_", lambda_)
    is_terminated, is_truncated = shapes.flags("terminated", terminated), shapes.flags("truncated", truncated)
    end = is_terminated | is_truncated
    expected_q_next = _expectation(shapes, next_q_values, next_policy)

    c = decay
    if log_ratios is not None:
        log_ratio = shapes.row_steps("log_ratios", log_ratios)
        if trace != "q_lambda":
            ratio = ratios(log_ratio, "c_clip", c_clip if trace == "retrace" else None)
            with np.errstate(all="ignore"):
                c = weighted(decay, ratio)

    targets = np.empty_like(reward)
    correction = np.zeros(reward.shape[1:])  # Δ
    c_next = np.zeros(reward.shape[1:])
    with np.errstate(all="ignore"):
        for t in reversed(range(len(reward))):
            value_next = np.where(is_terminated[t], 0.0, expected_q_next[t])
            delta = reward[t] + weighted(discount[t], value_next) - q_value[t]
            carry = weighted(discount[t], weighted(c_next, correction))
            correction = delta + np.where(end[t], 0.0, carry)
            targets[t] = q_value[t] + correction
            c_next = c[t]
    return shapes.restore(targets)


def _expectation(shapes: Layout, next_q_values: ArrayLike, next_policy: ArrayLike | None) -> Array:
    """E_π[Q(s_{t+1},·)] = Σ_a π(a|s_{t+1})·Q(s_{t+1}, a), time first."""
    if next_policy is None:
        return shapes.row_steps("next_q_values", next_q_values)
    actions = np.shape(next_policy)[-1:]
    per_action = shapes._replace(full=shapes.rows + actions)
    policy, q_value = per_action.steps("next_policy", next_policy), per_action.steps("next_q_values", next_q_values)
    with np.errstate(all="ignore"):
        expectation: Array = weighted(policy, q_value).sum(axis=-1)
    return expectation
