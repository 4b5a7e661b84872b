"""Fuzz your own estimator: NumPy, PyTorch or JAX, in your own tests.

    from rlscan.testing import check_gae

    def test_gae():
        check_gae(my_gae)

Random rollouts with every kind of boundary go through your function and through a plain float64 reference. Where they
differ by more than rounding can explain, `Counterexample`, an AssertionError, is raised, and says: the smallest rollout
that shows it, row and step, the boundary there, expected, got, and which known kinds of fault give the same numbers.

Your function is called by keyword, with rlscan's names: rewards, values, terminated, truncated, last_values,
truncation_values, gamma, lambda_ for GAE (each check's docstring has the others). Where yours differs, wrap it, as in
`check_gae(lambda *, terminated, **rest: my_gae(dones=terminated, **rest))`; and where it does not know something at
all, say so:

    layout        "NT" [N, T]; "TN" [T, N]; "T" [T], one row, what is one a row being 0-d
    framework     "numpy", "torch" (CPU tensors) or "jax": of the arrays that are passed
    flags         "ends_at": `terminated` is set on the step that ends. "starts_at": `starts` on the first step of an
                  episode, and `last_done` [N]: whether the window's last step ended one. The first step's start is
                  not used by any definition and takes either value (prefix_sum uses it)
    truncation    "values": `truncated`, and `truncation_values` of the final observations.
                  "next_values": `next_values`, V(s_{t+1}) at every step, in place of last_values and truncation_values.
                  "in_rewards": a truncated step comes as a termination whose reward has γ·V(final observation) added.
                  "none": only terminations are drawn, and nothing is said about time limits
    last_values   False: no `last_values`; every window drawn ends an episode, and others are not said to be right
    initial       False: no `initial` (traces, sums); every scan starts from 0
    gamma, lambda_  "number": a float; "steps": an array of one number a step; lambda_="one": no `lambda_`, which is 1
    unused        "finite": slots that the definition does not use (values behind a termination) hold finite garbage;
                  "nan": they hold NaN and Inf too, which multiplying by 0 does not remove, and some rewards are NaN
    results       what it returns, in order: results="advantages", results=("returns", "advantages")
    exact         True: equal bit for bit where float32 arithmetic does not round, in whatever order
    dtype         "float32", "float64", "float16", "bfloat16"; 16-bit results are rounded once, at the end
    flag_dtype    "bool", "uint8" or "float32"
    examples, max_steps, seed  how many rollouts, how long, and which

γ and λ are drawn too. A bound on rounding that is computed beside the reference is the only tolerance
(`rlscan.verify.tolerance`): it holds for a loop over time and for any bracketing of a scan, in float32 or wider.

For tests of your own there are the parts: `rollouts` (a Hypothesis strategy), `expected` (the reference) and `bound`.

>>> from hypothesis import HealthCheck, given, settings
>>> @settings(max_examples=10, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
... @given(rollouts("discounted_returns"))
... def test_returns(rollout):
...     a = rollout.arguments
...     assert expected(rollout)["returns"].shape == a["rewards"].shape == bound(rollout)["returns"].shape
>>> test_returns()
"""

from __future__ import annotations

try:
    import hypothesis  # noqa: F401  # to see whether it is there
except ImportError as error:
    raise ImportError("rlscan.testing needs Hypothesis: pip install 'rlscan[verify]'") from error

from typing import TYPE_CHECKING, Any

from .. import reference as reference
from ..verify.strategies import Example, examples
from .checks import (
    check_discounted_returns,
    check_eligibility_traces,
    check_gae,
    check_prefix_sum,
    check_retrace,
    check_td_lambda,
    check_vtrace,
)
from .fuzzing import bound, expected
from .options import options_of
from .report import Counterexample

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from typing_extensions import Unpack

    from .options import Convention

__all__ = [
    "Counterexample",
    "bound",
    "check_discounted_returns",
    "check_eligibility_traces",
    "check_gae",
    "check_prefix_sum",
    "check_retrace",
    "check_td_lambda",
    "check_vtrace",
    "expected",
    "reference",
    "rollouts",
]


def rollouts(
    estimator: str, *, small_numbers: bool = False, **convention: Unpack[Convention]
) -> SearchStrategy[Example]:
    """A strategy for rollouts with boundaries; `arguments` of what it draws are canonical [N, T] arrays by name.

    small_numbers: of few bits, on which float32 arithmetic is exact in any order. Options that do not concern the
    rollout are ignored.

    >>> strategy = rollouts("gae", truncation="none", max_steps=8)
    """
    own: dict[str, Any] = {"actions": 3} if estimator == "retrace" else {}
    options = options_of(estimator, dict(convention), **own)
    finite, closed = options.unused == "finite", not options.last_values
    return examples([options.setup()], small_numbers, options.max_steps, closed=closed, finite=finite)
