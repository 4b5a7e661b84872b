"""Every public function with its definition, the calls and cuts that the proofs of the kernel try, and how one is."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import rlscan
from rlscan.discounted_returns import SPEC as DISCOUNTED_RETURNS
from rlscan.eligibility_traces import SPEC as ELIGIBILITY_TRACES
from rlscan.engine import Tile
from rlscan.engine.spec import Role, Spec
from rlscan.gae import SPEC as GAE
from rlscan.linear_scan import FORWARD, REVERSE
from rlscan.prefix_sum import SPECS as PREFIX_SUM
from rlscan.retrace import TRACES
from rlscan.td_lambda import SPEC as TD_LAMBDA
from rlscan.vtrace import SPECS as VTRACE

from . import discounted_returns, eligibility_traces, gae, linear_scan, prefix_sum, retrace, td_lambda, vtrace
from .launches import Execution, Shape
from .registry import Case, Cases
from .rollouts import CELL, NUMBER, Call, rollouts
from .symbolic_tensors import Fault
from .symbolic_triton import Edit
from .window import Window


class Target(NamedTuple):
    """A public function with its options, the specification it runs and the definition that it claims to compute."""

    function: str
    options: tuple[tuple[str, Any], ...]
    spec: Spec
    definition: Callable[[Window], list[tuple[Any, ...]]]


def reverse_linear_scan(window: Window) -> list[tuple[Any, ...]]:
    return linear_scan.forward(linear_scan.mirrored(window))[::-1]


TARGETS = {
    "gae": Target("gae", (), GAE, gae.definition),
    "td_lambda": Target("td_lambda", (), TD_LAMBDA, td_lambda.definition),
    "discounted_returns": Target("discounted_returns", (), DISCOUNTED_RETURNS, discounted_returns.definition),
    "eligibility_traces": Target("eligibility_traces", (), ELIGIBILITY_TRACES, eligibility_traces.definition),
    "linear_scan": Target("linear_scan", (), FORWARD, linear_scan.forward),
    "reverse linear_scan": Target("linear_scan", (("reverse", True),), REVERSE, reverse_linear_scan),
}
TARGETS |= {
    f"{name} prefix_sum": Target("prefix_sum", (("boundary", name),), spec, prefix_sum.DEFINITIONS[name])
    for name, spec in PREFIX_SUM.items()
}
TARGETS |= {
    f"{name} vtrace": Target("vtrace", (("advantage", name),), spec, vtrace.DEFINITIONS[name])
    for name, spec in VTRACE.items()
}
TARGETS |= {
    trace: Target("retrace", (("trace", trace),), spec, retrace.definition(trace))
    for trace, (spec, _) in TRACES.items()
}

# tiles of 2 steps in one run or two, of 4 steps in two runs or four; every tile a program, folded 2 at a time
ONE_RUN, TWO_RUNS, FOUR_STEPS = Tile(32, 2, 1, 1, run=2), Tile(16, 2, 1, 2, run=1), Tile(8, 4, 1, 4, run=2)
FOUR_RUNS = (Shape(Tile(8, 4, 1, 4, run=1)), Shape(Tile(8, 4, 1, 2, run=1), "TN"))
# a thread reads its own run, in one vector or in two
VECTORS = (Tile(8, 4, 1, 2, run=2, vector=2), Tile(8, 4, 1, 4, run=4, vector=2))
WALKED = Tile(8, 1, 1, 1, run=1, group=2, walk=2)  # programs of two tiles, folded two at a time
SPLIT, SPLIT_PAIRS = Tile(32, 1, 1, 1, run=1, group=2), Tile(16, 2, 1, 2, run=1, group=2)
SHORT = (
    *(Shape(TWO_RUNS), Shape(ONE_RUN, "TN", "mixed"), Shape(FOUR_STEPS, "TN", flags="uint8")),
    *(Shape(SPLIT, strides="mixed"), Shape(SPLIT_PAIRS, "TN", "gapped", last_first=True)),
    *(Shape(ONE_RUN, strides="transposed", dtype="bfloat16", flags="float32"), Shape(SPLIT, "TN", dtype="float64")),
    Shape(VECTORS[0], flags="uint8"),
)
MANY_ROWS = Tile(128, 2, 1, 2, run=1)
LONGER = (Shape(MANY_ROWS, strides="mixed"), Shape(FOUR_STEPS), Shape(ONE_RUN, "TN"), Shape(SPLIT, "TN", "transposed"))
BLOCKS = tuple(
    Shape(Tile(8, steps, 1, run=1, group=2), layout, last_first=last_first)
    for steps, layout, last_first in ((1, "NT", False), (1, "TN", True))
)
RAGGED = Shape(Tile(16, 8, 1, run=4))  # four neighbours are read together, in half a tile
WALKS = (Shape(WALKED), Shape(WALKED, "TN", last_first=True))


def choices(target: Target) -> list[tuple[str, ...]]:
    """Every choice of the optional arguments, as the ones that are absent."""
    names = [a.name for a in target.spec.arguments]
    if "last_values" in names:
        last, following = ("next_values",), ("last_values", "truncation_values")
        return [last, following, (*last, "truncated", "truncation_values"), (*following, "truncated")]
    if "next_policy" in names:
        ratios = () if target.spec.arguments[2].required else ("log_ratios",)
        return [ratios, ("next_policy", *ratios), ("truncated", *ratios)]
    return [()]


def single(target: Target, form: str, *others: str) -> tuple[tuple[str, str], ...]:
    """Everything that can be one number given as one, in this form; `others` in the other."""
    names = [a.name for a in target.spec.arguments if a.role in (Role.ROW, Role.WEIGHT)]
    other = {NUMBER: CELL, CELL: NUMBER}[form]
    return tuple((name, other if name in others else form) for name in names)


def infinite(target: Target) -> tuple[str, ...]:
    """The clips that this form of the estimator does not have."""
    return ("c_clip",) if target.function == "retrace" and dict(target.options)["trace"] != "retrace" else ()


def trials(target: Target) -> Iterator[tuple[Call, Sequence[Shape]]]:
    """The calls of the default proof, and how each is laid out and cut."""
    clips, light = infinite(target), target.function not in ("vtrace", "retrace")
    one_flag = sum(a.role in (Role.FLAG, Role.BETA) for a in target.spec.arguments) == 1
    usual, *others = choices(target)
    yield Call(3, usual, infinite=clips), SHORT
    yield Call(14 if light else 6, usual, infinite=clips, every_pattern=False), (*BLOCKS, *WALKS)
    vectors = (Shape(VECTORS[0], strides="mixed"), *map(Shape, VECTORS))
    yield (
        Call(4, usual, infinite=clips, every_pattern=False, actions=4),
        (*SHORT[:4], *LONGER[1:2], *FOUR_RUNS, *vectors, RAGGED),
    )
    if "next_policy" in (a.name for a in target.spec.arguments):  # so many actions that the sum is a loop
        yield Call(2, usual, infinite=clips, every_pattern=False, actions=17), SHORT[:1]
    for absent in others:
        yield Call(3, absent, infinite=clips), SHORT[1:4]
    for form, other in ((NUMBER, "gamma"), (CELL, "lambda_")):
        yield Call(3, usual, single(target, form, other), infinite=clips), (SHORT[1], SHORT[3], SHORT[6])
    if target.spec.features:
        yield Call(3, usual, features=2, every_pattern=False), SHORT[:4]
    if not light:
        every_clip = tuple(a.name for a in target.spec.arguments if a.role is Role.NUMBER)
        yield Call(3, usual, infinite=every_clip, every_pattern=False), SHORT[:1]
    absent = usual if light else next(names for names in others if "truncated" in names)
    yield Call(5, absent, infinite=clips), LONGER if one_flag or not light else LONGER[: 1 + (target.function == "gae")]


def relatives(target: Target) -> Iterator[tuple[Call, Sequence[Shape]]]:
    """Fewer, for what differs from a target with `trials` by its coefficients or outputs alone."""
    yield Call(3, choices(target)[0], infinite=infinite(target)), SHORT[1:4]


def poisoned(target: Target) -> Iterator[tuple[Call, Sequence[Shape]]]:
    """Of every pattern a row for each entry, which is undefined there."""
    light = target.function not in ("vtrace", "retrace")
    carried = {"gae": ("lambda_",), "vtrace": ("gamma", "lambda_")}.get(target.function, ())  # they multiply the carry
    names = [a.name for a in target.spec.arguments if a.role not in (Role.FLAG, Role.NUMBER) and a.name not in carried]
    yield Call(3, choices(target)[0], undefined=tuple(names), every_pattern=light), (SHORT[0], SHORT[4])


def shared(target: Target) -> Iterator[tuple[Call, Sequence[Shape]]]:
    """Time split over programs: one, two and three levels, blocks folded beforehand, numbers of either width."""
    one, double = Tile(8, 1, 1, run=1, group=16), Tile(8, 2, 1, run=1, group=2)
    usual = choices(target)[0]
    yield Call(6, usual, every_pattern=False), (Shape(one), Shape(one, "TN", last_first=True), Shape(double))
    yield Call(6, usual, every_pattern=False), (Shape(double, dtype="float64"), Shape(double, last_first=True))
    yield Call(15, usual, every_pattern=False), (*BLOCKS, *WALKS)
    yield Call(6, usual, every_pattern=False), WALKS


def far(target: Target) -> Iterator[tuple[Call, Sequence[Shape]]]:
    """Offsets that 32 bits do not hold."""
    for tile, layout in ((TWO_RUNS, "NT"), (SPLIT, "NT")):
        yield Call(3, choices(target)[0]), (Shape(tile, layout, strides="far", flags="uint8"),)


def wider(target: Target) -> Iterator[tuple[Call, Sequence[Shape]]]:
    """Those of the deep proof: five steps, for every choice of arguments."""
    usual, *others = choices(target)
    main = target.function not in ("vtrace", "retrace") or target.spec in (VTRACE["impala"], TRACES["q_lambda"][0])
    yield Call(5, usual, infinite=infinite(target)), LONGER if main else LONGER[:1]
    for absent in others if main else ():
        yield Call(5, absent, infinite=infinite(target)), LONGER[:2]


@functools.lru_cache(maxsize=16)
def expected(target: Target, call: Call) -> list[tuple[Window, tuple[int, ...], list[tuple[Any, ...]]]]:
    """Of every row the window, its place in the results without the step, and the definition's results."""
    return [
        (window, (n, feature) if call.features else (n,), target.definition(window))
        for n, feature, window in rollouts(target.spec, call).windows()
    ]


Change = Callable[[dict[str, Any]], Mapping[str, Any]]


def unchanged(launched: dict[str, Any]) -> Mapping[str, Any]:
    return {}


def executed(target: Target, call: Call, shape: Shape, edits: tuple[Edit, ...], change: Change) -> Cases:
    """One call, step by step against the definition; `change` gives arguments of the launch that a twin has wrong."""
    execution = Execution(getattr(rlscan, target.function), dict(target.options), rollouts(target.spec, call), shape)
    execution.launched.update(change(execution.launched))
    try:
        execution.run(edits)
        results = execution.found()
    except Fault as fault:
        yield Case((target.function, call, shape), str(fault), "no fault")
        return
    for window, place, definition in expected(target, call):
        for t, row in enumerate(definition):
            for k, value in enumerate(row):
                found = results[k][(place[0], t, *place[1:])]
                yield Case((target.function, shape, window, f"result {k} at {[*place, t]}"), found, value)


def stored(
    *names: str,
    edits: tuple[Edit, ...] = (),
    change: Change = unchanged,
    among: Callable[[Target], Iterator[tuple[Call, Sequence[Shape]]]] = trials,
) -> Cases:
    """Every trial of these targets."""
    for name in names:
        for call, shapes in among(TARGETS[name]):
            for shape in shapes:
                yield from executed(TARGETS[name], call, shape, edits, change)
