"""The claims: every piece of evidence is there, and a verdict says no more than its evidence does."""

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sympy")

from paper import claims as paper_claims
from paper import end_to_end
from paper.bench import tables, tomllib
from paper.claims import FAIL, KINDS, NOT_RUN, PASS, Verdict, certified, in_short, judge, measured, wanted
from paper.text import ABSENT
from paper.verdicts import evaluate
from rlscan import proofs

ROOT = Path(__file__).resolve().parents[1]
CLAIMS, DEVICES = paper_claims.load()
CERTIFIED = ("proof", "exhaustive", "fuzz")
every_claim = pytest.mark.parametrize("name", list(CLAIMS))
certified_claims = pytest.mark.parametrize("name", [n for n, claim in CLAIMS.items() if claim["kind"] in CERTIFIED])


def names_in(path: Path) -> set[str]:
    """What a reader can look for in a file: functions, classes and constants, or the keys of data."""
    if path.suffix == ".json":
        return set(json.loads(path.read_text()))
    if path.suffix == ".toml":
        return set(tomllib.loads(path.read_text()))
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


# What is declared


@every_claim
def test_every_piece_of_evidence_is_there(name: str) -> None:
    assert CLAIMS[name]["evidence"]
    for evidence in CLAIMS[name]["evidence"]:
        path, _, item = evidence.partition("::")
        assert (ROOT / path).exists(), evidence
        assert not item or item in names_in(ROOT / path), evidence
        if path.startswith("proofs/"):
            assert item in {statement.name for statement in proofs.STATEMENTS}, evidence


@every_claim
def test_a_claim_says_what_it_is_and_where_it_ends(name: str) -> None:
    claim = CLAIMS[name]
    sources = {"proof": None, "measured": "measured", "mutation": "mutants", "checker": "checker"}
    source = sources.get(claim["kind"], "certificate")
    brief = {"in_short", "not_covered_in_short"}
    expected = {"kind", "statement", "evidence", "scope", "not_covered", source, *brief} - {None}
    assert set(claim) - {"devices"} == expected
    assert claim["kind"] in KINDS
    assert set(claim.get("devices", [])) <= set(DEVICES)
    assert all(claim[field].strip() for field in ("statement", "scope", "not_covered", *brief))
    assert len(claim["in_short"]) <= 75
    assert len(claim["not_covered_in_short"]) <= 50
    if "target" in claim.get("measured", {}):
        assert claim["measured"]["target"] in evaluate([])
    elif "file" in claim.get("measured", {}):
        assert claim["measured"]["file"] in {part.file for part in end_to_end.parts().values()}
        assert claim["measured"]["baseline"] in end_to_end.NAMES["cuda"]
    elif "learned" in claim.get("measured", {}):
        assert claim["measured"]["learned"] == end_to_end.parts()["learning"].file
    elif claim["kind"] == "measured":
        assert claim["measured"]["table"] in tables()
        assert claim["measured"]["baseline"] in tables()[claim["measured"]["table"]]["implementations"]
        assert claim["measured"]["shape"] in tables()[claim["measured"]["table"]]["shapes"]


def test_every_proved_statement_is_evidence_of_a_claim() -> None:
    claimed = [evidence.partition("::")[2] for claim in CLAIMS.values() for evidence in claim["evidence"]]
    assert {statement.name for statement in proofs.STATEMENTS} <= set(claimed)


# Verdicts of certificates


def certificate_for(claim: dict[str, Any], paths: list[str]) -> dict[str, Any]:
    """All that the claim asks for, passed."""
    at_least = claim.get("certificate", {}).get("at_least", 1)
    names = [
        (kind, f"{name[:-1]}{k}" if name.endswith("*") else name)
        for kind, name in wanted(claim, paths)
        for k in range(at_least)
    ]
    entry = {"verdict": PASS, "cases": 3, "seconds": 0.1, "detail": ""}
    return {"claims": [{"claim": name, "kind": kind, **entry} for kind, name in names]}


@certified_claims
@pytest.mark.parametrize("device", list(DEVICES))
def test_no_evidence_is_not_run(name: str, device: str, tmp_path: Path) -> None:
    assert judge(CLAIMS[name], tmp_path, device, DEVICES[device]) == Verdict(NOT_RUN)


@certified_claims
def test_a_claim_passes_only_if_every_entry_is_there_and_passed(name: str) -> None:
    claim, paths = CLAIMS[name], ["portable", "interpreter"]
    whole = certificate_for(claim, paths)
    assert certified(claim, whole, paths).word == PASS
    for k, entry in enumerate(whole["claims"]):
        others = [*whole["claims"][:k], *whole["claims"][k + 1 :]]
        assert certified(claim, {"claims": [*others, {**entry, "verdict": FAIL}]}, paths).word == FAIL
        assert certified(claim, {"claims": [*others, {**entry, "verdict": NOT_RUN}]}, paths).word == NOT_RUN
        assert certified(claim, {"claims": [*others, {**entry, "cases": 0}]}, paths).word == NOT_RUN
        assert certified(claim, {"claims": others}, paths).word != PASS
        assert certified(claim, {"claims": [*others, {**entry, "kind": "another"}]}, paths).word != PASS


def test_a_run_that_died_fails_the_claim_whatever_it_is_called() -> None:
    claim, paths = CLAIMS["exact"], ["portable"]
    died = {"claim": "gae, portable", "kind": "exact", "verdict": FAIL, "cases": 0, "seconds": 0.0, "detail": "died"}
    certificate = certificate_for(claim, paths)
    assert certified(claim, {"claims": [*certificate["claims"], died]}, paths).word == FAIL
    assert certified(CLAIMS["bounded"], {"claims": [*certificate["claims"], died]}, paths).word == NOT_RUN


def test_the_names_are_those_that_the_verification_writes() -> None:
    from rlscan.verify.run import jobs
    from rlscan.verify.strategies import ESTIMATORS

    kinds = {job.kind for job in jobs("cpu", 8, 0)} | {"proof"}
    for claim in CLAIMS.values():
        if claim["kind"] in CERTIFIED:
            assert {kind for kind, _ in wanted(claim, ["portable"])} <= kinds
    exact = [name for _, name in wanted(CLAIMS["exact"], ["portable", "triton"])]
    assert len(exact) == 2 * len(ESTIMATORS)
    words = [statement.statement for statement in proofs.STATEMENTS]
    assert len(set(words)) == len(words)


# Verdicts of measurements

TABLE = {"table": "table3", "baseline": "doubling", "shape": [4096, 128], "at_least": 2.0}


def table_with(ratio: float, *, passed: bool = True) -> dict[str, Any]:
    """A result of table 3 in which rlscan is `ratio` times faster than the scan, everywhere."""
    rows = []
    for estimator in tables()["table3"]["estimators"]:
        for truncated in (False, True):
            for implementation, best in (("rlscan", 10.0), ("doubling", 10.0 * ratio)):
                gate = {"passed": passed or implementation != "rlscan"}
                key = {"estimator": estimator, "truncated": truncated, "num_envs": 4096, "seq_len": 128}
                rows.append({**key, "implementation": implementation, "gate": gate, "samples_us": [[best]]})
    return {"table": "table3", "rows": rows}


def test_a_ratio_is_read_from_the_result() -> None:
    assert measured(TABLE, table_with(2.5)) == Verdict(PASS, "2.50 to 2.50 ×")
    assert measured(TABLE, table_with(1.9)) == Verdict(FAIL, "1.90 to 1.90 ×, 12 missed")


def test_one_cell_below_the_target_fails_the_claim() -> None:
    result = table_with(2.5)
    row = next(row for row in result["rows"] if row["implementation"] == "doubling" and row["estimator"] == "retrace")
    row["samples_us"] = [[19.9]]
    assert measured(TABLE, result) == Verdict(FAIL, "1.99 to 2.50 ×, 1 missed")


def test_what_was_wrong_is_no_success() -> None:
    assert measured(TABLE, table_with(9.0, passed=False)).word == FAIL


def test_a_table_with_a_row_missing_is_not_run() -> None:
    result = table_with(2.5)
    for k in range(len(result["rows"])):
        row = result["rows"][k]
        rows = [*result["rows"][:k], *result["rows"][k + 1 :]]
        asked = row["estimator"] in paper_claims.TRUNCATES or not row["truncated"]
        assert measured(TABLE, {**result, "rows": rows}).word == (NOT_RUN if asked else PASS)
    assert measured(TABLE, None) == Verdict(NOT_RUN)
    assert measured({**TABLE, "shape": [4096, 256]}, result) == Verdict(NOT_RUN)


def test_the_papers_figures_are_the_target_where_it_has_them() -> None:
    scan, loop = (CLAIMS[f"table3-{name}"]["measured"] for name in ("scan", "loop"))
    assert paper_claims.target_of(scan, "gae", False) == 2.36
    assert paper_claims.target_of(scan, "gae", True) == 1.7
    assert paper_claims.target_of(loop, "gae", False) == 317
    assert paper_claims.target_of(loop, "gae", True) is None


# Rendering


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The smallest checkout that has claims."""
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "claims.toml").write_text((ROOT / "paper" / "claims.toml").read_text())
    (tmp_path / "README.md").write_text("above\n<!-- claims:begin -->\nstale words\n<!-- claims:end -->\nbelow\n")
    return tmp_path


def test_rendering_twice_changes_nothing_and_check_finds_what_is_stale(checkout: Path) -> None:
    assert paper_claims.main(["--check"], checkout) == 1
    assert "stale words" in (checkout / "README.md").read_text()
    assert paper_claims.main([], checkout) == 0
    text = (checkout / "README.md").read_text()
    assert text.startswith("above\n")
    assert text.endswith("\nbelow\n")
    assert "stale words" not in text
    assert paper_claims.main(["--check"], checkout) == 0
    assert paper_claims.main([], checkout) == 0
    assert (checkout / "README.md").read_text() == text


def test_without_results_nothing_passes(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper_claims.main([], checkout) == 0
    assert f"0 {PASS}, 0 {FAIL}" in capsys.readouterr().out
    assert PASS not in (checkout / "README.md").read_text()


def test_a_failed_claim_is_printed_and_sets_the_exit_code(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim, device = CLAIMS["cases"], DEVICES["cpu"]
    certificate = certificate_for(claim, device["paths"])
    certificate["claims"][0]["verdict"] = FAIL
    made_with = {"device": {"name": "a device"}, "versions": dict.fromkeys(("torch", "triton", "python"), "1.0")}
    state = {"commit": "0" * 40, "dirty": True, "seed": 0, "date": "2026-01-01T00:00:00+00:00"}
    folder = checkout / "paper" / "results" / "cpu"
    folder.mkdir(parents=True)
    (folder / "certificate.json").write_text(json.dumps({**certificate, **made_with, **state}))
    assert paper_claims.main([], checkout) == 1
    printed = capsys.readouterr().out
    assert any(line.split() == ["FAIL", "CPU", "fuzz", "cases", "1", "of", "2"] for line in printed.splitlines())
    assert "verify again" in printed
    readme = (checkout / "README.md").read_text()
    assert "FAIL, 1 of 2" in readme
    assert "with uncommitted changes" in readme


@pytest.mark.parametrize(
    ("note", "short"),
    [
        ("0.8, to be > 1 at each of 40 shapes, so to say: 9 of 39 missed", "0.8, to be > 1 …: 9 of 39 missed"),
        ("5.1, to be ≥ 5 (≥ 4 for prefix_sum), ten runs", "5.1, to be ≥ 5 …"),
        ("4.1, to be ≥ 3", "4.1, to be ≥ 3"),
        ("1, to be one verdict in ten runs", "1"),
        ("1, to be one verdict: 1 of 2 missed", "1: 1 of 2 missed"),
        ("85,200 cases", "85,200 cases"),
    ],
)
def test_the_readmes_verdict_is_the_same_in_fewer_words(note: str, short: str) -> None:
    assert in_short(Verdict(FAIL, note)) == f"FAIL, {short}"


def test_the_readme_has_every_claim_with_its_verdicts() -> None:
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| [")]
    rows = [row for row in rows if "paper/rendered/claims.md#" in row]
    assert len(rows) == len(CLAIMS)
    for row, (name, claim) in zip(rows, CLAIMS.items(), strict=True):
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert cells[0] == f"[{name}](paper/rendered/claims.md#{name})"
        for cell, (folder, device) in zip(cells[3:-1], DEVICES.items(), strict=True):
            verdict = judge(claim, ROOT, folder, device)
            assert cell.partition(",")[0] == (ABSENT if verdict is None else verdict.word)


def test_what_is_rendered_is_not_stale() -> None:
    stale = [path for path, text in paper_claims.documents(ROOT).items() if path.read_text() != text]
    assert not stale, "run make claims"


def test_the_reviewers_page_shows_one_line_of_each_verdict_and_the_counts(checkout: Path) -> None:
    shutil.copytree(ROOT / "paper" / "results" / "h200", checkout / "paper" / "results" / "h200")
    page = checkout / "paper" / "REVIEWERS.md"
    markers = ("claims", "certificate-cpu", "certificate-h200")
    page.write_text("\n".join(f"<!-- {name}:begin -->\n<!-- {name}:end -->" for name in markers))
    paper_claims.main([], checkout)
    blocks = re.findall(r"<!-- (\S+):begin -->\n\n```text\n(.*?)\n```", page.read_text(), re.DOTALL)
    shown = {name: body.splitlines() for name, body in blocks}
    reported = [line for _, line in paper_claims.reported(checkout)]
    *verdicts, dots, counts = shown["claims"]
    assert (dots, counts) == ("…", reported[-1])
    assert set(verdicts) < set(reported)
    words = [line.split("  ")[0] for line in verdicts]
    assert len(words) == len(set(words)) == len([count for count in re.findall(r"\d+", counts) if count != "0"])
    assert shown["certificate-cpu"] == ["no certificate yet"]
    certificate = json.loads((checkout / "paper" / "results" / "h200" / "certificate.json").read_text())
    (last,) = shown["certificate-h200"]
    assert last.endswith(f"{certificate['seconds']} s on {certificate['device']['name']}, seed {certificate['seed']}")
    assert last.startswith(f"{sum(entry['verdict'] == PASS for entry in certificate['claims'])} PASS")
    assert paper_claims.main(["--check"], checkout) == 0


def test_links_of_the_rendered_page_lead_somewhere() -> None:
    page = ROOT / "paper" / "rendered" / "claims.md"
    targets = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert targets
    assert all((page.parent / target).exists() for target in targets)
