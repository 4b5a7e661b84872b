"""To merge into the tests of rlscan/boundaries.py."""

import pytest
import torch

import rlscan
from rlscan.boundaries import next_step_autoreset


def reset_rows(terminated: torch.Tensor, truncated: torch.Tensor, previous_done: torch.Tensor) -> torch.Tensor:
    """[N, T], walked: the step after an end is a reset row."""
    result = torch.zeros(terminated.shape, dtype=torch.bool)
    for n, done in enumerate(previous_done.tolist()):
        for t in range(terminated.shape[1]):
            result[n, t] = done
            done = bool(terminated[n, t] or truncated[n, t])
    return result


def every_stream(steps: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Every [T] pattern of no end, terminated, truncated, both, that next-step autoreset can give, either start."""
    found = []
    for code in range(4**steps):
        kinds = [code // 4**t % 4 for t in range(steps)]
        for done in (False, True):
            before = [done, *(kind > 0 for kind in kinds)]
            if not any(kind and ended for kind, ended in zip(kinds, before[:-1], strict=True)):
                found.append((kinds, done))
    kinds = torch.tensor([kinds for kinds, _ in found]).reshape(len(found), steps)
    return kinds % 2 == 1, kinds >= 2, torch.tensor([done for _, done in found])


def test_next_step_autoreset_is_case_c72() -> None:
    terminated = torch.tensor([False, True, False, False, False])
    rewards, values = torch.tensor([[1.0, 1, 0, 1, 1], [2, 3, 99, 4, 5]], dtype=torch.float64)
    step = next_step_autoreset(
        terminated, torch.zeros(5, dtype=torch.bool), previous_done=False, values=values, last_values=6.0
    )
    advantages, _ = rlscan.gae(
        rewards, values, step.terminated, step.truncated,
        last_values=6.0, truncation_values=step.truncation_values, gamma=0.9, lambda_=0.5,
    )  # fmt: skip
    assert step.valid.tolist() == [True, True, False, True, True]
    expected = torch.tensor([0.8, -2.0, 2.13, 1.4], dtype=torch.float64)
    bound = 11 * 2.0**-53 * 16  # at most 11 roundings of terms that sum to less than 16 in absolute value
    assert ((advantages[step.valid] - expected).abs() <= bound).all()


@pytest.mark.parametrize("time_dim", [-1, 0])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32])
def test_every_stream_is_cut_at_its_reset_rows(time_dim: int, dtype: torch.dtype) -> None:
    for steps in range(6):
        terminated, truncated, previous_done = every_stream(steps)
        values = torch.arange(terminated.numel(), dtype=torch.float32).reshape(terminated.shape)
        last_values = -1.0 - torch.arange(len(terminated), dtype=torch.float32)
        flip = torch.Tensor.t if time_dim == 0 else torch.Tensor.clone
        step = next_step_autoreset(
            flip(terminated).to(dtype), flip(truncated).to(dtype), previous_done=previous_done.to(dtype),
            values=flip(values), last_values=last_values, time_dim=time_dim,
        )  # fmt: skip
        reset = reset_rows(terminated, truncated, previous_done)
        successors = torch.column_stack([values, last_values])[:, 1:]
        last_done = (terminated | truncated)[:, -1] if steps else previous_done
        assert torch.equal(flip(step.valid), ~reset)
        assert torch.equal(flip(step.terminated), terminated | reset)
        assert torch.equal(flip(step.truncated), truncated)
        assert torch.equal(flip(step.truncation_values), successors)
        assert torch.equal(step.last_done, last_done)


def test_last_values_are_a_number_or_one_for_every_row() -> None:
    flags, values = torch.zeros(2, 3, dtype=torch.bool), torch.arange(6.0).reshape(2, 3)
    for number in (7, 7.0, torch.tensor(7.0), torch.full((2,), 7.0)):
        step = next_step_autoreset(flags, flags, previous_done=False, values=values, last_values=number)
        assert step.truncation_values is not None
        assert step.truncation_values.tolist() == [[1, 2, 7], [4, 5, 7]]


def test_split_stream_is_the_whole_stream() -> None:
    terminated, truncated, previous_done = every_stream(5)
    whole = next_step_autoreset(terminated, truncated, previous_done=previous_done)
    for cut in range(6):
        first = next_step_autoreset(terminated[:, :cut], truncated[:, :cut], previous_done=previous_done)
        second = next_step_autoreset(terminated[:, cut:], truncated[:, cut:], previous_done=first.last_done)
        assert torch.equal(torch.cat([first.valid, second.valid], 1), whole.valid)
        assert torch.equal(torch.cat([first.terminated, second.terminated], 1), whole.terminated)
        assert torch.equal(second.last_done, whole.last_done)


def test_nothing_crosses_a_reset_row_forward_or_backward() -> None:
    terminated, truncated, previous_done = every_stream(5)
    step = next_step_autoreset(terminated, truncated, previous_done=previous_done)
    junk = torch.where(step.valid, 1.0, torch.nan).double()
    trace = rlscan.eligibility_traces(junk, step.terminated | step.truncated, gamma=0.5, lambda_=0.5)
    total = rlscan.prefix_sum(junk, step.terminated | step.truncated)
    returns = rlscan.discounted_returns(
        junk, step.terminated, step.truncated, last_values=0.0, truncation_values=torch.zeros_like(junk)
    )
    for result in (trace, total, returns):
        assert torch.equal(result.isnan(), ~step.valid)


def test_misuse_names_the_argument() -> None:
    flags = torch.zeros(3, 4, dtype=torch.bool)
    values = torch.zeros(3, 4)
    for error, name, call in [
        (TypeError, "terminated", lambda: next_step_autoreset([0], flags, previous_done=False)),
        (TypeError, "truncated", lambda: next_step_autoreset(flags, flags.long(), previous_done=False)),
        (ValueError, "truncated", lambda: next_step_autoreset(flags, flags[:1], previous_done=False)),
        (ValueError, "previous_done", lambda: next_step_autoreset(flags, flags, previous_done=flags[:, :1])),
        (TypeError, "previous_done", lambda: next_step_autoreset(flags, flags, previous_done=None)),
        (ValueError, "last_values", lambda: next_step_autoreset(flags, flags, previous_done=False, values=values)),
        (ValueError, "values", lambda: next_step_autoreset(flags, flags, previous_done=False, last_values=0.0)),
        (
            ValueError,
            "last_values",
            lambda: next_step_autoreset(flags, flags, previous_done=False, values=values, last_values=values[:, :1]),
        ),
        (ValueError, "time_dim", lambda: next_step_autoreset(flags, flags, previous_done=False, time_dim=2)),
    ]:
        with pytest.raises(error, match=f"^{name} (is|has) "):
            call()
