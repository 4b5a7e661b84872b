"""The examples, which are scripts, as modules to measure."""

import sys

from paper.bench import PAPER

sys.path.insert(0, str(PAPER.parent / "examples"))

import ppo
import spiking
import token_gae

__all__ = ["ppo", "spiking", "token_gae"]
