"""The verification's jobs: parts of a claim about compiled kernels are together the whole of it, and one claim."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("hypothesis", reason="NOT RUN: hypothesis is not installed")

from rlscan.verify import fuzz as fuzzing
from rlscan.verify import run
from rlscan.verify.fuzz import Outcome, together
from rlscan.verify.run import FUZZED, GPU_PARTS, GPU_SETUPS, Job, jobs, slowest_first
from rlscan.verify.strategies import ESTIMATORS, setups

COUNT, SEED = 120, 3
PASSED = Outcome(cases=10, share=0.25, seconds=2.0)


def parts_of(kind: str, estimator: str) -> list[Job]:
    planned = jobs("cuda", COUNT, SEED)
    return [job for job in planned if (job.kind, job.estimator, job.path) == (kind, estimator, "triton")]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", ["exact", "bounded"])
def test_parts_are_together_the_whole(monkeypatch: pytest.MonkeyPatch, kind: str, estimator: str) -> None:
    tried: list[Any] = []

    def compare(example: Any, *, exact: bool, path: str, **_: Any) -> float:
        assert (exact, path) == (kind == "exact", "triton")
        tried.append(example)
        return 0.0

    monkeypatch.setattr(fuzzing, "compare", compare)
    parts = parts_of(kind, estimator)
    assert [(job.part, job.parts) for job in parts] == [(part, GPU_PARTS) for part in range(GPU_PARTS)]
    kinds_of_call, drawn, cases = [], [], 0
    for job in parts:
        tried.clear()
        outcome = run.work(job)
        assert isinstance(outcome, Outcome)
        assert outcome.error is None
        assert outcome.cases == len(tried)
        kinds_of_call += list({example.setup for example in tried})
        drawn.append([example.steps for example in tried])
        cases += outcome.cases
    assert Counter(kinds_of_call) == Counter(setups(estimator, GPU_SETUPS, SEED))  # each in one part
    assert cases >= COUNT
    assert all(one != other for k, one in enumerate(drawn) for other in drawn[:k])


def test_only_compiled_kernels_are_cut() -> None:
    for device in ("cpu", "cuda"):
        planned = list(jobs(device, COUNT, SEED))
        assert len(set(planned)) == len(planned)
        cut = {(job.kind, job.path) for job in planned if job.parts > 1}
        assert cut == (set() if device == "cpu" else {("exact", "triton"), ("bounded", "triton")})


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_order_loses_no_job(device: str) -> None:
    planned = list(jobs(device, COUNT, SEED))
    order = slowest_first(planned)
    assert Counter(order) == Counter(planned)
    position = {job: k for k, job in enumerate(order)}
    for kind, estimator in {(job.kind, job.estimator) for job in planned if job.path == "triton"}:
        if kind == "bounded":  # its kernels are then compiled
            first, then = parts_of("exact", estimator), parts_of("bounded", estimator)
            assert max(position[job] for job in first) < min(position[job] for job in then)


def test_outcomes_add_up() -> None:
    whole = together([PASSED, Outcome(cases=5, share=0.5, seconds=1.0)])
    assert whole == Outcome(cases=15, share=0.5, error=None, seconds=3.0)
    failures = [PASSED, Outcome(cases=1, error="the first"), Outcome(cases=1, error="the second")]
    assert together(failures).error == "the first"
    assert together([PASSED, Outcome()]).error == "nothing was tried"


def verified(monkeypatch: pytest.MonkeyPatch, work: Any) -> tuple[dict[str, Any], list[str]]:
    """The certificate of a run whose jobs are this function, and its progress."""

    def whole(job: Job) -> Any:
        return work(job) if job.kind in FUZZED else []

    lines: list[str] = []
    monkeypatch.setattr(run, "work", whole)
    monkeypatch.setattr(run, "prove", lambda progress, deep: [])
    monkeypatch.setattr(run, "environment", lambda device: {})
    monkeypatch.setattr(run.concurrent.futures, "ProcessPoolExecutor", lambda count, _: ThreadPoolExecutor(count))
    options = {"device": "cuda", "examples": COUNT, "seed": SEED, "processes": 2}
    return run.verify(progress=lines.append, **options), lines


def test_parts_become_one_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, lines = verified(monkeypatch, lambda job: PASSED)
    claims = {(claim["kind"], claim["claim"]): claim for claim in certificate["claims"]}
    names = {
        (kind, f"{estimator} is its definition, {path}")
        for kind in FUZZED
        for estimator in ESTIMATORS
        for path in ("portable", "triton")
    }
    assert len(claims) == len(certificate["claims"])
    assert set(claims) == names
    assert certificate["passed"]
    claim = claims["bounded", "gae is its definition, triton"]
    assert (claim["cases"], claim["verdict"], claim["seconds"]) == (10 * GPU_PARTS, "PASS", 2.0 * GPU_PARTS)
    assert claim["detail"] == "at most 0.250 of the a-priori bound"
    assert claims["exact", "gae is its definition, portable"]["cases"] == 10
    assert len(lines) == len(list(jobs("cuda", COUNT, SEED)))
    assert sum(f"exact gae triton, part 2 of {GPU_PARTS}" in line for line in lines) == 1


@pytest.mark.parametrize("how", ["fails", "dies"])
@pytest.mark.parametrize("part", range(GPU_PARTS))
def test_a_part_that_fails_fails_its_claim(monkeypatch: pytest.MonkeyPatch, part: int, how: str) -> None:
    def work(job: Job) -> Outcome:
        if job == parts_of("exact", "vtrace")[part]:
            if how == "dies":
                raise RuntimeError("wrong here")
            return Outcome(cases=1, error="wrong here")
        return PASSED

    certificate, lines = verified(monkeypatch, work)
    (bad,) = (claim for claim in certificate["claims"] if claim["verdict"] != "PASS")
    assert (bad["kind"], bad["claim"]) == ("exact", "vtrace is its definition, triton")
    assert bad["verdict"] == "FAIL"
    assert "wrong here" in bad["detail"]
    assert not certificate["passed"]
    assert sum("1 FAILED" in line for line in lines) == 1
