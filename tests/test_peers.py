"""Other people's estimators as independent oracles: rlscan agrees with them wherever they mean the same.

Each test is skipped, and says NOT RUN, where its package is not installed; `make peers` installs them all.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("hypothesis", reason="NOT RUN: hypothesis is not installed")

import rlscan
from paper import peer_adapters, peers
from paper.peers import PEERS, Peer, as_stated, missing, page
from rlscan.testing.fuzzing import bound, more
from rlscan.testing.options import Options, call, options_of
from rlscan.verify.strategies import Example
from rlscan.verify.tolerance import assert_exact, assert_within

AGREEING = [peer for peer in PEERS if peer.finds is None]
DIFFERING = [peer for peer in PEERS if peer.finds is not None]


def name_of(peer: Peer) -> str:
    convention = ", ".join(f"{k}={v}" for k, v in peer.convention.items() if k not in ("exact", "framework"))
    return f"{peer.package}, {peer.name}, {convention}"


def need(package: str) -> None:
    reason = missing(package)
    if reason:
        pytest.skip(reason)


def options_for(peer: Peer) -> Options:
    """Those that the check of this peer has."""
    own = {"gae": (), "vtrace": ("rho_clip", "c_clip", "pg_rho_clip", "advantage"), "retrace": ("actions",)}
    defaults: dict[str, Any] = dict.fromkeys(("rho_clip", "c_clip", "pg_rho_clip"), 1.0) | {"advantage": "impala"}
    names = own.get(peer.estimator, ())
    settings = {name: peer.convention.get(name, defaults.get(name)) for name in names}
    convention = {k: v for k, v in peer.convention.items() if k not in names}
    return options_of(peer.estimator, convention, **settings)


def ours(options: Options, example: Example) -> dict[str, torch.Tensor]:
    """rlscan's own results on the canonical rollout, by name."""
    arguments = {
        name: torch.from_numpy(np.array(x)).to(torch.bool if x.dtype == bool else torch.float32)
        if isinstance(x, np.ndarray)
        else x
        for name, x in example.arguments.items()
    }
    with rlscan.engine.forced("portable"):
        found = getattr(rlscan, options.estimator)(**arguments, **dict(options.settings))
    return found._asdict() if isinstance(found, tuple) else {options.results[0]: found}


@pytest.mark.parametrize("peer", AGREEING, ids=name_of)
def test_rlscan_agrees_with_a_peer(peer: Peer) -> None:
    """Bit for bit where arithmetic is exact; elsewhere both within the bound, so within twice of one another."""
    need(peer.package)
    options = options_for(peer)
    for example in more(options, 40):
        right, limits = ours(options, example), bound(example)
        for name, theirs in zip(options.results, call(peer.function, options, example), strict=True):
            if example.exact:
                assert_exact(right[name], theirs.double().numpy(), f"{name} against {peer.name}")
            else:
                assert_within(right[name], theirs.double().numpy(), 2 * limits[name], f"{name} against {peer.name}")


@pytest.mark.parametrize("peer", AGREEING, ids=name_of)
def test_a_peer_is_the_definition(peer: Peer) -> None:
    need(peer.package)
    right, kinds, report = peer.check()
    assert right, report
    assert kinds == ()


@pytest.mark.parametrize("peer", DIFFERING, ids=name_of)
def test_a_peer_differs_as_stated(peer: Peer) -> None:
    need(peer.package)
    right, kinds, report = peer.check()
    assert as_stated(peer, right, kinds), report
    assert peer.difference


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
def test_leaky_vtrace_is_vtrace_on_its_mixed_ratios(alpha: float) -> None:
    """(1 − α)w + α·min(1, w) is every ratio of leaky V-trace, so V-trace on it, without clips, is the same."""
    need("rlax")
    clips: dict[str, Any] = {"rho_clip": None, "c_clip": None, "pg_rho_clip": None}
    convention = {"framework": "jax", "truncation": "in_rewards"}
    options = options_of("vtrace", convention, **clips, advantage="mixed")
    leaky = peer_adapters.rlax_vtrace(alpha=alpha)
    for example in more(options, 20):
        ratios = np.exp(example.arguments["log_ratios"])
        mixed = np.maximum((1 - alpha) * ratios + alpha * np.minimum(1.0, ratios), np.exp(-700.0))
        changed = Example(example.setup, {**example.arguments, "log_ratios": np.log(mixed)})
        right, limits = ours(options, changed), bound(changed)
        for name, theirs in zip(options.results, call(leaky, options, example), strict=True):
            # the mixed ratio is rounded once more on its way into each
            assert_within(right[name], theirs.double().numpy(), 4 * limits[name], f"{name} against leaky V-trace")


# What is committed


def test_the_page_is_the_results() -> None:
    result = json.loads(peers.RESULTS.read_text())
    assert peers.PAGE.read_text() == page(result)
    stated = [(p.package, p.name, json.loads(json.dumps(p.convention)), p.difference) for p in PEERS]
    assert [(r["package"], r["function"], r["convention"], r["difference"]) for r in result["peers"]] == stated
    assert all(row["as_stated"] for row in result["peers"])
    assert all(row["found"] for row in result["faulty"])
    assert len(result["faulty"]) == len(peers.FAULTY)
    assert all(result["plain"].values())


def test_a_package_that_is_missing_keeps_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "missing", lambda package: f"NOT RUN: {package} is not installed")
    before = json.loads(peers.RESULTS.read_text())["peers"]
    assert peers.run_peers(before) == before
    assert "NOT RUN: rlax was not installed." in page({**json.loads(peers.RESULTS.read_text()), "peers": []})


def test_check_fails_on_a_stale_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert peers.main(["--check"]) == 0
    monkeypatch.setattr(peers, "PAGE", tmp_path / "peers.md")
    assert peers.main(["--check"]) == 1
