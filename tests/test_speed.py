"""The regression guard: each estimator against a baseline taken in the same run; floors in speed_floors.json.

`make guard` runs it alone, since neighbours disturb it; pytest-benchmark switches itself off beside pytest-xdist, and
then these tests are skipped. `RLSCAN_WRITE_FLOORS=1` measures anew and writes the floors of this kind of machine.
"""

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

import rlscan
from paper.baselines import BASELINES, ESTIMATORS
from paper.bench import bytes_moved, rollout
from paper.timing import device_samples, rotation, stream_samples, timer
from rlscan import language
from rlscan.verify.environment import commit

pytest_benchmark = pytest.importorskip("pytest_benchmark", reason="NOT RUN: pytest-benchmark is not installed")

FLOORS = Path(__file__).with_name("speed_floors.json")
SHARE = 0.6  # a floor is this share of what was measured: timings of shared machines move
ON_GPU = torch.cuda.is_available() and not language.INTERPRETED
WITHOUT_GPU = "NOT RUN: a claim about compiled kernels on a GPU; there is none here"
gpu = pytest.mark.skipif(not ON_GPU, reason=WITHOUT_GPU)
every_estimator = pytest.mark.parametrize("estimator", list(ESTIMATORS))


@pytest.fixture(scope="module")
def floors() -> Iterator[dict[str, Any]]:
    """The committed floors by machine, then by name; written back where asked for."""
    found: dict[str, Any] = json.loads(FLOORS.read_text()) if FLOORS.exists() else {}
    yield found
    if os.environ.get("RLSCAN_WRITE_FLOORS") == "1":
        FLOORS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def hold(benchmark: Any, floors: dict[str, Any], name: str, ratio: float) -> None:
    """The ratio is at least the floor committed for this kind of machine."""
    kind = torch.cuda.get_device_name() if ON_GPU else "cpu"
    benchmark.extra_info["ratio"] = round(ratio, 3)
    if os.environ.get("RLSCAN_WRITE_FLOORS") == "1":
        where = {"machine": kind if ON_GPU else platform.machine(), "commit": commit()[0], "torch": torch.__version__}
        floors.setdefault(kind, {})[name] = {"floor": round(SHARE * ratio, 3), "measured": round(ratio, 3), **where}
    if kind not in floors:
        pytest.skip(f"NOT RUN: speed_floors.json has no floors for {kind}")
    assert ratio >= floors[kind][name]["floor"], f"{name}: {ratio:.2f}, below its floor"


def alone(benchmark: Any) -> None:
    if benchmark.disabled:
        pytest.skip("NOT RUN: timings need a machine to themselves; `make guard`")


def side_by_side(benchmark: Any, call: Callable[[], Any], other: Callable[[], Any], device: str) -> float:
    """How many times faster `call` is than `other`: best medians of trials in turn; `benchmark` records `call`."""
    measure = timer(device)
    for each in (call, other):
        for _ in range(3):
            each()
    best = {call: float("inf"), other: float("inf")}
    for _ in range(7):
        for each, count in ((call, 15), (other, 5)):
            best[each] = min(best[each], statistics.median(measure(each) for _ in range(count)))
    benchmark.pedantic(call, rounds=10, iterations=1)
    return best[other] / best[call]


@every_estimator
def test_portable_path_beats_the_loop(benchmark: Any, floors: dict[str, Any], estimator: str) -> None:
    alone(benchmark)
    if ON_GPU:
        pytest.skip("NOT RUN: the portable path's floors are a CPU's")
    inputs = rollout(estimator, False, 64, 512)
    with torch.no_grad(), rlscan.engine.forced("portable"):
        ratio = side_by_side(
            benchmark,
            partial(getattr(rlscan, estimator), **inputs),
            partial(BASELINES["loop"](estimator), **inputs),
            "cpu",
        )
    hold(benchmark, floors, f"{estimator}, portable path against the loop, 64x512", ratio)


@gpu
@every_estimator
def test_full_call_beats_the_compiled_scan(benchmark: Any, floors: dict[str, Any], estimator: str) -> None:
    alone(benchmark)
    inputs = rollout(estimator, False, 4096, 128, device="cuda")
    with torch.no_grad():
        ratio = side_by_side(
            benchmark,
            partial(getattr(rlscan, estimator), **inputs),
            partial(BASELINES["doubling"](estimator), **inputs),
            "cuda",
        )
    hold(benchmark, floors, f"{estimator}, full call against the compiled doubling scan, 4096x128", ratio)


@gpu
@pytest.mark.parametrize("shape", [(16384, 512), (16, 2**18)], ids=lambda shape: f"{shape[0]}x{shape[1]}")
@every_estimator
def test_device_time_near_the_stream(
    benchmark: Any, floors: dict[str, Any], estimator: str, shape: tuple[int, int]
) -> None:
    alone(benchmark)
    inputs = rollout(estimator, False, *shape, device="cuda")
    moved = bytes_moved(estimator, inputs)
    copies = [inputs, *(rollout(estimator, False, *shape, seed=k, device="cuda") for k in range(1, rotation(moved, 4)))]
    with torch.no_grad():
        calls = [partial(getattr(rlscan, estimator), **x) for x in copies]
        ratio = min(stream_samples(moved, len(copies))) / min(device_samples(calls))
        benchmark.pedantic(calls[0], rounds=10, iterations=1)
    hold(benchmark, floors, f"{estimator}, share of stream bandwidth, {shape[0]}x{shape[1]}", ratio)
