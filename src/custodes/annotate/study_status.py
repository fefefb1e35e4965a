"""Status of a study for a terminal or a program, with the content of the owner's page. The study may be served
meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from custodes.annotate import study_file
from custodes.annotate.forecast import Forecast, forecast
from custodes.annotate.service import Service
from custodes.annotate.snapshot import PairNow, PersonNow, Snapshot
from custodes.answers.question import versions
from custodes.answers.result import Provenance, Result, result
from custodes.answers.tables import count, difference, flag, label, labels, score, share, table
from custodes.arguments import check_arguments
from custodes.data.notes import Note, build_notes
from custodes.errors import join_labels

IMPOSSIBLE, NOBODY = "impossible", "nobody-comes"


@result
class Status(Result):
    """Status of a study. See `status`."""

    BY: ClassVar[str] = ""

    study: pl.DataFrame = table(
        "One row: the whole study.",
        label("name", "name of the study, from the plan"),
        label(
            "state",
            "state of the study: open, paused, stopped, or finished (no more answers are needed)",
        ),
        count("invited", "annotators who got a personal link or arrived by the open link"),
        count("began", "invited annotators who have started"),
        count("answers", "answers to real comparisons"),
        count("paid", "paid answers of all kinds", essential=False),
        count("refused", "comparisons that an annotator could not judge", essential=False),
        score("spent", "cost so far with the platform's fee, in the currency of the plan; null without a price"),
        score(
            "to_come",
            "expected number of paid answers of all kinds that are still needed, with an 80 % interval. It is "
            "proportional to the expected answers that are used for decisions",
            interval=True,
        ),
        score("cost", "expected further cost with the platform's fee", interval=True),
        score(
            "hours",
            "expected further hours, at the rate of answers in the half hour before the last answer. Null if no "
            "answer of that half hour was used for decisions, if the current annotators cannot give all needed "
            "answers, or if nobody has answered for a day",
            interval=True,
        ),
        score("wage", "hourly wage at the median time of an answer; null if there are too few timed answers"),
    )
    pairs: pl.DataFrame = table(
        "One row per pair of systems or, with ratings, per system. Decisions come from completed interim analyses "
        "only. For an undecided pair, only the number of answers is shown. The margin is hidden, so that results "
        "cannot influence when the study is stopped.",
        label("system_a", "the first system"),
        label("system_b", "the second system; empty for ratings"),
        flag("is_open", "whether the pair is undecided and needs answers"),
        count("answered", "answers in the current interim analysis"),
        count("wanted", "answers that the current interim analysis needs"),
        count("looks_done", "completed interim analyses"),
        count("looks", "planned interim analyses", essential=False),
        label(
            "better",
            "the better system according to the last completed interim analysis; empty without a decision",
        ),
        count("n", "answers of the last completed interim analysis"),
        difference(
            "margin",
            "margin: wins minus losses of system_a, divided by the number of answers. For a pair that the stopping "
            "rule closed, the margin is adjusted for interim analyses; null for an undecided pair",
            interval=True,
        ),
        count(
            "impossible",
            "number of comparisons that ended without an answer, because annotators could not judge them",
            essential=False,
        ),
        count(
            "annotators",
            "annotators whose answers count. If there are fewer than 10, results describe only these annotators",
        ),
    )
    persons: pl.DataFrame = table(
        "One row per annotator.",
        label("worker", "label of the annotator in every file"),
        label("source", "how the annotator arrived: links (a personal link) or open (the open link)", essential=False),
        count("answers", "answers to real comparisons"),
        count("batches", "batches that the annotator has begun", essential=False),
        score("seconds", "median of the seconds per answer for which the page was visible"),
        count("known_right", "control questions answered correctly"),
        count("known_asked", "control questions answered"),
        share(
            "first_shown", "among the answers that prefer one output, proportion that prefers the output shown first"
        ),
        share(
            "agreed",
            "proportion of other annotators' answers to the same questions that equal the annotator's answer; with "
            "several aspects, only the first aspect is compared",
        ),
        label("standing", "status of the annotator: ok, watch, blocked or excluded"),
        labels("flags", "reasons for this status"),
    )


@check_arguments
def status(path: str | Path) -> Status:
    """Return the status of a study: decisions of completed interim analyses, answers, annotators, and cost so far and
    expected further cost.

    A note is added if the current annotators cannot complete the study, or if decisions are based on few annotators.
    The study may be served at the same time, because a copy is read. Raises `InputError` for files that are not a
    study.

    >>> import custodes as cu, tempfile
    >>> study = cu.annotate.new(cu.annotate.demo_texts(items=12), tempfile.mkdtemp() + "/study.db")
    >>> status(study).pairs["system_a"].to_list()
    ['Aster', 'Aster', 'Birch']
    """
    snapshot = snapshot_of_file(study_file.check(path))
    study_forecast = forecast(snapshot)
    return Status.from_parts(
        [
            Status.part(
                study=_study(snapshot, study_forecast),
                pairs=map(_pair, snapshot.pairs),
                persons=map(_person, snapshot.annotators),
            )
        ],
        [*snapshot.notes, *_status_notes(snapshot, study_forecast)],
        provenance=study_provenance("status", path, seed=snapshot.plan.seed),
    )


def study_provenance(
    command: str, path: str | Path, *, seed: int | None = None, options: Mapping[str, Any] | None = None
) -> Provenance:
    """Return the provenance of the result of a command of `annotate`."""
    return Provenance(
        question=f"annotate {command}",
        study=Path(path).name,
        digest="",
        options=dict(options or {}),
        seed=seed,
        versions=versions(),
    )


def snapshot_of_file(path: Path) -> Snapshot:
    """Return the current status of a study. The status is read from a copy, because the study may be served
    meanwhile."""
    with tempfile.TemporaryDirectory(prefix="custodes-status-") as temporary_folder:
        copy_path = study_file.copy(path, Path(temporary_folder, "study.db"))
        with closing(Service.open(copy_path, threaded=False, durable=False)) as service:
            return service.snapshot().result()


def _status_notes(snapshot: Snapshot, study_forecast: Forecast) -> list[Note]:
    """Return notes on comparisons that no annotator could judge, and on a study without new answers."""
    n_impossible_of_pair_name = {
        f"{pair.first} – {pair.second}".removesuffix(" – "): pair.impossible
        for pair in snapshot.pairs
        if pair.impossible
    }
    question_noun = "ratings" if snapshot.plan.question.mode == "rate" else "comparisons"
    n_impossible = sum(n_impossible_of_pair_name.values())
    pair_counts_text = join_labels(
        f"{pair_name} ({n_pair_impossible})" for pair_name, n_pair_impossible in n_impossible_of_pair_name.items()
    )
    return build_notes(
        (
            IMPOSSIBLE,
            n_impossible,
            f"{n_impossible} {question_noun} ended without an answer, because annotators could not judge them: "
            f"{pair_counts_text}",
        ),
        (
            NOBODY,
            study_forecast.stuck == "nobody",
            "there was no answer for a day, so the remaining time cannot be estimated; remind or invite annotators",
        ),
    )


def _study(snapshot: Snapshot, study_forecast: Forecast) -> dict[str, Any]:
    is_paid = snapshot.plan.money.price > 0
    return {
        "name": snapshot.plan.name,
        "state": snapshot.state,
        "invited": len(snapshot.annotators),
        "began": sum(annotator.began for annotator in snapshot.annotators),
        "answers": snapshot.answers,
        "paid": snapshot.paid,
        "refused": snapshot.refused,
        "spent": study_forecast.spent if is_paid else None,
        **interval_columns("to_come", [float(round(n_answers)) for n_answers in study_forecast.paid]),
        **interval_columns("cost", study_forecast.cost if is_paid else None),
        **interval_columns("hours", study_forecast.hours),
        "wage": study_forecast.wage if is_paid else None,
    }


def interval_columns(estimate_name: str, estimate_and_bounds: Sequence[float | None] | None) -> dict[str, float | None]:
    """Return the columns of an estimate and of its bounds, which are null without an estimate."""
    return dict(
        zip(
            (estimate_name, f"{estimate_name}_low", f"{estimate_name}_high"),
            estimate_and_bounds or (None,) * 3,
            strict=True,
        )
    )


def _pair(pair: PairNow) -> dict[str, Any]:
    return {
        "system_a": pair.first,
        "system_b": pair.second,
        "is_open": pair.is_open,
        "answered": pair.answered,
        "wanted": pair.wanted,
        "looks_done": pair.looks_done,
        "looks": pair.looks,
        "better": {1: pair.first, -1: pair.second}.get(pair.decision or 0, ""),
        "n": pair.n,
        **interval_columns(
            "margin", (pair.margin, pair.low, pair.high) if pair.margin is not None and not pair.is_open else None
        ),
        "impossible": pair.impossible,
        "annotators": pair.annotators,
    }


def _person(person: PersonNow) -> dict[str, Any]:
    return {
        "worker": person.label,
        "source": person.source,
        "answers": person.answers,
        "batches": person.batch,
        "seconds": person.seconds,
        "known_right": person.gold_right,
        "known_asked": person.gold_asked,
        "first_shown": person.first_shown / person.decided if person.decided else None,
        "agreed": person.agreed / person.doubled if person.doubled else None,
        "standing": person.standing,
        "flags": list(person.flags),
    }


def notes_of(path: str | Path) -> list[str]:
    """Return the notes from the creation of a study, with reasons: excluded questions, and texts that are displayed as
    plain text."""
    study_path = study_file.check(path)
    with (
        study_file.sqlite_errors(study_path),
        study_file.reading(study_path) as connection,
    ):
        message_rows = connection.execute(
            "SELECT json_extract(json, '$.message') FROM event WHERE kind = 'note' ORDER BY event"
        ).fetchall()
    return [str(note_message) for (note_message,) in message_rows]
