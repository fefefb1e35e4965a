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
from custodes.evaluate.annotators.reliability import FEW_DOUBLES, agreement_columns, pair_columns, people_columns
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

WHAT = label("what", "`verdicts` on comparisons, or `ratings` of outputs")
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
        "One row per person (or slot) and kind of answer.",
        WHAT,
        label("rater", "who answered"),
        flag("person", "whether this is one person, not a slot that several may have filled", essential=False),
        count("answers", "tasks answered: comparisons, or outputs"),
        share("share", "of all answers", "Share of all"),
        count("doubled", "of these: tasks that others answered, too"),
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
        share("first", "of these, for what was shown first", "First shown"),
        share("ties", "of all verdicts", "Ties"),
        score("seconds", "median that a verdict took, where the file says it", "Seconds"),
        p_value("side_p", "of choosing without looking at the side, all tests of the study (Holm)", essential=False),
        p_value(
            "little_p",
            "of agreeing with the others at least half as much as these agree with one another on the same tasks;"
            " null where `untested` says why; all tests of the study (Holm)",
            essential=False,
        ),
        p_value(
            "chance_p",
            "of agreeing with the others no more than random answers would, one-sided, not adjusted",
            essential=False,
        ),
        label("untested", "why agreement with the others is not tested", essential=False),
        labels("flags", f"what is claimed at `alpha`: `{FIRST}`, `{SECOND}`, `{LITTLE}`", "Flags"),
        label("reason", "why nothing, or no competence, is said", essential=False),
        rows=lambda made: _shown(made.annotators),
    )
    agreement: pl.DataFrame = table(
        "One row per kind of answer: how much less people disagree than by chance.",
        WHAT,
        count("people", "who answered"),
        count("tasks", "answered: comparisons, or outputs"),
        count("doubled", "of these: by several people", "By several"),
        count("answers", "to these", essential=False),
        score("alpha_nominal", "Krippendorff's alpha: answers are alike or not", "Alpha", interval=True, best="high"),
        score("alpha_ordinal", "of answers in order: a near miss counts less", "Alpha, ordinal", interval=True),
        score("alpha_interval", "of answers as numbers, by squared differences", "Alpha, interval", interval=True),
        label("reason", f"`too few` with fewer than {FEW_DOUBLES} tasks that several answered", essential=False),
    )
    people: pl.DataFrame = table(
        "One row per kind of answer: of how many people it speaks.",
        WHAT,
        count("people", "who answered"),
        count("answers", "in all"),
        share("largest", "share of the one who answered most", "Largest share"),
        share("gini", "0: all answered as much, near 1: one did nearly all", "Gini"),
        score("effective", "how many people with like shares they amount to", "Effective people"),
        score(
            "icc",
            "taste: how alike a person's answers to different items of a pair (a system) are, beyond those of two"
            " people; interval over people",
            "ICC of taste",
            interval=True,
        ),
        score("alike", "answers to a pair (a system) by the same person, as an answer has it", essential=False),
        score(
            "design_effect",
            "1 + (alike - 1) icc: by how much the variance of a share of a pair (a mean of a system) is larger than if"
            " every answer were another person's",
            "Design effect",
        ),
    )
    pairs: pl.DataFrame = table(
        "One row per pair of systems that people compared: its margin with people as the sample.",
        label("system_a", "of a comparison"),
        label("system_b", "of a comparison"),
        count("answers", "of all people", "Answers"),
        count("people", "who answered"),
        score("effective", "how many people with like shares they amount to", "Effective people"),
        difference(
            "margin",
            "share of answers for system_a minus share for system_b; interval over people, on these items, of a sample"
            " that no look ended",
            "Margin",
            interval=True,
        ),
        label("reason", "why there is no interval", essential=False),
        essential=False,
    )
    labels: pl.DataFrame = table(
        "One row per task: what people say together.",
        WHAT,
        label("item", "of the task"),
        label("system_a", "of a comparison"),
        label("system_b", "of a comparison"),
        label("system", "of an output"),
        label("label", "`win`, `tie` or `loss` of system_a, votes even: `tie`; or a score, votes even: null"),
        probability("chance", "of this label by the method; by `majority`, its share of the votes"),
        probability("p_a", "chance that system_a is better"),
        probability("p_tie", "of a tie"),
        probability("p_b", "that system_b is better"),
        score("expected", "mean label: from -1 to 1, or a score"),
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
    >>> made.agreement.row(0, named=True)["people"]
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
    most = pl.col("answers").rank("ordinal", descending=True).over("aspect", "what") <= MOST_SHOWN
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
        few = (part.clusters < FEWEST) | ((columns["doubled"] < FEWEST_SHARED) & (chosen != "majority"))
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
        "people": people_columns(part, slots=slots, confidence=confidence),
        "pairs": pair_columns(part, slots=slots, confidence=confidence),
        "labels": together,
    }
    untested = Counter(columns["untested"].tolist())
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
        result.append(({"side_p": side, "little_p": little}, flags))
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
