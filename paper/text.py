"""What every rendered page says in the same way: numbers, pairs of them, tables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ABSENT = "–"
LOOP = "The loop, hundreds of times slower, is the better of two single calls after the others."
PEER_GPU = "H100"  # the paper's larger GPU
WORDS = ("misses", "worst cell", "limit", "verdict", "time", "against", "by", "in float64")  # columns


def pair(numbers: list[float | None]) -> str:
    """Plain / truncated, or plain alone for an estimator without truncation."""
    return " / ".join(map(number, numbers))


def number(x: float | None) -> str:
    if x is None or math.isnan(x):
        return ABSENT
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def markdown(head: list[str], body: list[list[str]]) -> str:
    """A table; the first column and those of words are aligned left."""
    aligned = ["---" if column in (head[0], *WORDS) else "---:" for column in head]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, aligned, *body])


def made(result: dict[str, Any]) -> str:
    """Where, when and from what a result was measured."""
    commit = result["commit"][:12] + (" with uncommitted changes" if result["dirty"] else "")
    found = {name: result["versions"][name] for name in ("torch", "triton", "cuda", "python")}
    versions = ", ".join(f"{name} {version}" for name, version in found.items() if version[0].isdigit())
    return f"Measured on **{result['device']}** ({versions}), commit {commit}, seed {result['seed']}, {result['date']}."


def trials(protocol: dict[str, Any]) -> str:
    """How often a full call is timed, and what of that is its time."""
    calls = f"{protocol['iterations_per_trial']} calls after {protocol['warmup_calls']}"
    return f"{protocol['trials']} trials of {calls}; {protocol['estimator']}"


def remarks(result: dict[str, Any], implementations: Iterable[str]) -> str:
    """What is to be known besides: how it was measured, and which of these implementations was not there."""
    lacking = [f"Without {name}: {why}." for name, why in result.get("not_run", {}).items() if name in implementations]
    return "".join(f" {words}" for words in (*result.get("notes", ()), *lacking))


def between(text: str, name: str, body: str) -> str:
    """`text` with what stands between the markers of `name` replaced; without both markers, as it was."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, behind = rest.partition(end)
    return f"{before}{begin}\n\n{body}\n\n{end}{behind}" if found_begin and found_end else text


def kept(path: Path, text: str | None, *, write: bool) -> list[Path]:
    """The path, if the file there is not this text (None: no file): what is stale. Then it is written or removed."""
    if (path.read_text() if path.exists() else None) == text:
        return []
    if write and text is None:
        path.unlink()
    elif write and text is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [path]


def told(stale: list[Path], root: Path, *, check: bool) -> int:
    """Says what became of what was stale; the exit code, which is 1 where it was only looked for and found."""
    for path in stale:
        print(f"{'stale' if check else 'rendered' if path.exists() else 'removed'}: {path.relative_to(root)}")
    return 1 if check and stale else 0
