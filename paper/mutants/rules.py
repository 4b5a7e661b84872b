"""The rules: what each makes of a node of the syntax tree, as (node to replace, new text)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any

Change = tuple[Any, str]  # a node that has a place in the file
Rule = Callable[[ast.AST], Iterator[Change]]

ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitXor: (ast.BitOr,),
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq, ast.LtE),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
# names that a hand takes for one another
CONFUSED = (
    *(("terminated", "truncated"), ("gamma", "lambda_"), ("alpha", "beta"), ("alphas", "betas")),
    *(("value", "value_next"), ("x", "x_next"), ("x", "behind"), ("value_after", "value"), ("successor", "value")),
    *(("rho_clip", "c_clip"), ("pg_rho_clip", "rho_clip"), ("is_last", "window_ends"), ("exists", "wanted")),
    *(("row", "run"), ("rows", "steps"), ("run_step", "step"), ("tiles", "groups"), ("group", "block")),
    *(("alpha_a", "alpha_b"), ("beta_a", "beta_b"), ("tile_alpha", "tile_beta"), ("run_alpha", "run_beta")),
    *(("time_stride", "policy_stride"), ("per_row", "policy_row"), ("blocks", "length"), ("carry", "x")),
    *(("last_values", "truncation_values"), ("truncation_value", "last_value"), ("reward", "value"), ("q", "reward")),
)
# calls whose arguments nobody mixes up, or have no order, or whose order another rule has
ONE_ORDER = ("where", "isinstance", "getattr", "Slot", "Argument", "run", "option", "min", "max", "minimum", "maximum")
# calls that stand between a value and its use: without them the value of this argument is used as it is
WRAPPERS = {"unless_ended": 0, "clipped_ratio": 0, "weighted": 1, "maximum": 0, "max": 0, "min": 0, "shifted": 0,
            "combine": 2, "from_run_behind": 0, "join_runs": 0, "gcd": 1}  # fmt: skip
KINDS = {"VALUE": ("NEXT", "NO_VALUE"), "NEXT": ("VALUE",), "FLAG": ("PREVIOUS_FLAG", "NO_FLAG"), "ALIAS": ("VALUE",),
         "PREVIOUS_FLAG": ("FLAG",), "ROW": ("NO_VALUE",), "LAST": ("NO_FLAG",), "NO_VALUE": ("LAST",),
         "NO_FLAG": ("LAST",), "FINAL": ("ROW",), "EXPECTATION": ("VALUE",), "CELL": ("SCALAR",), "SCALAR": ("CELL",),
         "SHIFTED": ("ALIAS",)}  # fmt: skip


def like(node: Any, **changes: Any) -> Any:
    """The node with other parts."""
    copy = deepcopy(node)
    for name, value in changes.items():
        setattr(copy, name, value)
    return copy


def text(node: Any) -> str:
    """The expression, so that it can stand in the place of any other."""
    written = ast.unparse(node)
    return (
        f"({written})" if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.UnaryOp) else written
    )


def called(node: ast.AST) -> str:
    """The name of what a call calls, without its module."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def arithmetic(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and not any(isinstance(x, ast.Tuple | ast.Dict) for x in (node.left, node.right)):
        for other in ARITHMETIC.get(type(node.op), ()):
            yield node, text(like(node, op=other()))


def comparison(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for other in COMPARISONS[type(node.ops[0])]:
            yield node, text(like(node, ops=[other(), *node.ops[1:]]))


def logic(node: ast.AST) -> Iterator[Change]:
    """And for or; a negation lost."""
    if isinstance(node, ast.BoolOp):
        yield node, text(like(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or()))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        yield node, text(like(node, op=ast.BitAnd() if isinstance(node.op, ast.BitOr) else ast.BitOr()))
    elif isinstance(node, ast.UnaryOp):
        yield node, text(node.operand)


def condition_dropped(node: ast.AST) -> Iterator[Change]:
    """One of several conditions or flags, or the mask of a load or store, is forgotten."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        yield node, text(node.left)
        yield node, text(node.right)
    elif isinstance(node, ast.BoolOp):
        for k in range(len(node.values)):
            rest = [value for j, value in enumerate(node.values) if j != k]
            yield node, text(rest[0] if len(rest) == 1 else like(node, values=rest))


def constant(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield node, repr(not node.value)
        elif isinstance(node.value, int):
            yield node, repr(node.value + 1)
            yield node, f"({node.value - 1})" if node.value < 1 else repr(node.value - 1)
        elif isinstance(node.value, float):
            yield node, "0.0" if node.value else "1.0"


def index(node: ast.AST) -> Iterator[Change]:
    """One place further, one before."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
        if isinstance(node.slice, ast.Slice | ast.Tuple | ast.Constant):
            return
        for op in (ast.Add(), ast.Sub()):
            yield node, text(like(node, slice=ast.BinOp(node.slice, op, ast.Constant(1))))


def select(node: ast.AST) -> Iterator[Change]:
    """Turned round, or always the one, or always the other."""
    if isinstance(node, ast.IfExp):
        yield node, text(like(node, body=node.orelse, orelse=node.body))
        yield node, text(node.body)
        yield node, text(node.orelse)
    elif called(node) == "where" and isinstance(node, ast.Call) and len(node.args) == 3:
        condition, chosen, otherwise = node.args
        yield node, text(like(node, args=[condition, otherwise, chosen]))
        if not isinstance(chosen, ast.Constant):
            yield node, text(chosen)
        if not isinstance(otherwise, ast.Constant):
            yield node, text(otherwise)


def argument_order(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Call) and called(node) not in ONE_ORDER:
        for k, (one, other) in enumerate(pairwise(node.args)):
            starred = any(isinstance(x, ast.Starred) for x in (one, other))
            if not starred and ast.dump(one) != ast.dump(other):
                yield node, text(like(node, args=[*node.args[:k], other, one, *node.args[k + 2 :]]))


def confused_name(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for pair in CONFUSED:
            if node.id in pair:
                yield node, pair[pair[0] == node.id]


def kind(node: ast.AST) -> Iterator[Change]:
    """A slot that is read in another way."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Kind":
        for other in KINDS.get(node.attr, ()):
            yield node, f"Kind.{other}"


def unwrapped(node: ast.AST) -> Iterator[Change]:
    """A clip, a select, a shift or a reset is forgotten."""
    if isinstance(node, ast.Call) and called(node) in WRAPPERS and len(node.args) > WRAPPERS[called(node)]:
        value = node.args[WRAPPERS[called(node)]]
        if not isinstance(value, ast.Starred):
            yield node, text(value)
    if called(node) == "weighted" and isinstance(node, ast.Call):
        yield node, text(ast.BinOp(node.args[0], ast.Mult(), node.args[1]))


def branch(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.If):
        yield node.test, text(ast.UnaryOp(ast.Not(), node.test))
        if not node.orelse:
            yield node.test, "False"


def bound(node: ast.AST) -> Iterator[Change]:
    """A loop that misses its last turn."""
    if called(node) in ("range", "static_range") and isinstance(node, ast.Call):
        last = min(1, len(node.args) - 1)
        end = ast.BinOp(node.args[last], ast.Sub(), ast.Constant(1))
        yield node, text(like(node, args=[*node.args[:last], end, *node.args[last + 1 :]]))


def statement(node: ast.AST) -> Iterator[Change]:
    """A call for its effect, or an update, is forgotten."""
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield node, "pass"
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        target = node.targets[0].id
        if any(isinstance(part, ast.Name) and part.id == target for part in ast.walk(node.value)):
            yield node, "pass"


RULES: dict[str, Rule] = {
    "arithmetic": arithmetic,
    "comparison": comparison,
    "logic": logic,
    "condition dropped": condition_dropped,
    "constant": constant,
    "index": index,
    "select": select,
    "argument order": argument_order,
    "confused name": confused_name,
    "kind": kind,
    "unwrapped": unwrapped,
    "branch": branch,
    "loop bound": bound,
    "statement": statement,
}
