"""The planted faults apply to the files as they are, can be told apart, and are found."""

from collections import Counter

import pytest

pytest.importorskip("hypothesis", reason="NOT RUN: hypothesis is not installed")

from rlscan.verify.faults import FAULTS, KERNEL, PACKAGE, PORTABLE, Fault, find
from rlscan.verify.strategies import ESTIMATORS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kind}, {fault.file}")
def test_a_fault_applies_and_changes_something(fault: Fault) -> None:
    assert fault.right in (PACKAGE / fault.file).read_text()
    assert fault.wrong != fault.right
    assert fault.estimator in ESTIMATORS
    assert fault.path in (None, KERNEL, PORTABLE)


def test_faults_can_be_told_apart() -> None:
    assert len(FAULTS) >= 20
    # by what the table is read for, by their names in the certificate, and by what they do
    for key in (
        lambda fault: (fault.kind, fault.estimator, fault.path),
        lambda fault: (fault.kind, fault.file),
        lambda fault: (fault.file, fault.right, fault.wrong),
    ):
        assert [k for k, times in Counter(map(key, FAULTS)).items() if times > 1] == []


@pytest.mark.parametrize("kind", ["sign of the successor", "flag shifted", "shift the wrong way"])
def test_the_fuzzer_rejects_a_fault(kind: str) -> None:
    (fault,) = (fault for fault in FAULTS if fault.kind == kind)
    outcome = find(fault, count=200, seed=0, path="portable")
    assert outcome.error
    assert 1 <= outcome.cases <= 200
