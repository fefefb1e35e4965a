"""Summary lines for a new file of scores, verdicts or labels, with the command to run next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from math import sqrt
from pathlib import Path

import polars as pl

import custodes as cu
from custodes.answers.wording import estimate_with_interval, number, percent
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import CustodesError

CONFIDENCE = 0.95
RESAMPLES = 200
MOST_LINES = 24
FEWEST_ITEMS = 10
"""Minimum number of items for an interval of a mean."""


def summary_lines(file: Path) -> Iterator[str]:
    """The summary lines for a new file. If the file cannot be read without further files, there are no lines."""
    with suppress(CustodesError):
        study = read(file)
        rows = [*_labels(study), *_means(study), *_win_rates(study)]
        yield from rows[:MOST_LINES]
        if len(rows) > MOST_LINES:
            yield f"and {len(rows) - MOST_LINES} more lines"
        if study.labels:
            yield (
                f"next: custodes rates {file}, with a file of human labels of some outputs (custodes labelling {file} "
                "selects the outputs)"
            )
        else:
            yield (
                f"next: custodes report {file}, with a file of human ratings if "
                "you have one (custodes annotate new collects them)"
            )


def _labels(study: Study) -> Iterator[str]:
    """Lines with the rate at which each judge gives a label to the outputs of each system."""
    if study.labels:
        for row in cu.rates(study).rates.to_dicts():
            aspect_text = f"{row['aspect']}, " if row["aspect"] else ""
            rate = estimate_with_interval(row, "judge_rate", write=percent)
            yield f"{row['metric']} ({aspect_text}{row['system']}): {rate} of {row['n']} outputs are {row['label']}"


def _means(study: Study) -> Iterator[str]:
    """Lines with the mean score of each metric and system, and Student's interval over items.

    Corpus scores have no interval and are not averaged.
    """
    if study.labels:
        return
    from scipy.special import stdtrit

    keys = ["rater", "aspect", "system"]
    ratings = study.ratings.frame
    item_scores = (
        ratings.filter(pl.col("item") != "").group_by(*keys, "item", maintain_order=True).agg(pl.col("score").mean())
    )
    means = item_scores.group_by(keys, maintain_order=True).agg(
        pl.col("score").mean(), sd=pl.col("score").std(), n=pl.len()
    )
    corpus_scores = ratings.filter(pl.col("item") == "").select(
        *keys, "score", sd=pl.lit(None, pl.Float64), n=pl.lit(0)
    )
    for row in pl.concat([means, corpus_scores], how="vertical_relaxed").iter_rows(named=True):
        aspect_text = f"{row['aspect']}, " if row["aspect"] else ""
        value_text = number(row["score"])
        if row["sd"] is not None and row["n"] >= FEWEST_ITEMS:
            half_width = float(stdtrit(row["n"] - 1, (1 + CONFIDENCE) / 2)) * row["sd"] / sqrt(row["n"])
            value_text += (
                f" [{number(row['score'] - half_width)}, {number(row['score'] + half_width)}], mean of {row['n']} items"
            )
        yield f"{row['rater']} ({aspect_text}{row['system']}): {value_text}"


def _win_rates(study: Study) -> Iterator[str]:
    """Lines with the win rate of each system by each judge, and with the flip rate of each judge."""
    if study.preferences.frame.is_empty():
        return
    for row in cu.leaderboard(study, resamples=RESAMPLES).systems.to_dicts():
        aspect_text = f"{row['aspect']}, " if row["aspect"] else ""
        rate_text = estimate_with_interval(row, "win_rate", write=percent)
        yield f"{row['rater']} ({aspect_text}{row['system']}): win rate {rate_text}, {row['battles']} comparisons"
    for row in cu.consistency(study, resamples=RESAMPLES).orders.drop_nulls("flip_rate").to_dicts():
        flip_rate, n_pairs = estimate_with_interval(row, "flip_rate", write=percent), row["n_both_orders"]
        yield f"{row['rater']} changes its preference in {flip_rate} of {n_pairs} comparisons if the order is reversed"
