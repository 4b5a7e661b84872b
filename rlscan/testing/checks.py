"""One check an estimator: fuzz a function, make what fails small, say what it looks like."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .diagnosis import diagnose
from .fuzzing import minimise, prepared, search
from .options import Convention, Misuse, Options, definition_of, options_of
from .report import Counterexample

if TYPE_CHECKING:
    from typing_extensions import Unpack

Function = Callable[..., Any]


def check_gae(function: Function, **convention: Unpack[Convention]) -> None:
    """That `function` is generalised advantage estimation: see `rlscan.gae`, and `rlscan.testing` for the options.

    Called as function(rewards, values, terminated, truncated, last_values, truncation_values, gamma, lambda_), by
    keyword; returns advantages and returns.

    >>> import numpy as np
    >>> def my_gae(rewards, values, terminated, truncated, last_values, truncation_values, gamma, lambda_):
    ...     advantages, next_values, advantage = np.zeros_like(rewards), last_values, 0.0
    ...     for t in reversed(range(rewards.shape[1])):
    ...         successor = np.where(truncated[:, t], truncation_values[:, t], next_values) * ~terminated[:, t]
    ...         delta = rewards[:, t] + gamma * successor - values[:, t]
    ...         advantage = delta + gamma * lambda_ * ~(terminated | truncated)[:, t] * advantage
    ...         advantages[:, t], next_values = advantage, values[:, t]
    ...     return advantages, advantages + values
    >>> check_gae(my_gae)
    >>> def without_time_limits(truncated, terminated, **rollout):
    ...     return my_gae(truncated=truncated, terminated=terminated | truncated, **rollout)
    >>> try:
    ...     check_gae(without_time_limits)
    ... except Counterexample as found:
    ...     print(found.kinds)
    ('bootstrap lost at truncation',)
    """
    check(function, options_of("gae", dict(convention)))


def check_vtrace(
    function: Function,
    *,
    rho_clip: float | None = 1.0,
    c_clip: float | None = 1.0,
    pg_rho_clip: float | None = 1.0,
    advantage: str = "impala",
    **convention: Unpack[Convention],
) -> None:
    """That `function` is V-trace: see `rlscan.vtrace`, also for what the clips and `advantage` say of the function.

    Called as function(rewards, values, log_ratios, terminated, truncated, last_values, truncation_values, gamma,
    lambda_), by keyword; returns targets and advantages.

    >>> import rlscan.reference
    >>> check_vtrace(rlscan.reference.vtrace, examples=20)
    """
    own = {"rho_clip": rho_clip, "c_clip": c_clip, "pg_rho_clip": pg_rho_clip, "advantage": advantage}
    check(function, options_of("vtrace", dict(convention), **own))


def check_retrace(
    function: Function,
    *,
    trace: str = "retrace",
    c_clip: float | None = 1.0,
    actions: int = 3,
    **convention: Unpack[Convention],
) -> None:
    """That `function` is Retrace or a relative: see `rlscan.retrace`, also for `trace` and `c_clip`.

    Called as function(rewards, q_values, log_ratios, terminated, truncated, next_q_values, next_policy, gamma,
    lambda_), by keyword; returns targets. With actions=0 next_q_values is the expectation [N, T] and next_policy is not
    passed.

    >>> import rlscan.reference
    >>> check_retrace(rlscan.reference.retrace, examples=20)
    """
    if not (isinstance(actions, int) and actions >= 0):
        raise ValueError(f"actions must be a whole number of at least 0, got {actions!r}")
    check(function, options_of("retrace", dict(convention), trace=trace, c_clip=c_clip, actions=actions))


def check_td_lambda(function: Function, **convention: Unpack[Convention]) -> None:
    """That `function` gives λ-returns: see `rlscan.td_lambda`.

    Called as function(rewards, values, terminated, truncated, last_values, truncation_values, gamma, lambda_), by
    keyword; returns returns.

    >>> import rlscan.reference
    >>> check_td_lambda(rlscan.reference.td_lambda, examples=20)
    """
    check(function, options_of("td_lambda", dict(convention)))


def check_discounted_returns(function: Function, **convention: Unpack[Convention]) -> None:
    """That `function` gives discounted returns: see `rlscan.discounted_returns`.

    Called as function(rewards, terminated, truncated, last_values, truncation_values, gamma), by keyword; returns
    returns.

    >>> import rlscan.reference
    >>> check_discounted_returns(rlscan.reference.discounted_returns, examples=20)
    """
    check(function, options_of("discounted_returns", dict(convention)))


def check_eligibility_traces(function: Function, **convention: Unpack[Convention]) -> None:
    """That `function` gives eligibility traces: see `rlscan.eligibility_traces`.

    Called as function(inputs, ends, initial, gamma, lambda_), by keyword; returns traces.

    >>> import rlscan.reference
    >>> check_eligibility_traces(rlscan.reference.eligibility_traces, examples=20)
    """
    check(function, options_of("eligibility_traces", dict(convention)))


def check_prefix_sum(function: Function, **convention: Unpack[Convention]) -> None:
    """That `function` gives the sums of each episode so far: see `rlscan.prefix_sum`.

    Called as function(inputs, ends, initial), by keyword; returns sums. With flags="starts_at" `starts` in place of
    `ends`, and a start at step 0 clears `initial`.

    >>> import rlscan.reference
    >>> check_prefix_sum(rlscan.reference.prefix_sum, examples=20)
    """
    check(function, options_of("prefix_sum", dict(convention)))


def check(function: Function, options: Options) -> None:
    """Raises Counterexample unless the function agrees with the definition on every rollout that is tried."""
    if not callable(function):
        raise TypeError(f"check_{options.estimator} needs a function, got {type(function).__name__}")
    name = getattr(function, "__name__", type(function).__name__)
    takes(function, name, options)
    failure = search(function, options)
    if failure is not None:
        failure = minimise(function, options, failure)
        raise Counterexample(name, options, failure, diagnose(function, options, failure)) from failure.error


def takes(function: Function, name: str, options: Options) -> None:
    """Refuses a function that cannot be called by the names that the options say."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins, some compiled functions: their call will tell
        return
    wanted = names(options)
    try:
        signature.bind(**dict.fromkeys(wanted))
    except TypeError as error:
        raise Misuse(
            f"{name}{signature} cannot be called as check_{options.estimator} calls it, with {', '.join(wanted)} by "
            f"keyword: {error}. Wrap it in a lambda that takes these, or say what it does not support "
            '(truncation="none", last_values=False, ...): help(rlscan.testing)'
        ) from None


def names(options: Options) -> list[str]:
    """The keywords by which a function is called under these options."""
    from ..verify.strategies import fill

    example = fill(options.setup(), np.zeros((1, 1), np.int8), np.random.default_rng(0), exact=True, finite=True)
    return list(definition_of(options, prepared(options, example)))
