"""What `rlscan reproduce` does once the verification has passed: measure what this machine can, render all there is.

What was measured by the same code on the same machine is kept, so that a run that was stopped goes on.
"""

import json
from pathlib import Path

from paper import render, tables
from paper.bench import PAPER, results_folder


def chosen(table: str | None, device: str) -> list[str]:
    """The tables to measure; ValueError, with what there is, where the one that is asked for can't be."""
    if table is None:
        return [name for name in tables.names() if tables.fits(name, device)]
    name = tables.by_name(table)
    if name is None:
        raise ValueError(f"no table {table!r} in paper/tables.toml; there are {', '.join(tables.names())}")
    if not tables.fits(name, device):
        here = ", ".join(name for name in tables.names() if tables.fits(name, device))
        raise ValueError(f"{name} can't be measured on {device}; what can: {here}")
    return [name]


def main(*, device: str, table: str | None, seed: int, again: bool = False) -> int:
    """Measures the tables for this device, then renders every result that there is; the exit code of the worst."""
    wanted = chosen(table, device)
    folder = PAPER / "results" / results_folder(device.partition(":")[0])
    code = 0
    for number, name in enumerate(wanted, 1):
        print(f"[{number}/{len(wanted)}] {name}: {tables.Request(name, device, seed).block['title']}", flush=True)
        try:
            code = max(code, tables.measure(tables.Request(name, device, seed), folder / f"{name}.json", again))
        except KeyboardInterrupt:
            print(f"{name}: stopped. What was measured is kept; the same command goes on from there.")
            raise
    if table is None:
        others = [name for name in tables.names() if not tables.fits(name, device)]
        print(f"NOT RUN on {device}: {', '.join(others)}" if others else "every table was for this device")
    for line in elsewhere(PAPER / "results", folder):
        print(line)
    return max(code, render.main([]))


def elsewhere(results: Path, mine: Path) -> list[str]:
    """What is rendered of other machines, and where it comes from."""
    found = []
    for name in tables.names():
        for path in sorted(results.glob(f"*/{name}.json")):
            if path.parent != mine:
                result = json.loads(path.read_text())
                device = result["device"]
                where = device["name"] if isinstance(device, dict) else device
                found.append(f"rendered as committed: {path.parent.name}/{path.name}, measured on {where}, "
                             f"commit {result['commit'][:12]}, {result['date'][:10]}")  # fmt: skip
    return found
