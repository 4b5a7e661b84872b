"""The tables of the page of speed targets, one function a section of what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from paper.baselines import ESTIMATORS, TRUNCATES
from paper.bench import original
from paper.text import PEER_GPU, markdown, number
from paper.verdicts import CELL, HEADLINE, LARGE, RUNS, Cells, label

RIVALS = {
    "grid": ("doubling", "associative", "loop"),
    "rows": ("cuda_rows", "cuda_rows_prepared"),
    "retrace_long": ("doubling",),
    "host": ("ordinary",),
}
PEERS = {"rows": ("pufferlib",)}  # compared with where they were there

Of = Callable[[Cells], float]


def said(x: float, slow_below: float = -math.inf) -> str:
    """A number, bold where it is a loss."""
    if math.isnan(x):
        return "not measured"
    return f"**{number(x)}**" if x < slow_below else number(x)


def by(shape: Iterable[int]) -> str:
    return " × ".join(map(str, shape))


def folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def grid_of(
    cells: Cells, of: Of, slow_below: float = -math.inf, paper: bool = False, names: Iterable[str] = ESTIMATORS
) -> str:
    """Shapes down, estimators across."""
    names = list(names)
    figures: dict[Any, dict[str, float]] = {}
    for row in original()["table4"] + original()["table6"]:
        figures.setdefault((row["num_envs"], row["seq_len"]), {}).update(row[PEER_GPU])
    body = []
    for shape, at in cells.groups("num_envs", "seq_len"):
        words = [by(shape)]
        for name in names:
            kinds = (False, True) if name in TRUNCATES and at.where(truncated=True).rows else (False,)
            cell = " / ".join(said(of(at.where(estimator=name, truncated=kind)), slow_below) for kind in kinds)
            peer = figures.get(shape, {}).get(name) if paper else None
            words.append(cell + (f" *{number(peer)}*" if peer else ""))
        body.append(words)
    return markdown(["N × T", *(f"`{name}`" for name in names)], body) if body else "Not measured."


def over(other: str, metric: str) -> Of:
    """How many times faster rlscan is."""
    return lambda cell: cell.us(other, metric=metric) / cell.us("rlscan", metric=metric)


def large(cells: Cells) -> Cells:
    return Cells(row for row in cells.rows if row["num_envs"] * row["seq_len"] >= LARGE)


def grid(cells: Cells) -> list[str]:
    parts = ["Full call against the compiled doubling scan, *the paper's own ratio behind ours*:"]
    parts += [grid_of(cells, over("doubling", "full"), 1, paper=True)]
    parts += ["Full call against torch's `associative_scan`, compiled:", grid_of(cells, over("associative", "full"), 1)]
    times = grid_of(cells, lambda cell: cell.us("rlscan", metric="full"))
    loops = grid_of(cells, over("loop", "full"), 1)
    parts += [folded("Full call of rlscan, µs", times), folded("Full call against the Python loop", loops)]
    return [*parts, folded(f"The ten runs at {by(HEADLINE)}, against the compiled doubling scan", ten_runs(cells))]


def ten_runs(cells: Cells) -> str:
    """A line for each call, a column for each run."""
    at = cells.where(num_envs=HEADLINE[0], seq_len=HEADLINE[1], metric="full")
    runs = range(RUNS)
    body = [
        [f"`{label(key)}`", *(said(over("doubling", "full")(call.where(repeat=run)), 1) for run in runs)]
        for key, call in at.groups("estimator", "truncated")
    ]
    return markdown(["call", *(f"run {run}" for run in runs)], body) if body else "Not measured."


def device(cells: Cells) -> list[str]:
    seven = cells.where(section="grid")
    parts = ["Device time of rlscan, µs:", grid_of(seven, lambda cell: cell.us("rlscan", metric="device"))]
    parts += ["Share of stream bandwidth, large shapes:", grid_of(large(seven), over("stream", "device"))]
    body = [
        [by(shape), str(actions), said(at.us("rlscan")), said(at.us("stream")), said(over("stream", "device")(at))]
        for (*shape, actions), at in cells.where(section="bandwidth").groups("num_envs", "seq_len", "actions")
    ]
    table = markdown(["N × T", "A", "rlscan µs", "stream µs", "share"], body) if body else "Not measured."
    parts += ["Retrace with more actions:", table]
    doubling, associative = (grid_of(seven, over(name, "device"), 1) for name in ("doubling", "associative"))
    parts += [folded("Device time against the compiled doubling scan", doubling)]
    return [*parts, folded("Device time against torch's `associative_scan`", associative)]


def rows(cells: Cells) -> list[str]:
    figures = original()["figures_2_3_pufferlib"]
    parts = [
        "GAE against one thread a row in CUDA C, called through PyTorch's launcher (plain) and with everything "
        "prepared beforehand. The ratio is to the faster of the two.",
        f"*In the paper, rl-triton is faster than PufferLib in a full call at {figures['wins_full_call']} of "
        f"{figures['shapes']} shapes.*",
    ]
    for metric, words, unit in (("full", "Full call", 1e3), ("device", "Device time", 1.0)):
        body: list[list[str]] = []
        won: dict[tuple[int, int], bool] = {}  # the paper has a shape twice, with two times
        pufferlib = any(row["us"] for row in cells.where(implementation="pufferlib", metric=metric).rows)
        for row in figures["rows"]:
            paper = row["full_call_ms" if metric == "full" else "device_us"]
            puffer, triton = (unit * paper[name] for name in ("pufferlib", "rl_triton"))
            at = cells.where(num_envs=row["num_envs"], seq_len=row["seq_len"], metric=metric)
            times = [at.us(name) for name in ("rlscan", *RIVALS["rows"])]
            ratio = math.nan if any(map(math.isnan, times)) else min(times[1:]) / times[0]
            won[row["num_envs"], row["seq_len"]] = ratio > 1
            ours = [by((row["num_envs"], row["seq_len"])), *map(said, times), said(ratio, 1)]
            if pufferlib:
                theirs = at.us("pufferlib")
                ours += [said(theirs), said(theirs / times[0], 1)]
            body.append([*ours, *(f"*{number(x)}*" for x in (triton, puffer, puffer / triton))])
        head = ["N × T", "rlscan µs", "CUDA plain µs", "CUDA prepared µs", "ratio"]
        head += ["PufferLib itself µs", "ratio"] * pufferlib
        parts.append(f"{words}: rlscan is faster than either at {sum(won.values())} of {len(won)} distinct shapes.")
        parts.append(markdown([*head, "*paper: rl-triton µs*", "*PufferLib µs*", "*ratio*"], body))
    return parts


def retrace_long(cells: Cells) -> list[str]:
    paper = {row["seq_len"]: row["fused_vs_compiled_scan"] for row in original()["retrace_long"]}
    body = []
    for (*shape, actions), at in cells.groups("num_envs", "seq_len", "actions"):
        figure = paper.get(shape[1]) if actions == original()["retrace_num_actions"] else None
        low_high = figure if isinstance(figure, list) else [figure] * (figure is not None)
        words = [by(shape), str(actions)]
        for metric in ("full", "device"):
            words += [said(at.us(name, metric=metric)) for name in ("rlscan", "doubling")]
            words.append(said(over("doubling", metric)(at), 1))
        peer = f"*{' to '.join(map(number, low_high))}*" if low_high else ""
        body.append([*words, peer, said(over("stream", "device")(at))])
    head = ["N × T", "A", "full call µs: rlscan", "doubling", "ratio", "device µs: rlscan", "doubling", "ratio"]
    return [markdown([*head, "*paper, full call*", "share of stream"], body)]


def long(cells: Cells) -> list[str]:
    microseconds = grid_of(cells, lambda cell: cell.us("rlscan"))
    share = grid_of(cells, over("stream", "device"))
    return ["Device time, µs:", microseconds, "Share of stream bandwidth:", share]


def time_major(cells: Cells) -> list[str]:
    ratios = grid_of(cells, lambda cell: cell.us("rlscan", layout="TN") / cell.us("rlscan", layout="NT"))
    return ["Device time of [T, N] over that of [N, T] (less is better):", ratios]


def half(cells: Cells) -> list[str]:
    ratios = grid_of(cells, lambda cell: cell.us("rlscan", dtype="bfloat16") / cell.us("rlscan", dtype="float32"))
    return ["Device time in bfloat16 over that in float32 (less is better):", ratios]


def guard(cells: Cells) -> list[str]:
    text = "⊕ selects where β = 0 instead of multiplying by zero. Device time over that of a copy that multiplies:"
    return [text, grid_of(cells, lambda cell: cell.us("rlscan") / cell.us("unguarded"))]


def host(cells: Cells) -> list[str]:
    body = [
        [label(key), *(said(at.us(name)) for name in ("rlscan", "ordinary")), said(at.us("rlscan") / at.us("ordinary"))]
        for key, at in cells.groups(*CELL)
    ]
    head = ["cell", "rlscan µs", "ordinary launch µs", "rlscan / ordinary"]
    return ["Host time of a call, all checks included, and of a launch of the same kernel:", markdown(head, body)]


SECTIONS: dict[str, tuple[str, Callable[[Cells], list[str]]]] = {
    "Full call": ("grid", grid),
    "Device time": ("", device),
    "One CUDA thread a row": ("rows", rows),
    "Retrace over long windows": ("retrace_long", retrace_long),
    "Few and very long rows": ("long", long),
    "Time-major": ("time_major", time_major),
    "bfloat16": ("half", half),
    "The guard of ⊕": ("guard", guard),
    "Host time": ("host", host),
}
