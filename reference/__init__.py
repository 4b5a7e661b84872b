"""The definitions as plain loops: one float64 NumPy function per estimator, written to be read and to be compared with.

Each function has the signature of its namesake in `rlscan`, takes anything NumPy can turn into an array, and returns
float64. A term whose weight is exactly 0 is left out, whatever its value: an unused slot may hold NaN or Inf.
"""

from .discounted_returns import discounted_returns
from .eligibility_traces import eligibility_traces
from .gae import GAE, gae
from .linear_scan import linear_scan
from .prefix_sum import prefix_sum
from .retrace import retrace
from .td_lambda import td_lambda
from .vtrace import VTrace, vtrace

__all__ = [
    "GAE",
    "VTrace",
    "discounted_returns",
    "eligibility_traces",
    "gae",
    "linear_scan",
    "prefix_sum",
    "retrace",
    "td_lambda",
    "vtrace",
]
