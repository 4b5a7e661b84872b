"""The portable path: the same coefficient functions on PyTorch tensors, for CPU tensors and devices without Triton.

The scan is blocked: time is cut into about √T blocks of about √T steps, all blocks step together, then their aggregates
are chained, so that the number of Python-level steps grows like √T.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..affine import apply, combine, weighted
from ..language import TORCH, read_in
from .spec import Kind, Spec

# from this many rows on, the work of a step outweighs its overhead, and longer blocks mean less work
_MANY_ROWS = 512
_LONG_BLOCK = 128


def shifted(x: torch.Tensor, by: int) -> torch.Tensor:
    """x[..., t + by], and zero outside the window."""
    filler = torch.zeros_like(x[..., :1])
    return torch.cat([x[..., 1:], filler], -1) if by == 1 else torch.cat([filler, x[..., :-1]], -1)


def operand(kind: Kind, view: Any, T: int, dtype: torch.dtype, device: torch.device) -> Any:
    """One slot over the whole window; tensors have the shape [rows..., T] or broadcast to it."""
    if kind == Kind.VALUE:
        return view.to(dtype)
    if kind == Kind.NEXT:
        return shifted(view.to(dtype), 1)
    if kind == Kind.FLAG:
        return view != 0
    if kind == Kind.PREVIOUS_FLAG:
        return shifted(view != 0, -1)
    if kind == Kind.ROW:
        return view.to(dtype).unsqueeze(-1)
    if kind == Kind.FINAL:
        return view[..., -1:].to(dtype)
    if kind == Kind.CELL:
        return view.to(dtype)
    if kind == Kind.SCALAR:
        return float(view)
    if kind == Kind.LAST:
        return torch.arange(T, device=device) == T - 1
    if kind == Kind.EXPECTATION:
        q, policy = (x.to(dtype) for x in view)
        return read_in(weighted, TORCH[dtype])(policy, q).sum(-1)
    return 0.0 if kind == Kind.NO_VALUE else False


def block_length(T: int, rows: int) -> int:
    """Steps of a block."""
    return max(math.isqrt(T), min(T, _LONG_BLOCK) if rows >= _MANY_ROWS else 1)


def scan(alpha: torch.Tensor, beta: torch.Tensor, carry: torch.Tensor) -> torch.Tensor:
    """x[0] = α[0] + β[0]·carry, x[t] = α[t] + β[t]·x[t-1], over the first dimension of α and β."""
    language = TORCH[alpha.dtype]
    fold, step = read_in(combine, language), read_in(apply, language)
    T = alpha.shape[0]
    length = block_length(T, carry.numel())
    blocks = -(-T // length)
    if blocks == 1:
        x = torch.empty_like(alpha)
        for t in range(T):
            carry = x[t] = step(alpha[t], beta[t], carry)
        return x
    padding = blocks * length - T
    if padding:
        alpha = torch.cat([alpha, alpha.new_zeros(padding, *alpha.shape[1:])])
        beta = torch.cat([beta, beta.new_ones(padding, *beta.shape[1:])])
    alpha = alpha.view(blocks, length, *alpha.shape[1:]).clone()
    beta = beta.view(blocks, length, *beta.shape[1:]).clone()
    for t in range(1, length):
        alpha[:, t], beta[:, t] = fold(alpha[:, t - 1], beta[:, t - 1], alpha[:, t], beta[:, t])
    carries = []
    for block in range(blocks):
        carries.append(carry)
        carry = step(alpha[block, -1], beta[block, -1], carry)
    x = step(alpha, beta, torch.stack(carries).unsqueeze(1))
    return x.flatten(0, 1)[:T]  # type: ignore[no-any-return]  # `step` is read from a jit function, which has no types


def run_portable(
    spec: Spec,
    kinds: Sequence[int],
    views: Sequence[Any],
    outputs: Sequence[torch.Tensor],
    dtype: torch.dtype,
) -> None:
    """Writes the results into `outputs`, views of shape [rows..., T]; `views` are as `operand` takes them,
    the carry last.
    """
    shape, device = outputs[0].shape, outputs[0].device
    T = shape[-1]
    operands: list[Any] = []
    for kind, view in zip(kinds[:-1], views[:-1], strict=True):
        if kind >= Kind.ALIAS:
            operands.append(operands[kind - Kind.ALIAS])
        elif kind >= Kind.SHIFTED:
            operands.append(shifted(operands[kind - Kind.SHIFTED], 1))
        else:
            operands.append(operand(Kind(kind), view, T, dtype, device))
    alpha, beta = (
        torch.as_tensor(x, dtype=dtype, device=device).expand(shape).movedim(-1, 0)
        for x in read_in(spec.coefficients, TORCH[dtype])(*operands)
    )
    carry = torch.as_tensor(operand(Kind(kinds[-1]), views[-1], T, dtype, device), dtype=dtype, device=device)
    carry = (carry.squeeze(-1) if carry.ndim else carry).expand(shape[:-1])
    if spec.reverse:
        alpha, beta = alpha.flip(0), beta.flip(0)
    x = scan(alpha.contiguous(), beta.contiguous(), carry)
    x_next = torch.cat([carry.unsqueeze(0), x[:-1]])
    if spec.reverse:
        x, x_next = x.flip(0), x_next.flip(0)
    x, x_next = x.movedim(0, -1), x_next.movedim(0, -1)
    for output, result in zip(outputs, read_in(spec.outputs, TORCH[dtype])(x, x_next, *operands), strict=True):
        output.copy_(result)
