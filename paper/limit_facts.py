"""What is known of the cells of the speed targets: times, machine code, executed instructions; and it in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from paper.text import ABSENT, number
from paper.verdicts import CELL, Cells, label

Row = dict[str, Any]
SCHEDULERS = 4  # of a multiprocessor: each begins one instruction of one warp a cycle
BOOST = 1980.0  # MHz, the highest clock of an H200 (nvidia-smi -q -d CLOCK)
SHORT = 10.0  # µs: below it a launch and one warp's chain of instructions are most of the time
LONG = 2**24  # steps of the one long row
USUAL = {"truncated": False, "actions": 4, "layout": "NT", "dtype": "float32"}  # of a cell that does not say


class Code:
    """The rows of machine_code.json, by the cell that launches them."""

    def __init__(self, result: Row) -> None:
        self.head = {name: x for name, x in result.items() if name != "rows"}
        self.rows: list[Row] = result["rows"]

    def of(self, guarded: bool = True, **cell: Any) -> Row | None:
        """The kernel that this call launches, with the number of its programs."""
        wanted = {**USUAL, **cell}
        for row in self.rows:
            for one in row["cells"] if row["guarded"] == guarded else ():
                if all(one[name] == x for name, x in wanted.items()):
                    return {**row, "programs": one["programs"]}
        return None


class Facts(NamedTuple):
    targets: Row
    cells: Cells
    head: Row
    code: Code | None
    accesses: Row | None
    first_calls: Row | None
    swept: tuple[Row, ...] = ()  # shapes whose tiles were measured later than the targets, with the file

    @property
    def multiprocessors(self) -> int:
        return int(self.head["device"]["multiprocessors"])


def percent(x: float) -> str:
    return ABSENT if math.isnan(x) else f"{100 * x:.0f} %"


def share(x: float) -> str:
    return ABSENT if math.isnan(x) else f"{x:.3f}"


def shape_of(cell: Row) -> str:
    return f"{cell['num_envs']}×{cell['seq_len']}"


def missed_cells(facts: Facts, name: str, section: str, *keys: str) -> list[tuple[Row, Cells]]:
    """The cells of a target that miss: what they are, and what was measured of each."""
    found = []
    for key, at in facts.cells.where(section=section).groups(*keys):
        if label(key) in facts.targets[name]["missed"]:
            found.append((dict(zip(keys, key, strict=True)), at))
    return found


def limit(facts: Facts, name: str) -> float:
    """The number that a target names first, as in ">= 2"."""
    return float(facts.targets[name]["target"].split()[1])


def an_element(row: Row, name: str | None = None) -> float:
    """Instructions of one tile, all or of one class, over the elements that a thread handles."""
    counted = row["instructions"]
    return float((counted[name] if name else sum(counted.values())) / row["elements_a_thread"])


def executed(row: Row, steps: int) -> float:
    """Instructions an element of a whole program, which walks over all tiles of its rows."""
    tiles = -(-steps // row["tile_steps"]) if row["is_loop"] else 1
    return float((row["outside_loop"] + tiles * sum(row["instructions"].values())) / (tiles * row["elements_a_thread"]))


def kernel_words(row: Row) -> str:
    spilled = f", {row['spilled_bytes']} bytes spilled" if row["spilled_bytes"] else ""
    return (
        f"{row['registers']} registers a thread{spilled}, so {row['warps_an_sm']} warps a multiprocessor, and "
        f"{number(an_element(row))} instructions an element"
    )


def swept_words(facts: Facts, **cell: Any) -> Iterator[str]:
    """What a later sweep of tiles found at this cell."""
    wanted = {**USUAL, **cell}
    code = facts.code and facts.code.of(**cell)
    now = code and [code[part] for part in ("tile_rows", "tile_steps", "warps", "run")]
    for shape in facts.swept:
        rows = sorted((row for row in shape["rows"] if row["us"] is not None), key=lambda row: row["us"])
        rule = next((row for row in rows if row["chosen"]), None)
        if rule and all(shape[name] == x for name, x in wanted.items()):
            fastest = rows[0]
            yield (
                f"A [later sweep](results/{shape['file']}) of {len(rows)} tiles has {number(fastest['us'])} µs for the "
                f"fastest, {percent(shape['stream_us'] / fastest['us'])} of stream bandwidth, beside "
                f"{number(rule['us'])} µs for the tile that was the rule."
            )
            alike = [row for row in rows if [*row["tile"][:3], row["tile"][4]] == now]
            if alike == [fastest] and rule is not fastest:
                yield "The fastest is the rule since."


def turns_words(facts: Facts, row: Row, us: float, stream: float, steps: int) -> str:
    """What fills the time that programs take which are there at once, where there are more than fit."""
    resident = row["warps_an_sm"] // row["warps"] * facts.multiprocessors
    turns = max(1.0, row["programs"] / resident)
    count = row["programs"] * row["warps"] * executed(row, steps) * row["elements_a_thread"]  # of one tile a program
    issue = count / (facts.multiprocessors * SCHEDULERS * BOOST)
    return (
        f"{min(resident, row['programs']):,} of its {row['programs']:,} programs are there at a time, with "
        f"{row['bytes_in_flight_an_sm'] / 1024:.0f} KiB to read on each multiprocessor, in {number(turns)} turns. "
        f"A turn takes {number(us / turns)} µs, of which the memory needs {number(stream / turns)} µs and the "
        f"schedulers at least {number(issue / turns)} µs to begin instructions at {BOOST:g} MHz; what is left is "
        "waiting, for the first load and then for pairs that other programs have yet to publish."
    )


def warps_words(facts: Facts, row: Row) -> str:
    warps, places = row["programs"] * row["warps"], facts.multiprocessors * SCHEDULERS
    return f"{warps:,} warps for the {places} schedulers of {facts.multiprocessors} multiprocessors"


def only(cell: Row) -> Row:
    return {name: cell[name] for name in CELL}
