"""One pass over the kernel's variants at odd sizes, to run under compute-sanitizer: `make sanitize`.

Every kind of load and store, both layouts, all dtypes, strides and tiles, time split over programs or not, at sizes
that no tile divides; each result is checked too.
"""

import sys
import warnings

import numpy as np
import torch

from rlscan.verify.compare import compare
from rlscan.verify.environment import environment
from rlscan.verify.strategies import ESTIMATORS, fill, setups

SIZES = ((3, 7), (5, 33), (1, 131))


def main(kinds_of_call: int) -> int:
    warnings.simplefilter("ignore", RuntimeWarning)
    here = environment("cuda")
    print(f"{here['device']['name']}, {here['versions']}, commit {here['commit']}, seed 1", flush=True)
    launches = 0
    for estimator in ESTIMATORS:
        for number, setup in enumerate(setups(estimator, kinds_of_call, seed=1)):
            rows, steps = SIZES[number % len(SIZES)]
            rng = np.random.default_rng(number)
            pattern = rng.integers(0, 4, (1 if setup.layout == "T" else rows, steps)).astype(np.int8)
            compare(fill(setup, pattern, rng, exact=False), exact=False, device="cuda", path="triton")
            launches += 1
        print(f"{estimator}: {kinds_of_call} kinds of call", flush=True)
    torch.cuda.synchronize()
    print(f"{launches} variants launched and right")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 16))
