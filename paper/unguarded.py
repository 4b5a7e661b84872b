"""rlscan without the guard of ⊕: what the target `guard` compares with."""

import shutil
from pathlib import Path

import rlscan

# file, what guards there, and what stands there without a guard
UNGUARDED = (
    ("affine.py", "    return tl.where(beta == 0, alpha, alpha + beta * x)", "    return alpha + beta * x"),
    ("affine.py", "    product = tl.where(product == 0, 1e-45, product)\n    reset", "    reset"),
    ("affine.py", "tl.where(reset, 0.0, product)", "product"),
    ("affine.py", "    return tl.where(least == 0, alpha, alpha + beta * x)", "    return alpha + beta * x"),
    ("affine.py", "    product = tl.where(product == 0, 1e-45, product)\n    return", "    return"),
    ("affine.py", "tl.minimum(least_a, least_b)", "least_b"),
    ("affine.py", "tl.where(least == 0, 0.0, beta)", "beta"),
    (
        "engine/kernel.py",
        "run_alpha, run_beta, run_least = tl.associative_scan(\n"
        "                    (run_alpha, run_beta, run_least), TIME_AXIS, join_spans\n                )",
        "run_alpha, run_beta = tl.associative_scan((run_alpha, run_beta), TIME_AXIS, combine)",
    ),
)


def without_guard(folder: Path) -> None:
    """A copy of the package whose ⊕ multiplies by zero instead of selecting, as `rlscan_unguarded`."""
    copy = folder / "rlscan_unguarded"
    shutil.copytree(Path(rlscan.__file__).parent, copy, ignore=shutil.ignore_patterns("verify", "__pycache__"))
    for name, guarded, unguarded in UNGUARDED:
        source = (copy / name).read_text()
        assert source.count(guarded) == 1, guarded
        (copy / name).write_text(source.replace(guarded, unguarded))
