"""Compiles the kernel of many kinds of call for an H200, down to machine code, on a machine without a GPU.

Run in a process of its own, without TRITON_INTERPRET: `python tests/compile_for_h200.py SETUPS`. Prints one line a
failure and a count.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

import rlscan
from paper.compiling import Recorder, recording
from rlscan.engine import forced, launch
from rlscan.verify.compare import tensor
from rlscan.verify.fuzz import every_option
from rlscan.verify.strategies import ESTIMATORS, Setup, fill, setups

SIZES = ((3, 9), (16, 64), (2, 1))


def compile_call(setup: Setup, rows: int, steps: int, recorder: Recorder) -> None:
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 4, (1 if setup.layout == "T" else rows, steps)).astype(np.int8)
    example = fill(setup, pattern, rng, exact=True)
    arguments = {name: tensor(setup, name, value, "cpu") for name, value in example.arguments.items()}
    with forced("triton", setup.tile):
        function = getattr(rlscan, setup.estimator)
        function(**arguments, **dict(setup.options), time_dim=0 if setup.layout == "TN" else -1)
    recorder.specialised().compile()


def main(count: int) -> int:
    compiled = failed = 0
    with recording(launch) as recorder:
        for estimator in ESTIMATORS:
            chosen = [
                (setup, *SIZES[number % len(SIZES)]) for number, setup in enumerate(setups(estimator, count, seed=0))
            ]
            # what an exhaustive run launches: tiles of many rows and two steps, which Triton once mixed up
            chosen += [(setup, 16, 3) for setup in every_option(estimator)]
            for setup, rows, steps in chosen:
                try:
                    compile_call(setup, rows, steps, recorder)
                    compiled += 1
                except Exception as error:
                    failed += 1
                    print(f"{rows} x {steps}, {setup}: {type(error).__name__}: {error}")
    print(f"{compiled} compiled, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
