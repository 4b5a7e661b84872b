"""Laws of the estimators that need no reference, as properties on every path."""

from typing import Any

import numpy as np
from properties import (
    Draw,
    Path,
    agree,
    answers,
    arrays,
    finite,
    is_exactly,
    joined,
    law,
    like,
    limits,
    same_bits,
    steps_of,
    widened,
    with_setup,
)

from rlscan.verify.compare import FLAGS
from rlscan.verify.strategies import BOOTSTRAPPED, ESTIMATORS, TILES, Example, Setup, fill
from rlscan.verify.tolerance import assert_within, successors

BACKWARD = ("gae", "vtrace", "retrace", "td_lambda", "discounted_returns")


def bootstraps_last(setup: Setup) -> bool:
    return setup.bootstrap == "last"


def several_steps(example: Example) -> bool:
    return example.steps > 1


def monte_carlo(example: Example) -> Any:
    """Discounted sums of the rewards up to the end of the episode or of the window, then of the value there."""
    a = example.arguments
    result = np.zeros_like(a["rewards"])
    rows, steps = result.shape[:2]
    gamma, last = np.broadcast_to(a["gamma"], (rows, steps)), np.broadcast_to(a["last_values"], result[:, 0].shape)
    for n, first in np.ndindex(rows, steps):
        discount = 1.0
        for t in range(first, steps):
            result[n, first] += discount * a["rewards"][n, t]
            discount *= gamma[n, t]
            if a["terminated"][n, t] or discount == 0:
                break
            if "truncated" in a and a["truncated"][n, t]:
                result[n, first] += discount * a["truncation_values"][n, t]
                break
            if t == steps - 1:
                result[n, first] += discount * last[n]
    return result


@law("gae", where=bootstraps_last)
def test_lambda_one_is_monte_carlo(path: Path, draw: Draw) -> None:
    exact, example, _ = draw
    one = like(example, lambda_=1.0)
    sums = like(one, estimator="discounted_returns", drop=("values", "lambda_"))
    if exact:
        is_exactly(path, answers(path, sums)[0], monte_carlo(sums))
    else:
        assert_within(answers(path, sums)[0], monte_carlo(sums), limits(path, sums)[0], "discounted_returns")
    agree(path, exact, like(one, estimator="td_lambda"), sums)
    agree(path, exact, one, sums, pairs=[(1, 0)])


@law("gae", where=bootstraps_last)
def test_gae_plus_value_is_td_lambda(path: Path, draw: Draw) -> None:
    exact, example, _ = draw
    agree(path, exact, example, like(example, estimator="td_lambda"), pairs=[(1, 0)])


@law("gae", where=bootstraps_last)
def test_vtrace_on_policy_is_td_lambda(path: Path, draw: Draw) -> None:
    exact, example, _ = draw
    on_policy = np.zeros_like(example.arguments["terminated"], float)
    vtrace = like(example, estimator="vtrace", options=(("advantage", "mixed"),), log_ratios=on_policy)
    agree(path, exact, vtrace, like(example, estimator="td_lambda"), pairs=[(0, 0)])
    agree(path, exact, vtrace, example, pairs=[(0, 1), (1, 0)])


@law("gae", where=bootstraps_last, features=(), lambda_="number")
def test_retrace_on_policy_is_td_lambda(path: Path, draw: Draw) -> None:
    exact, example, seed = draw
    trace = ("retrace", "importance", "tree_backup", "q_lambda")[seed % 4]
    on_policy = None if trace == "q_lambda" else np.zeros_like(example.arguments["rewards"])
    retrace = like(
        example,
        estimator="retrace",
        options=(("trace", trace),),
        drop=("values", "last_values", "truncation_values"),
        q_values=example.arguments["values"],
        next_q_values=successors(example),
        log_ratios=on_policy,
    )
    agree(path, exact, retrace, like(example, estimator="td_lambda"))


@law(*BOOTSTRAPPED, where=bootstraps_last)
def test_next_values_are_another_spelling_of_the_bootstrap(path: Path, draw: Draw) -> None:
    exact, example, _ = draw
    agree(
        path, exact, example, like(example, drop=("last_values", "truncation_values"), next_values=successors(example))
    )


@law(
    *("discounted_returns", "eligibility_traces", "prefix_sum", "linear_scan"),
    exact=(True,),
    dtypes=("float32", "float64"),
    where=bootstraps_last,
    when=several_steps,
)
def test_split_window_is_the_whole_window(path: Path, draw: Draw) -> None:
    """The carry of the part behind is G_k for returns, z_{k-1} or C_{k-1} for sums, x for the bare scan."""
    _, example, seed = draw
    steps, options = example.steps, dict(example.setup.options)
    k = 1 + seed % (steps - 1)
    whole = answers(path, example)[0]
    before, after = steps_of(example, 0, k), steps_of(example, k, steps)
    backward = example.setup.estimator == "discounted_returns" or options.get("reverse", False)
    if backward:
        name = "initial" if "reverse" in options else "last_values"
        before = like(before, **{name: arrays([whole])[0][:, k]})
    else:
        carry = arrays([whole])[0][:, k - 1]
        if "ends" in example.arguments and options.get("boundary") != "starts_at":
            # a flag on the last step before the cut ends that episode: the part behind it begins with nothing
            carry = np.where(widened(example.arguments["ends"][:, k - 1], example), 0.0, carry)
        after = like(after, initial=carry)
    same_bits(answers(path, before), [whole[:, :k]])
    same_bits(answers(path, after), [whole[:, k:]])


@law(*ESTIMATORS, exact=(False,))
def test_permuting_rows_permutes_results(path: Path, draw: Draw) -> None:
    _, example, seed = draw
    rows = len(next(iter(example.arguments.values())))
    order = np.random.default_rng(seed).permutation(rows)
    changed = {name: x[order] for name, x in example.arguments.items() if np.ndim(x)}
    same_bits(answers(path, like(example, **changed)), [x[order] for x in answers(path, example)])


@law(*ESTIMATORS, exact=(False,), where=lambda setup: setup.layout != "T")
def test_neighbour_rows_do_not_matter(path: Path, draw: Draw) -> None:
    _, example, seed = draw
    rng = np.random.default_rng(seed)
    rows = len(next(iter(example.arguments.values())))
    other = fill(example.setup, rng.integers(0, 4, (rows, example.steps)), rng, exact=False).arguments
    fits = all(np.shape(other[name]) == np.shape(x) for name, x in example.arguments.items() if np.ndim(x))
    among = {
        name: np.concatenate([other[name], x, other[name]]) if fits else np.concatenate([x, x, x])
        for name, x in example.arguments.items()
        if np.ndim(x)
    }
    same_bits([x[rows : 2 * rows] for x in answers(path, like(example, **among))], answers(path, example))


def end_at(example: Example, k: int) -> None:
    """Puts an episode's end on step k."""
    a, options = example.arguments, dict(example.setup.options)
    if "beta" in a:
        a["beta"][:, k if options.get("reverse") else k + 1] = 0.0
    elif options.get("boundary") == "starts_at":
        a["ends"][:, k + 1] = True
    else:
        a["terminated" if "terminated" in a else "ends"][:, k] = True


@law(*ESTIMATORS, exact=(False,), when=several_steps)
def test_an_episode_does_not_depend_on_what_follows(path: Path, draw: Draw) -> None:
    """Nor, for sums that run forward, on what went before."""
    _, example, seed = draw
    rng, steps = np.random.default_rng(seed), example.steps
    rows = len(next(iter(example.arguments.values())))
    k = seed % (steps - 1)
    other = fill(example.setup, rng.integers(0, 4, (rows, steps)), rng, exact=False, hazard=True)
    # numbers stay, and so does what the other data has in another rank or does without
    kept = {k: x for k, x in example.arguments.items() if not np.ndim(x) or np.shape(x) != np.shape(other.arguments[k])}
    other = like(other, **kept)
    end_at(example, k)
    end_at(other, k)
    backward = example.setup.estimator in BACKWARD or dict(example.setup.options).get("reverse")
    if backward:
        changed = joined(example, other, k + 1)
        same_bits([x[:, : k + 1] for x in answers(path, changed)], [x[:, : k + 1] for x in answers(path, example)])
    else:
        changed = joined(other, example, k + 1)
        changed = like(changed, initial=other.arguments["initial"])
        same_bits([x[:, k + 1 :] for x in answers(path, changed)], [x[:, k + 1 :] for x in answers(path, example)])


@law(*ESTIMATORS)
def test_padding_lanes_do_not_matter(path: Path, draw: Draw) -> None:
    exact, example, _ = draw
    agree(path, exact, example, *(with_setup(example, tile=tile) for tile in TILES if tile != example.setup.tile))


@law(*ESTIMATORS, exact=(False,), when=finite)
def test_unused_slots_may_hold_anything(path: Path, draw: Draw) -> None:
    """What is not finite in these examples is garbage in slots that the definition does not use."""
    example = draw.example
    a, options = example.arguments, dict(example.setup.options)
    clean = {name: np.where(np.isfinite(x), x, 0.0) for name, x in a.items() if np.ndim(x) and name not in FLAGS}
    dirty: dict[str, Any] = {}
    if example.setup.estimator == "td_lambda":
        dirty["values"] = a["values"].copy()
        dirty["values"][:, 0] = np.nan
    if np.ndim(a.get("initial", 0.0)) and example.setup.estimator != "eligibility_traces":
        unused = np.zeros(1, bool)
        if "beta" in a:
            unused = a["beta"][:, -1 if options.get("reverse") else 0] == 0
        elif options.get("boundary") == "starts_at":
            unused = a["ends"][:, 0]
        unused = widened(unused, example) if unused.ndim == 1 else unused
        dirty["initial"] = np.where(unused, np.nan, a["initial"])
    same_bits(answers(path, like(example, **dirty)), answers(path, like(example, **clean)))


@law("gae", "vtrace", "td_lambda", "discounted_returns", exact=(False,), bootstrap="next", gamma="steps")
def test_a_weight_of_zero_selects(path: Path, draw: Draw) -> None:
    """Where γ_t is 0 nothing after s_t counts; where a ratio is 0 nothing of its step does."""
    _, example, seed = draw
    a = example.arguments
    gamma = np.where(np.random.default_rng(seed).random(a["gamma"].shape) < 0.5, 0.0, a["gamma"])
    unused = widened(gamma == 0, example)
    changes: list[dict[str, Any]] = [
        {"gamma": gamma, "next_values": np.where(unused, garbage, a["next_values"])}
        for garbage in (np.nan, np.inf, 0.0)
    ]
    if "log_ratios" in a:
        ratios = np.where(gamma == 0, -1000.0, a["log_ratios"])
        changes = [{"log_ratios": ratios, "rewards": np.where(unused, g, a["rewards"])} for g in (np.nan, np.inf, 0.0)]
    first, *others = [answers(path, like(example, **change)) for change in changes]
    for other in others:
        same_bits(first, other)


@law(*ESTIMATORS, exact=(False,), when=finite)
def test_nan_stays_in_its_episode(path: Path, draw: Draw) -> None:
    """It reaches every earlier step (later, for sums that run forward) of its row and episode, and nothing else."""
    _, example, seed = draw
    a, options = dict(example.arguments), dict(example.setup.options)
    weights = {name: 1.0 for name in ("gamma", "lambda_") if name in a}
    if a.get("log_ratios") is not None:
        weights["log_ratios"] = np.zeros_like(a["log_ratios"])
    kept = tuple((name, x) for name, x in options.items() if not name.endswith("clip"))
    name, x = next((name, x.copy()) for name, x in a.items())
    at = tuple(seed // 7**axis % size for axis, size in enumerate(x.shape))
    x[at] = np.nan
    poisoned = like(example, estimator=example.setup.estimator, options=kept, **weights, **{name: x})

    row, t = at[:2]
    steps, forward = x.shape[1], "initial" in a and not options.get("reverse")
    if "beta" in a:
        beta = a["beta"] if a["beta"].ndim == x.ndim else widened(a["beta"], example)
        cut = np.broadcast_to(beta, x.shape)[(row, slice(None), *at[2:])] == 0
        cut = np.append(cut[1:], True) if forward else cut
    else:
        cut = a["ends"][row] if "ends" in a else (a["terminated"] | a.get("truncated", np.zeros(1, bool)))[row]
        cut = np.append(cut[1:], True) if options.get("boundary") == "starts_at" else cut
    # cut[s]: an episode ends between s and s+1
    reached = np.zeros(x.shape, bool)
    while True:
        reached[(row, t, *at[2:])] = True
        if t == (steps - 1 if forward else 0) or cut[t if forward else t - 1]:
            break
        t += 1 if forward else -1
    assert all((np.isnan(result) == reached).all() for result in arrays(answers(path, poisoned)))
