"""The command line: one clear line and exit code 2 for what can't be served, 1 for a failed verification."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from rlscan import cli
from rlscan.verify import environment


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--device cpu` sets this for the processes that it starts; here it is put back."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def with_versions(monkeypatch: pytest.MonkeyPatch, **changed: str) -> None:
    found = {**environment.versions(), **changed}
    monkeypatch.setattr(environment, "versions", lambda: found)


def certificate(verdict: str = "FAIL") -> dict[str, Any]:
    claims = [
        {"claim": "a claim that holds", "kind": "proof", "cases": 3, "verdict": "PASS", "seconds": 0.5, "detail": ""},
        {
            "claim": "gae is its definition, portable",
            "kind": "exact",
            "cases": 17,
            "verdict": verdict,
            "seconds": 1.25,
            "detail": "x is 1.0 at [0, 2], not exactly 2.0",
        },
    ]
    return {
        "passed": verdict != "FAIL",
        "claims": claims,
        "faults": {"planted": 4, "rejected": 3, "most_examples_needed": 12},
        "seconds": 2.0,
        "device": {"name": "a machine"},
        "seed": 7,
    }


# Arguments


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line that says what is wrong; nothing else is printed after it, and nothing on stdout."""
    try:
        code: Any = cli.main(arguments)
    except SystemExit as stop:  # argparse prints the usage first
        code = stop.code
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert "Traceback" not in printed.err
    lines = [line for line in printed.err.splitlines() if line.startswith("rlscan")]
    assert len(lines) == 1
    assert printed.err.splitlines()[-1] == lines[0]
    return lines[0]


def test_a_device_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--device is 'tpu'; it should be auto, cpu, cuda or cuda:N" in complaint(capsys, "verify", "--device", "tpu")


@pytest.mark.parametrize("option", ["--examples", "--jobs"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many"])
def test_a_number_that_is_not_positive(capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    said = complaint(capsys, "verify", f"{option}={value}")
    assert option in said
    assert f"{value!r} should be a positive whole number" in said


def test_a_certificate_in_a_folder_that_does_not_exist(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("hypothesis")
    pytest.importorskip("sympy")
    folder = tmp_path / "nowhere"
    said = complaint(capsys, "verify", "--device", "cpu", "--json", str(folder / "certificate.json"))
    assert f"the folder {folder} does not exist" in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_gpu_where_there_is_none(capsys: pytest.CaptureFixture[str], device: str) -> None:
    assert f"--device is {device!r}, but PyTorch sees 0 CUDA devices" in complaint(capsys, "verify", "--device", device)


# Triton's interpreter and NumPy


@pytest.mark.parametrize(
    ("triton", "numpy", "fails"),
    [
        ("3.6.0", "2.4.0", True),
        ("3.4.0", "2.10.1", True),
        ("3.6.0+git1", "3.0.0rc1", True),
        ("3.6.0", "2.3.5", False),
        ("3.7.0", "2.4.0", False),
        ("3.10.0", "2.4.0", False),
        ("not installed", "2.4.0", False),
    ],
)
def test_versions_that_do_not_go_together(
    monkeypatch: pytest.MonkeyPatch, triton: str, numpy: str, fails: bool
) -> None:
    with_versions(monkeypatch, triton=triton, numpy=numpy)
    said = environment.interpreter_trouble()
    assert bool(said) == fails
    if said:
        assert "\n" not in said
        assert triton in said
        assert numpy in said


def test_verify_does_not_start_an_interpreter_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hypothesis")
    pytest.importorskip("sympy")
    from rlscan.verify import run

    monkeypatch.setattr(run, "verify", lambda **options: pytest.fail("it was started"))
    with_versions(monkeypatch, triton="3.6.0", numpy="2.4.1")
    said = complaint(capsys, "verify", "--device", "cpu")
    assert "the interpreter of Triton 3.6.0 fails on NumPy 2.4.1" in said


# doctor


def test_doctor_names_versions_and_the_path(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_versions(monkeypatch, numpy="2.3.5")
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["torch", environment.versions()["torch"]] for line in lines)
    (cpu,) = (line for line in lines if line.startswith("cpu tensors"))
    assert cpu.split()[2] in ("portable:", "interpreter:")
    assert any(line.startswith("cuda") for line in lines)
    assert not any(line.startswith("warning") for line in lines)


def test_doctor_warns_in_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with_versions(monkeypatch, triton="3.6.0", numpy="2.4.1")
    assert cli.main(["doctor"]) == 0
    (warning,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("warning"))
    assert "Triton before 3.7 needs NumPy before 2.4" in warning


# The certificate


def test_the_table_explains_a_failure() -> None:
    shown = cli.table(certificate())
    assert "\nFAIL: gae is its definition, portable (exact)\nx is 1.0 at [0, 2], not exactly 2.0\n" in shown
    assert (
        "\n1 PASS, 1 FAIL; 3 of 4 planted faults rejected, the last after 12 examples; 2.0 s on a machine, seed 7"
        in (shown)
    )
    assert "FAIL" not in cli.table(certificate("PASS"))


@pytest.mark.parametrize(("verdict", "code"), [("PASS", 0), ("FAIL", 1), ("NOT RUN", 0)])
def test_the_exit_code_of_verify(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verdict: str, code: int
) -> None:
    pytest.importorskip("hypothesis")
    pytest.importorskip("sympy")
    from rlscan.verify import run

    asked: dict[str, Any] = {}

    def verified(**options: Any) -> dict[str, Any]:
        asked.update(options)
        return certificate(verdict)

    monkeypatch.setattr(run, "verify", verified)
    with_versions(monkeypatch, numpy="2.3.5")
    written = tmp_path / "certificate.json"
    arguments = ["verify", "--device", "cpu", "--examples", "5", "--seed", "7", "--jobs", "2", "--json", str(written)]
    assert cli.main(arguments) == code
    del asked["progress"]
    assert asked == {"device": "cpu", "examples": 5, "seed": 7, "processes": 2, "deep": False}
    assert json.loads(written.read_text()) == certificate(verdict)
    assert verdict in capsys.readouterr().out
    assert not written.with_suffix(".md").exists()

    monkeypatch.setattr("rlscan.verify.deep.page", lambda found: f"passed: {found['passed']}")
    assert cli.main([*arguments, "--deep"]) == code
    assert asked["deep"] is True
    assert written.with_suffix(".md").read_text() == f"passed: {verdict != 'FAIL'}"
