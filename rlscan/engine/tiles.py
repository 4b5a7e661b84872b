"""The tile a program works on, chosen from the shape: the only table of tile sizes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """Rows and steps of one tile, warps of a program, actions read at a time, steps a thread folds; powers of two."""

    rows: int
    steps: int
    warps: int
    actions: int = 1
    run: int = 4


def power_of_two_at_least(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def choose_tile(rows: int, T: int, *, time_is_contiguous: bool, actions: int = 0) -> Tile:
    """Enough elements for four a thread; whole windows up to 512 steps, then tiles of 512 with a carry."""
    action_tile = 1
    while action_tile < 8 and actions and actions % (2 * action_tile) == 0:
        action_tile *= 2
    if time_is_contiguous:
        steps = min(512, power_of_two_at_least(T))
        row_tile = max(1, 512 // steps)
    else:
        row_tile = 32
        steps = min(32, power_of_two_at_least(T))
    if actions:
        row_tile = max(1, row_tile // 2)
    row_tile = min(row_tile, power_of_two_at_least(rows))
    warps = max(1, min(8, row_tile * steps // 128))
    return Tile(row_tile, steps, warps, action_tile)
