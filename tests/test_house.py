"""What the repository says of itself is so: commands exist, examples run, one version, nothing of one machine."""

import ast
import contextlib
import doctest
import importlib
import importlib.metadata
import io
import json
import pkgutil
import re
import shlex
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

import rlscan
from rlscan import cli

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "paper/REVIEWERS.md")


def modules() -> list[str]:
    """Every module of the package, the reference and (where SymPy is) the proofs among them."""
    found = ["rlscan"]
    for package in ("rlscan", "rlscan.engine", "rlscan.verify", "rlscan.testing", "rlscan.reference", "rlscan.proofs"):
        with contextlib.suppress(ImportError):
            found += [
                f"{package}.{module.name}" for module in pkgutil.iter_modules(importlib.import_module(package).__path__)
            ]
    return [name for name in found if not name.endswith("__main__")]


def load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"NOT RUN: {error}")


# Examples


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_run(name: str) -> None:
    module = load(name)
    failed, _ = doctest.testmod(module)
    assert failed == 0


def test_every_public_function_has_an_example() -> None:
    public = [getattr(rlscan, name) for name in rlscan.__all__] + [
        getattr(rlscan.boundaries, n) for n in ("ends_from_starts", "next_step_autoreset")
    ]
    functions = [f for f in public if callable(f) and not isinstance(f, type)]
    references = [getattr(load("rlscan.reference"), f.__name__, None) for f in functions]
    assert len(functions) >= 10
    for function in [*functions, *filter(None, references)]:
        assert ">>>" in (function.__doc__ or ""), function


def test_the_readmes_example_prints_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "README.md", "exec"), {})
        assert printed.getvalue().splitlines() == said


# Commands


def commands() -> list[str]:
    """What the documents tell a reader to type: lines of sh blocks, and commands in backquotes."""
    found = []
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            found += [line.partition("#")[0].strip() for line in block.splitlines()]
        found += re.findall(r"`((?:make|rlscan|python|pip) [^`]+)`", text)
    return sorted(set(found))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("command", commands())
def test_commands_in_the_documents_exist(command: str) -> None:
    program, *words = shlex.split(command)
    if program == "make":
        assert {word for word in words if "=" not in word} <= targets()
    elif program == "rlscan":
        with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as stop:
            cli.main([*words, "--help"])
        assert stop.value.code == 0
    elif program == "python":
        path = words[1].replace(".", "/") if words[0] == "-m" else words[0]
        path = re.sub("^rlscan/(reference|proofs)", r"\1", path)
        assert any((ROOT / form).exists() for form in (path, f"{path}.py", f"{path}/__main__.py")), command
    elif program == "pip":
        for extra in re.findall(r"\[(.*?)\]", command):
            assert set(extra.split(",")) <= set(importlib.metadata.metadata("rlscan").get_all("Provides-Extra") or [])
    else:
        pytest.fail(f"the documents name the program {program}")


def test_reviewers_install_the_checkout_in_place() -> None:
    """In a checkout `import rlscan` finds its folder, without proofs and reference; an editable install adds them."""
    installs = re.findall(r"^pip install .*$", (ROOT / "paper" / "REVIEWERS.md").read_text(), re.MULTILINE)
    assert installs
    assert all(line.startswith("pip install -e ") for line in installs)


def test_every_target_of_the_makefile_says_what_it_does() -> None:
    listed = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True).stdout
    shown = set(re.findall(r"^  make ([a-z-]+) +\S", listed, re.MULTILINE))
    assert shown == targets()
    assert {"test", "check", "gpu", "reproduce", "claims"} <= shown


def test_make_sets_up_first_and_ends_with_what_was_asked(tmp_path: Path) -> None:
    """Dry runs: nothing is installed."""

    def steps(*arguments: str) -> list[str]:
        make = ["make", "--dry-run", "--no-print-directory", "-C", str(ROOT), *arguments]
        return subprocess.run(make, capture_output=True, text=True, check=True).stdout.splitlines()

    test = steps("test", f"VENV={tmp_path}/venv")
    assert any("--constraint requirements/ci.txt" in step for step in test)
    assert "-m pytest" in test[-1]
    assert steps("reproduce", f"VENV={tmp_path}/venv")[-1].endswith("examples/gymnasium_gae.py")
    bare = steps("gpu", "VENV=", "PYTHON=some-python")
    assert all("venv" not in step for step in bare)
    assert any("-m pytest" in step and step.endswith("-m gpu") for step in bare)
    assert "some-python -m rlscan.cli verify --device cuda" in bare[-1]


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert script.read_text().splitlines()[-1] == "exec make --no-print-directory test"


# Links


def prose(path: str) -> str:
    """A page, or the cells of a notebook that are text, without its code."""
    text = (ROOT / path).read_text()
    if path.endswith(".ipynb"):
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"```.*?```|(`+)(?!`).*?(?<!`)\1(?!`)", "`", text, flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """What a link may name after #: headings, in the form that repository pages give them, and anchors set by hand."""
    text = path.read_text()
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    slugs: list[str] = []
    for heading in headings:
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        again = sum(re.sub(r"-\d+$", "", other) == slug for other in slugs)
        slugs.append(f"{slug}-{again}" if again else slug)
    return {*slugs} | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def test_links_lead_somewhere() -> None:
    """Of every page and notebook, seen from where it lies; pictures are links too."""
    found = 0
    for document in tracked(".md", ".ipynb"):
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
            target, _, anchor = link.partition("#")
            if re.match("https?:", target):
                continue
            found += 1
            path = (ROOT / document).parent / target if target else ROOT / document
            assert path.exists(), (document, link)
            assert not anchor or anchor in anchors(path), (document, link)
    assert found > 100


def test_files_that_the_documents_name_exist() -> None:
    for document in ("README.md", "paper/REVIEWERS.md"):
        for name in re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.\w+)`", (ROOT / document).read_text()):
            made = name.startswith(("build/", ".venv/"))
            assert made or (ROOT / name).exists(), (document, name)


# Versions


def test_the_version_has_one_home() -> None:
    version = rlscan.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert version not in project
    assigned = [
        path
        for path in tracked(".py")
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__version__" for target in node.targets)
    ]
    assert assigned == ["rlscan/_version.py"]


def test_ci_has_versions_that_users_are_told_to_have() -> None:
    requirement = pytest.importorskip("packaging.requirements").Requirement
    lines = [line.partition("#")[0].strip() for line in (ROOT / "requirements" / "ci.txt").read_text().splitlines()]
    pins = [requirement(line) for line in lines if line]
    ranges = [requirement(text) for text in importlib.metadata.requires("rlscan") or []]
    wanted = {r.name for r in ranges} - {"rlscan", "tomli"}
    assert {pin.name for pin in pins} == wanted
    for pin in pins:
        version = next(iter(pin.specifier)).version
        for asked in ranges:
            if asked.name == pin.name and (asked.marker is None or asked.marker.evaluate({"extra": "dev"})):
                assert asked.specifier.contains(version), (str(asked), version)


# Words


def tracked(*suffixes: str) -> list[str]:
    """Files that git has or would add."""
    listing = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("NOT RUN: no git here")
    return [path for path in found if path.endswith(suffixes or ("",)) and (ROOT / path).is_file()]


TEXT = (".py", ".ipynb", ".md", ".toml", ".txt", ".cff", ".json", "Makefile", "run")
KNOWN_HOSTS = {"arxiv.org", "semver.org"}
A_FOLDER_OF_ONE_MACHINE = re.compile(r"(?<![\w.~$}/-])/(?:home|root|opt|work|mnt|media|Users|tmp)/\w")
A_PICTURE = re.compile(r'"image/png": "[A-Za-z0-9+/=]*')
A_REMINDER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


def test_no_file_names_a_folder_of_one_machine_or_leaves_a_reminder() -> None:
    for path in tracked(*TEXT):
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            words = A_PICTURE.sub("", line) if path.endswith(".ipynb") else line
            assert not A_FOLDER_OF_ONE_MACHINE.search(words), (path, number)
            assert not A_REMINDER.search(words), (path, number)


def test_every_link_goes_to_a_known_host() -> None:
    for path in tracked(*TEXT):
        hosts = set(re.findall(r"https?://([\w.-]+)", (ROOT / path).read_text()))
        assert hosts <= KNOWN_HOSTS, (path, hosts - KNOWN_HOSTS)
