"""Expected cost and error rates of an annotation protocol, from assumptions or a pilot study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from custodes.answers.question import Rng, question, refuse_ignored_argument
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import DEFAULTS, NONE, PreferenceOptions
from custodes.answers.tables import View, count, difference, label, probability, score, share, table, with_sd
from custodes.answers.views import number, split_by_aspect, title_with_aspect
from custodes.arguments import check_at_least
from custodes.data.notes import Note, build_notes
from custodes.data.study import Study
from custodes.errors import reject
from custodes.evaluate.comparable import label_of
from custodes.evaluate.parallel import labelled_generators
from custodes.evaluate.protocol.protocol import ESTIMATOR, STOPPING, error_columns, errors_of
from custodes.evaluate.protocol.stopping import USUAL, Stopping, select_estimators_and_rules
from custodes.evaluate.protocol.worlds import TIE_RATE, World, assumed_world, pilot_worlds
from custodes.memory import check_memory
from custodes.progress import Progress, silent
from custodes.stats.arrays import chunks
from custodes.stats.correction.dirichlet import HUMAN
from custodes.stats.correction.estimator import Estimator
from custodes.stats.stopping.pilot import drawn_kinds
from custodes.stats.stopping.power import human_power, preference_correlation
from custodes.stats.stopping.replay import Answers, replay

CURVE = (10, 20, 40, 60, 80, 100, 150, 200, 300, 400)
"""Numbers of annotations per pair in the power curve. Numbers above the number of items are left out."""


PILOT_PAIR = tuple(
    label(name, f"{text} of the pilot; null without a pilot", title, essential=False)
    for name, text, title in (("system_a", "a system", "System A"), ("system_b", "another system", "System B"))
)
"""The columns that name a pair of systems of the pilot."""


def _powers(power_table: pl.DataFrame) -> Iterator[View]:
    """Yield views of the power by margin (rows) and number of annotations (columns)."""
    for aspect_name, aspect_table in split_by_aspect(power_table, "aspect"):
        system_columns = ["system_a", "system_b"] if aspect_table["system_a"].is_not_null().any() else []
        pivoted_power = aspect_table.pivot(
            "annotations", index=["pair", *system_columns, "margin"], values="power"
        ).drop("pair")
        yield View(
            title=title_with_aspect(
                "probability that annotators alone find the better system, by number of annotations per pair",
                aspect_name,
            ),
            header=tuple(pivoted_power.columns),
            rows=tuple(tuple(_cell(cell_content) for cell_content in power_row) for power_row in pivoted_power.rows()),
            numeric=(*[False] * (1 + len(system_columns)), *[True] * (pivoted_power.width - 1 - len(system_columns))),
        )


def _cell(value: str | float | None) -> str:
    return value if isinstance(value, str) else number(value, digits=2)


@result
class Plan(Result):
    """Cost and error rates of a planned protocol. See `plan`."""

    PICTURE = "power_curve"

    plan: pl.DataFrame = table(
        "Means over simulated studies: one row per stopping rule and estimator, always including `human`.",
        label(
            "metric",
            "the metric used: `none`, `ideal`, `channel` (the assumed confusion matrix), or a metric of the pilot",
        ),
        ESTIMATOR,
        STOPPING,
        score(
            "annotations",
            "expected number of annotations per pair, with its standard deviation over simulated studies",
            "Annotations a pair",
            sd=True,
        ),
        share("decided", "expected proportion of decided pairs"),
        *error_columns(
            "proportion of pairs with a correct decision: for the better system, or for no difference if systems do "
            "not differ",
            "proportion of pairs decided for the worse system",
            "proportion of pairs that are undecided although systems differ",
            "proportion of pairs that are decided although systems do not differ",
        ),
        score(
            "saving",
            "proportion of annotations that the metric saves, compared with annotators alone under the same stopping "
            "rule; null without a metric",
        ),
    )
    power: pl.DataFrame = table(
        "One row per pair and number of annotations.",
        count("pair", "number of the pair, from 1"),
        *PILOT_PAIR,
        difference("margin", "proportion of wins minus proportion of losses of system_a"),
        count("annotations", "number of annotations of the pair, with a single analysis"),
        probability("power", "exact probability that annotators alone find the better system; null if the margin is 0"),
        probability(
            "wrong",
            "exact probability of a false decision by annotators alone: for the worse system, or for either system if "
            "the margin is 0",
        ),
        view=_powers,
    )
    saving: pl.DataFrame = table(
        "One row per metric and pair: the proportion of annotations that the metric can save.",
        label("metric", "name of the metric"),
        count("pair", "number of the pair, from 1", essential=False),
        *PILOT_PAIR,
        difference("margin", "proportion of wins minus proportion of losses of system_a"),
        share("saving_most", "squared correlation of metric and human preferences, the upper bound of the saving"),
    )


@question(
    "custodes plan --margins 0,0.1,0.3 --items 200 --looks 10,20,40 --boundary pocock",
    margins="Assumed margins p_win - p_loss, one per pair, such as 0,0.1,0.3.",
    tie_rate="Assumed proportion of ties (default: 0.3).",
    channel=(
        "Confusion matrix of a metric: 'ideal', or a .csv file of 3x3 numbers. Rows are human outcomes, and columns "
        "are outcomes by the metric."
    ),
    items="Number of items to annotate.",
    metric_items="Number of further items rated by the metric.",
    estimator="Estimators, as in correction (default: human; with a metric, mixture). Comma list or repeated.",
)
def plan(
    pilot: Study | None = None,
    *,
    margins: Sequence[float] | None = None,
    tie_rate: float | None = None,
    channel: ArrayLike | Literal["ideal"] | None = None,
    items: int = 100,
    metric_items: int = 0,
    estimator: str | Sequence[str] | None = None,
    stopping: Stopping | Sequence[Stopping] = USUAL,
    replications: int = 100,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Plan:
    """Estimate the cost and error rates of an annotation protocol, from assumptions or from a pilot study.

    Notes
    -----
    Each value of `margins` (p_win - p_loss; default 0 to 0.4) describes one pair of systems. All pairs have the
    proportion of ties `tie_rate` (default 0.3). With a `pilot`, the pilot gives the pairs and the posterior
    distribution of their outcome proportions. `channel` is the confusion matrix of the metric, as counts or proportions
    (3, 3): rows are human outcomes, columns are outcomes by the metric. The matrix of 'ideal' is that of Appendix E of
    the paper. With `metrics`, the matrix is estimated from the pilot. The metric rates all `items` and `metric_items`
    further items. If `stopping` or `estimator` has several values, the table `plan` has a row for each combination. In
    the table `power`, the power of annotators alone is exact; it is the power of a single analysis.

    References
    ----------
    Deriu et al. 2023 (protocol); Angelopoulos et al. 2023 (variance 1 - correlation^2); Dorner et al. 2025 (savings).

    Examples
    --------
    >>> result = plan(margins=[0.0, 0.5], tie_rate=0.2, items=50, replications=20)
    >>> result.power.filter(pl.col("margin") == 0.5)["power"].is_between(0.2, 1).all()
    True
    """
    check_at_least("items", items, 1)
    _check_size(items, replications, n_pairs=1)
    root_generator = np.random.default_rng(rng)
    if pilot is None:
        reject(
            *(
                (
                    option_value != DEFAULTS[option_name],  # type: ignore[literal-required]
                    f"{option_name} selects data from a pilot study, but no pilot is given; omit this argument, or "
                    "give a pilot",
                )
                for option_name, option_value in setting.items()
            )
        )
        worlds = [assumed_world(margins, TIE_RATE if tie_rate is None else tie_rate, channel, replications)]
    else:
        reject(
            *(
                (
                    argument_value is not None,
                    f"{argument_name} and a pilot study contradict each other; omit {argument_name} or the pilot study",
                )
                for argument_name, argument_value in (
                    ("margins", margins),
                    ("tie_rate", tie_rate),
                    ("channel", channel),
                )
            )
        )
        worlds = list(pilot_worlds(pilot, setting, replications, root_generator))
    is_without_metric = worlds[0].channel is None
    if is_without_metric:
        no_metric_reason = (
            f"no metric rated the items of the plan; {'give a channel' if pilot is None else 'select metrics'}"
        )
        refuse_ignored_argument(plan, no_metric_reason, metric_items=metric_items)
    estimators, stopping_rules = select_estimators_and_rules(estimator, stopping, is_without_metric=is_without_metric)
    reject(
        *(
            (
                single_estimator.needs_items,
                f"estimator={single_estimator.name!r} needs the items of a study, which a plan does not simulate; use "
                "estimator='human'",
            )
            for single_estimator in estimators
        )
    )
    plan_tables: list[dict[str, pl.DataFrame]] = []
    # Simulated draws do not depend on the order of aspects or metrics.
    study_generators = labelled_generators([f"{world.aspect}\n{world.metric}" for world in worlds], root_generator)
    worlds_and_generators = list(zip(worlds, study_generators, strict=True))
    for world, study_generator in progress(worlds_and_generators, total=len(worlds_and_generators), desc="plan"):
        _check_size(items, replications, n_pairs=len(world.shares))
        simulated_answers = _simulate_answers(world, items, metric_items, study_generator)
        rows_of_table = {
            "plan": _rows(
                world, simulated_answers, stopping_rules, list(dict.fromkeys([HUMAN, *estimators])), study_generator
            ),
            "power": [_power(world, items, stopping_rules[0].gamma)],
            "saving": [_saving_columns(world)],
        }
        plan_tables += [
            Plan.part(world.aspect, **{table_name: table_row})
            for table_name, table_rows in rows_of_table.items()
            for table_row in table_rows
        ]
    notes = [
        Note(
            rule="independent-items",
            message=f"the plan treats items as independent{label_of(aspect)}; items of one document contain less "
            "information, so more annotations are needed",
            aspect=aspect,
        )
        for aspect in dict.fromkeys(world.aspect for world in worlds if world.clustered)
    ]
    notes += build_notes(
        (
            "most-saved",
            not is_without_metric,
            "the proportion of annotations that a metric saves is at most its squared correlation with human ratings; "
            "a judge that is not better than the judged systems saves at most half of the annotations (Dorner et al. "
            "2025)",
        )
    )
    return Plan.from_parts(plan_tables, notes)


def _check_size(n_items: int, replications: int, *, n_pairs: int) -> None:
    """Check the memory for the outcome of each annotation (smallest integer type) and the estimates of each pair."""
    option_name, option_value = max(("items", n_items), ("replications", replications), key=lambda option: option[1])
    check_memory(option_name, option_value, n_pairs * (n_items * (replications / 3 + 10.0) + 60.0 * replications))


def _simulate_answers(world: World, n_items: int, n_metric_items: int, rng: np.random.Generator) -> Answers:
    """Return the answers of simulated studies."""
    outcome_share_draws, confusion_matrix = world.possible, world.channel
    draws_shape = outcome_share_draws.shape[:2]
    kind_codes, metric_outcome_counts = (
        np.empty((*draws_shape, n_items), dtype=np.int8),
        np.zeros((*draws_shape, 3), dtype=np.int64),
    )
    study_slices = list(chunks(len(kind_codes), kind_codes[0].size))
    for study_slice in study_slices:
        kind_codes[study_slice] = 4 * drawn_kinds(outcome_share_draws[study_slice], n_items, rng) + 3 * (
            confusion_matrix is None
        )
    if confusion_matrix is not None:
        for study_slice in study_slices:
            # on annotated items
            metric_outcome_codes = drawn_kinds(confusion_matrix[kind_codes[study_slice] // 4], 1, rng)[..., 0]
            kind_codes[study_slice] += metric_outcome_codes
            metric_outcome_counts[study_slice] = np.stack(
                [(metric_outcome_codes == outcome_code).sum(axis=-1) for outcome_code in range(3)], axis=-1
            )
        metric_outcome_shares = outcome_share_draws @ confusion_matrix
        metric_outcome_counts += rng.multinomial(
            n_metric_items, metric_outcome_shares / metric_outcome_shares.sum(axis=-1, keepdims=True)
        )
    return Answers(
        kinds=kind_codes, available=np.full(draws_shape, n_items, dtype=np.int64), metric=metric_outcome_counts
    )


def _rows(
    world: World,
    answers: Answers,
    rules: Iterable[Stopping],
    estimators: Sequence[Estimator],
    rng: np.random.Generator,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `plan`. For each rule, the first row is for annotators alone, with whom savings are
    compared."""
    outcome_share_draws = world.possible
    reference_decisions = np.sign(outcome_share_draws[..., 0] - outcome_share_draws[..., 2]).astype(np.int8)
    for stopping in rules:
        mean_annotations_without_metric = np.nan
        for estimator in estimators:
            rule = stopping.rule(estimator, max_annotations=answers.kinds.shape[-1], seed=int(rng.integers(2**63)))
            replay_result = replay(
                answers, rule, reference_decisions=reference_decisions, reference_proportions=outcome_share_draws
            )
            mean_annotations_of_study = replay_result.n.mean(axis=1)
            if not estimator.uses_metric:
                mean_annotations_without_metric = mean_annotations_of_study.mean()
            yield {
                "metric": world.metric if estimator.uses_metric else NONE,
                "estimator": estimator.name,
                "stopping": str(stopping),
                **with_sd("annotations", mean_annotations_of_study),
                "decided": (replay_result.decision != 0).mean(),
                **{
                    decision_type: decision_rates.mean()
                    for decision_type, decision_rates in errors_of(reference_decisions, replay_result.decision).items()
                },
                "saving": 1 - mean_annotations_of_study.mean() / mean_annotations_without_metric
                if estimator.uses_metric
                else None,
            }


def _power(world: World, n_items: int, gamma: float) -> dict[str, Any]:
    """Return the columns of `power`: exact power of annotators alone, by pair and number of annotations."""
    curve_annotation_counts = np.array(
        [n_annotations for n_annotations in CURVE if n_annotations < n_items] + [n_items]
    )
    n_pairs = len(world.shares)
    pair_outcome_shares, annotation_counts = (
        np.repeat(world.shares, len(curve_annotation_counts), axis=0),
        np.tile(curve_annotation_counts, n_pairs),
    )
    # Rounding removes the floating-point error of assumed margins.
    margins = np.round(pair_outcome_shares[:, 0] - pair_outcome_shares[:, 2], 12)
    probability_first_better, probability_first_worse = human_power(pair_outcome_shares, annotation_counts, gamma=gamma)
    return {
        "pair": np.repeat(np.arange(1, n_pairs + 1), len(curve_annotation_counts)),
        **dict(
            zip(
                ("system_a", "system_b"),
                np.repeat(np.array(world.systems, dtype=object), len(curve_annotation_counts), axis=1).tolist(),
                strict=True,
            )
        ),
        "margin": margins,
        "annotations": annotation_counts,
        "power": np.select([margins > 0, margins < 0], [probability_first_better, probability_first_worse], np.nan),
        "wrong": np.select(
            [margins > 0, margins < 0],
            [probability_first_worse, probability_first_better],
            probability_first_better + probability_first_worse,
        ),
    }


def _saving_columns(world: World) -> dict[str, Any]:
    """Return the columns of `saving`."""
    if world.channel is None:
        return {}
    return {
        "metric": world.metric,
        "pair": np.arange(1, len(world.shares) + 1),
        "system_a": world.systems[0],
        "system_b": world.systems[1],
        "margin": world.shares[:, 0] - world.shares[:, 2],
        "saving_most": preference_correlation(world.shares, world.channel) ** 2,
    }
