"""Reinforcement-learning credit assignment as one affine scan."""

from . import boundaries
from ._version import __version__
from .discounted_returns import discounted_returns
from .eligibility_traces import eligibility_traces
from .engine import Explanation, explain
from .gae import GAE, gae
from .linear_scan import linear_scan
from .prefix_sum import prefix_sum
from .retrace import retrace
from .td_lambda import td_lambda
from .vtrace import VTrace, vtrace

__all__ = [
    "GAE",
    "Explanation",
    "VTrace",
    "__version__",
    "boundaries",
    "discounted_returns",
    "eligibility_traces",
    "explain",
    "gae",
    "linear_scan",
    "prefix_sum",
    "retrace",
    "td_lambda",
    "vtrace",
]
