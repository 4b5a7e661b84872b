"""The seven estimators in JAX: the same recurrences, by `lax.associative_scan` and by `lax.scan`, under jit.

As in paper/baselines.py: arrays are [N, T], flags bool, and an estimator is its whole windows of (alpha, beta), the
carry beyond the window and what is made of the solution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

Array = Any


class Recurrence(NamedTuple):
    alpha: Array
    beta: Array
    outputs: Callable[[Array], tuple[Array, ...]] = lambda x: (x,)
    carry: Array | None = None  # x beyond the window, [N]; None is zero
    forward: bool = False


def after(x: Array, last: Array) -> Array:
    """x_{t+1}, where x_T is `last` [N]."""
    return jnp.concatenate([x[:, 1:], last[:, None]], axis=1)


def successors(value_after: Array, terminated: Array, truncated: Array | None, values: Array | None) -> Any:
    """V'_t and 1 − end_t; termination wins."""
    if truncated is None:
        return jnp.where(terminated, 0.0, value_after), 1.0 - terminated
    chosen = jnp.where(truncated, values, value_after)
    return jnp.where(terminated, 0.0, chosen), 1.0 - (terminated | truncated)


def gae(
    rewards, values, terminated, truncated=None, *, last_values, truncation_values=None, gamma, lambda_
) -> Recurrence:
    value_next, continues = successors(after(values, last_values), terminated, truncated, truncation_values)
    alpha = rewards + gamma * value_next - values
    return Recurrence(alpha, gamma * lambda_ * continues, lambda x: (x, x + values))


def vtrace(
    rewards, values, log_ratios, terminated, truncated=None, *, last_values, truncation_values=None, gamma, lambda_
) -> Recurrence:
    value_next, continues = successors(after(values, last_values), terminated, truncated, truncation_values)
    ratio = jnp.exp(jnp.minimum(log_ratios, 0.0))

    def outputs(x: Array) -> tuple[Array, ...]:
        targets = values + x
        target_next = jnp.where(continues > 0, after(targets, last_values), value_next)
        return targets, ratio * (rewards + gamma * target_next - values)

    alpha = ratio * (rewards + gamma * value_next - values)
    return Recurrence(alpha, gamma * lambda_ * ratio * continues, outputs)


def retrace(
    rewards, q_values, log_ratios, terminated, truncated=None, *, next_q_values, next_policy, gamma, lambda_
) -> Recurrence:
    expected_q = (next_policy * next_q_values).sum(axis=-1)
    value_next, continues = successors(expected_q, terminated, truncated, expected_q)
    trace = lambda_ * jnp.exp(jnp.minimum(log_ratios, 0.0))
    beta = gamma * after(trace, jnp.zeros_like(trace[:, 0])) * continues
    return Recurrence(rewards + gamma * value_next - q_values, beta, lambda x: (q_values + x,))


def td_lambda(
    rewards, values, terminated, truncated=None, *, last_values, truncation_values=None, gamma, lambda_
) -> Recurrence:
    value_next, continues = successors(after(values, last_values), terminated, truncated, truncation_values)
    trace = lambda_ * continues
    return Recurrence(rewards + gamma * (1.0 - trace) * value_next, gamma * trace, carry=last_values)


def discounted_returns(
    rewards, terminated, truncated=None, *, last_values, truncation_values=None, gamma
) -> Recurrence:
    nothing = jnp.zeros_like(rewards)
    value_next, continues = successors(nothing, terminated, truncated, truncation_values)
    return Recurrence(rewards + gamma * value_next, gamma * continues, carry=last_values)


def eligibility_traces(inputs, ends, *, gamma, lambda_) -> Recurrence:
    return Recurrence(inputs, gamma * lambda_ * since(ends), forward=True)


def prefix_sum(inputs, ends) -> Recurrence:
    return Recurrence(inputs, since(ends), forward=True)


def since(ends: Array) -> Array:
    """1 − end_{t-1}."""
    return jnp.concatenate([jnp.zeros_like(ends[:, :1]), 1.0 - ends[:, :-1]], axis=1)


ESTIMATORS: dict[str, Callable[..., Recurrence]] = {
    f.__name__: f for f in (gae, vtrace, retrace, td_lambda, discounted_returns, eligibility_traces, prefix_sum)
}


def by_associative_scan(problem: Recurrence) -> Array:
    def combine(far: Any, near: Any) -> Any:
        return near[0] + near[1] * far[0], near[1] * far[1]

    alpha, beta = lax.associative_scan(combine, (problem.alpha, problem.beta), reverse=not problem.forward, axis=1)
    return alpha if problem.carry is None else alpha + beta * problem.carry[:, None]


def by_scan(problem: Recurrence) -> Array:
    def step(x: Array, pair: Any) -> Any:
        x = pair[0] + pair[1] * x
        return x, x

    first = jnp.zeros_like(problem.alpha[:, 0]) if problem.carry is None else problem.carry
    pairs = (problem.alpha.T, problem.beta.T)
    return lax.scan(step, first, pairs, reverse=not problem.forward)[1].T


def compiled(estimator: str, scan: Callable[[Recurrence], Array], arrays: dict[str, Array], numbers: Any) -> Any:
    """The call on these very arrays, compiled; numbers are constants of the program."""

    def run(arguments: dict[str, Array]) -> tuple[Array, ...]:
        problem = ESTIMATORS[estimator](**arguments, **numbers)
        return problem.outputs(scan(problem))

    function = jax.jit(run)
    return lambda: function(arrays)
