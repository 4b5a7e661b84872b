"""The tile a program works on, chosen from the shape: the only table of tile sizes.

Read from what was measured: paper/results/h200/tiles.json, and tiles_retrace.json where rows are few.
"""

import math
from dataclasses import dataclass, replace

WARP = 32
FEW_ROWS = 2048  # so few that each needs long steps through time
FEW_WARPS = 640  # so few that they leave an H200 idle, and time is split over programs
FEW_PROGRAMS = 320  # the same, where each step reads its actions as well
LONG = 2**22  # steps in all rows from which fewer, larger tiles pay
GROUP = 32  # tiles, and groups of tiles, folded at a time where each tile is a program


@dataclass(frozen=True)
class Tile:
    """Rows and steps of one tile, warps of a program, actions read at a time, steps a thread folds; powers of two.

    With a `group`, each tile is a program of its own, and so many tiles are folded at a time.
    """

    rows: int
    steps: int
    warps: int
    actions: int = 1
    run: int = 4
    group: int = 0


def power_of_two_at_least(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


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
    """One run a thread, so that a warp scans a row (or, for short windows, several) in one go; no thread without a run.

    `loads` counts the slots read at every step, `weight` the arithmetic of one (the operands of the coefficients): with
    the bytes of a number, computed with and stored, they decide how many steps a thread's registers take.
    """
    window = power_of_two_at_least(T)
    few, long, wide = rows <= FEW_ROWS, rows * T >= LONG, compute_bytes == 8
    light, heavy = loads <= 2, weight > 10
    block = math.gcd(actions, 4) if actions else 1  # what a thread reads as one vector
    if not time_is_contiguous:
        tile = time_major(rows, window, light, heavy or wide, actions, block)
    elif actions:
        tile = over_actions(window, few, wide, actions, block)
    else:
        if few:
            most = 32 if long or (light and T <= 4096) else 8 if heavy and T > 1024 else 16
        else:
            most = 8 if heavy or (T > 512 and (storage_bytes > 2 or not (light and reverse))) else 16
        run = 4 if wide else min(max(8 if window <= WARP else 4, window // WARP), most)
        warps = 4 if WARP < window <= 4 * WARP else 1 if few or run > 8 or storage_bytes == 2 or window <= WARP else 2
        tile = row_major(window, min(run, window), warps)
    programs = -(-rows // tile.rows)
    programs_are_few = programs <= FEW_PROGRAMS if actions else programs * tile.warps <= FEW_WARPS
    tiles_worth_it = 4 if time_is_contiguous else 32
    return replace(tile, group=GROUP) if programs_are_few and tiles_worth_it * tile.steps <= T else tile


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


def time_major(rows: int, window: int, light: bool, heavy: bool, actions: int, block: int) -> Tile:
    """[T, N]: neighbouring threads read neighbouring rows, and a row is a run of every warp."""
    if rows >= 8 * FEW_ROWS and window <= 64:  # so many rows that few threads need to share one
        run = min(16 if light else 8, window)
        steps = min(16, window) if light or actions else run
    elif window <= WARP:
        run, steps = min(8, window), window
    elif window <= 128:
        run, steps = 16, window
    else:
        run = 8 if heavy and not actions else 16
        steps = 64 if not heavy else 32
    return Tile(WARP, steps, steps // run, block, run)
