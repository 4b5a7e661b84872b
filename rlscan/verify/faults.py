"""Planted faults: the verification has to reject every one, or it proves nothing.

A fault is one replacement in one shipped file. The package is copied under another name, the replacement made, and the
copy fuzzed like the package itself. Kinds are those of `cases.json` and of the engine's own arithmetic.
"""

import importlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from .fuzz import Outcome, fuzz

PACKAGE = Path(__file__).parents[1]
KERNEL, PORTABLE = "kernel", "portable"  # the only path that such a fault is on


@dataclass(frozen=True)
class Fault:
    kind: str
    file: str
    right: str
    wrong: str
    estimator: str
    path: str | None = None


FAULTS = (
    Fault("bootstrap lost at truncation", "boundaries.py", "tl.where(truncated, truncation_value,", "tl.where(truncated, 0.0,", "gae"),
    Fault("bootstrap from the reset state", "boundaries.py", "tl.where(truncated, truncation_value,", "tl.where(truncated, value_next,", "gae"),
    Fault("truncation wins over termination", "boundaries.py", "return tl.where(terminated, 0.0, value)", "return tl.where(truncated, value, tl.where(terminated, 0.0, value))", "gae"),
    Fault("termination bootstraps", "boundaries.py", "return tl.where(terminated, 0.0, value)", "return value", "td_lambda"),
    Fault("carry leaks at truncation", "boundaries.py", "return tl.where(terminated | truncated, 0.0, weight)", "return tl.where(terminated, 0.0, weight)", "gae"),
    Fault("carry leaks at termination", "boundaries.py", "return tl.where(terminated | truncated, 0.0, weight)", "return tl.where(truncated, 0.0, weight)", "discounted_returns"),
    Fault("window bootstrap lost", "boundaries.py", "value = tl.where(is_last, last_value, value_next)", "value = value_next", "gae"),
    Fault("bootstrap doubled", "gae.py", 'Slot("carry", Kind.NO_VALUE)', 'Slot("carry", Kind.ROW, "last_values")', "gae"),
    Fault("sign of the successor", "gae.py", "reward + weighted(gamma, successor) - value", "reward - weighted(gamma, successor) - value", "gae"),
    Fault("lambda lost", "gae.py", "unless_ended(gamma * lambda_,", "unless_ended(gamma,", "gae"),
    Fault("returns are advantages plus rewards", "gae.py", "return x, x + value", "return x, x + reward", "gae"),
    Fault("rho and c swapped", "vtrace.py", "weighted(clipped_ratio(log_ratio, rho_clip), delta)", "weighted(clipped_ratio(log_ratio, c_clip), delta)", "vtrace"),
    Fault("lambda lost in c", "vtrace.py", "c = weighted(lambda_, clipped_ratio(log_ratio, c_clip))", "c = clipped_ratio(log_ratio, c_clip)", "vtrace"),
    Fault("second shift leaks at truncation", "vtrace.py", "tl.where(terminated | truncated | window_ends, successor, inside)", "tl.where(terminated | window_ends, successor, inside)", "vtrace"),
    Fault("second shift past the window", "vtrace.py", "tl.where(terminated | truncated | window_ends, successor, inside)", "tl.where(terminated | truncated, successor, inside)", "vtrace"),
    Fault("policy advantage with rho", "vtrace.py", "clipped_ratio(log_ratio, pg_rho_clip)", "clipped_ratio(log_ratio, rho_clip)", "vtrace"),
    Fault("mixture turned round", "vtrace.py", "weighted(lambda_, value_after + x_next) + weighted(1 - lambda_, successor)", "weighted(1 - lambda_, value_after + x_next) + weighted(lambda_, successor)", "vtrace"),
    Fault("advantage towards V rather than v", "vtrace.py", "inside = value_after + x_next", "inside = value_after", "vtrace"),
    Fault("ratio of the wrong step", "retrace.py", 'Slot("log_ratio_next", Kind.NEXT, "log_ratios")', 'Slot("log_ratio_next", Kind.VALUE, "log_ratios")', "retrace"),
    Fault("ratio multiplies the error", "retrace.py", "return reward + weighted(gamma, successor) - q,", "return weighted(c_next, reward + weighted(gamma, successor) - q),", "retrace"),
    Fault("terminated successor read", "retrace.py", "successor = tl.where(terminated, 0.0, expected_q_next)", "successor = expected_q_next", "retrace"),
    Fault("importance ratio clipped", "retrace.py", '"importance": (_RATIO, False)', '"importance": (_RATIO, True)', "retrace"),
    Fault("lambda of the wrong step", "retrace.py", 'Slot("lambda_next", Kind.NEXT, "lambda_")', 'Slot("lambda_next", Kind.VALUE, "lambda_")', "retrace"),
    Fault("policy of the wrong state", "engine/kernel.py", "policy_row + t * policy_stride", "policy_row + tl.maximum(t - 1, 0) * policy_stride", "retrace", KERNEL),
    Fault("policy of the wrong state", "engine/portable.py", "q, policy = (x.to(dtype) for x in view)", "q, policy = view[0].to(dtype), view[1].to(dtype).roll(1, -2)", "retrace", PORTABLE),
    Fault("ended step mixes", "td_lambda.py", "mixed = tl.where(terminated | truncated | window_ends,", "mixed = tl.where(terminated | window_ends,", "td_lambda"),
    Fault("window value mixed", "td_lambda.py", "mixed = tl.where(terminated | truncated | window_ends,", "mixed = tl.where(terminated | truncated,", "td_lambda"),
    Fault("lambda and its complement swapped", "td_lambda.py", "weighted(1 - lambda_, successor)", "weighted(lambda_, successor)", "td_lambda"),
    Fault("window value not carried", "boundaries.py", 'return Slot("carry", Kind.ROW, "last_values")', 'return Slot("carry", Kind.NO_VALUE)', "discounted_returns"),
    Fault("bootstrap doubled", "discounted_returns.py", "tl.where(terminated | truncated, weighted(gamma, successor), 0.0)", "tl.where(terminated | truncated | is_last, weighted(gamma, successor), 0.0)", "discounted_returns"),
    Fault("bootstrap not discounted", "discounted_returns.py", "weighted(gamma, successor)", "successor", "discounted_returns"),
    Fault("flag shifted", "eligibility_traces.py", "Kind.PREVIOUS_FLAG", "Kind.FLAG", "eligibility_traces"),
    Fault("decay without gamma", "eligibility_traces.py", "tl.where(ended_before, 0.0, gamma * lambda_)", "tl.where(ended_before, 0.0, lambda_)", "eligibility_traces"),
    Fault("flag conventions swapped", "prefix_sum.py", '"ends_at": _spec(Kind.PREVIOUS_FLAG), "starts_at": _spec(Kind.FLAG)', '"ends_at": _spec(Kind.FLAG), "starts_at": _spec(Kind.PREVIOUS_FLAG)', "prefix_sum"),
    Fault("initial value lost", "prefix_sum.py", 'Slot("carry", Kind.ROW, "initial")', 'Slot("carry", Kind.NO_VALUE)', "prefix_sum"),
    Fault("direction ignored", "linear_scan.py", "reverse=reverse,", "reverse=False,", "linear_scan"),
    Fault("combine turned round", "affine.py", "return apply(alpha_b, beta_b, alpha_a)", "return apply(alpha_a, beta_a, alpha_b)", "gae"),
    Fault("multiplies where it should select", "affine.py", "return tl.where(weight == 0, 0.0, weight * value)", "return weight * value", "retrace"),
    Fault("a reset multiplies by zero", "affine.py", "return tl.where(beta == 0, alpha, alpha + beta * x)", "return alpha + beta * x", "gae"),
    Fault("clip turned round", "ratios.py", "log_ratio > tl.log(clip)", "log_ratio < tl.log(clip)", "vtrace"),
    Fault("carry from the wrong end of the tile", "engine/kernel.py", "tl.where(is_last_run, run_x, 0.0)", "tl.where(is_last_run, 0.0, run_x)", "gae", KERNEL),
    Fault("padding is no identity", "engine/kernel.py", "beta = tl.where(t < T, beta, 1.0)", "beta = tl.where(t < T, beta, 0.0)", "discounted_returns", KERNEL),
    Fault("second shift at the tile's edge", "engine/kernel.py", "return tl.where(run == 0, edge, neighbour)", "return neighbour", "vtrace", KERNEL),
    Fault("positions of a run mixed up", "engine/kernel.py", "positions = zeros + ones", "positions = ones + zeros", "prefix_sum", KERNEL),
    Fault("next step of the same run", "engine/kernel.py", "moved = moved + (positions[p + 1],)", "moved = moved + (positions[p],)", "gae", KERNEL),
    Fault("window end one step early", "engine/kernel.py", "start + run_step + p == T - 1", "start + run_step + p == T - 2", "gae", KERNEL),
    Fault("carry of a block from its first step", "engine/portable.py", "carry = step(alpha[block, -1], beta[block, -1], carry)", "carry = step(alpha[block, 0], beta[block, 0], carry)", "gae", PORTABLE),
    Fault("shift the wrong way", "engine/portable.py", "[x[..., 1:], filler]", "[filler, x[..., :-1]]", "gae", PORTABLE),
)  # fmt: skip


@contextmanager
def changed_copy(file: str, source: str, name: str, *, whole: bool = False) -> Iterator[Path]:
    """A folder to import from, first on the path, with a copy of the package under this name in which `file` reads
    `source`. A `whole` copy has the verification, the reference and the proofs with it.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / name
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", *(() if whole else ("verify",))))
        for part in ("reference", "proofs") if whole else ():
            (found,) = importlib.import_module(f"{PACKAGE.name}.{part}").__path__
            shutil.copytree(found, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / file).write_text(source)
        sys.path.insert(0, folder)
        try:
            forget(name)
            yield copy
        finally:
            sys.path.remove(folder)
            forget(name)


def forget(package: str) -> None:
    """The next import of the package looks for it anew."""
    importlib.invalidate_caches()
    for module in [m for m in sys.modules if m.split(".")[0] == package]:
        del sys.modules[module]


@contextmanager
def planted(fault: Fault) -> Iterator[ModuleType]:
    """A copy of the package with the fault in it, imported under another name."""
    source = (PACKAGE / fault.file).read_text()
    if fault.right not in source:
        raise LookupError(f"the fault {fault.kind!r} does not apply: {fault.file} has no {fault.right!r}")
    name = "rlscan_with_a_fault"
    with changed_copy(fault.file, source.replace(fault.right, fault.wrong), name):
        yield importlib.import_module(name)


def find(fault: Fault, *, count: int, seed: int, device: str = "cpu", path: str | None = None) -> Outcome:
    """Fuzzes the faulty copy; `cases` of the outcome says how many examples it took, `error` what they showed."""
    with planted(fault) as api:
        return fuzz(
            fault.estimator, exact=True, count=count, seed=seed, device=device, path=path, api=api, shrink=False
        )
