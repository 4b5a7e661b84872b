"""What is false in the twins of `kernel.py`: one expression of the shipped source replaced, or a launch with an argument wrong.

One fault a line: what is false, the expression, what stands in its place, and the function where it is not the kernel.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .registry import Twin
from .symbolic_triton import Edit


def planted(name: str, old: str, new: str, function: str = "affine_scan_kernel") -> Twin:
    return Twin(name, edits=(Edit(function, old, new),))


def launched(name: str, **wrong: Callable[[dict[str, Any]], Any]) -> Twin:
    """A launch whose arguments of these names are others."""

    def change(arguments: dict[str, Any]) -> Mapping[str, Any]:
        return {argument: value(arguments) for argument, value in wrong.items()}

    return Twin(name, change=change)


TWINS: dict[str, tuple[Twin, ...]] = {
    "the_kernel_stores_gae": (
        planted("the mask of a ragged tile is one step short", "tl.where(t < T, alpha", "tl.where(t < T - 1, alpha"),
        planted("V_{t+1} behind a run is read one step early", "t = start + run_step + RUN\n", "t = start + run_step + RUN - 1\n"),
        planted("what lies behind the window is read", "exists & (t < T), TIME_AXIS", "exists, TIME_AXIS"),
        planted("the last step is never met", "+ p == T - 1,", "+ p == T,"),
        planted("results are written beside the window", "VECTOR), mask=beside(inside, VECTOR))", "VECTOR), mask=beside(exists, VECTOR))"),
        planted("rows that are not there are read", "exists = row < rows", "exists = row < rows + 1"),
        planted("rows are time apart", "rest * strides[GROUP * (ROW_DIMS + 1)]", "rest * strides[GROUP * (ROW_DIMS + 1) + 1]", "row_offset"),
        launched("the bootstrap is counted twice", KINDS=lambda a: (*a["KINDS"][:-1], 4), inputs=lambda a: (*a["inputs"][:-1], a["inputs"][a["KINDS"].index(4)])),
    ),
    "the_kernel_stores_td_lambda": (
        planted("runs stand in ascending order", "step = (RUNS - 1 - step // RUN) * RUN + step % RUN", "step = step"),
        planted("V_t in the place of V_{t+1} within a run", "(positions[p + 1],)", "(positions[p],)", "shifted"),
        planted("a run's neighbour is itself", "tl.maximum(run - 1, 0)", "run", "from_run_behind"),
        planted("positions of a run go the wrong way", "results[(RUN - 1 - q if REVERSE else q)", "results[q"),
        launched("a launch says that the tiles are even", EVEN=lambda a: True),
        launched("a launch says that vectors fit into an odd window", VECTOR=lambda a: 2 * bool(a["VECTOR"])),
        launched("a launch says that more steps lie together than do", ALIGNED=lambda a: 2 * a["ALIGNED"]),
        planted("a thread reads the first step of a vector alone", "+ tl.arange(0, VECTOR)", "+ 0 * tl.arange(0, VECTOR)", "offsets_of_part"),
    ),
    "the_kernel_stores_discounted_returns": (
        planted("padding is no identity", "tl.where(t < T, beta, 1.0)", "tl.where(t < T, beta, 0.0)"),
        planted("a tile's carry forgets what lies behind it", "tl.where(is_last_run, run_x, 0.0)", "tl.where(is_last_run, run_alpha, 0.0)"),
        planted("the carry is that of the first run", "is_last_run = tl.expand_dims(tl.arange(0, RUNS) == RUNS - 1", "is_last_run = tl.expand_dims(tl.arange(0, RUNS) == 0"),
        planted("the last value is read one step early", "(T - 1 + nowhere)", "(T - 2 + nowhere)"),
        planted("halves of a run are joined in the wrong order", "tree_alpha[FIRST], tree_beta[FIRST], tree_least[FIRST]", "tree_alpha[FIRST + 1], tree_beta[FIRST], tree_least[FIRST]", "join_neighbours"),
    ),
    "the_kernel_stores_vtrace": (
        planted("the second shift is lost", "OUTPUTS(entering[s + 1], entering[s], *operands)", "OUTPUTS(entering[s + 1], entering[s + 1], *operands)"),
        planted("the second shift stops at a tile", "from_run_behind(run_x, carry, TIME_AXIS)", "from_run_behind(run_x, 0.0, TIME_AXIS)"),
        planted("an alias is that of a run's first step", "slots[(KINDS[k] - ALIAS) * RUN + p]", "slots[(KINDS[k] - ALIAS) * RUN]"),
        planted("the results are swapped", "else q) * len(outputs) + k]", "else q) * len(outputs) + 1 - k]"),
        planted("all steps of a program belong to its first tile", "start = ((tiles - 1 - i) if REVERSE else i)", "start = ((tiles - 1 - first_tile) if REVERSE else i)"),
    ),
    "the_kernel_stores_retrace": (
        planted("actions behind the first block are lost", "static_range(ACTIONS // BLOCK_ACTIONS)", "static_range(1)", "expectation"),
        planted("Q and π have one stride", "action_strides[1]", "action_strides[0]", "expectation_of_block"),
        planted("the policy lies where Q does", "policy_offset, action, action_strides[1]", "q_offset, action, action_strides[1]", "expectation_of_block"),
        launched("a launch promises more than its strides keep", ACTION_ALIGNMENT=lambda a: 2 * a["ACTION_ALIGNMENT"]),
        planted("the first actions are lost", "range(0, actions, BLOCK_ACTIONS)", "range(BLOCK_ACTIONS, actions, BLOCK_ACTIONS)", "expectation"),
        planted("the trace of the step itself", "if KINDS[k] == NEXT or (KINDS[k] >= SHIFTED and KINDS[k] < ALIAS):\n                    positions", "if KINDS[k] >= SHIFTED and KINDS[k] < ALIAS:\n                    positions"),
    ),
    "the_kernel_stores_eligibility_traces": (
        planted("what lies behind the window is read", "exists & (t >= 0) & (t < T)", "exists & (t >= 0)"),
        planted("what lies before the window is read", "exists & (t >= 0) & (t < T)", "exists & (t < T)"),
        planted("a flag within a run is not shifted", "        for p in tl.static_range(RUN - 1):\n            moved = moved + (positions[p],)", "        for p in tl.static_range(RUN - 1):\n            moved = moved + (positions[p + 1],)", "shifted"),
        planted("the flag behind a run is that of its first step", "t = start + run_step - 1\n", "t = start + run_step\n"),
        planted("features are counted as rows", "rest = rest // row_sizes", "rest = rest % row_sizes", "row_offset"),
        launched("a launch has one layout for all", GROUPS=lambda a: (0,) * len(a["GROUPS"])),
    ),
    "the_kernel_stores_prefix_sums": (
        planted("the initial sum is another row's", "tl.load(inputs[SLOTS] + offset, mask=exists", "tl.load(inputs[SLOTS] + tl.maximum(offset - 1, 0), mask=exists"),
        planted("the front half of a run starts where the back half did", "halves + (entering[j], x)", "halves + (entering[j], entering[j])", "behind_each_step"),
        planted("a program owns rows of its neighbour", "tl.program_id(1 if SPLIT else 0) * BLOCK_ROWS", "tl.program_id(1 if SPLIT else 0) * (BLOCK_ROWS // 2)"),
        planted("what lies behind a run is the run itself, in [T, N]", "alpha_a, beta_a, least_a, alpha_behind_b, beta_behind_b, least_behind_b", "alpha_a, beta_a, least_a, alpha_b, beta_b, least_b", "join_spans_twice"),
        launched("a launch has a program less", rows=lambda a: a["rows"] - 1),
    ),
    "the_kernel_stores_linear_scans": (
        planted("tiles ascend in either direction", "((tiles - 1 - i) if REVERSE else i) * B", "i * B"),
        planted("the first run's neighbour is a run", "tl.where(run == 0, edge, neighbour)", "neighbour", "from_run_behind"),
        launched("the direction of the launch is the other one", REVERSE=lambda a: not a["REVERSE"]),
        planted("positions of a run are joined in the wrong order", "tl.join(zero, positions[p + (RUN >> (bit + 1))])", "tl.join(positions[p + (RUN >> (bit + 1))], zero)", "join_runs"),
        planted("a run is split in halves", "positions = zeros + ones", "positions = ones + zeros", "split_runs"),
    ),
    "programs_that_share_rows_meet": (
        planted("nobody waits", "while tl.min((found != 0).to(tl.int32)) == 0:", "while False:", "wait_for"),
        planted("a pair may look like nothing", "QUIET_NAN, bits) ^ EMPTY", "QUIET_NAN, bits)", "publish"),
        planted("the sign of β runs into α", "beta.to(tl.uint32, bitcast=True)", "beta.to(tl.int32, bitcast=True)", "publish"),
        planted("later tiles are waited for", "wait_for(words + number, wanted & exists)", "wait_for(words + number, exists)", "fold_published"),
        planted("the tile at hand counts, at one level", "wanted = place < i", "wanted = place <= i", "carry_into_tile"),
        planted("the tile at hand counts, at two", "(group - 1) * GROUP + place < i", "(group - 1) * GROUP + place <= i", "carry_into_tile"),
        planted("the tile at hand counts, at three", "in_group < i", "in_group <= i", "carry_into_tile"),
        planted("blocks folded beforehand are dropped", "carry = apply(alpha, beta, carry)", "carry = carry", "carry_into_tile"),
        planted("a group is folded from the wrong end", "combine(alpha_a, beta_a, alpha, beta)", "combine(alpha, beta, alpha_a, beta_a)", "carry_into_tile"),
        planted("groups of two rows meet in one word", "rows * tiles + row * groups", "rows * tiles + row", "carry_into_tile"),
        planted("the last pair is the first", "alpha.shape[TIME_AXIS] - 1, 1", "0, 1", "fold_published"),
        planted("programs count from the far end", "program = tl.program_id(0)", "program = tl.cdiv(tiles, WALK if SPLIT else 1) - 1 - tl.program_id(0)"),
        planted("a program folds its tiles from the wrong end", "turn if PASS + 1 < PASSES else turn", "turn if PASS < 0 else turn"),
        planted("a program's tiles are folded backwards", "combine(tile_alpha, tile_beta, folded_alpha, folded_beta)", "combine(folded_alpha, folded_beta, tile_alpha, tile_beta)"),
        planted("the last program walks out of the window", "tl.minimum(first_tile + WALK, tiles)", "first_tile + WALK"),
        planted("a program that walks takes no carry from one tile to the next", "if WALK != 1:", "if WALK == 0:"),
        launched("a launch has a word less", words=lambda a: a["words"][:-1]),
        launched("a launch has a level less", LEVELS=lambda a: max(a["LEVELS"] - 1, 1)),
    ),
    "the_kernel_uses_what_the_definition_uses": (
        planted("⊕ multiplies by zero", "tl.where(least == 0, alpha, alpha + beta * x)", "alpha + beta * x", "apply_span"),
        planted("a reset behind is forgotten", "tl.minimum(least_a, least_b)", "least_b", "join_spans"),
        planted("a tile's carry is multiplied by a mask", "tl.where(is_last_run, run_x, 0.0)", "is_last_run.to(DTYPE) * run_x"),
        planted("a shared tile's pair is multiplied by a mask", "tl.where(is_last_run, tile_alpha, 0.0)", "is_last_run.to(DTYPE) * tile_alpha"),
        planted("words that are not wanted count", "tl.where(wanted, alpha, 0.0)", "alpha", "fold_published"),
    ),
    "the_kernel_stores_every_definition_at_five_steps": (
        planted("the mask of a ragged tile is one step short", "tl.where(t < T, alpha", "tl.where(t < T - 1, alpha"),
        planted("the carry forgets what lies behind a tile", "tl.where(is_last_run, run_x, 0.0)", "tl.where(is_last_run, run_alpha, 0.0)"),
    ),
    "offsets_beyond_32_bits_are_right": (
        launched("a launch says that 32 bits hold every offset", WIDE=lambda a: False),
        planted("rows are counted in 32 bits", "first_row = first_row.to(tl.int64)", "first_row = first_row"),
    ),
}  # fmt: skip
