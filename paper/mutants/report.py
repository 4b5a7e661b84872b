"""The committed results and reasons, and the page that is rendered from them: paper/rendered/mutants.md."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from paper.text import markdown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
OUT = ROOT / "paper" / "results" / "mutants.json"
REASONS = Path(__file__).with_name("equivalent.toml")


def reasons() -> dict[str, str]:
    """Why a mutant is equivalent, by its name."""
    return {found["mutant"]: found["reason"] for found in tomllib.loads(REASONS.read_text()).get("equivalent", [])}


def page(result: dict[str, Any]) -> str:
    mutants = result["mutants"]
    files = list(dict.fromkeys(found["file"] for found in mutants))
    rows = [row(f"`{file}`", [m for m in mutants if m["file"] == file]) for file in files]
    head = ["file", "mutants", "killed", "equivalent", "survived", "checks to kill: median", "max"]
    by: dict[str, int] = {}
    for found in mutants:
        if found["verdict"] == "killed":
            stage = found["killed_by"].split(":")[0]
            by[stage] = by.get(stage, 0) + 1
    stages = [[stage, str(number)] for stage, number in sorted(by.items(), key=lambda item: -item[1])]
    operators = list(dict.fromkeys(sorted(found["operator"] for found in mutants)))
    rules = [row(operator, [m for m in mutants if m["operator"] == operator]) for operator in operators]
    versions = ", ".join(f"{name} {result['versions'][name]}" for name in ("torch", "triton", "python"))
    commit = result["commit"][:12] + (" with uncommitted changes" if result["dirty"] else "")
    parts = [
        "# Mutants",
        "Each mutant is one small change of the shipped source, made by rule. The changed package goes through the "
        "verification, cheapest checks first, up to the first that rejects it: fixed examples, every boundary pattern "
        "of short windows, exact and bounded fuzzing, the known cases, the proofs, the tests. A check is an example, a "
        "window, a statement or a test; the rejecting one is counted. The unchanged package passes all of them.",
        f"CPU ({versions}), commit {commit}, seed {result['seed']}, {result['date']}.",
        markdown(head, [*rows, row("all", mutants)]),
        markdown(["operator", *head[1:]], rules),
        markdown(["killed by", "mutants"], stages),
    ]
    if result["equivalent"]:
        parts.append("Equivalent, and why:")
        parts.append("\n".join(f"- `{found['mutant']}`: {found['reason']}" for found in result["equivalent"]))
    left_out = "; ".join(
        f"`{file}`: {', '.join(f'`{n}`' for n in names)}" for file, names in result["left_out"].items()
    )
    parts.append(f"Not mutated, because only a GPU runs or reads it: {left_out}; and hints to the compiler.")
    return "\n\n".join(parts) + "\n"


def row(name: str, mutants: list[dict[str, Any]]) -> list[str]:
    counts = [sum(m["verdict"] == verdict for m in mutants) for verdict in ("killed", "equivalent", "survived")]
    checks = [m["examples"] for m in mutants if m["verdict"] == "killed"]
    spread = [f"{statistics.median(checks):g}", str(max(checks))] if checks else ["–", "–"]
    return [name, *map(str, [len(mutants), *counts]), *spread]


def documents(root: Path) -> dict[Path, str]:
    """The rendered page of the checkout at `root`, if there are results to render."""
    results = root / OUT.relative_to(ROOT)
    if not results.exists():
        return {}
    return {root / "paper" / "rendered" / "mutants.md": page(json.loads(results.read_text()))}
