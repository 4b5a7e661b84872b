"""The claims: `python -m paper.claims` says PASS, FAIL or NOT RUN for each and renders them.

README.md shows them in short between `<!-- claims:begin -->` and `<!-- claims:end -->`, paper/rendered/claims.md in
full. With `--check` nothing is written and what is stale fails. A verdict comes from paper/results: what is not there
is NOT RUN.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from paper import evidence
from paper.baselines import TRUNCATES
from paper.bench import PAPER, original, tables, tomllib
from paper.render import SCAN, Cell
from paper.text import ABSENT, PEER_GPU, between, kept, markdown, number, told

CODE = ("rlscan", "reference", "proofs")  # what a certificate is about
PASS, FAIL, NOT_RUN = "PASS", "FAIL", "NOT RUN"
KINDS = ("proof", "exhaustive", "fuzz", "mutation", "checker", "measured")

Claim = dict[str, Any]
Device = dict[str, Any]


class Verdict(NamedTuple):
    word: str
    note: str = ""  # how many cases, or which ratios

    def __str__(self) -> str:
        return f"{self.word}, {self.note}" if self.note else self.word


def load(root: Path = PAPER.parent) -> tuple[dict[str, Claim], dict[str, Device]]:
    """The claims and devices of paper/claims.toml, by name."""
    declared = tomllib.loads((root / "paper" / "claims.toml").read_text())
    return declared["claim"], declared["device"]


def read(root: Path, device: str, name: str) -> dict[str, Any] | None:
    """A device's certificate or table, or None where it is not there."""
    path = root / "paper" / "results" / device / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


# Verdicts


def judge(claim: Claim, root: Path, name: str, device: Device) -> Verdict | None:
    """The verdict on one device; None where the claim is not about it."""
    if name not in claim.get("devices", [name]):
        return None
    results = root / "paper" / "results"
    if claim["kind"] == "mutation":
        return Verdict(*evidence.mutants(claim["mutants"]["at_least"], results))
    if claim["kind"] == "checker":
        return Verdict(*evidence.sanitizer(claim["checker"]["tool"], results / name))
    if claim["kind"] == "measured":
        what = claim["measured"]
        if "target" in what:
            return Verdict(*evidence.target(what["target"], results / name))
        if "file" in what:
            return Verdict(*evidence.faster(what, results / name))
        if "learned" in what:
            return Verdict(*evidence.learned(what["learned"], results / name))
        return measured(what, read(root, name, what["table"]))
    certificate = read(root, name, "certificate")
    return Verdict(NOT_RUN) if certificate is None else certified(claim, certificate, device["paths"])


def wanted(claim: Claim, paths: list[str]) -> Iterator[tuple[str, str]]:
    """(kind, name) of every entry that the certificate needs; a name that ends in * stands for all that begin so."""
    from rlscan.verify.strategies import ESTIMATORS

    if claim["kind"] == "proof":
        yield from (("proof", statements().get(name, name)) for name in map(proof_name, claim["evidence"]) if name)
        return
    pattern = claim["certificate"]
    names = [pattern["claim"].format(estimator=estimator, path=path) for estimator in ESTIMATORS for path in paths]
    yield from ((pattern["kind"], name) for name in dict.fromkeys(names))


def certified(claim: Claim, certificate: dict[str, Any], paths: list[str]) -> Verdict:
    """FAIL if any entry failed, NOT RUN if any is missing, did not run or tried nothing, else PASS."""
    entries, missing = [], False
    if claim["kind"] != "proof":  # what died says so under a name of its own
        alike = [entry for entry in certificate["claims"] if entry["kind"] == claim["certificate"]["kind"]]
        if any(entry["verdict"] == FAIL for entry in alike):
            return Verdict(FAIL, f"{sum(entry['verdict'] == FAIL for entry in alike)} of {len(alike)}")
    for kind, name in wanted(claim, paths):
        found = [entry for entry in certificate["claims"] if entry["kind"] == kind and matches(entry["claim"], name)]
        missing = missing or not found
        entries += found
    verdicts = [entry["verdict"] for entry in entries]
    if FAIL in verdicts:
        return Verdict(FAIL, f"{verdicts.count(FAIL)} of {len(entries)}")
    if missing or not all(entry["verdict"] == PASS and entry["cases"] > 0 for entry in entries):
        return Verdict(NOT_RUN)
    at_least = claim.get("certificate", {}).get("at_least")
    if at_least is None:
        return Verdict(PASS, f"{sum(entry['cases'] for entry in entries):,} cases")
    return Verdict(PASS if len(entries) >= at_least else FAIL, f"{len(entries)} of {len(entries)} rejected")


def measured_at(claim: Claim, root: Path, name: str) -> str:
    """The commit of the run that a verdict is read from; empty where that is the certificate's."""
    if claim["kind"] == "checker":
        report = root / "paper" / "results" / name / f"{claim['checker']['tool']}.txt"
        said = re.search(r"\bcommit (\w+)", report.read_text()) if report.exists() else None
        return said[1] if said else ""
    if claim["kind"] == "mutation":
        found = evidence.load(root / "paper" / "results" / "mutants.json")
    elif claim["kind"] == "measured":
        what = claim["measured"]
        found = read(
            root, name, "targets" if "target" in what else what.get("file") or what.get("learned") or what["table"]
        )
    else:
        return ""
    return str((found or {}).get("commit", ""))[:7]


def matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def measured(what: dict[str, Any], result: dict[str, Any] | None) -> Verdict:
    """PASS if rlscan reached the ratio in every cell that the claim is about; the ratios are those of the table."""
    if result is None:
        return Verdict(NOT_RUN)
    baseline, ratios, missed = what["baseline"], [], 0
    for estimator in tables()[what["table"]]["estimators"]:
        cell = Cell(result, estimator, tuple(what["shape"]))
        for truncated in (False, True) if estimator in TRUNCATES else (False,):
            target = target_of(what, estimator, truncated)
            if target is None:
                continue
            if not {("rlscan", truncated), (baseline, truncated)} <= cell.rows.keys():
                return Verdict(NOT_RUN)
            ratio = cell.ratio(baseline, truncated)  # None where one of the two is wrong and was not timed
            missed += ratio is None or ratio < target
            ratios += [] if ratio is None else [ratio]
    note = f"{number(min(ratios))} to {number(max(ratios))} ×" if ratios else "nothing timed"
    return Verdict(FAIL, f"{note}, {missed} missed") if missed else Verdict(PASS, note)


def target_of(what: dict[str, Any], estimator: str, truncated: bool) -> float | None:
    """The ratio to reach; None where the paper has no figure."""
    if what["at_least"] != "paper":
        return float(what["at_least"])
    peer = original()["table3"]["rows"][estimator][PEER_GPU]
    if what["baseline"] == SCAN:
        figure = peer["vs_compiled_scan_truncated" if truncated else "vs_compiled_scan"]
    else:
        figure = None if truncated else peer[f"vs_{what['baseline']}"]
    return None if figure is None else float(figure)


# Evidence


@functools.cache
def statements() -> dict[str, str]:
    """The words of every proved statement, as the certificate has them."""
    from rlscan.proofs import STATEMENTS

    return {statement.name: statement.statement for statement in STATEMENTS}


def proof_name(item: str) -> str | None:
    path, _, name = item.partition("::")
    return name if path.startswith("proofs/") and name else None


# Rendering


def verdicts(claim: Claim, root: Path, devices: dict[str, Device]) -> list[Verdict | None]:
    return [judge(claim, root, folder, device) for folder, device in devices.items()]


def table(root: Path) -> str:
    """README.md's: every claim and verdict, in few words."""
    claims, devices = load(root)
    head = ["claim", "in short", "kind", *(device["title"] for device in devices.values()), "not covered"]
    body = [
        [
            f"[{name}](paper/rendered/claims.md#{name})",
            claim["in_short"],
            claim["kind"],
            *(in_short(verdict) for verdict in verdicts(claim, root, devices)),
            claim["not_covered_in_short"],
        ]
        for name, claim in claims.items()
    ]
    return markdown(head, body).replace("---:", "---")


def in_short(verdict: Verdict | None) -> str:
    """Of a limit the number alone: "0.8, to be > 1 at each shape: 9 of 39 missed" has `…` for "at each shape"."""
    if verdict is None:
        return ABSENT

    def shortened(limit: re.Match[str]) -> str:
        number, rest = limit.groups()
        return f", to be {number}{' …' if rest else ''}" if number else ""

    return str(verdict._replace(note=re.sub(r", to be ([<>≤≥] [\d.]+)?([^:]*)", shortened, verdict.note)))


def page(root: Path) -> str:
    """paper/rendered/claims.md: all of it."""
    claims, devices = load(root)
    parts = ["# The claims, their scope and their evidence", provenance(root)]
    for name, claim in claims.items():
        said = zip(devices.items(), verdicts(claim, root, devices), strict=True)
        words = "; ".join(
            f"{device['title']}: {full(claim, verdict, root, folder)}" for (folder, device), verdict in said
        )
        evidence = ", ".join(link(item) for item in claim["evidence"])
        parts.append(
            f"## {name}\n\n{claim['statement']}\n\n- kind: {claim['kind']}\n- verdict: {words}\n"
            f"- scope: {claim['scope']}\n- not covered: {claim['not_covered']}\n- evidence: {evidence}"
        )
    return "\n\n".join(parts) + "\n"


def full(claim: Claim, verdict: Verdict | None, root: Path, folder: str) -> str:
    """A verdict and, unless it is the certificate's, the commit that it is about."""
    if verdict is None:
        return ABSENT
    commit = measured_at(claim, root, folder) if verdict.word != NOT_RUN else ""
    return f"{verdict} (commit {commit})" if commit else str(verdict)


def link(item: str) -> str:
    """A link from paper/rendered/."""
    path, _, name = item.partition("::")
    return f"[{name or path}](../../{path})"


def provenance(root: Path) -> str:
    """What certified what, on each device."""
    parts = []
    for folder, device in load(root)[1].items():
        certificate = read(root, folder, "certificate")
        if certificate is None:
            parts.append(f"{device['title']}: no certificate yet.")
            continue
        versions = ", ".join(f"{name} {certificate['versions'][name]}" for name in ("torch", "triton", "python"))
        changes = " with uncommitted changes" if certificate["dirty"] else ""
        parts.append(
            f"{device['title']} ({', '.join(device['paths'])}): {certificate['device']['name']}, {versions}, commit "
            f"{certificate['commit'][:12]}{changes}, seed {certificate['seed']}, {certificate['date']}."
        )
    return " ".join(parts)


def documents(root: Path) -> dict[Path, str]:
    """Every rendered file of the checkout at `root`, as it should be."""
    from paper import reviewers  # here, because it reads this module

    readme = root / "README.md"
    more = (
        "That is verification; what is measured, mutated or checked by a tool may be of another commit. A claim's name "
        "leads to its full wording, scope and evidence, and that commit."
    )
    text = between(readme.read_text(), "claims", f"{table(root)}\n\n{provenance(root)} {more}")
    return {readme: text, root / "paper" / "rendered" / "claims.md": page(root), **reviewers.documents(root)}


def changed_since(commit: str, root: Path) -> bool | None:
    """Whether the code differs from what was certified; None where git can't tell."""
    command = ["git", "-C", str(root), "diff", "--quiet", commit, "--", *CODE]
    try:
        code = subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:
        return None
    return {0: False, 1: True}.get(code)


def reported(root: Path) -> Iterator[tuple[str, str]]:
    """The word and the printed line of every verdict, then the line of their counts, whose word is empty."""
    claims, devices = load(root)
    counts = dict.fromkeys((PASS, FAIL, NOT_RUN), 0)
    for name, claim in claims.items():
        for device, verdict in zip(devices.values(), verdicts(claim, root, devices), strict=True):
            if verdict is not None:
                counts[verdict.word] += 1
                line = f"{verdict.word:<8} {device['title']:<5} {claim['kind']:<11} {name:<22} {verdict.note}"
                yield verdict.word, line.rstrip()
    yield "", ", ".join(f"{count} {word}" for word, count in counts.items())


def report(root: Path) -> int:
    """Prints every verdict; 1 if any is FAIL."""
    words = set()
    for word, line in reported(root):
        print(line)
        words.add(word)
    for folder, device in load(root)[1].items():
        certificate = read(root, folder, "certificate")
        if certificate is not None and changed_since(certificate["commit"], root) is not False:
            print(f"{device['title']}: the code is not, or may not be, that of the certificate's commit; verify again")
    return int(FAIL in words)


def main(argv: list[str] | None = None, root: Path = PAPER.parent) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.claims", description="Judge and render the claims.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a rendered file is stale")
    args = parser.parse_args(argv)
    code = 0 if args.check else report(root)
    stale = [path for file, text in documents(root).items() for path in kept(file, text, write=not args.check)]
    return told(stale, root, check=args.check) or code


if __name__ == "__main__":
    sys.exit(main())
