"""How each case of `cases.json` is put to the public functions; one without a recipe is `gae` on the usual inputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .compare import expect
from .strategies import BOOTSTRAPPED, ESTIMATORS, Example, Setup
from .tolerance import Mismatch
from .trial import CASES, NAN, Answer, Trial, numbers

Inputs = dict[str, Any]


def row(x: Any) -> Any:
    """[T] as one row [1, T]; numbers stay numbers."""
    return numbers(x)[None] if isinstance(x, list) else float(x)


def flags(x: Any) -> Any:
    return np.array(x, bool)[None]


def rollout(x: Inputs) -> dict[str, Any]:
    """The inputs that most cases name alike. What a case leaves out is not used: NaN stands in for it."""
    steps = len(x["r"])
    arguments = {
        "rewards": row(x["r"]),
        "values": row(x["v"]),
        "terminated": flags(x.get("term") or x.get("ends_at") or [0] * steps),
        "last_values": float(x.get("boot", NAN)),
        "gamma": row(x["gamma"]),
        "lambda_": row(x.get("lam", 1.0)),
    }
    if "trunc" in x:
        cut = flags(x["trunc"])
        arguments |= {"truncated": cut, "truncation_values": np.where(cut, row(x["trunc_value"]), NAN)}
    return arguments


def without(arguments: Inputs, *names: str) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


def check_gae(trial: Trial, x: Inputs, changes: Inputs | None = None, **setup: Any) -> None:
    advantages, returns = trial.solve("gae", {**rollout(x), **(changes or {})}, **setup)
    for key, answer in (("adv", advantages), ("ret", returns)):
        if key in trial.case:
            trial.check(answer, key)


def starts_at(trial: Trial, x: Inputs) -> None:
    starts, last_done = torch.tensor([x["starts_at"]]) != 0, torch.tensor([x["last_done"]]) != 0
    ends = trial.api.boundaries.ends_from_starts(starts.to(trial.device), last_done.to(trial.device))
    check_gae(trial, x, {"terminated": ends.cpu().numpy()})


def double_bootstrap(trial: Trial, x: Inputs) -> None:
    check_gae(trial, x)
    # the excess is what a carry of V(s_T) behind the window brings
    nothing, decay = np.zeros((1, len(x["r"]))), np.full((1, len(x["r"])), x["gamma"] * x["lam"])
    scan = {"alpha": nothing, "beta": decay, "initial": float(x["boot"])}
    trial.check(trial.solve("linear_scan", scan, options=(("reverse", True),))[0], "excess")


def arrival(trial: Trial, x: Inputs) -> None:
    """Slot t holds what arrived with s_t, r_{t-1} and end_{t-1}: transition t is in slot t+1, and the last has none."""
    rewards, values, dones = (x[key] for key in ("rewards_received_on_arrival", "values", "dones_on_arrival"))
    steps = {**x, "r": rewards[1:], "v": values[:-1], "boot": values[-1], "ends_at": dones[1:]}
    got, bound = trial.solve("gae", rollout(steps))[0]
    trial.check(Answer(torch.cat([got, got.new_zeros(1)]), np.append(bound, 0.0)), "adv")


def gate_index(trial: Trial, x: Inputs) -> None:
    check_gae(trial, x)
    trial.check(trial.solve("td_lambda", rollout(x))[0], "ret")


def next_values(trial: Trial, x: Inputs, wrong: Inputs | None = None) -> None:
    arguments = without(rollout(x), "last_values")
    given = row(x["next_v"])
    for successors in (given, np.where(arguments["terminated"], NAN, given)):
        trial.check(trial.solve("gae", arguments | {"next_values": successors})[0], "adv", wrong)


def nan_next(trial: Trial, x: Inputs) -> None:
    multiplied = {"wrong_adv": [NAN, NAN, 4.0]}
    next_values(trial, x, multiplied)
    unused = {"truncated": flags([0, 0, 0]), "truncation_values": np.full((1, 3), NAN)}
    trial.check(trial.solve("gae", rollout(x) | unused)[0], "adv", multiplied)


def nan_other_episode(trial: Trial, x: Inputs) -> None:
    trial.check(trial.solve("gae", rollout(x))[0], "adv", {"wrong_adv": [NAN, NAN, NAN, 4.0]})


def check_vtrace(trial: Trial, x: Inputs) -> None:
    log_ratios = row(x["log_rho"]) if "log_rho" in x else np.log(row(x["rho"]))
    arguments = {**rollout(x), "log_ratios": log_ratios}
    clips = {"rho_clip": "rho_bar", "c_clip": "c_bar", "pg_rho_clip": "pg_rho_bar"}
    options = tuple((name, float(x.get(key, 1.0))) for name, key in clips.items())
    for key in [k for k in trial.case if k.startswith("pg_adv")]:
        form = "mixed" if key.endswith("mixed") else "impala"
        targets, advantages = trial.solve("vtrace", arguments, options=(*options, ("advantage", form)))
        trial.check(targets, "vs")
        trial.check(advantages, key)
    if "gae" in trial.case:
        trial.check(trial.solve("gae", rollout(x))[0], "gae")


def check_retrace(trial: Trial, x: Inputs) -> None:
    steps, log_ratios = len(x["r"]), np.log(row(x["ratio"]))
    weights = {"gamma": x["gamma"], "lambda_": x["lam"]}
    arguments = {"rewards": row(x["r"]), "q_values": row(x["q_a"]), "log_ratios": log_ratios, **weights}
    successor = {"terminated": flags([0] * steps), "next_q_values": row(x["exp_q_next"])}
    trial.check(trial.solve("retrace", arguments | successor)[0], "ret")
    # c_t by itself: what a reward of 1 at a second step brings to the first, a row for every ratio
    zeros = np.zeros((steps, 2))
    probe = {"rewards": zeros + np.arange(2), "q_values": zeros, "next_q_values": zeros, "terminated": zeros > 0}
    ratios = np.stack([np.full(steps, NAN), log_ratios[0]], 1)
    got, bound = trial.solve("retrace", probe | weights | {"log_ratios": ratios, "gamma": 1.0})[0]
    trial.check(Answer(got[:, 0], bound[:, 0]), "c")


def check_traces(trial: Trial, x: Inputs) -> None:
    weights = {"gamma": x["gamma"], "lambda_": x["lam"]}
    arguments = {"inputs": row(x["x"]), "ends": flags(x["ends_at"]), "initial": 0.0, **weights}
    trial.check(trial.solve("eligibility_traces", arguments)[0], "z")


def traces_of_states(trial: Trial, x: Inputs) -> None:
    """TD(1) over one-hot features: Δw = α Σ_t δ_t z_t. Values of 0 make the advantages at λ = 0 δ = r without error."""
    delta = trial.solve("gae", rollout(x | {"lam": 0.0}))[0].got
    step_sizes = x["alpha"] * np.eye(x["states"])[None]
    arguments = {
        "inputs": step_sizes,
        "ends": flags(x["term"]),
        "initial": 0.0,
        "gamma": x["gamma"],
        "lambda_": x["lam"],
    }
    z, bound = trial.solve("eligibility_traces", arguments, features=(x["states"],))[0]
    errors = np.array(x["r"]) @ bound
    trial.check(Answer((delta[:, None] * z).sum(0), errors), "dw")


def lambda_return(trial: Trial, x: Inputs) -> None:
    *values, last = x["v_0_to_T"] if "v_0_to_T" in x else [0.0, *x["v_1_to_T"]]
    names = {"v": values, "boot": last, "gamma": x.get("discount", x.get("gamma"))}
    trial.check(trial.solve("td_lambda", rollout({**x, **names}))[0], "ret")


def gamma_per_step(trial: Trial, x: Inputs) -> None:
    check_gae(trial, x)
    trial.check(trial.solve("discounted_returns", without(rollout(x), "values", "lambda_"))[0], "disc_ret")


def flag_dtypes(trial: Trial, x: Inputs) -> None:
    for dtype in ("uint8", "bool", "float32"):
        check_gae(trial, x | {"term": x["term_uint8"]}, flags=dtype)


def layouts(trial: Trial, x: Inputs, right: Any = None) -> None:
    """Both layouts in every memory order, and views that hold one element for all steps."""
    right = numbers(right or trial.case["adv_TN"])
    wrong = {name: numbers(value) for name, value in trial.wrong_answers("adv_TN").items()}
    rewards = numbers(x["r_TN"]).T
    nothing = np.zeros_like(rewards)
    edge = {"values": nothing + x.get("v", 0), "terminated": nothing > 0, "last_values": float(x.get("boot", 0))}
    arguments = {"rewards": rewards, **edge, "gamma": x["gamma"], "lambda_": x["lam"]}
    for layout in ("NT", "TN"):
        for strides in ("packed", "gapped", "transposed"):
            got, bound = trial.solve("gae", arguments, layout=layout, strides=strides)[0]
            trial.compare(Answer(got.T, bound.T), right, wrong, "adv_TN")
    dtype = getattr(torch, trial.setup.dtype)
    expanded = [torch.zeros((), dtype=d, device=trial.device).expand(3, 2) for d in (dtype, torch.bool)]
    r_TN = torch.tensor(x["r_TN"], dtype=dtype, device=trial.device)
    with trial.api.engine.forced(trial.path):
        got = trial.api.gae(r_TN, *expanded, last_values=0.0, gamma=x["gamma"], lambda_=x["lam"], time_dim=0)[0]
    trial.compare(Answer(got, bound.T), right, wrong, "adv_TN")


def views(trial: Trial, x: Inputs) -> None:
    case = f"{trial.case['same_as']}_layout"
    layouts(trial, CASES[case]["inputs"], CASES[case]["adv_TN"])


def broadcast(trial: Trial, x: Inputs) -> None:
    """[3, 1] against [3] is refused; with the dimension spelled out there are three rows of one step."""
    rewards, values = np.array([[1.0], [2.0], [3.0]]), np.array([[0.0], [0.0], [1.0]])
    column = torch.from_numpy(rewards).to(trial.device)
    try:
        with trial.api.engine.forced(trial.path):
            trial.api.gae(column, column[:, 0], torch.zeros_like(column), last_values=0.0, gamma=0.0)
    except ValueError:
        trial.checks += 1
    else:
        raise Mismatch("values of shape [3] against rewards of shape [3, 1] were accepted")
    edge = {"terminated": rewards < 0, "last_values": 0.0, "gamma": 0.0, "lambda_": 1.0}
    answer = trial.solve("gae", {"rewards": rewards, "values": values, **edge})[0]
    trial.compare(answer, numbers([[1], [2], [2]]), {"wrong_shape": rewards - values[:, 0]}, "adv")


def empty(trial: Trial, x: Inputs) -> None:
    counts = {"gae": 3, "vtrace": 4, "retrace": 4, "td_lambda": 3}  # of positional arguments, else 2
    bootstraps = {"retrace": "next_q_values", **dict.fromkeys(BOOTSTRAPPED, "last_values")}
    for shape in ((3, 0), (0, 4), (0, 0)):
        nothing = torch.zeros(shape, dtype=getattr(torch, trial.setup.dtype), device=trial.device)
        for estimator in ESTIMATORS:
            edge = (
                {bootstraps[estimator]: nothing if estimator == "retrace" else 0.0} if estimator in bootstraps else {}
            )
            with trial.api.engine.forced(trial.path):
                results = getattr(trial.api, estimator)(*[nothing] * counts.get(estimator, 2), **edge)
            for got in results if isinstance(results, tuple) else [results]:
                if got.shape != shape or got.dtype != nothing.dtype:
                    raise Mismatch(f"{estimator} of shape {list(shape)} gave {got.dtype} {list(got.shape)}")
                trial.checks += 1


def next_step_autoreset(trial: Trial, x: Inputs) -> None:
    reset = x["valid"].index(0)
    for garbage in (x["v"][reset], NAN):
        arguments = rollout(x)
        arguments["rewards"][0, reset] = arguments["values"][0, reset] = garbage
        given = {k: torch.from_numpy(arguments[k]).to(trial.device) for k in ("terminated", "values")}
        step = trial.api.boundaries.next_step_autoreset(
            truncated=torch.zeros_like(given["terminated"]), previous_done=False, last_values=x["boot"], **given
        )
        names = ("terminated", "truncated", "truncation_values")
        got, bound = trial.solve("gae", arguments | {k: getattr(step, k).cpu().numpy() for k in names})[0]
        valid = step.valid[0]
        trial.check(Answer(got.where(valid, NAN), bound), "adv_valid")
        wrong = {"wrong_mask_on_terminal_row": numbers([1, 0, 1, 1, 1])}
        trial.compare(Answer(valid, np.zeros(valid.shape)), numbers(x["valid"]), wrong, "valid")


def multi_reward(trial: Trial, x: Inputs) -> None:
    arguments = {"rewards": row(x["r_TC"]), "values": row(x["v_TC"]), "last_values": row(x["boot_C"])}
    weights = {"terminated": flags(x["term_T"]), "gamma": x["gamma"], "lambda_": x["lam"]}
    trial.check(trial.solve("gae", arguments | weights, features=(2,))[0], "adv_TC")


def single_step(trial: Trial, x: Inputs) -> None:
    check_gae(trial, x)
    unused = {"last_values": NAN}
    trial.check(trial.solve("gae", rollout(x) | unused | {"terminated": flags([1])})[0], "adv_term")
    cut = {"truncated": flags([1]), "truncation_values": row([7.0])}
    trial.check(trial.solve("gae", rollout(x) | unused | cut)[0], "adv_trunc7")


def window_chunks(trial: Trial, x: Inputs) -> None:
    """The earlier chunk goes on from the later one's first advantage: a scan over δ, the advantage at λ = 0."""
    early, late = {**x, "r": x["r"][:2], "v": x["v"][:2], "boot": x["v"][2]}, {**x, "r": x["r"][2:], "v": x["v"][2:]}
    tail, delta = trial.solve("gae", rollout(late))[0], trial.solve("gae", rollout(early | {"lam": 0.0}))[0]
    reverse = (("reverse", True),)

    def scan(alpha: Any, carry: Any) -> dict[str, Any]:
        return {"alpha": alpha[None], "beta": np.full((1, 2), x["gamma"] * x["lam"]), "initial": float(carry)}

    head = trial.solve("linear_scan", scan(delta.got.double().cpu().numpy(), tail.got[0]), options=reverse)[0]
    carried = expect(Example(Setup("linear_scan", options=reverse), scan(delta.bound, tail.bound[0])))[0][0]
    trial.check(Answer(torch.cat([head.got, tail.got]), np.concatenate([head.bound + carried, tail.bound])), "adv")
    check_gae(trial, x)


RECIPES: dict[str, Callable[[Trial, Inputs], None]] = {
    "c02_starts_at": starts_at,
    "c09_double_boot": double_bootstrap,
    "c12_puffer_shift": arrival,
    "c18_gate_index": gate_index,
    "c20_next_value_at_terminal": next_values,
    "c21_vtrace_trunc_leak": check_vtrace,
    "c22_vtrace_basic": check_vtrace,
    "c23_vtrace_lambda": check_vtrace,
    "c24_vtrace_onpolicy_is_gae": check_vtrace,
    "c29_logratio_overflow": check_vtrace,
    "c31_retrace_index": check_retrace,
    "c34_lambda_return_alignment": lambda_return,
    "c35_lambda_return_discount_vec": lambda_return,
    "c38_gamma_vec": gamma_per_step,
    "c41_T1": single_step,
    "c54_nan_next": nan_next,
    "c55_nan_other_episode": nan_other_episode,
    "c63_uint8_done": flag_dtypes,
    "c64_layout": layouts,
    "c65_strided": views,
    "c66_multi_reward": multi_reward,
    "c67_broadcast": broadcast,
    "c72_next_step_autoreset": next_step_autoreset,
    "c74_elig_trace": check_traces,
    "c75_td1_equals_mc": traces_of_states,
    "c78_window_chunks": window_chunks,
    "c96_empty": empty,
}
