"""HTML page: one file with the sections in order, specifications of figures, tables, style and script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from custodes.answers.wording import insert_nonbreaking_spaces, names, plural
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.verdict.verdict import ESSENTIAL, HEADINGS, Verdict
from custodes.plots import theme
from custodes.plots.saving import vega_script
from custodes.reporting.section import TEMPLATES, Context, Section, render
from custodes.reporting.tables import column_specs, columns_with_values, compress_page_data, table_html


def study_summary(context: Context) -> str:
    """A sentence that states the size of the study."""
    summary = context.table("check.summary")
    aspects = [aspect for aspect in context.aspects if aspect]
    noun_of_column = {"items": "item", "systems": "system", "humans": "annotator", "metrics": "metric"}
    sizes = {word: int(summary[name].max() or 0) for name, word in noun_of_column.items()}  # type: ignore[arg-type]
    raters = (context.whole or context).table("check.raters")
    n_metrics, largest_n_metrics = raters.filter(kind="metric")["rater"].n_unique(), sizes["metric"]
    sizes["metric"] = max(n_metrics, largest_n_metrics)
    count_texts = [plural(size, word) for word, size in sizes.items() if size]
    if 0 < largest_n_metrics < n_metrics:
        count_texts[-1] += f" (at most {largest_n_metrics} on one aspect)"
    return f"{names(count_texts)}{f'; rated aspects: {names(aspects)}' if aspects else ''}."


def _findings(section: Section, sentences: Sequence[Mapping[str, Any]], context: Context) -> list[Mapping[str, Any]]:
    """The first sentence of the verdict on the topic of a section, for each aspect."""
    if section.question in context.absent:
        return []
    rows = [row for row in sentences if row["kind"] == section.finding and row["aspect"] in context.aspects]
    return list({row["aspect"]: row for row in reversed(rows)}.values())[::-1]


def _slices(section: Section, context: Context) -> str:
    """HTML of the table of slices of a question; '' if the result of the question has no slices."""
    name = f"{section.question}.slices"
    result = context.results.get(section.question)
    if result is None or "slices" not in result.table_declarations() or context.table(name).is_empty():
        return ""
    rows = context.table(name)
    columns = columns_with_values(
        [column for column in context.table_declaration(name).columns if column.essential], rows
    )
    caption = f"By slice ({result.provenance.options['by']})"
    return table_html(rows, columns, id=f"{section.question}-slices", caption=caption)


def page(context: Context, verdict: Verdict, sections: Sequence[Section], *, title: str = "") -> str:
    """The whole HTML page; the default title is the name of the study."""
    section_parts = [(section, *section.build_content(context)) for section in sections]
    table_names = [
        f"{question}.{name}" for question, result in context.results.items() for name in result.table_declarations()
    ]
    data = {
        "downloads": table_names,
        "aspects": context.aspects,
        "metrics": context.metrics,
        "figures": [asdict(figure) for _, figures, _ in section_parts for figure in figures],
        "chosen": [
            {**asdict(table), "columns": column_specs(table.columns)}
            for _, _, tables in section_parts
            for table in tables
        ],
        "labels": {name: statistic.label for name, statistic in STATISTICS.items()},
        "config": theme.config(theme.PAGE_INK),
        "provenance": {question: str(result.provenance) for question, result in context.results.items()},
    }
    sentences = [row | {"text": insert_nonbreaking_spaces(row["text"])} for row in verdict.verdict.to_dicts()]
    return render(
        "page.html",
        title=title or context.study.name,
        summary=insert_nonbreaking_spaces(study_summary(context)),
        verdict=sentences,
        findings={section.question: _findings(section, sentences, context) for section in sections},
        headings=HEADINGS,
        essential=[kind for kind in HEADINGS if kind in ESSENTIAL],
        others=[kind for kind in HEADINGS if kind not in ESSENTIAL],
        opening={figure.id: figure for _, figures, _ in section_parts for figure in figures if figure.opening},
        sections=[
            (section, insert_nonbreaking_spaces(section.html(context, figures, tables) + _slices(section, context)))
            for section, figures, tables in section_parts
        ],
        aspects=context.aspects,
        metrics=context.metrics,
        best=context.best,
        left_out=context.left_out,
        data=compress_page_data(data, ((name, context.table(name)) for name in (*table_names, *context.extra))),
        library=vega_script(),
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script=(TEMPLATES / "report.js").read_text(encoding="utf-8"),
    )
