"""What a result was made with: versions, device and commit, as every certificate and table records them."""

import importlib.metadata
import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
PACKAGES = ("rlscan", "torch", "triton", "numpy", "hypothesis", "sympy")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    if found["rlscan"] == "not installed":  # run from a checkout
        from .._version import __version__

        found["rlscan"] = __version__
    found["cuda"] = str(torch.version.cuda or torch.version.hip or "none")
    return found


def interpreter_trouble() -> str | None:
    """One line if Triton's interpreter can't run the kernels with the NumPy that is installed beside it."""
    found = versions()
    triton, numpy = (re.match(r"(\d+)\.(\d+)", found[package]) for package in ("triton", "numpy"))
    if triton is None or numpy is None:  # not installed: nothing to fail
        return None
    if (int(triton[1]), int(triton[2])) >= (3, 7) or (int(numpy[1]), int(numpy[2])) < (2, 4):
        return None
    return (
        f"the interpreter of Triton {found['triton']} fails on NumPy {found['numpy']}: "
        "Triton before 3.7 needs NumPy before 2.4 (pip install 'numpy<2.4')"
    )


def device_description(device: str) -> dict[str, Any]:
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        return {
            "type": "cuda",
            "name": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "memory_gib": round(properties.total_memory / 2**30, 1),
        }
    return {"type": device, "name": platform.machine(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}


def commit() -> tuple[str, bool]:
    """The commit, and whether more than results differed from it;
    RLSCAN_COMMIT (hash or hash-dirty) stands in for git.
    """
    named = os.environ.get("RLSCAN_COMMIT")
    if named:
        return named.removesuffix("-dirty"), named.endswith("-dirty")
    try:
        git = ["git", "-C", str(ROOT)]
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        others = ["--", ".", ":!paper/results", ":!paper/rendered"]
        status = subprocess.run(
            [*git, "status", "--porcelain", *others], capture_output=True, text=True, check=True
        ).stdout
        return head, bool(status.strip())
    except (OSError, subprocess.CalledProcessError):
        return "unknown", True


def environment(device: str) -> dict[str, Any]:
    head, dirty = commit()
    return {
        "device": device_description(device),
        "versions": versions(),
        "commit": head,
        "dirty": dirty,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
