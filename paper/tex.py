"""From the Markdown that the renderers write to LaTeX: paragraphs, lists, tables, and what stands in them.

Only the Markdown of this project: headings, `- ` lists, tables, `code`, **bold**, *italics*, links, <details>.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

MEASURE = 146  # characters of the smallest font that fit on a line of the page
SIZES = (("small", 108), ("footnotesize", 124), ("scriptsize", MEASURE))
NARROW = 9  # characters that a column has at least, for its head
PROSE = 26  # characters from which a column is set as paragraphs
CROWDED = 12  # columns beyond which they stand closer together
FLOATING = 18  # rows up to which a table stays on one page
CAPTION = 160  # characters up to which a paragraph before a table is its caption
ABSENT = "not measured"

SYMBOLS = {
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "Δ": r"$\Delta$", "λ": r"$\lambda$",
    "μ": r"$\mu$", "π": r"$\pi$", "ρ": r"$\rho$", "Σ": r"$\Sigma$", "⊕": r"$\oplus$", "≥": r"$\geq$", "≤": r"$\leq$",
    "×": r"$\times$", "·": r"$\cdot$", "−": r"$-$", "→": r"$\to$", "≡": r"$\equiv$", "⌊": r"$\lfloor$",
    "⌋": r"$\rfloor$", "±": r"$\pm$", "≈": r"$\approx$", "µ": r"\textmu{}", "–": "--", "…": r"\dots{}", "²": r"$^2$",
    "∞": r"$\infty$", "∂": r"$\partial$", "\u0304": "", "’": "'", "“": "``", "”": "''",
}  # fmt: skip
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip
INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|(?<![*\w])\*([^*\s](?:[^*]*[^*\s])?)\*(?![*\w])|!?\[([^\]]*)\]\([^)]*\)")


# Within a line


def escaped(text: str) -> str:
    return "".join(character(c) for c in html.unescape(text))


def character(c: str) -> str:
    if c in SPECIAL or c in SYMBOLS:
        return SPECIAL.get(c) or SYMBOLS[c]
    if c.isascii():
        return c
    plain = unicodedata.normalize("NFKD", c).encode("ascii", "ignore").decode()
    return plain or f"[U+{ord(c):04X}]"


def inline(text: str) -> str:
    """Code, bold, italics and links (of which the text is kept)."""
    parts, end = [], 0
    for found in INLINE.finditer(text):
        parts.append(escaped(text[end : found.start()]))
        code, bold, italic, link = found.groups()
        if code is not None:
            parts.append(rf"\texttt{{{breakable(escaped(code))}}}")
        elif bold is not None:
            parts.append(rf"\textbf{{{inline(bold)}}}")
        elif italic is not None:
            parts.append(rf"\textit{{{inline(italic)}}}")
        else:
            parts.append(inline(link))
        end = found.end()
    return "".join([*parts, escaped(text[end:])])


def breakable(code: str) -> str:
    """A line may end behind a dot, an underscore or a slash of a long name."""
    return re.sub(r"(\\_|[./,=])", r"\1\\allowbreak{}", code)


def plain(text: str) -> str:
    """What is seen of it."""
    return html.unescape(INLINE.sub(lambda found: next(filter(None, found.groups()), ""), text))


# Tables


class Table(NamedTuple):
    head: list[str]
    aligned: list[str]  # "l" or "r"
    body: list[list[str]]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def parsed(block: list[str]) -> Table:
    rows = [cells(line) for line in block]
    return Table(rows[0], ["r" if cell.endswith(":") else "l" for cell in rows[1]], rows[2:])


def columns(table: Table) -> tuple[str, str, list[int]]:
    """The size of the font, the column types and each column's characters; columns of prose share what is left."""
    widths = (
        [max(NARROW, *(len(plain(row[k])) for row in table.body)) for k in range(len(table.head))] if table.body else []
    )
    widths = widths or [12] * len(table.head)
    names = [all(row[k].startswith("`") and row[k].endswith("`") for row in table.body) for k in range(len(widths))]
    widths = [round(1.2 * width) if name else width for width, name in zip(widths, names, strict=True)]  # wider letters
    prose = [
        k
        for k, width in enumerate(widths)
        if width > PROSE and table.aligned[k] == "l" and not (names[k] and width <= 34)
    ]
    total = sum(widths) + 2 * len(widths)
    size = next((name for name, most in SIZES if total <= most), SIZES[-1][0])
    if total <= dict(SIZES)[size]:
        return size, "".join(table.aligned), widths
    if not prose:
        return size, "".join(table.aligned), widths
    room = MEASURE - sum(width + 2 for k, width in enumerate(widths) if k not in prose)
    wanted = sum(widths[k] ** 0.6 for k in prose)  # a long column gets more, and not in proportion
    kinds = list(table.aligned)
    for k in prose:
        share = widths[k] ** 0.6 / wanted * max(room, 20 * len(prose))
        kinds[k] = rf">{{\raggedright\arraybackslash}}p{{{0.94 * share / MEASURE:.3f}\linewidth}}"
        widths[k] = int(share)
    return size, "".join(kinds), widths


def heading(text: str, width: int) -> str:
    """A column's head over as many lines as its width asks for."""
    lines, line = [], ""
    for word in re.findall(r"[^ _]+[ _]?", plain(text)):
        if line and len(line + word.rstrip()) > width:
            lines, line = [*lines, line], ""
        line += word
    lines.append(line)
    style = {"`": r"\texttt{%s}", "*": r"\textit{%s}"}.get(text[:1], "%s")
    return r"\makecell[b]{" + r"\\".join(style % escaped(part.rstrip(" ")) for part in lines) + "}"


def table(block: list[str], caption: str, label: str) -> str:
    found = parsed(block)
    size, kinds, widths = columns(found)
    head = " & ".join(heading(text, width) for text, width in zip(found.head, widths, strict=True)) + r" \\"
    body = [" & ".join(map(inline, row)) + r" \\" for row in found.body]
    title = titled(caption, label)
    style = rf"\{size}" + (r"\setlength{\tabcolsep}{2pt}" if len(widths) > CROWDED else "")
    if len(body) <= FLOATING:
        lines = [r"\begin{table}[htbp]", r"\centering", title, style, rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}"]
        return "\n".join(
            [*lines, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", r"\end{table}"]
        )
    lines = [rf"\begingroup{style}", rf"\begin{{longtable}}{{@{{}}{kinds}@{{}}}}", rf"{title}\\", r"\toprule"]
    lines += [head, r"\midrule", r"\endfirsthead", r"\toprule", head, r"\midrule", r"\endhead"]
    lines += [r"\bottomrule", r"\endlastfoot"]
    return "\n".join([*lines, *body, r"\end{longtable}", r"\endgroup"])


def titled(caption: str, label: str) -> str:
    return rf"\caption{{{caption.rstrip('.')}}}" + (rf"\label{{{label}}}" if label else "")


def absent(caption: str, label: str, words: str = rf"\emph{{{ABSENT}}}") -> str:
    """Words in place of a table: numbered like any other, so that what refers to it stays right."""
    title = titled(caption, label)
    return "\n".join([r"\begin{table}[htbp]", r"\centering", title, words, r"\end{table}"])


# Blocks


def blocks(text: str) -> Iterator[list[str]]:
    for chunk in re.split(r"\n\s*\n", text.strip()):
        lines = chunk.splitlines()
        kinds = ["|" if line.startswith("|") else "#" if line.startswith("#") else "" for line in lines]
        start = 0
        for k in range(1, len(lines) + 1):
            if k == len(lines) or kinds[k] != kinds[start]:
                yield lines[start:k]
                start = k


def from_markdown(text: str, caption: str = "", label: str = "") -> str:
    """LaTeX of a page; `label` is its first table's.

    A paragraph right before a table is its caption, else `caption` and the section are. The name of a section that
    begins with a table stands in that.
    """
    parts: list[str] = []
    pending = ""  # a paragraph that may be a caption
    sections: dict[int, str] = {}  # the headings that a block is under, by level, and whether the last stands there
    told = True

    def say(words: str) -> None:
        nonlocal told
        if not told:
            parts.append(rf"\paragraph{{{[*sections.values()][-1]}.}}")
        parts.append(words)
        told = True

    for block in blocks(text):
        first = block[0]
        summary = re.fullmatch(r"<details><summary>(.*)</summary>", first)
        is_table = first.startswith("|")
        if pending and not (is_table and len(pending) <= CAPTION):
            say(inline(pending))
            pending = ""
        if is_table:
            own = [*([] if told else sections.values()), *([inline(pending.rstrip(":."))] if pending else [])]
            parts.append(table(block, ". ".join(own or filter(None, (caption, *sections.values()))), label))
            pending, label, told = "", "", True
        elif summary:
            pending = summary[1]
        elif first.startswith("- "):
            say(listed(block))
        elif first.startswith("#"):
            if not told:
                say("")
            level = len(first) - len(first.lstrip("#"))
            sections = {k: x for k, x in sections.items() if k < level} | {level: inline(" ".join(block).lstrip("# "))}
            told = False
        elif not first.startswith(("![", "</details>", "<!--")):
            pending = " ".join(block)
    if pending or not told:
        say(inline(pending))
    return "\n\n".join(filter(None, parts)) + "\n"


def listed(block: list[str]) -> str:
    entries: list[str] = []
    for line in block:
        if line.startswith("- ") or not entries:
            entries.append(line[2:])
        else:
            entries[-1] += " " + line.strip()
    return "\n".join([r"\begin{itemize}", *(rf"\item {inline(entry)}" for entry in entries), r"\end{itemize}"])
