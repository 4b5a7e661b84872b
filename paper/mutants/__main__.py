"""`python -m paper.mutants [--count N] [--seed S] [--jobs J] [--out FILE]`: judges mutants, writes what became of them.

A mutant with a reason in equivalent.toml goes through all stages but the last.
Resumable: what is in the file and was killed or is equivalent is kept, as long as the mutated file is the same; what
survived is judged again. The exit code is 1 if a mutant survived without a reason, or the unchanged package failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

from paper.mutants.generate import FILES, ONLY_ON_A_GPU, Mutant, choose, original
from paper.mutants.judge import SHORT, Verdict
from paper.mutants.report import OUT, ROOT, reasons
from paper.mutants.runner import Work, judged
from rlscan.verify.environment import environment

CONTROLS = ("engine/kernel.py", "affine.py")  # unchanged, a file of each kind goes through its stages


def digest(file: str) -> str:
    """Of the file that is mutated: a verdict on another text of it says nothing about this one."""
    return hashlib.sha256(original(file).encode()).hexdigest()[:16]


def everything() -> str:
    """A digest of the package and of all that verifies it here."""
    whole = hashlib.sha256()
    for folder in ("rlscan", "reference", "proofs", "tests", "paper/mutants"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.stem in ("__main__", "report", "test_mutants"):
                continue
            whole.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()[:16]


def entry(mutant: Mutant, verdict: Verdict, commit: str, reason: str | None) -> dict[str, Any]:
    killed = verdict.killed_by is not None
    return {
        "mutant": mutant.name,
        "file": f"rlscan/{mutant.file}",
        "function": mutant.function,
        "line": mutant.line,
        "operator": mutant.rule,
        "before": mutant.before,
        "after": mutant.after,
        "verdict": "killed" if killed else "equivalent" if reason else "survived",
        "killed_by": verdict.killed_by,
        "detail": verdict.detail,
        "examples": verdict.examples,
        "seconds": verdict.seconds,
        "commit": commit,
        "source": digest(mutant.file),
    }


def summary(entries: list[dict[str, Any]], why: Mapping[str, str]) -> dict[str, Any]:
    def named(verdict: str) -> list[str]:
        return [found["mutant"] for found in entries if found["verdict"] == verdict]

    return {
        "total": len(entries),
        "killed": len(named("killed")),
        "equivalent": [{"mutant": name, "reason": why[name]} for name in named("equivalent")],
        "survived": named("survived"),
        "mutants": entries,
    }


def kept(out: Path, mutants: list[Mutant], why: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What an earlier run found out and still holds, by the mutant's name."""
    if not out.exists():
        return {}
    known = {found["mutant"]: found for found in json.loads(out.read_text())["mutants"]}
    found = {}
    for mutant in mutants:
        old = known.get(mutant.name)
        if old and old["source"] == digest(mutant.file):
            if old["verdict"] != "killed":  # it went through everything: what has changed is whether there is a reason
                old["verdict"] = "equivalent" if mutant.name in why else "survived"
            if old["verdict"] != "survived":
                found[mutant.name] = {**old, "line": mutant.line}
    return found


def controlled(out: Path, whole: str) -> dict[str, Any]:
    """What an earlier run found out about the unchanged package, if nothing has changed since."""
    found = json.loads(out.read_text())["control"] if out.exists() else {}
    return {file: verdict for file, verdict in found.items() if verdict["source"] == whole}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m paper.mutants", description="Mutate the source; verify each mutant."
    )
    parser.add_argument("--count", type=int, default=160, help="mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args(argv)

    header, why = environment("cpu"), reasons()
    mutants = choose(args.count, args.seed)
    done = kept(args.out, mutants, why)
    whole = everything()
    control = controlled(args.out, whole)
    print(f"{len(mutants)} mutants, {len(done)} judged before", flush=True)

    def write() -> dict[str, Any]:
        found = summary([done[mutant.name] for mutant in mutants if mutant.name in done], why)
        result = {
            "schema": 1,
            **header,
            "seed": args.seed,
            "count": args.count,
            "files": [f"rlscan/{file}" for file in FILES],
            "left_out": {f"rlscan/{file}": sorted(names) for file, names in ONLY_ON_A_GPU.items()},
            "control": control,
            **found,
        }
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        return found

    # what is argued to be equivalent at the end, and in short
    to_do = sorted((m for m in mutants if m.name not in done), key=lambda mutant: mutant.name in why)
    work = [Work(m.file, m.source(), SHORT if m.name in why else None) for m in to_do]
    for number, verdict in judged(work, args.jobs):
        mutant = to_do[number]
        done[mutant.name] = entry(mutant, verdict, header["commit"], why.get(mutant.name))
        said = verdict.killed_by or done[mutant.name]["verdict"].upper()
        told = f"{said}; {verdict.examples} checks, {verdict.seconds} s"
        print(f"[{len(done)}/{len(mutants)}] {mutant.name}\n    {told}", flush=True)
        write()
    unchanged = [file for file in CONTROLS if f"rlscan/{file}" not in control]
    for number, verdict in judged([Work(file, f"{original(file)}\n") for file in unchanged], args.jobs):
        file = unchanged[number]
        print(f"[unchanged] {file}: {verdict.killed_by or 'passes'}; {verdict.examples} checks, {verdict.seconds} s")
        if verdict.killed_by:
            print(f"then the verdicts on mutants say nothing: {verdict.detail}", file=sys.stderr)
            args.out.unlink()
            return 1
        control[f"rlscan/{file}"] = {**verdict._asdict(), "source": whole}
    found = write()
    print(f"{found['total']} mutants, {found['killed']} killed, {len(found['equivalent'])} equivalent")
    for name in found["survived"]:
        print(f"SURVIVED {name}")
    return 1 if found["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
