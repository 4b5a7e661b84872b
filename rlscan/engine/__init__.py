"""The engine: one kernel, one portable path, one plan per kind of call. Estimators only call `run`."""

from .checks import option
from .explain import Explanation, explain
from .plan import forced, path_for, run
from .tiles import Tile

__all__ = ["Explanation", "Tile", "explain", "forced", "option", "path_for", "run"]
