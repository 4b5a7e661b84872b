"""Results that grow cell by cell: what is measured is written at once, and a run that was stopped goes on.

A table in the making is FILE.partial beside FILE, which stays as it was until every cell is there.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

Row = dict[str, Any]
ROOT = Path(__file__).parents[1]
CODE = ("rlscan/**/*.py", "paper/*.py", "paper/tables.toml", "paper/original.json")
SAME = ("table", "device", "versions", "commit", "source", "seed", "protocol")  # or cells don't belong together


@cache
def source() -> str:
    """A hash of the code that is measured and that measures: a commit says nothing about what was changed since."""
    found = hashlib.sha256()
    for path in sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def write(result: Row, path: Path, many: str = "rows") -> None:
    """One of the `many` a line, so that a diff shows which row moved; whole or not at all."""
    head = json.dumps({k: v for k, v in result.items() if k != many}, indent=1, ensure_ascii=False)
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in result[many])
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    beside.write_text(f'{head[:-2]},\n "{many}": [\n  {rows}\n ]\n}}\n')
    beside.replace(path)


def partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def differences(old: Row, head: Row) -> list[str]:
    """In what two results differ, so that their cells don't belong together."""
    found = []
    for field in SAME:
        before, now = old.get(field), json.loads(json.dumps(head.get(field)))
        if isinstance(before, dict) and isinstance(now, dict):
            names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            found += [f"{field}: {name} was {before.get(name)}, is {now.get(name)}" for name in names]
        elif before != now:
            found.append(f"{field} was {before}, is {now}")
    return found


class Kept:
    """The rows of one table: those of an earlier run by the same code on the same machine, and those that come."""

    def __init__(self, head: Row, path: Path | None, again: bool = False) -> None:
        self.result: Row = {**head, "rows": []}
        self.path = path
        self.done = False
        self.said: list[str] = []
        for old in [] if path is None or again else [partial(path), path]:
            if not old.exists():
                continue
            found = json.loads(old.read_text())
            changed = differences(found, head)
            if not changed:
                self.result, self.done = found, old == path
                self.said.append(f"{len(self.rows)} rows of {old.name} are kept: measured here by this very code")
                return
            if old != path:
                self.said.append(f"{old.name} is not gone on with, because {'; '.join(changed)}")

    @property
    def rows(self) -> list[Row]:
        return self.result["rows"]

    def has(self, key: Row) -> bool:
        return any(all(row.get(k) == v for k, v in key.items()) for row in self.rows)

    def add(self, rows: list[Row]) -> None:
        self.rows.extend(rows)
        if self.path is not None:
            write(self.result, partial(self.path))

    def finish(self, **more: Any) -> None:
        """Every cell is there: FILE is replaced."""
        self.result = {**{k: v for k, v in self.result.items() if k != "rows"}, **more, "rows": self.rows}
        if self.path is not None:
            write(self.result, self.path)
            partial(self.path).unlink(missing_ok=True)
        self.done = True
