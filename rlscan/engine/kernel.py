"""The one fused kernel: raw rollout in, coefficients on chip, scan on chip, results out.

A program owns BLOCK_ROWS rows and walks over time in tiles of BLOCK_STEPS, against the recurrence's direction of dependence, with the
carry x in registers. TIME_AXIS says which side of the tile is time: 1 where time is contiguous in memory, 0 where rows are.
"""

from ..affine import apply, combine, weighted
from ..language import tl, triton
from .spec import Kind

VALUE: tl.constexpr = tl.constexpr(int(Kind.VALUE))
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
ALIAS: tl.constexpr = tl.constexpr(int(Kind.ALIAS))


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
    """One number per step and action; ALIGNMENT elements of a step can be read as one vector."""
    offset = tl.expand_dims(offset, 2) + action * action_stride
    offset = tl.multiple_of(offset, [1, 1, ALIGNMENT])
    return tl.load(pointer + offset, mask=tl.expand_dims(inside, 2), other=0).to(DTYPE)


@triton.jit
def expectation(
    q,
    policy,
    q_offset,
    policy_offset,
    action_strides,
    inside,
    actions,
    BLOCK_ACTIONS: tl.constexpr,
    ALIGNMENT: tl.constexpr,
    DTYPE: tl.constexpr,
):
    """Σ_a policy·q over the last dimension; an action of probability zero is not used."""
    total = tl.zeros(inside.shape, DTYPE)
    for first in range(0, actions, BLOCK_ACTIONS):
        action = first + tl.arange(0, BLOCK_ACTIONS)[None, None, :]
        q_a = action_values(q, q_offset, action, action_strides[0], inside, ALIGNMENT, DTYPE)
        policy_a = action_values(policy, policy_offset, action, action_strides[1], inside, ALIGNMENT, DTYPE)
        total += tl.sum(weighted(policy_a, q_a), 2)
    return total


@triton.jit
def load_slot(pointer, row_start, time_stride, KIND: tl.constexpr, row, rows, t, T, inside, DTYPE: tl.constexpr):
    """One slot over the tile; every kind that reads memory."""
    if KIND == VALUE:
        return tl.load(pointer + row_start + t * time_stride, mask=inside, other=0).to(DTYPE)
    elif KIND == NEXT:
        return tl.load(pointer + row_start + (t + 1) * time_stride, mask=inside & (t + 1 < T), other=0).to(DTYPE)
    elif KIND == FLAG:
        return tl.load(pointer + row_start + t * time_stride, mask=inside, other=0) != 0
    elif KIND == PREVIOUS_FLAG:
        return tl.load(pointer + row_start + (t - 1) * time_stride, mask=inside & (t > 0), other=0) != 0
    elif KIND == ROW:
        return tl.load(pointer + row_start, mask=row < rows, other=0).to(DTYPE)
    else:
        tl.static_assert(KIND == CELL)
        return tl.load(pointer).to(DTYPE)


@triton.jit
def affine_scan_kernel(
    inputs,  # per slot: a pointer, a number, or 0 where the kind reads nothing; the last one is the carry
    outputs,
    policy,  # pointer to the action probabilities, or 0
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
    USES_NEXT_RESULT: tl.constexpr,
    TIME_AXIS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_STEPS: tl.constexpr,
    BLOCK_ACTIONS: tl.constexpr,  # divides actions
    ACTION_ALIGNMENT: tl.constexpr,
    WIDE: tl.constexpr,  # some offset passes 2^31
    DTYPE: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    step = tl.arange(0, BLOCK_STEPS)
    if WIDE:
        row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
        step = step.to(tl.int64)
    row = tl.expand_dims(row, TIME_AXIS)
    step = tl.expand_dims(step, 1 - TIME_AXIS)
    SLOTS: tl.constexpr = len(KINDS) - 1

    if KINDS[SLOTS] == ROW or KINDS[SLOTS] == FINAL:
        behind = row_offset(row, row_sizes, strides, GROUPS[SLOTS], ROW_DIMS)
        if KINDS[SLOTS] == FINAL:
            behind += (T - 1).to(behind.dtype) * strides[GROUPS[SLOTS] * (ROW_DIMS + 1) + ROW_DIMS]
        carry = tl.load(inputs[SLOTS] + behind, mask=row < rows, other=0).to(DTYPE)
    elif KINDS[SLOTS] == CELL:
        carry = tl.load(inputs[SLOTS]).to(DTYPE) + tl.zeros(row.shape, DTYPE)
    elif KINDS[SLOTS] == SCALAR:
        carry = inputs[SLOTS] + tl.zeros(row.shape, DTYPE)
    else:
        carry = tl.zeros(row.shape, DTYPE)

    tiles = tl.cdiv(T, BLOCK_STEPS)
    for i in range(tiles):
        if REVERSE:
            start = (tiles - 1 - i) * BLOCK_STEPS
        else:
            start = i * BLOCK_STEPS
        t = start + step
        inside = (row < rows) & (t < T)

        operands = ()
        for k in tl.static_range(SLOTS):
            if KINDS[k] == NO_VALUE:
                operands = operands + (0.0,)
            elif KINDS[k] == NO_FLAG:
                operands = operands + (False,)
            elif KINDS[k] == SCALAR:
                operands = operands + (inputs[k],)
            elif KINDS[k] == LAST:
                operands = operands + (t == T - 1,)
            elif KINDS[k] >= ALIAS:
                operands = operands + (operands[KINDS[k] - ALIAS],)
            else:
                row_start = row_offset(row, row_sizes, strides, GROUPS[k], ROW_DIMS)
                time_stride = strides[GROUPS[k] * (ROW_DIMS + 1) + ROW_DIMS]
                if KINDS[k] == EXPECTATION:
                    policy_start = row_offset(row, row_sizes, strides, POLICY_GROUP, ROW_DIMS)
                    policy_stride = strides[POLICY_GROUP * (ROW_DIMS + 1) + ROW_DIMS]
                    operands = operands + (
                        expectation(
                            inputs[k],
                            policy,
                            row_start + t * time_stride,
                            policy_start + t * policy_stride,
                            action_strides,
                            inside,
                            actions,
                            BLOCK_ACTIONS,
                            ACTION_ALIGNMENT,
                            DTYPE,
                        ),
                    )
                else:
                    operands = operands + (
                        load_slot(inputs[k], row_start, time_stride, KINDS[k], row, rows, t, T, inside, DTYPE),
                    )

        alpha, beta = COEFFICIENTS(*operands)
        # steps outside the window are the identity (0, 1)
        alpha = tl.where(inside, alpha, 0.0).to(DTYPE)
        beta = tl.where(inside, beta, 1.0).to(DTYPE)
        alpha, beta = tl.associative_scan((alpha, beta), TIME_AXIS, combine, reverse=REVERSE)
        x = apply(alpha, beta, carry)

        x_next = x
        if USES_NEXT_RESULT:
            step_next = tl.minimum(step + 1, BLOCK_STEPS - 1).to(tl.int32)
            x_next = tl.gather(x, tl.broadcast_to(step_next, x.shape), TIME_AXIS)
            x_next = tl.where(step == BLOCK_STEPS - 1, carry, x_next)

        results = OUTPUTS(x, x_next, *operands)
        for k in tl.static_range(len(outputs)):
            row_start = row_offset(row, row_sizes, strides, OUTPUT_GROUPS[k], ROW_DIMS)
            time_stride = strides[OUTPUT_GROUPS[k] * (ROW_DIMS + 1) + ROW_DIMS]
            target = outputs[k] + row_start + t * time_stride
            tl.store(target, results[k].to(outputs[k].dtype.element_ty), mask=inside)

        edge = 0 if REVERSE else BLOCK_STEPS - 1
        carry = tl.sum(tl.where(step == edge, x, 0.0), TIME_AXIS, keep_dims=True)
