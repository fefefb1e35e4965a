"""Rules on outputs: systems that equal the reference or another system, and missing, constant or duplicate texts."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from custodes.data.dependent_items import fingerprint
from custodes.data.study import Study
from custodes.errors import join_labels
from custodes.evaluate.check.rules import Problem, problem, problems_of

FEWEST_ITEMS = 20
"""Minimum number of items of a system; with fewer items, equal scores or texts may be chance."""
ROUNDING = 1e-6
"""Scores count as equal if they differ by less than this fraction of the range of the metric."""
ELSEWHERE = 0.05
"""At most this proportion of other systems' outputs may equal a reference or reach the maximum of a metric."""
FEWEST_VALUES = 20
"""Minimum number of different scores of a metric.

If a metric has fewer different scores, a good system may reach the maximum on all items.
"""
COMMON_TIES = 0.75
"""Maximum proportion of scores that equal another system's score; with more, scores may depend only on the item."""
DISTINCT = 0.25
"""Minimum number of different scores per item; with fewer, equal scores of two systems may be chance."""
FEWEST_DISTINCT = 5


FEWEST_OUTPUTS = 3
"""Minimum number of outputs of a system; with fewer outputs, equal texts may be chance."""


def copied_systems(selected_study: Study) -> Iterator[Problem]:
    """Yield systems whose outputs equal the references, and systems with the same outputs as another system."""
    score_rows = _metric_scores(selected_study)
    top_metrics_of_system = _metrics_with_maximum(score_rows)
    n_copied_items_of_system = _reference_copies(selected_study)
    for system in dict.fromkeys([*n_copied_items_of_system, *top_metrics_of_system]):
        top_metrics = list(dict.fromkeys(top_metrics_of_system.get(system, ())))
        verb_text = "has its" if len(top_metrics) == 1 else "have their"
        n_copied_items = n_copied_items_of_system.get(system, 0)
        reasons = (
            (n_copied_items, f"its outputs equal the references of {n_copied_items} items"),
            (top_metrics, f"{join_labels(top_metrics, limit=4)} {verb_text} maximum on all items of the system"),
        )
        yield problem(
            "reference-system",
            [system, *top_metrics],
            system=system,
            why="; ".join(reason_text for applies, reason_text in reasons if applies),
        )
    for identical_systems, evidence_names in _identical_systems(selected_study, score_rows).items():
        yield problem(
            "identical-systems",
            identical_systems,
            systems=join_labels(identical_systems),
            by=join_labels(evidence_names, limit=4),
            other=identical_systems[1],
        )


def _texts(selected_study: Study) -> pl.DataFrame:
    """Return the outputs of the compared systems; for a study without ratings, return all outputs."""
    assert selected_study.outputs is not None
    output_texts = selected_study.outputs.texts
    return (
        output_texts.filter(pl.col("system").is_in(list(selected_study.systems)))
        if selected_study.raters.frame.height
        else output_texts
    )


def _metric_scores(selected_study: Study) -> pl.DataFrame:
    """Return the scores of outputs by metrics; higher is better."""
    return selected_study.ratings.frame.filter(
        pl.col("rater").is_in(list(selected_study.metrics)) & (pl.col("item") != "")
    ).with_columns(
        pl.col("score")
        * pl.col("rater").replace_strict(selected_study.raters.direction, default=1.0, return_dtype=pl.Float64)
    )


def _metrics_with_maximum(score_rows: pl.DataFrame) -> dict[str, list[str]]:
    """For each system, return the metrics that give this system their highest score on all items.

    A metric is returned only if hardly any output of other systems has the highest score. A system is excluded if at
    least as many metrics give the system their lowest score on all items; the outputs are then empty or broken.
    """
    rater_aspect_columns = ["rater", "aspect"]
    lowest_expression, highest_expression = pl.col("score").min(), pl.col("score").max()
    tolerance_expression = ROUNDING * (highest_expression - lowest_expression)
    scores_with_extremes = score_rows.with_columns(
        top=(pl.col("score") >= highest_expression - tolerance_expression).over(rater_aspect_columns),
        bottom=(pl.col("score") <= lowest_expression + tolerance_expression).over(rater_aspect_columns),
    )
    system_rows = (
        scores_with_extremes.group_by([*rater_aspect_columns, "system"], maintain_order=True)
        .agg(pl.col("top", "bottom").all(), n_of_system=pl.len(), n_items=pl.col("item").n_unique())
        .join(
            scores_with_extremes.group_by(rater_aspect_columns).agg(
                n_top=pl.col("top").sum(),
                n_bottom=pl.col("bottom").sum(),
                n_outputs=pl.len(),
                n_values=pl.col("score").n_unique(),
            ),
            on=rater_aspect_columns,
            maintain_order="left",
        )
        .filter(pl.col("n_items") >= FEWEST_ITEMS, pl.col("n_values") >= FEWEST_VALUES)
    )
    top_metrics_of_system, bottom_metrics_of_system = (
        dict(
            system_rows.filter(
                extreme,
                (pl.col(f"n_{extreme}") - pl.col("n_of_system"))
                <= ELSEWHERE * (pl.col("n_outputs") - pl.col("n_of_system")),
            )
            .group_by("system", maintain_order=True)
            .agg("rater")
            .iter_rows()
        )
        for extreme in ("top", "bottom")
    )
    return {
        system: top_metrics
        for system, top_metrics in top_metrics_of_system.items()
        if len(top_metrics) > len(bottom_metrics_of_system.get(system, ()))
    }


def _reference_copies(selected_study: Study) -> dict[str, int]:
    """Return the systems whose outputs all equal a reference, with their numbers of items.

    A system is returned only if outputs of other systems rarely equal a reference.
    """
    if selected_study.outputs is None:
        return {}
    output_rows = _texts(selected_study).join(
        selected_study.outputs.sources.select("item", "references").filter(pl.col("references").list.len() > 0),
        on="item",
    )
    output_rows = output_rows.with_columns(equal=pl.col("references").list.contains(pl.col("text")))
    n_hits_elsewhere_expression, n_outputs_elsewhere_expression = (
        pl.col(column_name).sum() - pl.col(column_name) for column_name in ("hits", "n")
    )
    return dict(
        output_rows.group_by("system", maintain_order=True)
        .agg(pl.col("equal").all().alias("all"), hits=pl.col("equal").sum(), n=pl.len())
        .filter(
            "all",
            pl.col("n") >= FEWEST_ITEMS,
            n_hits_elsewhere_expression <= ELSEWHERE * n_outputs_elsewhere_expression,
        )
        .select("system", "n")
        .iter_rows()
    )


def _identical_systems(selected_study: Study, metric_score_rows: pl.DataFrame) -> dict[tuple[str, ...], list[str]]:
    """Return sets of systems that are equal on all items, with the evidence.

    The systems of a set have equal texts, or equal scores by a metric or by all annotators.
    """
    evidence_tables_and_columns = [
        (
            selected_study.ratings.frame.filter(
                pl.col("rater").is_in(list(selected_study.humans)) & (pl.col("item") != "")
            ).with_columns(by=pl.lit("all annotators")),
            ("rater", "aspect", "repeat", "score"),
        ),
        (metric_score_rows.with_columns(by="rater"), ("aspect", "repeat", "score")),
    ]
    if selected_study.outputs is not None:
        evidence_tables_and_columns.append((_texts(selected_study).with_columns(by=pl.lit("their texts")), ("text",)))
    evidence_of_systems: dict[tuple[str, ...], list[str]] = {}
    for evidence_rows, value_column_names in evidence_tables_and_columns:
        # Equal systems have equal values. Few systems have, so that the rows of items are rarely needed.
        fingerprints_of_systems = evidence_rows.group_by("by", "system").agg(
            fingerprint(value_column_names[-1]).alias("values"), pl.len()
        )
        if not fingerprints_of_systems.select(pl.struct("by", "values", "len").is_duplicated().any()).item():
            continue
        for (evidence_name,), score_rows in (
            evidence_rows.group_by("by", "item", "system", maintain_order=True)
            .agg(score=fingerprint(*value_column_names))
            .group_by("by", maintain_order=True)
        ):
            for identical_systems in _equal_systems(score_rows):
                evidence_of_systems.setdefault(identical_systems, []).append(str(evidence_name))
    return evidence_of_systems


def _equal_systems(score_rows: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    """Yield sets of systems with the same `score` on the same items, if equal scores are rare among the systems."""
    score_digest_rows = score_rows.group_by("system", maintain_order=True).agg(
        digest=fingerprint("item", "score"), n=pl.len(), distinct=pl.col("score").n_unique()
    )
    varied_system_rows = score_digest_rows.filter(
        pl.col("n") >= FEWEST_ITEMS,
        pl.col("distinct") >= FEWEST_DISTINCT,
        pl.col("distinct") >= DISTINCT * pl.col("n"),
    )
    for equal_systems in (
        varied_system_rows.group_by("digest", "n", maintain_order=True).agg("system")["system"].to_list()
    ):
        if len(equal_systems) < 2 or len(equal_systems) == len(score_digest_rows) > 2:
            continue
        tie_rate_with_others = (
            score_rows.filter(pl.col("system") == equal_systems[0])
            .join(score_rows.filter(~pl.col("system").is_in(equal_systems)), on="item", suffix="_other")
            .select((pl.col("score") == pl.col("score_other")).mean())
            .item()
        )
        if tie_rate_with_others is None or tie_rate_with_others <= COMMON_TIES:
            yield tuple(sorted(equal_systems))


def texts_alone(study: Study) -> pl.DataFrame | None:
    """Return the texts of a study that has no scores or verdicts; None for other studies."""
    return None if study.outputs is None or study.raters.frame.height else study.outputs.texts


def systems_of_texts(texts: pl.DataFrame) -> pl.DataFrame:
    """Return the table `texts`: numbers of outputs, missing outputs and duplicates, and mean length of each system."""
    stripped_text_expression = pl.col("text").str.strip_chars()
    n_items_expression = pl.lit(texts["item"].n_unique(), dtype=pl.Int64)
    return (
        texts.with_columns(blank=stripped_text_expression == "", n=stripped_text_expression.str.count_matches(r"\S+"))
        .with_columns(equal=(pl.len().over("item", "text") > 1) & ~pl.col("blank"))
        .group_by("system")
        .agg(
            items=n_items_expression,
            outputs=(~pl.col("blank")).sum(),
            missing=n_items_expression - (~pl.col("blank")).sum(),
            duplicates=pl.col("equal").sum(),
            distinct=pl.col("text").filter(~pl.col("blank")).n_unique(),
            words=pl.col("n").filter(~pl.col("blank")).mean(),
        )
        .sort("system")
    )


def constant_outputs(study: Study) -> list[Problem]:
    """Return systems with the same output for every item."""
    if study.outputs is None:
        return []
    constant_systems = (
        systems_of_texts(study.outputs.texts)
        .filter(pl.col("distinct") == 1, pl.col("outputs") >= FEWEST_OUTPUTS)["system"]
        .to_list()
    )
    return problems_of("constant-outputs", constant_systems, systems=join_labels(constant_systems))


def text_problems(texts: pl.DataFrame) -> Iterator[Problem]:
    """Yield problems of texts: missing outputs and duplicates."""
    system_rows = systems_of_texts(texts)
    for rule, count_column_name in (("missing-outputs", "missing"), ("duplicate-outputs", "duplicates")):
        count_of_system = dict(
            system_rows.filter(pl.col(count_column_name) > 0).select("system", count_column_name).iter_rows()
        )
        yield from problems_of(
            rule,
            [*count_of_system],
            n=sum(count_of_system.values()),
            cells=system_rows["items"].sum(),
            systems=join_labels((f"{system} ({n_outputs})" for system, n_outputs in count_of_system.items()), limit=5),
        )
    yield problem("texts-only", n=system_rows.height, items=texts["item"].n_unique())
