"""The same numbers in another form (layout, strides, dtype, spelling) give the same results; inputs are left alone."""

from typing import Any

import numpy as np
import pytest
import torch
from properties import Draw, Path, agree, answers, law, like, same_bits, steps_of, with_setup

import rlscan
from rlscan.engine import forced
from rlscan.verify.compare import FLAGS, as_tuple, tensor
from rlscan.verify.strategies import ESTIMATORS, Example, Setup, fill

BITS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
WITH_WEIGHTS = ("gae", "vtrace", "retrace", "td_lambda", "discounted_returns", "eligibility_traces")
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def keywords(example: Example, device: str) -> dict[str, Any]:
    """The example as the public function takes it."""
    given = {name: tensor(example.setup, name, value, device) for name, value in example.arguments.items()}
    return {**given, **dict(example.setup.options), "time_dim": 0 if example.setup.layout == "TN" else -1}


def called(path: Path, estimator: str, arguments: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    with forced(path[0]):
        return as_tuple(getattr(rlscan, estimator)(**arguments))


def example_of(estimator: str, steps: int = 9, **setup: Any) -> Example:
    """Three rows, dyadic, so that every form has to agree bit for bit."""
    rng = np.random.default_rng(0)
    pattern = rng.integers(0, 4, (3, steps)) * rng.integers(0, 2, (3, steps))
    return fill(Setup(estimator, **setup), pattern, rng, exact=True)


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(BITS[x.dtype]) if x.is_floating_point() else x


@law(*ESTIMATORS)
def test_layouts_agree(path: Path, draw: Draw) -> None:
    exact, example, _ = draw
    others = {"NT", "TN"} - {example.setup.layout}
    agree(path, exact, example, *(with_setup(example, layout=layout) for layout in sorted(others)))


@law(*ESTIMATORS)
def test_strided_views_agree(path: Path, draw: Draw) -> None:
    exact, example, _ = draw
    others = {"packed", "gapped", "transposed"} - {example.setup.strides}
    agree(path, exact, example, *(with_setup(example, strides=strides) for strides in sorted(others)))


@every_estimator
@pytest.mark.parametrize("view", ["expanded", "shifted", "sliced rows"])
def test_more_views_agree(path: Path, estimator: str, view: str) -> None:
    """One element in memory for many; a start that is not aligned; every other row of a larger buffer."""
    packed = keywords(example_of(estimator), path[1])
    if view == "expanded":
        packed = {name: x[:1].expand(x.shape) if torch.is_tensor(x) and x.ndim else x for name, x in packed.items()}
    viewed = {}
    for name, x in packed.items():
        viewed[name] = x
        if torch.is_tensor(x) and x.ndim:
            if view == "shifted":
                viewed[name] = torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
            elif view == "sliced rows":
                viewed[name] = torch.stack([x, torch.ones_like(x)], 1).flatten(0, 1)[::2]
    if view == "expanded":
        packed = {
            name: x.clone(memory_format=torch.contiguous_format) if torch.is_tensor(x) else x
            for name, x in packed.items()
        }
    same_bits(called(path, estimator, viewed), called(path, estimator, packed))


@every_estimator
def test_windows_within_rows_agree(path: Path, estimator: str) -> None:
    """Rows whose distance is a multiple of 16, windows that begin at the second step: wide loads would be unaligned."""
    packed = keywords(example_of(estimator, 24), path[1])
    within = {
        name: torch.cat([x[:, :1], x, x[:, :7]], 1)[:, 1:25] if torch.is_tensor(x) and x.ndim > 1 else x
        for name, x in packed.items()
    }
    same_bits(called(path, estimator, within), called(path, estimator, packed))


@law(*WITH_WEIGHTS, "prefix_sum", exact=(False,))
def test_flag_dtypes_agree(path: Path, draw: Draw) -> None:
    """Nonzero is set, whatever the number."""
    example = draw.example
    want = answers(path, with_setup(example, flags="bool"))
    flags = [name for name in example.arguments if name in FLAGS]
    forms = (("uint8", 255), ("float32", -0.5), ("float64", np.inf), ("bfloat16", np.nan), ("float64", 5e-324))
    for dtype, number in forms:
        changed = {name: np.where(example.arguments[name], number, 0) for name in flags}
        same_bits(answers(path, with_setup(like(example, **changed), flags=dtype)), want)


@law(*WITH_WEIGHTS, gamma="number", lambda_="number")
def test_gamma_forms_agree(path: Path, draw: Draw) -> None:
    """A number, a 0-d tensor, and a tensor that says it at every step."""
    exact, example, _ = draw
    shape = next(iter(example.arguments.values())).shape[:2]
    weights = {name: example.arguments[name] for name in ("gamma", "lambda_") if name in example.arguments}
    cells, steps = ({name: np.full(size, x) for name, x in weights.items()} for size in ((), shape))
    agree(path, exact, example, like(example, **cells), like(example, **steps))


@pytest.mark.parametrize("number", [1, np.float32(0.5), np.float64(0.5), np.int64(1)], ids=lambda x: type(x).__name__)
def test_numbers_of_any_type_agree(path: Path, number: Any) -> None:
    given = keywords(example_of("gae", edge="number"), path[1])
    given |= {"gamma": float(number), "last_values": float(number)}
    want = called(path, "gae", given)
    same_bits(called(path, "gae", given | {"gamma": number, "last_values": number}), want)


@pytest.mark.parametrize(
    "estimator", ["gae", "vtrace", "td_lambda", "discounted_returns", "eligibility_traces", "prefix_sum", "linear_scan"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_edge_as_a_number_or_a_tensor_agrees(path: Path, estimator: str, dtype: str) -> None:
    """`last_values` and `initial`: a number, a 0-d tensor, a value for every row."""
    example = example_of(estimator, edge="number", dtype=dtype)
    name = "initial" if "initial" in example.arguments else "last_values"
    want = answers(path, example)
    for form in (np.float64(example.arguments[name]), np.full(3, example.arguments[name])):
        same_bits(answers(path, like(example, **{name: form})), want)


@every_estimator
@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_out_is_written_and_returned(path: Path, estimator: str, layout: str) -> None:
    given = keywords(example_of(estimator, layout=layout), path[1])
    want = called(path, estimator, given)
    dense = tuple(torch.full_like(x, torch.nan) for x in want)
    gapped = tuple(torch.full((*x.shape, 2), 113.0, dtype=x.dtype, device=x.device) for x in want)
    for out in (dense, tuple(x[..., 0] for x in gapped)):
        got = called(path, estimator, given | {"out": out if len(out) > 1 else out[0]})
        assert all(x is y for x, y in zip(got, out, strict=True))
        same_bits(got, want)
    assert all((x[..., 1] == 113).all() for x in gapped), "wrote beside the view"


@every_estimator
@pytest.mark.parametrize("strides", ["packed", "gapped", "transposed"])
def test_inputs_are_unchanged(path: Path, estimator: str, strides: str) -> None:
    """The memory of every input, gaps included, is as before, and no result shares it."""
    given = keywords(
        example_of(estimator, strides=strides, options=(), actions=3 if estimator == "retrace" else 0), path[1]
    )
    tensors = {name: x for name, x in given.items() if torch.is_tensor(x)}
    before = {name: bytes(x.cpu().untyped_storage()) for name, x in tensors.items()}
    results = called(path, estimator, given)
    assert {name: bytes(x.cpu().untyped_storage()) for name, x in tensors.items()} == before
    owners = {x.untyped_storage().data_ptr() for x in tensors.values()}
    assert not owners & {x.untyped_storage().data_ptr() for x in results}


@law(*ESTIMATORS, exact=(False,))
def test_same_input_same_bits(path: Path, draw: Draw) -> None:
    example = draw.example
    first = answers(path, example)
    called(path, "prefix_sum", {"inputs": torch.ones(7, device=path[1]), "ends": torch.zeros(7, device=path[1])})
    for got, want in zip(answers(path, example), first, strict=True):
        assert torch.equal(bits(got), bits(want))


@every_estimator
def test_empty_in_is_empty_out(path: Path, estimator: str) -> None:
    for rows, steps, features in ((3, 0, ()), (0, 4, ()), (0, 0, ()), (3, 4, (0,)), (0, 4, (2,))):
        for layout in ("NT", "TN"):
            for dtype in ("float32", "bfloat16", "float64"):
                if estimator == "retrace" and features:
                    continue
                setup = Setup(estimator, layout=layout, dtype=dtype, features=features, truncates=False)
                window = fill(setup, np.zeros((rows, max(steps, 1)), np.int8), np.random.default_rng(0), exact=True)
                shape = (rows, steps, *features) if layout == "NT" else (steps, rows, *features)
                for got in called(path, estimator, keywords(steps_of(window, 0, steps), path[1])):
                    assert tuple(got.shape) == shape
                    assert got.dtype == getattr(torch, dtype)


def test_one_empty_row_is_empty(path: Path) -> None:
    nothing = torch.zeros(0, device=path[1])
    assert [
        x.shape
        for x in called(path, "gae", {"rewards": nothing, "values": nothing, "terminated": nothing, "last_values": 0.0})
    ] == [(0,), (0,)]
    policy = torch.zeros(0, 4, device=path[1])
    given = {"rewards": nothing, "q_values": nothing, "log_ratios": nothing, "terminated": nothing}
    assert called(path, "retrace", given | {"next_q_values": policy, "next_policy": policy})[0].shape == (0,)


@every_estimator
def test_results_are_of_the_inputs_dtype(path: Path, estimator: str) -> None:
    """And of the wider one where they differ."""
    for dtype in ("float32", "bfloat16", "float16", "float64"):
        results = called(path, estimator, keywords(example_of(estimator, dtype=dtype), path[1]))
        assert all(x.dtype == getattr(torch, dtype) for x in results)
    mixed = keywords(example_of(estimator), path[1])
    name = next(iter(mixed))
    results = called(path, estimator, mixed | {name: mixed[name].double()})
    assert all(x.dtype == torch.float64 for x in results)
    same_bits([x.float() for x in results], called(path, estimator, mixed))
