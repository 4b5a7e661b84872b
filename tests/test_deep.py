"""`verify --deep`: what a step finds becomes a claim, whatever goes wrong; the page says what was not run."""

import json
from pathlib import Path

import pytest

from rlscan.verify import deep
from rlscan.verify.deep import Step, page, python, read_mutants, read_tests, suite, take


def silent(line: str) -> None:
    pass


def step(code: str, read: object = None, missing: str = "") -> Step:
    def found(out: Path, status: int) -> tuple[int, bool, str]:
        return int(out.read_text()), status == 0, "read"

    return Step("a claim", "a kind", lambda out: python("-c", code, str(out)), read or found, missing)  # type: ignore[arg-type]  # `read` is any reader


WRITE = "import sys; open(sys.argv[1], 'w').write('7')"


def test_a_step_that_finds_something_is_a_claim() -> None:
    claim = take(step(WRITE), silent)
    assert (claim.cases, claim.verdict, claim.detail) == (7, "PASS", "read")
    assert take(step(f"{WRITE}; sys.exit(3)"), silent).verdict == "FAIL"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("raise SystemExit('the disk is full')", "the disk is full"),  # writes nothing
        ("import sys; open(sys.argv[1], 'w').write('what?')", "ValueError"),  # writes what cannot be read
    ],
)
def test_a_step_that_goes_wrong_fails_its_claim(code: str, says: str) -> None:
    claim = take(step(code), silent)
    assert claim.verdict == "FAIL"
    assert says in claim.detail


def test_a_step_decides_by_itself_about_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    claim = take(
        step("import os, sys; open(sys.argv[1], 'w').write(str(int('TRITON_INTERPRET' in os.environ)))"), silent
    )
    assert claim.cases == 0


def test_a_step_that_hangs_fails_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "LIMIT", 0.5)
    claim = take(step("import time; time.sleep(60)"), silent)
    assert (claim.verdict, claim.detail) == ("FAIL", "not done within 0 s")


def test_what_a_machine_cannot_do_is_not_run() -> None:
    claim = take(step("raise SystemExit(1)", missing="no GPU was used"), silent)
    assert (claim.verdict, claim.detail) == ("NOT RUN", "no GPU was used")


def test_tests_that_were_all_skipped_are_no_pass(tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"
    for counts, passed in (((9, 0, 2), True), ((9, 0, 9), False), ((9, 1, 0), False)):
        total, failures, skipped = counts
        attributes = f'tests="{total}" failures="{failures}" errors="0" skipped="{skipped}"'
        out.write_text(f"<testsuites><testsuite {attributes}/></testsuites>")
        assert read_tests(out, 0)[:2] == (total - skipped, passed)


@pytest.mark.parametrize(("three", "word"), [(3, "PASS"), (4, "FAIL")])
def test_a_file_of_tests_as_a_step(tmp_path: Path, three: int, word: str) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    assert 1 + 2 == {three}\n")
    claim = take(suite("it holds", [str(tmp_path / "test_it.py")]), silent)
    assert (claim.cases, claim.verdict) == (1, word), claim.detail


def test_a_mutant_that_lives_fails_the_claim(tmp_path: Path) -> None:
    out = tmp_path / "mutants.json"
    for killed, passed in ((8, True), (7, False)):
        out.write_text(json.dumps({"total": 10, "killed": killed, "equivalent": [{}, {}]}))
        assert read_mutants(out, 0)[:2] == (10, passed)


def test_every_step_says_what_it_needs() -> None:
    found = list(deep.steps("cpu", 1))
    assert {s.kind for s in found} >= {"tests", "sanitizer", "mutants", "bounded"}
    assert all(s.missing for s in found if "GPU" in s.claim or s.kind == "sanitizer")
    assert len({s.claim for s in found}) == len(found)


def test_the_page_leads_with_what_matters() -> None:
    claim = {"kind": "exact", "cases": 5, "seconds": 1.0, "detail": "a | b"}
    certificate = {
        "passed": False,
        "device": {"name": "CPU"},
        "versions": {"torch": "2"},
        "commit": "0123456789abcdef",
        "dirty": False,
        "date": "2026-01-01",
        "seed": 0,
        "examples": 10,
        "seconds": 3.2,
        "claims": [
            {**claim, "claim": "it holds", "verdict": "PASS"},
            {**claim, "claim": "it holds there", "verdict": "NOT RUN"},
            {**claim, "claim": "it breaks", "verdict": "FAIL"},
        ],
    }
    text = page(certificate)
    assert "**FAILED**: 1 claims pass, 1 fail, 1 were not run on this machine." in text
    assert text.index("it breaks") < text.index("it holds there") < text.index("| it holds |")
    assert "a \\| b" in text
