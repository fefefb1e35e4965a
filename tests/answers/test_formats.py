"""Views for papers and pages: labels of a user never become markup, the best value is bold."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from custodes.answers.formats import html, latex, markdown
from custodes.answers.tables import View

EVIL = r"<b>|&_%$#{}~^\x"
MADE = View(
    title=EVIL,
    header=("name", "tau"),
    labels=(EVIL, "τ"),
    rows=((EVIL, "0.5"), ("plain", "0.7 ± 0.1")),
    numeric=(False, True),
    best=frozenset({(1, 1)}),
    more="1 of 3 rows not shown",
)
PLAIN = View(title="", header=("name",), rows=(("a",),))


def test_markdown_keeps_its_columns() -> None:
    text = markdown([MADE, PLAIN])
    lines = text.splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in table[3:4]] == [3]
    assert "| --- | ---: |" in lines
    assert "| plain | **0.7 ± 0.1** |" in lines
    assert "1 of 3 rows not shown" in lines
    assert text.endswith("| name |\n| --- |\n| a |\n")
    assert markdown([]) == "\n"


def test_markdown_of_the_hostile_label() -> None:
    row = next(line for line in markdown([MADE]).splitlines() if "0.5" in line)
    assert row == r"| <b>\|&_%$#{}~^\x | 0.5 |"


def test_latex_escapes_everything_that_it_would_read() -> None:
    text = latex([MADE, PLAIN])
    safe = r"<b>|\&\_\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}x"
    assert text.splitlines()[0] == f"% {safe}"
    assert rf"{safe} & $\tau$ \\" in text
    assert rf"{safe} & 0.5 \\" in text
    assert r"plain & \textbf{0.7 $\pm$ 0.1} \\" in text
    assert r"\begin{tabular}{lr}" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == text.count(r"\end{tabular}") == 2
    # nothing is left that would end a line or open a group: all braces are matched
    body = re.sub(r"\\[{}]", "", text)
    assert body.count("{") == body.count("}")


def test_html_shows_labels_and_never_runs_them() -> None:
    text = html([MADE, PLAIN])
    assert "<b>|" not in text
    assert text.count("&lt;b&gt;|&amp;_%$#{}~^\\x") == 3  # title, header, cell
    assert '<td style="text-align:right"><b>0.7 ± 0.1</b></td>' in text
    assert text.count("<table>") == text.count("</table>") == 2
    assert "<p>1 of 3 rows not shown</p>" in text
    assert re.findall(r"<(/?\w+)", text).count("tr") == 5


def test_html_is_well_formed_and_says_what_is_there() -> None:
    page = ElementTree.fromstring(f"<div>{html([MADE, PLAIN])}</div>")
    first, second = page.findall("table")
    assert [first.findtext("caption"), second.findtext("caption")] == [EVIL, ""]
    assert ["".join(cell.itertext()) for cell in first.iter("th")] == list(MADE.labels)
    assert ["".join(cell.itertext()) for cell in first.iter("td")] == [cell for row in MADE.rows for cell in row]
    assert [cell.findtext("b") for cell in first.iter("td")] == [None, None, None, "0.7 ± 0.1"]
    assert page.findtext("p") == MADE.more
