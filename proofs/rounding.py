"""How often a term of a result is rounded on its way: what the a-priori bound of `rlscan/verify/tolerance.py` counts.

A result is a sum of terms Π β · α. Each ⊕ adds once to all its terms and multiplies those that lie behind once, so a
term at distance k takes k multiplications and, over n pairs and a carry, at most n additions, in any bracketing. That
is the first statement, over the shipped ⊕. Its induction: a tree over n pairs has two trees over n₁ + n₂ = n, and adds
one to at most max(n₁, n₂) − 1 additions; a product of k₁ factors times one of k₂ has taken k₁ + k₂ − 1. The second runs
the shipped executions, the kernel's source and the portable scan, and counts. Here 0 + x and 1·x are exact, and a reset
selects: neither is counted.
"""

import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import rlscan
from rlscan import affine
from rlscan.engine import Tile, portable
from rlscan.engine.spec import Role
from rlscan.language import HAS_TRITON, read_in
from rlscan.linear_scan import FORWARD, REVERSE
from rlscan.verify import additions

from .affine import bracketings
from .registry import Case, Cases, Twin, statement
from .rollouts import Call, Rollouts


class Counted:
    """A sum of terms: of each the additions and multiplications that it went through."""

    __hash__ = None  # type: ignore[assignment]  # compared with 0 alone

    def __init__(self, terms: Mapping[tuple[str, ...], tuple[int, int]]) -> None:
        self.terms = dict(terms)

    def __mul__(self, other: "Counted") -> "Counted":
        return Counted(
            {
                (*one, *two): (a + b, m + n + 1)
                for one, (a, m) in self.terms.items()
                for two, (b, n) in other.terms.items()
            }
        )

    def __add__(self, other: "Counted") -> "Counted":
        return Counted({name: (a + 1, m) for terms in (self, other) for name, (a, m) in terms.terms.items()})

    def __eq__(self, other: object) -> bool:
        return False  # stands for what is not zero


class Counting:
    """The part of `tl` that ⊕ uses."""

    @staticmethod
    def where(condition: bool, chosen: Any, otherwise: Any) -> Any:
        return chosen if condition else otherwise

    @staticmethod
    def abs(x: Any) -> Any:
        return x

    minimum = staticmethod(lambda x, y: x)


def twice(alpha_a: Any, beta_a: Any, alpha_b: Any, beta_b: Any) -> tuple[Any, Any]:
    """⊕ that adds in two steps."""
    return alpha_b + (Counted({}) + beta_b * alpha_a), beta_b * beta_a


@statement(
    scope="up to 7 pairs and a carry, in all bracketings: 197 trees",
    over="counts of operations",
    twins=(
        Twin("one addition less", spare=1),
        Twin("⊕ adds in two steps", combine=twice),
        Twin("multiplications grow like the distance squared", power=2),
    ),
)
def a_term_is_added_once_a_pair_and_multiplied_once_a_step(
    combine: Any = affine.combine, spare: int = 0, power: int = 1
) -> Cases:
    """However it is bracketed, a term at distance k takes k multiplications and, over n pairs, at most n additions."""
    fold = read_in(combine, Counting) if hasattr(combine, "fn") else combine
    for n in range(1, 8):
        steps = [tuple(Counted({(f"{part}{k}",): (0, 0)}) for part in ("alpha", "beta")) for k in range(n)]
        most = 0
        for tree, (alpha, beta) in enumerate(bracketings(steps, fold)):  # type: ignore[arg-type]  # pairs
            x = read_in(affine.apply, Counting)(alpha, beta, Counted({("x",): (0, 0)}))
            most = max(most, *(a for a, _ in x.terms.values()))
            for name, (_, multiplications) in x.terms.items():
                yield Case((n, tree, name), multiplications, (len(name) - 1) ** power)
        yield Case((n, "additions"), most <= n - spare, True)


class Depth:
    """A value by the additions on the longest path to it."""

    __hash__ = None  # type: ignore[assignment]  # compared with 0 alone

    def __init__(self, additions: int = 0) -> None:
        self.additions = additions

    def __add__(self, other: Any) -> "Depth":
        return Depth(max(self.additions, other.additions) + 1) if isinstance(other, Depth) else self

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Depth):
            return Depth(max(self.additions, other.additions))
        return self if other == 1 else 0

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return False


class Depths(Rollouts):
    """Two rows of a linear scan whose entries are counted."""

    def __init__(self, reverse: bool, steps: int) -> None:
        self.spec = REVERSE if reverse else FORWARD
        self.call, self.arguments = Call(steps), list(self.spec.arguments)
        shapes = {a.name: (2,) if a.role is Role.ROW else (2, steps) for a in self.arguments}
        self.values = {name: np.full(shape, Depth(), object) for name, shape in shapes.items()}


def kernel_depth(T: int, tile: Tile, layout: str, reverse: bool) -> tuple[int, tuple[int, ...]]:
    """Additions on the longest path of the shipped kernel's source, and what `additions.kernel` wants to know."""
    from .launches import Execution, Shape

    execution = Execution(rlscan.linear_scan, {"reverse": reverse}, Depths(reverse, T), Shape(tile, layout))
    execution.run()
    shape = tuple(execution.launched[name] for name in ("T", "BLOCK_STEPS", "RUN", "SPLIT", "LEVELS", "WALK"))
    return max(x.additions for x in execution.found()[0].flat), shape


def portable_depth(T: int, rows: int) -> int:
    """Additions on the longest path of the shipped portable scan, whose tensors hold counts."""

    def counted(function: Any, language: Any) -> Callable[..., Any]:
        if function is affine.apply:
            return lambda alpha, beta, x: torch.maximum(alpha, x) + 1
        return lambda alpha_a, beta_a, alpha_b, beta_b: (torch.maximum(alpha_a, alpha_b) + 1, beta_b)

    scan = types.FunctionType(portable.scan.__code__, {**portable.scan.__globals__, "read_in": counted})
    return int(scan(torch.zeros(T, rows), torch.ones(T, rows), torch.zeros(rows)).max())


WINDOWS = (1, 2, 5, 16, 17, 40, 63)
TILES = (Tile(2, 8, 1, run=4), Tile(2, 8, 1, run=1), Tile(2, 4, 1, run=4), Tile(2, 32, 1, run=2))
SPREAD = (Tile(2, 8, 1, run=4, vector=2), Tile(2, 8, 1, run=2, vector=2))
SHARED = (Tile(2, 1, 1, run=1, group=2), Tile(2, 4, 1, run=2, group=4), Tile(2, 2, 1, run=2, group=2))
WALKED = (Tile(2, 2, 1, run=1, group=2, walk=2), Tile(2, 2, 1, run=2, group=2, walk=4))


def without_chain(T: int, steps: int, run: int, *_: int) -> int:
    return additions.kernel(min(T, steps), steps, run, 0, 1, 1)


@statement(
    scope="the kernel in [N, T] and [T, N], both directions, tiles walked, shared in 1 to 3 levels, and both, T ≤ 63; "
    "the portable scan with 1 and 600 rows, T up to 70,000",
    over="counts of operations",
    twins=(
        Twin("the chain of tiles is not counted", kernel=without_chain),
        Twin("a tree over all steps", kernel=lambda T, *_: 2 + T.bit_length()),
        Twin("the chain of blocks is not counted", blocks=lambda T, length: length),
    ),
)
def no_execution_adds_more_often_than_its_plan_says(
    kernel: Callable[..., int] = additions.kernel, blocks: Callable[[int, int], int] = additions.portable
) -> Cases:
    """On no path from a term to a result are there more additions than `additions` says, nor more than T."""
    for T, rows in ((1, 1), (9, 1), (100, 1), (5_000, 1), (70_000, 1), (128, 600), (300, 600), (20_000, 600)):
        depth = portable_depth(T, rows)
        counted = blocks(T, portable.block_length(T, rows))
        yield Case(("portable", T, rows, depth), depth <= counted, True)
    for number, tile in enumerate((*TILES, *SPREAD, *SHARED, *WALKED) if HAS_TRITON else ()):
        for T in WINDOWS:
            depth, shape = kernel_depth(T, tile, ("NT", "TN")[number % 2], bool(T % 2))
            yield Case(("kernel", T, tile, depth), depth <= min(T, kernel(*shape)), True)
