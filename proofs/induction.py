"""From small T to every T, step by step.

The files beside this one prove the kernel and the formulas for windows of a few steps. What makes them hold for every T
is an induction whose steps are the statements here and in `affine.py`; each speaks of arbitrary pairs, sums and tiles,
as symbols, and so of any number of them. `paper/induction.md` puts them together.

Holds over the exact reals. Sampled: nothing, but in `programs_fold_every_tile_before_theirs_in_order`, which is about
the numbers of tiles and runs the shipped source for the numbers that its scope names.
"""

import ast
import inspect
import itertools
import textwrap
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import sympy

from rlscan import affine
from rlscan.engine.kernel import affine_scan_kernel, carry_into_tile
from rlscan.language import tl

from .affine import swapped
from .registry import Case, Cases, Twin, statement
from .scan import read
from .symbolic import UNDEFINED, Symbols
from .symbolic_tensors import Tensor
from .symbolic_triton import Edit, kernel_source
from .twins import multiplying_combine

NAMES = ("p", "q")
SYMBOLS = Symbols([f"{part}_{name}" for name in NAMES for part in ("alpha", "beta")] + ["x"])
X = SYMBOLS["x"]
P, Q = (
    tuple((alpha, beta) for alpha in (SYMBOLS[f"alpha_{name}"], UNDEFINED) for beta in (SYMBOLS[f"beta_{name}"], 0))
    for name in NAMES
)


@statement(
    scope="P and Q any two tiles, x any carry: each α and x a symbol or undefined, each β a symbol or zero",
    twins=(
        Twin("Q lies behind", combine=swapped),
        Twin("β of a reset is multiplied", combine=multiplying_combine),
    ),
)
def a_carry_through_two_tiles_is_their_composition(combine: Any = affine.combine) -> Cases:
    """If P and Q are what two neighbouring tiles do to x, then Q ⊕ P is what both do: the carry may be handed on, or
    the pairs composed, or any mixture of both."""
    apply = read(affine.apply)
    for p, q, x in itertools.product(P, Q, (X, UNDEFINED)):
        yield Case((p, q, x), apply(*read(combine)(*p, *q), x), apply(*q, apply(*p, x)))


@statement(
    scope="P any tile, x any carry: each α and x a symbol or undefined, each β a symbol or zero",
    twins=(Twin("padding is (0, 0)", padding=(0, 0)), Twin("padding is (1, 1)", padding=(1, 1))),
)
def padding_changes_no_tile(padding: tuple[int, int] = (0, 1)) -> Cases:
    """A tile with a step of padding more, behind it or in front, does the same to every x; so with any number."""
    combine, apply = read(affine.combine), read(affine.apply)
    for p, x in itertools.product(P, (X, UNDEFINED)):
        yield Case((p, x, "behind"), apply(*combine(*padding, *p), x), apply(*p, x))
        yield Case((p, x, "in front"), apply(*combine(*p, *padding), x), apply(*p, x))


# Definitions: a sum over an episode of any length


t, k, end = sympy.symbols("t k end", integer=True)
w, d = sympy.IndexedBase("w"), sympy.IndexedBase("d")


def first_factor(first: Any) -> Any:
    """Π_{j=first}^{k-1} w_j as w_first times the rest, which is a function of k of its own."""
    rest = sympy.Function("P")
    return {t: w[t] * rest(k), t + 1: rest(k)}[first]


@statement(
    scope="any t before any end of an episode, any weights and terms",
    over="expressions",
    twins=(
        Twin("the weight of the step is left out", weight=lambda at: 1),
        Twin("the weight of the next step", weight=lambda at: w[at + 1]),
    ),
)
def a_sum_over_an_episode_is_its_recurrence(weight: Callable[[Any], Any] = lambda at: w[at]) -> Cases:
    """D_t = Σ_{k=t}^{end} (Π_{j=t}^{k-1} w_j)·d_k is d_end at t = end, and d_t + w_t·D_{t+1} before: GAE with w = γλ,
    d = δ; V-trace with w = γc, d = ρδ; Retrace with w_t = γ_t·c_{t+1}; returns with w = γ, d = r; traces mirrored."""
    whole = d[t] + sympy.Sum(first_factor(t) * d[k], (k, t + 1, end))  # the term k = t has the empty product
    after = sympy.Sum(first_factor(t + 1) * d[k], (k, t + 1, end))
    yield Case("t < end", sympy.simplify(whole - d[t] - weight(t) * after), 0)
    yield Case("t = end", (whole - d[t]).subs(end, t).doit(), 0)


@statement(
    scope="a mixture of any number of returns, as a symbol",
    over="expressions",
    twins=(Twin("the weights of the rest are not mixed", rest=0),),
)
def a_mixture_of_returns_is_its_recurrence(rest: int = 1) -> Cases:
    """With weights 1 − λ_t for the one-step return and λ_t for the mixture of the longer ones, whose weights add to 1,
    the weights add to 1, and G_t = r_t + γ_t·((1 − λ_t)·V'_t + λ_t·G_{t+1})."""
    r, gamma, lambda_, value, mixture = sympy.symbols("r gamma lambda V G")
    yield Case("weights", sympy.expand((1 - lambda_) + lambda_ * rest), 1)
    # a return of n + 1 steps is r_t + γ_t times the one of n steps from t + 1
    longer = r * rest + gamma * mixture
    mixed = (1 - lambda_) * (r + gamma * value) + lambda_ * longer
    yield Case("G", sympy.expand(mixed - (r + gamma * ((1 - lambda_) * value + lambda_ * mixture))), 0)


# The split: which tiles a program folds


class Span(NamedTuple):
    """The tiles [first, end) folded in order; two fold to one only where they are neighbours."""

    first: int
    end: int

    def then(self, other: "Span") -> "Span":
        if self.first == self.end or other.first == other.end:
            return other if self.first == self.end else self
        return Span(self.first, other.end) if self.end == other.first else Span(-1, -2)


def folded(tiles: int, i: int, group: int, levels: int, edits: tuple[Any, ...]) -> tuple[Span, bool]:
    """The tiles that the shipped carry_into_tile folds before tile i, and whether all that it publishes is what its
    number stands for."""
    groups = -(-tiles // group)

    def meaning(number: int) -> Span:
        if number < tiles:
            return Span(number, number + 1)
        size = group if number < tiles + groups else group * group
        first = (number - tiles - (groups if size > group else 0)) * size
        return Span(first, first + size)

    right = []

    def publish(words: Any, number: Any, alpha: Span, beta: Any, exists: Any) -> None:
        right.append(meaning(int(number)) == alpha)

    def fold_published(words: Any, number: Any, wanted: Any, *_: Any) -> tuple[Span, None]:
        span = Span(0, 0)
        for one in np.broadcast_to(number.data, wanted.shape)[wanted.data].tolist():
            span = span.then(meaning(one))
        return span, None

    source: Any = kernel_source(carry_into_tile, edits)
    stand_ins = {
        "publish": publish,
        "fold_published": fold_published,
        "combine": lambda alpha_a, beta_a, alpha_b, beta_b: (alpha_a.then(alpha_b), None),
        "apply": lambda alpha, beta, carry: carry.then(alpha),
    }
    run = types.FunctionType(source.__code__, {**source.__globals__, **stand_ins})
    row = Tensor(np.array([[0]]), tl.int32)
    return run(Span(i, i + 1), None, Span(0, 0), i, tiles, row, 1, 0, group, levels, 1, tl.float32), all(right)


def numbers(group: int) -> list[tuple[int, int]]:
    """Tiles and a tile, on both sides of every multiple of the group's powers."""
    edges = sorted({max(m * group**p + e, 0) for p in range(4) for m in (0, 1, 2, 3) for e in (-1, 0, 1)})
    return [(tiles, i) for tiles in (edges[-1] + 1, 2 * group, group + 1) for i in edges if i < tiles]


def levels_of(tiles: int, group: int) -> int:
    """As `launch.py` has them."""
    levels, count = 1, tiles
    while count > group and levels < 3:
        levels, count = levels + 1, -(-count // group)
    return levels


def edit(old: str, new: str) -> tuple[Any, ...]:
    return (Edit("carry_into_tile", old, new),)


@statement(
    scope="groups of 2, 4 and 32 tiles; tiles on both sides of multiples of the group, its square and its cube",
    over="integers",
    twins=(
        Twin(
            "blocks before the recent ones are left out",
            change=("range(0, recent, GROUP)", "range(GROUP, recent, GROUP)"),
        ),
        Twin("the groups of another block", change=("(block - 1) * GROUP + place", "block * GROUP + place")),
        Twin("a tile too early tells of the group", change=("if i % GROUP == GROUP - 1", "if i % GROUP == GROUP - 2")),
        Twin(
            "a block's number is that of its group",
            change=("block_number + block, alpha_b", "block_number + group, alpha_b"),
        ),
    ),
)
def programs_fold_every_tile_before_theirs_in_order(change: tuple[str, str] | None = None) -> Cases:
    """Through tiles, groups and blocks, program i folds the tiles 0 … i − 1, each once and in order; and what it
    publishes is the fold of the tiles that the number stands for."""
    edits = edit(*change) if change else ()
    for group in (2, 4, 32):
        for tiles, i in numbers(group):
            span, right = folded(tiles, i, group, levels_of(tiles, group), edits)
            yield Case((group, tiles, i, "folds"), span if i else span.end, Span(0, i) if i else 0)
            yield Case((group, tiles, i, "publishes"), right, True)


# A tile: where it stands in the window


def uses(name: str, source: str) -> set[str]:
    """The arithmetic and comparisons of the kernel in which a name occurs, as text."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def whole(node: ast.AST) -> ast.AST:
        parent = parents[node]
        arithmetic = isinstance(parent, ast.BinOp) and not isinstance(parent.op, ast.BitAnd | ast.BitOr)
        count = isinstance(parent, ast.Call) and ast.unparse(parent.func) == "tl.cdiv"
        return whole(parent) if arithmetic or count or isinstance(parent, ast.Compare) else node

    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name)
    return {ast.unparse(whole(node)) for node in names if isinstance(node.ctx, ast.Load)}


WINDOW = {  # t is compared with the window's ends, and tiles are counted: nothing else knows how long the window is
    "T": {
        "tl.cdiv(T, BLOCK_STEPS)",
        "t < T",
        "start + run_step + p == T - 1",
        "start > T",
        "(T - 1 + nowhere) * strides[GROUPS[SLOTS] * STRIDES + ROW_DIMS]",
    },
    "tiles": {"tiles", "tiles - 1 - i", "tl.cdiv(tiles, WALK)"},  # bare: the end of the walk, and the split
    "start": {
        *(
            "start + step",
            "start + step + p * PART",
            "start + run_step + p",
            "start + run_step + RUN",
            "start + run_step - 1",
            "start > T",
        ),
        *("start + run_step + p == T - 1", "start + run_step + (RUN - 1 - s if REVERSE else s)"),
    },
}


@statement(
    scope="the shipped source of affine_scan_kernel, as text",
    over="source",
    twins=(
        Twin(
            "a mask by the number of the tile",
            change=("exists & (t < T), TIME_AXIS", "exists & (start < T - 8), TIME_AXIS"),
        ),
        Twin("a window that knows a length", change=("exists = row < rows", "exists = row < rows + T // 1024")),
    ),
)
def a_tile_knows_the_window_by_its_ends_alone(change: tuple[str, str] = ("", "")) -> Cases:
    """T and the number of tiles occur only where a step is compared with the window's ends, where the last value is
    read and where tiles are counted; a tile's first step only where its own steps and their neighbours are. So two
    inner tiles do the same to their steps, and so do two first, two last and two ragged ones."""
    source = inspect.getsource(affine_scan_kernel.fn)
    source = textwrap.dedent(source[source.index("def ") :]).replace(*change)
    for name, wanted in WINDOW.items():
        yield Case(name, uses(name, source), wanted)
