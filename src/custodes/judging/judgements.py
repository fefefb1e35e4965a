"""Judgements: what a judge said, what it did not say and why, and what that took."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import polars as pl

from custodes.answers.result import Result, result
from custodes.answers.tables import count, flag, label, probability, score, table
from custodes.data.preferences import NOT_ASKED, Preferences
from custodes.data.reading import read
from custodes.data.study import Study, join
from custodes.judging.judge import Mode

WHERE = (
    label("item", "the item"),
    label("system_a", "the first system by name; of a score the only one"),
    label("system_b", "the second system by name"),
    label("aspect", "what was asked about"),
    label("repeat", f"the run, from 0; `{NOT_ASKED}`: a tie of two outputs that are the same to the letter"),
    label("order", "`ab` where system_a was shown first, `ba` where system_b was; empty where nobody was asked"),
)
INVALID = label(
    "invalid",
    "why there is none: `refusal`, `filtered`, `truncated`, `empty`, `no-verdict`, `label` (another word), or not"
    " answered: `unavailable`, `rejected`, `denied`, or `budget` between the orders; empty where there is one",
)

NOT_ANSWERED = "not-answered"
UNREADABLE = "mostly-unreadable"
"""Rules of the notes for which the exit status is 1."""


@result
class Judgements(Result):
    """What a judge said. See `judge`."""

    BY = ""

    verdicts: pl.DataFrame = table(
        "One row per comparison, order and repeat that was asked, and one per comparison of two outputs that are the"
        " same, as the reader `battles` takes it.",
        *WHERE[:3],
        label("rater", "the judge"),
        label("kind", "`metric`"),
        *WHERE[3:],
        count("preference", "1: system_a is better, 0: a tie, -1: system_b; null: see `invalid`"),
        INVALID,
        probability("p_a", "that system_a is better, where the server told the probabilities of all answers"),
        probability("p_tie", "of a tie"),
        probability("p_b", "that system_b is better"),
        essential=False,
    )
    ratings: pl.DataFrame = table(
        "One row per output, aspect and repeat that was asked, as the reader `ratings` takes it. With probabilities"
        " `NAME@expected` is a rater of its own: the mean of the scale under them.",
        label("item", "the item"),
        label("system", "the system"),
        label("rater", "the judge"),
        label("kind", "`metric`"),
        *WHERE[3:5],
        score("score", "on the scale; null: see `invalid`"),
        INVALID,
        essential=False,
    )
    raters: pl.DataFrame = table(
        "The judge as a table of raters.",
        label("rater", "its name"),
        label("kind", "`metric`"),
        flag("higher_is_better", "true"),
        score("low", "the scale; null for a pairwise judge", essential=False),
        score("high", "the scale", essential=False),
        score("cost", "dollars of an answer that is one; null where no price is known"),
        label("cost_unit", "`usd`", essential=False),
        label("own_system", "the systems of its family", essential=False),
        label("signature", "model as served, prompt and its hash, and what else changes its answers"),
    )
    failures: pl.DataFrame = table(
        "What came of the questions, by system shown.",
        label("system", "the system; empty for all", essential=False),
        count("asked", "questions that it was shown in"),
        count("answered", "with a verdict or score"),
        label("invalid", "why there is none", "Why not"),
        count("failures", "of this kind"),
        rows=lambda made: made.failures.filter(pl.col("system") == ""),
    )
    usage: pl.DataFrame = table(
        "One row: what it took.",
        count("questions", "comparisons or outputs, by aspect, order and repeat"),
        count("requests", "different requests, second ones among them"),
        count("asked", "requests sent in this run; the others were kept from before"),
        count("sent", "how often a request was sent in this run, retries included"),
        count("tokens_in", "of all replies, as the server counted them"),
        count("tokens_out", "of all replies"),
        score("dollars", "of all replies, also of those that were kept; null where no price is known"),
    )
    details: pl.DataFrame = table(
        "One row per question with a reply.",
        label("key", "of the reply in the cache"),
        *WHERE,
        label("answer", "what it said, as it was shown: `A`, `B`, `tie`, or the score"),
        INVALID,
        label("reason", "why, in the words of the judge; of an answer that is none, all that it said"),
        label("model", "the model, as the server called it"),
        flag("again", "whether the first reply was none, and it was asked once more"),
        count("tokens_in", "of the reply"),
        count("tokens_out", "of the reply"),
        score("seconds", "until it came"),
        essential=False,
    )
    judged: Study
    mode: Mode

    @property
    def preferences(self) -> Preferences:
        """The verdicts, with those that are missing and why."""
        return self._own.preferences

    def study(self) -> Study:
        """What was judged, with these verdicts or ratings: the input of every question.

        Raises InputError where nothing was answered.
        """
        notes = dict.fromkeys((*self.judged.notes, *self.notes))
        return join([replace(self.judged, notes=tuple(notes)), self._own])

    @cached_property
    def _own(self) -> Study:
        frame = self.verdicts if self.mode == "pairwise" else self.ratings
        return read(frame, raters=self.raters)

    @property
    def invalid(self) -> pl.DataFrame:
        """The rows without a verdict or score, and why."""
        frame = self.verdicts if self.mode == "pairwise" else self.ratings
        return frame.filter(pl.col("invalid") != "")

    @property
    def status(self) -> int:
        """Exit status: 1 if some questions have no reply, or if fewer than half of the replies can be read; else 0."""
        return int(any(note.rule in (NOT_ANSWERED, UNREADABLE) for note in self.notes))

    @property
    def answered(self) -> int:
        """How many questions have a verdict or score in their reply."""
        return self.details.filter(pl.col("invalid") == "").height

    def written(self) -> dict[str, Any]:
        """The tables that a command writes, by what their files are called beside that of the verdicts or ratings."""
        main = self.verdicts if self.mode == "pairwise" else self.ratings
        return {"": main, "raters": self.raters, "details": self.details}
