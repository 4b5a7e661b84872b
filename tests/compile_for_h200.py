"""Compiles the kernel of many kinds of call for an H200, down to machine code, on a machine without a GPU.

Run in a process of its own, without TRITON_INTERPRET: `python tests/compile_for_h200.py SETUPS` compiles so many random
calls of each estimator, `python tests/compile_for_h200.py chosen` tiles that the engine chooses, each kind once for
every estimator, none of which may spill more than a few bytes, `python tests/compile_for_h200.py vectors` windows that
have to be read in as few loads as even ones, and tensors that no vector may be read of. Prints one line a failure and
a count.
"""

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

import rlscan
from paper.bench import Inputs, rollout
from paper.compiling import Recorder, recording
from paper.sass import Instruction, read
from rlscan.engine import forced, launch
from rlscan.verify.compare import tensor
from rlscan.verify.fuzz import every_option
from rlscan.verify.strategies import ESTIMATORS, Setup, fill, setups

SIZES = ((3, 9), (16, 64), (2, 1))


# a tile of each kind: a program for all of time or for a part of it, in small groups or in others, contiguous or not
WINDOWS = (
    *(("NT", 8, 16384, torch.float32), ("TN", 4096, 128, torch.float32), ("TN", 4096, 128, torch.float64)),
    *(("TN", 3, 100_003, torch.float32), ("TN", 3, 100_003, torch.float64), ("TN", 40, 4096, torch.bfloat16)),
)
A_LOAD_OR_TWO = 2  # of edges, which an even window has elsewhere
WIDE = re.compile(r"\.(64|128)\b")  # bits of a load
A_FEW = 16  # bytes a thread: what a kernel far below its registers' limit may put in memory


def compile_call(setup: Setup, rows: int, steps: int, recorder: Recorder) -> None:
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 4, (1 if setup.layout == "T" else rows, steps)).astype(np.int8)
    example = fill(setup, pattern, rng, exact=True)
    arguments = {name: tensor(setup, name, value, "cpu") for name, value in example.arguments.items()}
    with forced("triton", setup.tile):
        function = getattr(rlscan, setup.estimator)
        function(**arguments, **dict(setup.options), time_dim=0 if setup.layout == "TN" else -1)
    recorder.specialised().compile()


def machine_code(estimator: str, inputs: Inputs, recorder: Recorder) -> tuple[dict[str, int], list[Instruction]]:
    """Resources and instructions of the kernel that the engine chooses."""
    with forced("triton"):
        getattr(rlscan, estimator)(**inputs)
    return read(recorder.specialised().compile().asm["cubin"])


def compile_chosen(
    estimator: str, actions: int, layout: str, rows: int, steps: int, dtype: torch.dtype, recorder: Recorder
) -> None:
    inputs = rollout(estimator, False, rows, steps, dtype=dtype, actions=actions, layout=layout)
    used, _ = machine_code(estimator, inputs, recorder)
    if used["spilled_bytes"] > A_FEW:
        raise AssertionError(
            f"{used['spilled_bytes']} bytes a thread are spilled, beside {used['registers']} registers"
        )


def compile_in_vectors(estimator: str, recorder: Recorder) -> None:
    """Rows of 1000 steps begin at multiples of 8, which Triton alone would not know; one number later, nowhere."""

    def loads(inputs: Inputs) -> list[str]:
        return [one.opcode for one in machine_code(estimator, inputs, recorder)[1] if one.opcode.startswith("LDG")]

    even, inputs = rollout(estimator, False, 4096, 1024), rollout(estimator, False, 4096, 1000)
    late = {
        name: x.new_empty(x.numel() + 1)[1:].view(x.shape) if torch.is_tensor(x) and x.ndim > 1 else x
        for name, x in inputs.items()
    }
    of_even, of_odd, of_late = map(loads, (even, inputs, late))
    if len(of_odd) > len(of_even) + A_LOAD_OR_TWO:
        raise AssertionError(f"{len(of_odd)} loads of 1000 steps, and of 1024 {len(of_even)}")
    if wide := [opcode for opcode in of_late if WIDE.search(opcode)]:
        raise AssertionError(f"vectors are read of tensors that are not aligned: {wide}")
    if 3 * len(of_odd) > len(of_late):
        raise AssertionError(f"{len(of_odd)} loads, and where no vector can be read {len(of_late)}")


def random_calls(count: int, recorder: Recorder) -> Iterator[partial[None]]:
    for estimator in ESTIMATORS:
        for number, setup in enumerate(setups(estimator, count, seed=0)):
            yield partial(compile_call, setup, *SIZES[number % len(SIZES)], recorder)
        # what an exhaustive run launches: tiles of many rows and two steps, which Triton once mixed up
        yield from (partial(compile_call, setup, 16, 3, recorder) for setup in every_option(estimator))


def chosen_tiles(recorder: Recorder) -> Iterator[partial[None]]:
    for estimator in ESTIMATORS[:-1]:
        for actions in (4, 18) if estimator == "retrace" else (1,):
            yield from (partial(compile_chosen, estimator, actions, *window, recorder) for window in WINDOWS)


def jobs(what: str, recorder: Recorder) -> Iterator[partial[None]]:
    if what == "chosen":
        return chosen_tiles(recorder)
    if what == "vectors":
        return (partial(compile_in_vectors, estimator, recorder) for estimator in ESTIMATORS[:-1])
    return random_calls(int(what), recorder)


def main(what: str) -> int:
    compiled = failed = 0
    with recording(launch) as recorder:
        for job in jobs(what, recorder):
            try:
                job()
                compiled += 1
            except Exception as error:
                failed += 1
                print(f"{job.args[:-1]}: {type(error).__name__}: {error}")
    print(f"{compiled} compiled, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
