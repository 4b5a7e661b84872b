"""From the rows of paper/targets.py to the raw file of each table that they are of.

A row is in one file: what no table has stays in targets_rows.json, which names the others. `load` puts them together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paper.bench import tables
from paper.jobs import judged_tables
from paper.keeping import partial, write
from paper.text import LOOP
from paper.verdicts import AGAIN, HEADLINE, ROWS, measured_again

Row = dict[str, Any]
APART = ("commit", "date")  # what tells one run from another


def of_table(name: str, row: Row) -> bool:
    block = tables()[name]
    return row["section"] == block["section"] and row["estimator"] in block["estimators"]


def load(path: Path) -> Row:
    """targets_rows.json with the rows of the tables that it names; `apart` are those of another run."""
    result: Row = json.loads(path.read_text())
    result["apart"] = {}
    for name in result.get("tables", []):
        table = json.loads(path.with_name(name).read_text())
        result["rows"] = [*result["rows"], *({**row, "file": name} for row in table["rows"])]
        if any(table[field] != result[field] for field in APART):
            result["apart"][name] = {field: table[field] for field in APART}
    return result


def notes(name: str, rows: list[Row]) -> list[str]:
    """How these rows were measured, where it differs from how the table is measured alone."""
    found = []
    if any(row["metric"] == "full" for row in rows):
        found.append("Within a trial implementations take turns, a few calls each.")
    if any(row["implementation"] == "loop" for row in rows):
        found.append(LOOP)
    runs = [row for row in rows if matches_headline(row)]
    again = measured_again(rows)
    if runs:
        which = "the first of ten runs" if name == "table3" else "the least of ten runs of each implementation"
        found.append(f"{HEADLINE[0]} × {HEADLINE[1]}: {which}.")
    if again:
        where = "; their samples are in table4.json and table6.json" if name == "table3" else ", their samples kept"
        trials = f"{again} {'of its ' * bool(runs)}trials"
        found.append(f"{trials} were {AGAIN}{where}.")
    return found


def files(rows: Path, out: Path) -> dict[Path, Row]:
    """What the split writes, by path; nothing for a table of which there is no row."""
    result: Row = json.loads(rows.read_text())
    head = {name: x for name, x in result.items() if name not in ("rows", "tables")}
    left, found = result["rows"], {}
    named = list(result.get("tables", []))
    for name in judged_tables():
        own = [row for row in left if of_table(name, row)]
        if not own:
            continue
        left = [row for row in left if not of_table(name, row)]
        block = {"table": name, "label": tables()[name]["label"], "measured_by": "python -m paper.targets"}
        found[out / f"{name}.json"] = {**block, "notes": notes(name, own), "not_run": {}, **head, "rows": own}
        named += [] if f"{name}.json" in named else [f"{name}.json"]
    if any(of_headline(row) for row in result["rows"]):
        found[out / "table3.json"] = headline(head, result["rows"])
    found[out / ROWS] = {**head, "tables": named, "rows": left}
    return found


def of_headline(row: Row) -> bool:
    """A cell of Table 3, which Tables 4 and 6 have too; of its ten runs the first."""
    return matches_headline(row) and not row.get("repeat")


def matches_headline(row: Row) -> bool:
    return row["section"] == "grid" and (row["num_envs"], row["seq_len"]) == HEADLINE and row["metric"] == "full"


def headline(head: Row, rows: list[Row]) -> Row:
    """Table 3 out of the same run."""
    names = ("estimator", "truncated", "num_envs", "seq_len", "implementation", "gate", "samples_us")
    found = [row for row in rows if of_headline(row)]
    own = [{**{name: row[name] for name in names}, "best_us": row["us"]} for row in found]
    device = head["device"]["name"]
    return {
        "table": "table3",
        "label": tables()["table3"]["label"],
        "notes": notes("table3", found),
        "measured_by": "python -m paper.targets",
        **head,
        "device": device,
        "rows": own,
    }


def main(rows: Path, out: Path) -> int:
    """Writes the files, and judges the targets anew, since they name the files of their rows."""
    from paper.targets import main as targets  # it needs Triton

    for path, result in files(rows, out).items():
        write(result, path)
        partial(path).unlink(missing_ok=True)  # of an older run
        print(f"{path}: {len(result['rows'])} rows")
    return targets(["--out", str(out), "--judge"])
