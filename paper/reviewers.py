"""What paper/REVIEWERS.md shows of the committed evidence, between its markers; `python -m paper.claims` renders it."""

from __future__ import annotations

from pathlib import Path

from paper import claims
from paper.text import between
from rlscan.cli import table


def block(lines: list[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def of_claims(root: Path) -> list[str]:
    """The first line of each verdict, and the counts."""
    said = list(claims.reported(root))
    first = dict(reversed(said))
    order = [line for word, line in said[:-1] if first[word] == line]
    return [*order, "…", said[-1][1]]


def of_certificate(root: Path, device: str) -> list[str]:
    """How `rlscan verify` ended."""
    certificate = claims.read(root, device, "certificate")
    return ["no certificate yet"] if certificate is None else [table(certificate).splitlines()[-1]]


def documents(root: Path) -> dict[Path, str]:
    path = root / "paper" / "REVIEWERS.md"
    if not path.exists():
        return {}
    text = between(path.read_text(), "claims", block(of_claims(root)))
    for device in claims.load(root)[1]:
        text = between(text, f"certificate-{device}", block(of_certificate(root, device)))
    return {path: text}
