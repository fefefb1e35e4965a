"""Normalisation of metrics: scores are clipped to [low, high] and scaled to [0, 1], where 1 is the best."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from math import inf, pi
from typing import Literal, NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, ReadOnlyArrays

Source = Literal["declared", "known", "fitted"]
_Limits = tuple[float, float, Source]

LEAST_USED = 0.05
"""Minimum proportion of a known scale that scores must cover. If the scores cover less, they are probably on another
scale (for example, a BLEU of .31 instead of 31)."""

_ROUNDING = 1e-6  # tolerance as a proportion of the scale: in single precision, a BERTScore can be 1.0000001


class KnownScale(NamedTuple):
    """Usual scale of a metric; an infinite bound means no bound.

    `pattern` is a glob for the first words of the metric's name, in lower case and with one space between words.
    """

    pattern: str
    low: float
    high: float
    higher_is_better: bool


KNOWN = (
    # A metric with several scales has a row for each scale; all rows have the same direction, and the first scale that
    # contains the scores is used. A row without a finite bound only gives the direction.
    #
    # Overlap of words and characters
    KnownScale("bleu", 0, 100, True),  # sacrebleu
    KnownScale("bleu", 0, 1, True),  # Papineni et al. 2002; NLTK, Hugging Face evaluate
    KnownScale("bleu[1-4]", 0, 100, True),
    KnownScale("bleu[1-4]", 0, 1, True),
    KnownScale("sacrebleu", 0, 100, True),
    KnownScale("spbleu", 0, 100, True),  # sacrebleu, tokenizer of Flores
    KnownScale("f200spbleu", 0, 100, True),  # its name at WMT23
    KnownScale("chrf*", 0, 100, True),  # sacrebleu, also chrF++
    KnownScale("chrf*", 0, 1, True),  # Popović 2015; NLTK
    KnownScale("rouge*", 0, 1, True),  # Lin 2004; rouge-score
    KnownScale("rouge*", 0, 100, True),  # in percent, as papers print it
    KnownScale("meteor", 0, 1, True),  # Banerjee and Lavie 2005
    KnownScale("meteor", 0, 100, True),
    KnownScale("gleu", 0, 1, True),  # Wu et al. 2016
    KnownScale("ribes", 0, 1, True),  # Isozaki et al. 2010
    KnownScale("nist", 0, inf, True),  # Doddington 2002: information in bits
    KnownScale("sari", 0, 100, True),  # Xu et al. 2016; EASSE, Hugging Face evaluate
    KnownScale("cider*", 0, 10, True),  # Vedantam et al. 2015, CIDEr-D times 10; pycocoevalcap
    KnownScale("spice", 0, 1, True),  # Anderson et al. 2016: an F-score
    # Edits: an error rate can exceed 1 if the output is longer than the reference
    KnownScale("ter", 0, inf, False),  # Snover et al. 2006
    KnownScale("hter", 0, inf, False),
    KnownScale("wer", 0, inf, False),
    KnownScale("cer", 0, inf, False),
    KnownScale("mer", 0, 1, False),  # Morris et al. 2004; jiwer
    KnownScale("wil", 0, 1, False),
    KnownScale("wip", 0, 1, True),
    KnownScale("edit distance", 0, inf, False),
    KnownScale("levenshtein*", 0, inf, False),
    # Embeddings
    KnownScale("bertscore", 0, 1, True),  # Zhang et al. 2020: in practice
    KnownScale("bertscore", -1, 1, True),  # a cosine
    KnownScale("moverscore", -inf, 1, True),  # Zhao et al. 2019: 1 - a distance
    KnownScale("wmd", 0, inf, False),  # Kusner et al. 2015: a distance
    KnownScale("baryscore", 0, inf, False),  # Colombo et al. 2021: a Wasserstein distance
    KnownScale("depthscore", 0, inf, False),  # Staerman et al. 2022: a distance
    KnownScale("infolm *fisherrao", 0, pi, False),  # Colombo et al. 2022: 2 arccos of an overlap
    KnownScale("clipscore", 0, 1, True),  # Hessel et al. 2021: in practice
    KnownScale("clipscore", 0, 2.5, True),  # 2.5 times a cosine
    KnownScale("clipscore", 0, 100, True),  # torchmetrics: 100 times a cosine
    KnownScale("refclipscore", 0, 1, True),  # Hessel et al. 2021: in practice
    KnownScale("mauve", 0, 1, True),  # Pillutla et al. 2021: an area
    # Learned
    KnownScale("bleurt 20", 0, 1, True),  # Pu et al. 2021: roughly
    KnownScale("bleurt*", -inf, inf, True),  # Sellam et al. 2020: earlier checkpoints have no scale
    KnownScale("comet", 0, 1, True),  # Rei et al. 2022 (COMET-22); earlier models are z-scores
    KnownScale("comet22", 0, 1, True),
    KnownScale("wmt22 comet*", 0, 1, True),
    KnownScale("wmt20 comet*", -inf, inf, True),  # z-scores
    KnownScale("cometkiwi*", 0, 1, True),  # Rei et al. 2022
    KnownScale("wmt2[23] cometkiwi*", 0, 1, True),
    KnownScale("xcomet", 0, 1, True),  # Guerreiro et al. 2024
    KnownScale("metricx*", 0, 25, False),  # Juraska et al. 2023: an MQM penalty
    KnownScale("unieval", 0, 1, True),  # Zhong et al. 2022: a probability
    KnownScale("questeval", 0, 1, True),  # Scialom et al. 2021
    KnownScale("alignscore", 0, 1, True),  # Zha et al. 2023: a probability
    KnownScale("summaqa", 0, 1, True),  # Scialom et al. 2019: an F-score or a probability
    KnownScale("qa eval em", 0, 1, True),  # Deutsch et al. 2021: proportion of answers
    KnownScale("qa eval f1", 0, 1, True),
    KnownScale("blanc", -1, 1, True),  # Vasilyev et al. 2020: a difference of two proportions
    KnownScale("s3", -inf, inf, True),  # Peyrard et al. 2017: a regression
    # Language models
    KnownScale("bartscore", -inf, 0, True),  # Yuan et al. 2021: mean log-probability of a token
    KnownScale("prism*", -inf, 0, True),  # Thompson and Post 2020: the same
    KnownScale("perplexity", 1, inf, False),
    KnownScale("ppl", 1, inf, False),
    # Judges
    KnownScale("gemba da", 0, 100, True),  # Kocmi and Federmann 2023
    KnownScale("gemba mqm", -25, 0, True),  # Kocmi and Federmann 2023b: a penalty, at most one critical error
)


@dataclass(frozen=True, kw_only=True)
class Normalisation(ReadOnlyArrays):
    """Limits of p metrics, oriented so that higher is better.

    `low` and `high` (p,) are the limits, NaN for a metric without scores. `source` is the origin of each metric's
    limits.
    """

    low: Floats
    high: Floats
    source: tuple[Source, ...]

    def apply(self, x: Floats) -> Floats:
        """Return x (rows, p) clipped to the limits and scaled to [0, 1].

        The result is NaN if x is NaN or if the metric has no limits. If the two limits are equal, the result is 0.5, an
        uninformative value.

        >>> by = Normalisation(low=np.array([0.0, 3.0]), high=np.array([100.0, 3.0]), source=("known", "fitted"))
        >>> by.apply(np.array([[25.0, 3.0], [120.0, 4.0], [np.nan, np.nan]])).tolist()
        [[0.25, 0.5], [1.0, 0.5], [nan, nan]]
        """
        limit_widths = self.high - self.low
        return np.where(
            (limit_widths == 0) & ~np.isnan(x),
            0.5,
            (np.clip(x, self.low, self.high) - self.low) / np.where(limit_widths == 0, 1.0, limit_widths),
        )


def normalisation(
    x: Floats,
    *,
    names: Sequence[str],
    directions: Sequence[float] | Floats,
    declared_bounds: Mapping[str, tuple[float, float]],
) -> Normalisation:
    """Return the limits of each metric, given only the scores x (rows, p) of the training part.

    The scores are already multiplied by `directions` (p,), which are 1 (higher is better) or -1. `declared_bounds`
    gives the declared limits (low, high) in the units of the metric. Declared limits have priority. A metric without
    declared limits gets the limits of the first known scale that contains all scores, if the scores cover at least a
    twentieth of this scale. Otherwise, the limits of the metric are the minimum and maximum of the scores. A metric
    without scores has the limits NaN.

    >>> x = np.array([[12.0, -3.0, 0.5], [40.0, -9.0, 0.7]])
    >>> names, directions = ["BLEU", "errors", "mine"], [1.0, -1.0, 1.0]
    >>> by = normalisation(x, names=names, directions=directions, declared_bounds={"errors": (0.0, 20.0)})
    >>> by.low.tolist(), by.high.tolist(), by.source
    ([0.0, -20.0, 0.5], [100.0, 0.0, 0.7], ('known', 'declared', 'fitted'))

    Source: Winata et al. 2024 (MetaMetrics), section 3.2 and appendix B.2; the choice between scales was developed for
    custodes.
    """
    limits_and_sources: list[_Limits] = [
        (*_orient_bounds(*declared_bounds[metric_name], higher_is_better=direction > 0), "declared")
        if metric_name in declared_bounds
        else _limits_of_scores(metric_name, metric_scores[~np.isnan(metric_scores)])
        for metric_scores, metric_name, direction in zip(x.T, names, directions, strict=True)
    ]
    return Normalisation(
        low=np.array([low for low, _, _ in limits_and_sources], dtype=np.float64),
        high=np.array([high for _, high, _ in limits_and_sources], dtype=np.float64),
        source=tuple(limit_source for _, _, limit_source in limits_and_sources),
    )


def contradictions(names: Sequence[str], directions: Sequence[float] | Floats, *, x: Floats) -> list[str]:
    """Return the metrics whose direction (1 or -1) contradicts the known direction.

    Some files contain negated scores of a metric. For example, WMT published MetricX from -25 to 0, where higher is
    better. `x` (rows, p) are the scores, already multiplied by the directions. Scores count as negated if their mean
    lies outside the known scale, but inside the mirror image of this scale. For negated scores, the known direction of
    the metric is reversed.

    >>> contradictions(["BLEU", "MetricX", "metricx-24"], [1, 1, 1], x=np.array([[30.0, 4.0, -4.0]]))
    ['MetricX']
    """
    return [
        metric_name
        for metric_name, direction, raw_scores in zip(names, directions, (x * np.asarray(directions)).T, strict=True)
        if (scales_of_metric := known_scales(metric_name))
        and (direction > 0)
        != (
            scales_of_metric[0].higher_is_better
            != _is_negated_scale(scales_of_metric, raw_scores[~np.isnan(raw_scores)])
        )
    ]


@lru_cache(maxsize=4096)  # each fold calls it again
def known_scales(name: str) -> tuple[KnownScale, ...]:
    """Return the rows of `KNOWN` that match the first words of a metric's name; text before a slash is ignored.

    >>> known_scales("Unbabel/XCOMET-XL")
    (KnownScale(pattern='xcomet', low=0, high=1, higher_is_better=True),)
    """
    normalised_name = re.sub(r"[\W_]+", " ", name.rpartition("/")[2].lower()).strip()
    matching_scales = [
        known_scale
        for known_scale in KNOWN
        if any(fnmatchcase(normalised_name, known_scale.pattern + glob_suffix) for glob_suffix in ("", " *"))
    ]
    return tuple(known_scale for known_scale in matching_scales if known_scale.pattern == matching_scales[0].pattern)


def _is_negated_scale(scales: Sequence[KnownScale], raw_scores: Floats) -> bool:
    """Return whether raw scores (without NaN) are on a known scale that was multiplied by -1."""
    if not len(raw_scores):
        return False
    lowest_bound = min(known_scale.low for known_scale in scales)
    highest_bound = max(known_scale.high for known_scale in scales)
    mean_score = float(raw_scores.mean())
    return not lowest_bound <= mean_score <= highest_bound and lowest_bound <= -mean_score <= highest_bound


def _limits_of_scores(name: str, scores: Floats) -> _Limits:
    """Return the known scale that fits the scores (without NaN); if none fits, return the range of the scores."""
    if not len(scores):
        return np.nan, np.nan, "fitted"
    smallest_score, largest_score = float(scores.min()), float(scores.max())
    for known_scale in known_scales(name):
        lower_bound, upper_bound = _orient_bounds(
            known_scale.low, known_scale.high, higher_is_better=known_scale.higher_is_better
        )
        tolerance = _ROUNDING * (upper_bound - lower_bound)
        if (
            lower_bound - tolerance <= smallest_score
            and largest_score <= upper_bound + tolerance
            and largest_score - smallest_score >= LEAST_USED * (upper_bound - lower_bound)
        ):
            return lower_bound, upper_bound, "known"
    return smallest_score, largest_score, "fitted"


def _orient_bounds(low: float, high: float, *, higher_is_better: bool) -> tuple[float, float]:
    """Return the bounds of a scale, oriented so that higher is better."""
    return (low, high) if higher_is_better else (0.0 - high, 0.0 - low)  # not -0.0
