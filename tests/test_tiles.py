"""The rule for tiles, held against the sweeps it was read from: tiles.json and tiles_retrace.json."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

import rlscan
from paper.bench import rollout
from rlscan import language
from rlscan.engine import Tile, forced
from rlscan.engine.plan import remembered

RESULTS = Path(__file__).resolve().parents[1] / "paper" / "results" / "h200"
SHAPES = [
    shape
    for sweep in ("tiles.json", "tiles_retrace.json")
    for shape in json.loads((RESULTS / sweep).read_text())["shapes"]
]
NEAR = 1.1  # times the best that was measured
NEARLY_THE_SAME = 1.06
N, T = 5, 3  # sizes that stand for those of a shape
kernels = pytest.mark.skipif(
    not language.INTERPRETED, reason="NOT RUN: plans of launches without a GPU need TRITON_INTERPRET=1"
)


def inputs_of(case: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments, of memory that nobody touches."""
    small = rollout(
        *(case["estimator"], case["truncated"], N, T),
        dtype=getattr(torch, case["dtype"]), actions=case["actions"], layout=case["layout"],
    )  # fmt: skip
    sizes = {N: case["num_envs"], T: case["seq_len"]}

    def grown(x: torch.Tensor) -> torch.Tensor:
        kept = 2 if x.ndim > 1 else x.ndim  # actions stay
        return torch.empty([sizes[size] for size in x.shape[:kept]] + list(x.shape[kept:]), dtype=x.dtype)

    return {name: grown(x) if isinstance(x, torch.Tensor) else x for name, x in small.items()}


def chosen(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Tile:
    from rlscan.engine.launch import Launch

    monkeypatch.setattr(Launch, "__call__", lambda *_: None)
    inputs = inputs_of(case)
    with forced("interpreter"):
        (plan,) = remembered(lambda: getattr(rlscan, case["estimator"])(**inputs))
    tile: Tile = plan.launch.tile
    return tile


def name(case: dict[str, Any]) -> str:
    words = (case["estimator"], f"{case['num_envs']}x{case['seq_len']}", case["layout"], case["dtype"])
    return " ".join([*words, f"A{case['actions']}"] + ["truncated"] * case["truncated"])


@kernels
@pytest.mark.parametrize("case", SHAPES, ids=name)
def test_a_tile_is_among_the_best_that_were_measured(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of window, layout and dtype that was swept: no tile that was tried is much faster than the rule's."""
    measured: dict[tuple[int, ...], float] = {}
    for row in case["rows"]:
        *tile, unrolled = [*row["tile"], True][:7]  # a loop over actions was tried too, once, and is slower
        if unrolled and "us" in row:
            measured[tuple(tile)] = min(row["us"], measured.get(tuple(tile), row["us"]))
    tile = tuple(vars(chosen(case, monkeypatch)).values())
    rows, steps, warps, *rest = tile
    # more rows a program, with as many warps more, are nearly the same work
    alike = {
        other: us
        for other, us in measured.items()
        if (other[1], *other[3:]) == (steps, *rest) and other[0] * warps == rows * other[2]
    }
    assert alike, f"{tile} was not measured"
    fastest = min(alike.values())
    assert fastest <= NEAR * min(measured.values()), f"{fastest:.2f} against {min(measured.values()):.2f} µs"
    assert alike.get(tile, fastest) <= NEARLY_THE_SAME * fastest, f"{tile} against fewer or more rows: {alike}"
