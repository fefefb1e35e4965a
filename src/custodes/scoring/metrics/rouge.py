"""ROUGE by rouge-score-rs, with the same values as rouge-score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from custodes.arguments import check_one_of
from custodes.errors import OptionError, requires_extra
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Place, Scorer, Traits
from custodes.scoring.preparing import metric_signature

MEASURES = {"precision": 0, "recall": 1, "f": 2}
TOKENIZERS = ("ascii", "unicode", "characters")
PAIRS = 5_000
"""Number of pairs of texts per call. The number limits memory, because each pair gives a Python object."""

OTHER_SCRIPT = (
    "a text has no letter from a to z, and tokenize=ascii reads only these letters; use tokenize=unicode, which reads "
    "all scripts"
)


def _load(place: Place, *, kind: str, measure: str, stemmer: bool, tokenize: str) -> Scorer:
    check_one_of("measure", measure, MEASURES)
    check_one_of("tokenize", tokenize, TOKENIZERS)
    if stemmer and tokenize != "ascii":
        raise OptionError("stemmer=true: Porter's stemmer is for English and needs tokenize=ascii")
    with requires_extra("ROUGE needs rouge-score-rs", "score"):
        from rouge_score_rs import RougeScorer, tokenizers
    tokenizer_of_name = {
        "ascii": None,
        "unicode": tokenizers.UnicodeTokenizer(),
        "characters": tokenizers.CharacterTokenizer(),
    }
    rouge_scorer: Any = RougeScorer([kind], use_stemmer=stemmer, tokenizer=tokenizer_of_name[tokenize])  # type: ignore[no-untyped-call]

    def score_pairs(references: Sequence[str], outputs: Sequence[str]) -> list[float]:
        return [pair_scores[kind][MEASURES[measure]] for pair_scores in rouge_scorer.score_batch(references, outputs)]

    return Scorer(
        signature=metric_signature(
            "rouge-score-rs", kind, {"measure": measure, "stemmer": stemmer, "tokenize": tokenize}
        ),
        traits=TRAITS,
        score=lambda texts: _score(texts, score_pairs, ascii_only=tokenize == "ascii"),
    )


def _score(
    texts: MetricInputs, score_pairs: Callable[[Sequence[str], Sequence[str]], list[float]], *, ascii_only: bool
) -> MetricResult:
    has_unreadable_reference = [
        ascii_only and any(map(_has_no_ascii_letters, references)) for references in texts.references
    ]
    reason_of_output: dict[int, str] = {}
    output_reference_pairs: list[tuple[int, int]] = []
    for output_index, (output_text, item_index) in enumerate(zip(texts.outputs, texts.item.tolist(), strict=True)):
        if has_unreadable_reference[item_index] or (ascii_only and _has_no_ascii_letters(output_text)):
            reason_of_output[output_index] = OTHER_SCRIPT
        else:
            output_reference_pairs += [
                (output_index, reference_index) for reference_index in range(len(texts.references[item_index]))
            ]
    score_matrix = np.full((len(texts.outputs), max([1, *map(len, texts.references)])), np.nan)
    for start_index in range(0, len(output_reference_pairs), PAIRS):
        output_indices, reference_indices = zip(*output_reference_pairs[start_index : start_index + PAIRS], strict=True)
        score_matrix[output_indices, reference_indices] = score_pairs(
            [
                references[reference_index]
                for references, reference_index in zip(
                    (texts.references[item_index] for item_index in texts.item[list(output_indices)]),
                    reference_indices,
                    strict=True,
                )
            ],
            [texts.outputs[output_index] for output_index in output_indices],
        )
    return MetricResult(values=score_matrix, why=reason_of_output)


def _has_no_ascii_letters(text: str) -> bool:
    """Return whether a text has letters but no ASCII letter.

    The tokenizer of rouge-score does not recognise other letters, so that the text would be scored as empty.
    """
    if text.isascii():
        return False
    letters = [letter for letter in text if letter.isalpha()]
    return bool(letters) and not any(letter.isascii() for letter in letters)


TRAITS = Traits(needs=("references",), rules=("best", "first", "mean"), low=0.0, high=1.0)


def _metric(kind: str, gives: str) -> Metric:
    return Metric(
        name=kind,
        gives=gives,
        source="rouge-score-rs, equal to rouge-score; Lin 2004",
        load=partial(_load, kind=kind),
        traits=TRAITS,
        parameters={"measure": "f", "stemmer": False, "tokenize": "ascii"},
        extra="score",
    )


ROUGE = (
    *(
        _metric(f"rouge{n}", f"Overlap of {'words' if n == 1 else f'word {n}-grams'} with the reference.")
        for n in range(1, 10)
    ),
    _metric("rougeL", "Longest common subsequence of words in output and reference."),
    _metric("rougeLsum", "ROUGE-L per sentence (one line of the text is a sentence)."),
)
