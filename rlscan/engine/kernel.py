"""The one fused kernel: raw rollout in, coefficients on chip, scan on chip, results out.

A program owns BLOCK_ROWS rows and walks over time in tiles of BLOCK_STEPS, in the direction of the recurrence, with the
carry x in registers. A tile is cut into *runs* of RUN neighbouring steps, one run a thread: a thread folds its run up a
tree of halves, the runs are scanned across threads, and what lies behind a run goes down the tree to its steps, so that
few operations wait for one another. So a slot is a tuple of RUN tensors, one for each position in a run, of the shape
[rows, runs] where time is contiguous in memory (TIME_AXIS = 1) and [runs, rows] where rows are (TIME_AXIS = 0). Runs
stand in the direction of the recurrence; the positions 0 … RUN - 1 within a run stand for ascending time.

In [N, T] a tile is read as it lies in memory, ALIGNED steps together, and threads of a warp exchange what they read
until each has its run. Where a row without actions is spread over several warps that costs too much: there each thread
reads its own run, VECTOR steps at a time. In [T, N] it reads its own run step by step.

Where rows are few (SPLIT), time is split over programs. A program publishes what its tile does to x as a pair, waits
for the pairs of the programs behind it, and folds them in an order that does not depend on who was first: same input,
same bits. Pairs are folded in groups and those again in groups, so that a program has few to wait for. Where time is
very long a program has several tiles (WALK): it folds them, publishes, waits once, and then walks over them.
"""

from ..affine import apply, apply_span, combine, join_spans, pair_of_span, step_span, weighted
from ..language import tl, triton
from .spec import Kind

NEXT: tl.constexpr = tl.constexpr(int(Kind.NEXT))
FLAG: tl.constexpr = tl.constexpr(int(Kind.FLAG))
PREVIOUS_FLAG: tl.constexpr = tl.constexpr(int(Kind.PREVIOUS_FLAG))
ROW: tl.constexpr = tl.constexpr(int(Kind.ROW))
CELL: tl.constexpr = tl.constexpr(int(Kind.CELL))
SCALAR: tl.constexpr = tl.constexpr(int(Kind.SCALAR))
LAST: tl.constexpr = tl.constexpr(int(Kind.LAST))
EXPECTATION: tl.constexpr = tl.constexpr(int(Kind.EXPECTATION))
NO_VALUE: tl.constexpr = tl.constexpr(int(Kind.NO_VALUE))
NO_FLAG: tl.constexpr = tl.constexpr(int(Kind.NO_FLAG))
FINAL: tl.constexpr = tl.constexpr(int(Kind.FINAL))
SHIFTED: tl.constexpr = tl.constexpr(int(Kind.SHIFTED))
ALIAS: tl.constexpr = tl.constexpr(int(Kind.ALIAS))
# bits that no arithmetic makes (twice a NaN of float32, or one of float64), and what stands in for them
EMPTY: tl.constexpr = tl.constexpr(0x7FF8ABCD7FC0ABCD)
QUIET_NAN: tl.constexpr = tl.constexpr(0x7FF800007FC00000)


@triton.jit
def row_offset(row, row_sizes, strides, GROUP: tl.constexpr, ROW_DIMS: tl.constexpr):
    """Element offset of each row: its number written in the mixed radix of the row dimensions' sizes."""
    offset = row * 0
    rest = row
    for k in tl.static_range(ROW_DIMS - 1):
        offset += (rest % row_sizes[ROW_DIMS - 1 - k]) * strides[GROUP * (ROW_DIMS + 1) + ROW_DIMS - 1 - k]
        rest = rest // row_sizes[ROW_DIMS - 1 - k]
    return offset + rest * strides[GROUP * (ROW_DIMS + 1)]


@triton.jit
def action_values(pointer, offset, action, action_stride, inside, ALIGNMENT: tl.constexpr, DTYPE: tl.constexpr):
    """One number per step and action; ALIGNMENT actions of a step can be read as one vector."""
    offset = tl.expand_dims(offset, 2) + action * action_stride
    offset = tl.multiple_of(offset, [1, 1, ALIGNMENT])
    return tl.load(pointer + offset, mask=tl.expand_dims(inside, 2), other=0).to(DTYPE)


@triton.jit
def expectation_of_block(
    q,
    policy,
    q_offset,
    policy_offset,
    first,
    action_strides,
    inside,
    BLOCK_ACTIONS: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    DTYPE: tl.constexpr,
):
    """The part of the sum that the actions from the first on have, as many as are read at a time."""
    action = first + tl.arange(0, BLOCK_ACTIONS)[None, None, :]
    q_a = action_values(q, q_offset, action, action_strides[0], inside, ALIGNMENT, DTYPE)
    policy_a = action_values(policy, policy_offset, action, action_strides[1], inside, ALIGNMENT, DTYPE)
    return tl.sum(weighted(policy_a, q_a), 2)


@triton.jit
def expectation(
    q,
    policy,
    q_offset,
    policy_offset,
    action_strides,
    inside,
    actions,
    ACTIONS: tl.constexpr,
    BLOCK_ACTIONS: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    TIME_AXIS: tl.constexpr,
    DTYPE: tl.constexpr,
):
    """Σ_a policy·q over the last dimension; an action of probability zero is not used."""
    if TIME_AXIS == 0:  # where nothing is contiguous Triton has neighbouring threads along axis 0
        q_offset = tl.trans(q_offset)
        policy_offset = tl.trans(policy_offset)
        inside = tl.trans(inside)
    total = tl.zeros(q_offset.shape, DTYPE)
    if ACTIONS:  # unrolled, so that all loads are on their way at once
        for block in tl.static_range(ACTIONS // BLOCK_ACTIONS):
            total += expectation_of_block(
                *(q, policy, q_offset, policy_offset, block * BLOCK_ACTIONS),
                *(action_strides, inside, BLOCK_ACTIONS, ALIGNMENT, DTYPE),
            )
    else:
        for first in range(0, actions, BLOCK_ACTIONS):
            total += expectation_of_block(
                *(q, policy, q_offset, policy_offset, first, action_strides, inside, BLOCK_ACTIONS, ALIGNMENT, DTYPE)
            )
    if TIME_AXIS == 0:
        return tl.trans(total)
    else:
        return total


@triton.jit
def load_beside(pointer, offset, inside, TIME_AXIS: tl.constexpr):
    """One entry a run. Where none of them are contiguous Triton has neighbouring threads along axis 0: runs, here."""
    if TIME_AXIS == 1:
        return tl.trans(tl.load(pointer + tl.trans(offset), mask=tl.trans(inside), other=0))
    else:
        return tl.load(pointer + offset, mask=inside, other=0)


@triton.jit
def numbers(loaded, KIND: tl.constexpr, DTYPE: tl.constexpr):
    """What was loaded as numbers of the compute dtype, or flags as 0 and 1."""
    if KIND == FLAG or KIND == PREVIOUS_FLAG:
        return (loaded != 0).to(tl.int32)
    else:
        return loaded.to(DTYPE)


@triton.jit
def split_runs(x, RUN: tl.constexpr):
    """[rows, runs * RUN] → RUN ≤ 32 tensors [rows, runs]; a thread that loaded a run as one vector moves nothing."""
    positions = (x,)
    for bit in tl.static_range(5):  # after it, positions[p] holds the steps whose lowest bits are those of p
        if (2 << bit) <= RUN:
            zeros = ()
            ones = ()
            for p in tl.static_range(1 << bit):
                part = positions[p]
                zero, one = tl.split(tl.reshape(part, [part.shape[0], part.shape[1] // 2, 2]))
                zeros = zeros + (zero,)
                ones = ones + (one,)
            positions = zeros + ones
    return positions


@triton.jit
def join_runs(positions, RUN: tl.constexpr):
    """The inverse."""
    for bit in tl.static_range(5):
        if (2 << bit) <= RUN:
            joined = ()
            for p in tl.static_range(RUN >> (bit + 1)):
                zero = positions[p]
                pair = tl.join(zero, positions[p + (RUN >> (bit + 1))])
                joined = joined + (tl.reshape(pair, [zero.shape[0], zero.shape[1] * 2]),)
            positions = joined
    return positions[0]


@triton.jit
def beside(x, VECTOR: tl.constexpr):
    """What holds for the first step of a part holds for all that a thread reads with it."""
    return tl.expand_dims(x, 2) if VECTOR else x


@triton.jit
def inside_window(exists, in_time, EVEN: tl.constexpr, ALIGNED: tl.constexpr):
    """Whether a row and a step are there: of ALIGNED neighbouring steps all or none."""
    if EVEN:
        return exists
    elif ALIGNED > 1:
        return tl.max_constancy(exists & in_time, [1, ALIGNED])
    else:
        return exists & in_time


@triton.jit
def offsets_of_part(per_row, first, time_stride, VECTOR: tl.constexpr, ALIGNED: tl.constexpr):
    """Where the steps of a part lie that begin with `first`: in vectors of memory, if time is contiguous."""
    if VECTOR:
        t = tl.expand_dims(first, 2) + tl.arange(0, VECTOR)[None, None, :]
        return tl.multiple_of(tl.expand_dims(per_row, 2) + t * time_stride, [1, 1, VECTOR])
    else:
        offset = per_row + first * time_stride
        return tl.multiple_of(offset, [1, ALIGNED]) if ALIGNED > 1 else offset


@triton.jit
def split_part(x, PART: tl.constexpr, VECTOR: tl.constexpr):
    """What was read together, as PART positions of every run."""
    return split_runs(tl.reshape(x, [x.shape[0], x.shape[1] * PART]) if VECTOR else x, PART)


@triton.jit
def join_part(positions, PART: tl.constexpr, VECTOR: tl.constexpr):
    """The inverse."""
    joined = join_runs(positions, PART)
    return tl.reshape(joined, [joined.shape[0], joined.shape[1] // PART, PART]) if VECTOR else joined


@triton.jit
def from_run_behind(x, edge, TIME_AXIS: tl.constexpr):
    """[N, T]: per run the entry of the run behind it, which is one earlier in the scan; `edge` for the first."""
    run = tl.expand_dims(tl.arange(0, x.shape[TIME_AXIS]), 1 - TIME_AXIS)
    if x.shape[TIME_AXIS] == 1:
        neighbour = x
    else:
        neighbour = tl.gather(x, tl.broadcast_to(tl.maximum(run - 1, 0), x.shape), TIME_AXIS)
    return tl.where(run == 0, edge, neighbour)


@triton.jit
def shifted(positions, neighbour, KIND: tl.constexpr, RUN: tl.constexpr):
    """The entries at t + 1 (NEXT, which goes backward) or at t - 1 (PREVIOUS_FLAG, forward);
    `neighbour` lies beside the run.
    """
    moved = ()
    if KIND == NEXT:
        for p in tl.static_range(RUN - 1):
            moved = moved + (positions[p + 1],)
        return moved + (neighbour,)
    else:
        moved = moved + (neighbour,)
        for p in tl.static_range(RUN - 1):
            moved = moved + (positions[p],)
        return moved


@triton.jit
def publish(words, number, alpha, beta, exists):
    """Writes a pair so that a reader can tell that it is there: a word is 0 until then, and written in one go."""
    if alpha.dtype.is_fp64():
        alpha_bits = alpha.to(tl.int64, bitcast=True)
        beta_bits = beta.to(tl.int64, bitcast=True)
        tl.store(words + 2 * number, tl.where(alpha_bits == EMPTY, QUIET_NAN, alpha_bits) ^ EMPTY, mask=exists)
        tl.store(words + 2 * number + 1, tl.where(beta_bits == EMPTY, QUIET_NAN, beta_bits) ^ EMPTY, mask=exists)
    else:
        bits = (alpha.to(tl.int32, bitcast=True).to(tl.int64) << 32) | beta.to(tl.uint32, bitcast=True).to(tl.int64)
        tl.store(words + number, tl.where(bits == EMPTY, QUIET_NAN, bits) ^ EMPTY, mask=exists)


@triton.jit
def wait_for(words, wanted):
    """The words, once all that are wanted have come; 1 where none is wanted."""
    found = tl.load(words, mask=wanted, other=1, volatile=True)
    while tl.min((found != 0).to(tl.int32)) == 0:
        found = tl.load(words, mask=wanted, other=1, volatile=True)
    return found ^ EMPTY


@triton.jit
def fold_published(words, number, wanted, exists, TIME_AXIS: tl.constexpr, DTYPE: tl.constexpr):
    """The pairs of these numbers as one, the first lying farthest behind, once all that are wanted have come."""
    if DTYPE.is_fp64():
        alpha = wait_for(words + 2 * number, wanted & exists).to(DTYPE, bitcast=True)
        beta = wait_for(words + 2 * number + 1, wanted & exists).to(DTYPE, bitcast=True)
    else:
        bits = wait_for(words + number, wanted & exists)
        alpha = (bits >> 32).to(tl.int32).to(DTYPE, bitcast=True)
        beta = bits.to(tl.int32).to(DTYPE, bitcast=True)
    alpha, beta = tl.associative_scan((tl.where(wanted, alpha, 0.0), tl.where(wanted, beta, 1.0)), TIME_AXIS, combine)
    is_last = tl.expand_dims(tl.arange(0, alpha.shape[TIME_AXIS]) == alpha.shape[TIME_AXIS] - 1, 1 - TIME_AXIS)
    alpha = tl.sum(tl.where(is_last, alpha, 0.0), TIME_AXIS, keep_dims=True)
    return alpha, tl.sum(tl.where(is_last, beta, 0.0), TIME_AXIS, keep_dims=True)


@triton.jit
def carry_into_tile(
    alpha,
    beta,
    carry,
    i,
    tiles,
    row,
    rows,
    words,
    GROUP: tl.constexpr,
    LEVELS: tl.constexpr,
    TIME_AXIS: tl.constexpr,
    DTYPE: tl.constexpr,
):
    """x behind tile i, whose pair is (alpha, beta), from x behind tile 0 and what the tiles between do to it. The tiles
    of a program count as one here.

    `words` holds the pairs of all tiles, row by row; with 2 LEVELS then those of all groups of GROUP tiles; with 3 then
    those of all GROUPs of groups, "blocks". A program folds the blocks before its own, in its block the groups before
    its own, and in its group the tiles before its own.
    """
    exists = row < rows
    groups = tl.cdiv(tiles, GROUP)
    group = i // GROUP
    block = group // GROUP
    tile_number = row * tiles
    group_number = rows * tiles + row * groups
    block_number = rows * (tiles + groups) + row * tl.cdiv(groups, GROUP)
    publish(words, tile_number + i, alpha, beta, exists)
    place = tl.expand_dims(tl.arange(0, GROUP), 1 - TIME_AXIS)
    if LEVELS > 1:
        if i % GROUP == GROUP - 1:  # the last of a group tells of the group
            number = tile_number + group * GROUP + place
            alpha_a, beta_a = fold_published(words, number, place < GROUP - 1, exists, TIME_AXIS, DTYPE)
            alpha_group, beta_group = combine(alpha_a, beta_a, alpha, beta)
            publish(words, group_number + group, alpha_group, beta_group, exists)
            if LEVELS > 2:
                if group % GROUP == GROUP - 1:
                    number = group_number + block * GROUP + place
                    alpha_a, beta_a = fold_published(words, number, place < GROUP - 1, exists, TIME_AXIS, DTYPE)
                    alpha_block, beta_block = combine(alpha_a, beta_a, alpha_group, beta_group)
                    publish(words, block_number + block, alpha_block, beta_block, exists)
    if LEVELS == 1:
        number = tile_number + place
        wanted = place < i
    elif LEVELS == 2:
        place = tl.expand_dims(tl.arange(0, 2 * GROUP), 1 - TIME_AXIS)
        number = tl.where(place < GROUP, group_number + place, tile_number + (group - 1) * GROUP + place)
        wanted = tl.where(place < GROUP, place < group, (group - 1) * GROUP + place < i)
    else:
        recent = tl.maximum(block - GROUP, 0)  # blocks before it are folded GROUP at a time, beforehand
        for first in range(0, recent, GROUP):
            wanted = first + place < recent
            alpha, beta = fold_published(words, block_number + first + place, wanted, exists, TIME_AXIS, DTYPE)
            carry = apply(alpha, beta, carry)
        place = tl.expand_dims(tl.arange(0, 4 * GROUP), 1 - TIME_AXIS)
        in_group = (group - 2) * GROUP + place
        in_block = (block - 1) * GROUP + place
        number = tl.where(place < 2 * GROUP, group_number + in_block, tile_number + in_group)
        number = tl.where(place < GROUP, block_number + recent + place, number)
        wanted = tl.where(place < 2 * GROUP, in_block < group, in_group < i)
        wanted = tl.where(place < GROUP, recent + place < block, wanted)
    alpha, beta = fold_published(words, number, wanted, exists, TIME_AXIS, DTYPE)
    return apply(alpha, beta, carry)


@triton.jit
def join_spans_twice(
    alpha_a,
    beta_a,
    least_a,
    alpha_behind_a,
    beta_behind_a,
    least_behind_a,
    alpha_b,
    beta_b,
    least_b,
    alpha_behind_b,
    beta_behind_b,
    least_behind_b,
):
    """Spans, each with the span of what lies behind its last run: a scan that gives both, without an exchange."""
    alpha, beta, least = join_spans(alpha_a, beta_a, least_a, alpha_b, beta_b, least_b)
    alpha_behind, beta_behind, least_behind = join_spans(
        *(alpha_a, beta_a, least_a, alpha_behind_b, beta_behind_b, least_behind_b)
    )
    return alpha, beta, least, alpha_behind, beta_behind, least_behind


@triton.jit
def join_neighbours(tree_alpha, tree_beta, tree_least, FIRST: tl.constexpr):
    return join_spans(
        *(tree_alpha[FIRST], tree_beta[FIRST], tree_least[FIRST]),
        *(tree_alpha[FIRST + 1], tree_beta[FIRST + 1], tree_least[FIRST + 1]),
    )


@triton.jit
def apply_node(tree_alpha, tree_beta, tree_least, NODE: tl.constexpr, x):
    return apply_span(tree_alpha[NODE], tree_beta[NODE], tree_least[NODE], x)


@triton.jit
def run_tree(alphas, betas, RUN: tl.constexpr):
    """Spans of the steps of a run, then of its pairs, of its fours, ..., of the whole: three tuples.

    Those of 2^level steps begin at 2 RUN - (2 RUN >> level).
    """
    tree_alpha = ()
    tree_beta = ()
    tree_least = ()
    for s in tl.static_range(RUN):
        alpha, beta, least = step_span(alphas[s], betas[s])
        tree_alpha = tree_alpha + (alpha,)
        tree_beta = tree_beta + (beta,)
        tree_least = tree_least + (least,)
    for level in tl.static_range(5):
        if (2 << level) <= RUN:
            for j in tl.static_range(RUN >> (level + 1)):
                alpha, beta, least = join_neighbours(
                    tree_alpha, tree_beta, tree_least, 2 * RUN - (2 * RUN >> level) + 2 * j
                )
                tree_alpha = tree_alpha + (alpha,)
                tree_beta = tree_beta + (beta,)
                tree_least = tree_least + (least,)
    return tree_alpha, tree_beta, tree_least


@triton.jit
def behind_each_step(tree_alpha, tree_beta, tree_least, behind, RUN: tl.constexpr):
    """x one step behind each step of a run, from x behind the run: a half goes on to the half in front of it."""
    entering = (behind,)
    for down in tl.static_range(5):
        if (32 >> down) <= RUN:  # from spans of 32 >> down steps to their halves
            halves = ()
            for j in tl.static_range(RUN // (32 >> down)):
                x = apply_node(
                    tree_alpha, tree_beta, tree_least, 2 * RUN - 2 * RUN // (16 >> down) + 2 * j, entering[j]
                )
                halves = halves + (entering[j], x)
            entering = halves
    return entering


@triton.jit
def affine_scan_kernel(
    inputs,  # per slot: a pointer, a number, or 0 where the kind reads nothing; the last one is the carry
    outputs,
    policy,  # pointer to the action probabilities, or 0
    words,  # where programs that share rows meet (SPLIT), all 0; else 0
    strides,  # per group of tensors that share them: row dimensions..., time
    action_strides,  # of the action values and of the policy
    row_sizes,
    rows,
    T,
    actions,
    COEFFICIENTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    KINDS: tl.constexpr,
    GROUPS: tl.constexpr,
    OUTPUT_GROUPS: tl.constexpr,
    POLICY_GROUP: tl.constexpr,
    ROW_DIMS: tl.constexpr,
    REVERSE: tl.constexpr,
    TIME_AXIS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_STEPS: tl.constexpr,
    RUN: tl.constexpr,  # divides BLOCK_STEPS
    ACTIONS: tl.constexpr,  # their number, where the sum over them is unrolled; else 0
    BLOCK_ACTIONS: tl.constexpr,  # divides it: read at a time
    ACTION_ALIGNMENT: tl.constexpr,
    EVEN: tl.constexpr,  # BLOCK_STEPS divides T
    WIDE: tl.constexpr,  # some offset passes 2^31
    SPLIT: tl.constexpr,  # programs in a group, where they share rows; 0 where a program walks over all tiles
    LEVELS: tl.constexpr,  # of groups
    WALK: tl.constexpr,  # tiles of a program, 0 where it walks over several that are all
    ALIGNED: tl.constexpr,  # steps that are read together: divides RUN, T, strides of rows; 1 in [T, N] or with VECTOR
    VECTOR: tl.constexpr,  # steps of its run that a thread reads at a time; divides RUN, T, strides of its rows; or 0
    DTYPE: tl.constexpr,
):
    SLOTS: tl.constexpr = len(KINDS) - 1
    STRIDES: tl.constexpr = ROW_DIMS + 1
    PASSES: tl.constexpr = 2 if SPLIT and WALK > 1 else 1
    TOGETHER: tl.constexpr = TIME_AXIS == 1 and VECTOR == 0
    PARTS: tl.constexpr = 1 if TOGETHER else RUN // VECTOR if VECTOR else RUN  # in which a tile is read and written
    PART: tl.constexpr = RUN // PARTS  # positions of a run in each
    RUNS: tl.constexpr = BLOCK_STEPS // RUN
    first_row = tl.program_id(1 if SPLIT else 0) * BLOCK_ROWS
    run = tl.arange(0, RUNS)
    step = tl.arange(0, BLOCK_STEPS)
    if REVERSE:  # runs stand in the direction of the recurrence, positions in a run ascend
        step = (RUNS - 1 - step // RUN) * RUN + step % RUN
        run = RUNS - 1 - run
    if WIDE:
        first_row = first_row.to(tl.int64)
        run = run.to(tl.int64)
        step = step.to(tl.int64)
    row = tl.expand_dims(first_row + tl.arange(0, BLOCK_ROWS), TIME_AXIS)
    run_step = tl.expand_dims(run * RUN, 1 - TIME_AXIS)
    step = tl.expand_dims(step, 1 - TIME_AXIS) if TOGETHER else run_step
    is_last_run = tl.expand_dims(tl.arange(0, RUNS) == RUNS - 1, 1 - TIME_AXIS)
    exists = row < rows
    nowhere = row * 0  # makes a tensor of a step: T = 1 is a constant, and an interpreter's mask may not be a scalar

    if KINDS[SLOTS] == ROW or KINDS[SLOTS] == FINAL:
        offset = row_offset(row, row_sizes, strides, GROUPS[SLOTS], ROW_DIMS)
        if VECTOR and WALK != 1:  # for every run, so that no loop carries it in a layout of its own
            offset += run_step * 0
        if KINDS[SLOTS] == FINAL:
            offset += (T - 1 + nowhere) * strides[GROUPS[SLOTS] * STRIDES + ROW_DIMS]
        carry = tl.load(inputs[SLOTS] + offset, mask=exists, other=0).to(DTYPE)
    elif KINDS[SLOTS] == CELL:
        carry = tl.load(inputs[SLOTS]).to(DTYPE) + tl.zeros(row.shape, DTYPE)
    elif KINDS[SLOTS] == SCALAR:
        carry = inputs[SLOTS] + tl.zeros(row.shape, DTYPE)
    else:
        carry = tl.zeros(row.shape, DTYPE)

    tiles = tl.cdiv(T, BLOCK_STEPS)
    first_tile, end_tile = 0, tiles
    program = tl.program_id(0)
    if SPLIT:  # programs start in the order of their numbers, so those behind a running one have started
        first_tile = program * WALK
        end_tile = first_tile + 1 if WALK == 1 else tl.minimum(first_tile + WALK, tiles)
    elif WALK == 1 and TIME_AXIS == 1:  # no loop; in [T, N] work would move in front of the last loads
        end_tile = 1
    folded_alpha = tl.zeros(row.shape, DTYPE)
    folded_beta = tl.full(row.shape, 1.0, DTYPE)
    for PASS in tl.static_range(PASSES):
        # of two passes the first folds the program's tiles, from its end: what it reads last, the second reads first
        for turn in range(first_tile, end_tile):
            i = first_tile + end_tile - 1 - turn if PASS + 1 < PASSES else turn
            start = ((tiles - 1 - i) if REVERSE else i) * BLOCK_STEPS
            loads = ()  # per slot what lies in memory, in parts
            edges = ()  # per slot what lies beside each run: to read it costs less than to exchange it between threads
            for k in tl.static_range(SLOTS):
                per_row = row_offset(row, row_sizes, strides, GROUPS[k], ROW_DIMS)
                time_stride = strides[GROUPS[k] * STRIDES + ROW_DIMS]
                for p in tl.static_range(PARTS):
                    t = start + step + p * PART
                    inside = inside_window(exists, t < T, EVEN, ALIGNED)
                    if KINDS[k] <= PREVIOUS_FLAG:
                        part = inputs[k] + offsets_of_part(per_row, t, time_stride, VECTOR, ALIGNED)
                        loads = loads + (tl.load(part, mask=beside(inside, VECTOR), other=0),)
                    elif KINDS[k] == ROW:
                        loads = loads + (tl.load(inputs[k] + per_row, mask=exists, other=0),)
                    elif KINDS[k] == CELL:
                        loads = loads + (tl.load(inputs[k]),)
                    else:
                        loads = loads + (0,)
                if KINDS[k] == NEXT or (KINDS[k] >= SHIFTED and KINDS[k] < ALIAS):
                    t = start + run_step + RUN
                    edges = edges + (load_beside(inputs[k], per_row + t * time_stride, exists & (t < T), TIME_AXIS),)
                elif KINDS[k] == PREVIOUS_FLAG:
                    t = start + run_step - 1
                    edges = edges + (
                        load_beside(inputs[k], per_row + t * time_stride, exists & (t >= 0) & (t < T), TIME_AXIS),
                    )
                else:
                    edges = edges + (0,)
            expectations = ()
            for k in tl.static_range(SLOTS):
                if KINDS[k] == EXPECTATION:
                    per_row = row_offset(row, row_sizes, strides, GROUPS[k], ROW_DIMS)
                    time_stride = strides[GROUPS[k] * STRIDES + ROW_DIMS]
                    policy_row = row_offset(row, row_sizes, strides, POLICY_GROUP, ROW_DIMS)
                    policy_stride = strides[POLICY_GROUP * STRIDES + ROW_DIMS]
                    for p in tl.static_range(1 if TOGETHER else RUN):
                        t = start + step if TOGETHER else start + run_step + p
                        inside = inside_window(exists, t < T, EVEN, 1)
                        expectations = expectations + (
                            expectation(
                                *(inputs[k], policy, per_row + t * time_stride, policy_row + t * policy_stride),
                                *(action_strides, inside, actions),
                                *(ACTIONS, BLOCK_ACTIONS, ACTION_ALIGNMENT, TIME_AXIS, DTYPE),
                            ),
                        )
            # never; but no compiler knows, and none moves work over a loop: so the last load is under way before any is
            # waited for
            while start > T:
                tl.debug_barrier()

            slots = ()  # slot k at position p is slots[k * RUN + p]
            for k in tl.static_range(SLOTS):
                positions = ()
                if KINDS[k] <= PREVIOUS_FLAG:
                    for p in tl.static_range(PARTS):
                        positions = positions + split_part(numbers(loads[k * PARTS + p], KINDS[k], DTYPE), PART, VECTOR)
                elif KINDS[k] == EXPECTATION:
                    positions = split_runs(expectations[0], RUN) if TOGETHER else expectations
                else:
                    for p in tl.static_range(RUN):
                        if KINDS[k] >= ALIAS:
                            positions = positions + (slots[(KINDS[k] - ALIAS) * RUN + p],)
                        elif KINDS[k] >= SHIFTED:
                            positions = positions + (slots[(KINDS[k] - SHIFTED) * RUN + p],)
                        elif KINDS[k] == LAST:
                            if EVEN and p < RUN - 1:
                                positions = positions + (False,)
                            else:
                                positions = positions + (start + run_step + p == T - 1,)
                        elif KINDS[k] == NO_VALUE:
                            positions = positions + (0.0,)
                        elif KINDS[k] == NO_FLAG:
                            positions = positions + (False,)
                        elif KINDS[k] == SCALAR:
                            positions = positions + (inputs[k],)
                        else:
                            positions = positions + (loads[k * PARTS].to(DTYPE),)
                if KINDS[k] == NEXT or (KINDS[k] >= SHIFTED and KINDS[k] < ALIAS):
                    positions = shifted(positions, edges[k].to(DTYPE), NEXT, RUN)
                elif KINDS[k] == PREVIOUS_FLAG:
                    positions = shifted(positions, numbers(edges[k], PREVIOUS_FLAG, DTYPE), PREVIOUS_FLAG, RUN)
                for p in tl.static_range(RUN):
                    if KINDS[k] == FLAG or KINDS[k] == PREVIOUS_FLAG:
                        slots = slots + (positions[p] != 0,)
                    else:
                        slots = slots + (positions[p],)

            alphas = ()
            betas = ()
            for s in tl.static_range(RUN):  # positions in the direction of the recurrence
                operands = ()
                for k in tl.static_range(SLOTS):
                    operands = operands + (slots[k * RUN + (RUN - 1 - s if REVERSE else s)],)
                alpha, beta = COEFFICIENTS(*operands)
                if not EVEN:  # steps outside the window are the identity (0, 1)
                    t = start + run_step + (RUN - 1 - s if REVERSE else s)
                    alpha = tl.where(t < T, alpha, 0.0)
                    beta = tl.where(t < T, beta, 1.0)
                alphas = alphas + (alpha.to(DTYPE),)
                betas = betas + (beta.to(DTYPE),)
            tree_alpha, tree_beta, tree_least = run_tree(alphas, betas, RUN)
            run_alpha, run_beta, run_least = tree_alpha[2 * RUN - 2], tree_beta[2 * RUN - 2], tree_least[2 * RUN - 2]
            if TOGETHER:
                run_alpha, run_beta, run_least = tl.associative_scan(
                    (run_alpha, run_beta, run_least), TIME_AXIS, join_spans
                )
            else:
                one = tl.full(run_beta.shape, 1.0, DTYPE)
                run_alpha, run_beta, run_least, alpha_behind, beta_behind, least_behind = tl.associative_scan(
                    (run_alpha, run_beta, run_least, tl.zeros(run_beta.shape, DTYPE), one, one),
                    TIME_AXIS,
                    join_spans_twice,
                )
            if SPLIT and (WALK == 1 or PASS + 1 < PASSES):
                tile_alpha, tile_beta = pair_of_span(run_alpha, run_beta, run_least)
                tile_alpha = tl.sum(tl.where(is_last_run, tile_alpha, 0.0), TIME_AXIS, keep_dims=True)
                tile_beta = tl.sum(tl.where(is_last_run, tile_beta, 0.0), TIME_AXIS, keep_dims=True)
                if WALK == 1:
                    carry = carry_into_tile(
                        *(tile_alpha, tile_beta, carry, program, tiles, row, rows, words),
                        *(SPLIT, LEVELS, TIME_AXIS, DTYPE),
                    )
                else:
                    folded_alpha, folded_beta = combine(tile_alpha, tile_beta, folded_alpha, folded_beta)
            if PASS + 1 == PASSES:
                run_x = apply_span(run_alpha, run_beta, run_least, carry)
                if TOGETHER:
                    behind = from_run_behind(run_x, carry, TIME_AXIS)
                else:
                    behind = apply_span(alpha_behind, beta_behind, least_behind, carry)
                entering = behind_each_step(tree_alpha, tree_beta, tree_least, behind, RUN)
                results = ()  # result k at scan position s is results[s * len(outputs) + k]
                for s in tl.static_range(RUN):
                    operands = ()
                    for k in tl.static_range(SLOTS):
                        operands = operands + (slots[k * RUN + (RUN - 1 - s if REVERSE else s)],)
                    if s == RUN - 1:
                        results = results + OUTPUTS(run_x, entering[s], *operands)
                    else:
                        results = results + OUTPUTS(entering[s + 1], entering[s], *operands)

                # the last result first: it is made of the first, and Triton 3.6 mixes their layouts up the other way
                # round
                for k in tl.static_range(len(outputs) - 1, -1, -1):
                    per_row = row_offset(row, row_sizes, strides, OUTPUT_GROUPS[k], ROW_DIMS)
                    time_stride = strides[OUTPUT_GROUPS[k] * STRIDES + ROW_DIMS]
                    for p in tl.static_range(PARTS):
                        positions = ()
                        for q in tl.static_range(p * PART, (p + 1) * PART):
                            result = results[(RUN - 1 - q if REVERSE else q) * len(outputs) + k]
                            positions = positions + (result.to(outputs[k].dtype.element_ty),)
                        t = start + step + p * PART
                        inside = inside_window(exists, t < T, EVEN, ALIGNED)
                        part = outputs[k] + offsets_of_part(per_row, t, time_stride, VECTOR, ALIGNED)
                        tl.store(part, join_part(positions, PART, VECTOR), mask=beside(inside, VECTOR))

                if WALK != 1:
                    last_x = tl.sum(tl.where(is_last_run, run_x, 0.0), TIME_AXIS, keep_dims=True)
                    carry = tl.broadcast_to(last_x, carry.shape)
        if PASS + 1 < PASSES:
            carry = carry_into_tile(
                *(folded_alpha, folded_beta, carry, program, tl.cdiv(tiles, WALK), row, rows, words),
                *(SPLIT, LEVELS, TIME_AXIS, DTYPE),
            )
