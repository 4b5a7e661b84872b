"""The page of the speed targets: `python -m paper.performance`, or with the tables `python -m paper.render`.

Renders paper/performance.md, its plots into paper/rendered/, and into README.md how many targets are met, from the
targets.json and targets_rows.json that `python -m paper.targets` wrote. With `--check` nothing is written and what is
stale fails. No figure is typed here.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from paper import limits, plots, split
from paper.bench import PAPER, original
from paper.speed_tables import PEERS, RIVALS, SECTIONS, by, folded
from paper.text import LOOP, PEER_GPU, between, kept, markdown, number, told, trials
from paper.verdicts import CELL, HEADLINE, LARGE, ROWS, WHOLES, Cells, label

SHOWN = {"roofline": "Device time", "rows": "One CUDA thread a row"}  # the section of each plot
METRICS = {"full": "full call", "device": "device", "host": "host"}
MEANING = {
    "headline": "full call against the compiled doubling scan at {headline}, each run",
    "headline_agrees": "how many verdicts the runs of that give",
    "torch_associative_scan": "full call against torch's compiled `associative_scan` at {headline}",
    "grid_full": "full call against every baseline that is right, all shapes",
    "grid_device": "device time against every compiled baseline that is right, all shapes",
    "bandwidth": "share of stream bandwidth, shapes of at least {large} steps",
    "rows_full": "GAE, full call against one CUDA thread a row",
    "rows_device": "GAE, device time against one CUDA thread a row",
    "retrace_long": "Retrace over long windows, full call against the compiled doubling scan",
    "long": "share of stream bandwidth, few and very long rows",
    "long_131072": "device time of one row of that many steps",
    "time_major": "device time of [T, N] over that of [N, T]",
    "host": "host time of a call over that of Triton's ordinary launch of the same kernel",
    "half": "device time in bfloat16 over that in float32",
    "guard": "device time over that without the guard of ⊕",
}


class Run(NamedTuple):
    folder: str
    head: dict[str, Any]  # where, when and how
    targets: dict[str, Any]
    cells: Cells
    facts: limits.Facts


def load(root: Path) -> list[Run]:
    """One run a folder of paper/results that has both files."""
    runs = []
    for path in sorted(root.glob("paper/results/*/targets.json")):
        other = path.with_name("targets_rows.json")
        if other.exists():
            head, measured = json.loads(path.read_text()), split.load(other)
            if head["date"] != measured["date"]:
                raise SystemExit(f"{path} and {other.name} beside it are of different runs")
            head["tables"], head["apart"] = measured.get("tables", []), measured["apart"]
            # what has parts is there as its parts
            targets = {name: found for name, found in head.pop("targets").items() if "parts" not in found}
            cells, folder = Cells(measured["rows"]), path.parent.name
            runs.append(Run(folder, head, targets, cells, limits.load(root, folder, head, targets, cells)))
    return runs


def provenance(head: dict[str, Any]) -> str:
    commit = head["commit"][:12] + (" with uncommitted changes" if head["dirty"] else "")
    versions = ", ".join(f"{name} {head['versions'][name]}" for name in ("torch", "triton", "cuda", "python"))
    protocol = head["protocol"]
    paper = original()
    wider = ", over up to eight sets of inputs, and rlscan over four: where those are in cache a share can exceed 1"
    return "\n".join(
        (
            f"Measured on one **{head['device']['name']}** ({versions}), commit {commit}, seed {head['seed']}, "
            f"{head['date']}.",
            "",
            f"- **Full call**: {protocol['timer']}; {trials(protocol)}. Implementations take turns within a trial. "
            f"{LOOP} At {by(HEADLINE)} there are ten such runs, of which a table has the least of each "
            "implementation. Their trials, and those beside one CUDA thread a row, are measured again while the host "
            "is slower than its own pace, as often as `headline` and `rows_full` say.",
            "- A full call of a small shape is the host's time, and the host's pace changed between cells: compare the "
            "implementations of one cell, and not the µs of two.",
            "- **Device time**: a CUDA graph of many calls, replayed, over inputs that rotate so that large ones are "
            "not in cache; minimum over trials.",
            "- **Stream**: an add kernel that reads and writes as many bytes, by the same clock"
            f"{'' if 'most_sets' in protocol else wider}. A share of stream bandwidth is its time over rlscan's.",
            f"- An implementation is timed only if it is right. Gate: {protocol['correctness_gate']}. The last section "
            "lists what was refused.",
            "- A ratio is the other's time over rlscan's unless it says otherwise; "
            "**bold** is a loss. Cells are plain / with truncations.",
            f"- In italics: the paper's own figures ({paper['source']}), on its {paper['hardware'][PEER_GPU]}, "
            f"{paper['software']}: another machine, so compare ratios and not times.",
        )
    )


def how_many(found: dict[str, Any]) -> str:
    return f"{len(found['missed'])} of {found['cells']} cells" if found["cells"] else "nothing measured"


def targets_table(run: Run) -> str:
    body, missed, notes = [], [], []
    words = {"headline": by(HEADLINE), "large": f"{LARGE:,}"}
    for name, found in run.targets.items():
        misses = found["missed"]
        word = "met" if found["met"] else f"**MISSED**, {how_many(found)}"
        value = "not measured" if found["value"] is None else f"{found['value']:g}"
        meaning = MEANING.get(name, "").format(**words)
        limit = found["target"].replace("<", "&lt;").replace(">", "&gt;")
        body.append([f"`{name}`: {meaning}", value, found["worst"] or "", limit, word])
        if not found["met"]:
            missed.append(f"- `{name}`: {', '.join(misses) or 'nothing measured'}")
        notes += [f"`{name}`: {found['note']}."] if "note" in found else []
    met = sum(found["met"] for found in run.targets.values())
    whole: dict[str, bool] = {}
    for name, found in run.targets.items():
        of = next(other for other in (*WHOLES, *run.targets) if name.startswith(other))
        whole[of] = whole.get(of, True) and found["met"]
    together = f"where the parts of a name count together, {sum(whole.values())} of {len(whole)}"
    parts = [
        f"{met} of {len(run.targets)} met; {together}.",
        markdown(["target", "value", "worst cell", "limit", "verdict"], body),
    ]
    return "\n\n".join([*parts, *notes, folded("Every cell that misses", "\n".join(missed) or "None.")])


def comparisons(cells: Cells) -> Iterator[tuple[list[str], float]]:
    """Every time of rlscan beside one of another implementation: the words of a row, and the ratio."""
    for section, rivals in RIVALS.items():
        rivals = (*rivals, *PEERS.get(section, ()))
        for (metric, *key), group in cells.where(section=section).groups("metric", *CELL):
            for rival in rivals if metric != "none" else ():
                ours, theirs = group.us("rlscan"), group.us(rival)
                if not math.isnan(theirs / ours):
                    words = [f"`{section}`: {label(tuple(key))}", METRICS[metric], f"`{rival}`"]
                    yield [*words, number(ours), number(theirs), f"{theirs / ours:.3f}"], theirs / ours


def slower(run: Run) -> str:
    compared = list(comparisons(run.cells))
    lost = [words for words, ratio in sorted(compared, key=lambda pair: pair[1]) if ratio < 1]
    if not lost:
        return f"Nowhere: of {len(compared)} comparisons, none." if compared else "Nothing was compared."
    head = ["cell", "time", "against", "rlscan µs", "its µs", "ratio"]
    return f"In {len(lost)} of {len(compared)} comparisons:\n\n{markdown(head, lost)}"


def page(runs: list[Run]) -> str:
    source = "`python -m paper.render` reads ours from `paper/results/` and the paper's from `paper/original.json`."
    parts = ["# Performance", f"No number on this page is typed: {source}"]
    for run in runs:
        folder = f"results/{run.folder}"
        names = ["targets.json", *run.head["tables"], ROWS]
        raw = ", ".join(f"[{name}]({folder}/{name})" for name in names)
        apart = [
            f"\n- [{name}]({folder}/{name}) was measured apart, at commit {at['commit'][:12]}, {at['date']}."
            for name, at in run.head["apart"].items()
        ]
        parts += [f"## {run.head['device']['name']}", f"{provenance(run.head)}\n- Data: {raw}.{''.join(apart)}"]
        parts += ["### Targets", targets_table(run)]
        parts += ["### What stops the targets that are missed", limits.missed(run.facts)]
        parts += ["### Where rlscan is slower", slower(run)]
        for title, (section, body) in SECTIONS.items():
            cells = run.cells.where(section=section) if section else run.cells
            picture = [
                f"![{alt}](rendered/{plots.file_name(run.folder, name)}.svg)"
                for name, alt in plots.TITLES.items()
                if SHOWN[name] == title
            ]
            parts += [f"### {title}", *([*picture, *body(cells)] if cells.rows else ["Not measured."])]
        parts += ["### What is compiled", limits.compiled(run.facts)]
        parts += ["### Refused or not measured", failures(run)]
    return "\n\n".join(parts) + "\n"


def excerpt(runs: list[Run]) -> str:
    """What README.md says of the targets."""
    said = []
    for run in runs:
        missed = [f"`{name}` ({how_many(found)})" for name, found in run.targets.items() if not found["met"]]
        counts = f"{len(run.targets) - len(missed)} of {len(run.targets)} speed targets are met"
        lost = f" Missed: {', '.join(missed)}." if missed else ""
        said.append(f"**{run.head['device']['name']}**: {counts}.{lost}")
    return "\n\n".join(said) or "No speed target was measured."


def failures(run: Run) -> str:
    found = [f"- {name}: {reason}" for name, reason in run.head.get("not_run", {}).items()]
    found += [f"- `{error.replace('`', '')}`" for error in run.head["errors"]]
    for row in run.cells.rows:
        if row["us"] is None:
            cell = f"{row['section']}: {label(tuple(row[k] for k in CELL))} {row['layout']} {row['dtype']}"
            reason = (row.get("error") or row["gate"].get("error", "no time")).replace("`", "")
            found.append(f"- {row['implementation']}, {cell}: `{reason}`")
    return "\n".join(dict.fromkeys(found)) or "Nothing."


def main(argv: list[str] | None = None, root: Path = PAPER.parent) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.performance", description="Render the speed targets.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page or a plot is stale")
    args = parser.parse_args(argv)
    runs = load(root)
    file = root / "paper" / "performance.md"
    text = page(runs) if runs else None
    if text is None:
        print("speed targets not measured: no paper/results/*/targets.json with its rows, so no page of them")
    stale = kept(file, text, write=not args.check)
    readme = root / "README.md"
    if readme.exists():
        stale += kept(readme, between(readme.read_text(), "targets", excerpt(runs)), write=not args.check)
    for run in runs:
        stale += plots.render(run.folder, run.head["device"]["name"], run.cells, root, write=not args.check)
    return told(stale, root, check=args.check)


if __name__ == "__main__":
    sys.exit(main())
