"""Views in LaTeX, Markdown and HTML: users' labels are escaped, and the best value is bold."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

from custodes.answers.formats import html, latex, markdown
from custodes.answers.tables import View
from custodes.data.simulate import demo_study
from custodes.evaluate.agreement.agreement import agreement

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


def test_html_is_well_formed_and_says_what_is_there() -> None:
    page = ElementTree.fromstring(f"<div>{html([MADE, PLAIN])}</div>")
    first, second = page.findall("table")
    assert [first.findtext("caption"), second.findtext("caption")] == [EVIL, ""]
    assert ["".join(cell.itertext()) for cell in first.iter("th")] == list(MADE.labels)
    assert ["".join(cell.itertext()) for cell in first.iter("td")] == [cell for row in MADE.rows for cell in row]
    assert [cell.findtext("b") for cell in first.iter("td")] == [None, None, None, "0.7 ± 0.1"]
    assert page.findtext("p") == MADE.more


NASTY = View(
    title="metrics (a|b_c)",
    header=("metric", "A|B_1"),
    rows=(("[x] & 5 % #1 {y}", "-0.5"), ("a<b>c *d* -e \\ ~^", "+0.6*")),
    labels=("Metric", "A|B_1"),
    numeric=(False, True),
    best=frozenset({(1, 1)}),
    more="*: favoured, 5 % & more",
)


def test_markdown_escapes_what_would_end_a_cell_or_set_type() -> None:
    text = markdown([NASTY])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    assert r"a\<b>c \*d\* -e" in text
    assert r"**+0.6\***" in text
    assert text.endswith("\\*: favoured, 5 % & more\n")


def test_latex_escapes_what_tex_reads_as_a_command() -> None:
    text = latex([NASTY])
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert r"{}[x] \& 5 \% \#1 \{y\} & $-$0.5 \\" in body  # LaTeX reads [ after \\ as its optional argument
    assert r"a$<$b$>$c *d* -e \textbackslash{} \textasciitilde{}\textasciicircum{} & \textbf{+0.6*} \\" in body
    assert "Metric & A$|$B\\_1" in body
    assert not re.search(r"(?<!\\)[%#_]", body)
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    assert text.endswith("% *: favoured, 5 % & more\n")


def test_a_page_is_whole_and_a_notebook_gets_its_tables_below_a_picture() -> None:
    result = agreement(demo_study(), aspect="fluency", resamples=0, compare_by=())
    page, notebook = result.to_html(), result._repr_html_()
    assert page.startswith("<!doctype html>")
    assert "<title>agreement: demo</title>" in page
    assert '<meta charset="utf-8">' in page
    picture, start, tables = notebook.partition("<table>")
    assert start + tables in page
    assert picture.startswith("<svg")
    opened: list[str] = []

    class Nesting(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Nesting().feed(page)
    assert not opened


def test_a_label_is_no_link_and_sends_no_code() -> None:
    view = replace(PLAIN, rows=(("![a](http://x) [b][c]\x1b[2J\u202e",), ("0.5 [0.4, 0.6]",)))
    assert r"!\[a" not in markdown([view])  # escaping the closing bracket is enough
    assert r"![a\](http://x) [b\][c]" in markdown([view])
    assert "0.5 [0.4, 0.6]" in markdown([view])
    for write in (markdown, latex, html):
        assert not re.search("[\x1b\u202e]", write([view]))
        assert "x1b" in write([view])
