"""PPO that learns: the same seeds by rlscan and by the loop, and with truncation treated as termination.

How it is judged that rlscan and the loop learn the same, when training is chaotic and one rounding may flip an action:

1. At every judged update both compute the advantages of the very same window, and both have to be within the a-priori
   bound of the float64 reference.
2. Computed in float64 and rounded to float32, the two hardly ever differ. While they do not, runs "in float64" take the
   same actions, and where such runs end in the same weights, bit for bit, nothing but the rounding of float32 tells
   rlscan and the loop apart.
3. In float32 the update is reported in which the first action differs, and the distance between the two curves beside
   that between seeds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

import rlscan
from paper.baselines import BASELINES
from paper.end_to_end import Cell, Row
from paper.examples import ppo
from paper.gate import check, expect
from paper.timing import laps

GAE = Callable[..., tuple[Tensor, ...]]
SIZES = {"cuda": {"envs": 1024, "steps": 128}, "cpu": {"envs": 64, "steps": 32}}
UPDATES = {"cuda": {"cartpole": 60, "pendulum": 100}, "cpu": {"cartpole": 50, "pendulum": 80}}
PROTOCOL = {"seeds": {"cuda": 3, "cpu": 1}, "judgements": 10, "timer": "CUDA events in the stream of one update"}


def time_major(gae: GAE) -> GAE:
    """GAE of [N, T] for [T, N] buffers, by views."""

    names = ("rewards", "values", "terminated", "truncated")

    def run(*window: Tensor, time_dim: int, last_values: Tensor, **kwargs: Any) -> tuple[Tensor, ...]:
        assert time_dim == 0
        steps = {**dict(zip(names[: len(window)], window, strict=True)), **kwargs}  # `truncated` may be left out
        rows = {name: x.t() if isinstance(x, Tensor) else x for name, x in steps.items()}
        return tuple(x.t() for x in gae(**rows, last_values=last_values))

    return run


def in_float64(gae: GAE) -> GAE:
    """The same on float64 inputs, its results rounded to float32."""

    def wide(x: Any) -> Any:
        return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x

    def run(*window: Tensor, **kwargs: Any) -> Any:
        return tuple(x.float() for x in gae(*map(wide, window), **{name: wide(x) for name, x in kwargs.items()}))

    return run


LOOP = time_major(BASELINES["loop"]("gae"))
VARIANTS: dict[str, tuple[GAE, bool]] = {  # and whether a cut is taken for a termination
    "rlscan": (rlscan.gae, False),
    "loop": (LOOP, False),
    "rlscan in float64": (in_float64(rlscan.gae), False),
    "loop in float64": (in_float64(LOOP), False),
    "cut is termination": (rlscan.gae, True),
}


def cells(device: str, seed: int, protocol: Row) -> Iterator[Cell]:
    quick = protocol.get("quick", False)
    for task in ppo.RUNS:
        updates = 2 if quick else UPDATES[device][task]
        settings = ppo.RUNS[task]._replace(updates=updates, **SIZES[device])
        if quick:
            settings = settings._replace(envs=4, steps=8, horizon=8)
        for offset in range(1 if quick else protocol["seeds"][device]):
            key = {"task": task, "seed": seed + offset}
            yield Cell(key, partial(learn, key, settings, device, protocol["judgements"]))


class Run:
    """One trainer, and what it left behind."""

    def __init__(self, key: Row, variant: str, settings: ppo.Settings, device: str) -> None:
        gae, self.cut = VARIANTS[variant]
        make = partial(
            ppo.Trainer, key["task"], settings, seed=key["seed"], device=device, gae=gae, cut_is_termination=self.cut
        )
        self.measure = laps(device)
        self.measure(partial(update, make()))  # what is compiled is compiled
        self.trainer = make()
        self.curve: list[list[float]] = []
        self.phases: list[list[float]] = []
        self.actions: list[str] = []
        self.shares: list[float] = []
        self.error = ""

    def judge(self, number: int) -> None:
        self.curve.append([number, *(round(x, 4) for x in self.trainer.judge())])

    def update(self, checked: bool) -> None:
        self.phases.append([round(x, 1) for x in self.measure(partial(update, self.trainer))])
        self.actions.append(fingerprint(self.trainer.actions))
        if checked and not self.cut:
            verdict = check_window(self.trainer)
            self.shares.append(verdict["share"])
            self.error = self.error or verdict["error"]

    def row(self) -> Row:
        error = {"error": self.error} if self.error else {"share_of_bound": max(self.shares, default=0.0)}
        weights = torch.cat([x.detach().flatten() for x in self.trainer.network.parameters()])
        return {
            "settings": json.loads(json.dumps(self.trainer.settings._asdict())),
            "gate": {"passed": not self.error, **error},
            "curve": self.curve,
            "actions": self.actions,
            "weights": fingerprint(weights),
            "rollout_credit_epochs_us": self.phases,
        }


def learn(key: Row, settings: ppo.Settings, device: str, judgements: int) -> list[Row]:
    """All variants of one seed, taking turns update by update, so that what is compared is timed side by side."""
    runs = {variant: Run(key, variant, settings, device) for variant in VARIANTS}
    every = max(1, settings.updates // judgements)
    for number in range(settings.updates + 1):
        for run in runs.values():
            if number % every == 0:
                run.judge(number)
            if number < settings.updates:
                run.update(checked=number % every == 0)
    return [{**key, "variant": variant, **run.row()} for variant, run in runs.items()]


def update(trainer: ppo.Trainer, mark: Callable[[], Any]) -> None:
    trainer.rollout()
    mark()
    trainer.assign()
    mark()
    trainer.optimise()


def check_window(trainer: ppo.Trainer) -> Row:
    """rlscan and the loop on the window that the run has just used, beside the reference; and the run's own results."""
    weights = {"gamma": trainer.settings.gamma, "lambda_": trainer.settings.lambda_}
    names = ("rewards", "values", "terminated", "truncated", "truncation_values")
    inputs = {name: getattr(trainer, name).t() for name in names}
    inputs |= {"last_values": trainer.last_values, **weights}
    expected = expect("gae", inputs)
    own = (trainer.advantages.t(), trainer.returns.t())
    results = [own, rlscan.gae(**inputs), BASELINES["loop"]("gae")(**inputs)]
    verdicts = [check(tuple(result), expected) for result in results]
    errors = [verdict.error for verdict in verdicts if not verdict.passed]
    return {"share": round(max(v.share_of_bound for v in verdicts), 4), "error": errors[0] if errors else ""}


def fingerprint(x: Tensor) -> str:
    """The same for the same bits."""
    return hashlib.sha256(x.detach().cpu().numpy().tobytes()).hexdigest()[:16]
