"""The API page says what the docstrings say, and all of it."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # paper/ is run from the checkout, not installed

pytest.importorskip("hypothesis", reason="NOT RUN: a public module needs Hypothesis")

from paper import api

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_is_not_stale() -> None:
    assert (ROOT / "docs" / "api.md").read_text() == api.page(), "run make docs"


def test_check_catches_a_stale_page(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "api.md"
    assert api.main(["--check"], tmp_path) == 1
    assert not page.exists()
    assert api.main([], tmp_path) == 0
    assert api.main(["--check"], tmp_path) == 0
    page.write_text(page.read_text().replace("gamma", "gama", 1))
    assert api.main(["--check"], tmp_path) == 1


def test_every_public_name_and_argument_is_on_it() -> None:
    page = api.page()
    for module in api.modules():
        names = api.public(module)
        assert names, module
        for name, x in names.items():
            assert f"### `{module.__name__}.{name}`" in page
            assert x.__doc__, name
            if not isinstance(x, type):
                code = x.__code__
                shown = api.signature(name, x)
                for argument in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
                    assert re.search(rf"\b{argument}\b", shown), (name, argument)


def test_links_lead_to_headings() -> None:
    page = api.page()
    anchors = api.Anchors()
    found = {anchors.of(heading) for heading in re.findall(r"^#{2,3} `(.*)`$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\((#[^)]+)\)", page)) == found


def test_sections_and_examples() -> None:
    text = api.markdown("""One line with a_t, V'_t and *so*.

        x_t = 1

    Args:
        a, b: two things
            on two lines: yes.
        c: one.

    Returns:
        What is, on
        two lines.

    >>> 1 + 1
    2
    """)
    assert text.startswith("One line with a_t, V'\\_t and *so*.\n\n```text\nx_t = 1\n```\n\n**Args:**\n\n")
    assert "- `a`, `b`: two things on two lines: yes.\n- `c`: one.\n" in text
    assert "**Returns:**\n\n- What is, on two lines.\n" in text
    assert text.endswith("```pycon\n>>> 1 + 1\n2\n```")
