"""The status of a running study for its owner: completed interim analyses and counts, but no estimates of incomplete
analyses."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from custodes.annotate import assignment_policy
from custodes.annotate.arrivals import code_of
from custodes.annotate.event_log import EventLog
from custodes.annotate.participants import FEWEST, Annotator, AnnotatorStanding, Work, annotator_standing
from custodes.annotate.plan import StudyPlan
from custodes.annotate.state import StudyState
from custodes.answers.wording import plural
from custodes.data.notes import Note, build_notes
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation
from custodes.stats.reliability import FEWEST_ANNOTATORS

STANDSTILL, FEW_ANNOTATORS = "standstill", "few-annotators"
FINISHED = "finished"
"""The state of a study in which no pair is open."""


class Reach(NamedTuple):
    """Whether the current annotators can complete the current interim analyses.

    `free` is the number of missing answers that are not assigned to an annotator. Of these answers, `short` is the
    number that no current annotator may give. `there` is the number of admitted annotators (see `Annotator.is_able`).
    """

    free: int = 0
    short: int = 0
    there: int = 0


def reach_of(state: StudyState) -> Reach:
    """Compute whether the current annotators can complete the current interim analyses."""
    if state.control == "stopped":
        return Reach()
    assignments, annotator_plan = state.assignments, state.plan.annotators
    n_able_annotators = assignment_policy.count_able_annotators(state)
    able_annotators = [worker for worker in state.workers.values() if worker.is_able]
    annotators_with_batches_left = [
        worker
        for worker in able_annotators
        if worker.batch < annotator_plan.batches or worker.number < annotator_plan.batch
    ]
    n_unassigned_answers, n_uncoverable_answers = 0, 0
    for pair_index, target_answers in enumerate(assignments.engine.target):
        free_units = list(assignments.iterate_free_units(pair_index))
        free_unit_ids, n_lacking_answers = {unit.id for unit in free_units}, sum(map(assignments.lacks, free_units))
        max_answers_per_annotator = assignment_policy.cap(annotator_plan, target_answers, n_able_annotators)
        n_possible_answers = sum(
            max(0, min(max_answers_per_annotator - worker.load[pair_index], len(free_unit_ids - worker.assigned_units)))
            for worker in (annotators_with_batches_left if free_units else ())
        )
        n_unassigned_answers += n_lacking_answers
        n_uncoverable_answers += max(0, n_lacking_answers - n_possible_answers)
    return Reach(n_unassigned_answers, n_uncoverable_answers, len(able_annotators))


@dataclass(frozen=True, kw_only=True)
class PairNow:
    """The status of a pair of systems. With ratings, the status is that of one system, and `second` is ''.

    The current interim analysis has `answered` answers and needs `wanted` answers. With several annotators per answer,
    `partial` counts the answers of annotators that await the answers of others. `looks` analyses are planned, and
    `looks_done` are complete. `decision` (1, 0, -1), the counts, the margin and its interval are results of the last
    completed analysis. `decision` is None before the first analysis. `annotators` is the number of annotators whose
    answers count.
    """

    first: str
    second: str
    answered: int
    wanted: int
    looks: int
    is_open: bool
    impossible: int
    annotators: int
    partial: int = 0
    looks_done: int = 0
    decision: int | None = None
    n: int = 0
    wins: int = 0
    ties: int = 0
    losses: int = 0
    margin: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(kw_only=True)
class PersonNow(Work):
    """The status of an annotator, with the counts of `Work`.

    `began`: whether the annotator has started; otherwise the annotator only has a link. `seconds`: median of the
    visible seconds per answer. `doubled`: how often another annotator answered the same question. `agreed`: how often
    both answers were equal. `standing`: the status ok, watch, blocked or excluded. `flags`: reasons for this status.
    `codes`: completion codes that the annotator saw.
    """

    label: str
    source: str
    external_id: str
    began: bool
    batch: int
    seconds: float | None
    doubled: int
    agreed: int
    standing: str
    flags: tuple[str, ...]
    codes: tuple[str, ...]

    @property
    def codes_text(self) -> str:
        """The completion codes, separated by spaces."""
        return " ".join(self.codes)


@dataclass(kw_only=True)
class Snapshot(Work):
    """The current status of a study, with the counts of `Work`.

    `state` is open, paused, stopped or finished. `failing` is the reason why answers cannot be written, or '' if they
    can be written. `recent` is the number of primary answers in the 30 minutes before the last answer. `last_answer` is
    a time in seconds since the epoch. `reach` says whether the current annotators can complete the current interim
    analyses.
    """

    plan: StudyPlan
    state: str
    failing: str
    pairs: tuple[PairNow, ...]
    annotators: tuple[PersonNow, ...]
    control_kinds: frozenset[str]
    """Kinds of control questions in the study."""
    recent: int
    excluded: tuple[int, int]
    """Number of answers of excluded annotators in completed interim analyses, and number of these annotators."""
    last_answer: float | None
    quiet: float | None
    """Seconds since the last answer."""
    reach: Reach

    @property
    def unit_noun(self) -> str:
        """What the study completes one by one: pairs of systems or, with ratings, systems."""
        return "system" if self.plan.question.mode == "rate" else "pair"

    @property
    def notes(self) -> list[Note]:
        """Notes on the annotators, and on comparisons that annotators could not judge."""
        small_annotator_counts = [
            pair.annotators for pair in self.pairs if pair.looks_done and pair.annotators < FEWEST_ANNOTATORS
        ]
        annotator_range_text = " to ".join(
            map(str, sorted({min(small_annotator_counts, default=0), max(small_annotator_counts, default=0)}))
        )
        few_annotators_text = (
            f"{plural(len(small_annotator_counts), self.unit_noun)} had fewer than {FEWEST_ANNOTATORS} annotators, so "
            f"results describe only these {annotator_range_text} annotators"
        )
        pairs_ended_unanalysed = [
            pair for pair in self.pairs if not (pair.is_open or pair.looks_done or pair.wanted) and pair.second
        ]
        n_unjudged_pairs = sum(pair.impossible > 0 for pair in pairs_ended_unanalysed)
        unjudged_text = (
            f"{plural(n_unjudged_pairs, 'pair')} ended without an interim analysis, because annotators could judge "
            "none of the comparisons. If an annotator refused without reason, exclude the annotator, so that the "
            "comparisons are shown again"
        )
        n_excluded_answers, n_excluded_annotators = self.excluded
        excluded_text = (
            f"completed interim analyses contain {plural(n_excluded_answers, 'answer')} of "
            f"{plural(n_excluded_annotators, 'excluded annotator')} and are not recomputed; the leaderboard and all "
            "other results leave out answers of excluded annotators"
        )
        standstill_text = (
            f"the {self.reach.there} current annotators cannot complete the current interim analyses: "
            f"{self.reach.short} of {self.reach.free} remaining answers exceed the limits per annotator ([annotators] "
            "cap, batches). Invite more annotators, or raise the cap (Price and limits on the owner's page)"
        )
        return build_notes(
            (STANDSTILL, self.reach.there > 0 and self.reach.short > 0, standstill_text),
            (FEW_ANNOTATORS, len(small_annotator_counts), few_annotators_text),
            ("unjudged", n_unjudged_pairs, unjudged_text),
            ("excluded-annotators", n_excluded_answers, excluded_text),
        )


def closing_lines(path: Path, snapshot: Snapshot) -> list[str]:
    """Return lines with the status of a study after the server has stopped, and with the command to run next."""
    n_closed_pairs = sum(not pair.is_open for pair in snapshot.pairs)
    next_command = (
        f"custodes leaderboard {path}"
        if snapshot.state in (FINISHED, "stopped")
        else f"custodes annotate serve {path} continues the study; custodes annotate stop {path} ends it"
    )
    return [
        f"{path.stem}: {snapshot.state}; {plural(snapshot.answers, 'answer')}; {n_closed_pairs} of "
        f"{plural(len(snapshot.pairs), snapshot.unit_noun)} completed",
        f"next: {next_command}",
    ]


_PAIRS = """
SELECT max(l.look), a.label AS first, coalesce(b.label, '') AS second, count(l.look) AS looks_done, l.decision,
    coalesce(l.n, 0) AS n, coalesce(l.wins, 0) AS wins, coalesce(l.ties, 0) AS ties, coalesce(l.losses, 0) AS losses,
    l.margin, l.low, l.high
FROM pair p JOIN system a ON a.system = p.first LEFT JOIN system b ON b.system = p.second
LEFT JOIN look l ON l.pair = p.pair GROUP BY p.pair ORDER BY p.pair
"""
"""Query of each pair and its last completed interim analysis. SQLite takes the other columns of `l` from the row with
`max(l.look)`."""


_RECENT = """
SELECT last.at, (
    SELECT count(DISTINCT assignment) FROM judgment
    WHERE role = 'primary' AND answer IS NOT NULL AND at >= last.at - 1800
)
FROM (SELECT at FROM judgment ORDER BY judgment DESC LIMIT 1) last
"""
"""Query of the time of the last answer, and of the number of primary answers in the half hour before the last
answer."""


def snapshot_of(log: EventLog, *, write_failure: str) -> Snapshot:
    """Return the current status of a study. The status has no results of incomplete interim analyses, only numbers of
    answers.

    `write_failure` is the reason why nothing can be written, or ''.
    """
    state = log.state
    last_answered_at, n_recent_answers = log.connection.execute(_RECENT).fetchone() or (None, 0)
    workers = list(state.workers.values())
    n_annotators = max(1, sum(worker.work.answers > 0 for worker in workers))
    # The median of the annotators' medians, without annotators with too few timed answers.
    median_seconds_per_annotator = [median(worker.work.times) for worker in workers if len(worker.work.times) >= FEWEST]
    typical_seconds = median(median_seconds_per_annotator) if median_seconds_per_annotator else None
    excluded_answer_counts = [len(worker.votes) for worker in workers if worker.excluded and worker.votes]
    n_comparisons_of_worker, n_agreements_of_worker = state.assignments.agreement()
    totals = state.totals
    return Snapshot(
        **asdict(totals),
        plan=state.plan,
        state=state_name(state),
        failing=write_failure,
        pairs=_pairs(log),
        annotators=tuple(
            _person(
                state.plan,
                worker,
                annotator_standing(worker.work, totals, typical_seconds=typical_seconds, n_annotators=n_annotators),
                n_comparisons=n_comparisons_of_worker[worker.id],
                n_agreements=n_agreements_of_worker[worker.id],
            )
            for worker in workers
        ),
        control_kinds=frozenset(control_kind for control_kind, _ in state.gold.values()),
        recent=n_recent_answers,
        excluded=(sum(excluded_answer_counts), len(excluded_answer_counts)),
        last_answer=last_answered_at,
        quiet=None if last_answered_at is None else max(0.0, log.clock.wall() - last_answered_at),
        reach=reach_of(state),
    )


def state_name(state: StudyState) -> str:
    """Return the state of a study. A study is finished if all its pairs are closed. If pairs are reopened later, the
    study is open again."""
    is_finished = state.control == "open" and not any(state.assignments.engine.is_open)
    return FINISHED if is_finished else state.control


def _pairs(log: EventLog) -> tuple[PairNow, ...]:
    state, assignments, engine = log.state, log.state.assignments, log.state.assignments.engine
    cursor = log.connection.execute(_PAIRS)
    column_names = [column_name for column_name, *_ in cursor.description[1:]]
    last_analysis_of_pair = [dict(zip(column_names, pair_row[1:], strict=True)) for pair_row in cursor]
    n_annotators_of_pair_index = Counter(
        pair_index
        for worker in state.workers.values()
        for pair_index in {assignments.units[unit_id].pair for unit_id in worker.votes}
    )
    return tuple(
        PairNow(
            **last_analysis,
            answered=engine.n[pair_index],
            wanted=engine.target[pair_index],
            looks=len(engine.rule.looks) if isinstance(engine, ConcurrentAnnotation) else 0,
            is_open=engine.is_open[pair_index] and state.control != "stopped",
            impossible=assignments.impossible[pair_index],
            annotators=n_annotators_of_pair_index[pair_index],
            partial=sum(
                len(unit.votes)
                for unit in assignments.units_of_pair[pair_index]
                if engine.is_free(pair_index, unit.place)
            ),
        )
        for pair_index, last_analysis in enumerate(last_analysis_of_pair)
    )


def _person(
    plan: StudyPlan,
    worker: Annotator,
    computed_standing: AnnotatorStanding,
    *,
    n_comparisons: int,
    n_agreements: int,
) -> PersonNow:
    worker_work, standing_of_exclusion = worker.work, {"owner": "excluded", "rule": "blocked"}
    return PersonNow(
        **asdict(worker_work),
        label=worker.label,
        source=worker.source,
        external_id=worker.external_id,
        began=worker.begun,
        batch=worker.batch,
        seconds=median(worker_work.times) if worker_work.times else None,
        doubled=n_comparisons,
        agreed=n_agreements,
        standing=standing_of_exclusion.get(worker.by, computed_standing.name),
        flags=computed_standing.flags,
        codes=tuple(
            completion_code
            for completion_code in dict.fromkeys(
                code_of(plan, end_reason, visit_code) for end_reason, visit_code in worker.codes.items()
            )
            if completion_code
        ),
    )
