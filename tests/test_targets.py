"""The speed targets: a target is met only where every cell of it was measured and reached."""

import itertools
import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

import synthetic_targets as synthetic

from paper import bench, jobs, split, targets
from paper.gate import Verdict
from paper.verdicts import ROWS, RUNS, evaluate, label, wholes

Rows = list[dict[str, Any]]
SLOW_IS_LARGE = ("time_major", "host", "half", "guard", "long_131072")
HEADLINE = {"section": "grid", "estimator": "gae", "truncated": False, "num_envs": 4096, "seq_len": 128}


@pytest.fixture(scope="module")
def rows() -> Rows:
    return synthetic.rows()


def matching(row: dict[str, Any], **where: Any) -> bool:
    return all(row.get(k) == v for k, v in where.items())


def slower(rows: Rows, factor: float, **where: Any) -> Rows:
    return [{**row, "us": row["us"] * factor} if matching(row, **where) else row for row in rows]


def without(rows: Rows, **where: Any) -> Rows:
    left = [row for row in rows if not matching(row, **where)]
    assert len(left) < len(rows)
    return left


def test_every_target_is_met_by_what_is_fast_enough(rows: Rows) -> None:
    found = evaluate(slower(rows, 0.5, implementation="rlscan", dtype="bfloat16"))
    assert {name for name, target in found.items() if not target["met"]} == set()
    for target in found.values():
        assert target["cells"] > 0
        assert target["value"] is not None
        assert target["missed"] == []
    assert found["headline"]["cells"] == 12 * RUNS
    assert found["grid_full"]["cells"] == 12 * 12 * 3
    assert found["grid_device"]["cells"] == 12 * 12 * 2


def test_every_target_is_missed_by_what_is_slow(rows: Rows) -> None:
    slow = slower(slower(rows, 100.0, implementation="rlscan"), 100.0, implementation="rlscan", layout="TN")
    found = evaluate(slower(slow, 100.0, implementation="rlscan", dtype="bfloat16"))
    assert {name for name, target in found.items() if target["met"]} == {"headline_agrees"}  # ten times too slow
    for name in found.keys() - {"headline_agrees"}:
        assert (found[name]["value"] > 1) is (name in SLOW_IS_LARGE), name


def test_nothing_measured_meets_nothing() -> None:
    assert not any(target["met"] for target in evaluate([]).values())


@pytest.mark.parametrize("section", sorted({job.section for job in targets.jobs()}))
def test_a_section_that_was_not_measured_is_missed(rows: Rows, section: str) -> None:
    everything, found = evaluate(rows), evaluate(without(rows, section=section))
    changed = {name for name in found if found[name] != everything[name]}
    assert changed
    for name in changed - {"bandwidth"}:  # the one target of two sections; its missing cells are the next test's
        assert not found[name]["met"], name


@pytest.mark.parametrize("section", sorted({job.section for job in targets.jobs()}))
def test_a_cell_that_was_not_measured_is_missed(rows: Rows, section: str) -> None:
    job = [job for job in targets.jobs() if job.section == section][-1]
    where = {name: getattr(job, name) for name in ("section", "estimator", "truncated", "actions", "layout", "dtype")}
    left = without(rows, **where, num_envs=job.shape[0], seq_len=job.shape[1])
    wanted = list(targets.jobs())
    blanks = targets.unmeasured(wanted, left)
    assert targets.unmeasured(wanted, rows) == []
    assert {row["section"] for row in blanks} == {section}
    everything, found = evaluate(rows), evaluate(left + blanks)
    assert {name: target["cells"] for name, target in found.items()} == {
        name: target["cells"] for name, target in everything.items()
    }
    newly = [name for name in found if set(found[name]["missed"]) > set(everything[name]["missed"])]
    assert newly
    assert not any(found[name]["met"] for name in newly)


def test_a_wrong_result_is_missed(rows: Rows) -> None:
    found = evaluate(synthetic.refuse(rows, "rlscan", **HEADLINE))
    for name in ("headline", "headline_agrees", "torch_associative_scan", "grid_full", "grid_device"):
        assert not found[name]["met"], name
        assert all(cell.startswith("gae") for cell in found[name]["missed"])


def test_a_wrong_baseline_is_no_loss_and_is_said(rows: Rows) -> None:
    where = {**HEADLINE, "num_envs": 512}
    found, before = evaluate(synthetic.refuse(rows, "doubling", **where)), evaluate(rows)
    for name in ("grid_full", "grid_device"):
        assert found[name]["met"]
        assert found[name]["cells"] == before[name]["cells"] - 1
        assert "gae 512x128 doubling" in found[name]["note"]


def test_where_all_were_wrong_the_cell_is_missed(rows: Rows) -> None:
    where = {**HEADLINE, "num_envs": 512}
    for name in ("rlscan", "doubling", "associative", "loop"):
        rows = synthetic.refuse(rows, name, **where)
    found = evaluate(rows)
    assert "gae 512x128 doubling" in found["grid_full"]["missed"]
    assert "gae 512x128 associative" in found["grid_device"]["missed"]


@pytest.mark.parametrize("name", ["cuda_rows", "cuda_rows_prepared"])
def test_rows_need_both_ways_to_call(rows: Rows, name: str) -> None:
    found = evaluate(synthetic.refuse(rows, name, num_envs=128, seq_len=512))
    for target in ("rows_full", "rows_device"):
        assert found[target]["missed"] == ["128x512"]


def test_one_bad_run_misses_the_headline(rows: Rows) -> None:
    found = evaluate(slower(rows, 3.0, implementation="rlscan", metric="full", repeat=4, **HEADLINE))
    assert found["headline"]["missed"] == ["gae run 4"]
    assert found["headline"]["worst"] == "gae run 4"
    assert found["headline_agrees"]["missed"] == ["gae"]


def test_implementations_take_turns_within_a_trial() -> None:
    called: list[str] = []
    calls = {name: partial(called.append, name) for name in "ab"}
    protocol = {"warmup_calls": 1, "iterations_per_trial": bench.TURN + 2, "trials": 2}
    samples = bench.time_side_by_side(calls, {}, protocol, "cpu", lambda trial: trial() and trial())
    trial = ["a"] * bench.TURN + ["b"] * bench.TURN + ["a", "a", "b", "b"]
    assert called == ["a", "b", *trial * 4]
    assert {name: [*map(len, x)] for name, x in samples.items()} == {name: [bench.TURN + 2] * 2 for name in "ab"}


def test_what_is_measured_beside_a_slow_host_is_measured_again_and_kept(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def paced(patience: int, *paces: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Two trials, and two paces for every one that is measured; the host's own pace is 100."""
        left, turns = list(paces), itertools.count()
        monkeypatch.setattr(targets, "host_pace", lambda: left.pop(0))
        steady = targets.Steady(SimpleNamespace(value=100.0), patience)
        trials = [steady(lambda: {"rlscan": [float(next(turns))]}) for _ in range(2)]
        assert not left
        return trials, steady.disturbed

    def trials(*numbers: float) -> list[dict[str, Any]]:
        return [{"rlscan": [number]} for number in numbers]

    monkeypatch.setattr(targets.time, "sleep", lambda _: None)
    assert paced(9, 100.0, 114.0, 101.0, 100.0) == (trials(0, 1), [])
    first = {"pace": 1.2, "samples_us": {"rlscan": [0.0]}}
    assert paced(9, 100.0, 120.0, 99.0, 101.0, 99.0, 99.0) == (trials(1, 2), [first])
    assert paced(9, 80.0, 80.0, 100.0, 80.0, 90.0, 80.0)[1] == [{"pace": 1.25, "samples_us": {"rlscan": [1.0]}}]
    found, disturbed = paced(3, *[200.0] * 6)  # a host that stays slow is taken as it is
    assert found == trials(3, 4)
    assert disturbed == [{"pace": 2.0, "samples_us": one} for one in trials(0, 1, 2)]
    assert paced(0) == (trials(0, 1), [])
    again = [{**row, "disturbed": disturbed} if matching(row, **HEADLINE, repeat=3) else row for row in rows]
    assert evaluate(again)["headline"]["note"].startswith("3 trials were measured again")
    few = {"section": "rows", "metric": "full", "num_envs": 128}
    again = [{**row, "disturbed": disturbed * 7} if matching(row, **few) else row for row in rows]
    note = "105 trials were measured again, because the host was slower than its own pace; for 5 of 39 calls the limit"
    assert evaluate(again)["rows_full"]["note"].startswith(note)
    for name in ("headline", "rows_full"):
        assert "note" not in evaluate(rows)[name]


def test_trials_are_measured_again_where_a_few_microseconds_of_the_host_decide() -> None:
    for job in targets.jobs():
        headline = job.section == "grid" and job.shape == (4096, 128)
        assert job.patience == (60 if headline else 20 if job.section == "rows" else 0)


def test_fewer_than_ten_runs_miss_the_headline(rows: Rows) -> None:
    found = evaluate(without(rows, implementation="rlscan", metric="full", repeat=9, **HEADLINE))
    assert found["headline"]["missed"] == ["gae run 9"]
    assert found["headline_agrees"]["missed"] == ["gae"]


def test_the_worst_cell_is_one_that_misses(rows: Rows) -> None:
    where = {"section": "grid", "estimator": "gae", "num_envs": 16384, "seq_len": 512, "implementation": "rlscan"}
    low = slower(rows, 1.2, **{**where, "estimator": "retrace", "section": "bandwidth"}, actions=18)
    found = evaluate(slower(low, 1.1, **where, metric="device", truncated=False))["bandwidth"]
    assert found["missed"] == ["gae 16384x512"]
    assert found["worst"] == "gae 16384x512"


def test_a_whole_is_met_where_its_parts_are(rows: Rows) -> None:
    targets = evaluate(rows)
    assert all(target["met"] for target in wholes(targets).values())
    targets["grid_device"] |= {"met": False, "value": 0.5}
    assert [wholes(targets)[name]["met"] for name in ("grid", "rows")] == [False, True]
    assert wholes(targets)["grid"]["value"] == 0.5


def test_labels_tell_one_row_from_truncated() -> None:
    assert label(("gae", 1, 131072)) == "gae 1x131072"
    assert label(("gae", True, 1, 131072, 4)) == "gae truncated 1x131072"
    assert label(("retrace", False, 64, 16384, 18)) == "retrace 64x16384 A18"


def test_what_cannot_be_captured_leaves_the_other_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def samples(calls: list[Any]) -> list[float]:
        return [float(calls[0]())]

    def fails(**_: Any) -> float:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(jobs, "rollout", partial(rollout_on_cpu, jobs.rollout))
    monkeypatch.setattr(targets, "device_samples", samples)
    monkeypatch.setattr(targets, "time_side_by_side", lambda functions, *_: {name: [[5.0]] for name in functions})
    job = targets.Job("grid", "gae", (4, 8), ("rlscan", "doubling"), ("full", "device"))
    right = Verdict(0.0)
    ready = targets.Ready(job, {"rlscan": lambda **_: 3.0, "doubling": fails}, {"rlscan": right, "doubling": right})
    with torch.enable_grad():  # puts back what measure() switches off
        found = {
            (row["implementation"], row["metric"]): row for row in targets.measure(ready, SimpleNamespace(value=1.0))
        }
    assert torch.is_grad_enabled()
    assert found["rlscan", "device"]["us"] == 3.0
    assert found["doubling", "full"]["us"] == 5.0
    assert found["doubling", "device"]["us"] is None
    assert "capturing" in found["doubling", "device"]["error"]


def rollout_on_cpu(rollout: Any, *arguments: Any, **options: Any) -> Any:
    return rollout(*arguments, **{**options, "device": "cpu"})


def test_judging_anew_changes_nothing(rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path, rows, {})
    folder = tmp_path / "paper" / "results" / "test-gpu"
    assert targets.main(["--out", str(folder), "--judge"]) == 0
    found = json.loads((folder / "targets.json").read_text())
    assert found["targets"] == {**evaluate(rows), **wholes(evaluate(rows))}
    assert {k: found[k] for k in synthetic.HEAD} == synthetic.HEAD
    assert "headline_agrees" in capsys.readouterr().out


def test_committed_verdicts_are_those_of_the_committed_rows() -> None:
    for path in bench.PAPER.glob("results/*/targets.json"):
        rows = split.load(path.with_name(ROWS))["rows"]
        assert json.loads(path.read_text())["targets"] == {**evaluate(rows), **wholes(evaluate(rows))}, path
