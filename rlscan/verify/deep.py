"""`rlscan verify --deep`: what takes longer than a verification, and a page of all of it.

Each step is a command of the checkout, run in a process of its own; what it finds becomes claims of the certificate. A
step that this machine cannot do is NOT RUN, with the reason.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .run import Claim, verdict

ROOT = Path(__file__).parents[2]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
KINDS_UNDER_TOOLS = 6  # kinds of call an estimator: some tools slow a kernel down a hundred times
LIMIT = 3600.0  # seconds a step may take
# a step decides by itself whether it runs kernels in the interpreter: windows of 2^20 steps would take hours there
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}


@dataclass(frozen=True)
class Step:
    """A command, and how its output file (or its exit code) becomes a claim."""

    claim: str
    kind: str
    command: Callable[[Path], list[str]]  # from the file to write to
    read: Callable[[Path, int], tuple[int, bool, str]]  # file and exit code → cases, passed, detail
    missing: str = ""  # why this machine cannot do it


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def suite(claim: str, files: list[str], marker: str = "", missing: str = "") -> Step:
    """Test files of the checkout as a step; skipped tests are counted, and no test that ran is no pass."""

    def command(out: Path) -> list[str]:
        select = ["-m", marker] if marker else []
        return python("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={out}", *select, *files)

    return Step(claim, "tests", command, read_tests, missing)


def mutants(out: Path, jobs: int) -> list[str]:
    """The committed verdicts on files that are as they were are kept; all others are judged."""
    known = ROOT / "paper/results/mutants.json"
    if known.exists():
        shutil.copyfile(known, out)
    return python("-m", "paper.mutants", "--jobs", str(jobs), "--out", str(out))


def read_tests(out: Path, code: int) -> tuple[int, bool, str]:
    found = next(ElementTree.parse(out).getroot().iter("testsuite"))
    total, skipped = int(found.get("tests", 0)), int(found.get("skipped", 0))
    failed = int(found.get("failures", 0)) + int(found.get("errors", 0))
    ran = total - skipped
    return ran, code == 0 and ran > 0 and not failed, f"{ran - failed} of {ran} tests passed, {skipped} not run here"


def read_mutants(out: Path, code: int) -> tuple[int, bool, str]:
    found = json.loads(out.read_text())
    equivalent = len(found["equivalent"])
    alive = found["total"] - found["killed"] - equivalent
    detail = f"{found['killed']} of {found['total']} killed, {equivalent} equivalent with a reason each, {alive} alive"
    return found["total"], code == 0 and alive == 0, detail


def read_tightness(out: Path, code: int) -> tuple[int, bool, str]:
    rows = json.loads(out.read_text())["rows"]
    share = max(row["share"] for row in rows)
    return len(rows), code == 0 and share <= 1, f"the largest error is {share:.3f} of its bound"


def steps(device: str, jobs: int) -> Iterator[Step]:
    """Every step, in the order in which a reader wants to know."""
    on_gpu = device.startswith("cuda")
    no_checkout = "" if (ROOT / "paper").is_dir() else "the checkout's paper/ and tests/ are not here"
    no_pytest = "" if importlib.util.find_spec("pytest") else "pytest is not installed"
    no_gpu = "" if on_gpu else "no GPU was used"
    yield suite(
        "Compiled kernels: graphs, streams, addresses past 2^31, canaries, bits that repeat in any company.",
        ["tests/test_gpu.py", "tests/test_long_windows.py", "tests/test_launch.py"],
        marker="gpu",
        missing=no_checkout or no_pytest or no_gpu,
    )
    for tool in TOOLS:
        there = shutil.which("compute-sanitizer") is not None
        yield Step(
            f"{tool} finds nothing over the kernel's variants at odd sizes.",
            "sanitizer",
            lambda out, tool=tool: [  # type: ignore[misc]  # `tool`, bound as a default, has no type
                *("compute-sanitizer", "--tool", tool, "--error-exitcode", "1", "--log-file", str(out)),
                *python("tests/sanitize.py", str(KINDS_UNDER_TOOLS)),
            ],
            lambda out, code: (KINDS_UNDER_TOOLS * 8, code == 0, out.read_text().strip().splitlines()[-1][:200]),
            no_checkout or no_gpu or ("" if there else "compute-sanitizer is not on the PATH"),
        )
    peers = [name for name in ("rlax", "torchrl", "stable_baselines3") if importlib.util.find_spec(name)]
    yield suite(
        "Other libraries agree where they mean the same.",
        ["tests/test_peers.py"],
        missing=no_checkout or no_pytest or ("" if peers else "no peer is installed: make peers"),
    )
    yield Step(
        "No error in windows of up to 2^20 steps passes its a-priori bound.",
        "bounded",
        lambda out: python("-m", "paper.tightness", "--out", str(out)),
        read_tightness,
        no_checkout,
    )
    yield Step(
        "Every small fault made by rule in the source is rejected, or changes nothing for a written reason.",
        "mutants",
        lambda out: mutants(out, jobs),
        read_mutants,
        no_checkout,
    )


def take(step: Step, progress: Callable[[str], None]) -> Claim:
    if step.missing:
        return Claim(step.claim, step.kind, 0, "NOT RUN", 0.0, step.missing)
    progress(f"[deep] {step.claim}")
    start = time.perf_counter()
    said = ""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found"
        try:
            done = subprocess.run(
                step.command(out), cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT
            )
            said = " ".join(done.stderr.strip().splitlines()[-1:])
            cases, passed, detail = step.read(out, done.returncode)
        except subprocess.TimeoutExpired:
            cases, passed, detail = 0, False, f"not done within {LIMIT:.0f} s"
        except (OSError, ValueError, KeyError, IndexError, StopIteration, ElementTree.ParseError) as error:
            cases, passed, detail = 0, False, f"{type(error).__name__}: {error}; {said}"[:300]
    return Claim(step.claim, step.kind, cases, verdict(passed), time.perf_counter() - start, detail)


def page(certificate: dict[str, Any]) -> str:
    """The certificate as a page to read in two minutes."""
    claims: list[dict[str, Any]] = certificate["claims"]
    count = {v: sum(claim["verdict"] == v for claim in claims) for v in ("PASS", "FAIL", "NOT RUN")}
    device, versions = certificate["device"], certificate["versions"]
    lines = [
        "# Certificate",
        "",
        f"**{'PASSED' if certificate['passed'] else 'FAILED'}**: {count['PASS']} claims pass, {count['FAIL']} fail, "
        f"{count['NOT RUN']} were not run on this machine.",
        "",
        f"{device['name']}, {', '.join(f'{name} {version}' for name, version in versions.items())}; commit "
        f"{certificate['commit'][:12]}{' with changes' if certificate['dirty'] else ''}, seed {certificate['seed']}, "
        f"{certificate['examples']:,} fuzz examples an estimator and kind, {certificate['date']}, "
        f"{certificate['seconds']:.0f} s.",
        "",
        "| kind | claims | cases | verdict |",
        "| --- | ---: | ---: | --- |",
    ]
    for kind in dict.fromkeys(claim["kind"] for claim in claims):
        of_kind = [claim for claim in claims if claim["kind"] == kind]
        verdicts = {claim["verdict"] for claim in of_kind}
        worst = next(v for v in ("FAIL", "NOT RUN", "PASS") if v in verdicts)
        cases = sum(claim["cases"] for claim in of_kind)
        said = worst if len(verdicts) == 1 or worst == "FAIL" else "PASS, some NOT RUN"
        lines.append(f"| {kind} | {len(of_kind)} | {cases:,} | {said} |")
    for title, wanted in (("Failed", "FAIL"), ("Not run on this machine", "NOT RUN"), ("Passed", "PASS")):
        found = [claim for claim in claims if claim["verdict"] == wanted]
        if found:
            lines += ["", f"## {title}", "", "| claim | kind | cases | evidence |", "| --- | --- | ---: | --- |"]
            lines += [f"| {cell(c['claim'])} | {c['kind']} | {c['cases']:,} | {cell(c['detail'])} |" for c in found]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text within a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")
