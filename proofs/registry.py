"""Statements, the twins that must fail, and how they are run.

A statement is a function that yields its cases, pairs of values that are claimed to be the same. It holds if there is
at least one case and all of them are. A twin is the same function with one part replaced by a false one: it must meet
a case that differs. A statement without a twin is refused, and a twin that passes fails the statement: a proof that
cannot fail shows nothing.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .symbolic import same


class Case(NamedTuple):
    """Two values claimed to be the same; `where` says in which case, if they are not."""

    where: Any
    left: Any
    right: Any


Cases = Iterator[Case]


class Twin:
    """A false variant: what is false about it, and the parts of the statement that it replaces."""

    def __init__(self, name: str, **parts: Any) -> None:
        self.name, self.parts = name, parts


class Statement(NamedTuple):
    name: str
    statement: str
    over: str
    scope: str
    prove: Callable[..., Cases]
    twins: tuple[Twin, ...]


class TwinResult(NamedTuple):
    """Whether the twin was rejected, after how many cases, and by which (or why not)."""

    name: str
    rejected: bool
    cases: int
    finding: str


class Result(NamedTuple):
    name: str
    statement: str
    over: str
    scope: str
    cases: int
    seconds: float
    proved: bool
    finding: str  # the first case that differs, where it is not proved
    twins: tuple[TwinResult, ...]

    @property
    def twins_rejected(self) -> bool:
        return all(twin.rejected for twin in self.twins)

    @property
    def passed(self) -> bool:
        return self.proved and self.twins_rejected


STATEMENTS: list[Statement] = []
DEEP: list[Statement] = []  # those that take minutes, over a wider scope


def statement(
    *, scope: str, twins: Sequence[Twin], over: str = "exact reals", into: list[Statement] = STATEMENTS
) -> Callable[[Callable[..., Cases]], Statement]:
    """Registers a generator of cases as a statement of its name; its docstring's first paragraph says it in words."""

    def register(prove: Callable[..., Cases]) -> Statement:
        name = prove.__name__
        words = " ".join((prove.__doc__ or "").split("\n\n")[0].split())
        if not twins or not words:
            raise ValueError(f"{name} has no {'twin' if words else 'docstring'}; a statement should have one")
        if any(known.name == name for known in into):
            raise ValueError(f"{name} is the name of two statements")
        into.append(Statement(name, words, over, scope, prove, tuple(twins)))
        return into[-1]

    return register


class Outcome(NamedTuple):
    cases: int
    holds: bool
    differs: bool
    finding: str


def outcome(prove: Callable[..., Cases], **parts: Any) -> Outcome:
    """Goes through the cases up to the first that differs."""
    count = 0
    try:
        for count, case in enumerate(prove(**parts), 1):
            if not same(case.left, case.right):
                return Outcome(count, False, True, f"{case.where}: {case.left} against {case.right}")
    except Exception as error:  # whatever goes wrong proves nothing, and rejects nothing
        return Outcome(count, False, False, f"after {count} cases {type(error).__name__}: {error}")
    return Outcome(count, count > 0, False, "" if count else "no case")


def check(claim: Statement) -> Result:
    """Proves one statement and rejects its twins."""
    start = time.perf_counter()
    cases, proved, _, finding = outcome(claim.prove)
    twins = []
    for twin in claim.twins:
        tried = outcome(claim.prove, **twin.parts)
        twins.append(TwinResult(twin.name, tried.differs, tried.cases, tried.finding or "passed, and should not"))
    seconds = time.perf_counter() - start
    return Result(
        *(claim.name, claim.statement, claim.over, claim.scope, cases, seconds, proved, finding), twins=tuple(twins)
    )


def run(
    progress: Callable[[Result], object] | None = None, statements: Sequence[Statement] | None = None
) -> list[Result]:
    """Checks every statement (or those given); `progress` hears of each as it is done."""
    results = []
    for claim in STATEMENTS if statements is None else statements:
        results.append(check(claim))
        if progress is not None:
            progress(results[-1])
    return results
