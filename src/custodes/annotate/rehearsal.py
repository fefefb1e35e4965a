"""Rehearsal of a study with simulated annotators: number of answers, hours, cost, and proportions of correct and wrong
decisions."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import polars as pl

from custodes.annotate import study_file
from custodes.annotate.event_log import Clock
from custodes.annotate.plan import PLAN, StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.simulated_crowd import LONGEST, Crowd, Drive, Habits, StudyFileReader
from custodes.annotate.snapshot import STANDSTILL
from custodes.annotate.study_status import interval_columns, study_provenance
from custodes.answers.question import Rng, resolve_seed
from custodes.answers.result import Result, result
from custodes.answers.tables import count, difference, label, score, share, table
from custodes.arguments import check_arguments, check_at_least
from custodes.data.notes import Note, build_notes
from custodes.errors import reject, short_repr
from custodes.progress import Progress, silent
from custodes.stats.judging.calibration import share_by_bin

START = 1_700_000_000.0
"""Simulated start time of every rehearsal, in seconds since the epoch."""
EMPTY = """
DELETE FROM judgment; DELETE FROM look; DELETE FROM exclusion; DELETE FROM event; DELETE FROM assignment;
DELETE FROM worker;
"""
"""Statements that delete all activity. The order of the statements respects references between tables."""


@result
class Rehearsal(Result):
    """Results of rehearsals of a study. See `rehearse`."""

    BY: ClassVar[str] = ""

    outcomes: pl.DataFrame = table(
        "One row per plan and margin. Intervals of answers, hours, work and cost contain 80 % of the "
        "rehearsals. Intervals of proportions have 95 % confidence and account for dependence "
        "between pairs of one rehearsal.",
        label("plan", "name of the plan"),
        difference(
            "margin",
            "margin (wins minus losses) by which careful annotators prefer each system to the next one in alphabetical "
            "order",
        ),
        count("pairs", "number of pairs of systems in a rehearsal; 0 for ratings"),
        score("answers", "paid answers", interval=True),
        score("hours", "hours from the first to the last answer", interval=True),
        score("work", "working hours, summed over annotators", interval=True, essential=False),
        score("cost", "cost in the currency of the plan; null without a price", interval=True),
        score("annotators", "number of annotators who took part", essential=False),
        score("idle", "number of annotators who got no more questions before the rehearsal ended", "Without work"),
        share(
            "right",
            "proportion of pairs decided for the better system; if the margin is 0, proportion of undecided pairs",
            interval=True,
        ),
        share(
            "wrong",
            "proportion of pairs decided for the worse system; if the margin is 0, proportion of decided pairs",
            interval=True,
        ),
        share("missed", "proportion of undecided pairs; null if the margin is 0", interval=True),
    )


class Outcome(NamedTuple):
    """Result of one rehearsal."""

    answers: int
    hours: float
    work: float
    annotators: int
    idle: int
    signs: Sequence[int]
    """For every pair, 1 if it was decided for the better system, -1 if it was decided for the worse system, and 0 if it
    is undecided. If both systems are equal, the first one counts as better."""
    is_ended: bool
    n_open: int
    """Number of undecided pairs that no current annotator may answer."""


@check_arguments
def rehearse(
    path: str | Path,
    *,
    plans: Mapping[str, StudyPlan] | None = None,
    annotators: int = 20,
    margins: Sequence[float] = (0.0, 0.2),
    careless: float = 0.1,
    sided: float = 0.1,
    leaving: float = 0.02,
    seconds: float = 40.0,
    reliability: float = 0.8,
    repetitions: int = 20,
    rng: Rng = 0,
    progress: Progress = silent,
) -> Rehearsal:
    """Run a copy of a study with simulated annotators several times, and count answers, hours, cost and decisions.

    At the beginning, `annotators` annotators are present; when an annotator leaves, another annotator arrives.
    `margins` are the margins (wins minus losses) by which careful annotators prefer each system to the next system. A
    proportion `careless` of annotators answers at random, and a proportion `sided` always chooses the first output.
    Both kinds of annotators are four times as fast as careful annotators. `leaving` is the probability of leaving after
    an answer. `seconds` is the median time of an answer. `reliability` is the correlation between a careful annotator's
    impression and the true quality.

    `plans` are further plans to compare, by name; these plans use the same items and orders. The study does not change,
    and its answers are not used. Raises `InputError` for files that are not a study, and `OptionError` for arguments
    that are not allowed.

    >>> import custodes as cu, tempfile
    >>> study = cu.annotate.new(cu.annotate.demo_texts(items=12), tempfile.mkdtemp() + "/study.db")
    >>> cu.annotate.rehearse(study, margins=[0.6], repetitions=1).outcomes["pairs"].to_list()
    [3]
    """
    habits = _habits(careless=careless, sided=sided, leaving=leaving, seconds=seconds, reliability=reliability)
    check_at_least("annotators", annotators, 1)
    check_at_least("repetitions", repetitions, 1)
    reject(
        *(
            (not 0 <= margin < 0.95, f"margins: {margin} is not allowed; give margins from 0 to below 0.95")
            for margin in margins
        )
    )
    seed_or_generator, recorded_seed = resolve_seed(rng)
    parent_rng = np.random.default_rng(seed_or_generator)
    with tempfile.TemporaryDirectory(prefix="custodes-rehearsal-") as temporary_folder:
        empty_study_path, study_copy_path = Path(temporary_folder, "master.db"), Path(temporary_folder, "study.db")
        plan = copy_without_answers(Path(path), empty_study_path)
        plan_of_name = {plan.name: plan, **(plans or {})}
        conditions = [(plan_name, margin) for plan_name in plan_of_name for margin in margins]
        outcomes_of_condition: dict[tuple[str, float], list[Outcome]] = {condition: [] for condition in conditions}
        repeated_conditions = [condition for _ in range(repetitions) for condition in conditions]
        for plan_name, margin in progress(repeated_conditions, total=len(repeated_conditions), desc="rehearsing"):
            shutil.copyfile(empty_study_path, study_copy_path)
            outcomes_of_condition[plan_name, margin].append(
                _run_rehearsal(
                    study_copy_path, plan_of_name[plan_name], annotators, margin, habits, parent_rng.spawn(1)[0]
                )
            )
            for leftover_path in Path(temporary_folder).glob("study.db*"):
                leftover_path.unlink()
    outcome_rows = [
        _row(plan_name, margin, plan_of_name[plan_name], condition_outcomes)
        for (plan_name, margin), condition_outcomes in outcomes_of_condition.items()
    ]
    provenance_options = {
        **{
            option_name: option_value
            for option_name, option_value in msgspec.structs.asdict(plan.stopping).items()
            if option_value is not None
        },
        "annotators": annotators,
        "margins": list(margins),
        "repetitions": repetitions,
        **asdict(habits),
    }
    return Rehearsal.from_parts(
        [Rehearsal.part(outcomes=outcome_rows)],
        _rehearsal_notes(habits, annotators, outcomes_of_condition, plan),
        provenance=study_provenance("rehearse", path, seed=recorded_seed, options=provenance_options),
    )


def _habits(**habit_values: float) -> Habits:
    reject(
        *(
            (
                not 0 <= habit_values[name] < 1,
                f"{name}={short_repr(habit_values[name])} is not allowed; give a proportion from 0 to below 1",
            )
            for name in ("careless", "sided", "leaving")
        ),
        (
            habit_values["careless"] + habit_values["sided"] > 1,
            "careless + sided is above 1; give two proportions with a sum of at most 1",
        ),
        (
            not 0 < habit_values["reliability"] <= 1,
            f"reliability={short_repr(habit_values['reliability'])} is not allowed; give a correlation above 0 and at "
            "most 1",
        ),
        (
            not 0 < habit_values["seconds"] <= 86_400,
            f"seconds={short_repr(habit_values['seconds'])} is not allowed; give the time of an answer, above 0 and at "
            "most a day",
        ),
    )
    return Habits(**habit_values)


def _rehearsal_notes(
    habits: Habits,
    n_annotators: int,
    outcomes_of_condition: Mapping[tuple[str, float], Sequence[Outcome]],
    plan: StudyPlan,
) -> list[Note]:
    all_outcomes = [outcome for condition_outcomes in outcomes_of_condition.values() for outcome in condition_outcomes]
    n_unfinished_rehearsals = sum(not outcome.is_ended for outcome in all_outcomes)
    n_standstill_rehearsals = sum(outcome.is_ended and outcome.n_open > 0 for outcome in all_outcomes)
    open_work_text = "unrated outputs" if plan.question.mode == "rate" else "undecided pairs"
    return [
        Note(
            rule="assumed",
            message=(
                f"assumed: {n_annotators} annotators at a time. A new annotator replaces each annotator who leaves, "
                f"is blocked or has completed all batches. {habits.careless:.0%} answer at random, "
                f"{habits.sided:.0%} always choose the first output, and {habits.leaving:.0%} leave after each "
                f"answer. An answer takes {habits.seconds:g} s. The reliability is {habits.reliability:g}. Real "
                "annotators may differ"
            ),
        ),
        *build_notes(
            (
                "unfinished",
                n_unfinished_rehearsals,
                f"{n_unfinished_rehearsals} rehearsals did not end within {LONGEST / 86400:g} simulated days and were "
                "stopped",
            ),
            (
                STANDSTILL,
                n_standstill_rehearsals,
                f"{n_standstill_rehearsals} of {len(all_outcomes)} rehearsals stopped with {open_work_text} that no "
                "current annotator may answer; invite more annotators, or raise [annotators] cap",
            ),
            (
                "ratings",
                plan.question.mode == "rate",
                "no decisions are made from ratings, so the columns right, wrong and missed are empty",
            ),
        ),
    ]


def copy_without_answers(path: Path, copy_path: Path) -> StudyPlan:
    """Write a copy of a study without answers, and return the plan of the study."""
    study_file.copy(study_file.check(path), copy_path)
    with closing(sqlite3.connect(copy_path)) as copy_connection:
        copy_connection.executescript(EMPTY)
        (plan_json,) = copy_connection.execute("SELECT json FROM plan ORDER BY version DESC LIMIT 1").fetchone()
    return PLAN.decode(plan_json)


def _run_rehearsal(
    path: Path, plan: StudyPlan, n_annotators: int, margin: float, habits: Habits, rng: np.random.Generator
) -> Outcome:
    """Rehearse a study whose file has no answers, with another plan."""
    with closing(sqlite3.connect(path)) as copy_connection, copy_connection:
        copy_connection.execute("UPDATE plan SET json = ?", (msgspec.json.encode(plan).decode(),))
    with closing(StudyFileReader(path)) as file_reader:
        crowd = Crowd(
            systems=file_reader.systems(),
            items=file_reader.items(),
            aspects=plan.question.aspects,
            margin=margin,
            habits=habits,
            rng=rng,
            scale=plan.question.scale if plan.question.mode == "rate" else None,
        )
        simulated_seconds_cell = [0.0]
        clock = Clock(wall=lambda: START + simulated_seconds_cell[0], steady=lambda: simulated_seconds_cell[0])
        with closing(Service.open(path, clock=clock, threaded=False, durable=False)) as service:
            crowd_driver = Drive(service, crowd, file_reader, plan, simulated_seconds_cell)
            is_ended = crowd_driver.run(n_annotators)
            snapshot = service.snapshot().result()
    correctness_signs = [
        (pair.decision or 0) * (1 if crowd.quality[pair.first] >= crowd.quality[pair.second] else -1)
        for pair in snapshot.pairs
        if pair.second
    ]
    n_open_pairs = sum(pair.is_open for pair in snapshot.pairs)
    return Outcome(
        answers=snapshot.paid,
        hours=crowd_driver.last / 3600,
        work=crowd_driver.work / 3600,
        annotators=crowd_driver.came,
        idle=sum(idle_since < crowd_driver.last or n_open_pairs > 0 for idle_since in crowd_driver.without_work),
        signs=correctness_signs,
        is_ended=is_ended,
        n_open=n_open_pairs,
    )


def _row(plan_name: str, margin: float, plan: StudyPlan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    cost_per_answer = plan.money.price * (1 + plan.money.fee)
    costs = [outcome.answers * cost_per_answer for outcome in outcomes] if cost_per_answer else []
    outcome_row: dict[str, Any] = {
        "plan": plan_name,
        "margin": margin,
        "pairs": len(outcomes[0].signs),
        **_spread("answers", [outcome.answers for outcome in outcomes]),
        **_spread("hours", [outcome.hours for outcome in outcomes]),
        **_spread("work", [outcome.work for outcome in outcomes]),
        **_spread("cost", costs),
        "annotators": float(np.mean([outcome.annotators for outcome in outcomes])),
        "idle": float(np.mean([outcome.idle for outcome in outcomes])),
    }
    all_correctness_signs = np.array([correctness_sign for outcome in outcomes for correctness_sign in outcome.signs])
    repetition_of_sign = np.repeat(np.arange(len(outcomes)), [len(outcome.signs) for outcome in outcomes])
    decision_mask_of_outcome = {
        "right": all_correctness_signs > 0,
        "wrong": all_correctness_signs < 0,
        "missed": all_correctness_signs == 0,
    }
    decision_mask_of_rate = (
        decision_mask_of_outcome
        if margin
        else {"right": all_correctness_signs == 0, "wrong": all_correctness_signs != 0, "missed": None}
    )
    for rate_name, is_counted_decision in decision_mask_of_rate.items():
        estimate_and_bounds: Sequence[float] | None = None
        if is_counted_decision is not None and is_counted_decision.size:
            estimate_and_bounds = [
                float(estimate_or_bound[0])
                for estimate_or_bound in share_by_bin(
                    is_counted_decision.astype(float),
                    np.zeros(is_counted_decision.size, dtype=np.int64),
                    units=repetition_of_sign,
                    confidence=0.95,
                )
            ]
        outcome_row |= interval_columns(rate_name, estimate_and_bounds)
    return outcome_row


def _spread(column_name: str, rehearsal_values: Sequence[float]) -> dict[str, float | None]:
    return interval_columns(
        column_name,
        [float(np.mean(rehearsal_values)), *np.quantile(rehearsal_values, [0.1, 0.9]).tolist()]
        if rehearsal_values
        else None,
    )
