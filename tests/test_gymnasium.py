"""Real rollouts: what rlscan returns is each episode, computed alone from the definition, in this file.

The time limit is 16: CartPole terminates and is truncated, Pendulum is only truncated. So Pendulum's periods are known,
16 steps under same-step autoreset and 17 under next-step autoreset, and the windows are cut to meet every boundary.
"""

import functools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

import rlscan

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
gym = pytest.importorskip("gymnasium", minversion="1.1", reason="NOT RUN: real rollouts need gymnasium 1.1 or later")
sys.path.insert(0, str(EXAMPLES))

import gymnasium_gae  # noqa: E402 - the path above
from gymnasium.vector import AutoresetMode  # noqa: E402 - gymnasium is optional
from rollouts import Inputs, Rollout, collect, inputs, make_envs, value_network  # noqa: E402 - the path above

GAMMA, LAMBDA = 0.99, 0.95
LIMIT, NUM_ENVS = 16, 6
LENGTHS = (50, 30, 21, 1, 38)  # of the windows; in all 50 = 3·17-1, 80 = 5·16, 101 = 6·17-1, 102 = 6·17, 140 steps
NAMES = ("CartPole-v1", "Pendulum-v1")
MODES = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP)
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu)) if torch.cuda.is_available() else ("cpu",)
Numbers = list[float]

rollouts_of = pytest.mark.parametrize(("name", "mode"), [(name, mode) for name in NAMES for mode in MODES])


# The plain computation: cut, then sum.


class Episode(NamedTuple):
    env: int
    rows: list[int]
    rewards: Numbers
    values: Numbers  # one more than rewards: the last is the bootstrap


def episodes(rollout: Rollout, x: Inputs, final_values: torch.Tensor) -> Iterator[Episode]:
    """The episodes of a window, by the environment's own flags; `x` gives only V(s_t) for t in [0, T]."""
    resets_later = rollout.mode == AutoresetMode.NEXT_STEP
    values = torch.cat([x.values, x.last_values.unsqueeze(0)])
    steps, num_envs = rollout.rewards.shape
    for env in range(num_envs):
        rows: list[int] = []
        at_reset = resets_later and bool(rollout.previous_done[env])
        for t in range(steps):
            if at_reset:
                at_reset = False
                continue
            rows.append(t)
            terminated, truncated = bool(rollout.terminated[t, env]), bool(rollout.truncated[t, env])
            if terminated or truncated or t == steps - 1:
                bootstrap = values[t + 1, env]
                if terminated:
                    bootstrap = torch.zeros(())
                elif truncated and not resets_later:
                    bootstrap = final_values[t, env]
                rewards = rollout.rewards[rows, env].tolist()
                yield Episode(env, rows, rewards, [*x.values[rows, env].tolist(), bootstrap.item()])
                rows, at_reset = [], resets_later and (terminated or truncated)


def advantage(r: Numbers, v: Numbers, t: int) -> float:
    return sum((GAMMA * LAMBDA) ** (j - t) * (r[j] + GAMMA * v[j + 1] - v[j]) for j in range(t, len(r)))


def n_step_return(r: Numbers, v: Numbers, t: int, n: int) -> float:
    return sum(GAMMA**k * r[t + k] for k in range(n)) + GAMMA**n * v[t + n]


def lambda_return(r: Numbers, v: Numbers, t: int) -> float:
    n = len(r) - t
    mixed = (1 - LAMBDA) * sum(LAMBDA ** (k - 1) * n_step_return(r, v, t, k) for k in range(1, n))
    return mixed + LAMBDA ** (n - 1) * n_step_return(r, v, t, n)


def discounted_return(r: Numbers, v: Numbers, t: int) -> float:
    return n_step_return(r, v, t, len(r) - t)


def absolute_advantage(r: Numbers, v: Numbers, t: int) -> float:
    """The sum that bounds what rounding can act on in GAE and TD(λ): the advantage with |r| + γ|V'| + |V| for δ."""
    return advantage([abs(x) + 2 * abs(y) for x, y in zip(r, v[:-1], strict=True)], [abs(y) for y in v], t)


def absolute_return(r: Numbers, v: Numbers, t: int) -> float:
    return discounted_return([abs(x) for x in r], [abs(y) for y in v], t)


def error_bound(absolute: float, further_steps: int, dtype: torch.dtype) -> float:
    """What rounding can do to a term of the sum, whatever the order of the scan, times the sum of absolute terms.

    A term that lies k steps ahead is rounded at most 6 + 5k times. δ or α: 5 (γ, 1 - λ, a product, two sums). Each step
    on the way: γ, λ, their product, its product with the rest, a sum. Once more to add V. The sums in this file round a
    term no more often than that, in float64.
    """
    bound = 0.0
    for unit in (torch.finfo(dtype).eps / 2, torch.finfo(torch.float64).eps / 2):
        rounded = (6 + 5 * further_steps) * unit
        bound += rounded / (1 - rounded) * absolute
    return bound


class Law(NamedTuple):
    shipped: Callable[..., torch.Tensor]
    definition: Callable[[Numbers, Numbers, int], float]
    absolute: Callable[[Numbers, Numbers, int], float]


LAWS = {
    "gae advantages": Law(lambda r, v, *flags, **kw: rlscan.gae(r, v, *flags, **kw)[0], advantage, absolute_advantage),
    "gae returns": Law(
        lambda r, v, *flags, **kw: rlscan.gae(r, v, *flags, **kw)[1],
        lambda r, v, t: advantage(r, v, t) + v[t],
        lambda r, v, t: absolute_advantage(r, v, t) + abs(v[t]),
    ),
    "td_lambda": Law(rlscan.td_lambda, lambda_return, absolute_advantage),
    "discounted_returns": Law(
        lambda r, v, *flags, lambda_, **kw: rlscan.discounted_returns(r, *flags, **kw),
        discounted_return,
        absolute_return,
    ),
}


# The rollouts and the comparison.


def play(envs: gym.vector.VectorEnv, observation: np.ndarray) -> np.ndarray:
    """Erratic, but a function of the observation alone, so that both autoreset modes play the same episodes."""
    unit = np.sin(1000 * observation.sum(-1))
    if isinstance(envs.single_action_space, gym.spaces.Discrete):
        return (unit > 0).astype(np.int64)
    return (envs.single_action_space.high * unit[:, None]).astype(np.float32)


@functools.cache
def windows(name: str, mode: AutoresetMode) -> tuple[Rollout, ...]:
    """Windows that follow each other."""
    envs = make_envs(name, NUM_ENVS, LIMIT, mode)
    found: list[Rollout] = []
    for steps in LENGTHS:
        found.append(collect(envs, functools.partial(play, envs), steps, after=found[-1] if found else None, seed=3))
    envs.close()
    return tuple(found)


def value_of(rollout: Rollout, dtype: torch.dtype) -> torch.nn.Module:
    return value_network(rollout.observations.shape[-1], seed=5).to(dtype)


def call(law: Law, x: Inputs, time_dim: int = 0, device: str = "cpu") -> torch.Tensor:
    """The estimator on [T, N] inputs, or on their [N, T] views; [T, N] on the CPU in any case."""
    x = Inputs(*(y.to(device) for y in x))
    row, step = (x.rewards, x.values, x.terminated, x.truncated), x.truncation_values
    if time_dim != 0:
        row, step = tuple(y.t() for y in row), step.t()
    result = law.shipped(
        *row, last_values=x.last_values, truncation_values=step, gamma=GAMMA, lambda_=LAMBDA, time_dim=time_dim
    )
    return (result if time_dim == 0 else result.t()).cpu()


def assert_lawful(law: Law, rollout: Rollout, x: Inputs, result: torch.Tensor) -> int:
    """Every step of every episode is within its bound, and these steps, here counted, are the valid ones."""
    dtype = x.values.dtype
    assert result.dtype == dtype
    assert result.shape == x.values.shape
    seen = torch.zeros_like(x.valid)
    final_values = value_of(rollout, dtype)(rollout.final_observations.to(dtype))
    for env, rows, rewards, values in episodes(rollout, x, final_values):
        seen[rows, env] = True
        for t, actual in enumerate(result[rows, env].tolist()):
            expected = law.definition(rewards, values, t)
            bound = error_bound(law.absolute(rewards, values, t), len(rows) - 1 - t, dtype)
            assert abs(actual - expected) <= bound, (
                f"env {env}, step {rows[t]}: {actual}, should be {expected} ± {bound:.1e}"
            )
    assert torch.equal(seen, x.valid)
    return int(seen.sum())


# The laws.


@rollouts_of
def test_rollouts_hold_every_kind_of_boundary(name: str, mode: AutoresetMode) -> None:
    found = windows(name, mode)
    terminated, truncated = (torch.cat([getattr(w, flag) for w in found]) for flag in ("terminated", "truncated"))
    assert truncated.any()
    assert terminated.any() == (name == "CartPole-v1")
    if name == "Pendulum-v1":
        last_ended = [bool((w.terminated | w.truncated)[-1].all()) for w in found]
        valid = [inputs(w, value_of(w, torch.float32)).valid for w in found]
        resets = [(not v[0].any(), not v[-1].any()) for v in valid]  # the window begins, ends, in a reset row
        if mode == AutoresetMode.SAME_STEP:
            assert last_ended == [False, True, False, False, False]
            assert resets == 5 * [(False, False)]
        else:
            assert last_ended == [True, False, True, False, False]
            assert resets == [(False, False), (True, False), (False, False), (True, True), (False, False)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("time_dim", [0, -1])
@pytest.mark.parametrize("law", LAWS)
@rollouts_of
def test_each_episode_is_what_it_is_alone(
    name: str, mode: AutoresetMode, law: str, time_dim: int, dtype: torch.dtype, device: str
) -> None:
    checked = 0
    for rollout in windows(name, mode):
        x = inputs(rollout, value_of(rollout, dtype), dtype)
        checked += assert_lawful(LAWS[law], rollout, x, call(LAWS[law], x, time_dim, device))
    assert 700 < checked <= sum(LENGTHS) * NUM_ENVS


@pytest.mark.parametrize("name", NAMES)
def test_valid_rows_are_the_transitions_of_same_step_autoreset(name: str) -> None:
    def transitions(mode: AutoresetMode, env: int) -> torch.Tensor:
        found = [(w, inputs(w, value_of(w, torch.float32)).valid[:, env]) for w in windows(name, mode)]
        columns = [
            torch.column_stack([w.observations[:, env], w.rewards[:, env], w.terminated[:, env], w.truncated[:, env]])
            for w, _ in found
        ]
        return torch.cat([c[valid] for c, (_, valid) in zip(columns, found, strict=True)])

    for env in range(NUM_ENVS):
        same_step, next_step = (transitions(mode, env) for mode in MODES)
        assert 100 < len(next_step) < len(same_step) == sum(LENGTHS)
        assert torch.equal(next_step, same_step[: len(next_step)])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", NAMES)
def test_reset_rows_do_not_matter(name: str, law: str) -> None:
    for rollout in windows(name, AutoresetMode.NEXT_STEP):
        x = inputs(rollout, value_of(rollout, torch.float32))
        junk = torch.where(x.valid, 0.0, torch.nan)
        unused = torch.where(x.valid[-1] & ~(x.terminated | x.truncated)[-1], 0.0, torch.nan)
        poisoned = x._replace(rewards=x.rewards + junk, values=x.values + junk, last_values=x.last_values + unused)
        assert torch.equal(poisoned.values.isnan(), ~x.valid)
        assert torch.equal(call(LAWS[law], poisoned)[x.valid], call(LAWS[law], x)[x.valid])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("fault", ["truncated is terminated", "value of the reset state", "value before the step"])
def test_wrong_bootstraps_are_found(fault: str, law: str) -> None:
    rollout = windows("Pendulum-v1", AutoresetMode.SAME_STEP)[0]
    x = inputs(rollout, value_of(rollout, torch.float32))
    wrong = {
        "truncated is terminated": x._replace(terminated=x.terminated | x.truncated),
        "value of the reset state": x._replace(truncation_values=torch.cat([x.values[1:], x.last_values[None]])),
        "value before the step": x._replace(truncation_values=x.values),
    }[fault]
    with pytest.raises(AssertionError, match="should be"):
        assert_lawful(LAWS[law], rollout, x, call(LAWS[law], wrong))


# The example.


def test_example_runs_as_a_user_runs_it() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "gymnasium_gae.py", "--windows", "2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [done.stdout.count(name) for name in NAMES] == [2, 2]


def test_example_fails_on_a_wrong_result(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = rlscan.gae
    monkeypatch.setattr(rlscan, "gae", lambda *a, **kw: [y + 1e-4 for y in right(*a, **kw)])
    assert gymnasium_gae.main(["--windows", "1"]) == 1
    assert "FAILED" in capsys.readouterr().err
