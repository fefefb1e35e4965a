"""Comparison of answers with correct answers: exact match and F-score of words, as in SQuAD."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from custodes.scoring.metric import Metric, Place, Scorer, Traits
from custodes.scoring.preparing import compared, signed

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str, *, articles: bool) -> list[str]:
    """Return the words of an answer in lower case, without ASCII punctuation.

    English articles are removed as well, unless `articles` is true.

    >>> normalised("The U.S. of A", articles=False)
    ['us', 'of']
    """
    plain = text.lower().translate(PUNCTUATION)
    return (plain if articles else ARTICLES.sub(" ", plain)).split()


def exact_match(answer: Sequence[str], right: Sequence[str]) -> float:
    """Return 1 if the words are equal, otherwise 0."""
    return float(answer == right)


def token_f1(answer: Sequence[str], right: Sequence[str]) -> float:
    """Return the F-score of the words, counted with repetition.

    If at least one text has no words, the score is 1 if both texts have no words, otherwise 0.
    """
    if not answer or not right:
        return float(answer == right)
    common = sum((Counter(answer) & Counter(right)).values())
    return 2 * common / (len(answer) + len(right))


def _load(
    place: Place, *, name: str, compare: Callable[[Sequence[str], Sequence[str]], float], articles: bool
) -> Scorer:
    prepare = partial(normalised, articles=articles)
    return Scorer(
        signature=signed("custodes", name, {"articles": articles}),
        traits=TRAITS,
        score=lambda texts: compared(texts, texts.references, prepare=prepare, compare=compare),
    )


TRAITS = Traits(needs=("references",), rules=("best", "first", "mean"), low=0.0, high=1.0)

EXACT = Metric(
    name="exact",
    gives="Whether the answer equals a correct answer, ignoring case, punctuation and English articles.",
    source="Rajpurkar et al. 2016 (SQuAD)",
    load=partial(_load, name="exact", compare=exact_match),
    traits=TRAITS,
    parameters={"articles": False},
)

F1 = Metric(
    name="f1",
    gives="F-score of the words that the answer shares with a correct answer; texts are prepared as for `exact`.",
    source="Rajpurkar et al. 2016 (SQuAD)",
    load=partial(_load, name="f1", compare=token_f1),
    traits=TRAITS,
    parameters={"articles": False},
)
