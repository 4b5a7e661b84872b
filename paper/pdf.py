"""The manuscript as a PDF: `python -m paper.pdf`, or `make paper`.

Renders what is said of results, runs LaTeX in build/manuscript/ and writes paper/manuscript/manuscript.pdf. Its
metadata say what it was made from: it is stale when that is not what is there. `--check` only looks.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from paper import latex
from paper.bench import PAPER

FOLDER = Path("paper") / "manuscript"
PDF = FOLDER / "manuscript.pdf"
PROGRAMS = ("latexmk", "pdflatex", "bibtex")
PACKAGES = "latexmk texlive-latex-base texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended lmodern"
DATE = "1767225600"  # of the PDF's metadata, so that the same inputs give the same file
UNDEFINED = re.compile(r"^(?:LaTeX|Package \w+) Warning: .*(?:undefined|multiply defined).*$", re.MULTILINE)
OVERFULL = re.compile(r"Overfull \\hbox \(([\d.]+)pt too wide\)")
MARGIN = 6.0  # points that a line may be too long


def inputs(root: Path) -> list[Path]:
    """All that the PDF is made of."""
    folder = root / FOLDER
    sources = [*folder.glob("*.tex"), *folder.glob("generated/*.tex"), root / "paper" / "references.bib"]
    text = "".join(path.read_text() for path in sources)
    plots = [root / "paper" / "rendered" / name for name in re.findall(r"\\includegraphics\[[^]]*\]\{([^}]+)\}", text)]
    return sorted({*sources, *plots})


def digest(root: Path) -> str:
    found = hashlib.sha256()
    for path in inputs(root):
        found.update(f"{path.relative_to(root).as_posix()} ".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def is_stale(root: Path) -> bool:
    """Whether there is a PDF that was made of something else."""
    path = root / PDF
    return path.exists() and f"inputs-{digest(root)}".encode() not in path.read_bytes()


def missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program) is None]


def build(root: Path) -> int:
    """Runs LaTeX. A reference or citation that leads nowhere fails the build, a line that is too long is said."""
    out = root / "build" / "manuscript"
    shutil.rmtree(out, ignore_errors=True)  # what a build that failed has left can fail the next one
    out.mkdir(parents=True)
    before = rf"\def\InputsHash{{{digest(root)}}}"
    command = ["latexmk", "-pdf", "-interaction=nonstopmode", "-halt-on-error", "-silent", f"-usepretex={before}"]
    bibliography = f"{root / 'paper'}{os.pathsep}"  # BibTeX runs in the folder that it writes to
    environment = {**os.environ, "SOURCE_DATE_EPOCH": DATE, "FORCE_SOURCE_DATE": "1", "BIBINPUTS": bibliography}
    ran = subprocess.run(
        [*command, f"-outdir={out}", "manuscript.tex"],
        cwd=root / FOLDER, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    log = out / "manuscript.log"
    said = log.read_text(errors="replace") if log.exists() else ran.stdout + ran.stderr
    if ran.returncode:
        errors = re.findall(r"^(?:!|l\.\d+).*$", said, re.MULTILINE) or (ran.stdout + ran.stderr).splitlines()[-20:]
        print("LaTeX failed:", *errors, f"All of it: {log}", sep="\n", file=sys.stderr)
        return 1
    undefined = UNDEFINED.findall(said)
    for line in [*undefined, *(found[0] for found in OVERFULL.finditer(said) if float(found[1]) > MARGIN)]:
        print(line, file=sys.stderr)
    shutil.copyfile(out / "manuscript.pdf", root / PDF)
    print(f"built: {PDF}")
    return 1 if undefined else 0


def main(argv: Sequence[str] | None = None, root: Path = PAPER.parent) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper.pdf", description="Build the manuscript.")
    parser.add_argument("--check", action="store_true", help="build nothing; exit 1 if the PDF is there and stale")
    if parser.parse_args(argv).check:
        stale = is_stale(root)
        print(f"stale: {PDF}: run make paper, or remove it" if stale else f"not stale: {PDF}")
        return int(stale)
    latex.main([], root)
    if missing():
        print(
            f"The PDF needs {', '.join(missing())}, not found here. On Debian: apt-get install {PACKAGES}\n"
            f"Everything else of the manuscript is rendered: {FOLDER}/generated/",
            file=sys.stderr,
        )
        return 1
    return build(root)


if __name__ == "__main__":
    sys.exit(main())
