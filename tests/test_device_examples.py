"""The examples on the device: environments obey their equations, PPO learns, tokens and spikes are right."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

import rlscan
from paper import beyond, learning
from paper.examples import ppo, spiking, token_gae
from paper.gate import check, expect
from rlscan.engine import forced
from rlscan.verify.tolerance import UNIT, Mismatch, assert_exact, assert_within

from device_envs import TASKS, CartPole, DeviceEnv  # isort: skip - paper.examples sets the path

TINY = {"envs": 4, "steps": 8, "updates": 2, "horizon": 8, "time_limit": 5}


@pytest.fixture(autouse=True)
def portable_unless_a_test_says_otherwise() -> Iterator[None]:
    """Without a GPU the tests' own path is the interpreter, which is slow."""
    with forced("portable"):
        yield


def make(task: str, num_envs: int = 6, limit: int = 7, **kwargs: Any) -> DeviceEnv:
    return TASKS[task](num_envs, limit, torch.Generator().manual_seed(0), **kwargs)


# The environments


@pytest.mark.parametrize(("task", "name"), [("cartpole", "CartPole-v1"), ("pendulum", "Pendulum-v1")])
def test_dynamics_are_those_of_the_usual_task(task: str, name: str) -> None:
    gym = pytest.importorskip("gymnasium", reason="NOT RUN: its environments are what is compared with")
    other = gym.make(name, max_episode_steps=1000).unwrapped
    other.reset(seed=0)
    gym.logger.min_level = gym.logger.ERROR  # it goes on behind a termination
    env = make(task, 1, 1000, staggered=False)
    env.state = torch.tensor(np.array(other.state)[None], dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    for _ in range(40):
        action = torch.randint(env.actions, (1,), generator=generator)
        other.step(action.item() if task == "cartpole" else np.array([2.0 * (action.item() - 1)]))
        state, _, _ = env.advance(action)
        expected = np.array(other.state, dtype=np.float64)[None]
        bound = 100 * UNIT["float64"] * (1 + np.abs(expected))
        assert_within(state, expected, bound, "state")  # a step rounds some 30 times, and both do
        env.state = torch.tensor(expected)


@pytest.mark.parametrize("task", list(TASKS))
def test_a_time_limit_truncates_and_an_episode_starts_anew(task: str) -> None:
    env = make(task, limit=7, staggered=False)
    for t in range(1, 30):
        before = env.state
        state, _, terminated = env.advance(torch.zeros(6, dtype=torch.int64))
        env.state = before
        step = env.step(torch.zeros(6, dtype=torch.int64))
        assert torch.equal(step.final_observations, env.observe(state))
        assert torch.equal(step.terminated, terminated)
        assert not (step.terminated & step.truncated).any()
        ended = step.terminated | step.truncated
        assert torch.equal(step.observations[~ended], step.final_observations[~ended])
        assert (step.observations[ended] != step.final_observations[ended]).any(dim=-1).all()
        assert (env.clock < 7).all()
        if task == "pendulum":
            assert not terminated.any()
            assert step.truncated.all() == (t % 7 == 0)


def test_a_fallen_pole_terminates_even_at_the_limit() -> None:
    env = make("cartpole", 2, 1, staggered=False)
    env.state = torch.tensor([[0.0, 0, CartPole.FALLEN + 0.1, 0], [0, 0, 0, 0]])
    step = env.step(torch.zeros(2, dtype=torch.int64))
    assert step.terminated.tolist() == [True, False]
    assert step.truncated.tolist() == [False, True]


def test_clocks_are_staggered() -> None:
    assert len(make("pendulum", 64, 50).clock.unique()) > 10


# PPO


@pytest.mark.parametrize("cut", [False, True])
def test_advantages_are_the_references(cut: bool) -> None:
    settings = ppo.RUNS["cartpole"]._replace(envs=32, steps=40, time_limit=9)
    trainer = ppo.Trainer("cartpole", settings, cut_is_termination=cut)
    trainer.rollout()
    trainer.assign()
    assert trainer.terminated.any()
    assert trainer.truncated.any()
    assert bool(learning.check_window(trainer)["error"]) is cut  # what the mistake does is not within rounding


def test_truncation_values_are_those_of_final_observations() -> None:
    trainer = ppo.Trainer("pendulum", ppo.RUNS["pendulum"]._replace(**TINY))
    finals = []
    step = trainer.env.step
    trainer.env.step = lambda actions: finals.append(step(actions)) or finals[-1]  # type: ignore[method-assign, func-returns-value]
    trainer.rollout()
    values = trainer.network(torch.stack([x.final_observations for x in finals]))[1]
    assert_exact(trainer.truncation_values, values.detach().double().numpy(), "truncation values")


def test_it_learns() -> None:
    trainer = ppo.Trainer("cartpole", ppo.RUNS["cartpole"]._replace(envs=64, horizon=100))
    before = trainer.judge(64).score
    for _ in range(20):
        trainer.rollout()
        trainer.assign()
        trainer.optimise()
    assert trainer.judge(64).score > 2 * before


@pytest.mark.parametrize("task", list(TASKS))
def test_ppo_runs_as_a_user_runs_it(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    ppo.main(["--task", task, *sizes, "--cut-is-termination"])
    assert "V(s_0)" in capsys.readouterr().out


# Tokens


def test_padding_changes_no_bit(path: tuple[str, str]) -> None:
    responses = token_gae.sample(5, 33, device=path[1])
    tokens = ~token_gae.padding(responses)
    assert 0 < tokens.sum() < tokens.numel()
    assert 0 < responses.finished.sum() < 5
    with forced(path[0]):
        results = [
            rlscan.gae(**token_gae.inputs(token_gae.filled(responses, junk)))
            for junk in (0.0, -7.5, math.inf, math.nan)
        ]
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            assert_exact(y[tokens], x[tokens].cpu().double().numpy(), "tokens")


def test_a_response_in_a_batch_is_the_response_alone(path: tuple[str, str]) -> None:
    """Bit for bit, on inputs whose arithmetic is exact."""
    responses = token_gae.sample(6, 9, device=path[1])
    exact = {name: (4 * getattr(responses, name)).round() / 4 for name in ("rewards", "values", "next_values")}
    responses = token_gae.filled(responses._replace(**exact), math.nan)
    weights = {"gamma": 1.0, "lambda_": 0.5}
    with forced(path[0]):
        together = rlscan.gae(**{**token_gae.inputs(responses), **weights}).advantages
        for n, length in enumerate(responses.lengths.tolist()):
            ends = torch.zeros(length, dtype=torch.bool, device=path[1])
            ends[-1] = responses.finished[n]
            alone = rlscan.gae(
                responses.rewards[n, :length], responses.values[n, :length], ends,
                last_values=float(responses.next_values[n]), **weights,
            ).advantages  # fmt: skip
            assert_exact(together[n, :length], alone.cpu().double().numpy(), f"response {n}")


def test_padding_that_is_not_flagged_is_found() -> None:
    responses = token_gae.filled(token_gae.sample(5, 33), math.nan)
    tokens = ~token_gae.padding(responses)
    flags = token_gae.inputs(responses)
    flags |= {name: torch.zeros_like(flags[name]) for name in ("terminated", "truncated")}
    assert rlscan.gae(**flags).advantages[tokens].isnan().any()


def test_tokens_are_the_references() -> None:
    inputs = token_gae.inputs(token_gae.sample(7, 65))
    assert check(rlscan.gae(**inputs), expect("gae", inputs)).passed


def test_token_example_runs_and_fails_on_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ["--responses", "3", "--tokens", "40"]
    assert token_gae.main(sizes) == 0
    right = rlscan.gae
    monkeypatch.setattr(rlscan, "gae", lambda **kw: [y + 1e-3 for y in right(**kw)])
    assert token_gae.main(sizes) == 1


# Spikes


@pytest.mark.parametrize("sweep", [False, True])
def test_spikes_and_gradients_are_autograds(
    sweep: bool, path: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, on inputs whose arithmetic is exact."""
    monkeypatch.setattr(spiking, "DECAY", 0.5)
    current, weights = spiking.sample(64, 6, seed=2, device=path[1], dtype=torch.float64)
    current, weights = (8 * current + 0.4).round() / 4, weights.round()
    with forced(path[0]):
        spikes, potential = spiking.neurons(current, sweep=sweep)
        gradient = spiking.gradient(lambda x: spiking.neurons(x, sweep=sweep), current, weights)
    expected = spiking.neurons_by_loop(current)
    assert 0.05 < spikes.mean() < 0.95
    assert_exact(spikes, expected[0].cpu().numpy(), "spikes")
    assert_exact(potential, expected[1].cpu().numpy(), "potential")
    wanted = spiking.gradient(spiking.neurons_by_loop, current, weights)
    assert wanted.abs().max() > 0
    assert_exact(gradient, wanted.cpu().numpy(), "gradient")


@pytest.mark.parametrize("model", [spiking.neurons, spiking.neurons_by_loop])
def test_models_pass_the_gate_and_wrong_ones_do_not(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    current, weights = spiking.sample(16, 40)
    assert beyond.check_model(model, current, weights).passed

    def late(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spikes, potential = model(x)
        return spikes.roll(1, dims=1), potential

    assert not beyond.check_model(late, current, weights).passed
    assert not beyond.check_model(lambda x: model(1.001 * x), current, weights).passed


def test_every_neuron_settles_in_sweeps() -> None:
    current, _ = spiking.sample(32, 50, seed=3)
    spikes, sweeps = spiking.spikes_by_sweep(current)
    assert torch.equal(spikes, spiking.spikes_by_step(current))
    assert spikes.sum(dim=1).max() < sweeps < 50
    assert spiking.spikes_by_sweep(torch.zeros(3, 5))[1] == 1
    everywhere, sweeps = spiking.spikes_by_sweep(torch.ones(3, 5))
    assert everywhere.all()
    assert sweeps <= 6


def test_spiking_example_runs_and_fails_without_the_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ["--neurons", "16", "--steps", "40"]
    assert spiking.main(sizes) == 0
    right = spiking.backward_coefficients
    monkeypatch.setattr(
        spiking, "backward_coefficients", lambda u, s, *grads: (right(u, s, *grads)[0], spiking.DECAY + 0 * s)
    )
    assert spiking.main(sizes) == 1


def test_exact_comparison_finds_one_bit() -> None:
    with pytest.raises(Mismatch):
        assert_exact(torch.tensor([1.0 + 2.0**-23]), np.array([1.0]), "one bit")
