"""HTML page: one file with the sections in order, specifications of figures, tables, style and script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from custodes.answers.wording import insert_nonbreaking_spaces, names, plural
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.verdict.verdict import HEADINGS, Verdict
from custodes.plots import theme
from custodes.plots.saving import vega_script
from custodes.reporting.section import TEMPLATES, Context, Section, render
from custodes.reporting.tables import column_specs, compress_page_data, table_html


def study_summary(context: Context) -> str:
    """A sentence that states the size of the study."""
    summary_table = context.table("check.summary")
    named_aspects = [aspect for aspect in context.aspects if aspect]
    noun_of_column = {"items": "item", "systems": "system", "humans": "annotator", "metrics": "metric"}
    count_of_noun = {noun: int(summary_table[column_name].max() or 0) for column_name, noun in noun_of_column.items()}  # type: ignore[arg-type]
    n_metrics = (context.whole or context).table("check.raters").filter(kind="metric")["rater"].n_unique()
    max_metrics_per_aspect = count_of_noun["metric"]
    count_of_noun["metric"] = max(n_metrics, max_metrics_per_aspect)
    size_text = names([plural(count, noun) for noun, count in count_of_noun.items() if count])
    if 0 < max_metrics_per_aspect < n_metrics:
        size_text += f" (at most {max_metrics_per_aspect} on one aspect)"
    return f"{size_text}{f'; rated aspects: {names(named_aspects)}' if named_aspects else ''}."


def _findings(section: Section, sentences: Sequence[Mapping[str, Any]], context: Context) -> list[Mapping[str, Any]]:
    """The first sentence of the verdict on the topic of a section, for each aspect."""
    if section.question in context.absent:
        return []
    sentence_of_aspect: dict[str, Mapping[str, Any]] = {}
    for sentence in sentences:
        if sentence["kind"] == section.finding and sentence["aspect"] in context.aspects:
            sentence_of_aspect.setdefault(sentence["aspect"], sentence)
    return list(sentence_of_aspect.values())


def _slices(section: Section, context: Context) -> str:
    """HTML of the table of slices of a question; '' if the result of the question has no slices."""
    table_name = f"{section.question}.slices"
    result = context.results.get(section.question)
    if result is None or "slices" not in result.table_declarations() or context.table(table_name).is_empty():
        return ""
    return table_html(
        context.table(table_name),
        context.essential_columns(table_name),
        id=f"{section.question}-slices",
        caption=f"By slice ({result.provenance.options['by']})",
    )


def page(context: Context, verdict: Verdict, sections: Sequence[Section], *, title: str = "") -> str:
    """The whole HTML page; the default title is the name of the study."""
    sections_figures_tables = [(section, *section.build_content(context)) for section in sections]
    table_names = [
        f"{question}.{table_name}"
        for question, result in context.results.items()
        for table_name in result.table_declarations()
    ]
    page_data = {
        "downloads": table_names,
        "aspects": context.aspects,
        "metrics": context.metrics,
        "figures": [asdict(figure) for _, figures, _ in sections_figures_tables for figure in figures],
        "chosen": [
            {**asdict(selection_table), "columns": column_specs(selection_table.columns)}
            for _, _, selection_tables in sections_figures_tables
            for selection_table in selection_tables
        ],
        "labels": {statistic_name: statistic.label for statistic_name, statistic in STATISTICS.items()},
        "config": theme.config(theme.PAGE_INK),
        "provenance": {question: str(result.provenance) for question, result in context.results.items()},
    }
    verdict_rows = [row | {"text": insert_nonbreaking_spaces(row["text"])} for row in verdict.verdict.to_dicts()]
    return render(
        "page.html",
        title=title or context.study.name,
        summary=insert_nonbreaking_spaces(study_summary(context)),
        verdict=verdict_rows,
        findings={section.question: _findings(section, verdict_rows, context) for section in sections},
        headings=HEADINGS,
        opening={
            figure.id: figure for _, figures, _ in sections_figures_tables for figure in figures if figure.opening
        },
        sections=[
            (
                section,
                insert_nonbreaking_spaces(section.html(context, figures, selection_tables) + _slices(section, context)),
            )
            for section, figures, selection_tables in sections_figures_tables
        ],
        aspects=context.aspects,
        metrics=context.metrics,
        first_metric=context.first_metric,
        left_out=context.left_out,
        data=compress_page_data(
            page_data, ((table_name, context.table(table_name)) for table_name in (*table_names, *context.extra))
        ),
        library=vega_script(),
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script=(TEMPLATES / "report.js").read_text(encoding="utf-8"),
    )
