"""Other projects' estimators, called by rlscan's names. What each cannot be told is what `paper.peers` says of it.

Nothing is imported until it is called, for none of these packages is needed by anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Function = Callable[..., Any]


# Stable-Baselines3: [T, N] NumPy arrays in a buffer


def sb3_rollout_buffer(rewards, values, starts, last_done, last_values, gamma, lambda_) -> Any:
    import torch
    from gymnasium import spaces
    from stable_baselines3.common.buffers import RolloutBuffer

    steps, rows = rewards.shape
    nothing, one = spaces.Box(0.0, 1.0, (1,)), spaces.Discrete(2)
    buffer = RolloutBuffer(steps, nothing, one, device="cpu", gae_lambda=lambda_, gamma=gamma, n_envs=rows)
    buffer.rewards[:], buffer.values[:], buffer.episode_starts[:] = rewards, values, starts
    buffer.compute_returns_and_advantage(torch.as_tensor(last_values), last_done)
    return buffer.advantages, buffer.returns


# rlax: one row at a time, mapped over rows; discounts of 0 are its terminations


@cache
def _mapped(name: str, named: tuple[str, ...] = (), **fixed: Any) -> Function:
    """rlax's function over rows, compiled; numbers are for all rows, and the last arguments go by name."""
    import jax
    import rlax

    function = getattr(rlax, name)

    def one(*arguments: Any) -> Any:
        count = len(arguments) - len(named)
        return function(*arguments[:count], **dict(zip(named, arguments[count:], strict=True)), **fixed)

    def run(*arguments: Any) -> Any:
        return jax.vmap(one, [None if np.ndim(x) == 0 else 0 for x in arguments])(*arguments)

    compiled: Function = jax.jit(run)
    return compiled


def _next(x: Any, last: Any) -> Any:
    import jax.numpy as jnp

    return jnp.concatenate([x[:, 1:], jnp.broadcast_to(last, x[:, 0].shape)[:, None]], 1)


def _discounts(gamma: Any, ends: Any, like: Any) -> Any:
    return (gamma * (1.0 - ends)).astype(like.dtype)


def rlax_gae(rewards, values, terminated, last_values, gamma, lambda_) -> Any:
    import jax.numpy as jnp

    every = jnp.concatenate([values, jnp.broadcast_to(last_values, values[:, 0].shape)[:, None]], 1)
    discounts = _discounts(gamma, terminated, rewards)
    return _mapped("truncated_generalized_advantage_estimation")(rewards, discounts, lambda_, every)


def rlax_vtrace(alpha: float | None = None, **clips: float) -> Function:
    """V-trace; with `alpha` the leaky one. Targets are its errors + V."""
    name = "vtrace_td_error_and_advantage"

    def vtrace(rewards, values, log_ratios, terminated, last_values, gamma, lambda_) -> Any:
        import jax.numpy as jnp

        fixed = clips if alpha is None else {**clips, "alpha": alpha}
        mapped = _mapped(name if alpha is None else f"leaky_{name}", ("lambda_",), **fixed)
        discounts = _discounts(gamma, terminated, rewards)
        weights = jnp.broadcast_to(jnp.asarray(lambda_, rewards.dtype), rewards.shape)
        found = mapped(values, _next(values, last_values), rewards, discounts, jnp.exp(log_ratios), weights)
        return found.errors + values, found.pg_advantage

    return vtrace


def rlax_vtrace_with_final_values(
    rewards, values, log_ratios, terminated, truncated, last_values, truncation_values, gamma, lambda_
) -> Any:
    """V-trace with a truncation put the only way that v_t allows: its value there, and λ_t = 0 to cut."""
    import jax.numpy as jnp

    successors = jnp.where(truncated, truncation_values, _next(values, last_values))
    weights = jnp.where(truncated, 0.0, lambda_).astype(rewards.dtype)
    arguments = (values, successors, rewards, _discounts(gamma, terminated, rewards), jnp.exp(log_ratios), weights)
    found = _mapped("vtrace_td_error_and_advantage")(*arguments)
    return found.errors + values, found.pg_advantage


def rlax_lambda_returns(rewards, values, terminated, truncated, last_values, truncation_values, gamma, lambda_) -> Any:
    """λ-returns; a truncation is λ_t = 0 with the final observation's value as v_t."""
    import jax.numpy as jnp

    successors = jnp.where(truncated, truncation_values, _next(values, last_values))
    weights = jnp.where(truncated, 0.0, lambda_).astype(rewards.dtype)
    return _mapped("lambda_returns")(rewards, _discounts(gamma, terminated, rewards), successors, weights)


def rlax_discounted_returns(rewards, terminated, last_values, gamma) -> Any:
    import jax.numpy as jnp

    last = jnp.broadcast_to(jnp.asarray(last_values, rewards.dtype)[:, None], rewards.shape)
    return _mapped("discounted_returns")(rewards, _discounts(gamma, terminated, rewards), last)


def rlax_retrace(rewards, q_values, log_ratios, terminated, truncated, next_q_values, gamma, lambda_) -> Any:
    """General off-policy returns with Retrace's c; a truncation is c_{t+1} = 0."""
    import jax.numpy as jnp

    c = (lambda_ * jnp.minimum(1.0, jnp.exp(log_ratios))).astype(rewards.dtype)[:, 1:]
    c = jnp.where(truncated[:, :-1], 0.0, c)
    discounts = _discounts(gamma, terminated, rewards)
    return _mapped("general_off_policy_returns_from_q_and_v")(q_values[:, 1:], next_q_values, rewards, discounts, c)


# TorchRL: [N, T, 1] tensors; done = terminated or truncated


def _torchrl(name: str) -> Function:
    import torchrl.objectives.value.functional as functional

    function: Function = getattr(functional, name)
    return function


def _flags(terminated: Any, truncated: Any) -> tuple[Any, Any]:
    return (terminated | truncated).unsqueeze(-1), terminated.unsqueeze(-1)


def torchrl_gae(name: str, instead_at_zero: str = "") -> Function:
    """By the function of that name; where γλ = 0, by another one."""

    def gae(rewards, values, terminated, truncated, next_values, gamma, lambda_) -> Any:
        function = _torchrl(instead_at_zero if instead_at_zero and gamma * lambda_ == 0 else name)
        steps = (x.unsqueeze(-1) for x in (values, next_values, rewards))
        found = function(gamma, lambda_, *steps, *_flags(terminated, truncated))
        return tuple(x.squeeze(-1) for x in found)

    return gae


def torchrl_td_lambda(name: str, instead_at_zero: str = "") -> Function:
    def td_lambda(rewards, values, terminated, truncated, next_values, gamma, lambda_) -> Any:
        function = _torchrl(instead_at_zero if instead_at_zero and gamma * lambda_ == 0 else name)
        steps = (x.unsqueeze(-1) for x in (next_values, rewards))
        return function(gamma, lambda_, *steps, *_flags(terminated, truncated)).squeeze(-1)

    return td_lambda


def torchrl_td1(name: str) -> Function:
    def discounted_returns(rewards, terminated, truncated, next_values, gamma) -> Any:
        steps = (x.unsqueeze(-1) for x in (next_values, rewards))
        return _torchrl(name)(gamma, *steps, *_flags(terminated, truncated)).squeeze(-1)

    return discounted_returns


def torchrl_vtrace(**clips: float) -> Function:
    def vtrace(rewards, values, log_ratios, terminated, truncated, next_values, gamma) -> Any:
        log_mu = log_ratios.new_zeros(()).expand_as(log_ratios)
        steps = (x.unsqueeze(-1) for x in (log_ratios, log_mu, values, next_values, rewards))
        found = _torchrl("vtrace_advantage_estimate")(gamma, *steps, *_flags(terminated, truncated), **clips)
        return tuple(x.squeeze(-1) for x in found)

    return vtrace
