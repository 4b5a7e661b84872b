"""What a function under test takes, gives and does not support, from the options of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypedDict

import numpy as np
import torch

from ..verify.compare import tensor
from ..verify.strategies import FLAGGED_BY_END, Example, Setup

RESULTS = {"gae": ("advantages", "returns"), "vtrace": ("targets", "advantages"), "retrace": ("targets",)}
RESULTS |= dict.fromkeys(("td_lambda", "discounted_returns"), ("returns",))
RESULTS |= {"eligibility_traces": ("traces",), "prefix_sum": ("sums",)}
NO_LAMBDA = ("discounted_returns", "prefix_sum")
# where a framework compiles for every shape
JAX_SHAPES = ((1, 1), (1, 2), (2, 3), (3, 8), (2, 17))


class Convention(TypedDict, total=False):
    """The options that every check takes; `rlscan.testing` says what they mean."""

    layout: str
    flags: str
    framework: str
    truncation: str
    last_values: bool
    initial: bool
    gamma: str
    lambda_: str
    dtype: str
    flag_dtype: str
    unused: str
    results: str | tuple[str, ...]
    exact: bool
    examples: int
    max_steps: int
    seed: int


CHOICES: dict[str, tuple[Any, ...]] = {
    "layout": ("NT", "TN", "T"),
    "flags": ("ends_at", "starts_at"),
    "framework": ("numpy", "torch", "jax"),
    "truncation": ("values", "next_values", "in_rewards", "none"),
    "gamma": ("number", "steps"),
    "lambda_": ("number", "steps", "one"),
    "dtype": ("float32", "float64", "float16", "bfloat16"),
    "flag_dtype": ("bool", "uint8", "float32"),
    "unused": ("finite", "nan"),
    "advantage": ("impala", "mixed"),
    "trace": ("retrace", "importance", "tree_backup", "q_lambda"),
    "last_values": (True, False),
    "initial": (True, False),
    "exact": (True, False),
}


@dataclass(frozen=True)
class Options:
    """One function's convention. `settings` are the estimator's own, such as clips: the function has them inside."""

    estimator: str
    settings: tuple[tuple[str, Any], ...] = ()
    actions: int = 0
    layout: str = "NT"
    flags: str = "ends_at"
    framework: str = "numpy"
    truncation: str = "values"
    last_values: bool = True
    initial: bool = True
    gamma: str = "number"
    lambda_: str = "number"
    dtype: str = "float32"
    flag_dtype: str = "bool"
    unused: str = "finite"
    results: tuple[str, ...] = ()
    exact: bool = False
    examples: int = 200
    max_steps: int = 40
    seed: int = 0

    @property
    def forward(self) -> bool:
        return self.estimator in FLAGGED_BY_END

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        return tuple(s for s in JAX_SHAPES if s[1] <= self.max_steps) if self.framework == "jax" else ()

    def setup(self) -> Setup:
        """The kind of call that the strategies draw rollouts for."""
        return Setup(
            self.estimator,
            dtype=self.dtype,
            flags=self.flag_dtype,
            layout=self.layout,
            truncates=not self.forward and self.truncation != "none",
            bootstrap="next" if self.truncation == "next_values" else "last",
            gamma=self.gamma,
            lambda_="number" if self.lambda_ == "one" else self.lambda_,
            options=self.settings,
            actions=self.actions,
        )


def options_of(estimator: str, convention: dict[str, Any], **own: Any) -> Options:
    """Checked options; `own` are the estimator's."""
    known = {field.name for field in fields(Options)} - {"estimator", "settings", "actions"}
    known -= {"initial"} if estimator not in FLAGGED_BY_END else {"truncation", "last_values"}
    for name, weight in (("lambda_", NO_LAMBDA), ("gamma", ("prefix_sum",))):
        known -= {name} if estimator in weight else set()
    actions = own.pop("actions", 0)
    for name, value in (*convention.items(), *own.items()):
        if name not in known and name not in own:
            raise TypeError(f"check_{estimator} has no option {name!r}; it has {', '.join(sorted({*known, *own}))}")
        if name in CHOICES and value not in CHOICES[name]:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, CHOICES[name]))}, got {value!r}")
        if name.endswith("clip") and value is not None and not (isinstance(value, int | float) and value >= 0):
            raise ValueError(f"{name} must be a number that is not negative, or None for no clip, got {value!r}")
        least = {"examples": 2, "max_steps": 1, "seed": 0}.get(name)
        if least is not None and not (isinstance(value, int) and value >= least):
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    given = convention.get("results", ())
    results = (given,) if isinstance(given, str) else tuple(given) or RESULTS[estimator]
    if not set(results) <= set(RESULTS[estimator]) or len(set(results)) < len(results):
        raise ValueError(
            f"results must name what the function returns of {RESULTS[estimator]}, in order; got {given!r}"
        )
    if estimator == "prefix_sum":
        own["boundary"] = convention.get("flags", "ends_at")
    options = Options(estimator, tuple(own.items()), actions, **{**convention, "results": results})
    refuse(options)
    return options


def refuse(options: Options) -> None:
    """What cannot go together."""
    if options.estimator == "retrace" and options.truncation not in ("values", "none"):
        raise ValueError('retrace reads next_q_values at every step: truncation must be "values" or "none"')
    if not options.forward and options.flags == "starts_at" and options.truncation not in ("none", "in_rewards"):
        raise ValueError(
            'flags="starts_at" cannot tell a truncation from a termination: say truncation="none" (only terminations '
            'are drawn) or truncation="in_rewards" (γ·V(final observation) comes with the reward of a truncated step)'
        )
    if options.truncation == "next_values" and not options.last_values:
        raise ValueError('truncation="next_values" holds V(s_T) too: leave last_values out')
    if options.framework == "numpy" and options.dtype == "bfloat16":
        raise ValueError('NumPy has no bfloat16: say framework="torch" or "jax"')
    if options.framework == "jax" and options.dtype == "float64" and not jax().config.jax_enable_x64:
        raise ValueError('JAX has float64 switched off: call jax.config.update("jax_enable_x64", True) first')


def jax() -> Any:
    try:
        import jax
    except ImportError as error:
        raise ImportError("framework='jax' needs JAX, which is not installed: pip install jax") from error
    return jax


def definition_of(options: Options, example: Example) -> dict[str, Any]:
    """The arguments by which the function is called, in its convention, as canonical arrays."""
    a = dict(example.arguments)
    if options.estimator == "prefix_sum" and options.flags == "starts_at":
        a["starts"] = a.pop("ends")
    elif options.flags == "starts_at" and options.forward:
        ends = a.pop("ends")
        a["starts"] = np.concatenate([np.zeros_like(ends[:, :1]), ends[:, :-1]], 1)
    if options.truncation == "in_rewards":
        cut = a.pop("truncated")
        bootstrap = np.where(cut & ~a["terminated"], a["gamma"] * a.pop("truncation_values"), 0.0)
        a["rewards"] = a["rewards"] + bootstrap
        a["terminated"] = a["terminated"] | cut
    if options.flags == "starts_at" and not options.forward:
        ends = a.pop("terminated")
        first = np.arange(len(ends))[:, None] % 2 == 0  # no definition reads it
        a |= {"starts": np.concatenate([first, ends[:, :-1]], 1), "last_done": ends[:, -1]}
    unsupported = {"last_values"} if not options.last_values else set()
    unsupported |= {"initial"} if not options.initial else set()
    unsupported |= {"lambda_"} if options.lambda_ == "one" else set()
    return {name: value for name, value in a.items() if name not in unsupported}


def arguments_for(options: Options, example: Example) -> dict[str, Any]:
    """The same as arrays of the function's framework, dtype and layout."""
    return {
        name: _array(options, example.setup, name, value) for name, value in definition_of(options, example).items()
    }


def _array(options: Options, setup: Setup, name: str, value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    like = {"starts": "ends", "last_done": "last_values"}.get(name, name)  # a flag a step; one a row
    x = tensor(setup, like, value, "cpu")
    if name == "last_done":
        x = x.to(getattr(torch, options.flag_dtype))
    if options.framework == "torch":
        return x
    if options.framework == "numpy":
        return np.array(x.numpy())
    exact = x.float() if x.dtype == torch.bfloat16 else x
    return jax().numpy.asarray(exact.numpy(), dtype=str(x.dtype).removeprefix("torch."))


def canonical(options: Options, x: Any) -> torch.Tensor:
    """A result as a [N, T] tensor, whatever it came as."""
    if not isinstance(x, torch.Tensor):
        array = np.asarray(x)
        x = torch.from_numpy(array.astype(np.float32) if array.dtype.name == "bfloat16" else np.array(array))
    found: torch.Tensor = x
    if not found.dtype.is_floating_point:
        raise TypeError(f"it returned {found.dtype}; results are floating point")
    if options.layout == "TN" and found.ndim == 2:
        return found.transpose(0, 1)
    return found[None] if options.layout == "T" else found


def call(function: Callable[..., Any], options: Options, example: Example) -> tuple[torch.Tensor, ...]:
    """The function's results, in the order of `options.results`. An argument that it changed is an error."""
    arguments = arguments_for(options, example)
    before: dict[str, Any] = {name: np.array(x) for name, x in arguments.items() if isinstance(x, np.ndarray)}
    before |= {name: x.clone() for name, x in arguments.items() if isinstance(x, torch.Tensor)}
    with np.errstate(all="ignore"):
        found = function(**arguments)
    for name, x in before.items():
        was, now = (torch.as_tensor(y).double().nan_to_num(7.0) for y in (x, arguments[name]))
        if not torch.equal(was, now):
            raise ValueError(f"it changed its argument {name}")
    results = tuple(found) if isinstance(found, tuple | list) else (found,)
    if len(results) != len(options.results):
        every = RESULTS[options.estimator]
        raise Misuse(
            f"the function returned {len(results)} results, and {len(options.results)} are expected, "
            f"{options.results}. Say which of {every} it returns, in order: results=..."
        )
    return tuple(canonical(options, x) for x in results)


class Misuse(TypeError):  # noqa: N818  # what the caller did, not what went wrong
    """The check was asked for something that does not fit the function."""
