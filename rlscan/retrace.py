"""Retrace(λ) and its relatives (Munos et al. 2016, arXiv:1606.02647, eq. 3 and 4).

    δ_t = r_t + γ·(1 − terminated_t)·E_π[Q(s_{t+1}, ·)] − Q_t        Δ_t = δ_t + γ·c_{t+1}·(1 − end_t)·Δ_{t+1}
    targets Q_t + Δ_t        c_t = λ·min(c̄, w_t), w = π/μ

As a scan: α_t = δ_t, β_t = γ·c_{t+1}·(1 − end_t) (0 at T-1), backward, carry Δ_T = 0.
Unlike its siblings, β reads its ratio at t+1, and E_π is summed over actions inside the kernel, with the policy at
s_{t+1}.
"""

import math

import torch

from .affine import weighted
from .boundaries import unless_ended
from .engine import option, run
from .engine.spec import Argument, Kind, Role, Slot, Spec
from .language import jit, tl
from .ratios import clip_number, clipped_ratio


@jit
def coefficients(
    reward, q, log_ratio_next, expected_q_next, terminated, truncated, is_last, gamma, lambda_next, c_clip
):
    successor = tl.where(terminated, 0.0, expected_q_next)
    c_next = tl.where(is_last, 0.0, weighted(lambda_next, clipped_ratio(log_ratio_next, c_clip)))
    return reward + weighted(gamma, successor) - q, unless_ended(weighted(gamma, c_next), terminated, truncated)


@jit
def outputs(
    x, x_next, reward, q, log_ratio_next, expected_q_next, terminated, truncated, is_last, gamma, lambda_next, c_clip
):
    return (q + x,)


def _spec(reads_ratios: bool) -> Spec:
    # without a ratio its slot reads 0.0, and exp(0) = 1
    log_ratio = (
        Slot("log_ratio_next", Kind.NEXT, "log_ratios") if reads_ratios else Slot("log_ratio_next", Kind.NO_VALUE)
    )

    def slots(given: frozenset[str]) -> tuple[Slot, ...]:
        return (
            Slot("reward", Kind.VALUE, "rewards"),
            Slot("q", Kind.VALUE, "q_values"),
            log_ratio,
            Slot("expected_q_next", Kind.EXPECTATION, "next_q_values"),
            Slot("terminated", Kind.FLAG, "terminated"),
            Slot("truncated", Kind.FLAG, "truncated"),
            Slot("is_last", Kind.LAST),
            Slot("gamma", Kind.VALUE, "gamma"),
            Slot("lambda_next", Kind.NEXT, "lambda_"),
            Slot("c_clip", Kind.VALUE, "c_clip"),
            Slot("carry", Kind.NO_VALUE),
        )

    return Spec(
        name="retrace",
        arguments=(
            Argument("rewards", Role.REWARD),
            Argument("q_values", Role.DATA),
            Argument("log_ratios", Role.RATIO, required=reads_ratios),
            Argument("terminated", Role.FLAG),
            Argument("truncated", Role.FLAG, required=False),
            Argument("next_q_values", Role.ACTIONS),
            Argument("next_policy", Role.ACTIONS, required=False),
            Argument("gamma", Role.WEIGHT),
            Argument("lambda_", Role.WEIGHT),
            Argument("c_clip", Role.NUMBER),
        ),
        slots=slots,
        coefficients=coefficients,
        outputs=outputs,
        features=False,
    )


_RATIO, _NO_RATIO = _spec(True), _spec(False)
# trace → (spec, whether the ratio is clipped)
TRACES = {
    "retrace": (_RATIO, True),
    "tree_backup": (_RATIO, False),
    "importance": (_RATIO, False),
    "q_lambda": (_NO_RATIO, False),
}


def retrace(
    rewards: torch.Tensor,
    q_values: torch.Tensor,
    log_ratios: torch.Tensor | None,
    terminated: torch.Tensor,
    truncated: torch.Tensor | None = None,
    *,
    next_q_values: torch.Tensor | None = None,
    next_policy: torch.Tensor | None = None,
    gamma: torch.Tensor | float = 0.99,
    lambda_: torch.Tensor | float = 1.0,
    c_clip: float | None = 1.0,
    trace: str = "retrace",
    time_dim: int = -1,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Off-policy targets for Q(s_t, a_t).

    Args:
        rewards, terminated, truncated, gamma, time_dim: as in `gae`, without trailing features. A truncated step
            bootstraps from `next_q_values` like any other.
        q_values: Q(s_t, a_t) for t in [0, T), of the rewards' shape.
        log_ratios: log π(a_t|s_t) − log μ(a_t|s_t): [N, T]. For trace="tree_backup" log π(a_t|s_t) itself; for
            "q_lambda" it may be None.
        next_q_values: Q(s_{t+1}, a) for every action: [N, T, A] with `next_policy`; or, without, E_π[Q(s_{t+1}, ·)]
            itself: [N, T].
        next_policy: π(a|s_{t+1}), the policy at the successor state, not at s_t: [N, T, A]. An action of probability 0
            is not read.
        lambda_: λ in [0, 1]: a number, a 0-d tensor or [N, T]; c_{t+1} takes λ_{t+1}.
        c_clip: c̄, a number that is not negative, or None for no clip; for trace="retrace" only.
        trace: "retrace" c = λ·min(c̄, w); "importance" c = λ·w; "tree_backup" c = λ·π(a_t|s_t); "q_lambda" c = λ.
        out: a tensor of the rewards' shape and the result's dtype to write to.

    Returns:
        Targets Q_t + Δ_t, of the rewards' shape and the inputs' floating dtype.

    Raises:
        ValueError: a shape, device or option that does not fit; TypeError: a dtype or type that does not fit.

    >>> rewards, q_values = torch.tensor([[1.0, 0, 2]]), torch.tensor([[1.0, 2, 3]])
    >>> log_ratios, expected = torch.tensor([[5.0, 0.5, 2]]).log(), torch.tensor([[1.5, 2.5, 3.5]])
    >>> retrace(rewards, q_values, log_ratios, torch.zeros(1, 3), next_q_values=expected, gamma=0.9, lambda_=0.9)
    tensor([[3.1566, 3.9915, 5.1500]])
    """
    spec, clipped = option("trace", trace, TRACES)
    clip = clip_number("c_clip", c_clip)
    arguments = (
        *(rewards, q_values, log_ratios, terminated, truncated, next_q_values, next_policy),
        *(gamma, lambda_, clip if clipped else math.inf),
    )
    return run(spec, arguments, time_dim, out)[0]
