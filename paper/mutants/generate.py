"""Which mutants there are: rules over the syntax tree, and a seeded choice spread over files and rules."""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from pathlib import Path

from paper.mutants.rules import RULES

PACKAGE = Path(__file__).parents[2] / "rlscan"
ESTIMATOR_FILES = (
    *("gae.py", "vtrace.py", "retrace.py", "td_lambda.py", "discounted_returns.py"),
    *("eligibility_traces.py", "prefix_sum.py", "linear_scan.py"),
)
ENGINE_FILES = tuple(
    f"engine/{name}.py" for name in ("kernel", "portable", "launch", "shortcut", "plan", "tiles", "checks")
)
FILES = (*ENGINE_FILES, "boundaries.py", "affine.py", "ratios.py", *ESTIMATOR_FILES)
# turns a file has in a round of the choice: the kernel is as long, and as easy to get wrong, as four others
TURNS = {"engine/kernel.py": 4, "engine/portable.py": 2, "boundaries.py": 2}
# what only a GPU runs or reads: functions, and variables by the name that is assigned
ONLY_ON_A_GPU = {"engine/launch.py": ("launcher_of", "kernel", "active", "current_device", "current_stream")}
# what a kernel's compiler is told besides
HINTS = frozenset({"num_warps", "enable_fp_fusion", "volatile"})


@dataclass(frozen=True)
class Mutant:
    """One change of one file; `before` and `after` are its lines."""

    file: str
    function: str
    line: int
    rule: str
    before: str
    after: str
    occurrence: int  # among those that read alike
    start: int  # bytes in the file
    end: int
    text: str

    @property
    def name(self) -> str:
        """What it is known by, wherever its line has moved to."""
        again = f" ({self.occurrence + 1})" if self.occurrence else ""
        return f"{self.file}, {self.function}, {self.rule}{again}: {self.before} → {self.after}"

    def source(self) -> str:
        """The file as this mutant has it."""
        return apply(original(self.file), self.start, self.end, self.text)


def original(file: str) -> str:
    return (PACKAGE / file).read_text()


def apply(source: str, start: int, end: int, text: str) -> str:
    raw = source.encode()
    return (raw[:start] + text.encode() + raw[end:]).decode()


def parts(file: str, node: ast.AST, function: str = "module") -> Iterator[tuple[str, ast.AST]]:
    """The nodes that are semantic, each with the function that it is in: no annotation, default, docstring or message,
    and nothing that only a GPU runs.
    """
    left_out = ONLY_ON_A_GPU.get(file, ())
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr | ast.arguments | ast.Try):
            continue
        if isinstance(child, ast.keyword) and child.arg in HINTS:
            continue
        if isinstance(child, ast.FunctionDef):
            if child.name not in left_out:
                for part in child.body:
                    yield from itself(file, part, child.name)
            continue
        yield from itself(file, child, function)


def itself(file: str, node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
        return
    if isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield from itself(file, node.value, function)
        return
    if isinstance(node, ast.Assign) and {*names(node)} & {*ONLY_ON_A_GPU.get(file, ())}:
        return
    if isinstance(node, ast.FunctionDef):
        if node.name not in ONLY_ON_A_GPU.get(file, ()):
            for part in node.body:
                yield from itself(file, part, node.name)
        return
    yield function, node
    yield from parts(file, node, function)


def names(node: ast.Assign) -> Iterator[str]:
    for target in node.targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name | ast.Attribute):
                yield part.id if isinstance(part, ast.Name) else part.attr


def mutants(file: str) -> list[Mutant]:
    """Every mutant of the file."""
    source = original(file)
    raw, tree = source.encode(), ast.parse(source)
    begins = [0, *accumulate(map(len, raw.splitlines(keepends=True)))]
    known = {node.name: set(identifiers(node)) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    found: dict[tuple[int, int, str], Mutant] = {}
    alike: Counter[tuple[str, ...]] = Counter()
    for function, node in parts(file, tree):
        for rule, changes in RULES.items():
            for changed, text in changes(node):
                if rule == "confused name" and text not in known.get(function, ()):
                    continue
                start = begins[changed.lineno - 1] + changed.col_offset
                end = begins[changed.end_lineno - 1] + changed.end_col_offset
                if (start, end, text) in found or raw[start:end].decode() == text:
                    continue
                first, last = begins[changed.lineno - 1], begins[changed.end_lineno]
                before = " ".join(raw[first:last].decode().split())
                after = " ".join((raw[first:start] + text.encode() + raw[end:last]).decode().split())
                reads = (function, rule, before, after)
                found[start, end, text] = Mutant(
                    *(file, function, changed.lineno, rule, before, after), alike[reads], start, end, text
                )
                alike[reads] += 1
    return [*found.values()]


def identifiers(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name | ast.arg):
            yield node.id if isinstance(node, ast.Name) else node.arg


def is_another_program(mutant: Mutant) -> bool:
    """It is valid Python, and says something else than the file does."""
    try:
        return ast.dump(ast.parse(mutant.source())) != ast.dump(ast.parse(original(mutant.file)))
    except SyntaxError:
        return False


def choose(total: int, seed: int, files: Sequence[str] = FILES) -> list[Mutant]:
    """`total` mutants: a round gives every file its turns, and in a file every rule is had before any comes again."""
    queues = {
        file: filter(is_another_program, in_turn(mutants(file), random.Random(f"{file} {seed}"))) for file in files
    }
    turns = [file for file in files for _ in range(TURNS.get(file, 1))]
    chosen: list[Mutant] = []
    while turns and len(chosen) < total:
        for file in turns[:]:
            mutant = next(queues[file], None)
            if mutant is None:
                turns.remove(file)
            elif len(chosen) < total:
                chosen.append(mutant)
    return chosen


def in_turn(found: Sequence[Mutant], rng: random.Random) -> list[Mutant]:
    """Shuffled, a mutant of each rule in turn."""
    by_rule: dict[str, list[Mutant]] = {}
    for mutant in found:
        by_rule.setdefault(mutant.rule, []).append(mutant)
    order = sorted(by_rule)
    rng.shuffle(order)
    for rule in order:
        rng.shuffle(by_rule[rule])
    return [mutant for turn in zip_longest(*(by_rule[rule] for rule in order)) for mutant in turn if mutant]
