"""Verdicts of every rater for one aspect, with order and run, and one preference per rater and comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import narwhals as nw
import numpy as np
import polars as pl

from custodes.answers.shared_arguments import PreferenceOptions
from custodes.data.comparisons import pair_codes
from custodes.data.labels import MOST_STEPS
from custodes.data.panel import label_codes, pair_positions
from custodes.data.preferences import ORDER_CODES
from custodes.data.study import Study
from custodes.data.ties_and_orders import score_differences
from custodes.errors import InputError
from custodes.evaluate.comparable import is_ordered
from custodes.evaluate.design import Design
from custodes.evaluate.rater_comparison import compare_checked_raters
from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, Signs

OUTPUT = ["item", "system"]
MOST_SIGNS = 500_000_000
"""Maximum number of signs (raters times comparisons, one byte each) that fits into the memory of a common machine."""


@dataclass(frozen=True, kw_only=True)
class AspectPreferences:
    """Verdicts and preferences of all raters for one aspect; the first `n_humans` raters are annotators.

    `words` (items, systems) is the number of words of an output plus one, NaN without a text; the array is empty if the
    study has no texts. `queried_verdicts` has a row per queried verdict on exactly this aspect. The columns
    `rater`, `item`, `pair` and `unit` are positions, and `comparison` is a number for item and pair. `order` is 1 if
    the first system was shown first, -1 if the second system was shown first, and 0 if unknown. `run` is the
    number of the repeat, `preference` is null if there is no verdict, and `why` is the reason for a missing verdict.

    The other arrays describe n comparisons and are empty if there are only queried verdicts. `signs` (raters, n) are
    the preferences of each rater, and `people` (n,) are the preferences of the combined annotators. `item`, `pair` and
    `unit` are positions, and `length` is the log ratio of words, NaN if unknown.
    """

    aspect: str
    design: Design
    raters: tuple[str, ...]
    n_humans: int
    words: Floats
    queried_verdicts: pl.DataFrame
    item: Ints
    pair: Ints
    unit: Ints
    length: Floats
    signs: Signs
    people: Signs

    @property
    def n_units(self) -> int:
        """Number of clusters, or of blocks of clusters, that are resampled."""
        return self.design.n_units

    def words_of(self, item: Ints, system: Ints) -> Floats:
        """Return the number of words plus one of each output, by positions of item and system (n,); NaN if unknown."""
        return self.words[item, system] if self.words.size else np.full(len(item), np.nan)


def aspect_preferences(study: Study, setting: PreferenceOptions) -> list[AspectPreferences]:
    """Return the preferences for every aspect of a selected study.

    If only some rows have an aspect, the rows without an aspect are a separate part. Raises
    `InputError` if there are no verdicts, no scores of two outputs of one item, and no repeated labels.
    """
    aspects = study.aspects
    aspects_with_rows = {
        aspect
        for answer_frame in (
            study.preferences.frame,
            study.preferences.missing,
            _repeated_scores(study.ratings.frame),
            study.probes,
        )
        for aspect in answer_frame["aspect"].unique()
    }
    preferences_of_aspects = [
        _aspect_preferences(study, aspect, setting, is_compared=aspect in aspects and is_ordered(study, aspect))
        for aspect in (*aspects, *sorted(aspects_with_rows - {*aspects}))
    ]
    if study.probes.is_empty() and not any(
        preferences.queried_verdicts.height
        or preferences.signs.shape[1]
        or repeated_labels(study, preferences.aspect).height
        for preferences in preferences_of_aspects
    ):
        raise InputError(
            f"{study.name}: there is nothing to compare, because the study has no verdicts, no item with scores of "
            "two outputs, and no output that a rater labelled several times; give verdicts, scores or repeated "
            "labels (judge --repeats 3)"
        )
    return preferences_of_aspects


def _aspect_preferences(
    study: Study, aspect: str, setting: PreferenceOptions, *, is_compared: bool
) -> AspectPreferences:
    raters = (*study.humans, *study.metrics)
    missing_verdicts = study.preferences.missing
    system_labels = tuple(sorted({*study.systems, *missing_verdicts["system_a"], *missing_verdicts["system_b"]}))
    design = Design.from_study(
        study,
        items=tuple(pl.concat([study.item_labels(), missing_verdicts["item"]]).unique().sort()),
        systems=system_labels,
    ).group_into_blocks()
    preferences = AspectPreferences(
        aspect=aspect,
        design=design,
        raters=raters,
        n_humans=len(study.humans),
        words=_word_counts(study, design),
        queried_verdicts=_queried_verdicts(study, aspect, raters, design),
        **dict.fromkeys(("item", "pair", "unit"), np.zeros(0, dtype=np.int64)),
        length=np.zeros(0),
        signs=np.zeros((len(raters), 0), dtype=np.int8),
        people=np.zeros(0, dtype=np.int8),
    )
    return _add_preferences(study, preferences, setting) if is_compared and len(system_labels) > 1 else preferences


def _queried_verdicts(study: Study, aspect: str, raters: Sequence[str], design: Design) -> pl.DataFrame:
    queried_preferences = study.preferences.queried_verdicts.select_rows(pl.col("aspect") == aspect)
    verdict_rows = pl.concat(
        [queried_preferences.frame, queried_preferences.missing, _scored_runs(study, aspect)], how="diagonal"
    )
    item_of_verdict, pair_of_verdict = (
        label_codes(verdict_rows["item"], design.items),
        pair_positions(verdict_rows, design.systems),
    )
    return (
        pl.DataFrame(
            {
                "rater": label_codes(verdict_rows["rater"], raters),
                "item": item_of_verdict,
                "pair": pair_of_verdict,
                "unit": design.units[item_of_verdict],
                "comparison": item_of_verdict * max(1, len(design.pairs)) + pair_of_verdict,
                "order": verdict_rows.select(ORDER_CODES.cast(pl.Int8)).to_series(),
                "preference": verdict_rows["preference"].cast(pl.Float64),
                "why": verdict_rows["why"],
            }
        )
        .filter(pl.col("rater") >= 0)
        .with_columns(run=pl.int_range(pl.len()).over("rater", "comparison", "order"))
    )


def _scored_runs(study: Study, aspect: str) -> pl.DataFrame:
    """Return verdicts derived from the scores of raters who scored outputs several times; one verdict per run."""
    aspect_rows = study.ratings.frame.filter(pl.col("aspect") == aspect, pl.lit(is_ordered(study, aspect)))
    score_rows = _repeated_scores(aspect_rows).select(
        "rater",
        "system",
        item=pl.struct("item", "repeat"),
        score=pl.col("score") * pl.col("rater").replace_strict(study.raters.direction, default=1.0),
        threshold=0.0,
    )
    difference_rows: pl.DataFrame = score_differences(nw.from_native(score_rows.lazy())).collect().to_native()
    return (
        difference_rows.select("rater", "item", "system_a", "system_b", order=pl.lit(""), preference="sign")
        .sort("rater", "item", "system_a", "system_b")
        .unnest("item")
    )


def _repeated_scores(score_rows: pl.DataFrame) -> pl.DataFrame:
    """Return the scores of raters who have repeated scores for the aspect."""
    return score_rows.filter(pl.col("item") != "").filter(pl.col("repeat").n_unique().over("rater", "aspect") > 1)


def repeated_labels(study: Study, aspect: str) -> pl.DataFrame:
    """Return the labels of outputs that a rater labelled several times: rater, item, system, repeat, score.

    Labels are codes. If the aspect has no labels, scores count as labels for raters who gave only few different whole
    numbers.
    """
    label_scale = study.labels.get(aspect)
    score_rows = study.ratings.frame.filter(
        pl.col("aspect") == aspect,
        pl.col("item") != "",
        ~pl.col("rater").is_in(list(label_scale.scores if label_scale else ())),
    )
    repeated_rows = score_rows.filter(pl.len().over("rater", *OUTPUT) > 1).select("rater", *OUTPUT, "repeat", "score")
    if label_scale:
        return repeated_rows
    return repeated_rows.filter(
        ((pl.col("score") == pl.col("score").round()).all() & (pl.col("score").n_unique() <= MOST_STEPS)).over("rater")
    )


def _add_preferences(study: Study, preferences: AspectPreferences, setting: PreferenceOptions) -> AspectPreferences:
    """Return the part with arrays of preferences by rater and comparison."""
    queried_preferences = study.preferences.queried_verdicts
    # If no ties are excluded, other questions use the same comparisons, which may be in the cache of the study.
    comparison = compare_checked_raters(
        study
        if queried_preferences.frame.height == study.preferences.frame.height
        else replace(study, preferences=queried_preferences),
        preferences.aspect,
        setting,
    )
    comparisons_of_all_raters = comparison.preferences.with_raters(comparison.annotators)
    n_comparisons = pl.Series(comparisons_of_all_raters.keys).n_unique()
    if n_comparisons * len(preferences.raters) > MOST_SIGNS:
        raise InputError(
            f"{study.name}: {n_comparisons} comparisons x {len(preferences.raters)} raters do not fit into "
            "memory; select fewer raters or systems"
        )
    joint_preferences = comparisons_of_all_raters.joint(*range(len(comparisons_of_all_raters.raters)))
    ordered_comparison_indices = np.lexsort(
        (joint_preferences.pair, joint_preferences.item)
    )  # sorted, because random numbers are assigned in the order of items
    signs = np.full((len(preferences.raters), n_comparisons), ABSENT, dtype=np.int8)
    signs[label_codes(pl.Series(comparisons_of_all_raters.raters[1:], dtype=pl.String), preferences.raters)] = (
        joint_preferences.signs[1:, ordered_comparison_indices]
    )
    item_of_comparison, (first_systems, second_systems) = (
        label_codes(pl.Series(comparison.items, dtype=pl.String), preferences.design.items)[
            joint_preferences.item[ordered_comparison_indices]
        ],
        label_codes(pl.Series(comparison.systems, dtype=pl.String), preferences.design.systems)[
            comparison.design.pairs[joint_preferences.pair[ordered_comparison_indices]]
        ].T,
    )
    return replace(
        preferences,
        item=item_of_comparison,
        pair=pair_codes(first_systems, second_systems, len(preferences.design.systems)),
        unit=preferences.design.units[item_of_comparison],
        length=np.log(
            preferences.words_of(item_of_comparison, first_systems)
            / preferences.words_of(item_of_comparison, second_systems)
        ),
        signs=signs,
        people=joint_preferences.signs[0, ordered_comparison_indices],
    )


def _word_counts(study: Study, design: Design) -> Floats:
    """Return the number of words of each output plus one, (items, systems); NaN without a text.

    One is added so that empty outputs have a logarithm.
    """
    if study.outputs is None:
        return np.zeros((0, 0))
    word_counts = np.full((len(design.items), len(design.systems)), np.nan)
    text_rows = study.outputs.texts
    item_index_of_text, system_index_of_text = (
        label_codes(text_rows["item"], design.items),
        label_codes(text_rows["system"], design.systems),
    )
    is_listed_output: Bools = (item_index_of_text >= 0) & (system_index_of_text >= 0)
    word_counts[item_index_of_text[is_listed_output], system_index_of_text[is_listed_output]] = (
        1 + text_rows["text"].str.count_matches(r"\S+").cast(pl.Float64).to_numpy()[is_listed_output]
    )
    return word_counts
