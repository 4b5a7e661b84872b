"""The figures that the manuscript's own sentences name: one LaTeX macro each, from paper/results.

What is not there is *not measured*, as a macro too, so that every sentence can be set.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from paper import claims, performance
from paper.bench import original
from paper.performance import Run
from paper.speed_tables import RIVALS, by, over
from paper.tex import ABSENT, escaped
from paper.text import PEER_GPU, number
from paper.verdicts import CELL, HEADLINE, Cells

GPU, CPU = "h200", "cpu"  # the folders of paper/results that the text speaks of


def said(x: Any) -> str:
    """A macro's text; what is not known is not measured."""
    if x is None or (isinstance(x, float) and math.isnan(x)):
        return rf"\emph{{{ABSENT}}}"
    if isinstance(x, int):
        return f"{x:,}".replace(",", "{,}")
    if isinstance(x, float):
        return number(x) if x < 10_000 else f"{x:,.0f}".replace(",", "{,}")
    return escaped(str(x))


def read(root: Path, name: str) -> dict[str, Any] | None:
    path = root / "paper" / "results" / name
    return json.loads(path.read_text()) if path.exists() else None


def certificate_numbers(certificate: dict[str, Any] | None, device: str, paths: list[str]) -> dict[str, Any]:
    """Counts of each kind, `\\ExactCasesCpu` and so on; of what is fuzzed, on the device's own paths."""
    kinds = ("proof", "exhaustive", "exact", "bounded", "cases", "faults")
    found: dict[str, Any] = {
        f"{kind.capitalize()}{what}{device}": None for kind in kinds for what in ("Cases", "Claims")
    }
    names = ("Gpu", "Versions", "Commit", "Date", "Seconds", "FaultsPlanted", "FaultsRejected", "FaultsMost")
    found |= {f"{name if name != 'Gpu' else 'Name'}{device}": None for name in names}
    found[f"Twins{device}"] = None
    if certificate is None:
        return found
    for kind in kinds:
        entries = [entry for entry in certificate["claims"] if entry["kind"] == kind and entry["verdict"] == "PASS"]
        if kind not in ("proof", "faults"):
            entries = [entry for entry in entries if entry["claim"].endswith(tuple(paths))]
        found[f"{kind.capitalize()}Cases{device}"] = sum(entry["cases"] for entry in entries)
        found[f"{kind.capitalize()}Claims{device}"] = len(entries)
    twins = re.findall(r"(\d+) false twins? rejected", " ".join(e["detail"] for e in certificate["claims"]))
    faults = certificate["faults"]
    return found | {
        f"Name{device}": certificate["device"]["name"],
        f"Versions{device}": ", ".join(f"{n} {certificate['versions'][n]}" for n in ("torch", "triton", "python")),
        f"Commit{device}": certificate["commit"][:12],
        f"Date{device}": certificate["date"][:10],
        f"Seconds{device}": round(certificate["seconds"]),
        f"FaultsPlanted{device}": faults["planted"],
        f"FaultsRejected{device}": faults["rejected"],
        f"FaultsMost{device}": faults["most_examples_needed"],
        f"Twins{device}": sum(map(int, twins)),
    }


def claim_numbers(root: Path) -> dict[str, Any]:
    declared, devices = claims.load(root)
    verdicts = [claims.judge(c, root, folder, d) for c in declared.values() for folder, d in devices.items()]
    words = [verdict.word for verdict in verdicts if verdict]
    return {
        "ClaimsDeclared": len(declared),
        "ClaimsPass": words.count(claims.PASS),
        "ClaimsFail": words.count(claims.FAIL),
        "ClaimsNotRun": words.count(claims.NOT_RUN),
    }


def speed_numbers(run: Run | None) -> dict[str, Any]:
    """The few figures that the text itself names."""
    paper = original()["figures_2_3_pufferlib"]
    found: dict[str, Any] = {
        "HeadlineShape": by(HEADLINE),
        "PaperGpu": original()["hardware"][PEER_GPU],
        "PaperSoftware": original()["software"],
        "PaperRowsWon": paper["wins_full_call"],
        "PaperRowsShapes": paper["shapes"],
    }
    cells = run.cells if run else Cells([])
    grid = cells.where(section="grid", metric="full")
    for name, rival in (("Doubling", "doubling"), ("Associative", "associative"), ("Loop", "loop")):
        ratios = known(over(rival, "full")(group) for _, group in grid.groups(*CELL))
        found[f"Grid{name}Least"] = min(ratios, default=math.nan)
        found[f"Grid{name}Median"] = statistics.median(ratios) if ratios else None
        found[f"Grid{name}Most"] = max(ratios, default=math.nan)
    for name, metric in (("Full", "full"), ("Device", "device")):
        ratios = known(
            min(group.us(rival, metric=metric) for rival in RIVALS["rows"]) / group.us("rlscan", metric=metric)
            for _, group in cells.where(section="rows").groups("num_envs", "seq_len")
        )
        found[f"Rows{name}Won"] = sum(ratio > 1 for ratio in ratios) if ratios else None
        found[f"Rows{name}Shapes"] = len(ratios) or None
        found[f"Rows{name}Most"] = max(ratios, default=math.nan)
    streams = [row for row in cells.where(implementation="stream", metric="device").rows if row["us"]]
    peak = max((row["bytes"] / row["us"] / 1e6 for row in streams), default=math.nan)
    compared = [ratio for _, ratio in performance.comparisons(cells)]
    return found | {
        "StreamPeak": peak,
        "Compared": len(compared) or None,
        "Slower": sum(ratio < 1 for ratio in compared) if compared else None,
        "TargetsMet": sum(target["met"] for target in run.targets.values()) if run else None,
        "TargetsAll": len(run.targets) if run else None,
        "SpeedGpu": run.head["device"]["name"] if run else None,
        "SpeedCommit": run.head["commit"][:12] if run else None,
        "SpeedDate": run.head["date"][:10] if run else None,
    }


def known(ratios: Iterable[float]) -> list[float]:
    return [ratio for ratio in ratios if not math.isnan(ratio)]


def other_numbers(root: Path) -> dict[str, Any]:
    """Of results that more than one device shares."""
    mutants, peers = read(root, "mutants.json"), read(root, "peers.json")
    found: dict[str, Any] = dict.fromkeys(("MutantsTotal", "MutantsKilled", "MutantsEquivalent", "MutantsSurvived"))
    found |= dict.fromkeys(("PeersChecked", "PeersRight", "PeersAsStated", "FaultyChecked", "FaultyDiagnosed"))
    if mutants:
        total, killed, equivalent = mutants["total"], mutants["killed"], len(mutants["equivalent"])
        found |= {"MutantsTotal": total, "MutantsKilled": killed, "MutantsEquivalent": equivalent}
        found["MutantsSurvived"] = total - killed - equivalent
    if peers:
        rows, faulty = peers.get("peers", []), peers.get("faulty", [])
        found |= {"PeersChecked": len(rows), "PeersRight": sum(bool(row.get("right")) for row in rows)}
        found["PeersAsStated"] = sum(bool(row.get("as_stated")) for row in rows)
        found["FaultyChecked"] = len(faulty)
        found["FaultyDiagnosed"] = sum(bool(row.get("found")) for row in faulty)
    return found


def numbers(root: Path, run: Run | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for folder, device in ((CPU, "Cpu"), (GPU, "Gpu")):
        paths = claims.load(root)[1][folder]["paths"]
        found |= certificate_numbers(read(root, f"{folder}/certificate.json"), device, paths)
    return found | claim_numbers(root) | speed_numbers(run) | other_numbers(root)


def macros(root: Path, run: Run | None) -> str:
    return "".join(rf"\newcommand{{\{name}}}{{{said(x)}}}" + "\n" for name, x in numbers(root, run).items())
