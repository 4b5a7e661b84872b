"""The cases of `cases.json` through the public functions: right numbers are met, wrong ones would be rejected."""

from dataclasses import dataclass
from typing import Any

import rlscan

from .recipes import RECIPES, check_gae
from .strategies import Setup
from .tolerance import Mismatch
from .trial import CASES, Trial

# these need a mask of valid steps, packed rows or normalisation
WAITING = frozenset(
    {
        *("c29b_logratio_nonfinite_padded", "c44_pad_value_leak", "c45_interior_mask", "c50_left_pad", "c52_packed"),
        *("c53_zero_len_packed", "c56_norm_single", "c58_norm_mask", "c60_norm_constant"),
    }
)
NAMES = tuple(name for name in CASES if name not in WAITING)
SETUPS = (Setup("gae", "float32"), Setup("gae", "float64", layout="TN"))


@dataclass(frozen=True)
class CaseResult:
    """What became of one case: comparisons made, different wrong answers that they rejected, and what failed."""

    name: str
    kind: str
    checks: int
    wrong_rejected: int
    error: str | None


def run_case(name: str, device: str = "cpu", path: str | None = None, api: Any = rlscan) -> CaseResult:
    """One case, in one setup after the other."""
    trial = Trial(name, device, path, api, SETUPS[0])
    error = None
    try:
        for trial.setup in SETUPS:
            RECIPES.get(name, check_gae)(trial, CASES[name]["inputs"])
        if not trial.checks:
            raise Mismatch("nothing was compared")
        untried = {key for key in CASES[name] if key.startswith("wrong")} - trial.rejected
        if untried:
            raise Mismatch(f"{', '.join(sorted(untried))}: not shown to be rejected")
    except Exception as failure:  # a case that dies has failed; the others still run
        error = f"{type(failure).__name__}: {failure}"
    return CaseResult(name, CASES[name]["kind"], trial.checks, len(trial.rejected), error)


def run_cases(device: str = "cpu", path: str | None = None, api: Any = rlscan) -> list[CaseResult]:
    """Every case that does not wait for a feature, through the public functions of the package `api` on this path."""
    return [run_case(name, device, path, api) for name in NAMES]
