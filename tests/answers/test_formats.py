from __future__ import annotations

import re
from html.parser import HTMLParser

from custodes.answers.formats import html, latex, markdown
from custodes.answers.tables import View
from custodes.data.simulate import demo_study
from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.favoritism import favoritism

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
    assert r"{}[x] \& 5 \% \#1 \{y\} & $-$0.5 \\" in body  # \\ reads a [ after it as its argument
    assert r"a$<$b$>$c *d* -e \textbackslash{} \textasciitilde{}\textasciicircum{} & \textbf{+0.6*} \\" in body
    assert "Metric & A$|$B\\_1" in body
    assert not re.search(r"(?<!\\)[%#_]", body)
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    assert text.endswith("% *: favoured, 5 % & more\n")


def test_a_view_without_columns_is_a_title_and_a_remark() -> None:
    empty = View(title="margins", header=(), rows=(), more="none")
    assert latex([empty]).startswith("% margins")
    assert markdown([empty]).split() == ["**margins**", "none"]


def test_html_escapes_labels() -> None:
    text = html([NASTY])
    assert "a&lt;b&gt;c" in text
    assert "<b>+0.6*</b>" in text


def test_a_page_is_whole_and_a_notebook_gets_only_the_tables() -> None:
    result = agreement(demo_study(), aspect="fluency", resamples=0, compare_by=())
    page, shown = result.to_html(), result._repr_html_()
    assert page.startswith("<!doctype html>")
    assert "<title>agreement: demo</title>" in page
    assert '<meta charset="utf-8">' in page
    assert shown in page
    assert shown.startswith("<table>")
    opened: list[str] = []

    class Nesting(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                opened.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Nesting().feed(page)
    assert not opened


def test_flags_are_words() -> None:
    result = favoritism(demo_study(), aspect="fluency", metrics="selfeval", resamples=20)
    rows = result.to_markdown("systems").splitlines()
    assert sum(row.endswith("| yes |") for row in rows) == result.systems["favoured"].sum()
    assert sum(row.endswith("| no |") for row in rows) == (~result.systems["favoured"]).sum()
