"""⊕ is a monoid on pairs, a reset absorbs, and folding pairs in any bracketing is the recurrence.

Holds over the exact reals (rounding, and what an underflow becomes, are for the tests). Sampled: bracketings of up to
5 pairs. Each entry of a pair is a symbol, which stands for every real that is not zero, or zero, since ⊕ selects
there; or undefined, where the statement says so.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from rlscan import affine

from .registry import Case, Cases, Twin, statement
from .scan import read
from .symbolic import UNDEFINED, Symbols
from .twins import multiplying_apply, multiplying_combine

Pair = tuple[Any, Any]
SYMBOLS = Symbols([f"{name}_{k}" for k in range(5) for name in ("alpha", "beta")] + ["x"])
X = SYMBOLS["x"]


def pairs(k: int, *, undefined: bool) -> Iterator[Pair]:
    """The k-th pair in all its forms."""
    garbage = (UNDEFINED,) if undefined else ()
    return itertools.product((SYMBOLS[f"alpha_{k}"], *garbage), (SYMBOLS[f"beta_{k}"], 0, *garbage))


def both(where: Any, left: Pair, right: Pair) -> Cases:
    yield Case((where, "alpha"), left[0], right[0])
    yield Case((where, "beta"), left[1], right[1])


def swapped(alpha_a: Any, beta_a: Any, alpha_b: Any, beta_b: Any) -> Pair:
    result: Pair = read(affine.combine)(alpha_b, beta_b, alpha_a, beta_a)
    return result


def half_selecting(alpha_a: Any, beta_a: Any, alpha_b: Any, beta_b: Any) -> Pair:
    """⊕ that selects in α alone."""
    return read(affine.apply)(alpha_b, beta_b, alpha_a), beta_b * beta_a


def minus(alpha_a: Any, beta_a: Any, alpha_b: Any, beta_b: Any) -> Pair:
    return alpha_b - beta_b * alpha_a, beta_b * beta_a


@statement(
    scope="a weight that is a symbol, zero or undefined; a value that is a symbol or undefined",
    twins=(Twin("it multiplies by zero", weighted=lambda weight, value: weight * value),),
)
def weighted_is_a_product_that_selects(weighted: Any = affine.weighted) -> Cases:
    """weighted(w, x) = w·x, and 0 where w = 0, whatever x is."""
    weight, value = SYMBOLS["beta_0"], SYMBOLS["alpha_0"]
    weighted = read(weighted)
    yield Case("symbols", weighted(weight, value), weight * value)
    yield Case("zero", weighted(0, value), 0)
    yield Case("one", weighted(1, value), value)
    yield Case("undefined value", weighted(weight, UNDEFINED), UNDEFINED)
    yield Case("undefined value, zero", weighted(0, UNDEFINED), 0)
    yield Case("undefined weight", weighted(UNDEFINED, value), UNDEFINED)


@statement(
    scope="each α a symbol or undefined, each β a symbol, zero or undefined: 216 triples",
    twins=(
        Twin("the wrong sign", combine=minus),
        Twin("β of a reset is multiplied", combine=half_selecting),
    ),
)
def combine_is_associative(combine: Any = affine.combine) -> Cases:
    """(c ⊕ b) ⊕ a = c ⊕ (b ⊕ a)."""
    combine = read(combine)
    for a, b, c in itertools.product(*(pairs(k, undefined=True) for k in range(3))):
        yield from both((a, b, c), combine(*a, *combine(*b, *c)), combine(*combine(*a, *b), *c))


@statement(
    scope="α a symbol or undefined, β a symbol or zero",
    twins=(Twin("(0, 0) is no identity", identity=(0, 0)), Twin("(1, 1) is no identity", identity=(1, 1))),
)
def zero_one_is_the_identity_of_combine(identity: Pair = (0, 1)) -> Cases:
    """p ⊕ (0, 1) = (0, 1) ⊕ p = p."""
    combine = read(affine.combine)
    for alpha, beta in itertools.product((SYMBOLS["alpha_0"], UNDEFINED), (SYMBOLS["beta_0"], 0)):
        yield from both("the identity behind", combine(*identity, alpha, beta), (alpha, beta))
        yield from both("the identity in front", combine(alpha, beta, *identity), (alpha, beta))


@statement(
    scope="behind it symbols, zero or undefined, as a pair and as a carry",
    twins=(
        Twin("it multiplies", combine=multiplying_combine, apply=multiplying_apply),
        Twin("β is multiplied", combine=half_selecting),
        Twin("the order is swapped", combine=swapped),
    ),
)
def a_reset_absorbs_what_lies_behind_it(combine: Any = affine.combine, apply: Any = affine.apply) -> Cases:
    """(α, 0) ⊕ p = (α, 0) and α + 0·x = α, whatever p and x are."""
    alpha = SYMBOLS["alpha_1"]
    for behind in pairs(0, undefined=True):
        yield from both(behind, read(combine)(*behind, alpha, 0), (alpha, 0))
    for x in (X, 0, UNDEFINED):
        yield Case(x, read(apply)(alpha, 0, x), alpha)


@statement(
    scope="every α and x a symbol or undefined, every β a symbol or zero: the step of the induction on T",
    twins=(Twin("the order is swapped", combine=swapped), Twin("the wrong sign", combine=minus)),
)
def folding_one_more_pair_is_one_more_step(combine: Any = affine.combine) -> Cases:
    """If p maps x behind the window to x_{t+1}, then (α_t, β_t) ⊕ p maps it to α_t + β_t·x_{t+1}."""
    apply = read(affine.apply)
    step = itertools.product((SYMBOLS["alpha_1"], UNDEFINED), (SYMBOLS["beta_1"], 0))
    behind = itertools.product((SYMBOLS["alpha_0"], UNDEFINED), (SYMBOLS["beta_0"], 0))
    for b, a, x in itertools.product(step, behind, (X, UNDEFINED)):
        yield Case((b, a, x), apply(*read(combine)(*a, *b), x), apply(*b, apply(*a, x)))


def spans(k: int) -> Iterator[tuple[Any, Any, Any]]:
    """The k-th span in all its forms: β not zero, or not used because a reset is in it."""
    alpha, beta = SYMBOLS[f"alpha_{k}"], SYMBOLS[f"beta_{k}"]
    for (beta_or_not, least), one in itertools.product(
        ((beta, beta), (UNDEFINED, UNDEFINED), (0, 0), (beta, 0), (UNDEFINED, 0)), (alpha, UNDEFINED)
    ):
        yield one, beta_or_not, least


def multiplying_join(alpha_a: Any, beta_a: Any, least_a: Any, alpha_b: Any, beta_b: Any, least_b: Any) -> Any:
    return alpha_b + beta_b * alpha_a, beta_b * beta_a, read(affine.join_spans)(0, 1, least_a, 0, 1, least_b)[2]


def forgetful_join(alpha_a: Any, beta_a: Any, least_a: Any, alpha_b: Any, beta_b: Any, least_b: Any) -> Any:
    return *read(affine.join_spans)(alpha_a, beta_a, least_a, alpha_b, beta_b, least_b)[:2], least_b


@statement(
    scope="each α and x a symbol or undefined; each β a symbol, zero or undefined, anything beside a reset: 100 pairs",
    twins=(
        Twin("it multiplies by zero", join=multiplying_join),
        Twin("a reset behind is forgotten", join=forgetful_join),
        Twin("β of a reset is kept", pair=lambda alpha, beta, least: (alpha, beta)),
    ),
)
def a_span_stands_for_its_pair(join: Any = affine.join_spans, pair: Any = affine.pair_of_span) -> Cases:
    """Spans joined stand for their pairs combined, a span does to x what its pair does, and a step's span stands for
    the step: so what the kernel folds is ⊕."""
    join, pair = read(join), read(pair)
    for a, b in itertools.product(spans(0), spans(1)):
        yield from both((a, b), pair(*join(*a, *b)), read(affine.combine)(*pair(*a), *pair(*b)))
        for x in (X, UNDEFINED):
            yield Case((a, x), read(affine.apply_span)(*a, x), read(affine.apply)(*pair(*a), x))
    for alpha, beta in pairs(0, undefined=True):
        yield from both("a step", pair(*read(affine.step_span)(alpha, beta)), (alpha, beta))


def bracketings(steps: list[Pair], combine: Any) -> Iterator[Pair]:
    """Every way to fold the pairs, the first of which lies behind."""
    if len(steps) == 1:
        yield steps[0]
    for cut in range(1, len(steps)):
        for a, b in itertools.product(bracketings(steps[:cut], combine), bracketings(steps[cut:], combine)):
            yield combine(*a, *b)


@statement(
    scope="up to 5 pairs in all bracketings, with every choice of resets among them",
    twins=(Twin("the order is swapped", combine=swapped), Twin("the wrong sign", combine=minus)),
)
def every_bracketing_is_the_recurrence(combine: Any = affine.combine) -> Cases:
    """However the pairs are bracketed, the folded pair maps the carry x to the solution of the recurrence."""
    for length in range(1, 6):
        for resets in itertools.product((False, True), repeat=length):
            steps = [(SYMBOLS[f"alpha_{k}"], 0 if reset else SYMBOLS[f"beta_{k}"]) for k, reset in enumerate(resets)]
            solution = X
            for alpha, beta in steps:
                solution = alpha + beta * solution
            for k, folded in enumerate(bracketings(steps, read(combine))):
                yield Case((length, resets, k), read(affine.apply)(*folded, X), solution)
