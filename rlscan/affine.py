"""⊕, the only combine in the project, over pairs (alpha, beta) that stand for the map x ↦ alpha + beta·x.

    (α_B, β_B) ⊕ (α_A, β_A) = (α_B + β_B·α_A, β_B·β_A)        B nearer to the output step

Its identity is (0, 1). A pair with β = 0 is a reset: it forgets what lies behind it, so ⊕ *selects* there, and a NaN or
an infinity behind a reset stays behind it. Only an exact zero is a reset: a product that underflows keeps the smallest
positive number instead.

The kernel folds *spans* (alpha, beta, least), whose `least` is the smallest |β| in them, zero where one is a reset:
there their beta is not used. It is ⊕ with fewer selects between one product and the next.
"""

from .language import jit, tl


@jit
def weighted(weight, value):
    """weight·value; where the weight is exactly zero the value is not used, whatever it holds."""
    return tl.where(weight == 0, 0.0, weight * value)


@jit
def apply(alpha, beta, x):
    """alpha + beta·x: the pair applied to what lies behind it; a reset does not use it."""
    return tl.where(beta == 0, alpha, alpha + beta * x)


@jit
def combine(alpha_a, beta_a, alpha_b, beta_b):
    """(alpha_b, beta_b) ⊕ (alpha_a, beta_a); the scan hands over A, which lies behind, first."""
    product = beta_b * beta_a
    # an underflow is no reset: 1e-45 rounds to the smallest positive float32
    product = tl.where(product == 0, 1e-45, product)
    reset = (beta_a == 0) | (beta_b == 0)
    return apply(alpha_b, beta_b, alpha_a), tl.where(reset, 0.0, product)


@jit
def step_span(alpha, beta):
    """The span of one step."""
    return alpha, beta, tl.abs(beta)


@jit
def apply_span(alpha, beta, least, x):
    """`apply` for a span."""
    return tl.where(least == 0, alpha, alpha + beta * x)


@jit
def join_spans(alpha_a, beta_a, least_a, alpha_b, beta_b, least_b):
    """`combine` for spans: A, which lies behind, first."""
    product = beta_b * beta_a
    # as in `combine`; where a span holds a reset its beta is not used
    product = tl.where(product == 0, 1e-45, product)
    return apply_span(alpha_b, beta_b, least_b, alpha_a), product, tl.minimum(least_a, least_b)


@jit
def pair_of_span(alpha, beta, least):
    """The pair (alpha, beta) that a span stands for."""
    return alpha, tl.where(least == 0, 0.0, beta)
