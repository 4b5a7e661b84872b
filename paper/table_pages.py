"""The pages of the tables that paper/targets.py and the profiler measure: `python -m paper.table_pages`.

Renders paper/rendered/<table>.md and its plots, beside the paper's figures, from paper/results/*/<table>.json; with the
other pages `python -m paper.render`. With `--check` nothing is written and what is stale fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from paper import speed_tables, table_plots
from paper.accesses import SECTOR
from paper.bench import PAPER, original, tables
from paper.speed_tables import folded, grid_of, over, said
from paper.text import PEER_GPU, kept, made, markdown, number, remarks, told, trials
from paper.verdicts import CELL, Cells, label

Result = dict[str, Any]
STEP = 4  # bytes of a float32


def load(root: Path) -> dict[str, list[tuple[str, Result]]]:
    """The folder and the result of each device, by table, for the tables that have a page here."""
    found: dict[str, list[tuple[str, Result]]] = {}
    for name in BODIES:
        for path in sorted(root.glob(f"paper/results/*/{name}.json")):
            result = json.loads(path.read_text())
            result["rows"].sort(
                key=lambda row: (row["num_envs"], row["seq_len"], row.get("actions"))
            )  # measured in another order
            found.setdefault(name, []).append((path.parent.name, result))
    return found


# Tables 4 and 6


def grid(name: str, result: Result) -> Iterator[str]:
    cells, names = Cells(result["rows"]), tables()[name]["estimators"]
    table = tables()[name]["title"].partition(":")[0]  # for the captions
    yield f"{table}, full call against the compiled doubling scan, *the paper's own ratio ({PEER_GPU}) behind ours*:"
    yield grid_of(cells, over("doubling", "full"), 1, paper=True, names=names)
    below, compared = below_the_paper(name, cells)
    yield f"Below the paper's ratio: {len(below)} of {compared} cells{': ' * bool(below)}{'; '.join(below)}."
    for rival, words in (("associative", "torch's `associative_scan`, compiled"), ("loop", "the Python loop")):
        yield f"{table}, full call against {words}:"
        yield grid_of(cells, over(rival, "full"), 1, names=names)
    yield f"{table}, full call of rlscan, µs:"
    yield grid_of(cells, lambda cell: cell.us("rlscan", metric="full"), names=names)
    yield folded(
        "Device time of rlscan, µs", grid_of(cells, lambda cell: cell.us("rlscan", metric="device"), names=names)
    )
    for rival in ("doubling", "associative"):
        yield folded(f"Device time against {rival}", grid_of(cells, over(rival, "device"), 1, names=names))


def below_the_paper(name: str, cells: Cells) -> tuple[list[str], int]:
    """Cells, plain as the paper's, whose ratio is below its own; and how many were compared."""
    found, compared = [], 0
    for figures in original()[tables()[name]["original"]]:
        for estimator, theirs in figures[PEER_GPU].items():
            shape = {k: figures[k] for k in ("num_envs", "seq_len")}
            ours = over("doubling", "full")(cells.where(**shape, estimator=estimator, truncated=False))
            compared += ours == ours
            if ours < theirs:
                found.append(f"{label((estimator, *shape.values()))} {number(ours)} &lt; {number(theirs)}")
    return found, compared


# Figures


def pufferlib(name: str, result: Result) -> Iterator[str]:
    yield from speed_tables.rows(Cells(result["rows"]))


def retrace_long(name: str, result: Result) -> Iterator[str]:
    yield from speed_tables.retrace_long(Cells(result["rows"]))


def figure1(name: str, result: Result) -> Iterator[str]:
    yield (
        "What a full call takes beyond its time on the device is the launch: checks, allocation, the launches "
        "themselves, and the events of the clock. The host is free again after its own time."
    )
    body = []
    for key, at in Cells(result["rows"]).groups(*CELL):
        for implementation in tables()[name]["implementations"]:
            full, device, host = (at.us(implementation, metric=metric) for metric in ("full", "device", "host"))
            share = "–" if full != full or device != device else f"{100 * device / full:.0f} %"
            times = map(said, (full, device, full - device, host))
            body.append([f"`{label(key)}`", implementation, *times, share])
    head = ["cell", "by", "full call µs", "device µs", "launch µs", "host µs", "device's share"]
    yield markdown(head, body)


# Memory accesses


def accesses(name: str, result: Result) -> Iterator[str]:
    paper = original()["hbm_accesses_gae"]
    yield (
        f"Bytes are sectors of {SECTOR} bytes that loads and stores ask for, over all kernels of the call. *Needed* is "
        "what the definition has to read and to write, each byte once. *Arrays* are moved bytes over those of one "
        f"float32 array of the window. *The paper gives {paper['fused']} accesses of GAE fused and "
        f"{paper['unfused']} unfused.* A spill is a register that goes through local memory."
    )
    body = []
    for row in result["rows"]:
        words = [f"`{row['estimator']}`", row["implementation"], *counted(row)]
        body.append(words)
    head = ["estimator", "by", "kernels", "load requests", "store requests", "MB loaded", "MB stored", "MB needed"]
    head += ["moved / needed", "arrays", "DRAM MB", "instructions", "registers", "spilled sectors"]
    yield markdown(head, body)
    yield (
        f"Counted with {result['profiler']}: " + ", ".join(f"`{metric}`" for metric in result["metrics"].values()) + "."
    )


def counted(row: dict[str, Any]) -> list[str]:
    """The counts of a call in words; one that the profiler did not give is not known."""
    kernels = row["kernels"]

    def total(*counts: str) -> float:
        found = [kernel.get(count) for kernel in kernels for count in counts]
        return float("nan") if not found or None in found else float(sum(found))  # type: ignore[arg-type]  # None is not

    loaded, stored = (SECTOR * total(f"{kind}_sectors") for kind in ("load", "store"))
    steps = row["num_envs"] * row["seq_len"]
    registers = [kernel.get("registers") or float("nan") for kernel in kernels]
    moved = [loaded / 1e6, stored / 1e6, row["bytes"] / 1e6]
    ratios = [(loaded + stored) / row["bytes"], (loaded + stored) / (STEP * steps)]
    dram = total("dram_read_bytes", "dram_written_bytes") / 1e6
    whole = (total("load_requests"), total("store_requests"))
    last = (
        total("instructions"),
        max(registers, default=float("nan")),
        total("spill_load_sectors", "spill_store_sectors"),
    )
    return [str(len(kernels)), *map(count, whole), *map(number, [*moved, *ratios, dram]), *map(count, last)]


def count(x: float) -> str:
    return "–" if x != x else f"{x:,.0f}"


BODIES: dict[str, Callable[[str, Result], Iterator[str]]] = {
    "table4": grid,
    "table6": grid,
    "figure1": figure1,
    "pufferlib": pufferlib,
    "retrace_long": retrace_long,
    "accesses": accesses,
}


# Pages


def device_name(result: Result) -> str:
    device = result["device"]
    return str(device["name"] if isinstance(device, dict) else device)


def provenance(result: Result) -> str:
    text = made({**result, "device": device_name(result)})
    lacking = remarks(result, tables()[result["table"]]["implementations"])
    if result["table"] == "accesses":
        return text + lacking
    protocol = result["protocol"]
    return (
        f"{text} Full call: {protocol['timer']}; {trials(protocol)}. Device: the least of several "
        "replays of a CUDA graph over inputs that rotate. A ratio is the other's time over rlscan's; **bold** is a "
        f"loss. Cells are plain / with truncations. In italics: the paper's own ({original()['source']}).{lacking}"
    )


def page(name: str, results: list[tuple[str, Result]]) -> str:
    parts = [f"# {tables()[name]['title']}", tables()[name]["label"]]
    for folder, result in results:
        parts += [f"## {device_name(result)}", provenance(result)]
        parts += [f"![{plot.title}]({plot.file(folder)}.svg)" for plot in table_plots.PLOTS if plot.table == name]
        parts += BODIES[name](name, result)
        parts.append(refused(result))
    return "\n\n".join(filter(None, parts)) + "\n"


def refused(result: Result) -> str:
    lines = []
    for row in result["rows"]:
        error = row.get("error") or row.get("gate", {}).get("error")
        if error:
            cell = label(tuple(row.get(field) for field in CELL))
            lines.append(f"- {row['implementation']}, {cell}: `{error.replace('`', '')}`")
    return "\n".join(["Refused or not measured:", "", *dict.fromkeys(lines)]) if lines else ""


def main(argv: list[str] | None = None, root: Path = PAPER.parent) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.table_pages", description="Render the tables of cells.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page or a plot is stale")
    args = parser.parse_args(argv)
    stale = []
    for name, results in load(root).items():
        path = root / "paper" / "rendered" / f"{name}.md"
        stale += kept(path, page(name, results), write=not args.check)
        for folder, result in results:
            cells = Cells(result["rows"])
            stale += table_plots.render(name, folder, device_name(result), cells, root, write=not args.check)
    return told(stale, root, check=args.check)


if __name__ == "__main__":
    sys.exit(main())
