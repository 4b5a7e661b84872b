"""The bare recurrence in both directions: the shipped scan is the sum of the α's, each with the product of the β's
between.

Holds over the exact reals (rounding is bounded by the tests). Sampled: the length of the window, as each scope says.
A β is a symbol, which stands for every real that is not zero, or zero.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from rlscan.engine.spec import Kind, Slot, Spec
from rlscan.linear_scan import FORWARD, REVERSE

from .claims import agree
from .episodes import product, total
from .registry import Cases, Twin, statement
from .scan import scan
from .symbolic import UNDEFINED
from .twins import MULTIPLYING, rewired, wrong_sign
from .window import Window, windows

UNCARRIED = Slot("carry", Kind.NO_VALUE)


def forward(window: Window) -> list[tuple[Any, ...]]:
    """x_t = Σ_{k≤t} (Π_{j=k+1}^{t} β_j)·α_k + (Π_{j=0}^{t} β_j)·x_{-1}, but nothing from behind a β that is 0."""
    results = []
    for t in range(window.T):
        start = max((k for k in range(t + 1) if window["beta", k] == 0), default=-1)
        betas = {k: product(window["beta", j] for j in range(k + 1, t + 1)) for k in range(-1, t + 1)}
        x = total(betas[k] * window["alpha", k] for k in range(max(start, 0), t + 1))
        results.append((x + betas[-1] * window["initial", t] if start < 0 else x,))
    return results


def mirrored(window: Window) -> Window:
    return window.but(alpha=window.arguments["alpha"][::-1], beta=window.arguments["beta"][::-1])


def with_zeros(steps: int) -> Iterator[Window]:
    """Windows in which each β is a symbol or 0."""
    for window in windows(FORWARD, steps=steps):
        for zeros in itertools.product((False, True), repeat=window.T):
            yield window.but(beta=[0 if zero else window["beta", t] for t, zero in enumerate(zeros)])


@statement(
    scope="T ≤ 5, every choice of zeros among the β",
    twins=(
        Twin("the other direction", spec=REVERSE),
        Twin("β has the wrong sign", spec=wrong_sign(FORWARD)),
        Twin("the carry is lost", spec=rewired(FORWARD, carry=UNCARRIED)),
        Twin("β is read one step late", spec=rewired(FORWARD, beta=Kind.NEXT)),
    ),
)
def linear_scan_is_the_solution_of_the_recurrence(spec: Spec = FORWARD) -> Cases:
    """x_t = Σ_{k≤t} (Π_{j=k+1}^{t} β_j)·α_k + (Π_{j=0}^{t} β_j)·x_{-1}."""
    for window in with_zeros(5):
        yield from agree(window, scan(spec, window), forward(window))


@statement(
    scope="T ≤ 5, every choice of zeros among the β",
    twins=(Twin("forward", spec=FORWARD), Twin("the carry is lost", spec=rewired(REVERSE, carry=UNCARRIED))),
)
def reverse_linear_scan_is_the_mirror_image(spec: Spec = REVERSE) -> Cases:
    """With reverse=True step t of the window is step T-1-t of the forward scan of the mirrored window."""
    for window in with_zeros(5):
        yield from agree(window, scan(spec, window), forward(mirrored(window))[::-1])


@statement(
    scope="T ≤ 4, every choice of zeros among the β; one α, β or the carry undefined, each in turn",
    twins=(Twin("⊕ multiplies by zero", folding=MULTIPLYING),),
)
def linear_scan_uses_nothing_behind_a_zero(folding: Mapping[str, Any] | None = None) -> Cases:
    """An undefined α, β or carry makes exactly those results undefined that no zero β parts from it."""
    for window in with_zeros(4):
        poisoned = [window.at(name, t, UNDEFINED) for name in ("alpha", "beta") for t in range(window.T)]
        for other in (*poisoned, window.but(initial=UNDEFINED)):
            yield from agree(other, scan(FORWARD, other, **(folding or {})), forward(other))


@statement(
    scope="T ≤ 5, every cut, both directions, every choice of zeros among the β",
    twins=(Twin("the carry is not passed on", passed=False),),
)
def a_split_window_is_the_whole_window(passed: bool = True) -> Cases:
    """Scanning a window in two parts, the second with the last x of the first as its carry, is scanning the whole."""
    for window in with_zeros(5):
        for cut in range(1, window.T):
            for spec in (FORWARD, REVERSE):
                first, second = (slice(0, cut), slice(cut, None))[:: -1 if spec.reverse else 1]
                results: dict[int, tuple[Any, ...]] = {}
                carry = window["initial", 0]
                for part in (first, second):
                    steps = range(window.T)[part]
                    alpha, beta = (window.arguments[name][part] for name in ("alpha", "beta"))
                    piece = Window(len(steps), {"alpha": alpha, "beta": beta, "initial": carry}, window.symbols)
                    found = scan(spec, piece)
                    results.update(zip(steps, found, strict=True))
                    carry = found[0 if spec.reverse else -1][0] if passed else 0
                yield from agree(window, [results[t] for t in range(window.T)], scan(spec, window))
