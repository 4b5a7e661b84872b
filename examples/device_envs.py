"""CartPole and a pendulum swing-up as batches of tensors: N environments that live, step and reset on one device.

Same-step autoreset, as Gymnasium calls it: where an episode ends the observation that comes back is the first of the
next one, and the observation that it ended in is `final_observations`. A step never asks the device for a number, so a
GPU is not waited for.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Step(NamedTuple):
    """What one step of N environments gives, with observations of size D."""

    observations: Tensor  # [N, D]: s_{t+1}, or the first observation of the next episode where this one ended
    rewards: Tensor  # [N]: r_t
    terminated: Tensor  # [N], bool: the MDP ended at s_{t+1}
    truncated: Tensor  # [N], bool: the time limit cut the episode at s_{t+1}, and only that
    final_observations: Tensor  # [N, D]: s_{t+1} in any case


class DeviceEnv:
    """N environments with a time limit; a task gives the dynamics.

    The clocks begin anywhere below the limit, so that episodes are not all cut in the same step.
    """

    observation_size: int
    actions: int

    def __init__(self, num_envs: int, time_limit: int, generator: torch.Generator, *, staggered: bool = True) -> None:
        self.num_envs, self.time_limit, self.generator = num_envs, time_limit, generator
        self.state = self.start()
        self.clock = torch.zeros(num_envs, dtype=torch.int64, device=generator.device)
        if staggered:
            self.clock.random_(time_limit, generator=generator)

    def start(self) -> Tensor:
        """First states, [N, S]."""
        raise NotImplementedError

    def advance(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next states, the rewards and the terminations, for actions [N] in [0, self.actions)."""
        raise NotImplementedError

    def observe(self, state: Tensor) -> Tensor:
        """Observations [N, D] of states [N, S]."""
        raise NotImplementedError

    def step(self, actions: Tensor) -> Step:
        state, rewards, terminated = self.advance(actions)
        self.clock += 1
        truncated = (self.clock >= self.time_limit) & ~terminated
        ended = terminated | truncated
        self.clock.masked_fill_(ended, 0)
        self.state = torch.where(ended[:, None], self.start(), state)
        return Step(self.observe(self.state), rewards, terminated, truncated, self.observe(state))

    def uniform(self, *half_widths: float) -> Tensor:
        """[N, len(half_widths)], each column uniform around 0."""
        unit = torch.rand(self.num_envs, len(half_widths), generator=self.generator, device=self.generator.device)
        return torch.stack([(2 * w) * (unit[:, k] - 0.5) for k, w in enumerate(half_widths)], dim=-1)


class CartPole(DeviceEnv):
    """The pole on a cart of Barto, Sutton and Anderson 1983, without friction: a reward of 1 until the pole has fallen.

        θ'' = (g sin θ − cos θ · f) / (l (4/3 − m cos²θ / M)),    f = (F + m l θ'² sin θ) / M,
        x'' = f − m l θ'' cos θ / M,

    with pole mass m, half length l, total mass M, and Euler steps. Terminated beyond 2.4 m or 12 degrees.
    """

    observation_size, actions = 4, 2
    GRAVITY, POLE, CART, HALF_LENGTH, FORCE, SECONDS = 9.8, 0.1, 1.0, 0.5, 10.0, 0.02  # SI units
    EDGE, FALLEN = 2.4, math.radians(12)

    def start(self) -> Tensor:
        return self.uniform(0.05, 0.05, 0.05, 0.05)

    def observe(self, state: Tensor) -> Tensor:
        return state

    def advance(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, speed, angle, turn = self.state.unbind(-1)
        mass, lever = self.POLE + self.CART, self.POLE * self.HALF_LENGTH
        sine, cosine = angle.sin(), angle.cos()
        pushed = ((2 * self.FORCE) * (actions - 0.5) + lever * turn.square() * sine) / mass
        inertia = self.HALF_LENGTH * (4 / 3 - (self.POLE / mass) * cosine.square())
        angular = (self.GRAVITY * sine - cosine * pushed) / inertia
        rates = torch.stack([speed, pushed - (lever / mass) * angular * cosine, turn, angular], dim=-1)
        state = self.state + self.SECONDS * rates
        terminated = (state[:, 0].abs() > self.EDGE) | (state[:, 2].abs() > self.FALLEN)
        return state, torch.ones_like(x), terminated


class Pendulum(DeviceEnv):
    """A rod that a weak motor has to swing up and to hold: it never terminates, so its time limit only truncates.

        θ'' = 3g/(2l) · sin θ + 3/(m l²) · u,    θ = 0 upright, u in {−2, 0, 2} N m,

    speed first, then angle. The cost of a step is θ² + θ'²/10 + u²/1000 at s_{t+1}, with θ in [−π, π); the
    reward is minus an eighth of it.
    """

    observation_size, actions = 3, 3
    GRAVITY, MASS, LENGTH, TORQUE, SPEED, SECONDS = 10.0, 1.0, 1.0, 2.0, 8.0, 0.05  # SI units

    def start(self) -> Tensor:
        return self.uniform(math.pi, 1.0)

    def observe(self, state: Tensor) -> Tensor:
        angle, speed = state.unbind(-1)
        return torch.stack([angle.cos(), angle.sin(), speed / self.SPEED], dim=-1)

    def advance(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angle, speed = self.state.unbind(-1)
        torque = self.TORQUE * (actions - 1)
        angular = 1.5 * self.GRAVITY / self.LENGTH * angle.sin() + 3 / (self.MASS * self.LENGTH**2) * torque
        speed = (speed + self.SECONDS * angular).clamp(-self.SPEED, self.SPEED)
        angle = angle + self.SECONDS * speed
        from_upright = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        rewards = -(from_upright.square() + 0.1 * speed.square() + 0.001 * torque.square()) / 8
        return torch.stack([angle, speed], dim=-1), rewards, torch.zeros_like(rewards, dtype=torch.bool)


TASKS: dict[str, type[DeviceEnv]] = {"cartpole": CartPole, "pendulum": Pendulum}
