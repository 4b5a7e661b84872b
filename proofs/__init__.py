"""Proofs of the shipped functions: one function per statement, each with twins that must fail.

Read `affine.py` for the algebra, then an estimator's file; `window.py` is how the engine's specifications become
operands, `symbolic.py` the numbers. `kernel.py` is about the kernel's own source. `run()` checks everything but what
takes minutes; so does `python -m rlscan.proofs`. `run(statements=DEEP)` checks that.
"""

from rlscan.language import HAS_TRITON

from . import (
    affine,
    boundaries,
    discounted_returns,
    eligibility_traces,
    gae,
    identities,
    linear_scan,
    prefix_sum,
    ratios,
    retrace,
    rounding,
    td_lambda,
    vtrace,
)
from .registry import DEEP, STATEMENTS, Case, Result, Statement, Twin, TwinResult, check, run, statement

if HAS_TRITON:  # without it there is no kernel to prove
    from . import induction, kernel  # noqa: F401  # their statements are in the lists

__all__ = [
    "DEEP",
    "STATEMENTS",
    "Case",
    "Result",
    "Statement",
    "Twin",
    "TwinResult",
    "affine",
    "boundaries",
    "check",
    "discounted_returns",
    "eligibility_traces",
    "gae",
    "identities",
    "linear_scan",
    "prefix_sum",
    "ratios",
    "retrace",
    "rounding",
    "run",
    "statement",
    "td_lambda",
    "vtrace",
]
