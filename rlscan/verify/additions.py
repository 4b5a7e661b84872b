"""How many additions lie between a term and a result, in the execution that a plan describes.

A result is a sum of terms (Π β)·α. Every ⊕ on the way adds once to each of its terms, whatever the bracketing; so over
T steps there are at most T additions on a path, the carry's included, and padding, which is the identity, adds exactly.
What a plan says of runs, tiles, groups and blocks gives less for long windows. `proofs/rounding.py` runs the shipped
source and counts.
"""

from ..engine.plan import Plan
from ..engine.portable import block_length
from ..engine.tiles import Tile


def additions(plan: Plan) -> int:
    """At most so many additions from any term to any result."""
    T, rows = int(plan.window.steps), 1
    for size in plan.window.rows:
        rows *= size
    if plan.launch is None:
        return min(T, portable(T, block_length(T, rows)))
    tile: Tile = plan.launch.tile
    return min(T, kernel(T, tile.steps, min(tile.run, tile.steps), plan.launch.group, plan.launch.levels, tile.walk))


def portable(T: int, length: int) -> int:
    """Inside a block, then the chain of blocks, then the carry's own."""
    blocks = -(-T // length)
    return T if blocks == 1 else length - 1 + blocks - 1 + 1 + 1


def kernel(T: int, steps: int, run: int, group: int, levels: int, walk: int) -> int:
    """Up the tree of a run, scanning the runs in any bracketing, reaching the tile, applying, and down the tree."""
    tiles, runs, height = -(-T // steps), steps // run, run.bit_length() - 1
    reaching = tiles - 1 if not group else (walk - 1) + published(-(-tiles // walk), group, levels) + (walk - 1)
    return height + (runs - 1) + reaching + 1 + height


def published(programs: int, group: int, levels: int) -> int:
    """Groups and blocks fold up to `group` pairs in any bracketing; then as many of every level are folded at once,
    after blocks beforehand, and applied. A program's own tiles are a chain before that, and one after it."""
    blocks = -(-programs // group**2)
    beforehand = -(-max(blocks - group, 0) // group) if levels > 2 else 0
    return (levels - 1) * (group - 1) + (levels * group - 1) + beforehand + 1
