"""Arguments that several questions share: the selection of data, the rules for preferences, and the allowed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import numpy as np

from custodes.arguments import FEWEST_RESAMPLES, is_number
from custodes.data.patterns import Patterns
from custodes.data.ties_and_orders import Aggregate, Orders
from custodes.errors import OptionError

NONE = "none"
"""The value of `metrics` that selects no metric, so that only annotators are used."""
Ties = float | Literal["exact", "calibrated"]


class Selection(TypedDict, total=False):
    """The selection arguments of every question.

    human, metrics, systems, aspect, group: comma lists of globs, in which `!` excludes names. By default, `human`
    selects the raters of kind human, and the other arguments select everything.
    """

    human: Patterns
    metrics: Patterns
    systems: Patterns
    aspect: Patterns
    group: Patterns


class PreferenceOptions(Selection, total=False):
    """The arguments of questions on preferences: a `Selection`, and the rules that turn scores into preferences.

    aggregate: how several annotators are combined, 'mean' (of score differences) or 'vote'. human_ties: the largest
    difference of human scores that counts as a tie (default: 0). ties: the rule for ties of metric scores: 'exact',
    'calibrated', or the largest difference that counts as a tie. orders: how verdicts in both presentation orders are
    combined, 'mean', 'consistent' or 'first'.
    """

    aggregate: Aggregate
    human_ties: float | None
    ties: Ties
    orders: Orders


DEFAULTS: PreferenceOptions = {
    "human": None,
    "metrics": None,
    "systems": None,
    "aspect": None,
    "group": None,
    "aggregate": "mean",
    "human_ties": None,
    "ties": "exact",
    "orders": "mean",
}


HELP: Mapping[str, str] = {
    "human": "Raters to treat as annotators (default: raters of kind human).",
    "metrics": "Metrics (default: all). The value @aspect selects the metrics with separate scores for each aspect, "
    "and @noaspect all other metrics.",
    "systems": "Systems (default: all).",
    "aspect": "Aspects of the human ratings (default: all).",
    "group": "Groups of items to use, such as domains or subsets (default: all).",
    "aggregate": "How to combine annotators: mean score difference or majority vote.",
    "human_ties": "Largest difference of human scores that counts as a tie (default: 0).",
    "ties": "Rule for ties of metric scores: exact, calibrated, or the largest difference that counts as a tie.",
    "orders": "How to combine the verdicts on a pair that was shown in both presentation orders.",
    "positive": (
        "Label that counts as success, or several labels with commas. For ordered labels, a rule such as '>=4' is "
        "also possible. The default is a known word such as pass."
    ),
    "sampling": "How outputs were selected for human labels: random, by-judge (separately for each label of the "
    "judge) or by-label (separately for each human label).",
    "confidence": "Confidence level of the intervals.",
    "resamples": f"Number of bootstrap resamples, at least {FEWEST_RESAMPLES}, or 0 for no intervals.",
    "alpha": "Significance level of the tests.",
    "estimator": "Estimators of the outcome; comma list or repeated.",
    "gamma": "A pair is decided if the probability that one system is better exceeds 1 - gamma/2.",
    "stop": (
        "When to stop annotating a pair. decided: as soon as the pair is decided; futility: also as soon as a "
        "decision becomes unlikely. Comma list or repeated."
    ),
    "stopping": "Stopping rules; the tables have separate rows for each rule.",
    "batch": "Number of annotations that each round adds to a pair, or several values: 5,10.",
    "looks": "Number of annotations per pair at each interim analysis, such as 10,20,40; replaces --batch.",
    "budget": "Total number of annotations, or several values: 500,1000.",
    "boundary": "Boundary of the interim analyses: none, pocock, obrien-fleming, or a critical value of |z|.",
    "futility": "With stop futility: the annotation of a pair stops if the probability of a later decision is below "
    "this value.",
    "replications": "Number of simulated runs of the protocol.",
    "steps": "Maximum number of metrics that each path of selection adds or removes.",
    "rng": "Random seed.",
}


def settings(options: PreferenceOptions) -> PreferenceOptions:
    """The options, with defaults for missing options. A tie threshold that is not allowed raises OptionError."""
    options_with_defaults: PreferenceOptions = {**DEFAULTS, **options}
    for option_name, tie_threshold in (
        ("ties", options_with_defaults["ties"]),
        ("human_ties", options_with_defaults["human_ties"]),
    ):
        if is_number(tie_threshold) and not (np.isfinite(tie_threshold) and tie_threshold >= 0):
            raise OptionError(f"{option_name}={tie_threshold!r} is not allowed; use a tie threshold of at least 0")
    return options_with_defaults


def selection_arguments(options: Mapping[str, Any]) -> Selection:
    """The options that select data."""
    return {name: options[name] for name in Selection.__annotations__ if name in options}  # type: ignore[return-value]
