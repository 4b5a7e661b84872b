"""The paths that every test runs on, and a count of what could not run here.

Without a GPU, or with RLSCAN_TEST_INTERPRET=1, kernels run in Triton's interpreter: decided before Triton is imported.
"""

import os

import pytest
import torch

if os.environ.get("RLSCAN_TEST_INTERPRET") == "1" or not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

from rlscan import language  # after the mode

WITHOUT_GPU = "NOT RUN: a claim about compiled kernels on a GPU"


PATHS = [("portable", "cpu"), ("interpreter", "cpu"), pytest.param(("triton", "cuda"), marks=pytest.mark.gpu)]


@pytest.fixture(scope="session", params=PATHS, ids=lambda p: p[0])
def path(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A way to run and the device it runs on."""
    name, device = request.param
    if name != "portable" and not language.HAS_TRITON:
        pytest.skip(
            f"{WITHOUT_GPU if name == 'triton' else 'NOT RUN: a claim about the kernels'}; Triton is not installed"
        )
    if name == "interpreter" and not language.INTERPRETED:
        pytest.skip("NOT RUN: a claim about kernels in Triton's interpreter; set RLSCAN_TEST_INTERPRET=1")
    if name == "triton" and not torch.cuda.is_available():
        pytest.skip(f"{WITHOUT_GPU}; there is none here")
    if name == "triton" and language.INTERPRETED:
        pytest.skip(f"{WITHOUT_GPU}; TRITON_INTERPRET is set")
    return name, device


def pytest_configure(config: pytest.Config) -> None:
    # NaN and overflow in slots that are not used are the point of many tests
    for category in ("DeprecationWarning", "RuntimeWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::{category}:triton.runtime.interpreter")
    config.addinivalue_line("filterwarnings", "ignore:invalid value encountered in reduce:RuntimeWarning")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = [report for report in terminalreporter.stats.get("skipped", []) if WITHOUT_GPU in str(report.longrepr)]
    if missing:
        line = f"{len(missing)} claims about compiled kernels on a GPU were NOT RUN: this run says nothing about them"
        terminalreporter.write_line(line, yellow=True, bold=True)
