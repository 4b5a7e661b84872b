"""The tile a program works on, chosen from the shape: the only table of tile sizes.

Read from what was measured: paper/results/h200/tiles.json and tiles_many_rows.json, and where rows are few
tiles_spread.json ([N, T]), tiles_retrace.json and tiles_few_rows.json ([T, N]); between and beyond what is there, and
in float64, by what fits into registers.
"""

import math
from dataclasses import dataclass, replace

WARP = 32
FEW_ROWS = 2048  # so few that each needs long steps through time, or several programs where time is not contiguous
FEW_WARPS = 640  # so few that they leave an H200 idle, and time is split over programs
FEW_PROGRAMS = 320  # the same, where each step reads its actions as well
SPREAD_BEYOND, SPREAD_UP_TO = 256, 4096  # few rows: steps between which a row is spread over warps
CROWDED = 512  # rows beyond which that is too many warps, where threads have little to do
WHOLE_BEYOND, WHOLE_UP_TO = 1536, 2048  # many rows of two bytes a number: steps between which a row is one tile
LONG = 2**22  # steps in all rows from which fewer, larger tiles pay
VERY_LONG = 2**24  # [N, T] in float32 without actions: steps in all rows from which programs have several tiles
PROGRAMS = 4096  # of one warp: about as many as an H200 has room for
UNROLLED = 16  # blocks of actions; where there are more, they are read one by one
ACTIONS_HELD = 72  # [T, N]: 32-bit registers of a thread that its actions may take, of each of two tensors
GROUP = 32  # programs that share a row, and groups of them, folded at a time
SMALL_GROUP = 8  # the same, where a thread has rows to fold


@dataclass(frozen=True)
class Tile:
    """Rows and steps of one tile, warps of a program, actions read at a time, steps a thread folds; powers of two.

    With a `group`, time is split over programs of `walk` tiles each, and so many programs are folded at a time. With a
    `vector`, in [N, T], each thread reads its own steps, at most so many at a time; else a tile is read as it lies.
    """

    rows: int
    steps: int
    warps: int
    actions: int = 1
    run: int = 4
    group: int = 0
    walk: int = 1
    vector: int = 0


def power_of_two_at_least(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def power_of_two_at_most(n: int) -> int:
    return 1 << n.bit_length() - 1


def choose_tile(
    rows: int,
    T: int,
    *,
    time_is_contiguous: bool,
    reverse: bool,
    loads: int,
    weight: int,
    actions: int,
    compute_bytes: int,
    storage_bytes: int,
) -> Tile:
    """One run a thread, so that a warp scans a row (for short windows several, over few rows a part of one) in one go;
    no thread without a run.

    `loads` counts the slots read at every step, `weight` the arithmetic of one (the operands of the coefficients): with
    the bytes of a number, computed with and stored, they decide how many steps a thread's registers take.
    """
    window = power_of_two_at_least(T)
    few, long, wide = rows <= FEW_ROWS, rows * T >= LONG, compute_bytes == 8
    light, heavy = loads <= 2, weight > 10
    block = math.gcd(actions, 4) if actions else 1  # what a thread reads as one vector
    if not time_is_contiguous:
        if few and T >= 512:
            return time_major_split(T, light, wide, actions, block)
        return time_major(rows, window, light, heavy, wide, actions, block)
    if actions:
        tile = over_actions(window, few, wide, actions, block)
    elif few and SPREAD_BEYOND < T <= SPREAD_UP_TO and not (light and rows > CROWDED // (2 if window == 1024 else 1)):
        return spread(rows, window, light, heavy, wide, storage_bytes)
    elif storage_bytes == 2 and light and not (few or reverse) and WHOLE_BEYOND < T <= WHOLE_UP_TO and T % 8 == 0:
        return Tile(1, WHOLE_UP_TO, 4, 1, 16, vector=8)
    else:
        if few:
            most = 32 if long or (light and T <= 4096) else 8 if heavy and T > 1024 else 16
        elif heavy:
            most = 16 if T > 512 and storage_bytes > 2 else 8
        else:
            most = 8 if T > 512 and (storage_bytes > 2 or not (light and reverse)) else 16
        run = 4 if wide else min(max(8 if window <= WARP else 4, window // WARP), most)
        warps = 4 if WARP < window <= 4 * WARP else 1 if few or run > 8 or storage_bytes == 2 or window <= WARP else 2
        tile = row_major(window, min(run, window), warps)
    programs = -(-rows // tile.rows)
    programs_are_few = programs <= FEW_PROGRAMS if actions else programs * tile.warps <= FEW_WARPS
    if not programs_are_few or 4 * tile.steps > T:
        return tile
    very_long = rows * T >= VERY_LONG and storage_bytes == 4 and not (wide or actions)
    if very_long and (light or heavy):
        run, most = 16 if light else 8, PROGRAMS if light and not reverse else PROGRAMS // 2
        return Tile(1, WARP * run, 1, 1, run, GROUP, power_of_two_at_most(rows * T // (WARP * run * most)))
    return replace(tile, group=GROUP)


def spread(rows: int, window: int, light: bool, heavy: bool, wide: bool, storage_bytes: int) -> Tile:
    """[N, T] over few rows: a row spread over warps, whose threads have few steps each and read them themselves."""
    crowded = rows > CROWDED // 2
    run = 4 if wide or window <= 1024 else 16 if light and crowded and window > 2048 else 8
    steps = min(window, 1024 if run == 4 or rows > CROWDED or (heavy and crowded) else 2048)
    return Tile(1, steps, steps // (WARP * run), 1, run, vector=min(run, 16 // storage_bytes))


def row_major(window: int, run: int, warps: int, actions: int = 1) -> Tile:
    steps = min(WARP * run, window)
    return Tile(max(1, warps * WARP * run // steps), steps, warps, actions, run)


def over_actions(window: int, few: bool, wide: bool, actions: int, block: int) -> Tile:
    """[N, T] with a sum over actions at every step: what they take of a thread's registers bounds its run."""
    long_window, widest = window > 4 * WARP, 4 if actions <= 24 else 2
    if wide or actions > WARP:
        run = 1
    elif not few or window < 4 * WARP:
        run = 4 if actions <= 4 else 2
    elif long_window and actions <= 8:
        run = 16 if actions <= 4 else 8
    elif long_window:  # a row is a run of each of several warps
        run = 2 if window <= 2**14 else widest
        return Tile(1, 4 * WARP * run, 4, block, run)
    else:
        run = widest
    return row_major(window, min(run, window), 1, block)


def run_over_actions(most: int, actions: int, block: int, wide: bool) -> int:
    """[T, N]: so many steps that the actions of all of them, which are on their way at once, fit into registers."""
    if not actions:
        return most
    held = (actions if actions <= UNROLLED * block else block) * (2 if wide else 1)
    return min(most, power_of_two_at_most(max(1, ACTIONS_HELD // held)))


def time_major_split(T: int, light: bool, wide: bool, actions: int, block: int) -> Tile:
    """[T, N], each tile a program. What programs tell each other takes registers as well, a pair a row and tile of a
    group: so rows are as few as fill a sector of memory with float32, groups are small, and many threads share a row.
    """
    brief = T <= 2**16  # beyond it small groups are so many that programs wait longer for one another
    most = 4 if wide or (actions and not brief) else 16 if light and T > 1024 else 8
    run = run_over_actions(most, actions, block, wide)
    return Tile(8, WARP * run, 8, block, run, SMALL_GROUP if brief else GROUP)


def time_major(rows: int, window: int, light: bool, heavy: bool, wide: bool, actions: int, block: int) -> Tile:
    """[T, N]: neighbouring threads read neighbouring rows, and a row is a run of every warp."""
    many = rows >= 8 * FEW_ROWS
    if many and window <= 64:  # so many rows that few threads need to share one
        most, steps = 16 if light else 8, 16 if light or actions else 8
    elif window <= WARP:
        most, steps = 8, window
    else:
        long = window > 128
        most = 8 if not actions and ((wide and (long or heavy)) or (long and heavy and many)) else 16
        steps = (32 if actions else 4 * most) if long else window
    run = min(run_over_actions(most, actions, block, wide), window)
    steps = min(steps, window, 8 * run)
    return Tile(WARP, steps, steps // run, block, run)
