"""The whole verification: proofs → exhaustive → exact → bounded → cases → faults,
on every path that this machine has.
"""

import concurrent.futures
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from .. import language
from .environment import environment
from .fuzz import Outcome, exhaust, failed, fuzz, together
from .strategies import ESTIMATORS

EXHAUSTIVE_STEPS = {"portable": 5, "interpreter": 4, "triton": 5}
# an example on the interpreter costs 0.2 s: there the count is this share of what was asked for
INTERPRETER_SHARE = 8
PORTABLE_SHARE = 5  # likewise on a GPU, where the portable path launches a kernel an operation
FAULT_EXAMPLES = 500
GPU_SETUPS = 12  # every kind of call is some compilations
GPU_PARTS = 6  # jobs that a claim about compiled kernels is cut into: what one kernel after the other would take long
FUZZED = ("exhaustive", "exact", "bounded")
# in the order of what they compile
SLOWEST = ("all", "engine", "vtrace", "discounted_returns", "td_lambda", "retrace", "linear_scan", "gae")


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
    part: int = 0
    parts: int = 1

    @property
    def whole(self) -> "Job":
        """What it is a part of."""
        return replace(self, part=0)

    @property
    def title(self) -> str:
        which = f", part {self.part + 1} of {self.parts}" if self.parts > 1 else ""
        return f"{self.kind} {self.estimator} {self.path}{which}"


def paths(device: str) -> list[tuple[str, str]]:
    """(path, device) of every way to run that can be checked on this device."""
    found = [("portable", device)]
    if device.startswith("cuda"):
        found.append(("triton", device))
    elif language.HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1":  # as the worker processes will see it
        found.append(("interpreter", device))
    return found


def jobs(device: str, count: int, seed: int) -> Iterator[Job]:
    for kind in FUZZED:
        for path, where in paths(device):
            slow = path == "portable" and device.startswith("cuda")
            share = max(1, count // (INTERPRETER_SHARE if path == "interpreter" else PORTABLE_SHARE if slow else 1))
            parts = GPU_PARTS if path == "triton" and kind != "exhaustive" else 1
            for estimator in ESTIMATORS:
                for part in range(parts):
                    yield Job(kind, estimator, path, where, share, seed, part, parts)
    for path, where in paths(device):
        yield Job("cases", "all", path, where, 0, seed)
    kernel_path = "triton" if device.startswith("cuda") else "interpreter"
    yield Job("faults", "all", "portable", device, FAULT_EXAMPLES, seed)
    if kernel_path in dict(paths(device)):
        yield Job("faults", "engine", kernel_path, device, FAULT_EXAMPLES, seed)


def slowest_first(planned: Iterable[Job]) -> list[Job]:
    """The order to start jobs in, so that no process is left alone with a long one at the end."""

    def rank(job: Job) -> tuple[bool, bool, bool, int]:
        # these run the kernels of the exact ones, which are in Triton's cache by then
        compiled_before = (job.kind, job.path) == ("bounded", "triton")
        estimator = SLOWEST.index(job.estimator) if job.estimator in SLOWEST else len(SLOWEST)
        return compiled_before, job.path == "portable", job.parts == 1, estimator

    return sorted(planned, key=rank)


def work(job: Job) -> Outcome | list[Claim]:
    """One job, in a process of its own: a part of a claim that is fuzzed, or whole claims."""
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
    if job.kind == "exhaustive":
        return exhaust(job.estimator, steps=EXHAUSTIVE_STEPS[job.path], seed=job.seed, **where)
    return fuzz(
        job.estimator,
        exact=job.kind == "exact",
        count=job.count,
        seed=job.seed,
        kinds_of_call=GPU_SETUPS if job.path == "triton" else 256,
        max_steps=18 if job.path == "interpreter" else 40,
        part=job.part,
        parts=job.parts,
        **where,
    )


def fuzz_claim(job: Job, outcomes: list[Outcome]) -> Claim:
    """The one claim that all parts of a job are about; its seconds are those of all processes together."""
    outcome = together(outcomes)
    details = {
        "exhaustive": f"every boundary pattern up to {EXHAUSTIVE_STEPS[job.path]} steps, every option",
        "exact": "bit for bit",
        "bounded": f"at most {outcome.share:.3f} of the a-priori bound",
    }
    name = f"{job.estimator} is its definition, {job.path}"
    detail = outcome.error or details[job.kind]
    return Claim(name, job.kind, outcome.cases, verdict(not outcome.error), outcome.seconds, detail)


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


def prove(progress: Callable[[str], None], deep: bool = False) -> list[Claim]:
    import rlscan.proofs as proofs

    def tell(result: Any) -> None:
        progress(f"[proof] {result.name}{'' if result.passed else ': FAILED'}")

    claims = []
    for result in proofs.run(progress=tell, statements=[*proofs.STATEMENTS, *(proofs.DEEP if deep else ())]):
        passing = [twin.name for twin in result.twins if not twin.rejected]
        detail = f"{result.over}; {result.scope}; {len(result.twins)} false twins rejected"
        if not result.proved:
            detail = result.finding
        elif passing:
            detail = f"false twins that pass: {', '.join(passing)}"
        claims.append(Claim(result.statement, "proof", result.cases, verdict(result.passed), result.seconds, detail))
    return claims


def result_of(future: "concurrent.futures.Future[Outcome | list[Claim]]", job: Job) -> Outcome | list[Claim]:
    """A job that dies is a failure of its claim, not the end of the run."""
    try:
        return future.result()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        if job.kind in FUZZED:
            return Outcome(error=what)
        return [Claim(f"{job.estimator}, {job.path}", job.kind, 0, "FAIL", 0.0, what)]


def verify(
    *,
    device: str,
    examples: int,
    seed: int,
    processes: int,
    deep: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Runs everything and returns the certificate."""
    start = time.perf_counter()
    planned = slowest_first(jobs(device, examples, seed))
    claims: list[Claim] = []
    outcomes: dict[Job, dict[int, Outcome]] = {}
    # spawned: a forked child could not use the GPU; proofs run here meanwhile
    with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(work, job): job for job in planned}
        claims += prove(progress, deep)
        for number, future in enumerate(concurrent.futures.as_completed(running), 1):
            job = running[future]
            found = result_of(future, job)
            if isinstance(found, Outcome):
                bad = int(failed(found))
                parts = outcomes.setdefault(job.whole, {})
                parts[job.part] = found
                if len(parts) == job.parts:
                    claims.append(fuzz_claim(job, [parts[part] for part in sorted(parts)]))
            else:
                bad = sum(claim.verdict == "FAIL" for claim in found)
                claims += found
            progress(f"[{number}/{len(planned)}] {job.title}{f': {bad} FAILED' if bad else ''}")
    order = ("proof", "exhaustive", "exact", "bounded", "cases", "faults")
    claims.sort(key=lambda claim: (order.index(claim.kind), claim.claim))
    if not any(path == "triton" for path, _ in paths(device)):
        claims.append(Claim("every estimator is its definition, triton", "exact", 0, "NOT RUN", 0.0, "no GPU was used"))
    if deep:
        from .deep import steps, take

        claims += [take(step, progress) for step in steps(device, processes)]
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
