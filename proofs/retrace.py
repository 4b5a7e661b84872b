"""Retrace(λ) and its relatives: the shipped scan is the episode's sum of TD errors, traced by the ratios in between.

Holds over the exact reals (rounding is bounded by the tests). min(c̄, w) is a symbol of its own, so the clip is
covered both reached and not reached. Sampled: the length of the window, as each scope says, and two actions.
"""

import math
from collections.abc import Mapping
from typing import Any

from rlscan.engine.spec import Kind, Spec
from rlscan.retrace import TRACES

from .claims import UNDEFINED_IN_TURN, Definition, against, agree, with_undefined
from .episodes import product, rest, times, total
from .registry import Case, Cases, Twin, statement
from .scan import pairs, scan
from .symbolic import UNDEFINED, Reals, minimum
from .twins import MULTIPLYING, changed, ignoring, rewired, wrong_sign
from .window import Window, windows

SPEC = TRACES["retrace"][0]
NO_CLIP = {"c_clip": math.inf}


def expectation(window: Window, t: int) -> Any:
    """E_π[Q(s_{t+1}, ·)] with the policy at s_{t+1}; 0 where the MDP ended there."""
    if window.flag("terminated", t):
        return 0
    if "next_policy" not in window.arguments:
        return window["next_q_values", t]
    return total(
        times(probability, value)
        for probability, value in zip(window["next_policy", t], window["next_q_values", t], strict=True)
    )


def clipped_trace(window: Window, t: int) -> Any:
    return times(window["lambda_", t], minimum(window["c_clip", t], Reals.exp(window["log_ratios", t])))


def unclipped_trace(window: Window, t: int) -> Any:
    return times(window["lambda_", t], Reals.exp(window["log_ratios", t]))


def lambda_alone(window: Window, t: int) -> Any:
    return window["lambda_", t]


# tree backup is given log π(a_t|s_t) in the place of the log ratio
DEFINED = {
    "retrace": clipped_trace,
    "importance": unclipped_trace,
    "tree_backup": unclipped_trace,
    "q_lambda": lambda_alone,
}


def definition(trace: str, expected: Any = expectation) -> Definition:
    """Q_t + Σ_{k=t}^{end} (Π_{j=t+1}^{k} γ_{j-1}·c_j)·δ_k."""

    def delta(window: Window, t: int) -> Any:
        return window["rewards", t] + times(window["gamma", t], expected(window, t)) - window["q_values", t]

    def targets(window: Window) -> list[tuple[Any, ...]]:
        return [
            (
                window["q_values", t]
                + total(
                    times(
                        product(times(window["gamma", j - 1], DEFINED[trace](window, j)) for j in range(t + 1, k + 1)),
                        delta(window, k),
                    )
                    for k in rest(window, t)
                ),
            )
            for t in range(window.T)
        ]

    return targets


def policy_at_this_state(window: Window, t: int) -> Any:
    """The expectation under the policy one state too early."""
    policies = (
        [window["next_policy", max(k - 1, 0)] for k in range(window.T)] if "next_policy" in window.arguments else None
    )
    return expectation(window.but(next_policy=policies), t)


@statement(
    scope="T ≤ 4, every pattern of none, terminated, truncated, both; π and Q of two actions or their expectation; "
    "γ, λ per step or one number",
    twins=(
        Twin("β has the wrong sign", spec=wrong_sign(SPEC)),
        Twin("c_t in the place of c_{t+1}", spec=rewired(SPEC, log_ratio_next=Kind.VALUE)),
        Twin("λ_t in the place of λ_{t+1}", spec=rewired(SPEC, lambda_next=Kind.VALUE)),
        Twin("the policy at s_t", expected=policy_at_this_state),
        Twin("the trace goes on behind a truncation", spec=ignoring(SPEC, "truncated")),
        Twin("the termination flag is read one step late", spec=rewired(SPEC, terminated=Kind.PREVIOUS_FLAG)),
        Twin("the ratio is not clipped", trace="importance"),
    ),
)
def retrace_is_a_backward_affine_scan(spec: Spec = SPEC, expected: Any = expectation, trace: str = "retrace") -> Cases:
    """The target is Q_t + Σ_{k=t}^{end} (Π_{j=t+1}^{k} γ_{j-1}·c_j)·δ_k with c_j = λ_j·min(c̄, w_j)."""
    yield from against(definition(trace, expected), spec, steps=4)


@statement(
    scope="T ≤ 3, as retrace_is_a_backward_affine_scan; the log ratio given or, for Q(λ), absent",
    twins=(
        Twin("every trace is clipped", clip={}),
        Twin("Q(λ) reads the ratio", specs={**TRACES, "q_lambda": TRACES["importance"]}),
    ),
)
def every_trace_follows_its_definition(
    specs: Mapping[str, tuple[Spec, bool]] = TRACES, clip: Mapping[str, Any] = NO_CLIP
) -> Cases:
    """c_j is λ_j·w_j for importance sampling, λ_j·π(a_j|s_j) for tree backup and λ_j for Q(λ)."""
    for trace, (spec, clipped) in specs.items():
        if not clipped:
            yield from against(definition(trace), spec, steps=3, **clip)


@statement(
    scope=f"T ≤ 3, every flag pattern, π and Q or their expectation; {UNDEFINED_IN_TURN}",
    twins=(
        Twin("⊕ multiplies by zero", folding=MULTIPLYING),
        Twin(
            "the expectation is multiplied by zero",
            spec=changed(SPEC, lambda alpha, beta, expected_q_next, **_: (alpha + 0 * expected_q_next, beta)),
        ),
    ),
)
def retrace_uses_what_its_definition_uses(spec: Spec = SPEC, folding: Mapping[str, Any] | None = None) -> Cases:
    """An undefined reward, Q, π, log ratio, γ or λ makes exactly those results undefined whose sum contains it."""
    yield from with_undefined(definition("retrace"), spec, 3, folding)


@statement(
    scope="T ≤ 3, every flag pattern, π and Q or their expectation; γ, λ per step or one number",
    twins=(Twin("the last step is like any other", spec=rewired(SPEC, is_last=Kind.NO_FLAG)),),
)
def no_retrace_trace_leaves_the_window(spec: Spec = SPEC) -> Cases:
    """c_T = 0: β_{T-1} is 0, so that nothing behind the window has a weight."""
    for window in windows(spec, steps=3):
        yield Case(window, pairs(spec, window)[0][-1][1], 0)


@statement(
    scope="T ≤ 2, every flag pattern; the first action has probability 0 and an undefined value at every step",
    twins=(Twin("it has probability 1", probability=1),),
)
def an_action_of_probability_zero_is_not_read(probability: int = 0) -> Cases:
    """E_π leaves out the value of an action of probability 0."""
    for window in windows(SPEC, steps=2):
        if "next_policy" in window.arguments:
            steps = range(window.T)
            policies = [[probability, *window["next_policy", t][1:]] for t in steps]
            values = [[UNDEFINED, *window["next_q_values", t][1:]] for t in steps]
            others = [total(map(times, policies[t][1:], values[t][1:])) for t in steps]
            expected = definition("retrace")(window.but(next_policy=None, next_q_values=others))
            yield from agree(window, scan(SPEC, window.but(next_policy=policies, next_q_values=values)), expected)
