"""The manuscript: no number typed by hand in its results, nothing stale, and what is not there is said to be so."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed
pytest.importorskip("sympy", reason="NOT RUN: SymPy is not installed")
pytest.importorskip("matplotlib", reason="NOT RUN: matplotlib is not installed")

from paper import latex, latex_numbers, pdf, tex

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "paper" / "manuscript"
TYPED = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.tex"))}  # by hand
GENERATED = {path.stem: path.read_text() for path in sorted((FOLDER / "generated").glob("*.tex"))}
NUMBER_WORDS = re.compile(
    r"\b(three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|half|percent)\b", re.I
)


def prose(text: str) -> str:
    """Without comments, and without the names of labels, files and references."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    return re.sub(r"\\(?:label|ref|eqref|input|cite\w*)\{[^}]*\}", "", text)


# By hand


@pytest.mark.parametrize("name", ["results.tex", "abstract.tex"])
def test_no_number_is_typed(name: str) -> None:
    text = prose(TYPED[name])
    if name == "abstract.tex":
        text = text.replace("float64", "")  # a type
    assert not re.search(r"\d", text)
    assert not NUMBER_WORDS.search(text)
    assert not re.search(r"\\begin\{(?:table|tabular|longtable|figure)|includegraphics", text)


def test_the_search_for_numbers_finds_them() -> None:
    assert re.search(r"\d", prose("rlscan is 5 times faster % really"))
    assert re.search(r"\d", prose(r"$4.2\times$ (Table~\ref{tab:x2})"))
    assert not re.search(r"\d", prose(r"\input{generated/table3} % 5 times"))
    assert NUMBER_WORDS.search("seven of them")


def test_every_generated_file_is_in_the_manuscript_and_the_other_way_round() -> None:
    included = {name for text in TYPED.values() for name in re.findall(r"\\input\{([^}]*)\}", text)}
    assert {name.partition("/")[2] for name in included if name.startswith("generated/")} == set(GENERATED)
    assert all((FOLDER / f"{name}.tex").exists() for name in included)
    assert {f"{name}.tex" for name in included if "/" not in name} == TYPED.keys() - {"manuscript.tex"}


def test_every_macro_is_defined() -> None:
    defined = set(re.findall(r"\\newcommand\{\\(\w+)\}", GENERATED["numbers"]))
    assert defined == set(re.findall(r"^\\newcommand\{\\([A-Za-z]+)\}", GENERATED["numbers"], re.MULTILINE))
    used = set(re.findall(r"\\([A-Z][A-Za-z]{3,})\b", TYPED["results.tex"] + TYPED["abstract.tex"]))
    assert used
    assert used <= defined | {"Table"}


def test_every_character_has_a_form_in_latex() -> None:
    assert not [name for name, text in GENERATED.items() if "[U+" in text]


def test_references_lead_somewhere() -> None:
    everything = "".join([*TYPED.values(), *GENERATED.values()])
    labels = re.findall(r"\\label\{([^}]*)\}", everything)
    assert len(labels) == len(set(labels))
    assert set(re.findall(r"\\(?:eq)?ref\{([^}]*)\}", everything)) <= set(labels)
    keys = re.findall(r"^@\w+\{([^,]+),", (ROOT / "paper" / "references.bib").read_text(), re.MULTILINE)
    assert len(keys) == len(set(keys))
    cited = {key.strip() for keys in re.findall(r"\\cite\w*\{([^}]*)\}", everything) for key in keys.split(",")}
    assert cited <= set(keys)


# Generated


def test_what_is_generated_is_not_stale() -> None:
    wanted = latex.documents(ROOT)
    assert {path.stem: text for path, text in wanted.items()} == GENERATED, "run make render"


def test_the_pdf_is_not_stale() -> None:
    assert not pdf.is_stale(ROOT), "run make paper, or remove the PDF where there is no TeX"


def checkout(tmp_path: Path) -> Path:
    """The manuscript and the claims, without any result."""
    (tmp_path / "paper").mkdir()
    shutil.copytree(FOLDER, tmp_path / "paper" / "manuscript")
    for name in ("claims.toml", "references.bib"):
        shutil.copy(ROOT / "paper" / name, tmp_path / "paper" / name)
    return tmp_path


def test_without_results_everything_is_not_measured(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    files = {path.stem: text for path, text in latex.documents(root).items()}
    assert files.keys() == GENERATED.keys()
    declared = ("ClaimsDeclared", "ClaimsPass", "ClaimsFail", "ClaimsNotRun", "HeadlineShape", "PaperGpu")
    declared += ("PaperSoftware", "PaperRowsWon", "PaperRowsShapes")
    for name, text in re.findall(r"\\newcommand\{\\(\w+)\}\{(.*)\}", files["numbers"]):
        assert (text == r"\emph{not measured}") == (name not in declared), name
    assert r"\newcommand{\ClaimsPass}{0}" in files["numbers"]
    for name in GENERATED.keys() - {"numbers", "claims", "inventory", "more"}:
        assert tex.ABSENT in files[name], name
    assert "PASS" not in files["claims"]
    assert files["inventory"].count(tex.ABSENT) == len(latex.WANTED)


def test_what_is_new_turns_up(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    results, rendered = root / "paper" / "results", root / "paper" / "rendered"
    results.mkdir()
    rendered.mkdir()
    found = {"total": 160, "killed": 157, "equivalent": [{}, {}], "date": "2026-01-02T00:00:00", "commit": "0123456"}
    (results / "mutants.json").write_text(json.dumps(found))
    (rendered / "mutants.md").write_text(
        "# Mutants\n\nBy file:\n\n| file | killed |\n| --- | ---: |\n| `a_b.py` | 5 |\n"
    )
    (rendered / "another.md").write_text("# Another\n\n| a | b |\n| --- | --- |\n| 1 & 2 | ⊕ |\n")
    (rendered / "other_curves.png").write_bytes(b"")
    assert latex.main(["--check"], root) == 1
    assert latex.main([], root) == 0
    assert latex.main(["--check"], root) == 0
    generated = {path.stem: path.read_text() for path in (root / latex.FOLDER).glob("*.tex")}
    assert r"\newcommand{\MutantsSurvived}{1}" in generated["numbers"]
    assert r"\texttt{a\_\allowbreak{}b.\allowbreak{}py} & 5" in generated["mutants"]
    assert r"\caption{By file}\label{tab:mutants}" in generated["mutants"]
    assert r"1 \& 2 & $\oplus$" in generated["more"]
    assert "other_curves.png" in generated["more"]
    assert re.search(r"mutants.*2026-01-02 & 0123456", generated["inventory"])
    (root / latex.FOLDER / "old.tex").write_text("")
    assert latex.main(["--check"], root) == 1
    assert latex.main([], root) == 0
    assert not (root / latex.FOLDER / "old.tex").exists()


def test_numbers_as_text() -> None:
    assert latex_numbers.said(None) == latex_numbers.said(float("nan")) == r"\emph{not measured}"
    assert latex_numbers.said(12345) == "12{,}345"
    assert latex_numbers.said(15413.8) == "15{,}414"
    assert latex_numbers.said(2.591) == "2.59"
    assert latex_numbers.said("x86_64") == r"x86\_64"


def test_markdown_becomes_latex() -> None:
    text = tex.from_markdown("One *of* **two** `a_b`, 50 % & [x](y.md), &lt;= 3.\n\n- α ≥ β\n  more\n- γ\n\n### Head\n")
    assert r"One \textit{of} \textbf{two} \texttt{a\_\allowbreak{}b}, 50 \% \& x, \textless{}= 3." in text
    assert "\\begin{itemize}\n\\item $\\alpha$ $\\geq$ $\\beta$ more\n\\item $\\gamma$\n\\end{itemize}" in text
    assert r"\paragraph{Head.}" in text
    rows = "\n".join("| 1 | 2 |" for _ in range(40))
    assert r"\begin{longtable}" in tex.from_markdown(f"| a | b |\n| --- | ---: |\n{rows}\n")
    assert r"\caption{\texttt{x} against y}" in tex.from_markdown("`x` against y:\n\n| a |\n| --- |\n| **0.5** |\n")
    cells = "| a |\n| --- |\n| 1 |"
    sections = tex.from_markdown(
        f"### One\n\n{cells}\n\n### Two\n\nWhy:\n\n{cells}\n\n### Three\n\nx\n\n- y\n\n{cells}", "All"
    )
    assert re.findall(r"\\(?:caption|paragraph)\{(.*)\}", sections) == ["One", "Two. Why", "Three.", "All. Three"]
    assert tex.escaped("é☃") == "e[U+2603]"


# The PDF


def test_without_tex_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pdf, "missing", lambda: ["latexmk"])
    monkeypatch.setattr(pdf, "build", lambda root: pytest.fail("built"))
    monkeypatch.setattr(latex, "main", lambda argv, root: 0)
    assert pdf.main([]) == 1
    said = capsys.readouterr().err
    assert "latexmk, not found here" in said
    assert "apt-get install" in said


@pytest.mark.skipif(bool(pdf.missing()), reason=f"NOT RUN: no {', '.join(pdf.missing())} here")
def test_it_builds_without_results_and_knows_when_it_is_stale(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    (root / pdf.PDF).unlink(missing_ok=True)
    latex.main([], root)
    assert pdf.main(["--check"], root) == 0
    assert pdf.build(root) == 0
    assert pdf.main(["--check"], root) == 0
    path = FOLDER.relative_to(ROOT) / "abstract.tex"
    (root / path).write_text((root / path).read_text() + "More.\n")
    assert pdf.main(["--check"], root) == 1
