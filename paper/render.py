"""The renderer: `python -m paper.render`.

Prints every result in paper/results as paper/rendered/<table>.md, and into README.md between `<!-- <table>:begin -->`
and `<!-- <table>:end -->`; paper/rendered/mutants.md and a page of each certificate; then the pages of
paper/performance.py, paper/table_pages.py and paper/end_to_end_page.py; then what the manuscript says of results, by
paper/latex.py. With `--check` nothing is written and what is stale fails. No figure is typed here: ours come from the
raw samples, the paper's from original.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from paper import end_to_end_page, performance, table_pages
from paper.bench import PAPER, best, original, tables
from paper.mutants import report as mutants
from paper.text import PEER_GPU, between, kept, made, markdown, number, pair, remarks, told, trials
from rlscan.verify import deep

RUNNERS = (None, "libraries")
SCAN = "doubling"  # the baseline that the paper compares with

Shape = tuple[int, int]
Result = dict[str, Any]
# tables of ratios at a few shapes; those of other runners have pages of their own
NAMES = tuple(name for name, block in tables().items() if "section" not in block and block.get("runner") in RUNNERS)


class Cell:
    """One estimator at one shape: times of each implementation, plain and truncated, and their ratios."""

    def __init__(self, result: Result, estimator: str, shape: Shape) -> None:
        self.rows = {
            (row["implementation"], row["truncated"]): row
            for row in result["rows"]
            if row["estimator"] == estimator and (row["num_envs"], row["seq_len"]) == shape
        }
        self.kinds = sorted({truncated for _, truncated in self.rows})

    def time(self, implementation: str, truncated: bool) -> float | None:
        row = self.rows.get((implementation, truncated))
        return best(row["samples_us"]) if row and row["gate"]["passed"] else None

    def ratio(self, baseline: str, truncated: bool) -> float | None:
        """How many times faster rlscan is."""
        ours, theirs = self.time("rlscan", truncated), self.time(baseline, truncated)
        return theirs / ours if ours and theirs else None

    def ratios(self, baseline: str) -> str:
        return pair([self.ratio(baseline, kind) for kind in self.kinds])

    def times(self, implementation: str) -> str:
        return pair([self.time(implementation, kind) for kind in self.kinds])


def misses(cell: Cell, baselines: list[str], peer: dict[str, Any] | None) -> list[str]:
    """What a reader must not overlook: a wrong result, a baseline that is faster, a ratio below the paper's."""
    found = []
    ratios = {baseline: [cell.ratio(baseline, kind) for kind in cell.kinds] for baseline in baselines}
    always = [name for name, both in ratios.items() if all(ratio is not None and ratio < 1 for ratio in both)]
    for kind in cell.kinds:
        name = "truncated" if kind else "plain"
        failed = [i for (i, truncated), row in cell.rows.items() if truncated == kind and not row["gate"]["passed"]]
        found += [f"{implementation} failed the gate, {name}" for implementation in failed]
        paper = {"loop": peer and not kind and peer["vs_loop"]}
        paper[SCAN] = peer and peer["vs_compiled_scan_truncated" if kind else "vs_compiled_scan"]
        for baseline in baselines:
            ratio, theirs = cell.ratio(baseline, kind), paper.get(baseline)
            if ratio is not None and ratio < 1 and baseline not in always:
                found.append(f"slower than {baseline}, {name}: {number(ratio)}")
            if ratio is not None and theirs and ratio < theirs:
                found.append(f"below the paper vs {baseline}, {name}: {number(ratio)} < {number(theirs)}")
    return found + [f"slower than {baseline}: {pair(ratios[baseline])}" for baseline in always if cell.kinds]


def ratio_table(result: Result, shape: Shape) -> str:
    """rlscan against each baseline, beside the paper's figures where its table has them."""
    block = tables()[result["table"]]
    baselines = [name for name in block["implementations"] if name != "rlscan"]
    peers = original()[block["original"]]["rows"] if "original" in block else {}
    head = ["estimator", "rlscan µs", *(f"vs {name}" for name in baselines)]
    if peers:
        head += [f"*paper, {PEER_GPU}: vs loop*", f"*paper, {PEER_GPU}: vs compiled scan*"]
    body = []
    for estimator in measured(result):
        cell = Cell(result, estimator, shape)
        peer = peers.get(estimator, {}).get(PEER_GPU)
        row = [f"`{estimator}`", cell.times("rlscan"), *map(cell.ratios, baselines)]
        if peers:
            scans = [peer["vs_compiled_scan"], peer["vs_compiled_scan_truncated"]]
            row += [f"*{number(peer['vs_loop'])}*", f"*{pair([x for x in scans if x is not None])}*"]
        missed = misses(cell, baselines, peer)
        body.append([*row, "**" + "; ".join(missed) + "**" if missed else "none"])
    return markdown([*head, "misses"], body)


def time_table(result: Result, shape: Shape) -> str:
    block = tables()[result["table"]]
    body = [
        [f"`{estimator}`", *map(Cell(result, estimator, shape).times, block["implementations"])]
        for estimator in measured(result)
    ]
    return markdown(["estimator, µs", *block["implementations"]], body)


def measured(result: Result) -> list[str]:
    """The estimators of the table that there are rows of."""
    found = {row["estimator"] for row in result["rows"]}
    return [name for name in tables()[result["table"]]["estimators"] if name in found]


def shapes(result: Result) -> list[Shape]:
    return list(dict.fromkeys((row["num_envs"], row["seq_len"]) for row in result["rows"]))


def provenance(result: Result) -> str:
    """Where, when and how the numbers were made."""
    protocol = result["protocol"]
    empty = f" (an empty call reads {number(result['empty_call_us'])} µs)" if "empty_call_us" in result else ""
    return (
        f"{made(result)} "
        f"{trials(protocol)}; {protocol['timer']}{empty}. "
        f"Gate: {protocol['correctness_gate']}."
        + remarks(result, tables()[result["table"]]["implementations"])
        + "".join(f" **Not measured**: {error}." for error in result.get("errors", []))
    )


def reading(result: Result) -> str:
    """How the table is to be read, with the source of the paper's figures."""
    text = (
        "Cells are plain / with truncations. A ratio is the baseline's time over rlscan's, in one run on one machine."
    )
    if "original" in tables()[result["table"]]:
        paper = original()
        gpu = f"{paper['hardware'][PEER_GPU]}, {paper['software']}"
        text += f" In italics: the paper's own ratios ({paper['source']}), on its {gpu}."
    return text


def failures(result: Result) -> str:
    """Rows that were refused, with the reason."""
    lines = [
        f"- {row['implementation']}, `{row['estimator']}`, {'truncated' if row['truncated'] else 'plain'}, "
        f"{row['num_envs']} × {row['seq_len']}: {row['gate'].get('error') or row['gate']}"
        for row in result["rows"]
        if not row["gate"]["passed"]
    ]
    return "\n".join(["Not timed, because not right:", "", *lines]) if lines else ""


def page(name: str, results: list[Result]) -> str:
    """paper/rendered/<table>.md."""
    parts = [f"# {tables()[name]['title']}", tables()[name]["label"]]
    for result in results:
        parts += [f"## {result['device']}", provenance(result), reading(result)]
        for shape in shapes(result):
            parts += [f"### {shape[0]} × {shape[1]}", ratio_table(result, shape), time_table(result, shape)]
        parts.append(failures(result))
    return "\n\n".join(filter(None, parts)) + "\n"


def excerpt(name: str, results: list[Result]) -> str:
    """What README.md shows of a table."""
    if not results:
        return f"Not measured yet: `rlscan reproduce --table {name}`."
    parts = []
    for result in results:
        for num_envs, seq_len in shapes(result):
            parts.append(f"**{tables()[name]['title']}, {num_envs} × {seq_len}**, {result['device']}")
            parts.append(ratio_table(result, (num_envs, seq_len)))
        parts.append(f"{reading(result)} {provenance(result)}")
    return "\n\n".join([*parts, f"All times: [paper/rendered/{name}.md](paper/rendered/{name}.md)."])


def render_readme(text: str, results: dict[str, list[Result]]) -> str:
    """README.md with what stands between a table's markers replaced."""
    for name in NAMES:
        text = between(text, name, excerpt(name, results.get(name, [])))
    return text


def load(root: Path) -> dict[str, list[Result]]:
    """The results of each table, from every device's folder."""
    results: dict[str, list[Result]] = {}
    for path in sorted(root.glob("paper/results/*/*.json")):
        result = json.loads(path.read_text())
        if isinstance(result, dict) and result.get("table") in NAMES:
            results.setdefault(result["table"], []).append(result)
    return results


def certificates(root: Path) -> dict[Path, str]:
    """A page a certificate of paper/results: of `rlscan verify`, and of `--deep` where there is one."""
    found = sorted(path for name in ("certificate", "deep") for path in root.glob(f"paper/results/*/{name}.json"))
    pages = {root / "paper" / "rendered" / f"{path.stem}_{path.parent.name}.md": path for path in found}
    return {page: deep.page(json.loads(path.read_text())) for page, path in pages.items()}


def documents(root: Path) -> dict[Path, str]:
    """Every rendered file of the checkout at `root`, as it should be."""
    results = load(root)
    pages = {root / "paper" / "rendered" / f"{name}.md": page(name, found) for name, found in results.items()}
    pages |= mutants.documents(root) | certificates(root)
    readme = root / "README.md"
    if readme.exists():
        pages[readme] = render_readme(readme.read_text(), results)
    return pages


def main(argv: list[str] | None = None, root: Path = PAPER.parent) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.render", description="Render the tables of paper/results.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a rendered file is stale")
    args = parser.parse_args(argv)
    from paper import latex  # here, because it reads what this module renders

    stale = [path for file, text in documents(root).items() for path in kept(file, text, write=not args.check)]
    code = told(stale, root, check=args.check)
    flags = ["--check"] if args.check else []
    pages_are_stale = [pages.main(flags, root) for pages in (performance, table_pages, end_to_end_page, latex)]
    return int(code or any(pages_are_stale))


if __name__ == "__main__":
    sys.exit(main())
