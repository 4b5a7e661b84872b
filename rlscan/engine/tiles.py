"""The tile a program works on, chosen from the shape: the only table of tile sizes (paper/results/h200/tiles.json)."""

from dataclasses import dataclass

WARP = 32


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


def choose_tile(rows: int, T: int, *, time_is_contiguous: bool, loads: int, actions: int, wide: bool) -> Tile:
    """One run a thread, so that a warp scans a row (or, for short windows, several) in one go; no thread without a run.

    `loads` counts the slots read at every step, `wide` says that the compute dtype is float64: both cost registers.
    """
    window = power_of_two_at_least(T)
    if not time_is_contiguous:
        steps = min(128, window)
        run = min(8 if wide else 16, steps)
        rows_a_tile = 16 if steps > run else WARP
        return Tile(rows_a_tile, steps, rows_a_tile * steps // run // WARP, _vector(actions, 4), run)
    if actions:
        run = 4 if actions <= 6 and not wide else 1
        steps = min(WARP * run, window)
        return Tile(max(1, WARP * run // steps), steps, 1, _vector(actions, 4), min(run, steps))
    run = 4 if loads > 5 or wide else 8
    warps = 4
    if rows < 1024 and T > 256 and run == 8:  # few rows: fewer, longer steps of the loop over tiles
        run, warps = 16, 1
    steps = min(WARP * run, window)
    return Tile(max(1, warps * WARP * run // steps), steps, warps, 1, min(run, steps))


def _vector(actions: int, most: int) -> int:
    """The largest power of two up to `most` that divides the number of actions."""
    vector = 1
    while vector < most and actions and actions % (2 * vector) == 0:
        vector *= 2
    return vector
