"""What the definitions speak of: an episode inside a window, the value of a successor, sums and products.

Written from the definitions alone. The sides of the proofs that are compared with the shipped functions use nothing
else.
"""

from collections.abc import Iterable
from typing import Any

from .window import Window


def ends(window: Window, t: int) -> bool:
    """The episode ends at step t, by either flag."""
    return window.flag("terminated", t) or window.flag("truncated", t)


def rest(window: Window, t: int) -> range:
    """The steps from t to the last one of its episode inside the window."""
    last = next((k for k in range(t, window.T) if ends(window, k)), window.T - 1)
    return range(t, last + 1)


def so_far(window: Window, t: int) -> range:
    """The steps up to t from the first one of its episode inside the window; `ends` flags the last of an episode."""
    first = next((k + 1 for k in reversed(range(t)) if window.flag("ends", k)), 0)
    return range(first, t + 1)


def goes_on(window: Window, t: int) -> bool:
    """Step t + 1 belongs to the episode of step t and is in the window."""
    return t + 1 in rest(window, t)


def successor(window: Window, t: int) -> Any:
    """V'_t, the value of s_{t+1}."""
    if window.flag("terminated", t):
        return 0
    if "next_values" in window.arguments:
        return window["next_values", t]
    if window.flag("truncated", t):
        return window["truncation_values", t]
    return window["last_values", t] if t == window.T - 1 else window["values", t + 1]


def consistent(window: Window) -> Window:
    """The window with `next_values`, where given, saying inside an episode what `values` say."""
    if "next_values" not in window.arguments:
        return window
    inside = [
        window["values" if goes_on(window, t) else "next_values", t + goes_on(window, t)] for t in range(window.T)
    ]
    return window.but(next_values=inside)


def window_value(window: Window) -> Any:
    """V'_{T-1}, where the last step reads one: V(s_T)."""
    return window["next_values" if "next_values" in window.arguments else "last_values", window.T - 1]


def reads_window_value(window: Window) -> bool:
    last = window.T - 1
    return not window.flag("terminated", last) and ("next_values" in window.arguments or not ends(window, last))


def times(weight: Any, value: Any) -> Any:
    """weight·value; a term whose weight is exactly zero is left out, whatever its value."""
    return 0 if weight == 0 else weight * value


def total(terms: Iterable[Any]) -> Any:
    result: Any = 0
    for term in terms:
        result = result + term
    return result


def product(factors: Iterable[Any]) -> Any:
    """The product, the factor nearest to the output step first: behind a factor of zero there is nothing to use."""
    result: Any = 1
    for factor in factors:
        result = times(result, factor)
    return result
