"""The known fault cases, on every path."""

import re

import pytest

from rlscan.verify.cases import NAMES, WAITING, run_case, run_cases
from rlscan.verify.faults import FAULTS, Fault, planted
from rlscan.verify.recipes import RECIPES
from rlscan.verify.trial import CASES


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, path: tuple[str, str]) -> None:
    """Every right number is met; every wrong one that the case lists is rejected by the same comparison."""
    way, device = path
    result = run_case(name, device, way)
    assert result.error is None, result
    assert result.checks > 0
    assert result.wrong_rejected == sum(key.startswith("wrong") for key in CASES[name])


def test_only_cases_about_masks_packing_and_normalisation_wait() -> None:
    numbers = {int(match[1]) for name in WAITING if (match := re.match(r"c(\d+)", name))}
    assert numbers == {29, 44, 45, 50, 52, 53, 56, 58, 60}
    assert set(NAMES) | WAITING == set(CASES)
    assert set(RECIPES) <= set(NAMES)


@pytest.mark.parametrize(
    ("kind", "file", "cases"),
    [
        ("bootstrap lost at truncation", "boundaries.py", {"c05_trunc_as_term", "c21_vtrace_trunc_leak", "c41_T1"}),
        ("bootstrap doubled", "gae.py", {"c09_double_boot", "c10_missing_boot", "c78_window_chunks"}),
        ("second shift leaks at truncation", "vtrace.py", {"c21_vtrace_trunc_leak"}),
        ("ratio of the wrong step", "retrace.py", {"c31_retrace_index"}),
        ("flag shifted", "eligibility_traces.py", {"c74_elig_trace"}),
    ],
)
def test_a_planted_fault_fails_its_cases(kind: str, file: str, cases: set[str]) -> None:
    fault = next(f for f in FAULTS if (f.kind, f.file) == (kind, file))
    assert cases <= failed_cases(fault)


@pytest.mark.parametrize(
    ("file", "right", "wrong", "cases"),
    [
        ("boundaries.py", "tl.where(terminated, 0.0, value)", "(1.0 - terminated * 1.0) * value", {"c54_nan_next"}),
        ("affine.py", "tl.where(beta == 0, alpha, alpha + beta * x)", "alpha + beta * x", {"c55_nan_other_episode"}),
    ],
)
def test_a_product_with_zero_fails_its_cases(file: str, right: str, wrong: str, cases: set[str]) -> None:
    assert cases <= failed_cases(Fault("multiplies", file, right, wrong, "gae"))


def failed_cases(fault: Fault) -> set[str]:
    with planted(fault) as faulty:
        return {result.name for result in run_cases(path="portable", api=faulty) if result.error}
