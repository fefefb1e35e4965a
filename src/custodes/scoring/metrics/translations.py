"""Metrics of sacrebleu, for outputs and for systems over all their outputs: BLEU, chrF, chrF++ and TER."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from custodes.arguments import check_at_least, check_one_of
from custodes.errors import InputError, requires_extra
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Place, Scorer, Traits
from custodes.scoring.preparing import by_item, by_system, metric_signature

Streams = tuple[tuple[str | None, ...], ...]
"""References by position: the first reference of each output, the second reference of each output, and so on. None
stands for a reference that an output does not have."""


def bleu(
    *, tokenize: str, smooth: str, lowercase: bool, order: int, systems: bool, references: Streams | None = None
) -> Any:
    """Return BLEU of sacrebleu. Raises InputError if the tokenizer cannot be loaded."""
    sacrebleu = sacrebleu_metrics()
    check_one_of("tokenize", tokenize, tuple(sacrebleu.BLEU.TOKENIZERS))
    check_one_of("smooth", smooth, tuple(sacrebleu.BLEU.SMOOTH_DEFAULTS))
    check_at_least("order", order, 1)
    try:
        return sacrebleu.BLEU(
            tokenize=tokenize,
            smooth_method=smooth,
            lowercase=lowercase,
            max_ngram_order=order,
            # A sentence of fewer than four words has no 4-grams and would score 0, so only the orders that exist in
            # the sentence are used.
            effective_order=not systems,
            force=True,  # no warning about lines that end in a tokenized period
            references=references,
        )
    except (Exception, SystemExit) as error:  # loading a tokenizer can raise anything
        problem_text = " ".join(str(error).split())
        raise InputError(
            f"tokenize={tokenize} cannot be loaded ({problem_text}); tokenize=13a needs no download"
        ) from None


def chrf(
    *,
    char_order: int,
    word_order: int,
    beta: int,
    lowercase: bool,
    whitespace: bool,
    systems: bool,
    references: Streams | None = None,
) -> Any:
    """Return chrF of sacrebleu, or chrF++ if `word_order` is 2."""
    return sacrebleu_metrics().CHRF(
        char_order=check_at_least("char_order", char_order, 1),
        word_order=check_at_least("word_order", word_order, 0),
        beta=check_at_least("beta", beta, 1),
        lowercase=lowercase,
        whitespace=whitespace,
        references=references,
    )


def ter(*, systems: bool, references: Streams | None = None, **options: bool) -> Any:
    """Return TER of sacrebleu."""
    return sacrebleu_metrics().TER(**options, references=references)


def sacrebleu_metrics() -> Any:
    """Return the module of sacrebleu that has the metrics; it is loaded on first use."""
    with requires_extra("BLEU, chrF and TER need sacrebleu", "score"):
        from sacrebleu import metrics
    return metrics


def _load(
    place: Place,
    *,
    metric_name: str,
    make_sacrebleu_metric: Callable[..., Any],
    traits: Traits,
    **parameters: Any,
) -> Scorer:
    make_metric = partial(make_sacrebleu_metric, **parameters, systems=traits.systems)
    trial_metric = make_metric()  # raises for an option that sacrebleu refuses
    if "tokenize" in parameters:  # the tokenizer's signature has the version of its dictionary
        parameters["tokenize"] = trial_metric.tokenizer_signature
    # Systems usually have the same items; the n-grams of the references are then counted only once.
    make_cached_metric = lru_cache(maxsize=1)(lambda streams: make_metric(references=streams))
    return Scorer(
        signature=metric_signature("sacrebleu", metric_name.replace("++", ""), parameters),
        traits=traits,
        score=partial(_score_systems, make_metric=make_cached_metric)
        if traits.systems
        else partial(_score_outputs, make_metric=make_metric, is_per_reference="all" not in traits.rules),
        close=make_cached_metric.cache_clear,
    )


def _score_outputs(texts: MetricInputs, make_metric: Callable[..., Any], is_per_reference: bool) -> MetricResult:
    """Return the scores of outputs by all references together, or by each reference if `is_per_reference`.

    The references of an item are counted only once.
    """
    score_matrix = np.full((len(texts.outputs), max(map(len, texts.references)) if is_per_reference else 1), np.nan)
    for item_index, output_indices in by_item(texts):
        references = texts.references[item_index]
        for column_index, reference_group in enumerate(
            [[reference] for reference in references] if is_per_reference else [references]
        ):
            sacrebleu_metric = make_metric(references=tuple((reference,) for reference in reference_group))
            score_matrix[output_indices, column_index] = [
                sacrebleu_metric.corpus_score([texts.outputs[output_index]], None).score
                for output_index in output_indices.tolist()
            ]
    return MetricResult(values=score_matrix)


def _score_systems(texts: MetricInputs, make_metric: Callable[[Streams], Any]) -> MetricResult:
    """Return the scores of systems over all their outputs."""

    def score(output_indices: Sequence[int]) -> float:
        references_of_output = [texts.references[item_index] for item_index in texts.item[output_indices].tolist()]
        return float(
            make_metric(tuple(zip_longest(*references_of_output)))
            .corpus_score([texts.outputs[output_index] for output_index in output_indices], None)
            .score
        )

    return by_system(texts, score)


POOLED = Traits(needs=("references",), rules=("all", "best", "first", "mean"), low=0.0, high=100.0)
SINGLE = replace(POOLED, rules=("best", "first", "mean"))
COUNTS = "over all outputs of a system: counts are summed before division."
CHRF = {"char_order": 6, "word_order": 0, "beta": 2, "lowercase": False, "whitespace": False}


def _metrics(
    name: str,
    *,
    output_description: str,
    system_description: str,
    source: str,
    make_sacrebleu_metric: Callable[..., Any],
    parameters: Any,
    traits: Traits,
) -> tuple[Metric, ...]:
    """Return the metric of outputs and the metric of systems.

    `make_sacrebleu_metric` creates the metric with checked options; it can also get `references`, which are then
    counted only once. The two descriptions are for the score of an output and for the score of a system.
    """
    return tuple(
        Metric(
            name=metric_name,
            gives=metric_description,
            source=source,
            load=partial(
                _load, metric_name=metric_name, make_sacrebleu_metric=make_sacrebleu_metric, traits=metric_traits
            ),
            traits=metric_traits,
            parameters=parameters,
            extra="score",
        )
        for metric_name, metric_description, metric_traits in (
            (name, output_description, traits),
            (f"corpus-{name}", system_description, replace(traits, rules=("all", "first"), systems=True)),
        )
    )


OUTPUT_AND_SYSTEM_METRICS = (
    _metrics(
        "bleu",
        output_description="Geometric mean of the precisions of the output's word n-grams (1 to 4), times a brevity "
        "penalty.",
        system_description=f"BLEU {COUNTS}",
        source="sacrebleu; Papineni et al. 2002, Post 2018",
        make_sacrebleu_metric=bleu,
        parameters={"tokenize": "13a", "smooth": "exp", "lowercase": False, "order": 4},
        traits=POOLED,
    ),
    _metrics(
        "chrf",
        output_description="F-score of character n-grams (1 to 6), in which recall has twice the weight of precision.",
        system_description=f"chrF {COUNTS}",
        source="sacrebleu; Popović 2015",
        make_sacrebleu_metric=chrf,
        parameters=CHRF,
        traits=SINGLE,
    ),
    _metrics(
        "chrf++",
        output_description="chrF with word n-grams (1 and 2) in addition to character n-grams (1 to 6).",
        system_description=f"chrF++ {COUNTS}",
        source="sacrebleu; Popović 2017",
        make_sacrebleu_metric=chrf,
        parameters={**CHRF, "word_order": 2},
        traits=SINGLE,
    ),
    _metrics(
        "ter",
        output_description="Number of word and block edits per word of the reference; meant for sentences, and slow "
        "for longer texts.",
        system_description="TER over all outputs of a system: edits are summed before division.",
        source="sacrebleu; Snover et al. 2006",
        make_sacrebleu_metric=ter,
        parameters={
            "normalized": False,
            "no_punct": False,
            "asian_support": False,
            "case_sensitive": False,
        },
        traits=replace(POOLED, higher_is_better=False, high=None),
    ),
)

SACREBLEU = tuple(chain(*zip(*OUTPUT_AND_SYSTEM_METRICS, strict=True)))
