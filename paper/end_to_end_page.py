"""The pages of paper/end_to_end.py: `python -m paper.end_to_end_page`, or with the tables `python -m paper.render`.

Renders paper/rendered/{table5,learning,llm,spiking}.md, and the plot of the learning curves, from the results that
there are; what was not measured is said and not rendered. With `--check` nothing is written and what is stale fails.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paper import learning_page
from paper.bench import PAPER, best, original
from paper.text import ABSENT, LOOP, PEER_GPU, kept, made, markdown, number, told, trials

Result = dict[str, Any]
Row = dict[str, Any]


def refused(result: Result) -> str:
    lines = [
        f"- {', '.join(f'{k} {v}' for k, v in row.items() if isinstance(v, str | int))}: {row['gate']['error']}"
        for row in result["rows"]
        if not row["gate"]["passed"]
    ]
    return "\n".join(["Refused, because not right:", "", *lines]) if lines else ""


def groups(rows: list[Row], *names: str) -> dict[tuple[Any, ...], dict[str, Row]]:
    """Rows by cell, then by implementation."""
    found: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        cell = tuple(tuple(row[n]) if isinstance(row[n], list) else row[n] for n in names)
        found.setdefault(cell, {})[row["implementation"]] = row
    return found


def ratio(theirs: float | None, ours: float | None) -> str:
    """Bold where rlscan is slower."""
    if not theirs or not ours:
        return ABSENT
    return f"{number(theirs / ours)}" if theirs >= ours else f"**{number(theirs / ours)}**"


# Table 5


def whole(row: Row) -> float | None:
    """The time of an update, µs, of which the laps were measured."""
    return best([[sum(lap) for lap in trial] for trial in row["values_credit_epochs_us"]])


class Update:
    """The times of one implementation, µs: credit assignment alone, within the update, and the update."""

    def __init__(self, row: Row) -> None:
        laps = row["values_credit_epochs_us"]
        self.alone = best(row["alone_us"]) or 0.0
        self.credit = best([[lap[1] for lap in trial] for trial in laps]) or 0.0
        self.whole = whole(row) or 0.0

    def amdahl(self, ours: Update) -> float:
        """1 / (1 − p + p/s), for the share p of the update that credit assignment alone is, and its speed-up s."""
        p, s = self.alone / self.whole, self.alone / ours.alone
        return 1 / (1 - p + p / s)


def share(x: float) -> str:
    return f"{100 * x:.2g} %" if x < 0.001 else f"{100 * x:.2f} %" if x < 0.1 else f"{100 * x:.1f} %"


def paper_words(x: Any, percent: bool = False) -> str:
    """The paper's figure: a number, a range or a limit in words."""
    if x is None:
        return ABSENT
    if isinstance(x, list):
        return " to ".join(paper_words(y, percent) for y in x)
    if isinstance(x, str):
        return f"&lt; {100 * float(x[1:]):g} %" if percent else x
    return f"{100 * x:g} %" if percent else f"{x:g}"


PEERS = {"loop": "vs_loop", "doubling": "vs_compiled_scan"}


def table5(result: Result) -> list[str]:
    peers = {(tuple(row["hidden"]), row["num_envs"], row["seq_len"]): row for row in original()["table5"]}
    body = []
    for cell, rows in groups(result["rows"], "hidden", "num_envs", "seq_len").items():
        hidden, num_envs, seq_len = cell
        times = {name: Update(row) for name, row in rows.items() if row["gate"]["passed"]}
        for name, x in times.items():
            peer, words = peers.get(cell, {}), PEERS.get(name, "")
            ours = times.get("rlscan") if name != "rlscan" else None
            body.append(
                [
                    f"{' × '.join(map(str, hidden))}, {num_envs} × {seq_len}",
                    name,
                    number(x.alone),
                    number(x.credit),
                    number(x.whole / 1e3),
                    share(x.credit / x.whole),
                    share(x.alone / x.whole),
                    f"{x.whole / ours.whole:.3f}" if ours else ABSENT,
                    f"{x.amdahl(ours):.3f}" if ours else ABSENT,
                    f"*{paper_words(peer.get(f'gae_share_{words}'), percent=True)}*",
                    f"*{paper_words(peer.get(f'end_to_end_{words}'))}*",
                ]
            )
    head = [
        "hidden, N × T", "by", "credit alone, µs", "credit within, µs", "update, ms", "share within", "share alone",
        "end to end", "Amdahl", f"*paper, {PEER_GPU}: share*", f"*paper, {PEER_GPU}: end to end*",
    ]  # fmt: skip
    protocol = result["protocol"]
    reading = (
        "An update is the values of the window, credit assignment, then "
        f"{protocol['epochs']} epochs × {protocol['minibatches']} minibatches, on random data "
        f"({protocol['observation_size']} observations, {protocol['actions']} actions, {protocol['dtype']}, "
        f"matmul precision {protocol['matmul_precision']}; "
        f"{protocol['network']}). The paper does not give its observations, actions or network beyond the hidden "
        "layers, so its shares are those of another update. *Alone*: the call by itself, the device waited for before "
        "and after. *Within*: between two marks inside an update, where the host runs ahead. *End to end*: the "
        "update's time over that with rlscan. *Amdahl* predicts it from what credit assignment takes alone: "
        "1 / (1 − p + p/s), p its share and s its speed-up. Alone a call waits for its launch, which an update hides: "
        "that prediction is an upper limit. "
        f"{protocol['trials']} trials of {protocol['updates_per_trial']} updates, turn by turn, after "
        f"{protocol['warmup_updates']}; {protocol['alone']['estimator']}; {protocol['timer']}."
    )
    return [reading, markdown(head, body)]


# Beyond RL


def llm(result: Result) -> list[str]:
    body = []
    names = ("doubling", "loop")
    for (tokens, responses), rows in groups(result["rows"], "tokens", "responses").items():
        ours = rows["rlscan"]
        times = {name: best(row["samples_us"]) for name, row in rows.items()}
        device = {name: min(x) for name, x in ours["device_us"].items()}
        stream = device["stream"] / device["rlscan"] if device else None
        body.append(
            [
                f"{responses} × {tokens}",
                share(1 - ours["share_of_tokens"]),
                number(times["rlscan"]),
                *(ratio(times.get(name), times["rlscan"]) for name in names),
                number(device.get("rlscan")),
                ABSENT if stream is None else share(stream),
                str(ours["padding_changes_tokens"]),
            ]
        )
    head = [
        "responses × tokens", "padding", "rlscan, µs", *(f"vs {name}" for name in names), "device, µs",
        "of stream bandwidth", "tokens that padding changes",
    ]  # fmt: skip
    reading = (
        "GAE over every token, γ = {gamma:g}, λ = {lambda:g}; lengths {lengths}. Padding is flagged, not moved "
        "([examples/token_gae.py](../../examples/token_gae.py)); the last column counts the tokens whose result has "
        "another bit when the padding is NaN. A ratio is the other's time over rlscan's; **bold** is a loss. Every "
        "row of the batch is checked beside the portable path in float64, and rows from the first to the last beside "
        "the reference. {calls}; {timer}. {loop}"
    ).format(**result["protocol"] | {"calls": trials(result["protocol"]["alone"]), "loop": LOOP})
    return [reading, markdown(head, body)]


def spiking(result: Result) -> list[str]:
    body = []
    for (neurons, steps, what), rows in groups(result["rows"], "neurons", "steps", "what").items():
        times = {name: best(row["samples_us"]) for name, row in rows.items()}
        swept = times.get("rlscan, spikes in sweeps")
        sweeps = next((row["sweeps"] for row in rows.values() if row.get("sweeps")), None)
        body.append(
            [
                f"{what}, {neurons} × {steps}",
                number(times["rlscan"]),
                ratio(times.get("doubling"), times["rlscan"]),
                ratio(times.get("loop"), times["rlscan"]),
                number(swept),
                ratio(swept, times["rlscan"]),
                ABSENT if sweeps is None else str(sweeps),
            ]
        )
    head = ["neurons × steps", "rlscan, µs", "vs doubling", "vs loop", "spikes in sweeps, µs", "vs sweeps", "sweeps"]
    reading = (
        "Leaky integrate-and-fire neurons with a hard reset, decay {decay:g} ([examples/spiking.py]"
        "(../../examples/spiking.py)). *Backward scan*: ∂L/∂I from given coefficients. *Forward and backward*: spikes "
        "step by step, the potential and the gradient by `rlscan.linear_scan` (or the compiled doubling scan), against "
        "a loop that autograd differentiates; *in sweeps* finds the spikes by scans too, and so many of them it took. "
        "A ratio is the other's time over rlscan's; **bold** is a loss. {calls}; {timer}."
    ).format(**result["protocol"], calls=trials(result["protocol"]["alone"]))
    return [reading, markdown(head, body)]


PAGES: dict[str, tuple[str, Callable[[Result], list[str]]]] = {
    "synthetic": ("table5", table5),
    "learning": ("learning", learning_page.sections),
    "llm": ("llm", llm),
    "spiking": ("spiking", spiking),
}


def load(root: Path) -> dict[str, list[tuple[str, Result]]]:
    """The results of each part, with the folder of their device."""
    found: dict[str, list[tuple[str, Result]]] = {part: [] for part in PAGES}
    for path in sorted(root.glob("paper/results/*/*.json")):
        result = json.loads(path.read_text())
        if isinstance(result, dict) and result.get("part") in PAGES:
            found[result["part"]].append((path.parent.name, result))
    return found


def page(part: str, results: list[tuple[str, Result]]) -> str:
    _, body = PAGES[part]
    texts = [f"# {results[0][1]['label']}"]
    for folder, result in results:
        beside = f" Beside it ran, on the same machine: {result['beside']}." if "beside" in result else ""
        texts += [f"## {result['device']}", f"{made(result)} Gate: {result['protocol']['correctness_gate']}.{beside}"]
        if part == "learning":
            texts.append(f"![{learning_page.TITLE}]({learning_page.file_name(folder)}.svg)")
        texts += [*body(result), refused(result)]
    return "\n\n".join(filter(None, texts)) + "\n"


def main(argv: list[str] | None = None, root: Path = PAPER.parent) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.end_to_end_page", description="Render paper/end_to_end.py.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page or the plot is stale")
    args = parser.parse_args(argv)
    stale = []
    for part, results in load(root).items():
        path = root / "paper" / "rendered" / f"{PAGES[part][0]}.md"
        if not results:
            print(f"{part} not measured: no paper/results/*/{path.stem}.json, so no page of it")
        stale += kept(path, page(part, results) if results else None, write=not args.check)
        if part == "learning":
            stale += [
                p for folder, result in results for p in learning_page.render(folder, result, root, not args.check)
            ]
    return told(stale, root, check=args.check)


if __name__ == "__main__":
    sys.exit(main())
