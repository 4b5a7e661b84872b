"""Verdicts on speed targets, memory checkers and mutants: nothing passes that its file does not say."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sympy")

from paper import claims as paper_claims
from paper import evidence as paper_evidence
from paper.claims import FAIL, NOT_RUN, PASS, judge
from paper.verdicts import evaluate

ROOT = Path(__file__).resolve().parents[1]
CLAIMS, DEVICES = paper_claims.load()


def test_every_speed_target_is_a_claim() -> None:
    claimed = [claim["measured"]["target"] for claim in CLAIMS.values() if "target" in claim.get("measured", {})]
    assert sorted(claimed) == sorted(evaluate([]))


def test_a_target_that_is_missed_fails(tmp_path: Path) -> None:
    def said(**judged: Any) -> tuple[str, str]:
        whole = {"value": 1.25, "target": ">= 2", "met": False, "cells": 4, "missed": ["a"], **judged}
        (tmp_path / "targets.json").write_text(json.dumps({"targets": {"half": whole}}))
        return paper_evidence.target("half", tmp_path)

    assert paper_evidence.target("half", tmp_path) == (NOT_RUN, "")
    assert said() == (FAIL, "1.25, to be ≥ 2: 1 of 4 missed")
    assert said(met=True, missed=[]) == (PASS, "1.25, to be ≥ 2")
    assert said(value=None) == (NOT_RUN, "")
    assert paper_evidence.target("host", tmp_path) == (NOT_RUN, "")


def test_the_verdicts_of_targets_are_those_of_the_file() -> None:
    for device in DEVICES:
        judged = (paper_evidence.load(ROOT / "paper" / "results" / device / "targets.json") or {}).get("targets", {})
        for name, found in judged.items():
            if "parts" in found:
                continue
            word = judge(CLAIMS[f"speed-{name.replace('_', '-')}"], ROOT, device, DEVICES[device])
            assert word is not None
            assert word.word == (PASS if found["met"] else FAIL if found["value"] is not None else NOT_RUN)


@pytest.mark.parametrize(
    ("report", "word"),
    [
        ("", NOT_RUN),
        ("80 variants launched and right\n", NOT_RUN),
        ("80 variants launched and right\n========= ERROR SUMMARY: 0 errors\n", PASS),
        ("80 variants launched and right\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors)\n", PASS),
        ("80 variants launched and right\n========= ERROR SUMMARY: 2 errors\n", FAIL),
        ("80 variants launched and right\n========= RACECHECK SUMMARY: 1 hazard displayed\n", FAIL),
        ("0 variants launched and right\n========= ERROR SUMMARY: 0 errors\n", FAIL),
        ("========= ERROR SUMMARY: 0 errors\n", FAIL),
    ],
)
def test_a_checker_passes_only_over_what_was_launched(tmp_path: Path, report: str, word: str) -> None:
    assert paper_evidence.sanitizer("memcheck", tmp_path) == (NOT_RUN, "")
    (tmp_path / "memcheck.txt").write_text(report)
    assert paper_evidence.sanitizer("memcheck", tmp_path)[0] == word


@pytest.mark.parametrize(
    ("total", "killed", "equivalent", "word"),
    [
        (0, 0, 0, NOT_RUN),
        (3, 3, 0, NOT_RUN),
        (150, 148, 2, PASS),
        (150, 150, 0, PASS),
        (150, 148, 1, FAIL),
        (3, 2, 0, FAIL),
    ],
)
def test_mutants_that_survive_fail(tmp_path: Path, total: int, killed: int, equivalent: int, word: str) -> None:
    assert paper_evidence.mutants(150, tmp_path) == (NOT_RUN, "")
    found = {"total": total, "killed": killed, "equivalent": [{}] * equivalent}
    (tmp_path / "mutants.json").write_text(json.dumps(found))
    assert paper_evidence.mutants(150, tmp_path)[0] == word


def test_learning_passes_only_within_the_bound_and_in_less_time(tmp_path: Path) -> None:
    def row(task: str, variant: str, us: float, passed: bool = True) -> dict[str, Any]:
        return {
            "task": task, "seed": 0, "variant": variant, "gate": {"passed": passed},
            "rollout_credit_epochs_us": [[7.0, us, 9.0]],
        }  # fmt: skip

    def verdict(*rows: dict[str, Any]) -> tuple[str, str]:
        (tmp_path / "learning.json").write_text(json.dumps({"rows": rows}))
        return paper_evidence.learned("learning", tmp_path)

    assert paper_evidence.learned("learning", tmp_path) == (NOT_RUN, "")
    ours, loop = row("cartpole", "rlscan", 2.0), row("cartpole", "loop", 4.0)
    assert verdict(ours) == (NOT_RUN, "")
    assert verdict(ours, loop) == ("PASS", "2.00 to 2.00 ×, 2 runs judged")
    others = (row("pendulum", "rlscan", 3.0), row("pendulum", "loop", 2.0))
    assert verdict(ours, loop, *others) == ("FAIL", "0.67 to 2.00 ×, 4 runs judged")
    outside = verdict(ours, loop, row("cartpole", "loop in float64", 1.0, passed=False))
    assert outside == ("FAIL", "2.00 to 2.00 ×, 3 runs judged, 1 outside the bound")
    assert verdict(ours, loop, row("cartpole", "cut is termination", 1.0, passed=False)) == verdict(ours, loop)


def test_every_cell_of_a_file_has_to_be_as_fast(tmp_path: Path) -> None:
    def row(name: str, steps: int, *us: float, passed: bool = True, what: str = "backward scan") -> dict[str, Any]:
        gate = {"passed": passed}
        return {"steps": steps, "what": what, "implementation": name, "gate": gate, "samples_us": [list(us)]}

    def verdict(*rows: dict[str, Any]) -> tuple[str, str]:
        (tmp_path / "spiking.json").write_text(json.dumps({"rows": rows}))
        return paper_evidence.faster(what, tmp_path)

    what = {"file": "spiking", "baseline": "loop", "where": {"what": "backward scan"}, "at_least": 3.0}
    assert paper_evidence.faster(what, tmp_path) == (NOT_RUN, "")
    assert verdict() == (NOT_RUN, "")
    assert verdict(row("rlscan", 8, 1.0), row("loop", 8, 9.0, 4.0, 3.5, what="all")) == (NOT_RUN, "")
    first = (row("rlscan", 8, 1.0, 2.0, 3.0), row("loop", 8, 8.0))
    assert verdict(*first) == ("PASS", "4.00 to 4.00 ×")
    assert verdict(*first, row("rlscan", 16, 2.0), row("loop", 16, 5.0)) == ("FAIL", "2.50 to 4.00 ×, 1 missed")
    assert verdict(*first, row("rlscan", 16, 2.0, passed=False), row("loop", 16, 50.0))[0] == "FAIL"
    laps = [{**x, "values_credit_epochs_us": [[[1.0, 1.0, us]]]} for x, us in zip(first, (1.0, 10.0), strict=True)]
    assert verdict(*laps) == ("PASS", "4.00 to 4.00 ×")
