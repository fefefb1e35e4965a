"""Who of the people can be trusted, do they agree, and what do they say together?"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.tables import count, difference, flag, label, labels, p_value, probability, score, share, table
from custodes.data.notes import Note, noted
from custodes.data.patterns import Patterns
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed
from custodes.evaluate.annotators.consensus import (
    FEW_ITEMS,
    FEWEST_SHARED,
    FEWEST_UNITS,
    Method,
    chosen_method,
    consensus,
    label_columns,
)
from custodes.evaluate.annotators.identity import SLOT, People, persons
from custodes.evaluate.annotators.material import MOST_LABELS, AnnotatorAnswers, material
from custodes.evaluate.annotators.reliability import FEW_DOUBLES, agreement_columns, concentration_columns, pair_columns
from custodes.evaluate.annotators.standing import (
    FEW_TASKS,
    FEWEST,
    FIRST,
    LITTLE,
    NO_AGREEMENT,
    SECOND,
    Tests,
    standing_columns,
)
from custodes.evaluate.comparison import label_of
from custodes.evaluate.parallel import each
from custodes.progress import Progress, silent
from custodes.stats import bootstrap
from custodes.stats.arrays import Floats
from custodes.stats.sign_test import adjust

ANSWER_TYPE = label("answer_type", "`verdicts` on comparisons, or `ratings` of outputs")
MOST_SHOWN = 20
"""People of a kind of answer that a terminal shows, beside those that are named."""
FEW_SHARED = "too few answers that others gave, too"
ALIKE = "nearly all answers are alike, so that guessing would be right as often"
FEW_PEOPLE = 10
"""People below which results speak of these people only."""


@result
class Annotators(Result):
    """People one by one and together. See `annotators`."""

    PICTURE = "annotator_competence"

    annotators: pl.DataFrame = table(
        "One row per annotator (or slot) and type of answer.",
        ANSWER_TYPE,
        label("rater", "the annotator"),
        flag(
            "is_person", "whether this is one person, not a slot that several people may have filled", essential=False
        ),
        count("answers", "tasks answered: comparisons, or outputs"),
        share("proportion", "of all answers", "Of all answers"),
        count("n_multiply_rated", "of these: tasks with answers of several annotators", "Multiply rated"),
        score(
            "competence",
            "by answers to what others answered too: Cohen's kappa with what is right by `dawid-skene` or `mace`;"
            f" 1 is always right, 0 guesses; null by `majority`, and with fewer than {FEWEST_SHARED} such answers or"
            f" {FEWEST} clusters of such items",
            "Competence",
            interval=True,
            best="high",
        ),
        share(
            "agreement",
            f"mean share of the others who gave the same answer; null with fewer than {FEWEST} clusters of items that"
            " others answered, too",
            "Others agree",
            interval=True,
            best="high",
        ),
        count("decided", "verdicts for one side, where the order shown is known", essential=False),
        share("first_rate", "proportion of these for the output shown first", "First shown"),
        share("tie_rate", "proportion of ties among verdicts", "Ties"),
        score("seconds", "median seconds of a verdict, if the file has them", "Seconds"),
        p_value(
            "p_position",
            "test of 'choices do not depend on the position', all tests of the study (Holm)",
            essential=False,
        ),
        p_value(
            "p_careless",
            "test of 'agrees with the others at least half as much as these agree with one another on the same tasks';"
            " null with an `untested_reason`; all tests of the study (Holm)",
            essential=False,
        ),
        p_value(
            "p_chance",
            "test of 'agrees with the others no more than random answers', one-sided, not adjusted",
            essential=False,
        ),
        label("untested_reason", "why agreement with the others is not tested", essential=False),
        labels("flags", f"significant at `alpha`: `{FIRST}`, `{SECOND}`, `{LITTLE}`", "Flags"),
        label("reason", "why there is no competence or no interval", essential=False),
        rows=lambda made: _shown(made.annotators),
    )
    agreement: pl.DataFrame = table(
        "One row per type of answer: chance-corrected agreement of annotators.",
        ANSWER_TYPE,
        count("annotators", "with answers"),
        count("tasks", "with answers: comparisons, or outputs"),
        count("n_multiply_rated", "of these: by several annotators", "Multiply rated"),
        count("answers", "to these", essential=False),
        score("alpha_nominal", "Krippendorff's alpha: answers are equal or not", "Alpha", interval=True, best="high"),
        score("alpha_ordinal", "of answers in order: a near miss counts less", "Alpha, ordinal", interval=True),
        score("alpha_interval", "of answers as numbers, by squared differences", "Alpha, interval", interval=True),
        label("reason", f"`too few` with fewer than {FEW_DOUBLES} tasks that several answered", essential=False),
    )
    concentration: pl.DataFrame = table(
        "One row per type of answer: how the answers are distributed over annotators.",
        ANSWER_TYPE,
        count("annotators", "with answers"),
        count("answers", "in all"),
        share("largest_proportion", "proportion of answers by the most active annotator", "Most active"),
        share(
            "gini",
            "Gini coefficient of the numbers of answers: 0 all equal, near 1 one annotator has nearly all",
            "Gini",
        ),
        score(
            "effective_annotators",
            "effective number of annotators with equal numbers of answers",
            "Effective annotators",
        ),
        score(
            "icc",
            "correlation of an annotator's answers to different items of a pair (a system), beyond that of two"
            " annotators; interval over annotators",
            "ICC of annotators",
            interval=True,
        ),
        score(
            "answers_per_annotator",
            "answers to a pair (a system) by the same annotator, mean over answers",
            essential=False,
        ),
        score(
            "design_effect",
            "1 + (answers_per_annotator - 1) icc: variance of a rate of a pair (a mean of a system) relative to that"
            " with one answer per annotator",
            "Design effect",
        ),
    )
    pairs: pl.DataFrame = table(
        "One row per pair of systems that annotators compared: its margin with annotators as the sample.",
        label("system_a", "of a comparison"),
        label("system_b", "of a comparison"),
        count("answers", "of all annotators", "Answers"),
        count("annotators", "with answers"),
        score(
            "effective_annotators",
            "effective number of annotators with equal numbers of answers",
            "Effective annotators",
        ),
        difference(
            "margin",
            "proportion of answers for system_a minus proportion for system_b; interval over annotators for these"
            " items, valid without interim analyses",
            "Margin",
            interval=True,
        ),
        label("reason", "why there is no interval", essential=False),
        essential=False,
    )
    labels: pl.DataFrame = table(
        "One row per task: the combined label of all annotators.",
        ANSWER_TYPE,
        label("item", "of the task"),
        label("system_a", "of a comparison"),
        label("system_b", "of a comparison"),
        label("system", "of an output"),
        label("label", "`win`, `tie` or `loss` of system_a, `tie` for even votes; or a score, null for even votes"),
        probability("probability", "of this label by the method; by `majority`, its proportion of the votes"),
        probability("p_a", "probability that system_a is better"),
        probability("p_tie", "of a tie"),
        probability("p_b", "that system_b is better"),
        score("expected_value", "expected label: from -1 to 1, or a score"),
        count("answers", "of the task"),
        label("method", "`dawid-skene`, `mace` or `majority`"),
        essential=False,
    )


@question(
    "custodes annotators battles.csv --method mace --format csv --table labels",
    method="Model of the annotators (default: auto, by the number of answers).",
    people="Whether raters are persons or slots shared by several persons (default: auto).",
)
def annotators(
    study: Study,
    *,
    method: Method = "auto",
    people: People = "auto",
    human: Patterns = None,
    systems: Patterns = None,
    aspect: Patterns = None,
    group: Patterns = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
) -> Annotators:
    """Agreement, competence and reliability of the annotators, and their consensus labels.

    Any study with several people: verdicts, or ratings on a scale (of scores that are numbers, alpha by squared
    differences only). `method` 'dawid-skene' learns what each person says where a label is right, 'mace' how often each
    knows it, 'majority' nothing; 'auto' takes the first where half of the people have 20 answers to what others
    answered too, the second where they have fewer, the last where there are slots, or too few people. `people` 'auto'
    asks the raters table, then names and who answered what (see the notes). Of a slot only agreement is told.

    Flags are claims: all tests of people in the study count (Holm at `alpha`). Intervals: Student's over resampled
    clusters of items; of competence by 'dawid-skene' alone, where people share enough, by the first 100 resamples.
    human, systems, aspect, group: comma lists of globs. Raises `OptionError` for unknown names and where nobody is
    known to be a person, `InputError` where no person answered.

    >>> import custodes as cu
    >>> made = cu.annotators(cu.read("demo"), aspect="fluency", resamples=50)
    >>> made.agreement["annotators"].item()
    3

    Source: Hovy et al. 2013 (MACE); Dawid and Skene 1979; Krippendorff 2019; the test of sides is exact, that of
    agreement is ours.
    """
    chosen = study.select(human=human, systems=systems, aspect=aspect, group=group, one_side=True)
    if not chosen.humans:
        for note in chosen.notes:
            if note.rule == "people-without-scores":
                silent = note.message.partition(":")[0]
                raise InputError(f"{study.name}: {silent}; fill in what they say, or ask the leaderboard of metrics")
        raise OptionError(study.whose_people())
    parts, data_notes = material(chosen, chosen.humans)
    if not parts:
        raise InputError(f"{study.name}: no person gave a score or verdict ({listed(chosen.humans, limit=3)})")
    person_names, who = persons(chosen, chosen.humans, people)
    generator = np.random.default_rng(rng)
    answer = partial(_answer, person_names=person_names, method=method, resamples=resamples, confidence=confidence)
    answers = list(
        each(
            answer,
            parts,
            rng=generator,
            progress=progress,
            desc="annotators",
            label=lambda part: part.aspect + part.what,
        )
    )
    for outcome, (adjusted, flags) in zip(answers, _claims([outcome.tests for outcome in answers], alpha), strict=True):
        outcome.tables["annotators"] |= adjusted | {"flags": flags}
    tables = [Annotators.part(outcome.aspect, **outcome.tables) for outcome in answers]
    notes = [*chosen.notes, *data_notes, *who, *(note for outcome in answers for note in outcome.notes)]
    return Annotators.of(tables, notes)


def _shown(rows: pl.DataFrame) -> pl.DataFrame:
    """Who is named, and who answered most."""
    named = pl.col("flags").list.len() > 0
    most = pl.col("answers").rank("ordinal", descending=True).over("aspect", "answer_type") <= MOST_SHOWN
    return rows.filter(named | most)


class _Part(NamedTuple):
    aspect: str
    tables: dict[str, dict[str, Any]]
    tests: Tests
    notes: list[Note]


def _answer(
    part: AnnotatorAnswers,
    rng: np.random.Generator,
    *,
    person_names: frozenset[str],
    method: Method,
    resamples: int,
    confidence: float,
) -> _Part:
    times = bootstrap.bootstrap_weights(part.n_units, resamples if part.n_units > 1 else 0, rng)
    is_person = np.array([name in person_names for name in part.raters])
    slots = int((~is_person).sum())
    columns, tests = standing_columns(part, is_person, times=times, confidence=confidence)
    chosen, why = chosen_method(part, method, slots=bool(slots)) if not part.continuous else ("", "")
    reason = f"more than {MOST_LABELS} different scores: numbers, not labels" if part.continuous else ""
    together, ends, reasons = {}, np.full((3, len(part.raters)), np.nan), np.full(len(part.raters), reason)
    if chosen:
        # A generator of its own: estimates do not depend on the number of resamples.
        model = consensus(part, chosen, times=times, confidence=confidence, rng=rng.spawn(1)[0])
        reason = model.reason
        few = (part.clusters < FEWEST) | ((columns["n_multiply_rated"] < FEWEST_SHARED) & (chosen != "majority"))
        ends = np.where(is_person & ~few, np.stack([model.competence, model.low, model.high]), np.nan)
        no_variation = np.isnan(model.competence) & (chosen != "majority")
        reasons = np.where(
            few,
            FEW_SHARED,
            np.where(no_variation, ALIKE, np.where(part.clusters < FEWEST_UNITS, reason or FEW_ITEMS, reason)),
        )
        together = label_columns(part, model)
    columns |= dict(zip(("competence", "competence_low", "competence_high"), ends, strict=True))
    columns["reason"] = np.where(is_person, reasons, SLOT)
    tables = {
        "annotators": columns,
        "agreement": agreement_columns(part, times=times, confidence=confidence),
        "concentration": concentration_columns(part, slots=slots, confidence=confidence),
        "pairs": pair_columns(part, slots=slots, confidence=confidence),
        "labels": together,
    }
    untested = Counter(columns["untested_reason"].tolist())
    return _Part(part.aspect, tables, tests, _notes(part, chosen, why, reason, slots, untested))


def _claims(tests: list[Tests], alpha: float) -> list[tuple[dict[str, Floats], list[list[str]]]]:
    """Of every part: adjusted p-values, and flags; all tests of all people count."""
    sizes = [len(test.side) for test in tests]
    flat = np.concatenate([np.concatenate([test.side, test.little]) for test in tests])
    adjusted = iter(np.split(adjust(flat, correction="holm"), np.cumsum([2 * n for n in sizes])[:-1]))
    result = []
    for test, n in zip(tests, sizes, strict=True):
        side, little = np.split(next(adjusted), [n])
        flags = [
            [
                word
                for word, claimed in (
                    (FIRST if test.first[w] else SECOND, side[w] <= alpha),
                    (LITTLE, little[w] <= alpha),
                )
                if claimed
            ]
            for w in range(n)
        ]
        result.append(({"p_position": side, "p_careless": little}, flags))
    return result


def _notes(
    part: AnnotatorAnswers, method: str, why: str, reason: str, slots: int, untested: Counter[str]
) -> list[Note]:
    of, n = f"{label_of(part.aspect)}", len(part.raters)
    doubled = int(part.doubled.sum())
    return noted(
        ("method", bool(method), f"{part.what}{of} taken together by {method}: {why}"),
        ("numbers", part.continuous, f"{part.what}{of}: {reason}, so there are no labels and no competence"),
        (
            "few-people",
            n < FEW_PEOPLE and not slots,
            f"{part.what}{of} speak of these {n} people: intervals are over items, and other people may differ",
        ),
        (
            "few-doubled",
            doubled if doubled < FEW_DOUBLES else 0,
            f"{part.what}{of}: {doubled} tasks that several people answered, too few for agreement;"
            " ask some of them of a second person",
        ),
        (
            "none-doubled",
            doubled == 0,
            f"{part.what}{of}: nobody answered what another did; nothing is known of people",
        ),
        (
            "few-triples",
            untested[FEW_TASKS] if doubled else 0,
            f"{part.what}{of}: the agreement of {untested[FEW_TASKS]} annotators is not tested: {FEW_TASKS}."
            " With two answers to a task a careless annotator and a hard task look the same",
        ),
        (
            "no-agreement",
            untested[NO_AGREEMENT],
            f"{part.what}{of}: not enough agreement to tell whether {untested[NO_AGREEMENT]} annotators are careless:"
            f" {NO_AGREEMENT}",
        ),
        aspect=part.aspect,
    )
