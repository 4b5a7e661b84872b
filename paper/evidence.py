"""Verdicts from evidence that is neither a certificate nor a table: speed targets, memory checkers, mutants.

Each function gives the word and a note, as paper/claims.py prints them; what is not in a file is NOT RUN.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from paper.bench import best
from paper.end_to_end_page import groups, whole
from paper.learning_page import WRONG, of_variant, tasks, times
from paper.text import number

NOT_RUN = ("NOT RUN", "")
CELL = ("hidden", "num_envs", "seq_len", "responses", "tokens", "neurons", "steps", "what")

Said = tuple[str, str]


def load(path: Path) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return found


def target(name: str, results: Path) -> Said:
    """A speed target of targets.json; one of which no cell was measured was not run."""
    found = load(results / "targets.json")
    judged = (found or {}).get("targets", {}).get(name)
    if not judged or judged["value"] is None:
        return NOT_RUN
    note = f"{judged['value']:g}, to be {limit(judged['target'])}"
    if judged["met"]:
        return "PASS", note
    return "FAIL", f"{note}: {len(judged['missed'])} of {judged['cells']} missed"


def limit(text: str) -> str:
    return text.replace(">=", "≥").replace("<=", "≤")


def sanitizer(tool: str, results: Path) -> Said:
    """The end of compute-sanitizer's report: variants that were launched, and no error."""
    path = results / f"{tool}.txt"
    text = path.read_text() if path.exists() else ""
    launched = re.search(r"^(\d+) variants launched and right$", text, re.MULTILINE)
    summary = re.search(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", text)
    if not summary:
        return NOT_RUN
    errors = int(summary[1] or summary[2])
    if errors or not launched or not int(launched[1]):
        return "FAIL", f"{errors} errors" if errors else "not every variant was launched and right"
    return "PASS", f"{launched[1]} variants"


def faster(what: dict[str, Any], results: Path) -> Said:
    """Rows of paper/end_to_end.py, of which `where` names some: the baseline's time over rlscan's in every cell.

    Of an update with laps the time is that of the whole.
    """

    def time(row: dict[str, Any] | None) -> float | None:
        if row is None or not row["gate"]["passed"]:
            return None
        return whole(row) if "values_credit_epochs_us" in row else best(row["samples_us"])

    found = load(results / f"{what['file']}.json") or {"rows": []}
    rows = [row for row in found["rows"] if what.get("where", {}).items() <= row.items()]
    cells = groups(rows, *(name for name in CELL if rows and name in rows[0])).values()
    pairs = [(time(cell.get("rlscan")), time(cell.get(what["baseline"]))) for cell in cells]
    ratios = [theirs / ours for ours, theirs in pairs if ours and theirs]
    if not ratios:
        return NOT_RUN
    missed = len(pairs) - sum(ratio >= what["at_least"] for ratio in ratios)
    note = f"{number(min(ratios))} to {number(max(ratios))} ×"
    return ("FAIL", f"{note}, {missed} missed") if missed else ("PASS", note)


def learned(file: str, results: Path) -> Said:
    """Runs of paper/learning.py: every judged window within the bound, and less time for it than by the loop."""
    found = load(results / f"{file}.json") or {"rows": []}
    judged = [row for row in found["rows"] if row["variant"] != WRONG]
    ratios = []
    for _, runs in tasks({"rows": judged}):
        ours, theirs = (of_variant(runs, name) for name in ("rlscan", "loop"))
        if ours and theirs:
            ratios.append(times(theirs)[1] / times(ours)[1])
    if not ratios:
        return NOT_RUN
    outside = sum(not row["gate"]["passed"] for row in judged)
    note = f"{number(min(ratios))} to {number(max(ratios))} ×, {len(judged)} runs judged"
    if outside:
        return "FAIL", f"{note}, {outside} outside the bound"
    return ("PASS" if min(ratios) >= 1 else "FAIL"), note


def mutants(at_least: int, results: Path) -> Said:
    """Every mutant killed or shown to be equivalent, and enough of them."""
    found = load(results / "mutants.json")
    if not found or not found["total"]:
        return NOT_RUN
    total, killed, equivalent = found["total"], found["killed"], len(found["equivalent"])
    note = f"{killed} of {total} killed, {equivalent} equivalent"
    if killed + equivalent != total:
        return "FAIL", f"{note}, {total - killed - equivalent} survived"
    return ("PASS", note) if total >= at_least else ("NOT RUN", f"{note}; {at_least} are wanted")
