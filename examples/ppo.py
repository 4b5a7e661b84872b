"""PPO on environments that live on the device, with rlscan for its advantages.

    python examples/ppo.py --task pendulum                        # bootstraps where the time limit cuts
    python examples/ppo.py --task pendulum --cut-is-termination   # the common mistake

Episodes are cut early, and the policy is judged on longer ones that start anew: a value function that believes that
the world ends at the time limit shows.
"""

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from device_envs import TASKS
from torch import Tensor, nn

import rlscan


class Settings(NamedTuple):
    """A run's sizes, and PPO's usual numbers."""

    envs: int = 256
    steps: int = 32  # T, of a window
    updates: int = 60
    time_limit: int = 200  # steps before an episode is cut
    horizon: int = 500  # steps of an episode that judges the policy
    hidden: tuple[int, ...] = (64, 64)
    epochs: int = 4
    minibatches: int = 4
    learning_rate: float = 2e-3
    gamma: float = 0.97
    lambda_: float = 0.95
    clip: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.003
    gradient_norm: float = 0.5


RUNS = {"cartpole": Settings(), "pendulum": Settings(updates=120, time_limit=32, horizon=200)}


class Batch(NamedTuple):
    """What a loss reads: S steps, in any order."""

    observations: Tensor  # [S, D]
    actions: Tensor  # [S], int64
    log_probs: Tensor  # [S]: log μ(a_t | s_t), as they were chosen
    advantages: Tensor  # [S]
    returns: Tensor  # [S]


class Network(nn.Module):
    """Action logits and V(s), on one trunk of tanh layers."""

    def __init__(self, observation_size: int, actions: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        sizes = (observation_size, *hidden)
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
        self.trunk = nn.Sequential(*layers)
        self.policy, self.value = nn.Linear(sizes[-1], actions), nn.Linear(sizes[-1], 1)
        with torch.no_grad():
            self.policy.weight.mul_(0.01)  # all actions alike at first

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        features = self.trunk(observations)
        return self.policy(features), self.value(features).squeeze(-1)


def log_prob(logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """log π(a|s) and the entropy."""
    log_policy = logits.log_softmax(dim=-1)
    chosen = log_policy.gather(-1, actions[..., None]).squeeze(-1)
    return chosen, -(log_policy.exp() * log_policy).sum(dim=-1)


def loss(network: nn.Module, batch: Batch, settings: Settings) -> Tensor:
    """PPO's clipped objective, the error of the values, and a bonus for entropy."""
    logits, values = network(batch.observations)
    log_probs, entropy = log_prob(logits, batch.actions)
    ratio = (log_probs - batch.log_probs).exp()
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    gain = torch.minimum(ratio * batch.advantages, clipped * batch.advantages).mean()
    error = 0.5 * (values - batch.returns).square().mean()
    return settings.value_weight * error - gain - settings.entropy_weight * entropy.mean()


def optimise(
    network: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch, settings: Settings, generator: torch.Generator
) -> None:
    """All epochs over the batch, in minibatches; advantages are normalised over the whole of it."""
    advantages = batch.advantages
    batch = batch._replace(advantages=(advantages - advantages.mean()) / (advantages.std() + 1e-8))
    for _ in range(settings.epochs):
        order = torch.randperm(len(advantages), generator=generator, device=advantages.device)
        for chosen in order.chunk(settings.minibatches):
            optimizer.zero_grad()
            loss(network, Batch(*(x[chosen] for x in batch)), settings).backward()
            nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_norm)
            optimizer.step()


class Judgement(NamedTuple):
    """A policy over `horizon` steps from fresh starts, without a time limit; means over the environments."""

    score: float  # the return, undiscounted, until a termination
    discounted: float  # the discounted return of the same steps
    value: float  # what V(s_0) said it would be


class Trainer:
    """One run: `rollout`, `assign`, `optimise`, over and over. Nothing in them waits for the device."""

    def __init__(
        self, task: str, settings: Settings, *, seed: int = 0, device: str = "cpu",
        gae: Callable[..., Any] = rlscan.gae, cut_is_termination: bool = False,
    ) -> None:  # fmt: skip
        self.task, self.settings, self.gae, self.cut_is_termination = TASKS[task], settings, gae, cut_is_termination
        with torch.random.fork_rng(devices=[]):  # the same weights on any device
            torch.manual_seed(seed)
            network = Network(self.task.observation_size, self.task.actions, settings.hidden)
        self.network = network.to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate, eps=1e-5, fused=True)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.env = self.task(settings.envs, settings.time_limit, self.generator)
        self.observation = self.env.observe(self.env.state)

    def act(self, observation: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Actions drawn from the policy, and its logits."""
        logits, _ = self.network(observation)
        waiting = torch.empty_like(logits).exponential_(generator=generator)  # the first of rival exponential clocks
        return (logits.softmax(dim=-1) / waiting).argmax(dim=-1), logits

    @torch.no_grad()
    def rollout(self) -> None:
        """A window of T steps, [T, N], and every value that its advantages need."""
        steps, rows = [], []
        for _ in range(self.settings.steps):
            actions, logits = self.act(self.observation, self.generator)
            rows.append((self.observation, actions, logits))
            steps.append(self.env.step(actions))
            self.observation = steps[-1].observations
        self.observations, self.actions, logits = (torch.stack(x) for x in zip(*rows, strict=True))
        _, self.rewards, self.terminated, self.truncated, final = (torch.stack(x) for x in zip(*steps, strict=True))
        self.log_probs, _ = log_prob(logits, self.actions)
        self.values, self.truncation_values = self.network(self.observations)[1], self.network(final)[1]
        self.last_values = self.network(self.observation)[1]

    @torch.no_grad()
    def assign(self) -> None:
        """Advantages and returns, [T, N]."""
        flags: tuple[Tensor, ...] = (self.terminated, self.truncated)
        bootstraps = {"last_values": self.last_values, "truncation_values": self.truncation_values}
        if self.cut_is_termination:
            flags = (self.terminated | self.truncated,)
            del bootstraps["truncation_values"]
        weights = {"gamma": self.settings.gamma, "lambda_": self.settings.lambda_}
        self.advantages, self.returns = self.gae(self.rewards, self.values, *flags, **bootstraps, **weights, time_dim=0)

    def optimise(self) -> None:
        window = (self.observations, self.actions, self.log_probs, self.advantages, self.returns)
        batch = Batch(*(x.flatten(0, 1) for x in window))
        optimise(self.network, self.optimizer, batch, self.settings, self.generator)

    @torch.no_grad()
    def judge(self, envs: int = 256) -> Judgement:
        """The policy on the same fresh starts every time, which does not disturb the run."""
        settings = self.settings
        generator = torch.Generator(self.generator.device).manual_seed(1)
        env = self.task(envs, settings.horizon + 1, generator, staggered=False)
        observation = env.observe(env.state)
        alive = torch.ones(envs, device=observation.device)
        score, discounted = torch.zeros_like(alive), torch.zeros_like(alive)
        value = self.network(observation)[1].mean()
        for t in range(settings.horizon):
            actions, _ = self.act(observation, generator)
            observation, rewards, terminated, _, _ = env.step(actions)
            score += alive * rewards
            discounted += settings.gamma**t * alive * rewards
            alive *= ~terminated
        return Judgement(*torch.stack([score.mean(), discounted.mean(), value]).tolist())


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=list(TASKS), default="cartpole")
    parser.add_argument("--cut-is-termination", action="store_true", help="treat the time limit as a termination")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    for name in ("envs", "steps", "updates", "time_limit", "horizon"):
        defaults = " or ".join(str(n) for n in dict.fromkeys(getattr(run, name) for run in RUNS.values()))
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"default {defaults}")
    args = parser.parse_args(argv)
    given = {name: value for name, value in vars(args).items() if name in Settings._fields and value is not None}
    settings = RUNS[args.task]._replace(**given)
    trainer = Trainer(
        args.task, settings, seed=args.seed, device=args.device, cut_is_termination=args.cut_is_termination
    )
    start = time.perf_counter()
    print(f"{'update':>6} {'steps':>9} {'return':>8} {'discounted':>11} {'V(s_0)':>8} {'seconds':>8}")
    for update in range(settings.updates + 1):
        if update % max(1, settings.updates // 10) == 0:
            score, discounted, value = trainer.judge()
            done, seconds = update * settings.envs * settings.steps, time.perf_counter() - start
            print(f"{update:>6} {done:>9} {score:>8.1f} {discounted:>11.2f} {value:>8.2f} {seconds:>8.1f}")
        trainer.rollout()
        trainer.assign()
        trainer.optimise()
    tail = settings.gamma**settings.horizon
    print(
        f"\nreturn over {settings.horizon} steps; V(s_0) counts the steps after them too: weight {tail:.2f} of a value"
    )


if __name__ == "__main__":
    main()
