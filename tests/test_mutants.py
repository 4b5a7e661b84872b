"""Mutants: the choice can be repeated, each is another valid program, bad ones are killed, and the results add up."""

import ast
import json
import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("hypothesis", reason="NOT RUN: hypothesis is not installed")

from paper.mutants import judge, report
from paper.mutants.generate import FILES, PACKAGE, choose, mutants, original
from paper.mutants.rules import RULES
from paper.mutants.runner import Work, judged

ROOT = Path(__file__).resolve().parents[1]
CHOSEN = choose(170, 0)


def test_the_choice_is_that_of_the_seed() -> None:
    assert choose(60, 0) == CHOSEN[:60]
    assert choose(60, 1) != CHOSEN[:60]


def test_the_choice_is_spread_over_files_and_rules() -> None:
    assert len(CHOSEN) == 170
    for number, wanted in ((Counter(m.file for m in CHOSEN), FILES), (Counter(m.rule for m in CHOSEN), RULES)):
        assert set(number) == set(wanted)
        assert min(number.values()) >= 3
    assert max(Counter(m.rule for m in CHOSEN).values()) <= len(CHOSEN) / 5


def test_names_are_of_one_mutant_each() -> None:
    for file in FILES:
        names = Counter(mutant.name for mutant in mutants(file))
        assert max(names.values()) == 1


def test_a_mutant_is_another_valid_program() -> None:
    for mutant in CHOSEN:
        assert ast.dump(ast.parse(mutant.source())) != ast.dump(ast.parse(original(mutant.file))), mutant.name
        mine, theirs = original(mutant.file).splitlines(), mutant.source().splitlines()
        assert mine[: mutant.line - 1] == theirs[: mutant.line - 1], mutant.name


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="NOT RUN: this system has no fork")


@needs_fork
def test_a_bad_mutant_is_killed_and_an_unchanged_package_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(judge.LIMIT, "exhaustive", 3)
    gae, affine = original("gae.py"), original("affine.py")
    texts = [
        ("gae.py", gae + "\n# nothing\n"),
        ("gae.py", gae.replace("return x, x + value", "return x, x - value")),
        ("gae.py", gae.replace("return x, x + value", "return x, no_such_name")),
        ("affine.py", affine.replace("beta_b * beta_a", "beta_b + beta_a")),
        ("gae.py", gae.replace("return x, x + value", "while True: pass\n    return x, x + value")),
        ("gae.py", gae.replace("return x, x + value", "import os; os.abort()\n    return x, x + value")),
    ]
    work = [Work(file, text, ("exhaustive", "exact")) for file, text in texts]
    verdicts = dict(judged(work, 2))
    killers = [(verdicts[k].killed_by or "nothing").split(":")[0] for k in range(len(work))]
    assert killers == ["nothing", "exhaustive", "exhaustive", "exact", "time limit", "crash"]
    assert verdicts[0].examples > 200


@needs_fork
def test_proofs_and_tests_kill_as_well() -> None:
    lambda_lost = Work("gae.py", original("gae.py").replace("gamma * lambda_", "gamma"), ("proof",))
    valid_lost = Work("boundaries.py", original("boundaries.py").replace("~reset", "reset"), ("near test",))
    ((_, proved),), ((_, tested),) = judged([lambda_lost], 1), judged([valid_lost], 1)
    assert (proved.killed_by or "").startswith("proof: gae_is_a_backward_affine_scan")
    assert (tested.killed_by or "").startswith("near test: tests/test_boundaries.py")


# What is committed


def test_the_results_add_up() -> None:
    result = json.loads(report.OUT.read_text())
    found = result["mutants"]
    verdicts = Counter(mutant["verdict"] for mutant in found)
    assert result["total"] == len(found) >= 150
    assert result["total"] == result["killed"] + len(result["equivalent"])
    assert (result["killed"], len(result["equivalent"])) == (verdicts["killed"], verdicts["equivalent"])
    assert not result["survived"]
    assert len({mutant["mutant"] for mutant in found}) == len(found)
    assert {mutant["file"] for mutant in found} == {f"rlscan/{file}" for file in FILES}
    assert {mutant["operator"] for mutant in found} == set(RULES)
    for mutant in found:
        assert (ROOT / mutant["file"]).is_file()
        assert mutant["before"] != mutant["after"]
        assert (mutant["killed_by"] is not None) == (mutant["verdict"] == "killed")
    assert len(result["control"]) == 2
    assert all(control["killed_by"] is None for control in result["control"].values())


def test_every_equivalent_mutant_has_its_own_reason() -> None:
    result = json.loads(report.OUT.read_text())
    reasons = report.reasons()
    assert {found["mutant"]: found["reason"] for found in result["equivalent"]} == reasons
    assert all(len(reason) > 40 for reason in reasons.values())
    assert len(reasons) == len({*reasons.values()})


def test_what_is_left_out_exists() -> None:
    from paper.mutants.generate import HINTS, ONLY_ON_A_GPU

    for file, names in ONLY_ON_A_GPU.items():
        assert all(name in (PACKAGE / file).read_text() for name in names)
    assert all(hint in "".join(map(original, FILES)) for hint in HINTS)
