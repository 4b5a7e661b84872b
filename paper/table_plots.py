"""The plots of the tables, SVG and PNG: Figure 1, Figures 2 and 3, Retrace over long windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from paper import plots
from paper.bench import original, tables
from paper.plots import COLOURS, Points, in_plain_numbers
from paper.text import PEER_GPU
from paper.verdicts import Cells

NAMES = {"doubling": "doubling scan", "associative": "torch's associative scan"}  # of implementations
GREY = "#888888"
# the lines of Figures 2 and 3: ours, then the paper's own
OURS = {**plots.LINES, "pufferlib": ("PufferLib itself", COLOURS[3], "D", "-.")}
PAPERS = {
    "rl_triton": (f"paper: rl-triton, its {PEER_GPU}", GREY, "x", "-"),
    "pufferlib": ("paper: PufferLib", GREY, "+", "--"),
}
UNITS = {"full": ("full_call_ms", 1e3, "full call, µs"), "device": ("device_us", 1.0, "device, µs")}


class Plot(NamedTuple):
    table: str
    stem: str
    title: str
    points: Callable[[Cells], Points]
    draw: Callable[[Any, Points], None]
    size: tuple[float, float]

    def file(self, folder: str) -> str:
        return f"{self.stem}_{folder}"


# Figure 1


def figure1_points(cells: Cells) -> Points:
    """By implementation, for each estimator in turn: device and full call, µs."""
    block = tables()["figure1"]
    return {
        name: [
            [at.us(name, metric="device"), at.us(name, metric="full")]
            for at in (cells.where(estimator=estimator) for estimator in block["estimators"])
        ]
        for name in block["implementations"]
    }


def figure1(figure: Any, points: Points) -> None:
    axes = figure.subplots()
    estimators = tables()["figure1"]["estimators"]
    width = 0.8 / len(points)
    for k, (name, colour) in enumerate(zip(points, COLOURS[: len(points)], strict=True)):
        at = [x + (k - (len(points) - 1) / 2) * width for x in range(len(estimators))]
        device, full = ([pair[j] for pair in points[name]] for j in (0, 1))
        words = NAMES.get(name, name)
        axes.bar(at, device, 0.9 * width, color=colour, label=f"{words}: device")
        launch = [b - a for a, b in zip(device, full, strict=True)]
        axes.bar(at, launch, 0.9 * width, bottom=device, color=colour, alpha=0.35, label=f"{words}: launch")
    axes.set_xticks(range(len(estimators)), labels=[name.replace("_", "\n") for name in estimators])
    axes.set(ylabel="full call, µs")
    axes.grid(axis="x", visible=False)
    figure.legend(loc="outside lower center", ncols=len(points))


# Figures 2 and 3


def paper_rows(regime: str) -> list[dict[str, Any]]:
    return [row for row in original()["figures_2_3_pufferlib"]["rows"] if row["regime"] == regime]


def regime_points(regime: str) -> Callable[[Cells], Points]:
    """T and µs by "metric N implementation", and the paper's own by "metric N paper implementation"."""

    def points(cells: Cells) -> Points:
        found: Points = {}
        for metric, (field, unit, _) in UNITS.items():
            for row in paper_rows(regime):
                at = cells.where(num_envs=row["num_envs"], seq_len=row["seq_len"], metric=metric)
                for name in OURS:
                    us = at.us(name)
                    own = found.setdefault(f"{metric} {row['num_envs']} {name}", [])
                    own += [] if math.isnan(us) else [[row["seq_len"], us]]
                for name in PAPERS:
                    theirs = found.setdefault(f"{metric} {row['num_envs']} paper {name}", [])
                    theirs.append([row["seq_len"], unit * row[field][name]])
        return found

    return points


def regime_lines(regime: str) -> Callable[[Any, Points], None]:
    def draw(figure: Any, points: Points) -> None:
        sizes = list(dict.fromkeys(row["num_envs"] for row in paper_rows(regime)))
        panels = figure.subplots(2, len(sizes), sharex=True, sharey="row")
        for upper, (metric, (_, _, words)) in zip(panels, UNITS.items(), strict=True):
            for n, axes in zip(sizes, upper, strict=True):
                lines = [(f"{metric} {n} paper {name}", look) for name, look in PAPERS.items()]
                lines += [(f"{metric} {n} {name}", look) for name, look in OURS.items()]
                for name, (label, colour, marker, line) in lines:
                    if points[name]:
                        x, y = zip(*points[name], strict=True)
                        axes.plot(x, y, color=colour, marker=marker, linestyle=line, label=label, markersize=5)
                axes.set(xscale="log", yscale="log")
                ticks = sorted({x for name, _ in lines for x, _ in points[name]})
                axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks], minor=False)
                axes.set_xticks([], minor=True)
                in_plain_numbers(axes.yaxis)
            upper[0].set_ylabel(words)
        for n, axes in zip(sizes, panels[0], strict=True):
            axes.set_title(f"N = {n} rows")
        for axes in panels[-1]:
            axes.set_xlabel("T, steps")
        handles, labels = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(handles))

    return draw


# Retrace over long windows


def retrace_points(cells: Cells) -> Points:
    """T and the ratio of a full call, by "actions N"; and the paper's own."""
    found: Points = {}
    for (actions, n, t), at in cells.groups("actions", "num_envs", "seq_len"):
        ratio = at.us("doubling", metric="full") / at.us("rlscan", metric="full")
        own = found.setdefault(f"{actions} actions, N = {n}", [])
        own += [] if math.isnan(ratio) else [[t, ratio]]
    figures = [(row["seq_len"], row["fused_vs_compiled_scan"]) for row in original()["retrace_long"]]
    theirs = [[t, ratio] for t, ratios in figures for ratio in (ratios if isinstance(ratios, list) else [ratios])]
    return {**{name: sorted(points) for name, points in sorted(found.items())}, "paper": theirs}


def retrace_lines(figure: Any, points: Points) -> None:
    axes = figure.subplots()
    ours = [name for name in points if name != "paper" and points[name]]
    for name, colour, marker in zip(ours, COLOURS[: len(ours)], plots.MARKERS[: len(ours)], strict=True):
        x, y = zip(*points[name], strict=True)
        axes.plot(x, y, color=colour, marker=marker, label=name)
    x, y = zip(*points["paper"], strict=True)
    axes.scatter(
        x,
        y,
        color=GREY,
        marker="x",
        zorder=3,
        label=f"the paper's, {original()['retrace_num_actions']} actions, its {PEER_GPU}",
    )
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="T, steps", ylabel="doubling scan's time over rlscan's, full call")
    ticks = sorted({x for name in points for x, _ in points[name]})
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks], minor=False)
    axes.set_xticks([], minor=True)
    in_plain_numbers(axes.yaxis)
    axes.legend()


PLOTS = (
    Plot("figure1", "launch", "Figure 1: a full call, by what it is spent on", figure1_points, figure1, (9, 4.5)),
    Plot("pufferlib", "pufferlib_long", "Figures 2 and 3: GAE, few rows and long windows", regime_points("classic"),
         regime_lines("classic"), (12, 6.5)),
    Plot("pufferlib", "pufferlib_short", "Figures 2 and 3: GAE, many rows and short windows",
         regime_points("massively_parallel"), regime_lines("massively_parallel"), (12, 6.5)),
    Plot("retrace_long", "retrace_long", "Retrace over long windows, against the compiled doubling scan",
         retrace_points, retrace_lines, (8, 4.5)),
)  # fmt: skip


def render(table: str, folder: str, device: str, cells: Cells, root: Path, write: bool) -> list[Path]:
    """The files of a table that do not show the measured points; with `write`, drawn anew."""
    stale = []
    for plot in PLOTS:
        if plot.table == table:
            points = plot.points(cells)
            stale += plots.refresh(
                plot.file(folder), f"{plot.title}, {device}", points, plot.draw, plot.size, root / plots.RENDERED, write
            )
    return stale
