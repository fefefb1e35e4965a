"""Views of a result for papers and pages: Markdown, LaTeX and HTML, the best value of a column in bold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html import escape

from custodes.answers.tables import View

_SPECIAL = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "τ": r"$\tau$",
    "ρ": r"$\rho$",
    "×": r"$\times$",
}


def markdown(views: Iterable[View]) -> str:
    """Tables of GitHub's Markdown, one below the other."""
    made = []
    for view in views:
        lines = [view.labels, tuple("---:" if number else "---" for number in view.numeric)]
        lines += _bold(view, lambda text: text.replace("|", "\\|"), "**{}**")
        rows = [f"| {' | '.join(line)} |" for line in lines if line]
        made.append("\n".join(filter(None, [f"**{view.title}**\n", *rows, view.more and f"\n{view.more}"])))
    return "\n\n".join(made) + "\n"


def latex(views: Iterable[View]) -> str:
    """Tables of the package booktabs, one below the other."""
    made = []
    for view in views:
        lines = [
            " & ".join(line) + r" \\" for line in [tuple(map(_tex, view.labels)), *_bold(view, _tex, r"\textbf{{{}}}")]
        ]
        columns = "".join("r" if number else "l" for number in view.numeric)
        body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        made.append("\n".join([f"% {_tex(view.title)}", *body, r"\end{tabular}"]))
    return "\n\n".join(made) + "\n"


def html(views: Iterable[View]) -> str:
    """Tables of HTML, one below the other, as a notebook shows them."""
    made = []
    for view in views:
        align = [' style="text-align:right"' if number else "" for number in view.numeric]
        head = "".join(f"<th{side}>{escape(name)}</th>" for name, side in zip(view.labels, align, strict=True))
        rows = (
            "".join(f"<td{side}>{text}</td>" for text, side in zip(line, align, strict=True))
            for line in _bold(view, escape, "<b>{}</b>")
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        more = f"<p>{escape(view.more)}</p>" if view.more else ""
        made.append(
            f"<table><caption>{escape(view.title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{more}"
        )
    return "\n".join(made)


def _bold(view: View, plain: Callable[[str], str], bold: str) -> Iterator[tuple[str, ...]]:
    """The rows with every cell made plain, and the best ones bold."""
    for i, row in enumerate(view.rows):
        yield tuple(
            bold.format(plain(cell)) if (i, place) in view.best else plain(cell) for place, cell in enumerate(row)
        )


def _tex(text: str) -> str:
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda found: _SPECIAL[found[0]], text)
