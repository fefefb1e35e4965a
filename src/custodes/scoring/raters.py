"""Raters to be: metrics loaded, what they need checked, and the computations that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Literal, NamedTuple

import numpy as np

from custodes.cache import KeptScore
from custodes.data.study import Study
from custodes.errors import CustodesError, InputError, OptionError, listed
from custodes.scoring.corpus import Corpus
from custodes.scoring.hashing import Hashes
from custodes.scoring.job import Job, Mode
from custodes.scoring.metric import Need, Place, Rule, Scorer
from custodes.scoring.of_outputs import Scoring
from custodes.scoring.of_systems import SystemScoring
from custodes.scoring.plugins import known_metrics, loaded
from custodes.scoring.spec import Asked, parse

Missing = Literal["error", "drop"]
LACKS: dict[Need, str] = {
    "references": "no references",
    "source": "no source",
    "image": "no image",
    "context": "no context",
}
"""Why a metric cannot score the outputs of an item, by what it needs."""


class Rater(NamedTuple):
    """A rater to be, with its metric loaded, and the rule of references ('' where it uses none)."""

    asked: Asked
    scorer: Scorer
    rule: Rule | str
    job: Job
    used: Sequence[int]


def made_ready(
    texts: Study, corpus: Corpus, metrics: Sequence[str], place: Place, missing: Missing, opened: ExitStack
) -> list[Rater]:
    """Every metric loaded, its needs met, and the computations that they share."""
    asked = parse(metrics, known_metrics())
    scorers: dict[str, Scorer] = {}
    for own in asked:
        if own.computation not in scorers:
            scorer = loaded(own.metric, place, dict(own.parameters), f"metric {own.name}")
            opened.callback(scorer.close)
            scorers[own.computation] = scorer
    rules = [_rule(own, scorers[own.computation]) for own in asked]
    if missing == "error":
        _check(texts, corpus, asked, scorers)
    hashes, made, jobs = Hashes(corpus.texts), [], dict[tuple[str, Mode], tuple[Job, list[int]]]()
    for own, rule in zip(asked, rules, strict=True):
        scorer = scorers[own.computation]
        shared = {other for other, of in zip(rules, asked, strict=True) if of.computation == own.computation}
        mode = _mode(rule, shared, scorer)
        if (own.computation, mode) not in jobs:
            used = _used(corpus, scorer)
            kind = SystemScoring if scorer.traits.systems else Scoring
            jobs[own.computation, mode] = (
                kind(scorer=scorer, mode=mode, corpus=corpus, hashes=hashes, used=used),
                used,
            )
        made.append(Rater(own, scorer, rule, *jobs[own.computation, mode]))
    for job, _ in jobs.values():
        _ = job.keys  # an image that cannot be read stops here
    return made


def _rule(asked: Asked, scorer: Scorer) -> Rule | str:
    rules = scorer.traits.rules
    if not asked.rule:
        return rules[0] if rules else ""
    if asked.rule not in rules:
        takes = f"its rules are {listed(rules)}" if rules else "it uses no references"
        raise OptionError(f"metric {asked.name}: no rule {asked.rule!r}: {takes}")
    return asked.rule


def _mode(rule: Rule | str, shared: set[Rule | str], scorer: Scorer) -> Mode:
    """What the metric is shown of references; raters of one metric share what they can."""
    if shared == {"first"} or (scorer.traits.systems and rule == "first"):
        return "first"
    if "all" not in scorer.traits.rules or rule == "all":
        return "all"
    return "first" if shared <= {"first", "all"} else "alone"


def _used(corpus: Corpus, scorer: Scorer) -> list[int]:
    """Positions of the outputs that have what a metric needs."""
    usable = np.ones(len(corpus.items), dtype=np.bool_)
    for need in scorer.traits.needs:
        usable &= ~corpus.lacking(need)
    if scorer.traits.systems:
        usable &= corpus.complete
    return np.flatnonzero(usable[corpus.texts.item]).tolist()


def _check(texts: Study, corpus: Corpus, asked: Sequence[Asked], scorers: dict[str, Scorer]) -> None:
    """Raise `InputError` where texts lack what a metric needs."""
    for own in asked:
        for need in scorers[own.computation].traits.needs:
            without = np.flatnonzero(corpus.lacking(need))
            if len(without):
                raise InputError(
                    f"{texts.name}: metric {own.name} needs {LACKS[need].removeprefix('no ')}, and {len(without)} of"
                    f" {len(corpus.items)} items have {'none' if need == 'references' else 'no ' + need}"
                    f" ({listed([corpus.items[i] for i in without], limit=3)}); add them, or skip these items by"
                    " missing='drop' (--missing drop)"
                )
    if corpus.absent:
        few = listed([f"{corpus.systems[s]} of {corpus.items[i]}" for i, s in corpus.absent], limit=3)
        raise InputError(
            f"{texts.name}: {len(corpus.absent)} of {len(corpus.items) * len(corpus.systems)} outputs are not there"
            f" ({few}); add them, or score those that are there by"
            " missing='drop' (--missing drop)"
        )


def check_ready(raters: Sequence[Rater], found: Mapping[str, KeptScore]) -> None:
    """Let each metric see what it will be given, which it may refuse before anything is scored; `found`: what is kept
    already."""
    for rater in {id(own.job): own for own in raters}.values():
        if missing := rater.job.missing(found):
            try:
                rater.scorer.ready(rater.job.given(missing))
            except CustodesError as problem:
                raise type(problem)(f"metric {rater.asked.name}: {problem}") from None
