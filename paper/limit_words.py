"""One paragraph a speed target: what stops it where it is missed, with numbers computed from the measured cells."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator

from paper.limit_facts import (
    LONG,
    SHORT,
    Facts,
    an_element,
    kernel_words,
    limit,
    missed_cells,
    only,
    percent,
    shape_of,
    share,
    swept_words,
    turns_words,
    warps_words,
)
from paper.text import number
from paper.verdicts import AGAIN, CELL, HEADLINE, PATIENCE, label, measured_again


def headline(facts: Facts) -> Iterator[str]:
    """The repeats that miss, beside the other repeats of the same call."""
    missed = facts.targets["headline"]["missed"]
    yield f"{len(missed)} of {facts.targets['headline']['cells']} repeats miss."
    repeats = facts.cells.where(section="grid", metric="full", num_envs=HEADLINE[0], seq_len=HEADLINE[1])
    for key, at in repeats.groups("estimator", "truncated", "repeat"):
        trials = [
            [statistics.median(trial) for row in at.where(implementation=name).rows for trial in row["samples_us"]]
            for name in ("rlscan", "doubling")
        ]
        if label(key) in missed and all(trials):
            same_call = repeats.where(estimator=key[0], truncated=key[1])
            usual = [
                statistics.median(row["us"] for row in same_call.where(implementation=name).rows)
                for name in ("rlscan", "doubling")
            ]
            slow = all(min(us) > 1.2 * median for us, median in zip(trials, usual, strict=True))
            why = (
                ": both were slower, which points to the host, whose time a full call of this shape is" if slow else ""
            )
            of_trials = [theirs / ours for ours, theirs in zip(*trials, strict=True)]
            yield (
                f"In that of `{key[0]}`{' with truncations' * bool(key[1])}, run {key[2]}, rlscan's {len(of_trials)} "
                f"trials took {spread(trials[0])} µs and the baseline's {spread(trials[1])} µs, where its runs took "
                f"{number(usual[0])} and {number(usual[1])} µs as a median{why}. The ratio is of the two least; "
                f"trial by trial it is {min(of_trials):.2f} to {max(of_trials):.2f}, in the median "
                f"{statistics.median(of_trials):.2f}."
            )
            again = measured_again(same_call.rows)
            if again:
                yield (
                    f"{again} trials of this call were {AGAIN}; "
                    f"after {PATIENCE['headline']} its pace is no longer taken."
                )


def headline_agrees(_: Facts) -> Iterator[str]:
    yield "By the same repeats: their verdict is not that of the others."


def spread(x: list[float]) -> str:
    return f"{number(min(x))} to {number(max(x))}"


def grid_device(facts: Facts) -> Iterator[str]:
    missed = set(facts.targets["grid_device"]["missed"])
    grid, guard = facts.cells.where(section="grid"), facts.cells.where(section="guard")
    lost = []  # ratio, cell, its baseline, times: ours, its, ours without the guard
    for key, at in grid.groups(*CELL):
        for name in ("doubling", "associative"):
            if f"{label(key)} {name}" in missed:
                cell = dict(zip(CELL, key, strict=True))
                ours, theirs = (at.us(one, metric="device") for one in ("rlscan", name))
                bare = guard.where(**cell).us("unguarded") if not cell["truncated"] else math.nan
                if not math.isnan(theirs / ours):
                    lost.append((theirs / ours, cell, name, ours, theirs, bare))
    if not lost:
        yield "not a cell of those that miss was measured."
        return
    lost.sort(key=lambda one: one[0])
    against = sorted({f"`{name}`" for _, _, name, *_ in lost})
    which = sorted({f"`{cell['estimator']}`" for _, cell, *_ in lost})
    _, cell, _, ours, theirs, _ = lost[0]
    yield (
        f"Missed against {' and '.join(against)} alone, by {' and '.join(which)}: recurrences of one input and one "
        "flag a step, which that baseline runs as a scan whose combine multiplies where β = 0."
    )
    yield f"Worst is `{cell['estimator']}` at {shape_of(cell)}: {number(ours)} µs against {number(theirs)} µs."
    large = [one for one in lost if one[3] >= SHORT]
    if large:
        most = percent(1 - large[0][0])
        yield f"Of the {len(lost)} cells {len(large)} take {SHORT:g} µs or more, and lose at most {most}."
    known = [one for one in lost if not math.isnan(one[5])]
    if known:
        won = sum(bare <= theirs for *_, theirs, bare in known)
        part = statistics.median((ours - bare) / (ours - theirs) for *_, ours, theirs, bare in known)
        yield (
            f"Without its guard rlscan would be as fast in {won} of {len(known)} cells; the guard is {percent(part)} "
            "of the gap, as a median."
        )
    least = min((row["us"] for row in facts.cells.where(metric="device").rows if row["us"] is not None), default=None)
    if least is not None:
        yield f"Nothing that was measured in a graph takes less than {number(least)} µs, a launch and little else."
    row = facts.code and facts.code.of(**only(cell))
    if row:
        yield (
            f"At the worst cell there are {warps_words(facts, row)}, each of whose threads folds {row['run']} steps: "
            f"the time is the latency of one warp's {number(an_element(row))} instructions an element, of which "
            f"{number(an_element(row, 'floating'))} are arithmetic, {number(an_element(row, 'compares'))} select or "
            f"compare and {number(an_element(row, 'shuffles'))} exchange between threads."
        )


def rows_full(facts: Facts) -> Iterator[str]:
    missed = missed_cells(facts, "rows_full", "rows", "num_envs", "seq_len")
    names = ("rlscan", "cuda_rows", "cuda_rows_prepared")
    rest: dict[str, list[float]] = {name: [] for name in names}
    everywhere = [
        at.us("rlscan", metric="full") - at.us("rlscan", metric="device")
        for _, at in facts.cells.where(section="rows").groups("num_envs", "seq_len")
    ]
    won = 0
    for _, at in missed:
        full, device = ({name: at.us(name, metric=metric) for name in names} for metric in ("full", "device"))
        won += device["rlscan"] < min(device["cuda_rows"], device["cuda_rows_prepared"])
        for name in names:
            rest[name].append(full[name] - device[name])
    steps = max(cell["seq_len"] for cell, _ in missed)
    ours, plain, prepared = (number(statistics.median(rest[name])) for name in names)
    yield (
        f"The {len(missed)} cells have {steps} steps or fewer, and by device time rlscan is faster at {won} of them. "
        f"A full call less its device time is {ours} µs for rlscan, {plain} µs for the CUDA kernel through PyTorch's "
        f"launcher and {prepared} µs for the one whose arguments lie ready and which checks nothing (medians; over all "
        f"shapes {number(statistics.median(everywhere))} µs for rlscan)."
    )
    host = facts.cells.where(section="host").us("rlscan")
    if not math.isnan(host):
        yield (
            f"Of that the host's part is {number(host)} µs in a stream of calls, with every check, the allocation of "
            "two results and the launch; the prepared call allocates them too and checks nothing."
        )


def retrace_long(facts: Facts) -> Iterator[str]:
    missed = missed_cells(facts, "retrace_long", "retrace_long", *CELL)
    first, at = missed[0]
    least = limit(facts, "retrace_long")
    a_step, many = at.rows[0]["bytes"] / (first["num_envs"] * first["seq_len"]), first["actions"]
    yield (
        f"With A = {many}, {8 * many} of the {a_step:.0f} bytes of a step are action values and policy, which the "
        "baseline reads once as well: less is left for a fused scan to save. To be "
        f"{least:g} times as fast in a full call takes this share of stream bandwidth:"
    )
    words = []
    for cell, at in missed:
        full, device = at.us("rlscan", metric="full"), at.us("rlscan", metric="device")
        needed = at.us("doubling", metric="full") / least - (full - device)
        shares = [percent(at.us("stream") / us) for us in (needed, device)]
        words.append(f"{shape_of(cell)} {shares[0]}, and {shares[1]} is reached")
    yield f"{'; '.join(words)}."
    few = min(row["actions"] for row in facts.cells.where(section="retrace_long").rows)
    row, other = (facts.code and facts.code.of(**{**only(first), "actions": n}) for n in (many, few))
    if row and other and few != many:
        yield (
            f"Of each {4 * many} bytes of actions a thread reads {4 * math.gcd(many, 4)} at a time, at a "
            f"stride of {4 * many}, with {number(an_element(row, 'loads'))} loads and {number(an_element(row))} "
            f"instructions an element against {number(an_element(other, 'loads'))} and {number(an_element(other))} for "
            f"A = {few}. A thread holds {row['run']} steps and a tile {row['tile_steps']}, at {row['registers']} "
            f"registers (A = {few}: {other['run']} and {other['tile_steps']}, at {other['registers']})."
        )
    for cell, _ in missed:
        walks = facts.code and facts.code.of(**only(cell))
        if row and walks and row["split"] and not walks["split"] and row["tile_steps"] == walks["tile_steps"]:
            yield (
                f"Where rows are few each tile is a program, and to meet is a part of that: at {shape_of(cell)}, where "
                f"a program walks over time, the same tile takes {number(an_element(walks))} instructions an element."
            )
            break
    for cell, at in missed:
        row = facts.code and facts.code.of(**only(cell))
        if row and row["split"] and label(tuple(cell.values())) == facts.targets["retrace_long"]["worst"]:
            yield f"At the worst, {shape_of(cell)}, each tile is a program:"
            yield turns_words(facts, row, at.us("rlscan", metric="device"), at.us("stream"), cell["seq_len"])


def long(facts: Facts) -> Iterator[str]:
    keys = ("estimator", "num_envs", "seq_len")
    missed = missed_cells(facts, "long", "long", *keys)
    which = sorted({f"`{cell['estimator']}`" for cell, _ in missed})
    yield (
        f"{len(missed)} cells, of {', '.join(which)}. "
        "Programs share a row: each loads, folds its own steps, and then waits for the pairs of the programs behind "
        "it, at up to three levels of groups, before it can write."
    )
    for cell, at in missed:
        row = facts.code and facts.code.of(**cell)
        if row and label(tuple(cell.values())) == facts.targets["long"]["worst"]:
            exchanged, reads_twice = number(an_element(row, "shuffles")), row.get("walk", 1) > 1
            yield (
                f"The worst, `{cell['estimator']}` at {shape_of(cell)}, has {kernel_words(row)}, of which {exchanged} "
                "exchange between threads" + ("." if reads_twice else ":")
            )
            if not reads_twice:
                yield turns_words(facts, row, at.us("rlscan"), at.us("stream"), cell["seq_len"])
    shares = []
    for cell, at in facts.cells.where(section="long").groups(*keys):
        row = facts.code and facts.code.of(**dict(zip(keys, cell, strict=True)))
        if row and cell[1] == 1 and at.us("stream") and cell[2] == LONG:
            moved = at.rows[0]["bytes"] / cell[2]
            shares.append((at.us("stream") / at.us("rlscan"), cell[0], moved, an_element(row)))
    if shares:
        listed = "; ".join(
            f"`{name}` {number(moved)}, {number(count)}, {percent(share)}"
            for share, name, moved, count in sorted(shares)
        )
        yield f"Of one such row, bytes and instructions an element and the share of stream bandwidth: {listed}."


def time_major(facts: Facts) -> Iterator[str]:
    for cell, at in missed_cells(facts, "time_major", "time_major", "estimator", "num_envs", "seq_len"):
        times = {layout: at.us("rlscan", layout=layout) for layout in ("NT", "TN")}
        yield f"`{cell['estimator']}` at {shape_of(cell)}: {number(times['TN'])} µs against {number(times['NT'])} µs."
        rows = {layout: facts.code and facts.code.of(**cell, layout=layout) for layout in times}
        across, along = rows["TN"], rows["NT"]
        if across and along:
            yield (
                f"{across['tile_rows']} neighbouring rows are read together, so that loads are whole lines, and the "
                f"{across['warps']} warps of a program share their {across['tile_steps']} steps: {across['programs']} "
                f"programs for {facts.multiprocessors} multiprocessors (with time contiguous {along['programs']} of "
                f"{along['warps']} warps). The warps meet: {across['instructions']['barriers']} barriers and "
                f"{across['instructions']['shared']} accesses of shared memory, against "
                f"{along['instructions']['barriers']} and {along['instructions']['shared']}, with "
                f"{kernel_words(across)}, against {along['registers']} and {number(an_element(along))}."
            )


def bandwidth(facts: Facts) -> Iterator[str]:
    for cell, at in [x for section in ("grid", "bandwidth") for x in missed_cells(facts, "bandwidth", section, *CELL)]:
        us, stream = (at.us(name, metric="device") for name in ("rlscan", "stream"))
        yield f"`{cell['estimator']}` at {shape_of(cell)}: {number(us)} µs, {percent(stream / us)} of stream bandwidth."
        yield from swept_words(facts, **cell)


def half(facts: Facts) -> Iterator[str]:
    for cell, at in missed_cells(facts, "half", "half", "estimator", "num_envs", "seq_len"):
        narrow, wide = (at.where(dtype=dtype) for dtype in ("bfloat16", "float32"))
        ratio = narrow.us("rlscan") / wide.us("rlscan")
        moved = narrow.rows[0]["bytes"] / wide.rows[0]["bytes"]
        floor = narrow.us("stream") / wide.us("stream")
        shares = [percent(one.us("stream") / one.us("rlscan")) for one in (wide, narrow)]
        needed = narrow.us("stream") / (limit(facts, "half") * wide.us("rlscan"))
        yield (
            f"`{cell['estimator']}` at {shape_of(cell)}, {share(ratio)}: the flags stay bytes, so {share(moved)} of "
            f"the bytes are moved, and an add of as many takes {share(floor)} of the time. In float32 rlscan reaches "
            f"{shares[0]} of stream bandwidth, in bfloat16 {shares[1]}; {percent(needed)} are needed."
        )
        first, second = (facts.code and facts.code.of(**cell, dtype=dtype) for dtype in ("float32", "bfloat16"))
        if first and second:
            yield (
                f"Instructions an element do not halve with the bytes: {number(an_element(first))} in float32, "
                f"{number(an_element(second))} in bfloat16, with {first['warps_an_sm']} and {second['warps_an_sm']} "
                "warps a multiprocessor."
            )
        yield from swept_words(facts, **cell, dtype="bfloat16")


def guard(facts: Facts) -> Iterator[str]:
    found = []  # cost, time, cell
    for key, at in facts.cells.where(section="guard").groups(*CELL):
        us = at.us("rlscan")
        found.append((us / at.us("unguarded"), us, dict(zip(CELL, key, strict=True))))
    found = sorted((one for one in found if not math.isnan(one[0])), key=lambda one: -one[0])
    for words, part in (
        (f"take {SHORT:g} µs or more", [one for one in found if one[1] >= SHORT]),
        ("take less", [one for one in found if one[1] < SHORT]),
    ):
        if part:
            over = sum(label(tuple(cell.values())) in facts.targets["guard"]["missed"] for *_, cell in part)
            yield (
                f"Of {len(part)} cells that {words}, {over} miss: the guard costs {percent(part[0][0] - 1)} at most "
                f"and {100 * (statistics.median(cost for cost, *_ in part) - 1):.1f} % as a median."
            )
    if not facts.code:
        return
    more = []
    for *_, cell in found:
        rows = [facts.code.of(guarded, **only(cell)) for guarded in (True, False)]
        if all(rows):
            more.append((an_element(rows[0]) / an_element(rows[1]), rows, cell))  # type: ignore[arg-type]  # all are there
    if not more:
        return
    growth = [ratio - 1 for ratio, *_ in more]
    yield (
        f"It adds {percent(statistics.median(growth))} to the instructions of a tile as a median, "
        f"{percent(max(growth))} at most: where bandwidth limits they hide behind the loads."
    )
    _, (row, bare), cell = next(one for one in more if one[2] == found[0][2])
    yield (
        f"At the worst cell, `{cell['estimator']}` at {shape_of(cell)}, {number(found[0][1])} µs, there are "
        f"{warps_words(facts, row)}, so nothing hides: {number(an_element(row))} instructions an element against "
        f"{number(an_element(bare))} without, of which {number(an_element(row, 'compares'))} against "
        f"{number(an_element(bare, 'compares'))} select or compare, in the one chain that the time is made of; "
        f"{row['registers']} registers against {bare['registers']}."
    )


def plainly(facts: Facts, name: str) -> Iterator[str]:
    """Of a target that nobody has looked into."""
    found = facts.targets[name]
    how_many = f"{len(found['missed'])} of {found['cells']} cells miss"
    yield f"{found['value']:g} at {found['worst']}; {how_many}. Not looked into."


PARAGRAPHS: dict[str, Callable[[Facts], Iterator[str]]] = {
    "headline": headline,
    "headline_agrees": headline_agrees,
    "grid_device": grid_device,
    "rows_full": rows_full,
    "retrace_long": retrace_long,
    "long": long,
    "time_major": time_major,
    "bandwidth": bandwidth,
    "half": half,
    "guard": guard,
}
