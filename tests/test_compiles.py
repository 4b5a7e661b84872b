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


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or platform.machine() != "x86_64",
    reason="NOT RUN: Triton carries NVIDIA's assembler for x86-64 Linux",
)
def test_every_estimator_compiles_for_an_h200() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, SCRIPT, str(SETUPS)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    count, *words = done.stdout.splitlines()[-1].split()
    assert words == ["compiled,", "0", "failed"]
    assert int(count) > 8 * SETUPS
