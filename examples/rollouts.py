"""Rollouts of Gymnasium's vectorised environments in [T, N] buffers, and what the estimators need of them."""

from collections.abc import Callable
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from rlscan.boundaries import next_step_autoreset

Policy = Callable[[NDArray[np.float32]], NDArray[np.generic]]


class Rollout(NamedTuple):
    """T steps of N environments with flat observations of size D, as the environments gave them."""

    mode: AutoresetMode
    observations: Tensor  # [T, N, D]: s_t
    rewards: Tensor  # [T, N]: r_t
    terminated: Tensor  # [T, N], bool
    truncated: Tensor  # [T, N], bool
    final_observations: Tensor  # [T, N, D]: s_{t+1} where step t ends under same-step autoreset, NaN elsewhere
    last_observations: Tensor  # [N, D]: s_T
    previous_done: Tensor  # [N], bool: the step before the window ended


class Inputs(NamedTuple):
    """What the estimators take, [T, N] (time_dim=0), and the rows that a loss may use."""

    rewards: Tensor
    values: Tensor
    terminated: Tensor
    truncated: Tensor
    last_values: Tensor  # [N]
    truncation_values: Tensor
    valid: Tensor


def make_envs(name: str, num_envs: int, max_episode_steps: int, mode: AutoresetMode) -> VectorEnv:
    """`num_envs` copies of an environment with a time limit, stepped one after the other."""
    kwargs = {"autoreset_mode": mode}
    return gym.make_vec(name, num_envs, "sync", vector_kwargs=kwargs, max_episode_steps=max_episode_steps)


def value_network(size: int, seed: int) -> nn.Module:
    """A small V(s), seeded."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(size, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(-2)).requires_grad_(False)


def collect(
    envs: VectorEnv, policy: Policy, steps: int, *, after: Rollout | None = None, seed: int = 0, device: str = "cpu"
) -> Rollout:
    """`steps` steps of every environment: from a seeded reset, or going on where the window `after` stopped."""
    if after is None:
        observation = envs.reset(seed=seed)[0]
        previous_done = torch.zeros(envs.num_envs, dtype=torch.bool, device=device)
    else:
        observation = after.last_observations.cpu().numpy()
        previous_done = after.terminated[-1] | after.truncated[-1]
    observations = torch.empty(steps, *observation.shape, device=device)
    final_observations = torch.full_like(observations, torch.nan)
    rewards = torch.empty(steps, envs.num_envs, device=device)
    terminated, truncated = (torch.empty_like(rewards, dtype=torch.bool) for _ in range(2))
    for t in range(steps):
        observations[t] = torch.as_tensor(observation)
        observation, reward, term, trunc, info = envs.step(policy(observation))
        rewards[t], terminated[t], truncated[t] = map(torch.as_tensor, (reward, term, trunc))
        for n in np.flatnonzero(info.get("_final_obs", [])):
            final_observations[t, n] = torch.as_tensor(info["final_obs"][n])
    last_observations = torch.as_tensor(observation, device=device)
    mode = envs.metadata["autoreset_mode"]
    return Rollout(
        mode, observations, rewards, terminated, truncated, final_observations, last_observations, previous_done
    )


def inputs(rollout: Rollout, value: nn.Module, dtype: torch.dtype = torch.float32) -> Inputs:
    """The rollout's values, bootstraps and flags, computed in `dtype`, which is the network's too."""
    values = value(rollout.observations.to(dtype))
    last_values = value(rollout.last_observations.to(dtype))
    terminated, truncated, valid = rollout.terminated, rollout.truncated, torch.ones_like(rollout.terminated)
    if rollout.mode == AutoresetMode.SAME_STEP:
        truncation_values = value(rollout.final_observations.to(dtype))  # NaN, and not read, where no episode ended
    else:
        previous = rollout.previous_done
        terminated, truncated, valid, truncation_values, _ = next_step_autoreset(
            terminated, truncated, previous_done=previous, values=values, last_values=last_values, time_dim=0
        )
    return Inputs(rollout.rewards.to(dtype), values, terminated, truncated, last_values, truncation_values, valid)
