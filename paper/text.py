"""What every rendered page says in the same way: numbers, pairs of them, tables."""

from __future__ import annotations

import math

ABSENT = "–"
PEER_GPU = "H100"  # the paper's larger GPU
WORDS = ("misses", "worst cell", "limit", "verdict", "time", "against")  # columns


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
