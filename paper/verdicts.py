"""From the measured cells to the verdict on each speed target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

HEADLINE = (4096, 128)
LARGE = 2**23  # N·T from which bandwidth counts
RUNS = 10  # of the headline
PATIENCE = {"headline": 60, "rows": 20}  # trials of one cell that are measured again, at most
AGAIN = "measured again, because the host was slower than its own pace"
ROWS = "targets_rows.json"  # where rows are that say nothing else


class Cells:
    """The rows, by what they say."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.rows = list(rows)

    def where(self, **wanted: Any) -> Cells:
        return Cells(row for row in self.rows if all(row.get(k) == v for k, v in wanted.items()))

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Cells]]:
        found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self.rows:
            found.setdefault(tuple(row.get(name) for name in names), []).append(row)
        yield from ((key, Cells(rows)) for key, rows in found.items())

    def us(self, implementation: str, **wanted: Any) -> float:
        """The time of an implementation; NaN where it was not right or not measured."""
        found = [row["us"] for row in self.where(implementation=implementation, **wanted).rows if row["us"] is not None]
        return min(found) if found else math.nan

    def refused(self, implementation: str) -> bool:
        """Whether an implementation was wrong or did not compile, so that there is nothing to compare with."""
        rows = self.where(implementation=implementation, metric="none").rows
        return any(not row["gate"]["passed"] for row in rows)


def measured_again(rows: Iterable[dict[str, Any]]) -> int:
    """Trials beside a slow host, in which every implementation took its turns."""
    return sum(len(row.get("disturbed", ())) for row in rows if row["implementation"] == "rlscan")


def again_words(cells: Iterable[Cells], patience: int) -> str:
    """How often the host was slower than its own pace beside the trials of these cells; nothing if it never was."""
    again = [measured_again(cell.rows) for cell in cells]
    if not any(again):
        return ""
    ends = f"for {sum(count >= patience for count in again)} of {len(again)} calls the limit of {patience} was reached"
    return f"{sum(again)} trials were {AGAIN}; {ends}"


CELL = ("estimator", "truncated", "num_envs", "seq_len", "actions")


def evaluate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Each target's value, worst cell first; a cell that was not measured makes a target not met."""
    cells = Cells(rows)
    grid = cells.where(section="grid")
    headline = grid.where(num_envs=HEADLINE[0], seq_len=HEADLINE[1])

    def ratios(over: Cells, to: str, *names: str, **which: Any) -> dict[str, float]:
        # `which` does not choose the groups: a cell of which nothing of that kind was measured stays, as NaN
        return {label(key): group.us(to, **which) / group.us("rlscan", **which) for key, group in over.groups(*names)}

    targets: dict[str, Any] = {}

    def record(
        name: str,
        sections: str,
        target: Any,
        values: dict[str, float],
        met: Callable[[float, str], bool],
        worst: Any,
        note: str = "",
    ) -> None:
        known = {k: v for k, v in values.items() if not math.isnan(v)}
        missed = [k for k, v in values.items() if math.isnan(v) or not met(v, k)]
        # limits differ between cells: the worst is one that misses, if any does
        extreme = worst({k: v for k, v in known.items() if k in missed} or known, key=known.get) if known else None
        targets[name] = {
            "value": round(known[extreme], 3) if extreme else None,
            "target": target,
            "met": bool(values) and not missed,
            "worst": extreme,
            "cells": len(values),
            "missed": missed,
            **({"note": note} if note else {}),
            "rows": sorted(
                {row.get("file", ROWS) for part in sections.split() for row in cells.where(section=part).rows}
            ),
        }

    def enough(v: float, k: str) -> bool:
        return v >= (4.0 if k.startswith(("eligibility_traces", "prefix_sum")) else 5.0)

    repeats: dict[str, float] = {}
    verdicts: dict[str, float] = {}
    for key, group in headline.groups("estimator", "truncated"):
        runs = {
            label((*key, run)): group.us("doubling", metric="full", repeat=run)
            / group.us("rlscan", metric="full", repeat=run)
            for run in range(RUNS)
        }
        repeats |= runs
        unknown = any(map(math.isnan, runs.values()))
        verdicts[label(key)] = math.nan if unknown else float(len({enough(v, k) for k, v in runs.items()}))
    record(
        "headline",
        "grid",
        ">= 5 (>= 4 for eligibility_traces and prefix_sum), ten runs",
        repeats,
        enough,
        min,
        again_words((group for _, group in headline.groups("estimator", "truncated")), PATIENCE["headline"]),
    )
    record("headline_agrees", "grid", "one verdict in ten runs", verdicts, lambda v, _: v == 1, max)
    record(
        "torch_associative_scan",
        "grid",
        ">= 3",
        ratios(headline, "associative", "estimator", "truncated", metric="full"),
        lambda v, _: v >= 3,
        min,
    )

    for metric, least in (("full", 1.5), ("device", 1.0)):
        values, refused = {}, []
        for name in ("doubling", "associative", *(["loop"] if metric == "full" else [])):
            for key, group in grid.groups(*CELL):
                ours = group.us("rlscan", metric=metric)
                if group.refused(name) and not math.isnan(ours):
                    refused.append(f"{label(key)} {name}")
                else:
                    values[f"{label(key)} {name}"] = group.us(name, metric=metric) / ours
        note = f"no comparison where the baseline was refused: {', '.join(refused)}" if refused else ""
        record(f"grid_{metric}", "grid", f">= {least}", values, lambda v, _, least=least: v >= least, min, note)  # type: ignore[misc]  # least, bound as a default, has no type

    shares = {}
    for section in ("grid", "bandwidth"):
        for key, group in cells.where(section=section).groups(*CELL):
            if key[2] * key[3] >= LARGE:
                shares[label(key)] = group.us("stream", metric="device") / group.us("rlscan", metric="device")
    record("bandwidth", "grid bandwidth", ">= 0.85; retrace >= 0.80 (A = 4), >= 0.65 (A = 18)", shares,
           lambda v, k: v >= (0.85 if not k.startswith("retrace") else 0.65 if "A18" in k else 0.80), min)  # fmt: skip

    rows_cells = dict(cells.where(section="rows").groups("num_envs", "seq_len"))
    for metric in ("full", "device"):
        values = {}
        for key, group in rows_cells.items():
            theirs = [group.us(name, metric=metric) for name in ("cuda_rows", "cuda_rows_prepared")]
            faster = math.nan if any(map(math.isnan, theirs)) else min(theirs)
            values[label(key)] = faster / group.us("rlscan", metric=metric)
        record(
            f"rows_{metric}",
            "rows",
            "> 1 at each of the paper's 40 shapes (39 are distinct), against the faster of two ways to call it",
            values,
            lambda v, _: v > 1,
            min,
            again_words(rows_cells.values(), PATIENCE["rows"]) if metric == "full" else "",
        )
    record(
        "retrace_long",
        "retrace_long",
        ">= 2",
        ratios(cells.where(section="retrace_long"), "doubling", *CELL, metric="full"),
        lambda v, _: v >= 2,
        min,
    )

    long = {}
    short = {}
    for key, group in cells.where(section="long").groups("estimator", "num_envs", "seq_len"):
        if key[2] == 131072:
            short[label(key)] = group.us("rlscan")
        else:
            long[label(key)] = group.us("stream") / group.us("rlscan")
    record("long", "long", ">= 0.5 of stream bandwidth", long, lambda v, _: v >= 0.5, min)
    record("long_131072", "long", "<= 8 µs device", short, lambda v, _: v <= 8, max)

    values = {}
    for key, group in cells.where(section="time_major").groups("estimator", "num_envs", "seq_len"):
        values[label(key)] = group.us("rlscan", layout="TN") / group.us("rlscan", layout="NT")
    record("time_major", "time_major", "<= 1.3", values, lambda v, _: v <= 1.3, max)
    host = cells.where(section="host")
    record("host", "host", "<= 0.6", {"gae": host.us("rlscan") / host.us("ordinary")}, lambda v, _: v <= 0.6, max)
    values = {}
    for key, group in cells.where(section="half").groups("estimator", "num_envs", "seq_len"):
        values[label(key)] = group.us("rlscan", dtype="bfloat16") / group.us("rlscan", dtype="float32")
    record("half", "half", "<= 0.7", values, lambda v, _: v <= 0.7, max)
    guard = {k: 1 / v for k, v in ratios(cells.where(section="guard"), "unguarded", *CELL).items()}
    record("guard", "guard", "<= 1.03", guard, lambda v, _: v <= 1.03, max)
    return targets


WHOLES = {"grid": ("grid_full", "grid_device"), "rows": ("rows_full", "rows_device")}


def wholes(targets: dict[str, Any]) -> dict[str, Any]:
    """The targets that two others are the parts of: met where both are; the value is that of the part that misses."""
    found = {}
    for name, parts in WHOLES.items():
        worst = min((targets[part] for part in parts), key=lambda target: target["met"])
        found[name] = {
            "value": worst["value"],
            "target": "; ".join(f"{part}: {targets[part]['target']}" for part in parts),
            "met": all(targets[part]["met"] for part in parts),
            "parts": [*parts],
            "rows": list(dict.fromkeys(file for part in parts for file in targets[part]["rows"])),
        }
    return found


def label(key: tuple[Any, ...]) -> str:
    """A cell in words: "retrace truncated 4096x128 A4"."""
    words = [str(part) for part in key if isinstance(part, str)]
    words += ["truncated"] * any(part is True for part in key)  # `in` would take 1, a number of rows, for True
    numbers = [part for part in key if isinstance(part, int) and not isinstance(part, bool)]
    if len(numbers) >= 2:
        words.append(f"{numbers[0]}x{numbers[1]}")
        words += [f"A{part}" for part in numbers[2:] if "retrace" in words]
    else:
        words += [f"run {part}" for part in numbers]
    return " ".join(words)
