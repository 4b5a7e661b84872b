"""`rlscan verify`, `rlscan reproduce`, `rlscan doctor`."""

import argparse
import importlib.util
import json
import os
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rlscan", description="Credit assignment as one affine scan, verified.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{verify,reproduce,doctor}")
    check = commands.add_parser("verify", help="prove, exhaust, fuzz and try the known fault cases")
    make = commands.add_parser("reproduce", help="verify, then measure and render the tables that this machine can")
    for command in (check, make):
        command.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
        command.add_argument(
            "--examples", type=positive, default=400, help="fuzz examples an estimator and kind (default: 400)"
        )
        command.add_argument("--seed", type=int, default=0, help="seed of every random draw (default: 0)")
        command.add_argument("--jobs", type=positive, default=None, help="processes (default: one a core, 8 at most)")
        command.add_argument("--json", type=Path, default=None, metavar="FILE", help="write the certificate here")
    check.add_argument(
        "--deep",
        action="store_true",
        help="also the wider proofs, mutants, peers, rounding over long windows, sanitizers (hours); "
        "with --json FILE.json, a page FILE.md beside it",
    )
    make.set_defaults(deep=False)
    make.add_argument("--table", default=None, help="only this one of paper/tables.toml, as 4, table4 or figure1")
    make.add_argument("--again", action="store_true", help="measure anew what this very code has measured here")
    commands.add_parser("doctor", help="what is installed, which path a call takes, and why")
    options = parser.parse_args(arguments)
    try:
        if options.command == "doctor":
            return doctor()
        options.device = choose_device(options.device)
        return verify(options) if options.command == "verify" else reproduce(options)
    except UsageError as error:
        print(f"rlscan: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rlscan: stopped", file=sys.stderr)
        return 130


class UsageError(Exception):
    """An argument that can't be served; one clear line."""


def positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} should be a positive whole number")
    return int(text)


def choose_device(wanted: str) -> str:
    """The device to use. On a CPU the worker processes run the kernels in Triton's interpreter."""
    import torch

    if wanted not in ("auto", "cpu") and wanted.split(":")[0] != "cuda":
        raise UsageError(f"--device is {wanted!r}; it should be auto, cpu, cuda or cuda:N")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = ("cuda" if count else "cpu") if wanted == "auto" else wanted
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when a worker imports Triton
        return device
    index = device.partition(":")[2] or "0"
    if not index.isdigit() or int(index) >= count:
        raise UsageError(f"--device is {wanted!r}, but PyTorch sees {count} CUDA devices on this machine")
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise UsageError("TRITON_INTERPRET=1 is set, so no kernel would be compiled; unset it to verify on a GPU")
    return device


def verify(options: argparse.Namespace) -> int:
    missing = [name for name in ("hypothesis", "sympy") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"verify needs {' and '.join(missing)}: pip install 'rlscan[verify]'")
    if options.json is not None and not options.json.absolute().parent.is_dir():
        raise UsageError(f"--json is {options.json}, but the folder {options.json.absolute().parent} does not exist")
    from .verify.environment import interpreter_trouble

    trouble = interpreter_trouble() if options.device == "cpu" else None
    if trouble:
        raise UsageError(trouble)
    from .verify.run import default_processes
    from .verify.run import verify as run_verification

    start = time.perf_counter()

    def progress(line: str) -> None:
        print(f"{time.perf_counter() - start:7.1f}s  {line}", file=sys.stderr, flush=True)

    certificate = run_verification(
        device=options.device,
        examples=options.examples,
        seed=options.seed,
        processes=options.jobs or default_processes(),
        deep=options.deep,
        progress=progress,
    )
    print(table(certificate))
    if options.json is not None:
        options.json.write_text(json.dumps(certificate, indent=1, ensure_ascii=False) + "\n")
        print(f"certificate: {options.json}")
        if options.deep:
            from .verify.deep import page

            options.json.with_suffix(".md").write_text(page(certificate))
            print(f"page: {options.json.with_suffix('.md')}")
    return 0 if certificate["passed"] else 1


def table(certificate: dict[str, Any]) -> str:
    """The certificate as a table for people, failures explained below it."""
    claims = certificate["claims"]
    width = min(76, max(len(claim["claim"]) for claim in claims))
    rows = [f"{'claim':{width}}  {'kind':10}  {'cases':>7}  {'verdict':7}  {'seconds':>8}"]
    rows.append("-" * len(rows[0]))
    for claim in claims:
        name = textwrap.shorten(claim["claim"], width, placeholder="…")
        rows.append(
            f"{name:{width}}  {claim['kind']:10}  {claim['cases']:7}  {claim['verdict']:7}  {claim['seconds']:8.2f}"
        )
    for claim in claims:
        if claim["verdict"] != "PASS":
            rows.append(f"\n{claim['verdict']}: {claim['claim']} ({claim['kind']})\n{claim['detail']}")
    verdicts = [claim["verdict"] for claim in claims]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("PASS", "FAIL", "NOT RUN") if v in verdicts)
    faults = certificate["faults"]
    rows.append(
        f"\n{counts}; {faults['rejected']} of {faults['planted']} planted faults rejected, the last after "
        f"{faults['most_examples_needed']} examples; {certificate['seconds']} s on {certificate['device']['name']}, "
        f"seed {certificate['seed']}"
    )
    return "\n".join(rows)


def reproduce(options: argparse.Namespace) -> int:
    """Nothing is measured that was not verified on this machine first."""
    if not (ROOT / "paper" / "tables.toml").is_file():
        raise UsageError(
            "reproduce needs a checkout of the repository, installed from it by pip install -e '.[paper]': "
            "paper/tables.toml is not beside the package"
        )
    sys.path.insert(0, str(ROOT))
    from paper import reproduce as paper_reproduce

    try:
        paper_reproduce.chosen(options.table, options.device)
    except ValueError as error:
        raise UsageError(str(error)) from None
    code = verify(options)
    if code:
        print("rlscan: the verification failed, so nothing is measured", file=sys.stderr)
        return code
    return int(paper_reproduce.main(device=options.device, table=options.table, seed=options.seed, again=options.again))


def doctor() -> int:
    """What is installed, and which path a call takes on each device."""
    import torch

    from . import language
    from .engine import path_for
    from .verify.environment import interpreter_trouble, versions

    for name, version in versions().items():
        print(f"{name:12} {version}")
    for name in ("gymnasium", "matplotlib", "jax"):
        found = importlib.util.find_spec(name) is not None
        print(f"{name:12} {'installed' if found else 'not installed (optional)'}")
    print()
    why = {
        "portable": "no Triton here"
        if not language.HAS_TRITON
        else "CPU tensors; TRITON_INTERPRET=1 would run the kernels in the interpreter",
        "interpreter": "TRITON_INTERPRET=1: the kernels themselves run, slowly, on the CPU",
        "triton": "compiled kernels",
    }
    path = path_for(torch.device("cpu"))
    print(f"cpu tensors  {path}: {why[path]}")
    trouble = interpreter_trouble()
    if trouble:
        print(f"warning      {trouble}")
    if not torch.cuda.is_available():
        print("cuda         no CUDA device that PyTorch sees: compiled kernels can't run or be verified here")
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        path = path_for(torch.device("cuda", index))
        print(f"cuda:{index}       {torch.cuda.get_device_name(index)}, {path}: {why[path]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
