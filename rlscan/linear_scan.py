"""The recurrence itself, with coefficients of one's own.

    x_t = α_t + β_t·x_{t-1}, x_{-1} = initial  (forward)        x_t = α_t + β_t·x_{t+1}, x_T = initial  (reverse)

As a scan: α and β as given, either direction, carry `initial`.
"""

import torch

from .engine import run
from .engine.spec import Argument, Kind, Role, Slot, Spec
from .language import jit, tl  # noqa: F401  # the interpreter wants tl in sight of every jit function


@jit
def coefficients(alpha, beta):
    return alpha, beta


@jit
def outputs(x, x_next, alpha, beta):
    return (x,)


def _slots(given: frozenset[str]) -> tuple[Slot, ...]:
    return (
        Slot("alpha", Kind.VALUE, "alpha"),
        Slot("beta", Kind.VALUE, "beta"),
        Slot("carry", Kind.ROW, "initial"),
    )


FORWARD, REVERSE = (
    Spec(
        name="linear_scan",
        arguments=(Argument("alpha", Role.DATA), Argument("beta", Role.BETA), Argument("initial", Role.ROW)),
        slots=_slots,
        coefficients=coefficients,
        outputs=outputs,
        reverse=reverse,
    )
    for reverse in (False, True)
)


def linear_scan(
    alpha: torch.Tensor,
    beta: torch.Tensor,
    *,
    initial: torch.Tensor | float = 0.0,
    reverse: bool = False,
    time_dim: int = -1,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Solves the affine recurrence. Where β_t is exactly 0 nothing behind step t is used.

    Args:
        alpha: α_t for t in [0, T): [N, T], [T], [N, T, F...], or [T, N, F...] with time_dim=0; floating.
        beta: β_t, of the shape of `alpha` or [N, T]. Products of β over any stretch of steps must stay within the range
            of normal numbers; with β in [-1, 1] they cannot overflow, and one that underflows costs at most 1e-45·|x|.
        initial: the x behind the window (before step 0, or after step T-1 with reverse=True), a number or [N, F...].
        reverse: False to depend on t-1, True on t+1.
        time_dim: -1 or 1 for [N, T], 0 or -2 for [T, N].
        out: a tensor of the shape of `alpha` and the result's dtype to write to.

    Returns:
        x_t for t in [0, T), of the shape of `alpha`.

    Raises:
        ValueError: a shape or device that does not fit; TypeError: a dtype or type that does not fit.

    >>> linear_scan(torch.ones(1, 3), torch.full((1, 3), 0.5))
    tensor([[1.0000, 1.5000, 1.7500]])
    """
    if not isinstance(reverse, bool):
        raise TypeError(f"reverse is {reverse!r}; it should be True or False")
    return run(REVERSE if reverse else FORWARD, (alpha, beta, initial), time_dim, out)[0]
