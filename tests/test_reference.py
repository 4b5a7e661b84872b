"""The reference meets each right number of `rlscan/verify/cases.json` and none of the wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rlscan.reference as reference

pytestmark = pytest.mark.filterwarnings("error")

CASES: dict[str, Any] = json.loads((Path(__file__).parents[1] / "rlscan/verify/cases.json").read_text())
# masks, packed rows and normalisation; see the README of the cases
WAITING = {
    "c29b_logratio_nonfinite_padded",
    "c44_pad_value_leak",
    "c45_interior_mask",
    "c50_left_pad",
    "c52_packed",
    "c53_zero_len_packed",
    "c56_norm_single",
    "c58_norm_mask",
    "c60_norm_constant",
}
# the right result is a sentence: each has a test of its own below
IN_WORDS = {"c65_strided", "c67_broadcast", "c96_empty"}


def numbers(x: Any) -> np.ndarray:
    """JSON → float64; "nan" is NaN."""
    return np.array(np.vectorize(float, otypes=[float])(np.array(x, dtype=object)))


def agree(got: np.ndarray, want: np.ndarray) -> bool:
    """The JSON holds decimal numbers, typed exactly: a few roundings of float64 apart is equal."""
    assert got.shape == want.shape
    assert got.size > 0
    return bool(np.allclose(got, want, rtol=1e-13, atol=1e-13, equal_nan=True))


def bootstrapped(x: dict[str, Any]) -> dict[str, Any]:
    """The inputs that most cases name alike. A slot that the case leaves out is unused, so NaN stands in for it."""
    n = len(x["r"])
    kwargs: dict[str, Any] = {
        "rewards": numbers(x["r"]),
        "terminated": x.get("term", x.get("ends_at", [0] * n)),
        "last_values": x.get("boot", np.nan),
        "gamma": x["gamma"],
    }
    if "v" in x:
        kwargs["values"] = numbers(x["v"])
    if "lam" in x:
        kwargs["lambda_"] = x["lam"]
    if "trunc" in x:
        value = numbers(x["trunc_value"])
        kwargs |= {"truncated": x["trunc"], "truncation_values": np.where(x["trunc"], value, np.nan)}
    return kwargs


def gae(x: dict[str, Any], **changes: Any) -> dict[str, np.ndarray]:
    advantages, returns = reference.gae(**(bootstrapped(x) | changes))
    return {"adv": advantages, "ret": returns}


def vtrace(x: dict[str, Any], *names: str) -> dict[str, np.ndarray]:
    """`names`: the keys of the case's policy advantages, each with the form it has."""
    kwargs = bootstrapped(x) | {"log_ratios": x["log_rho"] if "log_rho" in x else np.log(x["rho"])}
    clips = {"rho_bar": "rho_clip", "c_bar": "c_clip", "pg_rho_bar": "pg_rho_clip"}
    kwargs |= {clips[name]: x[name] for name in clips if name in x}
    outputs = {"vs": reference.vtrace(**kwargs).targets}
    for name in names:
        form = "mixed" if name.endswith("mixed") else "impala"
        outputs[name] = reference.vtrace(**kwargs, advantage=form).advantages
    return outputs


def starts_at(x: dict[str, Any]) -> dict[str, np.ndarray]:
    return gae(x, terminated=[*x["starts_at"][1:], x["last_done"]])


def arrival(x: dict[str, Any]) -> dict[str, np.ndarray]:
    """Row t holds what arrived with s_t: r_{t-1} and end_{t-1}. The last row has no step of its own."""
    rewards, values, dones = (x[key] for key in ("rewards_received_on_arrival", "values", "dones_on_arrival"))
    steps = {"r": rewards[1:], "v": values[:-1], "boot": values[-1], "ends_at": dones[1:]}
    return {"adv": np.append(gae(x | steps)["adv"], 0.0)}


def gate_index(x: dict[str, Any]) -> dict[str, np.ndarray]:
    assert agree(gae(x)["ret"], reference.td_lambda(**bootstrapped(x)))
    return {"ret": gae(x)["ret"]}


def next_values(x: dict[str, Any]) -> dict[str, np.ndarray]:
    given = numbers(x["next_v"])
    unused = np.where(x["term"], np.nan, given)
    assert agree(gae(x, last_values=np.nan, next_values=unused)["adv"], gae(x, next_values=given)["adv"])
    return gae(x, next_values=given)


def nan_next(x: dict[str, Any]) -> dict[str, np.ndarray]:
    nan, never = np.full(3, np.nan), [0, 0, 0]
    assert agree(gae(x, truncated=never, truncation_values=nan)["adv"], next_values(x)["adv"])
    return next_values(x)


def retrace_index(x: dict[str, Any]) -> dict[str, np.ndarray]:
    log_ratios = np.log(x["ratio"])
    c = x["lam"] * np.minimum(1.0, x["ratio"])
    never, settings = [0, 0, 0], {"next_q_values": x["exp_q_next"], "gamma": x["gamma"], "lambda_": x["lam"]}
    targets = reference.retrace(x["r"], x["q_a"], log_ratios, never, **settings)
    return {"c": c, "ret": targets}


def traces_of_states(x: dict[str, Any]) -> dict[str, np.ndarray]:
    """TD(1) over one-hot features: Δw = α Σ_t δ_t z_t; δ is the advantage at λ = 0."""
    term = [x["term"]]
    z = reference.eligibility_traces([np.eye(x["states"])], term, gamma=x["gamma"], lambda_=x["lam"])
    delta = gae(x, lambda_=0.0)["adv"]
    return {"dw": x["alpha"] * (delta[:, None] * z[0]).sum(axis=0)}


def elig_trace(x: dict[str, Any]) -> dict[str, np.ndarray]:
    return {"z": reference.eligibility_traces(x["x"], x["ends_at"], gamma=x["gamma"], lambda_=x["lam"])}


def lambda_return(x: dict[str, Any]) -> dict[str, np.ndarray]:
    *values, last = x["v_0_to_T"] if "v_0_to_T" in x else [np.nan, *x["v_1_to_T"]]
    gamma = x.get("discount", x.get("gamma"))
    return {"ret": reference.td_lambda(**(bootstrapped(x | {"v": values, "boot": last, "gamma": gamma})))}


def gamma_per_step(x: dict[str, Any]) -> dict[str, np.ndarray]:
    returns = reference.discounted_returns(x["r"], [0] * 4, last_values=x["boot"], gamma=x["gamma"])
    return {"adv": gae(x)["adv"], "disc_ret": returns}


def flags_uint8(x: dict[str, Any]) -> dict[str, np.ndarray]:
    by_dtype = [gae(x, terminated=np.array(x["term_uint8"], dtype=d))["adv"] for d in (np.uint8, bool, np.float32)]
    assert all(np.array_equal(by_dtype[0], other) for other in by_dtype)
    return {"adv": by_dtype[0]}


def time_first(x: dict[str, Any]) -> dict[str, np.ndarray]:
    rewards = numbers(x["r_TN"])
    kwargs = {"last_values": x["boot"], "gamma": x["gamma"], "lambda_": x["lam"], "time_dim": 0}
    zeros = np.full_like(rewards, x["v"])
    read_as_rows = reference.gae(rewards, zeros, zeros, **(kwargs | {"time_dim": -1})).advantages
    assert agree(read_as_rows, numbers(CASES["c64_layout"]["wrong_if_read_as_NT"]))
    return {"adv_TN": reference.gae(rewards, zeros, zeros, **kwargs).advantages}


def autoreset(x: dict[str, Any]) -> dict[str, np.ndarray]:
    reset = 2
    advantages = []
    for garbage in (0.0, np.nan, np.inf):
        changed = {"r": list(x["r"]), "v": list(x["v"])}
        changed["r"][reset] = changed["v"][reset] = garbage
        advantages.append(np.delete(gae(x | changed)["adv"], reset))
    assert np.array_equal(advantages[0], advantages[1])
    assert np.array_equal(advantages[0], advantages[2])
    return {"adv_valid": np.insert(advantages[0], reset, np.nan)}


def multi_reward(x: dict[str, Any]) -> dict[str, np.ndarray]:
    """Trailing features go with 2-D flags: one row here."""
    kwargs = {"last_values": [x["boot_C"]], "gamma": x["gamma"], "lambda_": x["lam"]}
    return {"adv_TC": reference.gae([x["r_TC"]], [x["v_TC"]], [x["term_T"]], **kwargs).advantages[0]}


def single_step(x: dict[str, Any]) -> dict[str, np.ndarray]:
    return gae(x) | {
        "adv_term": gae(x, terminated=[1], last_values=np.nan)["adv"],
        "adv_trunc7": gae(x, truncated=[1], truncation_values=[7.0], last_values=np.nan)["adv"],
    }


def window_chunks(x: dict[str, Any]) -> dict[str, np.ndarray]:
    """The early chunk's scan starts from A of the late chunk's first step, not from 0 and V."""
    early, late = x | {"r": x["r"][:2], "v": x["v"][:2], "boot": x["v"][2]}, x | {"r": x["r"][2:], "v": x["v"][2:]}
    tail, decay = gae(late)["adv"], [x["gamma"] * x["lam"]] * 2
    head = reference.linear_scan(gae(early, lambda_=0.0)["adv"], decay, initial=tail[0], reverse=True)
    assert agree(gae(early)["adv"], numbers(CASES["c78_window_chunks"]["wrong_adv_chunk0_if_rebootstrapped"]))
    assert agree(gae(x)["adv"], np.concatenate([head, tail]))
    return {"adv": np.concatenate([head, tail])}


def excess(x: dict[str, Any]) -> dict[str, np.ndarray]:
    steps_left = len(x["r"]) - np.arange(len(x["r"]))
    return gae(x) | {"excess": (x["gamma"] * x["lam"]) ** steps_left * x["boot"]}


RECIPES: dict[str, Callable[[dict[str, Any]], dict[str, np.ndarray]]] = {
    "c01_done_shift": gae,
    "c02_starts_at": starts_at,
    "c04_last_step_done": gae,
    "c05_trunc_as_term": gae,
    "c06_term_and_trunc": gae,
    "c09_double_boot": excess,
    "c10_missing_boot": gae,
    "c11_lambda1_telescopes": gae,
    "c12_puffer_shift": arrival,
    "c13_reward_shift": gae,
    "c14_carry_not_cut": gae,
    "c15_carry_cut_twice": gae,
    "c18_gate_index": gate_index,
    "c20_next_value_at_terminal": next_values,
    "c21_vtrace_trunc_leak": lambda x: vtrace(x, "pg_adv"),
    "c22_vtrace_basic": lambda x: vtrace(x, "pg_adv"),
    "c23_vtrace_lambda": lambda x: vtrace(x, "pg_adv_mixed", "pg_adv_impala"),
    "c24_vtrace_onpolicy_is_gae": lambda x: vtrace(x, "pg_adv_mixed", "pg_adv_impala") | {"gae": gae(x)["adv"]},
    "c29_logratio_overflow": lambda x: vtrace(x, "pg_adv"),
    "c31_retrace_index": retrace_index,
    "c34_lambda_return_alignment": lambda_return,
    "c35_lambda_return_discount_vec": lambda_return,
    "c38_gamma_vec": gamma_per_step,
    "c40_edge_g0": gae,
    "c40_edge_l0": gae,
    "c40_edge_l1": gae,
    "c41_T1": single_step,
    "c48_no_eos": gae,
    "c54_nan_next": nan_next,
    "c55_nan_other_episode": gae,
    "c63_uint8_done": flags_uint8,
    "c64_layout": time_first,
    "c66_multi_reward": multi_reward,
    "c72_next_step_autoreset": autoreset,
    "c74_elig_trace": elig_trace,
    "c75_td1_equals_mc": traces_of_states,
    "c78_window_chunks": window_chunks,
}


def test_every_case_is_here_or_waits_for_its_feature() -> None:
    assert set(RECIPES) | WAITING | IN_WORDS == set(CASES)
    assert not set(RECIPES) & (WAITING | IN_WORDS)


@pytest.mark.parametrize("name", RECIPES)
def test_case(name: str) -> None:
    """Every right number of the case is met, and every wrong number is told apart."""
    case = CASES[name]
    got = RECIPES[name](case["inputs"])
    right = {key: numbers([np.nan if y is None else y for y in case[key]]) for key in case if is_result(key, case)}
    assert right
    assert set(right) <= set(got)
    for key, want in right.items():
        assert agree(got[key], want), (key, got[key], want)
    for key, wrong in case.items():
        if key.startswith("wrong_") and isinstance(wrong, list):
            output = max((k for k in right if key.startswith(f"wrong_{k}")), key=len, default=next(iter(right)))
            shape = np.shape(wrong)
            assert shape != got[output].shape or not agree(got[output], numbers(wrong)), key


def is_result(key: str, case: dict[str, Any]) -> bool:
    return isinstance(case[key], list) and not key.startswith("wrong_")


def test_c65_views_equal_copies() -> None:
    x = CASES["c64_layout"]["inputs"]
    want = numbers(CASES["c64_layout"]["adv_TN"])
    wide = np.full((6, 4), np.nan)
    wide[::2, ::2] = x["r_TN"]
    zeros = np.broadcast_to(0.0, (3, 2))
    kwargs = {"last_values": 0.0, "gamma": x["gamma"], "lambda_": x["lam"]}
    assert agree(reference.gae(wide[::2, ::2], zeros, zeros, **kwargs, time_dim=0).advantages, want)
    assert agree(reference.gae(wide[::2, ::2].T, zeros.T, zeros.T, **kwargs).advantages, want.T)


def test_c67_a_column_against_a_vector_is_refused() -> None:
    rewards, flags = [[1.0], [2.0], [3.0]], [[0], [0], [0]]
    with pytest.raises(ValueError, match=r"values must have shape \(3, 1\), got \(3,\)"):
        reference.gae(rewards, [0.0, 0.0, 1.0], flags, last_values=0.0, gamma=0.0)
    got = reference.gae(rewards, [[0.0], [0.0], [1.0]], flags, last_values=0.0, gamma=0.0)
    assert agree(got.advantages, np.array([[1.0], [2.0], [2.0]]))


@pytest.mark.parametrize("shape", [(3, 0), (0, 4), (0, 0), (0,)])
def test_c96_empty_in_is_empty_out(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    results = [
        *reference.gae(x, x, x, last_values=0.0),
        *reference.vtrace(x, x, x, x, x, last_values=0.0, truncation_values=x),
        reference.retrace(x, x, x, x, next_q_values=np.zeros((*shape, 5)), next_policy=np.zeros((*shape, 5))),
        reference.td_lambda(x, x, x, next_values=x),
        reference.discounted_returns(x, x, last_values=0.0),
        reference.eligibility_traces(x, x),
        reference.prefix_sum(x, x, boundary="starts_at"),
        reference.linear_scan(x, x, reverse=True),
    ]
    assert all(result.shape == shape and result.dtype == np.float64 for result in results)
