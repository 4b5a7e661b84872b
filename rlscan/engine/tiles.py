"""The tile a program works on, chosen from the shape: the only table of tile sizes (paper/results/h200/tiles.json)."""

import math
from dataclasses import dataclass, replace

WARP = 32
FEW_ROWS = 2048  # so few that each needs long steps through time
FEW_WARPS = 640  # so few that they leave an H200 idle, and time is split over programs
LONG = 2**22  # steps in all rows from which fewer, larger tiles pay
GROUP = 32  # tiles, and groups of tiles, folded at a time where each tile is a program


@dataclass(frozen=True)
class Tile:
    """Rows and steps of one tile, warps of a program, actions read at a time, steps a thread folds; powers of two.

    With a `group`, each tile is a program of its own, and so many tiles are folded at a time. To `unroll` the sum over
    actions has more loads under way.
    """

    rows: int
    steps: int
    warps: int
    actions: int = 1
    run: int = 4
    group: int = 0
    unroll: bool = True


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
    if not time_is_contiguous:
        run = 8 if wide or actions or weight > 10 else 16
        tile = time_major(rows, window, run, action_block(actions))
    elif actions:
        block = action_block(actions)
        if few:
            run = (16 if T > 1024 else 8) if actions <= 6 else 2
        else:
            run = 4 if actions <= 6 else 1
        run = 1 if wide else run
        tile = replace(row_major(window, min(run, window), 1, block), unroll=few)
    else:
        run = 4 if wide or weight > 10 else 8 if loads > 2 else 16
        if few and T > 256 and not wide:
            run = 32 if long else 16
        elif storage_bytes == 2:  # as many bytes a thread
            run = min(2 * run, 16)
        alone = run >= 16 and (few or not reverse or storage_bytes == 2)
        warps = 1 if alone or window <= WARP else 4 if window <= 128 else 2
        tile = row_major(window, min(run, window), warps)
    programs_are_few = -(-rows // tile.rows) * tile.warps <= FEW_WARPS
    tiles_worth_it = 4 if time_is_contiguous else 32
    return replace(tile, group=GROUP) if programs_are_few and tiles_worth_it * tile.steps <= T else tile


def row_major(window: int, run: int, warps: int, actions: int = 1) -> Tile:
    steps = min(WARP * run, window)
    return Tile(max(1, warps * WARP * run // steps), steps, warps, actions, run)


def time_major(rows: int, window: int, run: int, actions: int) -> Tile:
    """[T, N]: neighbouring threads read neighbouring rows."""
    if rows >= 8 * FEW_ROWS and window <= 64:  # so many rows that no two threads need to share one
        return Tile(WARP, min(8, window), 1, actions, min(8, window))
    if window <= WARP:
        run = min(8, window)
        return Tile(WARP, window, window // run, actions, run)
    steps = min(128 if window == 128 else 64, window)
    return Tile(16, steps, 16 * steps // run // WARP, actions, run)


def action_block(actions: int) -> int:
    """The actions that a thread reads as one vector."""
    return math.gcd(actions, 4) or 1
