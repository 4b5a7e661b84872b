"""How tight the a-priori bound is: `python -m paper.tightness`.

Measures the largest error over the bound of rlscan/verify/tolerance.py, per estimator, dtype and length of the window
up to 2^20 steps, against the float64 reference. Writes paper/results/<folder>/tightness.json and renders from it, with
`--render` alone, paper/rendered/tightness_<folder>.md, .svg and .png. A share above 1 would disprove the bound.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rlscan
from paper.bench import PAPER, results_folder
from paper.keeping import write
from paper.plots import COLOURS, MARKERS, save
from paper.text import markdown
from rlscan.engine.plan import remembered
from rlscan.verify.compare import call, expect
from rlscan.verify.environment import environment
from rlscan.verify.strategies import ESTIMATORS, Example, Setup, fill
from rlscan.verify.tolerance import assert_within, bounds, depth

LONG = tuple(2**k for k in range(2, 21, 2))
SHORT = tuple(2**k for k in range(2, 13, 2))  # in 16 bits, where the storage decides
STEPS = {"float32": LONG, "bfloat16": SHORT, "float16": SHORT}
ROWS = 4  # two with terms of either sign, two with terms of one sign
WEIGHTS = {"gamma": 0.99, "lambda_": 0.95}

Row = dict[str, Any]


def example(estimator: str, dtype: str, steps: int, seed: int) -> Example:
    """A window that no episode ends in, so that every sum is as long as it can be."""
    rng = np.random.default_rng([seed, ESTIMATORS.index(estimator), steps])
    setup = Setup(estimator, dtype=dtype, options=(("reverse", True),) if estimator == "linear_scan" else ())
    found = fill(setup, np.zeros((ROWS, steps), np.int8), rng, exact=False)
    kept = getattr(torch, dtype)

    def stored(x: Any) -> Any:
        return torch.as_tensor(x, dtype=torch.float64).to(kept).double().numpy()

    for name, value in found.arguments.items():
        if name == "log_ratios":
            found.arguments[name] = stored(rng.uniform(-0.5, 0.5, value.shape))
        elif name == "beta":
            found.arguments[name] = stored(rng.uniform(0.98, 1, value.shape))
        elif name in WEIGHTS:
            found.arguments[name] = float(np.float32(WEIGHTS[name]))
        elif isinstance(value, np.ndarray) and value.dtype != bool:
            sign = np.where(np.arange(ROWS) < ROWS // 2, rng.choice([-1.0, 1.0], value.shape).T, 1.0).T
            found.arguments[name] = stored(rng.uniform(0, 10, value.shape) * sign)
    return found


def measure(job: tuple[str, str, int, str, int]) -> Row:
    """The largest share of the bound over all entries of all results."""
    estimator, dtype, steps, device, seed = job
    torch.set_num_threads(1)
    start = time.perf_counter()
    found = example(estimator, dtype, steps, seed)
    results: list[tuple[torch.Tensor, ...]] = []
    (plan,) = remembered(lambda: results.append(call(found, device, None, rlscan)))
    expected = expect(found)
    limits = bounds(found, expected, truncates=plan.path == "interpreter", plan=plan)
    shares = [
        assert_within(got, want, limit, estimator)
        for got, want, limit in zip(results[0], expected, limits, strict=True)
    ]
    return {
        "estimator": estimator,
        "dtype": dtype,
        "steps": steps,
        "rows": ROWS,
        "path": plan.path,
        "additions": depth(steps, plan),
        "share": max(shares),
        "seconds": round(time.perf_counter() - start, 2),
    }


def run(device: str, longest: int, seed: int, processes: int) -> dict[str, Any]:
    """Every row, the slowest first, in processes of their own."""
    jobs = [
        (estimator, dtype, steps, device, seed)
        for dtype, lengths in STEPS.items()
        for steps in lengths
        for estimator in ESTIMATORS
        if steps <= longest
    ]
    jobs.sort(key=lambda job: -job[2])
    start = time.perf_counter()
    rows = []
    context = multiprocessing.get_context("spawn")  # a fork could not use the GPU
    with concurrent.futures.ProcessPoolExecutor(processes, context) as pool:
        for row in pool.map(measure, jobs):
            rows.append(row)
            print(f"{row['estimator']:<20} {row['dtype']:<9} T = {row['steps']:<8} {row['share']:.3f}", flush=True)
    rows.sort(key=lambda row: (row["dtype"], ESTIMATORS.index(row["estimator"]), row["steps"]))
    seconds = round(time.perf_counter() - start, 1)
    return {"schema": 1, **environment(device), "seed": seed, "seconds": seconds, "rows": rows}


# Rendering


def curves(result: dict[str, Any], dtype: str) -> dict[str, list[tuple[int, float]]]:
    return {
        name: [
            (row["steps"], row["share"]) for row in result["rows"] if (row["estimator"], row["dtype"]) == (name, dtype)
        ]
        for name in ESTIMATORS
    }


def table(result: dict[str, Any], folder: str) -> str:
    lines = [
        f"# How tight the a-priori bound is, {folder}",
        "",
        "The largest observed error over the bound, over all entries of a window without ends: 1 would be an error as "
        "large as the bound allows. γ = 0.99, λ = 0.95, rows with terms of either sign and of one sign.",
        "",
    ]
    for dtype in STEPS:
        found = curves(result, dtype)
        lengths = sorted({steps for points in found.values() for steps, _ in points})
        body = [
            [f"`{name}`", *(f"{dict(points)[steps]:.3f}" if steps in dict(points) else "–" for steps in lengths)]
            for name, points in found.items()
        ]
        lines += [f"**{dtype}**", "", markdown(["estimator", *(f"{steps:,}" for steps in lengths)], body), ""]
    paths = " and ".join(sorted({row["path"] for row in result["rows"]}))
    versions = ", ".join(f"{name} {result['versions'][name]}" for name in ("torch", "numpy", "python"))
    lines.append(
        f"Columns are T. Path: {paths}; {result['device']['name']}; {versions}; commit {result['commit'][:12]}, "
        f"seed {result['seed']}, {result['date']}."
    )
    return "\n".join(lines) + "\n"


def draw(figure: Any, result: dict[str, Any]) -> None:
    panels = figure.subplots(1, len(STEPS), sharey=True)
    for axes, dtype in zip(panels, STEPS, strict=True):
        for k, (name, points) in enumerate(curves(result, dtype).items()):
            if points:
                style = {
                    "color": (*COLOURS, "#000000")[k],
                    "marker": (*MARKERS, "*")[k],
                    "markersize": 4,
                    "linewidth": 1,
                }
                axes.plot(*zip(*points, strict=True), label=name, **style)
        axes.axhline(1.0, color="black", linewidth=1.5, linestyle="--")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_title(dtype)
        axes.set_xlabel("T, steps")
    panels[0].set_ylabel("largest error / bound (dashed: the bound)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def render(folder: str) -> None:
    result = json.loads((PAPER / "results" / folder / "tightness.json").read_text())
    rendered = PAPER / "rendered"
    (rendered / f"tightness_{folder}.md").write_text(table(result, folder))
    paths = [rendered / f"tightness_{folder}.{suffix}" for suffix in ("svg", "png")]
    title = f"Largest observed error over the a-priori bound, {folder}"
    save(paths, f"tightness {result['date']}", title, lambda figure: draw(figure, result), (11, 4.6))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.tightness", description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--longest", type=int, default=LONG[-1], help="the longest window, in steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where to write the rows instead; nothing is rendered")
    parser.add_argument("--render", action="store_true", help="render the rows that are there, and measure nothing")
    options = parser.parse_args(argv)
    folder = results_folder(options.device)
    if not options.render:
        result = run(options.device, options.longest, options.seed, min(8, os.cpu_count() or 1))
        write(result, options.out or PAPER / "results" / folder / "tightness.json")
        print(f"at most {max(row['share'] for row in result['rows']):.3f} of the bound, {result['seconds']} s")
    if options.out is None:
        render(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
