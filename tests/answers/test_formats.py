"""Markdown, LaTeX and HTML: every cell plain, the best ones bold, nothing of a name is taken for markup."""

from __future__ import annotations

from xml.etree import ElementTree

from custodes.answers.formats import html, latex, markdown
from custodes.answers.tables import View

VIEW = View(
    title="who & what",
    header=("metric", "tau"),
    labels=("Metric", "Kendall τ"),
    rows=(("a_b|c", "0.40"), ("<b>&~^\\{}%$#", "−0.10 – ±")),
    numeric=(False, True),
    best=frozenset({(0, 1)}),
    more="2 of 4 rows not shown",
)
PLAIN = View(title="plain", header=("a",), rows=())


def test_markdown() -> None:
    assert markdown([VIEW, PLAIN]) == (
        "**who & what**\n\n"
        "| Metric | Kendall τ |\n"
        "| --- | ---: |\n"
        "| a_b\\|c | **0.40** |\n"
        "| <b>&~^\\{}%$# | −0.10 – ± |\n\n"
        "2 of 4 rows not shown\n\n"
        "**plain**\n\n"
        "| a |\n"
        "| --- |\n"
    )


def test_latex() -> None:
    lines = latex([VIEW, PLAIN]).split("\n")
    assert lines[:5] == [
        r"% who \& what",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"Metric & Kendall $\tau$ \\",
        r"\midrule",
    ]
    assert lines[5] == r"a\_b|c & \textbf{0.40} \\"
    special = r"<b>\&\textasciitilde{}\textasciicircum{}\textbackslash{}\{\}\%\$\#"
    assert lines[6] == special + r" & $-$0.10 -- $\pm$ \\"
    assert lines[7:9] == [r"\bottomrule", r"\end{tabular}"]
    assert latex([VIEW, PLAIN]).count(r"\end{tabular}") == 2


def test_html_is_well_formed_and_says_what_is_there() -> None:
    page = ElementTree.fromstring(f"<div>{html([VIEW, PLAIN])}</div>")
    first, second = page.findall("table")
    assert [first.findtext("caption"), second.findtext("caption")] == ["who & what", "plain"]
    assert ["".join(cell.itertext()) for cell in first.iter("th")] == list(VIEW.labels)
    assert ["".join(cell.itertext()) for cell in first.iter("td")] == [cell for row in VIEW.rows for cell in row]
    assert [cell.findtext("b") for cell in first.iter("td")] == [None, "0.40", None, None]
    assert [cell.get("style") for cell in first.iter("td")] == [None, "text-align:right"] * 2
    assert page.findtext("p") == VIEW.more
