"""The baselines of the tables: a Python loop, a compiled doubling scan, torch's own associative scan.

Each estimator is written once, from its definition, as the recurrence

    x_t = alpha_t + beta_t · x_{t+1}   (backward)     or     x_t = alpha_t + beta_t · x_{t-1}   (forward)

that it solves and what is made of the solution. The three scans then solve any of them, so the baselines differ in the
scan only. Nothing here comes from rlscan: a mistake there cannot be shared. Arguments are named as in rlscan's
functions; tensors are [N, T], flags bool, values finite (a baseline multiplies by zero, as common code does).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

Outputs = tuple[Tensor, ...]
Columns = tuple["Tensor | None", ...]


class Recurrence(NamedTuple):
    """One estimator on one rollout: what a step reads, the step's (alpha, beta), and what the solution x becomes."""

    columns: Columns  # [N, T] each, or None where an optional argument is absent
    coefficients: Callable[..., tuple[Tensor, Tensor]]  # columns, whole or of one step -> (alpha, beta)
    outputs: Callable[[Tensor], Outputs]
    carry: Tensor | None = None  # x beyond the window, [N]; None is zero
    forward: bool = False


# The estimators


def after(x: Tensor, last: Tensor) -> Tensor:
    """x_{t+1}, where x_T is `last` [N]."""
    return torch.cat([x[:, 1:], last[:, None]], dim=1)


def boundary(
    value_after: Tensor, terminated: Tensor, truncated: Tensor | None, truncation_values: Tensor | None
) -> tuple[Tensor, Tensor]:
    """V'_t and 1 − end_t. `terminated` holds 0.0 or 1.0, `truncated` is bool or None; termination wins."""
    nonterminal = 1.0 - terminated
    if truncated is None:
        return nonterminal * value_after, nonterminal
    assert truncation_values is not None
    return nonterminal * torch.where(truncated, truncation_values, value_after), nonterminal * ~truncated


def gae(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    last_values: Tensor,
    truncation_values: Tensor | None = None,
    gamma: float,
    lambda_: float,
) -> Recurrence:
    """A_t = r_t + γV'_t − V_t + γλ(1 − end_t)A_{t+1};  R_t = A_t + V_t."""

    def coefficients(reward_t: Tensor, value_t: Tensor, *ends_t: Any) -> tuple[Tensor, Tensor]:
        value_next, continues = boundary(*ends_t)
        return reward_t + gamma * value_next - value_t, gamma * lambda_ * continues

    ends = (after(values, last_values), terminated.to(values.dtype), truncated, truncation_values)
    return Recurrence((rewards, values, *ends), coefficients, lambda x: (x, x + values))


def vtrace(
    rewards: Tensor,
    values: Tensor,
    log_ratios: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    last_values: Tensor,
    truncation_values: Tensor | None = None,
    gamma: float,
    lambda_: float,
) -> Recurrence:
    """Δ_t = ρ_t(r_t + γV'_t − V_t) + γc_t(1 − end_t)Δ_{t+1} with ρ = min(1, w), c = λ min(1, w);  v_t = V_t + Δ_t;
    advantages ρ_t(r_t + γv'_t − V_t), v'_t = v_{t+1} inside an episode, else V'_t.

    Coefficients for the whole window first, then the loop, as IMPALA's code has it.
    """
    value_next, continues = boundary(
        after(values, last_values), terminated.to(values.dtype), truncated, truncation_values
    )
    ratio = log_ratios.clamp(max=0.0).exp()
    alpha = ratio * (rewards + gamma * value_next - values)

    def outputs(x: Tensor) -> Outputs:
        targets = values + x
        target_next = torch.where(continues > 0, after(targets, last_values), value_next)
        return targets, ratio * (rewards + gamma * target_next - values)

    return Recurrence((alpha, gamma * lambda_ * ratio * continues), as_they_are, outputs)


def retrace(
    rewards: Tensor,
    q_values: Tensor,
    log_ratios: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    next_q_values: Tensor,
    next_policy: Tensor,
    gamma: float,
    lambda_: float,
) -> Recurrence:
    """Δ_t = r_t + γ(1 − terminated_t)·E_π[Q(s_{t+1}, ·)] − Q_t + γc_{t+1}(1 − end_t)Δ_{t+1}, c = λ min(1, w), c_T = 0;
    targets Q_t + Δ_t. `next_q_values` and `next_policy` [N, T, A] are both at s_{t+1}.

    Coefficients for the whole window first, as for V-trace.
    """
    expected_q = (next_policy * next_q_values).sum(dim=-1)
    value_next, continues = boundary(expected_q, terminated.to(q_values.dtype), truncated, expected_q)
    trace = lambda_ * log_ratios.clamp(max=0.0).exp()
    beta = gamma * after(trace, torch.zeros_like(trace[:, 0])) * continues
    return Recurrence((rewards + gamma * value_next - q_values, beta), as_they_are, lambda x: (q_values + x,))


def td_lambda(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    last_values: Tensor,
    truncation_values: Tensor | None = None,
    gamma: float,
    lambda_: float,
) -> Recurrence:
    """G_t = r_t + γV'_t where the episode or the window ends, else r_t + γ[(1 − λ)V'_t + λG_{t+1}].

    With G_T = V(s_T) the window's end needs no case: its two weights add to γ.
    """

    def coefficients(reward_t: Tensor, *ends_t: Any) -> tuple[Tensor, Tensor]:
        value_next, continues = boundary(*ends_t)
        trace = lambda_ * continues
        return reward_t + gamma * (1.0 - trace) * value_next, gamma * trace

    ends = (after(values, last_values), terminated.to(values.dtype), truncated, truncation_values)
    return Recurrence((rewards, *ends), coefficients, only, carry=last_values)


def discounted_returns(
    rewards: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    last_values: Tensor,
    truncation_values: Tensor | None = None,
    gamma: float,
) -> Recurrence:
    """G_t = r_t + γV'_t where the episode or the window ends, else r_t + γG_{t+1}; G_T = V(s_T)."""

    def coefficients(
        reward_t: Tensor, terminated_t: Tensor, truncated_t: Tensor | None, truncation_value_t: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        nonterminal = 1.0 - terminated_t
        if truncated_t is None or truncation_value_t is None:
            return reward_t, gamma * nonterminal
        return reward_t + gamma * nonterminal * truncated_t * truncation_value_t, gamma * nonterminal * ~truncated_t

    columns = (rewards, terminated.to(rewards.dtype), truncated, truncation_values)
    return Recurrence(columns, coefficients, only, carry=last_values)


def eligibility_traces(inputs: Tensor, ends: Tensor, *, gamma: float, lambda_: float) -> Recurrence:
    """z_t = x_t + γλ(1 − end_{t-1})z_{t-1}, z_{-1} = 0."""
    return forward_sum(inputs, ends, gamma * lambda_)


def prefix_sum(inputs: Tensor, ends: Tensor) -> Recurrence:
    """C_t = x_t + (1 − end_{t-1})C_{t-1}, C_{-1} = 0."""
    return forward_sum(inputs, ends, 1.0)


def forward_sum(inputs: Tensor, ends: Tensor, decay: float) -> Recurrence:
    def coefficients(input_t: Tensor, ended_before: Tensor) -> tuple[Tensor, Tensor]:
        return input_t, decay * (1.0 - ended_before)

    ended_before = pad(ends[:, :-1].to(inputs.dtype), (1, 0))
    return Recurrence((inputs, ended_before), coefficients, only, forward=True)


def as_they_are(alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    return alpha, beta


def only(x: Tensor) -> Outputs:
    return (x,)


ESTIMATORS: dict[str, Callable[..., Recurrence]] = {
    f.__name__: f for f in (gae, vtrace, retrace, td_lambda, discounted_returns, eligibility_traces, prefix_sum)
}
TRUNCATES = ("gae", "vtrace", "retrace", "td_lambda", "discounted_returns")  # those that know truncation

# The scans


def loop_scan(problem: Recurrence) -> Tensor:
    """Step by step, vectorised over N; the coefficients of a step are built in that step."""
    first = problem.columns[0]
    assert first is not None
    steps = range(first.shape[1])
    x: Tensor | float = 0.0 if problem.carry is None else problem.carry
    out = torch.empty_like(first)
    for t in steps if problem.forward else reversed(steps):
        alpha, beta = problem.coefficients(*(None if c is None else c[:, t] for c in problem.columns))
        x = alpha + beta * x
        out[:, t] = x
    return out


def doubling_scan(problem: Recurrence) -> Tensor:
    """Hillis and Steele: ceil(log2 T) rounds, each combining every step with the pair 2^k steps farther."""
    alpha, beta = problem.coefficients(*problem.columns)
    distance, num_steps = 1, alpha.shape[1]
    while distance < num_steps:
        # beyond the window lies the identity (0, 1)
        if problem.forward:
            alpha_far = pad(alpha[:, :-distance], (distance, 0), value=0.0)
            beta_far = pad(beta[:, :-distance], (distance, 0), value=1.0)
        else:
            alpha_far = pad(alpha[:, distance:], (0, distance), value=0.0)
            beta_far = pad(beta[:, distance:], (0, distance), value=1.0)
        alpha, beta = alpha + beta * alpha_far, beta * beta_far
        distance *= 2
    return with_carry(alpha, beta, problem)


def associative_scan(problem: Recurrence) -> Tensor:
    """torch's higher-order op; "pointwise" is its fast mode and exists on GPUs only."""
    from torch._higher_order_ops.associative_scan import associative_scan as torch_associative_scan

    def combine(far: tuple[Tensor, Tensor], near: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return near[0] + near[1] * far[0], near[1] * far[1]

    pair = problem.coefficients(*problem.columns)
    mode = "pointwise" if pair[0].is_cuda else "generic"
    alpha, beta = torch_associative_scan(combine, pair, dim=1, reverse=not problem.forward, combine_mode=mode)
    return with_carry(alpha, beta, problem)


def with_carry(alpha: Tensor, beta: Tensor, problem: Recurrence) -> Tensor:
    return alpha if problem.carry is None else alpha + beta * problem.carry[:, None]


def baseline(
    estimator: str, scan: Callable[[Recurrence], Tensor], *, compile_it: bool = False
) -> Callable[..., Outputs]:
    """The function of a rollout's arguments that builds the coefficients, scans and makes the outputs.

    Compiled, that is one graph for each shape.
    """
    recurrence = ESTIMATORS[estimator]

    def run(**inputs: Any) -> Outputs:
        problem = recurrence(**inputs)
        return problem.outputs(scan(problem))

    return compiled(run) if compile_it else run


def compiled(run: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled to one graph for each shape."""
    # PyTorch keeps its graphs by code object and looks through all of one: each function has its own
    own = types.FunctionType(run.__code__.replace(), run.__globals__, run.__name__, run.__defaults__, run.__closure__)
    own.__kwdefaults__ = run.__kwdefaults__
    return torch.compile(own, dynamic=False, fullgraph=True)


BASELINES: dict[str, Callable[[str], Callable[..., Outputs]]] = {
    "loop": lambda estimator: baseline(estimator, loop_scan),
    "doubling": lambda estimator: baseline(estimator, doubling_scan, compile_it=True),
    "associative": lambda estimator: baseline(estimator, associative_scan, compile_it=True),
}
