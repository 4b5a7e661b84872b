"""The whole verification: proofs → exhaustive → exact → bounded → cases → faults,
on every path that this machine has.
"""

import concurrent.futures
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .. import language
from .environment import environment
from .strategies import ESTIMATORS

EXHAUSTIVE_STEPS = {"portable": 5, "interpreter": 4, "triton": 5}
# an example on the interpreter costs 0.2 s: there the count is this share of what was asked for
INTERPRETER_SHARE = 8
FAULT_EXAMPLES = 500
GPU_SETUPS = 12  # every kind of call is some compilations


@dataclass
class Claim:
    """One line of the certificate."""

    claim: str
    kind: str  # proof, exhaustive, exact, bounded, cases or faults
    cases: int
    verdict: str  # PASS, FAIL or NOT RUN
    seconds: float
    detail: str = ""


@dataclass(frozen=True)
class Job:
    kind: str
    estimator: str
    path: str
    device: str
    count: int
    seed: int


def paths(device: str) -> list[tuple[str, str]]:
    """(path, device) of every way to run that can be checked on this device."""
    found = [("portable", device)]
    if device.startswith("cuda"):
        found.append(("triton", device))
    elif language.HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1":  # as the worker processes will see it
        found.append(("interpreter", device))
    return found


def jobs(device: str, count: int, seed: int) -> Iterator[Job]:
    for kind in ("exhaustive", "exact", "bounded"):
        for path, where in paths(device):
            share = max(1, count // INTERPRETER_SHARE) if path == "interpreter" else count
            for estimator in ESTIMATORS:
                yield Job(kind, estimator, path, where, share, seed)
    for path, where in paths(device):
        yield Job("cases", "all", path, where, 0, seed)
    kernel_path = "triton" if device.startswith("cuda") else "interpreter"
    yield Job("faults", "all", "portable", device, FAULT_EXAMPLES, seed)
    if kernel_path in dict(paths(device)):
        yield Job("faults", "engine", kernel_path, device, FAULT_EXAMPLES, seed)


def work(job: Job) -> list[Claim]:
    """One job, in a process of its own."""
    import warnings

    import torch

    # NaN and overflow in slots that are not used are the point of the tests
    warnings.simplefilter("ignore", RuntimeWarning)
    torch.set_num_threads(1)
    start = time.perf_counter()
    where: dict[str, Any] = {"device": job.device, "path": job.path}
    if job.kind == "cases":
        from .cases import run_cases

        results = run_cases(**where)
        errors = [f"{r.name}: {r.error}" for r in results if r.error]
        rejected = sum(r.wrong_rejected for r in results)
        detail = errors[0] if errors else f"{len(results)} cases, {rejected} wrong answers rejected"
        checks = sum(r.checks for r in results)
        name = f"known fault cases, {job.path}"
        return [Claim(name, "cases", checks, verdict(not errors), time.perf_counter() - start, detail)]
    if job.kind == "faults":
        return [fault_claim(fault, job) for fault in faults_on(job)]
    from .fuzz import exhaust, fuzz

    if job.kind == "exhaustive":
        steps = EXHAUSTIVE_STEPS[job.path]
        outcome = exhaust(job.estimator, steps=steps, seed=job.seed, **where)
        detail = f"every boundary pattern up to {steps} steps, every option"
    else:
        exact = job.kind == "exact"
        kinds = GPU_SETUPS if job.path == "triton" else 256
        most = 18 if job.path == "interpreter" else 40
        outcome = fuzz(
            job.estimator, exact=exact, count=job.count, seed=job.seed, kinds_of_call=kinds, max_steps=most, **where
        )
        detail = "bit for bit" if exact else f"at most {outcome.share:.3f} of the a-priori bound"
    name = f"{job.estimator} is its definition, {job.path}"
    return [Claim(name, job.kind, outcome.cases, verdict(not outcome.error), outcome.seconds, outcome.error or detail)]


def faults_on(job: Job) -> list[Any]:
    from .faults import FAULTS, KERNEL, PORTABLE

    return [f for f in FAULTS if (f.path == KERNEL if job.estimator == "engine" else f.path in (None, PORTABLE))]


def fault_claim(fault: Any, job: Job) -> Claim:
    from .faults import find

    outcome = find(fault, count=job.count, seed=job.seed, device=job.device, path=job.path)
    name = f"planted: {fault.kind} ({fault.file.removesuffix('.py')}, {job.path})"
    detail = f"rejected by example {outcome.cases}" if outcome.error else f"not found in {outcome.cases} examples"
    return Claim(name, "faults", outcome.cases, verdict(bool(outcome.error)), outcome.seconds, detail)


def verdict(passed: bool) -> str:
    return "PASS" if passed else "FAIL"


def prove(progress: Callable[[str], None]) -> list[Claim]:
    import rlscan.proofs as proofs

    def tell(result: Any) -> None:
        progress(f"[proof] {result.name}{'' if result.passed else ': FAILED'}")

    claims = []
    for result in proofs.run(progress=tell):
        passing = [twin.name for twin in result.twins if not twin.rejected]
        detail = f"{result.over}; {result.scope}; {len(result.twins)} false twins rejected"
        if not result.proved:
            detail = result.finding
        elif passing:
            detail = f"false twins that pass: {', '.join(passing)}"
        claims.append(Claim(result.statement, "proof", result.cases, verdict(result.passed), result.seconds, detail))
    return claims


def verify(
    *, device: str, examples: int, seed: int, processes: int, progress: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Runs everything and returns the certificate."""
    start = time.perf_counter()
    # the kernels' paths are the slow ones: first, so that no process is left alone with one at the end
    planned = sorted(jobs(device, examples, seed), key=lambda job: job.path == "portable")
    claims: list[Claim] = []
    # spawned: a forked child could not use the GPU; proofs run here meanwhile
    with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(work, job): job for job in planned}
        claims += prove(progress)
        for number, future in enumerate(concurrent.futures.as_completed(running), 1):
            job = running[future]
            try:
                found = future.result()
            except Exception as error:  # a job that dies is a failure of its claim, not the end of the run
                found = [
                    Claim(f"{job.estimator}, {job.path}", job.kind, 0, "FAIL", 0.0, f"{type(error).__name__}: {error}")
                ]
            claims += found
            bad = sum(claim.verdict == "FAIL" for claim in found)
            progress(
                f"[{number}/{len(planned)}] {job.kind} {job.estimator} {job.path}{f': {bad} FAILED' if bad else ''}"
            )
    order = ("proof", "exhaustive", "exact", "bounded", "cases", "faults")
    claims.sort(key=lambda claim: (order.index(claim.kind), claim.claim))
    if not any(path == "triton" for path, _ in paths(device)):
        claims.append(Claim("every estimator is its definition, triton", "exact", 0, "NOT RUN", 0.0, "no GPU was used"))
    faults = [claim for claim in claims if claim.kind == "faults"]
    return {
        "schema": 1,
        "passed": not any(claim.verdict == "FAIL" for claim in claims),
        **environment(device),
        "seed": seed,
        "examples": examples,
        "seconds": round(time.perf_counter() - start, 1),
        "faults": {
            "planted": len(faults),
            "rejected": sum(claim.verdict == "PASS" for claim in faults),
            "most_examples_needed": max((claim.cases for claim in faults), default=0),
        },
        "claims": [{**asdict(claim), "seconds": round(claim.seconds, 3)} for claim in claims],
    }


def default_processes() -> int:
    return max(1, min(8, os.cpu_count() or 1))
