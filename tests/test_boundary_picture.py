"""README's picture of the boundaries says what the rule, rlscan and the reference say, and is not stale."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rlscan
from rlscan import reference

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

from paper import boundary_picture as picture

ROOT = Path(__file__).resolve().parents[1]
SAID = picture.facts(rlscan.gae, torch)


def by_precedence(t: int) -> str:
    if SAID["terminated"][t]:
        return "0"
    if SAID["truncated"][t]:
        return f"truncation_values[{t}]"
    return "last_values" if t == picture.T - 1 else f"values[{t + 1}]"


def test_rlscan_and_the_reference_say_the_same() -> None:
    assert picture.facts(reference.gae, np) == SAID
    assert picture.drawn() == SAID


def test_each_value_is_the_one_that_the_precedence_gives() -> None:
    assert SAID["successor"] == [by_precedence(t) for t in range(picture.T)]
    kinds = {name.partition("[")[0] for name in SAID["successor"]}
    assert kinds == {"0", "truncation_values", "last_values", "values"}  # every rule is seen


def test_the_carry_stops_at_either_end_and_nowhere_else() -> None:
    ends = [t for t in range(picture.T) if SAID["terminated"][t] or SAID["truncated"][t]]
    assert ends == [picture.OVER, picture.CUT]
    stops = [t for t, passes in enumerate(SAID["carry_from_the_next"]) if not passes]
    assert stops == [*ends, picture.T - 1]


@pytest.fixture
def texts() -> dict[float, list[str]]:
    """What is written in the picture, from left to right, by its height."""
    pytest.importorskip("matplotlib", reason="NOT RUN: matplotlib is not installed")
    from matplotlib.figure import Figure

    figure = Figure(picture.SIZE)
    picture.draw(figure, SAID)
    found: dict[float, list[Any]] = {}
    for text in figure.axes[0].texts:
        x, y = text.get_position()
        found.setdefault(float(y), []).append((x, text.get_text()))
    return {y: [words for _, words in sorted(line)] for y, line in found.items()}


def test_what_is_drawn_is_what_is_said(texts: dict[float, list[str]]) -> None:
    written = [words.replace("\n", "") for words in texts[picture.SUCCESSORS][1:]]
    assert written == SAID["successor"]
    for y, name in ((picture.TERMINATED, "terminated"), (picture.TRUNCATED, "truncated")):
        assert texts[y] == [f"{name}[t]", *(str(int(flag)) for flag in SAID[name])]
    assert texts[picture.CARRY][1:].count("✕") == 2


def test_the_picture_is_not_stale_and_the_readme_shows_it(tmp_path: Path) -> None:
    assert picture.main(["--check"]) == 0
    assert "](docs/boundaries.svg)" in (ROOT / "README.md").read_text()
    assert picture.main(["--check"], tmp_path) == 1
