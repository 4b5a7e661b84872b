"""A process for each mutant, forked after PyTorch, Triton and the rest are imported, several at a time."""

from __future__ import annotations

import faulthandler
import mmap
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from paper.mutants.judge import Verdict, judge

WALL_LIMIT = 1500  # seconds, where even the signal of judge.py isn't heard


def warm() -> None:
    """Imports what every mutant needs; nothing of it may have started a thread, for the processes are forked."""
    import hypothesis.extra.numpy  # noqa: F401  # for the children, not for this function; so are the others
    import pytest  # noqa: F401  # for the children
    import sympy.polys.rings  # noqa: F401  # for the children
    import torch
    import triton.language  # noqa: F401  # for the children

    torch.set_num_threads(1)


class Note:
    """A line in memory that parent and child share: what the child was at, if it dies."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 1024)

    def write(self, examples: int, what: str) -> None:
        line = f"{examples} {what}".encode()[:1000]
        self.memory[: len(line) + 1] = line + b"\0"

    def read(self) -> tuple[int, str]:
        examples, _, what = self.memory[:].split(b"\0")[0].decode(errors="replace").partition(" ")
        return int(examples or 0), what


TESTS = str(Path(__file__).resolve().parents[2] / "tests")


class Work(NamedTuple):
    """A file, what it reads, and by which stages to judge the package (None: all that the file has)."""

    file: str
    source: str
    stages: Sequence[str] | None = None


def in_child(work: Work, connection: Connection, note: Note) -> None:
    from rlscan.verify.faults import changed_copy

    faulthandler.disable()  # a child that dies is a verdict, and says so there
    for name, module in [*sys.modules.items()]:  # tests that were imported hold on to the unchanged package
        if (getattr(module, "__file__", None) or "").startswith(TESTS):
            del sys.modules[name]
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    with changed_copy(work.file, work.source, "rlscan", whole=True):
        judge(work.file, connection.send, note.write, work.stages)


def judged(work: Sequence[Work], jobs: int) -> Iterator[tuple[int, Verdict]]:
    """The verdict on each, by its number, as they come."""
    warm()
    context = multiprocessing.get_context("fork")
    waiting = [*enumerate(work)]
    running: dict[Connection, tuple[int, Any, float, Note]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            number, item = waiting.pop(0)
            mine, theirs = context.Pipe(duplex=False)
            note = Note()
            process = context.Process(target=in_child, args=(item, theirs, note))
            process.start()
            theirs.close()
            running[mine] = (number, process, time.perf_counter(), note)
        for connection in wait([*running], timeout=1):
            assert isinstance(connection, Connection)
            number, process, begun, note = running.pop(connection)
            seconds = round(time.perf_counter() - begun, 2)
            try:
                verdict = connection.recv()
            except EOFError:  # it died without a word
                process.join()
                died = signal.Signals(-process.exitcode).name if process.exitcode < 0 else f"exit {process.exitcode}"
                examples, what = note.read()
                verdict = Verdict(f"crash: {what}", f"the process died: {died}", examples, seconds)
            process.join()
            connection.close()
            yield number, verdict
        for connection, (number, process, begun, note) in [*running.items()]:
            if time.perf_counter() - begun > WALL_LIMIT:
                del running[connection]
                process.kill()
                examples, what = note.read()
                detail = f"the process did not end within {WALL_LIMIT} s"
                yield number, Verdict(f"time limit: {what}", detail, examples, float(WALL_LIMIT))
