"""The parts of the definitions, and the known faults made of them: right unchanged, the cases' numbers if not."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("hypothesis", reason="NOT RUN: hypothesis is not installed")

from rlscan.testing.anatomy import solve, start_from_last_value
from rlscan.testing.fuzzing import bound, expected
from rlscan.testing.kinds import Kind
from rlscan.testing.options import RESULTS
from rlscan.testing.weights import KINDS, axes_swapped
from rlscan.verify.recipes import flags, rollout, row
from rlscan.verify.strategies import Example, Setup, fill, setups
from rlscan.verify.tolerance import outside
from rlscan.verify.trial import CASES, numbers


@pytest.mark.parametrize("style", [(), (start_from_last_value,)], ids=["last step apart", "V(s_T) carried"])
@pytest.mark.parametrize("estimator", RESULTS)
def test_unchanged_parts_give_the_definition(estimator: str, style: Any) -> None:
    rng = np.random.default_rng(0)
    compared = 0
    for setup in setups(estimator, 40, 0, ("float64",)):
        if setup.features or (style and setup.bootstrap == "next" and estimator != "discounted_returns"):
            continue
        pattern = rng.integers(0, 4, (4, 7)).astype(np.int8)
        example = fill(setup, pattern, rng, exact=False, finite=bool(style))
        right, limits = expected(example), bound(example)
        for (name, want), got in zip(right.items(), solve(example, after=style), strict=True):
            limit = np.where(np.isfinite(limits[name]), limits[name], 0.0)
            assert not outside(got, want, limit).any(), (setup, name)
            compared += want.size
    assert compared >= 200


# what the case calls the wrong answer is another's right one, or is its only one
ELSEWHERE = {
    ("λ lost", "c23_vtrace_lambda"): CASES["c22_vtrace_basic"]["vs"],
    ("other policy advantage", "c23_vtrace_lambda"): CASES["c23_vtrace_lambda"]["pg_adv_mixed"],
    ("other policy advantage", "c24_vtrace_onpolicy_is_gae"): CASES["c24_vtrace_onpolicy_is_gae"]["pg_adv_mixed"],
    ("arrival-indexed storage", "c12_puffer_shift"): CASES["c12_puffer_shift"]["adv"],
}


def example_of(case: str, estimator: str) -> Example:
    """The case's inputs as a rollout of the estimator."""
    x = dict(CASES[case]["inputs"])
    if estimator == "eligibility_traces":
        weights = {"initial": 0.0, "gamma": x["gamma"], "lambda_": x["lam"]}
        return Example(Setup(estimator), {"inputs": row(x["x"]), "ends": flags(x["ends_at"]), **weights})
    if estimator == "retrace":
        arguments = {"rewards": row(x["r"]), "q_values": row(x["q_a"]), "next_q_values": row(x["exp_q_next"])}
        arguments |= {"log_ratios": np.log(row(x["ratio"])), "terminated": flags([0] * len(x["r"]))}
        return Example(Setup(estimator), {**arguments, "gamma": x["gamma"], "lambda_": x["lam"]})
    if case == "c12_puffer_shift":
        x |= {"r": x["rewards_received_on_arrival"], "v": x["values"], "ends_at": x["dones_on_arrival"], "boot": 0.0}
    if "v_0_to_T" in x:
        *x["v"], x["boot"] = x["v_0_to_T"]
    if "term_uint8" in x:
        x["term"] = x["term_uint8"]
    arguments = rollout(x)
    if "next_v" in x:
        arguments = {**arguments, "next_values": row(x["next_v"])}
        del arguments["last_values"]
    if estimator == "vtrace":
        arguments["log_ratios"] = np.log(row(x["rho"]))
    return Example(Setup(estimator), arguments)


CITED = [(kind, case) for kind in KINDS for case in kind.cases]


@pytest.mark.parametrize(("kind", "case"), CITED, ids=lambda x: x if isinstance(x, str) else f"{x.name}, {x.says}")
def test_a_kind_gives_the_wrong_answer_of_its_cases(kind: Kind, case: str) -> None:
    wrong = {k: v for k, v in CASES[case].items() if k.startswith("wrong") and isinstance(v, list)}
    answers = [numbers(v) for v in (ELSEWHERE.get((kind.name, case)), *wrong.values()) if v is not None]
    assert answers
    matched = False
    for estimator in kind.estimators:
        try:
            example = example_of(case, estimator)
        except KeyError:  # the case is not about this estimator
            continue
        results = kind.results(example)
        # decimals of at most six digits, computed in float64
        matched |= any(np.allclose(x[0], answer, rtol=1e-6, atol=1e-6) for x in results for answer in answers)
    assert matched


def test_kinds_can_be_told_apart() -> None:
    """No two entries of different names give the same on rollouts that use everything, for each estimator."""
    for estimator in RESULTS:
        rng = np.random.default_rng(1)
        clips = (("rho_clip", 2.0), ("c_clip", 1.0), ("pg_rho_clip", 0.5), ("advantage", "mixed"))
        options = clips if estimator == "vtrace" else ()
        actions = 3 if estimator == "retrace" else 0
        setup = Setup(estimator, gamma="steps", lambda_="steps", options=options, actions=actions)
        pattern = (rng.integers(0, 4, (12, 12)) * (rng.random((12, 12)) < 0.4)).astype(np.int8)
        example = fill(setup, pattern, rng, exact=False, finite=True)
        entries = [kind for kind in KINDS if estimator in kind.estimators]
        seen: dict[bytes, str] = {np.stack(solve(example)).round(4).tobytes(): "nothing"}
        for kind in entries:
            results = np.stack(kind.results(example)).round(4).tobytes()
            assert seen.setdefault(results, kind.name) == kind.name, (estimator, kind.name, seen[results])
        assert len(seen) >= 4


def test_swapped_axes_swap_back() -> None:
    rng = np.random.default_rng(2)
    example = fill(Setup("gae", gamma="steps"), np.zeros((3, 3), np.int8), rng, exact=False, finite=True)
    swapped = axes_swapped(example)
    assert swapped is not None
    assert not np.array_equal(swapped[0], expected(example)["advantages"])
    assert axes_swapped(fill(Setup("gae"), np.zeros((2, 3), np.int8), rng, exact=True)) is None
