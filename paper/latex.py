"""What the manuscript says of results: macros, tables and figures in paper/manuscript/generated/, from paper/results.

`python -m paper.render` writes them, or with `--check` finds them stale. A result that is not there is *not measured*;
one that is new turns up: a table of tables.toml, and every page and plot of paper/rendered, in the appendix if nowhere
else.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from paper import claims, performance, plots, render, table_pages, table_plots
from paper.bench import PAPER, tables
from paper.latex_numbers import GPU, macros, read
from paper.performance import Run
from paper.speed_tables import SECTIONS, by
from paper.tex import ABSENT, absent, from_markdown, inline
from paper.text import kept, markdown, told
from paper.verdicts import Cells

FOLDER = Path("paper") / "manuscript" / "generated"
MADE_BY = "% Made by `python -m paper.render` from paper/results. Not to be edited.\n"
# what a whole set of results has, each with what makes it
WANTED = {
    "cpu/certificate.json": "verification on a CPU",
    "cpu/deep.json": "the same, and what takes longer",
    "cpu/table3_cpu.json": "the portable path",
    "cpu/libraries_cpu.json": "JAX and TorchRL beside it",
    "cpu/tightness.json": "how tight the bound is",
    "cpu/learning.json": "PPO that learns, small",
    "h200/certificate.json": "verification of compiled kernels",
    "h200/memcheck.txt": "memory checker",
    "h200/table3.json": "Table 3",
    "h200/libraries.json": "Table 3, further columns: JAX and TorchRL",
    "h200/inexact.json": "a run that found examples which are not exact",
    "h200/table4.json": "Table 4",
    "h200/table5.json": "Table 5, end to end",
    "h200/table6.json": "Table 6",
    "h200/figure1.json": "Figure 1, launch and device",
    "h200/pufferlib.json": "Figures 2 and 3, one thread a row and PufferLib",
    "h200/pufferlib_unsteady.json": "the same by an earlier rule for a slow host",
    "h200/retrace_long.json": "Retrace over long windows",
    "h200/accesses.json": "memory accesses, counted by the profiler",
    "h200/targets.json": "speed targets",
    "h200/targets_rows.json": "their cells that no table has",
    "h200/llm.json": "GAE over tokens",
    "h200/spiking.json": "spiking neurons",
    "h200/first_calls.json": "the first calls from an empty cache",
    "h200/tiles.json": "the sweep behind the tiles",
    "h200/tiles_retrace.json": "that of Retrace over few rows",
    "h200/tiles_few_rows.json": "that of few rows in [T, N]",
    "h200/tiles_few_rows_before.json": "the same beside the tiles that were chosen before",
    "h200/tiles_long.json": "that of one very long row",
    "h200/tiles_spread.json": "that of few rows in [N, T]",
    "h200/tiles_walked.json": "that of very long rows, and more of few",
    "h200/tiles_neighbours.json": "that of short windows in [T, N]",
    "h200/tiles_many_rows.json": "that of many rows in [N, T], and more of [T, N]",
    "h200/tiles_lengths.json": "that of windows that are no multiple of a tile",
    "h200/tightness.json": "how tight the bound is",
    "h200/learning.json": "PPO that learns",
    "sm90/machine_code.json": "machine code, compiled without a GPU",
    "mutants.json": "mutants of the source",
    "peers.json": "other libraries",
}
# pages and plots of paper/rendered that have a place of their own: those of these names, or names that go on with _
PLACES = {
    "table5": ("End to end: a PPO update", ("table5", "end_to_end", "learning")),
    "llm": ("Beyond RL: GAE over the tokens of ragged responses", ("llm",)),
    "spiking": ("Beyond RL: backpropagation through time of spiking neurons", ("spiking",)),
    "mutants": ("Mutants of the shipped source", ("mutants",)),
    "tightness": ("Share of the bound that is used", ("tightness",)),
    "peers": ("Other libraries, checked", ("peers",)),
    **{name: (tables()[name]["title"], (name,)) for name in table_pages.BODIES},
}
# of these the manuscript shows what is not folded, and the same cells are not shown twice
UNFOLDED = tuple(table_pages.BODIES)
TWICE = ("Full call", "One CUDA thread a row", "Retrace over long windows")
FIGURES = ("roofline",)


def claims_table(root: Path) -> str:
    declared, devices = claims.load(root)
    body = []
    for name, claim in declared.items():
        verdicts = [claims.judge(claim, root, folder, device) for folder, device in devices.items()]
        cells = ["–" if verdict is None else emphasised(str(verdict)) for verdict in verdicts]
        body.append([f"`{name}`", claim["statement"], *cells])
    text = markdown(["claim", "statement", *(d["title"] for d in devices.values())], body).replace("---:", "---")
    return from_markdown(text, "Every claim and its verdict. A FAIL is a target that is missed.", "tab:claims")


def emphasised(verdict: str) -> str:
    return f"**{verdict}**" if verdict.startswith(claims.FAIL) else verdict


def ratio_tables(name: str, results: list[dict[str, Any]]) -> str:
    """A table of tables.toml, every device and shape, or that it is not there."""
    title, label = tables()[name]["title"], f"tab:{name}"
    parts = []
    for result in results:
        for shape in render.shapes(result):
            caption = f"{theirs(title)}, {by(shape)}, on {result['device']}."
            parts.append(from_markdown(render.ratio_table(result, shape), inline(caption), label))
            label = ""
        parts.append(
            rf"\noindent{{\footnotesize {inline(render.reading(result) + ' ' + render.provenance(result))}\par}}"
        )
    return "\n\n".join(parts) + "\n" if parts else absent(inline(theirs(title)), label)


def theirs(title: str) -> str:
    """ "Table 3" is the original's, and not the manuscript's own."""
    return re.sub(r"^(Table|Figures?) (\d)", r"After the original's \1 \2", title)


def unfolded(page: str) -> str:
    """Without what it folds away, and with the original's tables and figures called so."""
    text = re.sub(r"<details>.*?</details>\n*", "", page, flags=re.DOTALL)
    text = re.sub(r"^(Tables?|Figures?) (\d)", r"The original's \1 \2", text, flags=re.MULTILINE)
    return re.sub(r"(?<!original's )\b(Tables?|Figures?) (\d)", r"the original's \1 \2", text)


def is_ratios(result: dict[str, Any]) -> bool:
    """Whether a table's rows are calls of estimators, which render.py prints."""
    rows = result.get("rows") or [{}]
    return {"estimator", "truncated", "implementation", "samples_us", "num_envs", "seq_len"} <= rows[0].keys()


def figure(name: str, file: str, caption: str, root: Path) -> str:
    exists = (root / "paper" / "rendered" / file).exists()
    shown = rf"\includegraphics[width=0.92\linewidth]{{{file}}}" if exists else rf"\emph{{{ABSENT}}}"
    lines = [r"\begin{figure}[htbp]", r"\centering", shown, rf"\caption{{{inline(caption)}}}\label{{fig:{name}}}"]
    return "\n".join([*lines, r"\end{figure}"]) + "\n"


def inventory(root: Path) -> str:
    """What there is, of what a whole set of results has, and what is there besides."""
    results = root / "paper" / "results"
    found = {str(path.relative_to(results)) for path in results.rglob("*.*") if path.suffix in (".json", ".txt")}
    body = []
    for name in [*WANTED, *sorted(found - WANTED.keys())]:
        state = read(root, name) if name in found and name.endswith(".json") else None
        state = state if isinstance(state, dict) else {}
        state = {**state, **state.get("environment", {})}
        when = state.get("date", "")[:10] or ("measured" if name in found else f"*{ABSENT}*")
        body.append([f"`{name}`", WANTED.get(name, "–"), when, state.get("commit", "")[:12] or "–"])
    text = markdown(["file", "what", "measured", "commit"], body).replace("---:", "---")
    return from_markdown(text, r"Result files under \texttt{paper/results}.", "tab:inventory")


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def sections(run: Run | None) -> Iterator[tuple[str, str]]:
    """The tables of the page of speed targets, a file a section; those that it folds away are in the repository."""
    for title, (section, body) in SECTIONS.items():
        if title in TWICE:
            continue
        name = slug(title)
        cells = run.cells.where(section=section) if run and section else run.cells if run else Cells([])
        cells = Cells(sorted(cells.rows, key=lambda row: (row["num_envs"], row["seq_len"], row["actions"])))
        parts = [part for part in body(cells) if not part.startswith("<details>")] if cells.rows else []
        text = from_markdown("\n\n".join(parts), inline(title), f"tab:{name}") if parts else ""
        yield name, text if "tab:" in text else absent(inline(title), f"tab:{name}")
    targets = rows_of(performance.targets_table(run)) if run else ""
    caption = "Every speed target: value, limit and verdict."
    yield "targets", from_markdown(targets, caption, "tab:targets") if targets else absent(caption, "tab:targets")
    lost = performance.slower(run) if run else ""
    caption = "Every comparison in which rlscan is slower."
    label = "tab:slower"
    if rows_of(lost):
        yield "slower", from_markdown(rows_of(lost), caption, label)
    else:
        yield "slower", absent(caption, label, inline(lost)) if lost else absent(caption, label)


def rows_of(text: str) -> str:
    """The table in it, alone."""
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def belonging(found: Iterable[str], stems: Iterable[str]) -> list[str]:
    return [name for name in found if any(name == stem or name.startswith(f"{stem}_") for stem in stems)]


def documents(root: Path) -> dict[Path, str]:
    """Every generated file of the checkout at `root`, as it should be; none where there is no manuscript."""
    if not (root / FOLDER.parent / "manuscript.tex").exists():
        return {}
    run = next((run for run in performance.load(root) if run.folder == GPU), None)
    results = render.load(root)
    files = {"claims": claims_table(root), "inventory": inventory(root)}
    files |= {name: ratio_tables(name, results.get(name, [])) for name in render.NAMES}
    files |= sections(run)
    device = run.head["device"]["name"] if run else ""
    for name, title in plots.TITLES.items():
        if name not in FIGURES:
            continue
        files[f"figure_{name}"] = figure(
            name, f"{plots.file_name(GPU, name)}.png", f"{title}, {device}" if device else title, root
        )
    for plot in table_plots.PLOTS:
        files[f"figure_{plot.stem}"] = figure(plot.stem, f"{plot.file(GPU)}.png", theirs(plot.title), root)
    rendered = sorted((root / "paper" / "rendered").glob("*.md"))
    pages = {path.stem: re.sub(r"\A# .*\n", "", path.read_text()) for path in rendered}  # the section has a title
    plotted = [path.stem for path in sorted((root / "paper" / "rendered").glob("*.png"))]
    for name, (title, stems) in PLACES.items():
        parts, label = [], f"tab:{name}"
        for page in belonging(pages, stems):
            text = unfolded(pages[page]) if name in UNFOLDED else pages[page]
            parts.append(from_markdown(text, theirs(title), label))
            label = label if label not in "".join(parts) else ""
        parts += [absent(inline(theirs(title)), label)] * bool(label)
        parts += [
            figure(stem, f"{stem}.png", f"{title} ({stem.replace('_', ' ')})", root)
            for stem in belonging(plotted, stems)
            if name not in UNFOLDED
        ]
        files[name] = "\n\n".join(parts)
    placed = [stem for _, stems in PLACES.values() for stem in stems]
    unplaced = [name for name in tables() if name not in files and name not in belonging(tables(), placed)]
    more = [name for name in unplaced if name in results and all(map(is_ratios, results[name]))]
    parts = [ratio_tables(name, results[name]) for name in more]
    # what the table of claims says in few words
    said = ["claims", *belonging(pages, ("certificate", "deep"))]
    rest = [name for name in pages if name not in (*more, *said, *files, *belonging(pages, placed))]
    parts += [from_markdown(pages[name], inline(name)) for name in rest]
    shown = [plots.file_name(GPU, name) for name in plots.TITLES] + belonging(plotted, placed)
    shown += [plot.file(GPU) for plot in table_plots.PLOTS]
    parts += [figure(stem, f"{stem}.png", stem.replace("_", " "), root) for stem in plotted if stem not in shown]
    files["more"] = "\n\n".join(parts) or "None.\n"
    files["numbers"] = macros(root, run)
    return {root / FOLDER / f"{name}.tex": MADE_BY + text.rstrip("\n") + "\n" for name, text in files.items()}


def main(argv: list[str] | None = None, root: Path = PAPER.parent) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.latex", description="What the manuscript says of results.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is stale")
    args = parser.parse_args(argv)
    wanted: dict[Path, str | None] = {**documents(root)}
    wanted |= dict.fromkeys(sorted(set((root / FOLDER).glob("*.tex")) - wanted.keys()))
    stale = [path for file, text in wanted.items() for path in kept(file, text, write=not args.check)]
    return told(stale, root, check=args.check)


if __name__ == "__main__":
    sys.exit(main())
