"""What the runs of paper/learning.py show: rlscan and the loop learn alike, in what time, and what a cut is worth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from paper.plots import COLOURS, RENDERED, refresh
from paper.text import ABSENT, markdown, number

Result = dict[str, Any]
Row = dict[str, Any]

TITLE = "PPO that learns: rlscan, the loop, and the time limit taken for a termination"
WRONG = "cut is termination"
LINES = {
    "rlscan": ("rlscan", COLOURS[0], "-", 2.6),
    "loop": ("loop", COLOURS[4], "--", 1.6),
    WRONG: ("rlscan, time limit taken for a termination", COLOURS[3], "-.", 1.8),
}
RETURNS = {"cartpole": "return, steps upright", "pendulum": "return, minus the cost"}
PHASES = ("rollout", "credit assignment", "epochs", "update")


def tasks(result: Result) -> Iterator[tuple[str, dict[tuple[int, str], Row]]]:
    """The runs of each task by seed and variant."""
    for task in dict.fromkeys(row["task"] for row in result["rows"]):
        yield task, {(row["seed"], row["variant"]): row for row in result["rows"] if row["task"] == task}


def of_variant(runs: dict[tuple[int, str], Row], variant: str) -> list[Row]:
    """By seed."""
    return [runs[key] for key in sorted(runs) if key[1] == variant]


def seeds(runs: dict[tuple[int, str], Row]) -> list[int]:
    return sorted({seed for seed, _ in runs})


def curve(row: Row) -> tuple[list[int], list[float], list[float], list[float]]:
    """Environment steps; the return, the discounted return and V(s_0) of the judged policy."""
    a_step = row["settings"]["envs"] * row["settings"]["steps"]
    updates, score, discounted, value = zip(*row["curve"], strict=True)
    return [a_step * n for n in updates], list(score), list(discounted), list(value)


def times(rows: list[Row]) -> list[float]:
    """Milliseconds of each phase and of the whole update: medians over the updates of all seeds."""
    updates = [x for row in rows for x in row["rollout_credit_epochs_us"]]
    return [statistics.median(x) / 1e3 for x in (*zip(*updates, strict=True), map(sum, updates))]


def times_table(result: Result) -> str:
    body = []
    for task, runs in tasks(result):
        found = {}
        for variant in ("rlscan", "loop"):
            rows = of_variant(runs, variant)
            if rows:
                found[variant] = times(rows)
        for variant, spent in found.items():
            ratios = [ABSENT, ABSENT]
            if variant == "loop" and "rlscan" in found:
                ours = found["rlscan"]
                ratios = [words(spent[1] / ours[1]), words(spent[3] / ours[3])]
            share = f"{100 * spent[1] / spent[3]:.1f} %"
            body.append([f"{task}, {variant}", *map(number, spent), share, *ratios])
    head = ["run", *(f"{phase}, ms" for phase in PHASES), "share of credit", "credit, over rlscan's"]
    return markdown([*head, "update, over rlscan's"], body)


def words(ratio: float) -> str:
    """Bold where rlscan is slower."""
    return f"{ratio:.3f}" if ratio >= 1 else f"**{ratio:.3f}**"


def parting(a: Row, b: Row) -> int | None:
    """The first update whose actions are not the same in both runs."""
    return next((n for n, (x, y) in enumerate(zip(a["actions"], b["actions"], strict=True)) if x != y), None)


def agreement_table(result: Result) -> str:
    body = []
    for task, runs in tasks(result):
        scores = {key: curve(row)[1] for key, row in runs.items()}
        drawn = [scores[key] for key in scores if key[1] == "rlscan"]
        between = [apart(x, y) for x, y in combinations(drawn, 2)]
        offsets = []
        for seed in seeds(runs):
            pairs = [[runs.get((seed, name + kind)) for name in ("rlscan", "loop")] for kind in ("", " in float64")]
            if not all(row for pair in pairs for row in pair):
                continue
            (ours, loop), (wide_ours, wide_loop) = pairs
            wide = parting(wide_ours, wide_loop)
            same = wide is None and wide_ours["weights"] == wide_loop["weights"]
            first = parting(ours, loop)
            offsets.append(statistics.fmean(scores[seed, "rlscan"]) - statistics.fmean(scores[seed, "loop"]))
            used = max(row["gate"].get("share_of_bound", math.inf) for row in (ours, loop, wide_ours, wide_loop))
            body.append(
                [
                    f"{task}, seed {seed}",
                    f"{100 * used:.1f} %",
                    "the same bits" if same else f"**part at update {'the end' if wide is None else wide}**",
                    "never" if first is None else str(first),
                    number(apart(scores[seed, "rlscan"], scores[seed, "loop"])),
                    number(statistics.fmean(between) if between else None),
                    f"{offsets[-1]:+.2f}",
                ]
            )
        if len(offsets) > 1:
            error = statistics.stdev(offsets) / math.sqrt(len(offsets))
            body.append([f"{task}, mean of the seeds", *[""] * 5, f"{statistics.fmean(offsets):+.2f} ± {error:.2f}"])
    head = [
        "run", "advantages: of the bound", "in float64", "in float32: first other action at update",
        "rlscan and loop apart", "two seeds apart", "return of rlscan minus loop",
    ]  # fmt: skip
    return markdown(head, body)


def apart(x: list[float], y: list[float]) -> float:
    """The mean distance between two curves."""
    return statistics.fmean(abs(a - b) for a, b in zip(x, y, strict=True))


def worth_table(result: Result) -> str:
    body = []
    for task, runs in tasks(result):
        for variant in ("rlscan", WRONG):
            curves = [*map(curve, of_variant(runs, variant))]
            if curves:
                mean = [statistics.fmean(statistics.fmean(c[k]) for c in curves) for k in (1,)]
                last = [statistics.fmean(c[k][-1] for c in curves) for k in (1, 2, 3)]
                kind = "bootstraps at the time limit" if variant == "rlscan" else "takes it for a termination"
                body.append([f"{task}, {kind}", *(f"{x:.1f}" for x in (*mean, *last))])
    head = ["run", "return, mean of the curve", "return, last", "discounted return, last", "V(s_0), last"]
    return markdown(head, body)


def sections(result: Result) -> list[str]:
    settings = "; ".join(
        f"{task}: {s['envs']} environments × {s['steps']} steps × {s['updates']} updates, time limit "
        f"{s['time_limit']}, judged over {s['horizon']} steps, γ = {s['gamma']:g}"
        for task, runs in tasks(result)
        for s in [next(iter(runs.values()))["settings"]]
    )
    return [
        f"{settings}. [examples/ppo.py](../../examples/ppo.py) is what runs.",
        "### How far the curves agree",
        "Training is chaotic: a rounding flips an action sooner or later, and from there on two runs are two draws. So "
        "it is judged in three steps. At every judged update the advantages of rlscan and of the loop, on the same "
        "window, have to be within the a-priori bound of the float64 reference (first column: the most of it that was "
        "used). Computed in float64 and rounded to float32 the two hardly ever differ; while they do not, those runs "
        "take the same actions, and where such runs end in the same weights, bit for bit, rounding is all that tells "
        "the two apart. Where they part, it is the windows before that are shown to agree. In float32 they take the "
        "same actions for a while; from the first other one on, how far rlscan and the loop are apart (mean distance "
        "of the two curves of a seed) stands beside how far two seeds of rlscan are, and the last column has the "
        "difference of the mean returns, with its standard error; of so few seeds two standard errors say little.",
        agreement_table(result),
        "### The time",
        "Median milliseconds of a phase and of an update, over all updates and seeds; runs take turns, update by "
        "update. "
        f"{result['protocol']['timer']}. Credit assignment is a phase between two marks, its launch "
        "included; other phases are the same for both, so what they differ by is noise.",
        times_table(result),
        "### What the semantics are worth",
        "The same seeds with `terminated | truncated` for termination. The policy is judged on episodes that start "
        "anew and are not cut; V(s_0) is what the value function says of their first state, and should be the "
        "discounted return. Where a difference is not larger than that between seeds (thin lines), it says nothing. A "
        "policy may be as good although V(s_0) is not what it gets.",
        worth_table(result),
    ]


# The plot


def file_name(folder: str) -> str:
    return f"learning_{folder}"


def points(result: Result) -> dict[str, Any]:
    """By task and variant, the curves of all seeds."""
    return {
        task: {
            variant: [*map(curve, of_variant(runs, variant))] for variant in LINES
        }
        for task, runs in tasks(result)
    }  # fmt: skip


def draw(figure: Any, shown: dict[str, Any]) -> None:
    from matplotlib.ticker import EngFormatter

    panels = figure.subplots(2, len(shown), sharex="col", squeeze=False)
    for column, (task, variants) in enumerate(shown.items()):
        above, below = panels[:, column]
        for variant, (label, colour, line, width) in LINES.items():
            curves = variants[variant]
            for steps, score, _, _ in curves:
                above.plot(steps, score, color=colour, linestyle=line, linewidth=0.7, alpha=0.45)
            if not curves:
                continue
            steps = curves[0][0]
            mean = [[statistics.fmean(x) for x in zip(*(c[k] for c in curves), strict=True)] for k in (1, 2, 3)]
            above.plot(steps, mean[0], color=colour, linestyle=line, linewidth=width, label=label)
            if variant != "loop":
                marker = "o" if variant == "rlscan" else "s"
                short = "rlscan" if variant == "rlscan" else "taken for a termination"
                below.plot(steps, mean[2], color=colour, marker=marker, label=f"V(s₀), {short}")
                below.plot(steps, mean[1], color=colour, linestyle=":", linewidth=2, label=f"what it gets, {short}")
        above.set(title=task, ylabel=RETURNS.get(task, "return"))
        below.set(xlabel="environment steps", ylabel="discounted return from s₀")
        below.xaxis.set_major_formatter(EngFormatter(sep=" "))
        below.legend(fontsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=3)


def render(folder: str, result: Result, root: Path, write: bool) -> list[Path]:
    """The files that do not show these runs; with `write`, drawn anew."""
    shown = points(result)
    many = len({row["seed"] for row in result["rows"]})
    title = f"{TITLE}\n{result['device']}; thick: mean of {many} seed{'s' * (many > 1)}, thin: each seed"
    return refresh(file_name(folder), title, shown, draw, (10, 7.5), root / RENDERED, write)
