"""The plots of the speed targets: SVG and PNG in paper/rendered/.

Their bytes depend on the version of matplotlib, so a plot says in its metadata which points it shows: it is stale when
those are not the measured ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paper.baselines import ESTIMATORS
from paper.verdicts import Cells

TITLES = {
    "roofline": "Bandwidth that a call reaches on the device, against the bytes that it moves",
    "rows": "Full call of GAE against the length of the window, beside one CUDA thread a row",
}
PANELS = (128, 512, 2048, 8192)  # N
# Okabe and Ito's colours, told apart by the colour-blind too; each with a marker of its own
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = {
    "rlscan": ("rlscan", COLOURS[0], "o", "-"),
    "cuda_rows": ("CUDA, one thread a row", COLOURS[1], "s", "--"),
    "cuda_rows_prepared": ("the same, prepared", COLOURS[4], "^", ":"),
}
STYLE: Any = {"svg.hashsalt": "rlscan", "axes.grid": True, "axes.axisbelow": True, "grid.alpha": 0.3}

RENDERED = Path("paper", "rendered")
Points = dict[str, list[list[float]]]  # x and y by name


def file_name(folder: str, name: str) -> str:
    return f"performance_{folder}_{name}"


def roofline_points(cells: Cells) -> Points:
    """Bytes a call and TB/s, of float32 in [N, T]: each estimator, and the stream."""
    found = {}
    plain = cells.where(metric="device", dtype="float32", layout="NT")
    kinds = [(name, plain.where(implementation="rlscan", estimator=name)) for name in ESTIMATORS]
    for name, rows in [*kinds, ("stream", plain.where(implementation="stream"))]:
        best: dict[float, float] = {}
        for row in rows.rows:
            if row["us"] is not None:
                best[row["bytes"]] = max(best.get(row["bytes"], 0.0), row["bytes"] / row["us"] / 1e6)
        found[name] = [[x, y] for x, y in sorted(best.items())]
    return found


def rows_points(cells: Cells) -> Points:
    """T and µs, by "N implementation"."""
    found = {}
    full = cells.where(section="rows", metric="full")
    for n in PANELS:
        for name in LINES:
            best: dict[float, float] = {}
            for row in full.where(num_envs=n, implementation=name).rows:
                if row["us"] is not None:
                    best[row["seq_len"]] = min(best.get(row["seq_len"], row["us"]), row["us"])
            found[f"{n} {name}"] = [[x, y] for x, y in sorted(best.items())]
    return found


def in_plain_numbers(axis: Any) -> None:
    """0.5, 1, 2, 5, 10 and so on along a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def roofline(figure: Any, points: Points) -> None:
    axes = figure.subplots()
    for name, colour, marker in zip(ESTIMATORS, COLOURS, MARKERS, strict=True):
        if points[name]:
            x, y = zip(*points[name], strict=True)
            axes.scatter(x, y, s=30, color=colour, marker=marker, label=name, alpha=0.75, linewidths=0)
    if points["stream"]:
        x, y = zip(*points["stream"], strict=True)
        axes.plot(x, y, color="black", linewidth=1.2, label="stream: an add of as many bytes")
        axes.axhline(y[-1], color="black", linestyle="--", linewidth=1)
        axes.annotate(
            f"stream at the most bytes: {y[-1]:.2f} TB/s", (0.01, y[-1]), xycoords=("axes fraction", "data"),
            xytext=(0, 4), textcoords="offset points",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="bytes that one call has to move", ylabel="bandwidth, TB/s")
    in_plain_numbers(axes.yaxis)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right")


def rows(figure: Any, points: Points) -> None:
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for n, axes in zip(PANELS, panels.flat, strict=True):
        for name, (words, colour, marker, line) in LINES.items():
            if points[f"{n} {name}"]:
                x, y = zip(*points[f"{n} {name}"], strict=True)
                axes.plot(x, y, color=colour, marker=marker, linestyle=line, label=words)
        axes.set(title=f"N = {n} rows", xscale="log", yscale="log")
        ticks = sorted({x for name in points for x, _ in points[name]})
        axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        in_plain_numbers(axes.yaxis)
    for axes in panels[-1]:
        axes.set_xlabel("T, steps")
    for axes in panels[:, 0]:
        axes.set_ylabel("full call, µs")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=len(handles))


PLOTS: dict[str, tuple[Callable[[Cells], Points], Callable[[Any, Points], None], tuple[float, float]]] = {
    "roofline": (roofline_points, roofline, (9, 5.5)),
    "rows": (rows_points, rows, (9, 7)),
}


def render(folder: str, device: str, cells: Cells, root: Path, write: bool) -> list[Path]:
    """The files that do not show the measured points; with `write`, drawn anew."""
    stale = []
    for name, (points_of, draw, size) in PLOTS.items():
        title = f"{TITLES[name]}, {device}"
        stale += refresh(file_name(folder, name), title, points_of(cells), draw, size, root / RENDERED, write)
    return stale


def refresh(
    stem: str, title: str, points: dict[str, Any], draw: Callable[[Any, Any], None], size: tuple[float, float],
    folder: Path, write: bool,
) -> list[Path]:  # fmt: skip
    """The files of one plot that do not show these points; with `write`, drawn anew."""
    digest = f"points {hashlib.sha256(json.dumps([title, points]).encode()).hexdigest()}"
    paths = [folder / f"{stem}.{suffix}" for suffix in ("svg", "png")]
    stale = [path for path in paths if not path.exists() or digest.encode() not in path.read_bytes()]
    if stale and write:
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        save(paths, digest, title, lambda figure: draw(figure, points), size)
    return stale


def save(
    paths: list[Path], digest: str, title: str, draw: Callable[[Any], None], size: tuple[float, float]
) -> None:  # fmt: skip
    import matplotlib  # here, since whoever reads tables does not need it
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(size, layout="constrained", dpi=130)
        draw(figure)
        figure.suptitle(title)
        for path in paths:
            dated = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(path, metadata={"Description": digest, **dated})
