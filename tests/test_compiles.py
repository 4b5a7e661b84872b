"""Compiled kernels cannot run without a GPU, but they can be compiled for one."""

import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("compile_for_h200.py")
SETUPS = 3


pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or platform.machine() != "x86_64",
    reason="NOT RUN: Triton carries NVIDIA's assembler for x86-64 Linux",
)


def compiled(what: str) -> int:
    """How many kernels of these calls compile: all of them."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, SCRIPT, what], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    count, *words = done.stdout.splitlines()[-1].split()
    assert words == ["compiled,", "0", "failed"]
    return int(count)


def test_every_estimator_compiles_for_an_h200() -> None:
    assert compiled(str(SETUPS)) > 8 * SETUPS


def test_tiles_that_are_chosen_fit_into_registers() -> None:
    """A thread that keeps its steps in memory is many times slower; of one such ptxas 12.8 made wrong code."""
    assert compiled("chosen") == 8 * 6


def test_vectors_are_read_where_memory_allows_them() -> None:
    """Of windows that Triton thinks odd, and of no tensor that is not aligned."""
    assert compiled("vectors") == 7
