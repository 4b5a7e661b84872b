"""The cells that are measured on a GPU: those of tables.toml, and those of the speed targets alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from paper.baselines import TRUNCATES
from paper.bench import original, rollout, tables
from paper.verdicts import HEADLINE, LARGE, PATIENCE, RUNS
from rlscan.verify.strategies import ESTIMATORS

SEVEN = tuple(name for name in ESTIMATORS if name != "linear_scan")
GATED_STEPS = 2**17  # longer windows are checked against the portable path in float64: the reference would take minutes
KEY = ("section", "estimator", "truncated", "actions", "layout", "dtype")


class Job(NamedTuple):
    """One cell: the inputs of one kind of call, and what is timed on them."""

    section: str
    estimator: str
    shape: tuple[int, int]
    implementations: tuple[str, ...] = ("rlscan",)
    metrics: tuple[str, ...] = ("device",)
    truncated: bool = False
    actions: int = 4
    layout: str = "NT"
    dtype: str = "float32"
    repeats: int = 1
    patience: int = 0  # trials that are measured again, at most, while the host is slower than its own pace
    stream: bool = False
    seed: int = 0

    def inputs(self, turn: int = 0) -> dict[str, Any]:
        """The arguments of the call; of other turns, others of the same shapes."""
        return rollout(
            self.estimator, self.truncated, *self.shape, seed=self.seed + turn, device="cuda",
            dtype=getattr(torch, self.dtype), actions=self.actions, layout=self.layout,
        )  # fmt: skip

    def without(self, names: Iterable[str]) -> Job:
        """The cell, but for these implementations."""
        return self._replace(implementations=tuple(name for name in self.implementations if name not in names))

    @property
    def key(self) -> dict[str, Any]:
        """What its rows say of it."""
        key = {name: getattr(self, name) for name in KEY}
        return {**key, "num_envs": self.shape[0], "seq_len": self.shape[1]}


def shapes_of(block: dict[str, Any]) -> list[tuple[int, int]]:
    """A block's shapes, which may be those of the paper's own table, each once."""
    shapes = block["shapes"]
    if shapes == "original":
        figures = original()[block["original"]]
        rows = figures if isinstance(figures, list) else figures["rows"]
        shapes = [(row["num_envs"], row["seq_len"]) for row in rows]
    return list(dict.fromkeys((num_envs, seq_len) for num_envs, seq_len in shapes))


def of_table(name: str, seed: int = 0) -> Iterator[Job]:
    """The cells of a block of tables.toml that has a section."""
    block = tables()[name]
    section = block["section"]
    for shape in shapes_of(block):
        for actions in block.get("actions", [4]):
            for estimator in block["estimators"]:
                both = estimator in TRUNCATES and block.get("truncated", False)
                headline = section == "grid" and shape == HEADLINE
                for truncated in (False, True) if both else (False,):
                    yield Job(
                        section,
                        estimator,
                        shape,
                        tuple(block["implementations"]),
                        tuple(block["metrics"]),
                        truncated,
                        actions,
                        repeats=RUNS if headline else 1,
                        patience=PATIENCE.get("headline" if headline else section, 0),
                        stream=math.prod(shape) >= {"large": LARGE, "all": 0}.get(block.get("stream"), math.inf),
                        seed=seed,
                    )


def of_targets() -> Iterator[Job]:
    """The cells that no table of the paper has."""
    shapes = shapes_of(tables()["table4"])
    for shape in shapes:
        for name in SEVEN:
            yield Job("guard", name, shape, ("rlscan", "unguarded"))
    for shape in (shape for shape in shapes if math.prod(shape) >= LARGE):
        yield Job("bandwidth", "retrace", shape, actions=18, stream=True)
        for name in SEVEN:
            for dtype in ("float32", "bfloat16"):
                yield Job("half", name, shape, dtype=dtype, stream=True)
    for name in SEVEN:
        for shape in ((1, 2**24), (16, 2**20), (1, 131072)):
            yield Job("long", name, shape, stream=True)
        for shape in ((4096, 24), (4096, 128), (16384, 512), (65536, 64)):
            for layout in ("NT", "TN"):
                yield Job("time_major", name, shape, layout=layout)
    yield Job("host", "gae", HEADLINE, ("rlscan", "ordinary"), ("host",))


def judged_tables() -> list[str]:
    """The tables whose cells the speed targets judge as well."""
    return [name for name, block in tables().items() if block.get("judged", False)]


def jobs() -> Iterator[Job]:
    """Every cell of every target."""
    for name in judged_tables():
        yield from of_table(name)
    yield from of_targets()


def cost(job: Job) -> float:
    """Roughly the seconds that a job takes to prepare, to spread them evenly."""
    compiled = sum(name in ("doubling", "associative") for name in job.implementations)
    return (
        2.0
        + 0.7 * compiled * math.log2(job.shape[1])
        + math.prod(job.shape) / 4e6
        + min(job.shape[1], GATED_STEPS) / 2e4
    )
