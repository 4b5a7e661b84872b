"""rlscan.testing accepts what is right under every convention, rejects what is not, and names known faults."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("hypothesis", reason="NOT RUN: hypothesis is not installed")

import rlscan
from paper import plain_estimators
from paper.faulty_versions import FAULTY, Faulty
from rlscan import reference, testing
from rlscan.testing import Counterexample, check_gae, check_prefix_sum, check_retrace, check_vtrace
from rlscan.testing.diagnosis import HARMLESS
from rlscan.testing.options import RESULTS, Misuse
from rlscan.testing.weights import KINDS

NAMES = tuple(RESULTS)
CHECKS = {name: getattr(testing, f"check_{name}") for name in NAMES}


def rejected(estimator: str, function: Any, **convention: Any) -> Counterexample:
    with pytest.raises(Counterexample) as found:
        CHECKS[estimator](function, **convention)
    return found.value


@pytest.fixture(autouse=True)
def portable() -> Iterator[None]:
    """Estimators of rlscan's own are right on every path (tests/test_laws.py); here the quick one stands for them."""
    with rlscan.engine.forced("portable"):
        yield


# What is right


@pytest.mark.parametrize("estimator", NAMES)
def test_plain_estimators_are_right(estimator: str) -> None:
    CHECKS[estimator](getattr(plain_estimators, estimator))


@pytest.mark.parametrize("estimator", NAMES)
def test_the_reference_is_right_whatever_unused_slots_hold(estimator: str) -> None:
    CHECKS[estimator](getattr(reference, estimator), unused="nan", exact=True, dtype="float64", examples=60)


@pytest.mark.parametrize("estimator", NAMES)
@pytest.mark.parametrize("layout", ["NT", "TN", "T"])
def test_rlscan_is_right_in_every_layout(estimator: str, layout: str) -> None:
    def function(**rollout: Any) -> Any:
        return getattr(rlscan, estimator)(**rollout, time_dim=0 if layout == "TN" else -1)

    CHECKS[estimator](function, framework="torch", layout=layout, unused="nan", exact=True, examples=40)


@pytest.mark.parametrize(
    "convention",
    [
        *({"truncation": truncation} for truncation in ("next_values", "in_rewards", "none")),
        *({"dtype": dtype} for dtype in ("float64", "float16", "bfloat16")),
        {"gamma": "steps", "lambda_": "steps"},
        {"flag_dtype": "uint8"},
        {"results": ("returns", "advantages")},
        {"results": "returns"},
    ],
    ids=str,
)
def test_rlscan_is_right_under_other_conventions(convention: dict[str, Any]) -> None:
    def gae(**rollout: Any) -> Any:
        found = rlscan.gae(**rollout)
        return [getattr(found, name) for name in np.atleast_1d(convention.get("results", ("advantages", "returns")))]

    check_gae(gae, framework="torch", examples=60, **convention)


def test_what_a_function_does_not_take_is_not_passed() -> None:
    def gae(rewards: Any, values: Any, terminated: Any, gamma: Any) -> Any:
        return reference.gae(rewards, values, terminated, last_values=np.nan, gamma=gamma, lambda_=1.0)

    check_gae(gae, truncation="none", last_values=False, lambda_="one", examples=60)
    check_prefix_sum(lambda inputs, ends: reference.prefix_sum(inputs, ends), initial=False, examples=60)


def test_flags_on_first_steps() -> None:
    def gae(starts: Any, last_done: Any, **rollout: Any) -> Any:
        return rlscan.gae(terminated=rlscan.boundaries.ends_from_starts(starts, last_done), **rollout)

    for truncation in ("none", "in_rewards"):
        check_gae(gae, framework="torch", flags="starts_at", truncation=truncation, examples=60)

    def prefix_sum(inputs: Any, starts: Any, initial: Any) -> Any:
        return reference.prefix_sum(inputs, starts, initial=initial, boundary="starts_at")

    check_prefix_sum(prefix_sum, flags="starts_at", examples=60)


def test_settings_are_the_functions_own() -> None:
    def vtrace(**rollout: Any) -> Any:
        return reference.vtrace(**rollout, rho_clip=2.0, c_clip=None, advantage="mixed")

    check_vtrace(vtrace, rho_clip=2.0, c_clip=None, advantage="mixed", examples=60)
    assert rejected("vtrace", vtrace, rho_clip=2.0, c_clip=None).kinds == ("other policy advantage",)
    for trace in ("importance", "tree_backup", "q_lambda"):
        check_retrace(lambda trace=trace, **a: reference.retrace(**a, trace=trace), trace=trace, actions=0, examples=40)


# What is not


@pytest.mark.parametrize("version", FAULTY, ids=lambda version: f"{version.estimator}, {version.kind}")
def test_a_faulty_version_is_rejected_and_named(version: Faulty) -> None:
    found = rejected(version.estimator, version.function(), **version.convention)
    assert found.kinds[0] == version.kind
    assert not found.together
    assert version.kind in str(found)


def test_every_kind_and_every_estimator_has_a_faulty_version() -> None:
    assert {version.estimator for version in FAULTY} == set(NAMES)
    known = {kind.name for kind in KINDS} | {name for name, _, _ in HARMLESS} | {"axes swapped"}
    assert {version.kind for version in FAULTY} == known


def leaks(**rollout: Any) -> Any:
    ends, going_on = "going_on = 1.0 - (term | trunc)", "going_on = 1.0 - term"
    return Faulty("gae", "carry leaked at truncation", ends, going_on).function()(**rollout)


def test_a_counterexample_is_small_and_says_where_and_what() -> None:
    found = rejected("gae", leaks)
    assert found.arguments["rewards"].shape == (1, 2)
    assert (found.estimator, found.result, found.row, found.step) == ("gae", "advantages", 0, 0)
    assert found.got != found.expected
    assert "Step 0 is where the episode is cut (truncated)" in str(found)
    assert f"advantages[row 0, step 0]: expected {found.expected:g}, got {found.got:g}" in str(found)
    assert "carry leaked at truncation" in str(found)
    assert str(rejected("gae", leaks)) == str(found), "the same seed finds the same"


def test_the_first_wrong_step_of_a_forward_scan_is_named() -> None:
    found = rejected("eligibility_traces", lambda inputs, initial, **rest: reference.eligibility_traces(inputs, **rest))
    assert found.kinds == ("initial value lost",)
    assert found.step == 0


def test_two_faults_at_once() -> None:
    def gae(truncated: Any, terminated: Any, last_values: Any, **rollout: Any) -> Any:
        nothing = {"truncated": np.zeros_like(truncated), "last_values": 0.0}
        return reference.gae(terminated=terminated | truncated, **rollout, **nothing)

    found = rejected("gae", gae)
    assert found.together
    assert set(found.kinds) == {"bootstrap lost at truncation", "bootstrap lost at the window's end"}


def test_a_fault_of_no_known_kind_is_said_to_be_none() -> None:
    found = rejected("gae", lambda **a: reference.gae(**{**a, "gamma": 0.9 * a["gamma"]}))
    assert found.kinds == ()
    assert "none of " in str(found)


def broken(**_: Any) -> Any:
    raise ZeroDivisionError("for a test")


def writes(rewards: Any, **rest: Any) -> Any:
    found = reference.gae(rewards, **rest)
    rewards[:] = 5.0
    return found


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (broken, "raised ZeroDivisionError: for a test"),
        (writes, "changed its argument rewards"),
        (lambda **a: tuple(x.T for x in reference.gae(**a)), "the axes are swapped"),
        (lambda rewards, **_: (rewards[:, None] - rewards,) * 2, "were broadcast against each other"),
        (lambda rewards, **_: (np.zeros(rewards.shape, int),) * 2, "results are floating point"),
        (lambda **a: tuple(x + 1e-4 for x in reference.gae(**a)), "expected"),
    ],
)
def test_what_else_can_go_wrong(function: Any, words: str) -> None:
    assert words in str(rejected("gae", function))


@pytest.mark.parametrize(
    ("error", "words", "convention"),
    [
        (TypeError, "has no option 'lambda'", {"lambda": "one"}),
        (TypeError, "has no option 'initial'", {"initial": False}),
        (ValueError, "layout must be one of 'NT', 'TN', 'T'", {"layout": "NTF"}),
        (ValueError, "examples must be a whole number", {"examples": 0}),
        (ValueError, "results must name", {"results": "targets"}),
        (ValueError, "cannot tell a truncation from a termination", {"flags": "starts_at"}),
        (ValueError, "NumPy has no bfloat16", {"dtype": "bfloat16"}),
        (ValueError, "holds V", {"truncation": "next_values", "last_values": False}),
        (Misuse, "cannot be called as check_gae calls it", {"truncation": "next_values"}),
        (Misuse, "results=", {"results": "returns"}),
    ],
)
def test_misuse_is_explained(error: type[Exception], words: str, convention: dict[str, Any]) -> None:
    with pytest.raises(error, match=words):
        check_gae(plain_estimators.gae, **convention)


def test_misuse_of_other_checks_is_explained() -> None:
    with pytest.raises(ValueError, match="rho_clip must be a number"):
        check_vtrace(plain_estimators.vtrace, rho_clip=-1.0)
    with pytest.raises(ValueError, match="actions must be"):
        check_retrace(plain_estimators.retrace, actions=-1)
    with pytest.raises(ValueError, match="retrace reads next_q_values"):
        check_retrace(plain_estimators.retrace, truncation="in_rewards")
    with pytest.raises(TypeError, match="needs a function"):
        check_gae(torch.zeros(1))  # type: ignore[arg-type]  # which is the mistake


# In a project of one's own

TWO_LINES = """
from rlscan.testing import check_gae
def test_gae(): check_gae(my_gae)
def my_gae(rewards, values, terminated, truncated, last_values, truncation_values, gamma, lambda_):
    import rlscan.reference
    return rlscan.reference.gae(
        rewards, values, terminated | truncated, last_values=last_values, gamma=gamma, lambda_=lambda_
    )
"""


def test_two_lines_in_a_users_tests(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TWO_LINES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 1
    assert "my_gae is not gae as rlscan defines it." in run.stdout
    assert "bootstrap lost at truncation: truncation is treated as termination (as in c05_trunc_as_term)" in run.stdout


def test_without_hypothesis_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import rlscan.testing"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'rlscan[verify]'" in run.stderr
