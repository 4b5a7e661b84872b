"""The language in which the proofs read the jit functions: real numbers as polynomials in symbols.

A polynomial of SymPy's sparse rings is always in normal form, so two of them are equal for all values of their
symbols exactly if they are equal as objects: every comparison here is a theorem about the exact reals (rounding is
bounded by the tests). Three things go beyond polynomials:

- `UNDEFINED` is what a NaN is to a float: whatever is computed from it is undefined, 0·UNDEFINED too. Only a select
  gets rid of it.
- min(clip, w) of two symbols is a symbol of its own, so that both outcomes of a clip are covered at once.
- a log ratio is a `Log` and is compared with other logs only.
"""

import functools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import sympy
from sympy import QQ, Symbol
from sympy.polys.orderings import lex
from sympy.polys.rings import PolyRing


def exact(number: Any) -> Any:
    """A Python number as the rational that it is."""
    if isinstance(number, bool) or not isinstance(number, int | float | Fraction):
        raise TypeError(f"{number!r} is not a number")
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number if isinstance(number, int) else QQ(*number.as_integer_ratio())


class Real:
    """A polynomial in symbols, or, with `poly` None, undefined."""

    __hash__ = None  # type: ignore[assignment]  # equality is that of polynomials, and UNDEFINED differs from itself
    __slots__ = ("poly",)

    def __init__(self, poly: Any) -> None:
        self.poly = poly

    def __add__(self, other: Any) -> "Real":
        theirs = other.poly if isinstance(other, Real) else exact(other)
        return UNDEFINED if self.poly is None or theirs is None else Real(self.poly + theirs)

    def __mul__(self, other: Any) -> "Real":
        theirs = other.poly if isinstance(other, Real) else exact(other)
        return UNDEFINED if self.poly is None or theirs is None else Real(self.poly * theirs)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "Real":
        return self * -1

    def __sub__(self, other: Any) -> "Real":
        return Real.__add__(self, other * -1)

    def __rsub__(self, other: Any) -> "Real":
        return Real.__add__(self * -1, other)

    def __eq__(self, other: object) -> bool:
        theirs = other.poly if isinstance(other, Real) else exact(other)
        return self.poly is not None and theirs is not None and bool(self.poly == theirs)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __gt__(self, other: object) -> bool:
        if self.poly is None:
            return False  # as with a NaN
        raise TypeError("symbols have no order: only logs are compared")

    def __repr__(self) -> str:
        return "undefined" if self.poly is None else str(self.poly.as_expr())


UNDEFINED = Real(None)


def same(left: Any, right: Any) -> bool:
    """Equal for all values of the symbols, or undefined alike."""
    if any(isinstance(x, Real) and x.poly is None for x in (left, right)):
        return all(isinstance(x, Real) and x.poly is None for x in (left, right))
    return bool(left == right)


class Symbols:
    """Named symbols that can be computed with together, and with those of `numbers`, but with no others."""

    def __init__(self, names: Iterable[str], numbers: "Symbols | None" = None) -> None:
        self.names = tuple(names)
        domain: Any = QQ if numbers is None else numbers.ring.to_domain()
        self.ring: Any = PolyRing([Symbol(name) for name in self.names], domain, lex)
        self._by_name = {name: Real(gen) for name, gen in zip(self.names, self.ring.gens, strict=True)}

    def __getitem__(self, name: str) -> Real:
        return self._by_name[name]


def derivative(x: Any, symbol: Real) -> Any:
    """∂x/∂symbol."""
    return Real(x.poly.diff(symbol.poly)) if isinstance(x, Real) else 0


@functools.cache
def _minimum_symbol(clip: Any, ratio: Any) -> Real:
    """The symbol that stands for the minimum of a symbol and a symbol or 1."""
    name = f"min({clip.as_expr()}, {1 if ratio == 1 else ratio.as_expr()})"
    ring = clip.ring if ratio == 1 else ratio.ring
    return Real(ring.gens[[str(symbol) for symbol in ring.symbols].index(name)])


def minimum(clip: Any, ratio: Any) -> Any:
    """min(clip, ratio) of a clip and a ratio that are positive symbols or numbers; math.inf is no clip."""
    if isinstance(ratio, Real) and ratio.poly is None:
        return UNDEFINED  # as with a NaN
    if not isinstance(clip, Real) and (not isinstance(ratio, Real) or clip in (0, math.inf)):
        return ratio if clip == math.inf else 0 if clip == 0 else min(clip, ratio)
    if isinstance(clip, Real) and (isinstance(ratio, Real) or ratio in (0, 1)):
        return 0 if ratio == 0 else _minimum_symbol(clip.poly, ratio.poly if isinstance(ratio, Real) else 1)
    raise TypeError(f"min({clip!r}, {ratio!r}) is not a polynomial")


class Greater:
    """The condition left > right, of two positive numbers, where it depends on the values of symbols."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right


class Log:
    """log x of a positive x that is not 1."""

    def __init__(self, argument: Any) -> None:
        self.argument = argument

    def __gt__(self, other: Any) -> Any:
        return _greater(self, other)

    def __lt__(self, other: Any) -> Any:
        return _greater(other, self)


def _greater(left: Any, right: Any) -> Any:
    """left > right, each a Log or one of 0 = log 1, -inf = log 0 and inf."""
    if right == math.inf or left == -math.inf:
        return False
    if left == math.inf or right == -math.inf:
        return True
    left, right = (Reals.exp(x) for x in (left, right))
    return Greater(left, right) if isinstance(left, Real) or isinstance(right, Real) else left > right


class Reals:
    """The part of `tl` that coefficient functions use, on `Real`s and Python numbers."""

    @staticmethod
    def where(condition: Any, chosen: Any, otherwise: Any) -> Any:
        if isinstance(condition, Greater):
            if not (same(chosen, condition.right) and same(otherwise, condition.left)):
                raise TypeError(f"of the selects between {chosen!r} and {otherwise!r} only the minimum is a polynomial")
            return minimum(condition.right, condition.left)
        if not isinstance(condition, bool):
            raise TypeError(f"{condition!r} is not a condition")
        return chosen if condition else otherwise

    @staticmethod
    def abs(x: Any) -> Any:
        """Of an absolute value it is asked only whether it is zero."""
        return x

    @staticmethod
    def minimum(x: Any, y: Any) -> Any:
        """The minimum of two absolute values, of which it is asked only whether it is zero."""
        return 0 if x == 0 or y == 0 else x

    @staticmethod
    def exp(x: Any) -> Any:
        if isinstance(x, Log):
            return x.argument
        if isinstance(x, Real) and x.poly is None:
            return UNDEFINED
        if not isinstance(x, Real) and x in (0, -math.inf):
            return 1 if x == 0 else 0
        raise TypeError(f"exp({x!r}) is not a polynomial")

    @staticmethod
    def log(x: Any) -> Any:
        if not isinstance(x, Real) and x in (0, 1, math.inf):
            return {0: -math.inf, 1: 0, math.inf: math.inf}[x]
        return Log(x)


class Expressions:
    """The same part of `tl` on SymPy expressions, whose assumptions decide conditions; log 0 is −∞ as with floats."""

    @staticmethod
    def where(condition: Any, chosen: Any, otherwise: Any) -> Any:
        if condition not in (sympy.true, sympy.false):
            raise TypeError(f"{condition!r} is not decided")
        return chosen if condition else otherwise

    exp = staticmethod(sympy.exp)

    @staticmethod
    def log(x: Any) -> Any:
        return -sympy.oo if x == 0 else sympy.log(x)
