"""The boundary rules in one picture: `python -m paper.boundary_picture` draws docs/boundaries.svg and .png.

One window of one environment, with an end of each kind. What the picture says of a step (where V(s_{t+1}) comes from,
whether the carry passes) is not written here but asked of rlscan. With `--check` nothing is written and what is stale
fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paper import plots
from paper.bench import PAPER
from paper.text import told

T, OVER, CUT = 10, 2, 6  # the window; the step that terminates; the step that is cut
TITLE = "One window of one environment: what each step looks ahead to"
SIZE = (10.4, 4.8)
BLUE, ORANGE, PURPLE, BLACK, GREY = "#0072B2", "#B34E00", "#8F4577", "#1A1A1A", "#777777"
GAP = 1.2  # room for a state that is not in the buffer
STATES, TERMINATED, TRUNCATED, SUCCESSORS, CARRY = 4.1, 2.95, 2.4, 1.4, 0.3  # heights of the lines


def window(arrays: Any) -> dict[str, Any]:
    """The picture's rollout, in arrays of torch or NumPy. The number in a slot tells which slot it is."""
    steps = arrays.arange(T)
    return {
        "rewards": arrays.zeros(T, dtype=arrays.float64),
        "values": steps + 1.0,
        "terminated": steps == OVER,
        "truncated": steps == CUT,
        "truncation_values": steps + 101.0,
        "last_values": 201.0,
    }


def slot(number: float) -> str:
    """The name of the slot that holds it."""
    names = {0.0: "0", 201.0: "last_values"}
    names |= {t + 1.0: f"values[{t}]" for t in range(T)}
    names |= {t + 101.0: f"truncation_values[{t}]" for t in range(T)}
    return names[float(number)]


def facts(gae: Callable[..., Any], arrays: Any) -> dict[str, list[Any]]:
    """What the picture says of every step, by what `gae` does."""
    steps = window(arrays)
    # without rewards, γ = 1, λ = 0: R_t = V(s_{t+1})
    successors = gae(**steps, gamma=1.0, lambda_=0.0)[1]
    # a row for each k, in which step k alone has a reward: it reaches t where the carry passes all the way
    rows = {name: x if name == "last_values" else arrays.stack([x] * T) for name, x in steps.items()}
    nothing = 0.0 * rows["values"]
    rows |= {"rewards": arrays.eye(T, dtype=arrays.float64), "values": nothing, "truncation_values": nothing}
    reached = gae(**{**rows, "last_values": 0.0}, gamma=1.0, lambda_=1.0)[0]
    return {
        "terminated": [bool(flag) for flag in steps["terminated"]],
        "truncated": [bool(flag) for flag in steps["truncated"]],
        "successor": [slot(number) for number in successors],
        "carry_from_the_next": [bool(reached[t + 1][t] != 0) for t in range(T - 1)] + [False],
    }


def drawn() -> dict[str, list[Any]]:
    import torch

    import rlscan

    return facts(rlscan.gae, torch)


def colour(successor: str) -> str:
    """That of the rule."""
    rules = {"0": ORANGE, "truncation_values": PURPLE, "last_values": BLACK}
    return rules.get(successor.partition("[")[0], BLUE)


def broken(name: str) -> str:
    """In two lines, to be narrow."""
    return name.replace("_values", "_\nvalues") if "_" in name else name.replace("[", "\n[")


def draw(figure: Any, said: dict[str, list[Any]]) -> None:
    axes = figure.subplots()
    axes.set_axis_off()
    ends = [a or b for a, b in zip(said["terminated"], said["truncated"], strict=True)]
    at = [t + GAP * sum(ends[:t]) for t in range(T)]  # the place of s_t
    in_buffer = [name.startswith("values") for name in said["successor"]]
    behind = [x + (1 if there else 1.3) for x, there in zip(at, in_buffer, strict=True)]  # that of s_{t+1}
    middle = [x + 0.5 for x in at]
    edge = at[-1] + 0.87
    axes.set(xlim=(-2.3, behind[-1] + 0.5), ylim=(-0.8, 5.4))

    def words(x: float, y: float, text: str, **more: Any) -> None:
        axes.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": 10.5, **more})

    def arrow(start: float, stop: float, y: float, colour: str) -> None:
        look = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.5, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (stop, y), (start, y), arrowprops=look)

    axes.fill_between([-0.3, edge], -0.3, 4.7, color="#F1F3F5", zorder=0, linewidth=0)
    axes.plot([edge, edge], [-0.3, 4.7], color=BLACK, linewidth=1.4, linestyle=":")
    words(edge, -0.6, "the window ends", fontsize=9.5, style="italic")
    for y, text in (
        (STATES, "states and\ntransitions"), (TERMINATED, "terminated[t]"), (TRUNCATED, "truncated[t]"),
        (SUCCESSORS, "$V(s_{t+1})$ is"), (CARRY, "carried back\nfrom t + 1 to t"),
    ):  # fmt: skip
        words(-0.5, y, text, ha="right")
    first, episode = 0, 1
    for t in range(T):
        over, cut, name = said["terminated"][t], said["truncated"][t], said["successor"][t]
        of_rule = colour(name)
        arrow(at[t] + 0.15, behind[t] - 0.15, STATES, BLACK)
        words(middle[t], STATES + 0.27, f"t = {t}", fontsize=9, color=GREY)
        axes.plot(at[t], STATES, "o", color=BLUE, markersize=10)
        words(at[t], STATES - 0.4, f"$s_{{{t}}}$", fontsize=12)
        for y, flag, tint in ((TERMINATED, over, ORANGE), (TRUNCATED, cut, PURPLE)):
            words(middle[t], y, str(int(flag)), color=tint if flag else GREY, weight="bold" if flag else "normal")
        if not in_buffer[t]:
            axes.plot([behind[t]] * 2, [SUCCESSORS + 0.4, STATES], color=of_rule, linewidth=0.9, linestyle=":")
            axes.plot(behind[t], STATES, "o", mfc="white", mec=of_rule, mew=2, markersize=10)
        words(behind[t], SUCCESSORS, broken(name), color=of_rule, fontsize=9.5, family="monospace")
        axes.plot(middle[t], CARRY, "o", color=BLUE, markersize=5)
        if said["carry_from_the_next"][t]:
            arrow(middle[t + 1] - 0.1, middle[t] + 0.1, CARRY, BLUE)
        elif ends[t]:
            words(behind[t], CARRY, "✕", color=of_rule, fontsize=14)
        else:
            words(behind[t], CARRY, "starts\nhere", fontsize=9.5, style="italic")
        if ends[t] or t == T - 1:
            span = [at[first] - 0.2, behind[t] + 0.2]
            axes.plot(span, [5.05, 5.05], color=of_rule, linewidth=17, solid_capstyle="butt", alpha=0.2)
            how = "the task ends" if over else "a time limit cuts it" if cut else "goes on"
            words(sum(span) / 2, 5.04, f"episode {episode}: {how}", color=of_rule)
            first, episode = t + 1, episode + 1
    key = "●  state in the buffer      ○  state that is not      ✕  nothing is carried over an end, of either kind"
    words(-0.3, -0.6, key, ha="left", fontsize=9.5)


def main(argv: list[str] | None = None, root: Path = PAPER.parent) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.boundary_picture", description="Draw the boundary rules.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the picture is stale")
    args = parser.parse_args(argv)
    stale = plots.refresh("boundaries", TITLE, drawn(), draw, SIZE, root / "docs", write=not args.check)
    return told(stale, root, check=args.check)


if __name__ == "__main__":
    sys.exit(main())
