"""Simulated studies with true values for checking results, the demo, and texts for trying out the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from custodes.arguments import LARGEST, check_arguments, check_at_least, check_fields, check_storable
from custodes.data.items import Items
from custodes.data.raters import SCHEMA as RATERS_SCHEMA
from custodes.data.raters import Raters
from custodes.data.ratings import SCHEMA as RATINGS_SCHEMA
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import OptionError, join_labels, reject, short_repr, suggestion
from custodes.memory import check_memory
from custodes.stats.arrays import Floats

LIKERT = 5
"""Number of points of the human rating scale, which starts at 1."""

MISTAKES: Mapping[str, float] = {"Aster": 0.04, "Birch": 0.06, "Cedar": 0.35}
"""Probability that a system gets a fact of a message wrong. Aster and Birch are practically equal."""

FACTS: Mapping[str, Sequence[str]] = {
    "name": ("Ana Brodsky", "Idris Cole", "Mei Tanaka", "Pablo Ruiz", "Lena Vogt", "Omar Haddad", "Ruth Okafor"),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "time": ("noon", "two o'clock", "half past four", "six o'clock", "half past nine in the evening", "midnight"),
    "nights": ("one night", "two nights", "three nights", "five nights", "a week"),
    "room": ("a single room", "a double room", "a room with three beds", "a room with a view of the lake"),
    "wish": ("a parking space", "a cot for the baby", "an early breakfast", "a taxi from the station", "a quiet room"),
}
"""Facts in a message, with their values."""

MESSAGES = (
    "Hello, this is {name}. We arrive on {day} at about {time} and stay {nights}. We booked {room}."
    " Could we also have {wish}?",
    "Good morning! My name is {name}, I have booked {room} for {nights} from {day} on. I shall be there around {time}."
    " I would need {wish}, if that is possible.",
    "Just to be sure: {room}, {nights}, arriving {day}, {time}. And please think of {wish}. Thank you, {name}",
)
ANSWERS = (
    "Dear {name}, we look forward to seeing you on {day} at about {time}. {room} is kept for {nights}, and so is"
    " {wish}.",
    "Thank you, {name}. You are booked for {nights} from {day} on, in {room}; we expect you around {time}. We have"
    " noted {wish}.",
    "{name}, all is well: {day}, {time}, {nights}, {room}. We have seen to {wish}.",
)


@dataclass(frozen=True, kw_only=True)
class SimulatedMetric:
    """How a metric rates an output. The latent score is `signal` times the true quality, plus a bonus from `favours`,
    plus normal noise with standard deviation `noise`.

    `favours` maps systems to a bonus, in units of quality. If `copies` names an earlier metric, the latent score of
    this metric replaces `signal` times the true quality. With `levels`, scores are the integers from 1 to `levels`, as
    from a judge (0: continuous scores in (0, 1)). With `by_aspect` the metric rates each aspect; otherwise it rates the
    mean of all aspects. If `higher_is_better` is false, the metric is a distance in (0, inf). `missing` is the
    proportion of items without scores.
    """

    name: str
    signal: float = 1.0
    noise: float = 1.0
    favours: Mapping[str, float] = field(default_factory=dict)
    copies: str = ""
    levels: int = 0
    by_aspect: bool = False
    higher_is_better: bool = True
    missing: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        _check_numbers({"signal": self.signal, **self.favours}, where=repr(self.name))
        _check_ranges(missing=(self.missing, 0, 1), noise=(self.noise, 0, LARGEST), levels=(self.levels, 0, LARGEST))


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true values of a simulation.

    `quality` (systems, aspects) is the true quality of systems, and `latent` (items, systems, aspects) is the true
    quality of outputs. Higher is better. `favours` (metrics, systems) is the bonus that each metric gives. Systems are
    sorted; items, aspects and metrics are in the order of the study.
    """

    quality: Floats
    latent: Floats
    favours: Floats


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A study with true values."""

    study: Study
    truth: Truth


@check_arguments
def simulate(
    *,
    items: int,
    quality: Mapping[str, Sequence[float]],
    aspects: Sequence[str] = ("",),
    annotators: Mapping[str, float],
    metrics: Sequence[SimulatedMetric],
    rng: int | np.random.Generator,
    documents: int | None = None,
    groups: Sequence[str] = ("",),
    difficulty: float = 0.5,
    spread: float = 0.7,
    missing: float = 0.0,
    name: str = "simulated",
) -> Simulation:
    """Draw a study from a latent normal model: system effect + difficulty of the document and the item + item-by-system
    effect.

    Parameters
    ----------
    items : int
        Number of items.
    quality : mapping
        Quality of each system: one value per aspect, in Likert points.
    aspects : sequence of str
        Names of the aspects.
    annotators : mapping
        Reliability of each annotator, in (0, 1]. Ratings are rounded to 1-5.
    metrics : sequence of SimulatedMetric
        Metrics.
    documents, groups : optional
        Clusters of items (default: none), and groups of documents.
    difficulty, spread : float
        Standard deviations of the effect of an item on all systems (`difficulty`), and of the effect of an item on a
        single system (`spread`).
    missing : float
        Proportion of missing human ratings.
    rng : int or Generator
        Random seed or generator.
    name : str
        Name of the study.

    Returns
    -------
    Simulation
        The study (`study`) and the true values (`truth`).

    Raises
    ------
    OptionError
        For a value that is not allowed.

    Examples
    --------
    >>> metric = SimulatedMetric(name="m")
    >>> quality = {"A": [1.0], "B": [0.0]}
    >>> simulation = simulate(items=50, quality=quality, annotators={"ann": 0.9}, metrics=[metric], rng=0)
    >>> simulation.study.metrics, simulation.truth.quality.tolist()
    (('m',), [[1.0], [0.0]])
    """
    aspects, groups = (
        [label_or_labels] if isinstance(label_or_labels, str) else label_or_labels
        for label_or_labels in (aspects, groups)
    )
    systems = tuple(sorted(quality))
    _check_ranges(
        items=(items, 1, LARGEST),
        missing=(missing, 0, 1),
        difficulty=(difficulty, 0, LARGEST),
        spread=(spread, 0, LARGEST),
    )
    for option_name, option_entries in (("quality", quality), ("aspects", aspects), ("groups", groups)):
        if not option_entries:
            raise OptionError(f"simulate: {option_name} is empty; give at least one")
    # Each output takes one number per aspect in an array, and one row per aspect in a table.
    check_memory("items", items, 10.0 * items * len(systems) * len(aspects))
    _check_simulation_arguments(systems, quality, aspects, annotators, metrics, groups)
    rng = np.random.default_rng(rng)
    item_labels, item_table = _build_items(items, documents, tuple(groups))
    system_quality = np.array([quality[system] for system in systems], dtype=float)
    latent_quality = system_quality + _difficulties(item_table, len(aspects), sd=difficulty, rng=rng)[:, None, :]
    latent_quality += spread * rng.normal(size=latent_quality.shape)
    rating_frames = []
    for annotator, reliability in annotators.items():
        rater_scores = simulate_ratings(
            latent_quality, reliability=reliability, sd=np.hypot(difficulty, spread), rng=rng
        )
        rater_scores[rng.random(rater_scores.shape) < missing] = np.nan
        rating_frames.append(
            _rating_rows(rater_scores, rater=annotator, items=item_labels, systems=systems, aspects=aspects)
        )
    latent_scores_of_metric: dict[str, Floats] = {}
    for metric in metrics:
        measured_quality = latent_quality if metric.by_aspect else latent_quality.mean(axis=-1, keepdims=True)
        latent_signal = latent_scores_of_metric[metric.copies] if metric.copies else metric.signal * measured_quality
        metric_latent_scores = (
            latent_signal
            + _favour_bonuses(metric, systems)[:, None]
            + metric.noise * rng.normal(size=latent_signal.shape)
        )
        latent_scores_of_metric[metric.name] = metric_latent_scores
        rater_scores = _map_to_scores(metric, metric_latent_scores)
        rater_scores[rng.permutation(items) < metric.missing * items] = np.nan
        rating_frames.append(
            _rating_rows(
                rater_scores,
                rater=metric.name,
                items=item_labels,
                systems=systems,
                aspects=aspects if metric.by_aspect else ("",),
            )
        )
    return Simulation(
        study=Study(
            ratings=Ratings(frame=pl.concat(rating_frames)),
            raters=_build_raters(tuple(annotators), metrics),
            items=Items.make(item_table)[0],
            name=name,
        ),
        truth=Truth(
            quality=system_quality,
            latent=latent_quality,
            favours=np.array([_favour_bonuses(metric, systems) for metric in metrics]).reshape(
                len(metrics), len(systems)
            ),
        ),
    )


def simulate_ratings(latent_quality: Floats, *, reliability: float, sd: float, rng: np.random.Generator) -> Floats:
    """Ratings of true qualities by an annotator, from 1 to 5; `sd` is the standard deviation of true quality within a
    system.

    >>> simulate_ratings(np.array([-9.0, 0.0, 9.0]), reliability=1.0, sd=1.0, rng=np.random.default_rng(0)).tolist()
    [1.0, 3.0, 5.0]
    """
    noise_sd = sd * np.sqrt(1 / reliability**2 - 1)
    return _round_to_levels(latent_quality + noise_sd * rng.normal(size=latent_quality.shape), LIKERT)


def demo_simulation(*, items: int = 80, rng: int | np.random.Generator = 0) -> Simulation:
    """The embedded demo with its true values: 80 texts of 16 documents, six systems, three annotators, seven metrics.

    Other values of `items` and `rng` draw other studies with the same systems, annotators and metrics.

    By design, `learned` is a good metric, and `noise` is random. `selfeval` favours Dogwood and rates Dogwood as high
    as the best system. `overlap` and `overlap-stem` are near duplicates. `judge` rates each aspect from 1 to 5 and
    often gives ties. `distance` is lower for better texts and has no score for a tenth of the texts. Birch and Cedar
    are equally coherent.
    """
    return simulate(
        items=items,
        documents=items // 5,
        groups=("news", "dialogue"),
        aspects=("coherence", "fluency"),
        quality={
            "Aster": (1.0, 0.6),
            "Birch": (0.4, 0.9),
            "Cedar": (0.4, 0.1),
            "Dogwood": (0.2, 0.2),
            "Elm": (-0.4, 0.0),
            "Fir": (-1.0, -0.8),
        },
        annotators={"ann1": 0.9, "ann2": 0.8, "ann3": 0.6},
        metrics=(
            SimulatedMetric(name="learned", noise=0.5),
            SimulatedMetric(name="selfeval", noise=0.7, favours={"Dogwood": 1.5}),
            SimulatedMetric(name="overlap", signal=0.6, noise=0.8),
            SimulatedMetric(name="overlap-stem", copies="overlap", noise=0.12),
            SimulatedMetric(name="judge", noise=0.7, levels=5, by_aspect=True),
            SimulatedMetric(name="distance", signal=0.5, noise=0.6, higher_is_better=False, missing=0.1),
            SimulatedMetric(name="noise", signal=0.0),
        ),
        missing=0.03,
        name="demo",
        rng=rng,
    )


def demo_study() -> Study:
    """Read the embedded demo, which is a small study with known answers (see `demo_simulation`).

    Returns
    -------
    Study

    Examples
    --------
    >>> demo_study().systems
    ('Aster', 'Birch', 'Cedar', 'Dogwood', 'Elm', 'Fir')
    """
    return demo_simulation().study


def _check_simulation_arguments(
    systems: tuple[str, ...],
    quality_of_system: Mapping[str, Sequence[float]],
    aspects: Sequence[str],
    reliability_of_annotator: Mapping[str, float],
    metrics: Sequence[SimulatedMetric],
    groups: Sequence[str],
) -> None:
    reject(
        (
            not isinstance(metrics, Sequence) or not all(isinstance(metric, SimulatedMetric) for metric in metrics),
            f"simulate: metrics={short_repr(metrics)}: give a list of cu.SimulatedMetric(...)",
        ),
        (not (reliability_of_annotator or metrics), "simulate: there are no raters; give annotators or metrics"),
    )
    for system, aspect_qualities in quality_of_system.items():
        _check_numbers(dict(zip(aspects, aspect_qualities, strict=False)), where=f"quality[{system!r}]")
        if len(aspect_qualities) != len(aspects):
            raise OptionError(
                f"simulate: quality[{system!r}] has {len(aspect_qualities)} values for {len(aspects)} aspects"
            )
    reject(
        *(
            (
                not 0 < reliability <= 1,
                f"simulate: reliability {reliability} of {annotator!r} is not allowed; give a number above 0 and at "
                "most 1",
            )
            for annotator, reliability in reliability_of_annotator.items()
        )
    )
    metric_of_name: dict[str, SimulatedMetric] = {}
    for metric in metrics:
        copied_metric = metric_of_name.get(metric.copies)
        unknown_systems = [system for system in metric.favours if system not in systems]
        reject(
            (
                unknown_systems,
                f"simulate: {metric.name!r} favours {join_labels(map(repr, unknown_systems))}: no such system; "
                f"systems: {join_labels(systems)}{suggestion(''.join(unknown_systems[:1]), systems)}",
            ),
            (
                metric.copies and copied_metric is None,
                f"simulate: {metric.name!r} copies {metric.copies!r}, which is not an earlier metric",
            ),
            (
                copied_metric is not None and metric.by_aspect != copied_metric.by_aspect,
                f"simulate: {metric.name!r} and {metric.copies!r} must both have by_aspect true, or both false",
            ),
        )
        metric_of_name[metric.name] = metric
    check_storable("simulate", [*systems, *aspects, *groups, *reliability_of_annotator, *metric_of_name])
    if len({*reliability_of_annotator, *metric_of_name}) < len(reliability_of_annotator) + len(metrics):
        raise OptionError("simulate: two annotators or metrics have the same name; rename one")


def _check_ranges(**value_and_bounds_of_option: tuple[float, float, float]) -> None:
    for option_name, (value, low, high) in value_and_bounds_of_option.items():
        if not low <= value <= high:
            raise OptionError(f"simulate: {option_name}={value}: must lie between {low} and {high}")


def _check_numbers(number_of_name: Mapping[str, float], *, where: str) -> None:
    for name, number in number_of_name.items():
        if not abs(number) <= LARGEST:
            raise OptionError(f"simulate: {name!r} of {where} is {number}; give a finite number")


def _build_items(n_items: int, documents: int | None, groups: tuple[str, ...]) -> tuple[tuple[str, ...], pl.DataFrame]:
    """The labels and the side table of items. Documents consist of consecutive items, and groups alternate between
    documents."""
    n_documents = n_items if documents is None else documents
    if not 1 <= n_documents <= n_items:
        raise OptionError(f"simulate: {documents} documents for {n_items} items; allowed: 1 to the number of items")
    document_indices = np.arange(n_items) * n_documents // n_items
    n_item_digits, n_document_digits = len(str(n_items)), len(str(n_documents))
    item_labels = tuple(f"item{item_number:0{n_item_digits}}" for item_number in range(1, n_items + 1))
    return item_labels, pl.DataFrame(
        {
            "item": item_labels,
            "cluster": [
                "" if documents is None else f"doc{document_index + 1:0{n_document_digits}}"
                for document_index in document_indices
            ],
            "group": [groups[document_index % len(groups)] for document_index in document_indices],
        }
    )


def _difficulties(item_table: pl.DataFrame, n_aspects: int, *, sd: float, rng: np.random.Generator) -> Floats:
    """Difficulties (items, aspects). Half of the variance is between documents, and half is between the items of a
    document."""
    item_effects = rng.normal(size=(item_table.height, n_aspects))
    document_indices = (
        item_table["cluster"].rle_id().to_numpy() if item_table["cluster"][0] else np.arange(item_table.height)
    )
    document_effect_of_item = rng.normal(size=(int(document_indices.max()) + 1, n_aspects))[document_indices]
    return np.asarray(sd * np.sqrt(0.5) * (item_effects + document_effect_of_item))


def _favour_bonuses(metric: SimulatedMetric, systems: tuple[str, ...]) -> Floats:
    return np.array([metric.favours.get(system, 0.0) for system in systems])


def _round_to_levels(latent_scores: Floats, levels: int) -> Floats:
    return np.clip(np.rint(latent_scores + (levels + 1) / 2), 1, levels)


def _map_to_scores(metric: SimulatedMetric, latent_scores: Floats) -> Floats:
    """The score for a latent value. Without levels, the mapping is strictly monotone, so the order of the latent values
    is preserved."""
    if metric.levels:
        return _round_to_levels(latent_scores if metric.higher_is_better else -latent_scores, metric.levels)
    return 1 / (1 + np.exp(-latent_scores)) if metric.higher_is_better else np.exp(-latent_scores)


def _rating_rows(
    scores: Floats, *, rater: str, items: tuple[str, ...], systems: tuple[str, ...], aspects: Sequence[str]
) -> pl.DataFrame:
    """A long table of ratings from scores (items, systems, aspects); NaN gives no row."""
    item_indices, system_indices, aspect_indices = np.nonzero(np.isfinite(scores))
    return (
        pl.DataFrame(
            {
                "item": pl.Series(items).gather(item_indices),
                "system": pl.Series(systems).gather(system_indices),
                "aspect": pl.Series(aspects).gather(aspect_indices),
                "score": scores[item_indices, system_indices, aspect_indices],
            }
        )
        .with_columns(rater=pl.lit(rater), repeat=pl.lit("0"))
        .select(*RATINGS_SCHEMA)
    )


def _build_raters(annotators: tuple[str, ...], metrics: Sequence[SimulatedMetric]) -> Raters:
    rater_rows: list[dict[str, Any]] = [
        {"rater": annotator, "kind": "human", "higher_is_better": True, "low": 1.0, "high": LIKERT, "person": True}
        for annotator in annotators
    ]
    for metric in metrics:
        low, high = (1.0, metric.levels) if metric.levels else (0.0, 1.0 if metric.higher_is_better else None)
        rater_rows.append(
            {
                "rater": metric.name,
                "kind": "metric",
                "higher_is_better": metric.higher_is_better,
                "low": low,
                "high": high,
                "person": False,
            }
        )
    return Raters(frame=pl.DataFrame(rater_rows, schema=RATERS_SCHEMA))


@check_arguments
def demo_texts(*, items: int = 60, rng: int | np.random.Generator = 0) -> pl.DataFrame:
    """Texts of three systems in the columns of the reader `outputs`: item, system, text, context.

    Each system answers a guest's message and gets each fact wrong with the probability in `MISTAKES`. Raises
    `OptionError` if `items` is 0.

    >>> texts = demo_texts(items=2)
    >>> texts.columns, texts["system"].to_list()[:3]
    (['item', 'system', 'text', 'context'], ['Aster', 'Birch', 'Cedar'])
    """
    check_at_least("items", items, 1)
    generator = np.random.default_rng(rng)
    n_digits, output_rows = len(str(items)), list[dict[str, str]]()
    for message_number in range(1, items + 1):
        value_of_fact = {fact_name: _random_text(fact_values, generator) for fact_name, fact_values in FACTS.items()}
        context_text = _random_text(MESSAGES, generator).format(**value_of_fact)
        template_indices = generator.permutation(len(ANSWERS)).tolist()  # no two systems answer with the same words
        for template_index, (system, error_rate) in zip(template_indices, MISTAKES.items(), strict=True):
            misstated_facts = [fact_name for fact_name in FACTS if generator.random() < error_rate]
            stated_value_of_fact = value_of_fact | {
                fact_name: _random_text(
                    [fact_value for fact_value in FACTS[fact_name] if fact_value != value_of_fact[fact_name]], generator
                )
                for fact_name in misstated_facts
            }
            capitalised_text = ". ".join(
                sentence[:1].upper() + sentence[1:]
                for sentence in ANSWERS[template_index].format(**stated_value_of_fact).split(". ")
            )
            output_rows.append(
                {
                    "item": f"message{message_number:0{n_digits}}",
                    "system": system,
                    "text": capitalised_text,
                    "context": context_text,
                }
            )
    return pl.DataFrame(output_rows)


def _random_text(texts: Sequence[str], generator: np.random.Generator) -> str:
    return texts[int(generator.integers(len(texts)))]
