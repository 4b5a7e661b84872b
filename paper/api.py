"""The API page: `python -m paper.api` renders docs/api.md from the docstrings and signatures of the public names.

With `--check` nothing is written and a stale page fails. Nothing is typed here but which modules are public.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from paper.bench import PAPER
from paper.text import kept, told

MODULES = ("rlscan", "rlscan.boundaries", "rlscan.testing", "rlscan.reference")  # one that is not there yet is left out
SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$")
NAMED = re.compile(r"([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*,?): ?")  # what an entry of a section begins with
SPECIAL = re.compile(r"(?<!\w)_|_(?!\w)|\*(?!\w+\*)(?<!\w\*)|<")  # `*so*` is emphasis
WIDTH = 100  # of a signature on one line


# What is public


def modules() -> list[ModuleType]:
    return [importlib.import_module(name) for name in MODULES if importlib.util.find_spec(name)]


def public(module: ModuleType) -> dict[str, Any]:
    """What `__all__` names; without one, the functions that are defined there and have an example."""
    if hasattr(module, "__all__"):
        found = {name: getattr(module, name) for name in module.__all__}
        return {name: x for name, x in found.items() if callable(x)}
    return {
        name: x
        for name, x in vars(module).items()
        if inspect.isfunction(x) and x.__module__ == module.__name__ and ">>>" in (x.__doc__ or "")
    }


# Signatures, as they are written


def signature(name: str, x: Any) -> str:
    """`name(arguments) -> result` from the source; a class is shown with its fields."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(x))).body[0]
    if isinstance(tree, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, tree.bases))
        fields = [ast.unparse(node) for node in tree.body if isinstance(node, ast.AnnAssign)]
        return "\n".join([f"class {name}({bases}):" if bases else f"class {name}:", *(f"    {f}" for f in fields)])
    if not isinstance(tree, ast.FunctionDef):
        raise TypeError(f"{name} is neither a function nor a class")
    result = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    line = f"{name}({ast.unparse(tree.args)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments(tree.args)), f"){result}"])


def arguments(args: ast.arguments) -> Iterator[str]:
    ordered = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(ordered) - len(args.defaults)) + list(args.defaults)
    for argument, default in zip(ordered, defaults, strict=True):
        yield with_default(argument, default)
    if args.vararg:
        yield f"*{ast.unparse(args.vararg)}"
    elif args.kwonlyargs:
        yield "*"
    for argument, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield with_default(argument, default)
    if args.kwarg:
        yield f"**{ast.unparse(args.kwarg)}"


def with_default(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


# Docstrings to Markdown


def blocks(text: str) -> Iterator[list[str]]:
    """Runs of lines between blank ones; a section (`Args:`) and what is indented below it stay together."""
    block: list[str] = []
    in_section = False
    for line in [*text.splitlines(), ""]:
        if line.strip() and not (block and in_section and not line.startswith(" ")):
            in_section = in_section or bool(SECTION.match(line))
            block.append(line)
        elif not line.strip() and not in_section:
            yield from [block] * bool(block)
            block = []
        elif line.strip():
            yield block
            block, in_section = [line], bool(SECTION.match(line))
    yield from [block] * bool(block)


def markdown(docstring: str) -> str:
    """Prose as prose, what is indented or an example as code, `Args:` and its like as lists."""
    parts = []
    for block in blocks(inspect.cleandoc(docstring)):
        if SECTION.match(block[0]):
            parts.append(f"**{block[0]}**\n\n{listed(block[1:])}")
        elif block[0].startswith(">>>"):
            parts.append("```pycon\n" + "\n".join(block) + "\n```")
        elif all(line.startswith("    ") for line in block):
            parts.append("```text\n" + textwrap.dedent("\n".join(block)) + "\n```")
        else:
            parts.append("\n".join(map(escaped, block)))
    return "\n\n".join(parts)


def listed(lines: list[str]) -> str:
    """An entry starts with its names at the section's own indent; any other line goes on with the one above."""
    entries: list[str] = []
    for line in filter(str.strip, textwrap.dedent("\n".join(lines)).splitlines()):
        if entries and not NAMED.match(line):
            entries[-1] += " " + line.strip()
        else:
            entries.append(line.strip())
    return "\n".join("- " + entry_of(entry) for entry in entries)


def entry_of(entry: str) -> str:
    """`name: what it is`, the names as code."""
    found = NAMED.match(entry)
    if not found:
        return escaped(entry)
    names = ", ".join(f"`{name.strip()}`" for name in found[1].split(","))
    return f"{names}: {escaped(entry[found.end() :])}"


def escaped(text: str) -> str:
    """What Markdown would take for emphasis or a link, outside of `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else SPECIAL.sub(r"\\\g<0>", part) for part in parts)


# The page


def entry(module: ModuleType, name: str, x: Any) -> str:
    parts = [f"### `{module.__name__}.{name}`", f"```python\n{signature(name, x)}\n```"]
    home = inspect.getmodule(x)
    alone = home is not module and inspect.isfunction(x) and home is not None and home.__name__.endswith(f".{name}")
    if alone and home is not None and home.__doc__ and module.__name__ == "rlscan":
        parts.append(markdown(home.__doc__))  # an estimator's file begins with its recursion and its source
    parts.append(markdown(x.__doc__ or ""))
    return "\n\n".join(parts)


class Anchors:
    """Where a heading is found: lower case without dots, and numbered where another has the same letters."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}

    def of(self, heading: str) -> str:
        text = heading.replace(".", "").lower()
        self.used[text] = self.used.get(text, -1) + 1
        return f"#{text}-{self.used[text]}" if self.used[text] else f"#{text}"


def page() -> str:
    parts = ["# API", "Rendered from signatures and docstrings by `python -m paper.api`. Every example is a test."]
    found = [(module, public(module)) for module in modules()]
    contents, anchors = [], Anchors()
    for module, names in found:
        top = anchors.of(module.__name__)
        inside = ", ".join(f"[`{name}`]({anchors.of(f'{module.__name__}.{name}')})" for name in names)
        contents.append(f"- [`{module.__name__}`]({top}): {inside}")
    parts.append("\n".join(contents))
    for module, names in found:
        parts += [f"## `{module.__name__}`", markdown(module.__doc__ or "")]
        parts += [entry(module, name, x) for name, x in names.items()]
    return "\n\n".join(filter(None, parts)) + "\n"


def main(argv: list[str] | None = None, root: Path = PAPER.parent, render: Callable[[], str] = page) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.api", description="Render docs/api.md from docstrings.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is stale")
    args = parser.parse_args(argv)
    return told(kept(root / "docs" / "api.md", render(), write=not args.check), root, check=args.check)


if __name__ == "__main__":
    sys.exit(main())
