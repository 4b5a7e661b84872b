"""What stops the speed targets that are missed, and what is compiled: parts of the page of paper/performance.py.

Every number is computed: times from the cells of the targets, instructions and registers from
paper/results/sm90/machine_code.json, executed instructions from accesses.json where the profiler could count.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from paper.limit_facts import Code, Facts, Row, executed, shape_of
from paper.limit_words import PARAGRAPHS, plainly
from paper.text import ABSENT, markdown, number
from paper.verdicts import Cells


def load(root: Path, folder: str, head: Row, targets: Row, cells: Cells) -> Facts:
    def found(path: str) -> Row | None:
        file = root / "paper" / "results" / path
        return json.loads(file.read_text()) if file.exists() else None

    code = found("sm90/machine_code.json")
    others = (found(f"{folder}/{name}.json") for name in ("accesses", "first_calls"))
    swept: list[Row] = []
    for path in sorted((root / "paper" / "results" / folder).glob("tiles*.json")):
        file = f"{folder}/{path.name}"
        sweep = found(file)
        if sweep and sweep["date"] > head["date"]:
            swept += ({**shape, "file": file} for shape in sweep["shapes"])
    return Facts(targets, cells, head, Code(code) if code else None, *others, tuple(swept))


def paragraph(facts: Facts, name: str) -> str:
    found = facts.targets[name]
    if found["value"] is None:
        return f"**`{name}`**: not measured."
    sentences = PARAGRAPHS[name](facts) if name in PARAGRAPHS else plainly(facts, name)
    return f"**`{name}`**: {' '.join(sentences)}"


def missed(facts: Facts) -> str:
    """The section: a paragraph a target that is missed, and none for one that is met."""
    names = [name for name, found in facts.targets.items() if not found["met"]]
    if not names:
        return "Every target is met."
    return "\n\n".join([*instruments(facts), *(paragraph(facts, name) for name in names)])


def instruments(facts: Facts) -> Iterator[str]:
    """Where instructions and registers come from, and what the profiler says beside it."""
    code = facts.code
    if not code:
        yield "Registers and instructions are not known here: `python -m paper.machine_code` was not run."
        return
    yield (
        "Instructions and registers are those of [machine code](results/sm90/machine_code.json) for "
        f"{code.head['compiled_for']}, by Triton {code.head['versions']['triton']}'s ptxas ({code.head['ptxas']}), "
        f"commit {code.head['commit'][:12]}: all of one tile, each once, over the elements that a thread handles. "
        f"Times are of commit {facts.head['commit'][:12]}."
    )
    checked = []
    for row in (facts.accesses or {"rows": []})["rows"]:
        kernels = row["kernels"]
        static = code.of(**{name: row[name] for name in ("estimator", "num_envs", "seq_len")})
        if row["implementation"] == "rlscan" and static and kernels and all(k.get("instructions") for k in kernels):
            steps = row["num_envs"] * row["seq_len"]
            counted = 32 * sum(kernel["instructions"] for kernel in kernels) / steps
            checked.append(f"`{row['estimator']}` {number(counted)} ({number(executed(static, row['seq_len']))})")
    if checked and facts.accesses:
        shape = shape_of(facts.accesses["rows"][0])
        yield (
            f"Nsight Compute counts as executed at {shape}, an element, and in brackets what the machine code says of "
            f"a whole program: {', '.join(checked)}."
        )


def compiled(facts: Facts) -> str:
    """How many kernels the grid compiles, how long each takes, and how long a first call."""
    parts = []
    if facts.code:
        rows = [
            row for row in facts.code.rows if row["guarded"] and any(cell["section"] == "grid" for cell in row["cells"])
        ]
        calls = [cell for row in rows for cell in row["cells"] if cell["section"] == "grid"]
        shapes = {(cell["num_envs"], cell["seq_len"]) for cell in calls}
        seconds = [row["compile_cpu_s"] for row in rows]
        kinds: dict[tuple[str, bool], set[int]] = {}
        for row in rows:
            for cell in row["cells"]:
                if cell["section"] == "grid":
                    kinds.setdefault((cell["estimator"], cell["truncated"]), set()).add(row["kernel"])
        least, most = min(map(len, kinds.values())), max(map(len, kinds.values()))
        median, largest = number(statistics.median(seconds)), number(max(seconds))
        parts.append(
            f"The {len(calls)} calls of the grid, {len(kinds)} kinds of call at {len(shapes)} shapes, share "
            f"{len(rows)} kernels, {least} to {most} a kind. To compile one takes a median of {median} s, {largest} s "
            f"at most, of processor time on {facts.code.head['compiled_on']}."
        )
    if facts.first_calls:
        of: dict[str, list[Row]] = {}
        for row in facts.first_calls["rows"]:
            of.setdefault(row["estimator"], []).append(row)
        body = []
        for name, rows in of.items():
            fresh, reused = ([row for row in rows if bool(row["new_kernels"]) is new] for new in (True, False))
            times = [[row["first_call_s"] for row in some] for some in (fresh, reused)]
            first = [f"{statistics.median(x):.3g}" if x else ABSENT for x in times]
            slowest = f"{max(times[0]):.3g}" if fresh else ABSENT
            second = f"{1e6 * statistics.median(row['second_call_s'] for row in rows):.0f}"
            kernels = str(sum(row["new_kernels"] for row in rows))
            body.append([f"`{name}`", str(len(rows)), kernels, first[0], slowest, first[1], second])
        head = ["estimator", "shapes", "kernels compiled", "first call that compiles s", "slowest s"]
        head += ["first call that does not s", "second call µs"]
        parts.append(
            "Latency of calls in the order of the grid, from an empty cache, on one "
            f"{facts.first_calls['device']['name']}, commit {facts.first_calls['commit'][:12]} (medians):"
        )
        parts.append(markdown(head, body))
    return "\n\n".join(parts) or "Nothing is known of it here: `python -m paper.machine_code` was not run."
