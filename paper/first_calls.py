"""How long the first call of a shape takes, from an empty cache of Triton: `python -m paper.first_calls --out DIR`."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

ESTIMATORS = ("gae", "prefix_sum", "retrace")  # the fewest and the most operands, and an action axis


def main() -> None:
    parser = argparse.ArgumentParser(description="First calls from an empty cache, and second ones.")
    parser.add_argument("--out", type=Path, required=True, help="folder for first_calls.json")
    out = parser.parse_args().out
    if not torch.cuda.is_available():
        raise SystemExit("the first calls of compiled kernels need a GPU; there is none here")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache  # before Triton is imported
        found = measured()
    out.mkdir(parents=True, exist_ok=True)
    (out / "first_calls.json").write_text(json.dumps(found, indent=1) + "\n")


def measured() -> dict[str, Any]:
    import rlscan
    from paper.bench import original, rollout
    from rlscan.verify.environment import environment

    torch.set_grad_enabled(False)
    rows: list[dict[str, Any]] = []
    for name in ESTIMATORS:
        for shape in ((row["num_envs"], row["seq_len"]) for row in original()["table4"]):
            call = partial(getattr(rlscan, name), **rollout(name, False, *shape, device="cuda"))
            before = kernels()
            first, second = seconds(call), seconds(call)
            rows.append({"estimator": name, "num_envs": shape[0], "seq_len": shape[1], "first_call_s": first})
            rows[-1] |= {"second_call_s": second, "new_kernels": kernels() - before}
            print(f"{name} {shape[0]}×{shape[1]}: {first:.2f} s", flush=True)
    what = "an empty cache of Triton; the first call compiles what is not there yet"
    return {**environment("cuda"), "what": what, "rows": rows}


def seconds(call: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def kernels() -> int:
    """How many kernels are compiled."""
    from rlscan.engine.kernel import affine_scan_kernel

    return sum(len(cache[0]) if isinstance(cache, tuple) else len(cache)
               for cache in affine_scan_kernel.device_caches.values())  # fmt: skip


if __name__ == "__main__":
    main()
