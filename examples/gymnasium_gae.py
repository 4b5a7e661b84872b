"""GAE over real rollouts, under both autoreset modes of Gymnasium, checked against a plain loop over each episode.

Run `python examples/gymnasium_gae.py`; `--help` lists the sizes. The exit code is 1 if a result leaves the a-priori
bound on the rounding error of float32.
"""

import argparse
import functools
import sys

import torch
from gymnasium.vector import AutoresetMode
from rollouts import Inputs, Rollout, collect, inputs, make_envs, value_network
from torch import Tensor

import rlscan

GAMMA, LAMBDA = 0.99, 0.95
UNIT_ROUNDOFF = 2.0**-24
HEADER = ("environment", "autoreset", "steps", "terminated", "truncated", "mean adv.", "max diff.", "of bound", "cost")
LEGEND = """
mean adv.  mean advantage over the valid steps; the value network is seeded, not trained
max diff.  largest |rlscan - plain loop in double precision|
of bound   largest share of the a-priori float32 error bound that a step uses; above 100% is an error
cost       mean |error| of the advantages if every truncation were treated as a termination"""


def plain_gae(rollout: Rollout, x: Inputs) -> tuple[Tensor, Tensor]:
    """Each episode's GAE by a loop in double precision over the environment's own flags, and the float32 bound.

    Step t sums its episode's δ_j (γλ)^(j-t). Whatever the order, float32 rounds a term at most 4 + 5 (j-t) times: 4 in
    δ_j, then 3 in each γλ, one in each product and each sum. With n that count for the farthest term (and one to spare
    for this loop's own rounding) and u the unit roundoff, |error| is at most n u / (1 - n u) times the same sum with
    |r| + γ|V'| + |V| for δ. Both results are NaN on reset rows.
    """
    next_step = rollout.mode == AutoresetMode.NEXT_STEP
    rewards, terminated, truncated = (y.tolist() for y in (rollout.rewards, rollout.terminated, rollout.truncated))
    values, final_values = [*x.values.tolist(), x.last_values.tolist()], x.truncation_values.tolist()
    result = torch.full((2, *rollout.rewards.shape), torch.nan, dtype=torch.float64)
    for n, reset_first in enumerate(rollout.previous_done.tolist()):
        advantage = majorant = 0.0
        roundings = 5
        for t in reversed(range(len(rewards))):
            ended_before = terminated[t - 1][n] or truncated[t - 1][n] if t else reset_first
            if next_step and ended_before:
                continue  # the reset row: no transition
            successor = values[t + 1][n]
            if terminated[t][n] or truncated[t][n]:
                advantage, majorant, roundings = 0.0, 0.0, 5
                if terminated[t][n]:
                    successor = 0.0
                elif not next_step:
                    successor = final_values[t][n]
            advantage = rewards[t][n] + GAMMA * successor - values[t][n] + GAMMA * LAMBDA * advantage
            majorant = abs(rewards[t][n]) + GAMMA * abs(successor) + abs(values[t][n]) + GAMMA * LAMBDA * majorant
            rounded = roundings * UNIT_ROUNDOFF
            result[:, t, n] = torch.tensor((advantage, rounded / (1 - rounded) * majorant), dtype=torch.float64)
            roundings += 5
    return result[0], result[1]


def row(name: str, mode: AutoresetMode, args: argparse.Namespace) -> tuple[tuple[str, ...], bool]:
    """One line of the table, and whether its results are within the bound."""
    envs = make_envs(name, args.envs, args.time_limit, mode)
    envs.action_space.seed(args.seed)
    gae = functools.partial(rlscan.gae, gamma=GAMMA, lambda_=LAMBDA, time_dim=0)
    rollout, steps, counts = None, [], torch.zeros(2, dtype=torch.int64)
    for _ in range(args.windows):
        rollout = collect(
            envs, lambda _: envs.action_space.sample(), args.steps, after=rollout, seed=args.seed, device=args.device
        )
        x = inputs(rollout, value_network(rollout.observations.shape[-1], args.seed).to(args.device))
        last, final = x.last_values, x.truncation_values
        right, _ = gae(x.rewards, x.values, x.terminated, x.truncated, last_values=last, truncation_values=final)
        wrong, _ = gae(x.rewards, x.values, x.terminated | x.truncated, last_values=last)
        plain, bound = plain_gae(rollout, x)
        steps.append(torch.stack([y.cpu().double()[x.valid.cpu()] for y in (right, wrong, plain, bound)]))
        counts += torch.stack([rollout.terminated.sum(), (rollout.truncated & ~rollout.terminated).sum()]).cpu()
    envs.close()
    right, wrong, plain, bound = torch.cat(steps, dim=1)
    difference, cost = (right - plain).abs(), (wrong - right).abs().mean().item()
    share = (difference / bound).max().item()
    numbers = (f"{right.mean():.4f}", f"{difference.max():.1e}", f"{share:.1%}", f"{cost:.4f}")
    ended = tuple(str(count) for count in counts.tolist())
    return (name, mode.name.lower(), str(right.numel()), *ended, *numbers), bool((difference <= bound).all())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, default=8, help="environments side by side (default 8)")
    parser.add_argument("--steps", type=int, default=50, help="steps a window (default 50)")
    parser.add_argument("--windows", type=int, default=4, help="windows, each going on from the last (default 4)")
    parser.add_argument("--time-limit", type=int, default=16, help="steps before an episode is cut (default 16)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where the buffers live and rlscan runs (default cpu)")
    args = parser.parse_args(argv)
    for name in ("envs", "steps", "windows", "time_limit"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is {getattr(args, name)}, should be at least 1")

    modes = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP)
    lines = [row(name, mode, args) for name in ("CartPole-v1", "Pendulum-v1") for mode in modes]
    rows, within = zip(*lines, strict=True)
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    for line in (HEADER, tuple("-" * width for width in widths), *rows):
        print("  ".join(f"{cell:{align}{w}}" for cell, align, w in zip(line, "<<>>>>>>>", widths, strict=True)))
    print(LEGEND)
    if not all(within):
        print("FAILED: a result leaves its bound", file=sys.stderr)
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
