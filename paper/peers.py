"""What `rlscan.testing` says of other projects' estimators, and of deliberately faulty ones: `python -m paper.peers`.

Writes paper/results/peers.json, and renders it as paper/rendered/peers.md. A package that is not installed is NOT RUN,
and its rows stay as they were measured last, with the versions they were measured with. With `--check` nothing is run or
written, and a page that is not the results' fails. Install them by `pip install '.[peers]'`; `make peers` does it all.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper import peer_adapters as adapters
from paper import plain_estimators
from paper.faulty_versions import FAULTY
from paper.text import ABSENT, markdown
from rlscan import testing
from rlscan.verify.environment import environment

PAPER = Path(__file__).parent
RESULTS, PAGE = PAPER / "results" / "peers.json", PAPER / "rendered" / "peers.md"
PACKAGES = {"stable-baselines3": "Stable-Baselines3", "rlax": "rlax", "torchrl": "TorchRL"}
BESIDE = {"rlax": ("jax",), "torchrl": ("tensordict",)}  # what a peer's numbers also depend on

# what is so of every function of a package that is checked here
SHARED = {
    "stable-baselines3": (
        'Flags are those of first steps, `episode_starts`, and `dones` behind the window: `flags="starts_at"`.',
        "The buffer has no truncations. `collect_rollouts` adds γ·V(terminal observation) to the reward of a time limit "
        'and stores an end: `truncation="in_rewards"`. So the rewards in the buffer are not the environment\'s.',
        "Arrays are float32 [T, N] and so is the accumulation, whatever came in.",
    ),
    "rlax": (
        "One row at a time ([T], mapped over rows by `jax.vmap`), accumulated in the inputs' dtype.",
        "No flags: a termination is a discount of 0, and a truncation what each function makes of its arguments.",
    ),
    "torchrl": (
        "Tensors are [N, T, 1]; `done` is `terminated | truncated`.",
        'V(s_{t+1}) is given at every step: `truncation="next_values"`. Nothing is lost by that.',
    ),
}


@dataclass(frozen=True)
class Peer:
    """A function of a package under the convention that it has, what that leaves out, and what should be found."""

    package: str
    name: str
    estimator: str
    function: Callable[..., Any]
    convention: dict[str, Any] = field(default_factory=dict)
    difference: str = ""
    finds: str | None = None  # None: it is right. A kind, or "" where no known kind is told

    def check(self) -> tuple[bool, tuple[str, ...], str]:
        """Whether it is right, the kinds that it looks like, and the report."""
        return verdict(self.estimator, self.function, self.convention)


SB3 = {"layout": "TN", "flags": "starts_at", "exact": True}
JAX = {"framework": "jax", "exact": True}
MIXED = {**JAX, "advantage": "mixed"}
STEPS = {"gamma": "steps", "lambda_": "steps"}
TORCH = {"framework": "torch", "truncation": "next_values", "exact": True}
ONE = {"lambda_": "one", "results": ("advantages", "targets")}
IN_REWARDS = {"truncation": "in_rewards"}
UNCLIPPED = {"rho_clip": None, "c_clip": None, "pg_rho_clip": None}
LOOP_GAE, VECTOR_GAE = "generalized_advantage_estimate", "vec_generalized_advantage_estimate"
LOOP_TD, VECTOR_TD = "td_lambda_return_estimate", "vec_td_lambda_return_estimate"
BUFFER = "RolloutBuffer.compute_returns_and_advantage"
VTRACE = "vtrace_td_error_and_advantage"
OFF_POLICY = "general_off_policy_returns_from_q_and_v"
SELECTS_NOT = "Masks multiply, so NaN or Inf in a slot that is not used, or of another episode, spreads."
SERIES = (
    "The series of (γλ)^k ends after ⌊log 1e-7 / log γλ⌋ terms, so the first weight that is dropped is up to 1e-7/γλ."
)

PEERS = (
    Peer("stable-baselines3", BUFFER, "gae", adapters.sb3_rollout_buffer, {**SB3, "truncation": "none"}),
    Peer("stable-baselines3", BUFFER, "gae", adapters.sb3_rollout_buffer, {**SB3, **IN_REWARDS}, "Time limits as its collector stores them."),
    Peer("stable-baselines3", BUFFER, "gae", adapters.sb3_rollout_buffer, {**SB3, "truncation": "none", "unused": "nan"}, SELECTS_NOT, "multiplied by zero instead of selected"),
    Peer("rlax", "truncated_generalized_advantage_estimation", "gae", adapters.rlax_gae, {**JAX, **IN_REWARDS, "results": "advantages"}, "Values come as one array [T + 1], which has no room for the value behind a truncation. No returns."),
    Peer("rlax", "truncated_generalized_advantage_estimation", "gae", adapters.rlax_gae, {**JAX, **IN_REWARDS, **STEPS, "results": "advantages"}, "γ_t and λ_t, at the same index as here."),
    Peer("rlax", "truncated_generalized_advantage_estimation", "gae", adapters.rlax_gae, {**JAX, "truncation": "none", "results": "advantages", "unused": "nan"}, SELECTS_NOT, "multiplied by zero instead of selected"),
    Peer("rlax", VTRACE, "vtrace", adapters.rlax_vtrace(), {**MIXED, **IN_REWARDS}, 'Policy advantages mix by λ (`advantage="mixed"`). It gives errors: targets are those + V. c̄ is fixed at 1.'),
    Peer("rlax", VTRACE, "vtrace", adapters.rlax_vtrace(clip_rho_threshold=2.0, clip_pg_rho_threshold=0.5), {**MIXED, **IN_REWARDS, **STEPS, "rho_clip": 2.0, "pg_rho_clip": 0.5}, "Other clips; γ_t and λ_t."),
    Peer("rlax", VTRACE, "vtrace", adapters.rlax_vtrace(), {**JAX, **IN_REWARDS}, "It is not the advantage of the IMPALA paper where λ < 1.", "other policy advantage"),
    Peer("rlax", VTRACE, "vtrace", adapters.rlax_vtrace_with_final_values, MIXED, "Truncations by v_t and λ_t = 0: targets are right, but the policy advantage reads v_tm1[t + 1], the next episode's first value. They have to come in rewards.", "wrong state's value"),
    Peer("rlax", f"leaky_{VTRACE}", "vtrace", adapters.rlax_vtrace(alpha=0.0), {**MIXED, **IN_REWARDS, **UNCLIPPED}, "α = 0 is V-trace without any clip; α between 0 and 1 has no counterpart here (tests/test_peers.py compares it through its mixed ratios)."),
    Peer("rlax", f"leaky_{VTRACE}", "vtrace", adapters.rlax_vtrace(alpha=1.0), {**MIXED, **IN_REWARDS}, "α = 1 is V-trace, but (1 − α)·ratio is NaN where the ratio overflows; `vtrace` itself clips it.", "ratio not clipped before exp"),
    Peer("rlax", "lambda_returns", "td_lambda", adapters.rlax_lambda_returns, JAX, "v_t is V(s_{t+1}); a truncation is λ_t = 0 with the final observation's value."),
    Peer("rlax", "lambda_returns", "td_lambda", adapters.rlax_lambda_returns, {**JAX, **STEPS}, "γ_t and λ_t, at the same index as here."),
    Peer("rlax", "discounted_returns", "discounted_returns", adapters.rlax_discounted_returns, {**JAX, **IN_REWARDS}, "Bootstraps behind the window only."),
    Peer("rlax", OFF_POLICY, "retrace", adapters.rlax_retrace, {**JAX, "actions": 0}, "With c_t = λ·min(1, π/μ). The expectation is the caller's; a truncation is c_{t+1} = 0."),
    Peer("rlax", OFF_POLICY, "retrace", adapters.rlax_retrace, {**JAX, **STEPS, "actions": 0}, "γ_t and λ_t; λ_{t+1} goes with c_{t+1}, as here."),
    Peer("torchrl", LOOP_GAE, "gae", adapters.torchrl_gae(LOOP_GAE), TORCH),
    Peer("torchrl", LOOP_GAE, "gae", adapters.torchrl_gae(LOOP_GAE), {**TORCH, "unused": "nan"}, SELECTS_NOT, "multiplied by zero instead of selected"),
    Peer("torchrl", VECTOR_GAE, "gae", adapters.torchrl_gae(VECTOR_GAE), TORCH, "Raises where γλ = 0.", ""),
    Peer("torchrl", VECTOR_GAE, "gae", adapters.torchrl_gae(VECTOR_GAE, LOOP_GAE), {**TORCH, "exact": False}, f"With the loop in its place where γλ = 0. {SERIES}", ""),
    Peer("torchrl", LOOP_TD, "td_lambda", adapters.torchrl_td_lambda(LOOP_TD), TORCH),
    Peer("torchrl", VECTOR_TD, "td_lambda", adapters.torchrl_td_lambda(VECTOR_TD), TORCH, "Raises where γλ = 0.", ""),
    Peer("torchrl", VECTOR_TD, "td_lambda", adapters.torchrl_td_lambda(VECTOR_TD, LOOP_TD), {**TORCH, "exact": False}, f"With the loop in its place where γλ = 0. {SERIES}", ""),
    Peer("torchrl", "td1_return_estimate", "discounted_returns", adapters.torchrl_td1("td1_return_estimate"), TORCH),
    Peer("torchrl", "vtrace_advantage_estimate", "vtrace", adapters.torchrl_vtrace(), {**TORCH, **ONE}, 'No λ (`lambda_="one"`), and advantages come first.'),
    Peer("torchrl", "vtrace_advantage_estimate", "vtrace", adapters.torchrl_vtrace(rho_thresh=2.0, c_thresh=0.5), {**TORCH, **ONE, "rho_clip": 2.0, "c_clip": 0.5, "pg_rho_clip": 2.0}, "The advantage's ratio is clipped at ρ̄ as well: there is no clip of its own."),
)  # fmt: skip


def verdict(
    estimator: str, function: Callable[..., Any], convention: dict[str, Any]
) -> tuple[bool, tuple[str, ...], str]:
    try:
        getattr(testing, f"check_{estimator}")(function, **convention)
    except testing.Counterexample as found:
        return False, found.kinds, str(found)
    return True, (), ""


def missing(package: str) -> str | None:
    """Why a package cannot be checked here."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return f"NOT RUN: {package} is not installed"
    return None


def versions(package: str) -> str:
    every = (package, *BESIDE.get(package, ()))
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in every)


def run_peers(before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for every peer; of a package that is not installed, those that were."""
    rows = []
    for peer in PEERS:
        reason = missing(peer.package)
        if reason:
            print(f"{peer.name}: {reason}", flush=True)
            continue
        right, kinds, report = peer.check()
        row = {"package": peer.package, "versions": versions(peer.package), "function": peer.name}
        row |= {"estimator": peer.estimator, "convention": peer.convention, "difference": peer.difference}
        rows.append(
            {**row, "right": right, "kinds": kinds, "as_stated": as_stated(peer, right, kinds), "report": report}
        )
        print(f"{peer.name} {peer.convention}: {'right' if right else kinds or 'differs'}", flush=True)
    kept = [row for row in before if missing(row["package"])]
    plain: list[Any] = json.loads(json.dumps(kept + rows))
    return plain


def as_stated(peer: Peer, right: bool, kinds: tuple[str, ...]) -> bool:
    """Whether what was found is what the table of peers says."""
    return right if peer.finds is None else not right and kinds[:1] == ((peer.finds,) if peer.finds else ())


def run_faulty() -> list[dict[str, Any]]:
    rows = []
    for version in FAULTY:
        _, kinds, report = verdict(version.estimator, version.function(), version.convention)
        row = {"estimator": version.estimator, "planted": version.kind, "convention": version.convention}
        row |= {"right": version.right, "wrong": version.wrong}
        rows.append({**row, "kinds": kinds, "found": kinds[:1] == (version.kind,), "report": report})
    print(f"{sum(row['found'] for row in rows)} of {len(rows)} faulty versions named rightly", flush=True)
    return rows


def run_plain() -> dict[str, bool]:
    """Whether the estimators that the faults are planted in are right."""
    names = [name for name in vars(plain_estimators) if hasattr(testing, f"check_{name}")]
    return {name: verdict(name, getattr(plain_estimators, name), {})[0] for name in names}


def said(row: dict[str, Any]) -> str:
    if row["right"]:
        return "right, bit for bit where arithmetic is exact" if row["convention"].get("exact") else "right"
    words = next((line.strip() for line in row["report"].splitlines()[2:] if line.strip()), "")
    return f"**{row['kinds'][0]}**" if row["kinds"] else f"**differs**, no known kind: {words}"


def call(convention: dict[str, Any]) -> str:
    shown = {k: v for k, v in convention.items() if k not in ("exact", "framework")}
    return f"`{', '.join(f'{k}={v!r}' for k, v in shown.items())}`" if shown else ABSENT


def page(result: dict[str, Any]) -> str:
    lines = ["# What `rlscan.testing` says of other people's estimators", ""]
    lines += [
        "Rendered from [paper/results/peers.json](../results/peers.json), which has every report in full, by "
        "`python -m paper.peers`. Each function is called through a few lines of [paper/peer_adapters.py]"
        "(../peer_adapters.py), and checked under the convention that it has; a second row under another one shows "
        "what it does not do. A difference is a fact about a convention, and seldom a mistake.",
    ]
    for package, title in PACKAGES.items():
        rows = [row for row in result["peers"] if row["package"] == package]
        lines += ["", f"## {title}", ""]
        if not rows:
            lines += [f"NOT RUN: {package} was not installed."]
            continue
        lines += [f"Checked: {rows[0]['versions']}.", "", *(f"- {text}" for text in SHARED[package]), ""]
        body = [
            [f"`{r['function']}`", r["estimator"], call(r["convention"]), said(r), r["difference"] or ABSENT]
            for r in rows
        ]
        lines += [table(["function", "checked as", "under", "verdict", "what differs"], body)]
    found = sum(row["found"] for row in result["faulty"])
    lines += ["", "## Deliberately faulty versions", ""]
    lines += [
        f"{found} of {len(result['faulty'])} are rejected and named rightly; the {len(result['plain'])} plain estimators "
        f"they are made of ([paper/plain_estimators.py](../plain_estimators.py)) are "
        f"{'right' if all(result['plain'].values()) else '**not all right**'}. One replacement makes each "
        "([paper/faulty_versions.py](../faulty_versions.py)).",
        "",
    ]
    body = [
        [f"`{r['estimator']}`", r["planted"], ", ".join(r["kinds"]) or "**none**", place(r)] for r in result["faulty"]
    ]
    lines += [table(["estimator", "planted", "what it said", "smallest counterexample"], body), ""]
    when = result["environment"]
    lines += [f"Python {when['versions']['python']}, commit {when['commit'][:12]}, {when['date']}.", ""]
    return "\n".join(lines)


def place(row: dict[str, Any]) -> str:
    words = [line.strip() for line in row["report"].splitlines()[2:4]]
    return " ".join(words) or ABSENT


def table(head: list[str], body: list[list[str]]) -> str:
    """Words alone, so all of it is aligned left."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in body]
    return markdown(head, cells).replace("---:", "---")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.peers", description="Other people's estimators, checked.")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if the page is not the results'")
    args = parser.parse_args(argv)
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"peers": []}
    if args.check:
        stale = not PAGE.exists() or PAGE.read_text() != page(before)
        print(f"{PAGE.name} is {'stale: run python -m paper.peers' if stale else 'up to date'}")
        return int(stale)
    result = {"environment": environment("cpu"), "peers": run_peers(before["peers"])}
    result |= {"plain": run_plain(), "faulty": json.loads(json.dumps(run_faulty()))}
    RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(result))
    wrong = [row for row in result["peers"] if not row["as_stated"]]
    for row in wrong:
        print(f"not as stated: {row['function']} {row['convention']}\n{row['report']}")
    return int(bool(wrong) or not all(row["found"] for row in result["faulty"]) or not all(result["plain"].values()))


if __name__ == "__main__":
    sys.exit(main())
