"""What the estimators say of each other: each is the other at a special weight or ratio.

Holds over the exact reals (rounding is bounded by the tests). Both sides are the shipped scans, as the engine runs
them. Sampled: the length of the window, as each scope says. `next_values` are free to differ from `values` inside an
episode; where an identity needs them to agree, as they do if one network gives both, its scope says "consistent".
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from rlscan.discounted_returns import SPEC as DISCOUNTED_RETURNS
from rlscan.eligibility_traces import SPEC as ELIGIBILITY_TRACES
from rlscan.engine.spec import Spec
from rlscan.gae import SPEC as GAE
from rlscan.linear_scan import FORWARD as LINEAR_SCAN
from rlscan.prefix_sum import SPECS as PREFIX_SUM
from rlscan.retrace import TRACES
from rlscan.td_lambda import SPEC as TD_LAMBDA
from rlscan.vtrace import SPECS as VTRACE

from .claims import agree
from .episodes import consistent, ends, successor, times, total
from .registry import Case, Cases, Twin, statement
from .scan import operands, pairs, scan
from .twins import ignoring, wrong_sign
from .window import Window, windows

EVERY = "every flag pattern and choice of bootstrap, γ, λ per step or one number"
NO_CLIPS: Mapping[str, Any] = {"rho_clip": math.inf, "c_clip": math.inf, "pg_rho_clip": math.inf}
CLIPS_AT_ONE: Mapping[str, Any] = {"rho_clip": 1, "c_clip": 1, "pg_rho_clip": 1}
AT_ZERO: Mapping[str, Any] = {"lambda_": 0}
AT_ONE: Mapping[str, Any] = {"lambda_": 1}
Prepare = Callable[[Window], Window]
Fixed = Mapping[str, Any]


def as_given(window: Window) -> Window:
    return window


def column(spec: Spec, window: Window, k: int = 0) -> list[tuple[Any, ...]]:
    """The k-th result of the specification alone."""
    return [(results[k],) for results in scan(spec, window)]


def values_added(results: list[tuple[Any, ...]], window: Window, sign: int) -> list[tuple[Any, ...]]:
    return [(result + sign * window["values", t],) for t, (result,) in enumerate(results)]


@statement(
    scope=f"T ≤ 3, {EVERY}; consistent",
    twins=(
        Twin("next_values that differ from values", prepare=as_given),
        Twin("truncation does not end an episode", gae=ignoring(GAE, "truncated")),
    ),
)
def gae_plus_values_is_td_lambda(gae: Spec = GAE, prepare: Prepare = consistent) -> Cases:
    """A_t + V_t, which is R_t, is the TD(λ) return."""
    for window in map(prepare, windows(GAE, TD_LAMBDA, steps=3)):
        td_lambda = scan(TD_LAMBDA, window)
        yield from agree(window, values_added(column(gae, window), window, 1), td_lambda)
        yield from agree(window, column(gae, window, 1), td_lambda)


@statement(
    scope=f"T ≤ 3, {EVERY}; clips at 1 or absent",
    twins=(
        Twin("a clip below 1", clips={**CLIPS_AT_ONE, "rho_clip": 0}),
        Twin("β has the wrong sign", vtrace=wrong_sign(VTRACE["impala"])),
    ),
)
def vtrace_on_policy_is_gae(vtrace: Spec = VTRACE["impala"], clips: Fixed = CLIPS_AT_ONE) -> Cases:
    """With every ratio 1, v_t − V_t is GAE(λ), for any λ."""
    for fixed in (clips, NO_CLIPS):
        for window in windows(vtrace, steps=3, log_ratios=0, **fixed):
            yield from agree(window, values_added(column(vtrace, window), window, -1), column(GAE, window))


@statement(
    scope=f"T ≤ 3, {EVERY}; consistent",
    twins=(
        Twin("next_values that differ from values", prepare=as_given),
        Twin("β has the wrong sign", vtrace=wrong_sign(VTRACE["impala"])),
    ),
)
def vtrace_targets_on_policy_are_td_lambda(vtrace: Spec = VTRACE["impala"], prepare: Prepare = consistent) -> Cases:
    """With every ratio 1, v_t is the TD(λ) return, for any λ."""
    for window in map(prepare, windows(vtrace, steps=3, log_ratios=0, **CLIPS_AT_ONE)):
        yield from agree(window, column(vtrace, window), scan(TD_LAMBDA, window))


@statement(
    scope=f"T ≤ 3, {EVERY}; consistent",
    twins=(
        Twin("impala", vtrace=VTRACE["impala"]),
        Twin("next_values that differ from values", prepare=as_given),
    ),
)
def mixed_vtrace_advantages_on_policy_are_gae(vtrace: Spec = VTRACE["mixed"], prepare: Prepare = consistent) -> Cases:
    """With every ratio 1 the "mixed" policy advantage is GAE(λ), for any λ."""
    for window in map(prepare, windows(vtrace, steps=3, log_ratios=0, **CLIPS_AT_ONE)):
        yield from agree(window, column(vtrace, window, 1), column(GAE, window))


@statement(
    scope="T ≤ 3, every flag pattern and choice of bootstrap, γ per step or one number; consistent",
    twins=(Twin("λ is any number", at_one={}),),
)
def impala_vtrace_advantages_on_policy_are_gae_at_lambda_one(at_one: Fixed = AT_ONE) -> Cases:
    """With every ratio 1 the "impala" policy advantage is GAE(λ) at λ = 1, and not at other λ."""
    impala = VTRACE["impala"]
    for window in map(consistent, windows(impala, steps=3, log_ratios=0, **at_one, **CLIPS_AT_ONE)):
        yield from agree(window, column(impala, window, 1), column(GAE, window))


@statement(
    scope="T ≤ 3, every flag pattern and choice of bootstrap, γ per step or one number; any ratios and clips",
    twins=(Twin("λ is any number", at_one={}),),
)
def both_vtrace_advantages_are_one_at_lambda_one(at_one: Fixed = AT_ONE) -> Cases:
    """At λ = 1 the "impala" and the "mixed" advantages are the same, for any ratios and clips."""
    for window in windows(VTRACE["impala"], steps=3, **at_one):
        yield from agree(window, scan(VTRACE["impala"], window), scan(VTRACE["mixed"], window))


@statement(
    scope="T ≤ 3, every flag pattern, π and Q of two actions or their expectation; λ = 0, or c̄ = 0",
    twins=(Twin("λ = 1", zeros=(AT_ONE,)), Twin("c̄ = 1", zeros=({"c_clip": math.inf},))),
)
def retrace_without_traces_is_one_step(zeros: tuple[Fixed, ...] = (AT_ZERO, {"c_clip": 0})) -> Cases:
    """With c ≡ 0 the target is r_t + γ_t·E_π[Q(s_{t+1}, ·)]."""
    spec = TRACES["retrace"][0]
    for fixed in zeros:
        for window in windows(spec, steps=3, **fixed):
            one_step = []
            for t in range(window.T):
                expected = operands(spec, window, t)["expected_q_next"]
                one_step.append(
                    (window["rewards", t] + window["gamma", t] * (0 if window.flag("terminated", t) else expected),)
                )
            yield from agree(window, scan(spec, window), one_step)


@statement(
    scope="T ≤ 3, every flag pattern, γ per step, λ one number; Q(λ), and Retrace with every ratio 1",
    twins=(Twin("λ per step: Retrace takes λ_{t+1} where GAE takes λ_t", per_step=True),),
)
def on_policy_retrace_of_state_values_is_gae(per_step: bool = False) -> Cases:
    """With V_t in the place of Q_t and of its expectation, Q(λ) and on-policy Retrace give GAE's R_t."""
    q_lambda, retrace = TRACES["q_lambda"][0], TRACES["retrace"][0]
    for window in windows(GAE, steps=3, last_values=None, truncation_values=None):
        if isinstance(window.arguments["lambda_"], list) != per_step:
            continue
        window = window.but(
            q_values=window.arguments["values"], next_q_values=window.arguments["next_values"], c_clip=1
        )
        expected = column(GAE, window, 1)
        yield from agree(window, scan(q_lambda, window.but(c_clip=math.inf)), expected)
        yield from agree(window, scan(retrace, window.but(log_ratios=[0] * window.T)), expected)


@statement(
    scope="T ≤ 4, every flag pattern and choice of bootstrap, γ per step or one number; consistent",
    twins=(
        Twin("next_values that differ from values", prepare=as_given),
        Twin("λ is any number", at_one={}),
    ),
)
def gae_at_lambda_one_is_monte_carlo_minus_value(prepare: Prepare = consistent, at_one: Fixed = AT_ONE) -> Cases:
    """At λ = 1, A_t is the discounted return minus V_t."""
    for window in map(prepare, windows(GAE, steps=4, **at_one)):
        yield from agree(window, column(GAE, window), values_added(scan(DISCOUNTED_RETURNS, window), window, -1))


@statement(
    scope="T ≤ 4, every flag pattern and choice of bootstrap, γ per step or one number",
    twins=(Twin("λ is any number", at_one={}),),
)
def td_lambda_at_lambda_one_is_the_discounted_return(at_one: Fixed = AT_ONE) -> Cases:
    """At λ = 1 the TD(λ) return is the discounted return."""
    for window in windows(TD_LAMBDA, steps=4, **at_one):
        yield from agree(window, scan(TD_LAMBDA, window), scan(DISCOUNTED_RETURNS, window))


@statement(
    scope="T ≤ 4, every flag pattern and choice of bootstrap, γ per step or one number",
    twins=(Twin("λ is any number", at_zero={}),),
)
def everything_at_lambda_zero_is_one_step(at_zero: Fixed = AT_ZERO) -> Cases:
    """At λ = 0 the TD(λ) return is r_t + γ_t·V'_t, and A_t is the TD error."""
    for window in windows(GAE, TD_LAMBDA, steps=4, **at_zero):
        one_step = [(window["rewards", t] + times(window["gamma", t], successor(window, t)),) for t in range(window.T)]
        yield from agree(window, scan(TD_LAMBDA, window), one_step)
        yield from agree(window, column(GAE, window), values_added(one_step, window, -1))


@statement(
    scope="T ≤ 4, every flag pattern and choice of bootstrap, γ and λ one number each, z_{-1} = 0",
    twins=(
        Twin("the trace goes on behind an end", traces_see_ends=False),
        Twin("λ = 1 in the trace alone", trace_lambda=1),
    ),
)
def the_forward_view_is_the_backward_view(traces_see_ends: bool = True, trace_lambda: int | None = None) -> Cases:
    """Σ_t A_t·x_t = Σ_t δ_t·z_t: over a window GAE, which looks forward, adds up to what TD(λ) with eligibility
    traces, which look back, adds up to; TD(1) at λ = 1."""
    for window in windows(GAE, ELIGIBILITY_TRACES, steps=4, initial=0, ends=None):
        if isinstance(window.arguments["gamma"], list):
            continue
        flags = [traces_see_ends and ends(window, t) for t in range(window.T)]
        seen = window.but(ends=flags, lambda_=window.arguments["lambda_"] if trace_lambda is None else trace_lambda)
        traces = scan(ELIGIBILITY_TRACES, seen)
        steps, _ = pairs(GAE, window)
        backward = total(delta * traces[t][0] for t, (delta, _) in enumerate(steps))
        forward = total(x * window["inputs", t] for t, (x,) in enumerate(column(GAE, window)))
        yield Case(window, forward, backward)


@statement(
    scope="T ≤ 5, every pattern of flags, both conventions",
    twins=(Twin("β is 1 where the episode begins", inside=0),),
)
def prefix_sum_is_a_linear_scan_with_beta_zero_or_one(inside: int = 1) -> Cases:
    """C_t is the linear scan of x with β_t = 0 where an episode begins at t and 1 elsewhere."""
    for name, spec in PREFIX_SUM.items():
        for window in windows(spec, steps=5):
            flags = window.arguments["ends"]
            begins = flags if name == "starts_at" else [False, *flags[:-1]]
            scanned = window.but(alpha=window.arguments["inputs"], beta=[1 - inside if b else inside for b in begins])
            yield from agree(window, scan(spec, window), scan(LINEAR_SCAN, scanned))


@statement(
    scope="T ≤ 4, every pattern of ends, γ, λ per step or one number",
    twins=(Twin("λ is left out", decay=lambda window, t: window["gamma", t]),),
)
def eligibility_traces_are_a_linear_scan_and_undecayed_a_prefix_sum(
    decay: Callable[[Window, int], Any] = lambda window, t: window["gamma", t] * window["lambda_", t],
) -> Cases:
    """z_t is the linear scan of x with β_t = γ_t·λ_t, 0 behind an end; with γ = λ = 1 it is the prefix sum."""
    for window in windows(ELIGIBILITY_TRACES, steps=4):
        beta = [0 if t > 0 and window.flag("ends", t - 1) else decay(window, t) for t in range(window.T)]
        scanned = window.but(alpha=window.arguments["inputs"], beta=beta)
        yield from agree(window, scan(ELIGIBILITY_TRACES, window), scan(LINEAR_SCAN, scanned))
        undecayed = window.but(gamma=1, lambda_=1)
        yield from agree(window, scan(ELIGIBILITY_TRACES, undecayed), scan(PREFIX_SUM["ends_at"], undecayed))
