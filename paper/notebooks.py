"""The notebooks, executed in place: `python -m paper.notebooks [WORD ...]`, all or those whose name contains a word.

They are committed with their outputs, so that a page on the web shows them. What they were made from is noted in each:
with `--check` nothing is executed, and outputs of other cells or of other results fail as stale.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
READS = {"04_the_tables": ("paper/original.json", "paper/results/*/*.json")}  # besides its own cells
CELL_SECONDS = 900  # on a GPU one cell compiles and times every baseline


def notebooks(root: Path = ROOT) -> list[Path]:
    return sorted((root / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def execute(path: Path, folder: Path, env: dict[str, str] | None = None) -> Any:
    """The notebook with new outputs, from a fresh kernel that starts in `folder`; raises if a cell does."""
    # without folders it knows no kernel but this Python's own
    kernels = KernelSpecManager(kernel_dirs=[])
    with tempfile.TemporaryDirectory() as sockets:
        manager = AsyncKernelManager(kernel_name=NATIVE_KERNEL_NAME, kernel_spec_manager=kernels)
        manager.connection_file = str(Path(sockets) / "kernel.json")
        manager.transport = "ipc" if os.name == "posix" else "tcp"
        where = {"metadata": {"path": str(folder)}}
        client = NotebookClient(read(path), km=manager, timeout=CELL_SECONDS, resources=where, record_timing=False)
        return client.execute(cleanup_kc=True, **({} if env is None else {"env": env}))


def digest(path: Path, root: Path = ROOT) -> str:
    """Of all that decides what the outputs show."""
    found = hashlib.sha256()
    for cell in read(path).cells:
        found.update(f"{cell.cell_type}\n{cell.source}\0".encode())
    for pattern in READS.get(path.stem, ()):
        for file in sorted(root.glob(pattern)):
            found.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return found.hexdigest()


def stale(root: Path = ROOT) -> list[Path]:
    return [path for path in notebooks(root) if read(path).metadata.get("made_from") != digest(path, root)]


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.notebooks", description="Execute the notebooks in place.")
    parser.add_argument("words", nargs="*", help="only notebooks whose name contains one of these")
    parser.add_argument("--check", action="store_true", help="execute nothing; exit 1 if outputs are stale")
    args = parser.parse_args(argv)
    if args.check:
        found = stale(root)
        for path in found:
            print(f"stale: {path.relative_to(root)}, `make notebooks` executes it")
        return 1 if found else 0
    for path in notebooks(root):
        if not args.words or any(word in path.stem for word in args.words):
            made_from = digest(path, root)
            book = execute(path, path.parent)
            book.metadata["made_from"] = made_from
            nbformat.write(book, path)
            print(f"executed: {path.relative_to(root)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
