"""Proofs of the shipped functions: one function per statement, each with twins that must fail.

Read `affine.py` for the algebra, then an estimator's file; `window.py` is how the engine's specifications become
operands, `symbolic.py` the numbers. `run()` checks everything; so does `python -m rlscan.proofs`.
"""

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
    td_lambda,
    vtrace,
)
from .registry import STATEMENTS, Case, Result, Statement, Twin, TwinResult, check, run, statement

__all__ = [
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
    "run",
    "statement",
    "td_lambda",
    "vtrace",
]
