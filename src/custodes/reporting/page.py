"""The page: sections in their order, their pictures' specifications, the tables, style and script in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache

import polars as pl

from custodes.combining.combine import Combine
from custodes.evaluate.agreement import STATISTICS, Agreement
from custodes.evaluate.correction import Correction
from custodes.evaluate.favoritism import Favoritism
from custodes.evaluate.ranking import Ranking
from custodes.evaluate.result import Result
from custodes.plots import theme
from custodes.plots.agreement import LABELS, chance_level
from custodes.plots.combine import cost_rows, weight_rows
from custodes.plots.ranking import graph_rows
from custodes.reporting.section import TEMPLATES, Context, render
from custodes.reporting.sections import SECTIONS
from custodes.reporting.sections.correction import corrected_rows
from custodes.reporting.tables import columnar, packed, plain
from custodes.reporting.verdict import HEADINGS, Verdict, chance_accuracy


def page(study: str, results: Mapping[str, Result], verdict: Verdict, absent: Mapping[str, str]) -> str:
    """The whole HTML page; `absent` says why a question was not asked."""
    context = _context(study, results, verdict, absent)
    sections = [make(context) for make in SECTIONS]
    data = {
        "tables": {name: columnar(context.table(name)) for name in _embedded(context)},
        "downloads": [name for name in _embedded(context) if name not in context.extra],
        "figures": [asdict(figure) for section in sections for figure in section.charts],
        "chosen": [
            {**asdict(table), "columns": plain(table.columns)} for section in sections for table in section.tables
        ],
        "labels": LABELS,
        "config": theme.config(theme.PAGE_INK),
        "provenance": {question: str(result.provenance) for question, result in results.items()},
    }
    return render(
        "page.html",
        study=study,
        verdict=verdict,
        headings=HEADINGS,
        sections=sections,
        aspects=context.aspects,
        metrics=context.metrics,
        best=verdict.best,
        data=packed(data),
        library=_library(),
        style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script=(TEMPLATES / "report.js").read_text(encoding="utf-8"),
    )


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; takes seconds to make, so once a process."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle())  # type: ignore[call-arg]
    return bundle.replace("</script", "<\\/script")


def _context(study: str, results: Mapping[str, Result], verdict: Verdict, absent: Mapping[str, str]) -> Context:
    agreed, favoured, ranked = results["agreement"], results["favoritism"], results["ranking"]
    assert isinstance(agreed, Agreement)
    assert isinstance(favoured, Favoritism)
    assert isinstance(ranked, Ranking)
    pairs = favoured.pairs.select("system_a", "system_b").unique(maintain_order=True)
    extra = {"chance": _chance(agreed, favoured), "graph": graph_rows(ranked.decisions)}
    if "correction" in results:
        corrected = results["correction"]
        assert isinstance(corrected, Correction)
        extra["corrected"] = corrected_rows(corrected)
    if "combination" in results:
        combined = results["combination"]
        assert isinstance(combined, Combine)
        extra |= {"weights": weight_rows(combined.weights), "costs": cost_rows(combined.path)}
    return Context(
        study=study,
        results=results,
        verdict=verdict,
        aspects=tuple(agreed.metrics["aspect"].unique(maintain_order=True)),
        metrics=tuple(agreed.metrics["metric"].unique(maintain_order=True)),
        pairs=tuple(pairs.iter_rows()),
        extra=extra,
        absent=absent,
    )


def _chance(agreed: Agreement, favoured: Favoritism) -> pl.DataFrame:
    """The table `agreement.metrics` with what a metric that knows nothing would get, for every statistic."""
    accuracy = {aspect: chance_accuracy(favoured, aspect) for aspect in agreed.metrics["aspect"].unique()}
    rows = agreed.metrics.select("aspect", "metric").iter_rows()
    own = [accuracy[aspect].get(metric) for aspect, metric in rows]
    levels = {f"{name}_chance": pl.lit(chance_level(name), dtype=pl.Float64) for name in STATISTICS}
    return agreed.metrics.with_columns(**levels).with_columns(
        pl.Series("sample_accuracy_chance", own, dtype=pl.Float64)
    )


def _embedded(context: Context) -> list[str]:
    names = [f"{question}.{name}" for question, result in context.results.items() for name in result.tables()]
    return [*names, *context.extra]
