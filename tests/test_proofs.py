"""Every statement is proved and every twin of it is rejected; and the machinery itself can fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sympy")

from rlscan.proofs.__main__ import main
from rlscan.proofs.registry import Case, Cases, Statement, Twin, check, run, statement
from rlscan.proofs.symbolic import UNDEFINED, Log, Reals, Symbols, minimum, same

import rlscan
from rlscan import proofs

SYMBOLS = Symbols(["x", "y", "clip", "w", "min(clip, w)", "min(clip, 1)"])
X, Y, CLIP, W = (SYMBOLS[name] for name in ("x", "y", "clip", "w"))


@pytest.mark.parametrize("claim", proofs.STATEMENTS, ids=lambda claim: claim.name)
def test_the_statement_is_proved_and_its_twins_are_rejected(claim: Statement) -> None:
    result = check(claim)
    assert result.proved, result.finding
    assert result.cases > 0
    assert not [twin for twin in result.twins if not twin.rejected]


WITH_FORMULAS = sorted(p.stem for p in Path(rlscan.__file__).parent.glob("*.py") if "\n@jit\n" in p.read_text())


@pytest.mark.parametrize("name", WITH_FORMULAS)
def test_every_file_with_a_formula_has_its_proofs(name: str) -> None:
    assert [claim for claim in proofs.STATEMENTS if claim.prove.__module__ == f"rlscan.proofs.{name}"]


def claim_of(prove: object, twins: tuple[Twin, ...]) -> Statement:
    known: list[Statement] = []
    return statement(scope="a test", twins=twins, into=known)(prove)  # type: ignore[arg-type]  # a stand-in for a statement


def square(power: int = 2, cases: int = 3) -> Cases:
    """x·x = x^2."""
    for _ in range(cases):
        product = X
        for _ in range(power - 1):
            product = product * X
        yield Case("square", X * X, product)


def test_a_twin_that_passes_breaks_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    right = claim_of(square, (Twin("cube", power=3),))
    wrong = claim_of(square, (Twin("cube", power=3), Twin("no different", power=2)))
    assert check(right).passed
    result = check(wrong)
    assert result.proved
    assert [twin.rejected for twin in result.twins] == [True, False]
    assert not result.passed
    assert main(statements=[right]) == 0
    assert main(statements=[right, wrong]) == 1
    assert "twin 'no different': passed, and should not" in capsys.readouterr().out


def test_a_twin_that_crashes_is_not_rejected() -> None:
    assert not check(claim_of(square, (Twin("no such part", missing=1),))).twins_rejected


def test_a_false_statement_breaks_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    def false() -> Cases:
        """x = y."""
        yield Case("always", X, X)
        yield Case("here", X, Y)

    claim = claim_of(false, (Twin("the same"),))
    result = check(claim)
    assert (result.proved, result.cases, result.finding) == (False, 2, "here: x against y")
    assert main(statements=[claim]) == 1
    assert "here: x against y" in capsys.readouterr().out


def test_a_statement_without_cases_is_not_proved() -> None:
    def empty(cases: int = 0) -> Cases:
        """Nothing."""
        return square(3, cases)

    result = check(claim_of(empty, (Twin("cube", cases=1),)))
    assert not result.proved
    assert result.finding == "no case"


def test_a_statement_needs_a_twin_and_a_name_of_its_own() -> None:
    known: list[Statement] = []
    with pytest.raises(ValueError, match="has no twin"):
        statement(scope="a test", twins=(), into=known)(square)
    statement(scope="a test", twins=(Twin("cube", power=3),), into=known)(square)
    with pytest.raises(ValueError, match="two statements"):
        statement(scope="a test", twins=(Twin("cube", power=3),), into=known)(square)


def test_progress_hears_of_every_result() -> None:
    claim = claim_of(square, (Twin("cube", power=3),))
    heard: list[str] = []
    results = run(lambda result: heard.append(result.name), [claim, claim])
    assert heard == [result.name for result in results] == ["square", "square"]


def test_an_unknown_word_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-statement"]) == 2
    assert "no-such-statement" in capsys.readouterr().err


def test_only_a_select_gets_rid_of_the_undefined() -> None:
    for value in (UNDEFINED + X, X - UNDEFINED, 0 * UNDEFINED, (X - X) * UNDEFINED, Reals.exp(UNDEFINED)):
        assert same(value, UNDEFINED)
        assert not same(value, X)
    assert same(Reals.where(False, UNDEFINED, X), X)
    assert not same(UNDEFINED, 0)
    assert UNDEFINED != UNDEFINED


def test_polynomials_are_compared_in_normal_form() -> None:
    assert same((X + Y) * (X - Y), X * X - Y * Y)
    assert same(X * 0.5 + 0.5 * X, X)
    assert same(X - X, 0.0)
    assert not same(X + 2.0**-60, X)
    assert 1e-45 * X != 0


def test_clips_of_symbols_are_minima() -> None:
    def clipped(log_ratio: object, clip: object) -> object:
        return Reals.where(log_ratio > Reals.log(clip), clip, Reals.exp(log_ratio))  # type: ignore[operator]  # symbols compare

    assert same(clipped(Log(W), CLIP), minimum(CLIP, W))
    assert same(clipped(Log(W), float("inf")), W)
    assert same(clipped(Log(W), 0), 0)
    assert same(clipped(0, 1), 1)
    assert same(clipped(Reals.log(0), CLIP), 0)
    assert same(clipped(UNDEFINED, CLIP), UNDEFINED)
    assert not same(minimum(CLIP, W), W)
    with pytest.raises(TypeError, match="only the minimum"):
        Reals.where(Log(W) > Log(CLIP), W, CLIP)


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_the_command_proves_with_and_without_the_interpreter(interpret: str) -> None:
    command = [sys.executable, "-m", "rlscan.proofs", "affine_scan"]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": interpret}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "7 of 7 statements proved" in done.stdout
