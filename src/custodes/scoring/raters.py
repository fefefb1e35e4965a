"""Loading of metrics for scoring, check of the inputs that metrics need, and computations that raters share."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np

from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.scoring.computation import Computation, Corpus, Mode
from custodes.scoring.listing import load_metric, metrics_by_name
from custodes.scoring.metric import Place, Rule, Scorer, Traits
from custodes.scoring.spec import RaterSpec, parse

Missing = Literal["error", "drop"]


class Rater(NamedTuple):
    """A metric, its rule for references ('' if the metric uses no references), and the computation of its values."""

    spec: RaterSpec
    rule: Rule | str
    computation: Computation

    @property
    def traits(self) -> Traits:
        """Properties of the metric's scores."""
        return self.computation.scorer.traits


def load_raters(
    texts: Study, corpus: Corpus, metrics: Sequence[str], place: Place, missing: Missing, exit_stack: ExitStack
) -> list[Rater]:
    """Load every metric, check that the texts have its inputs, and plan the computations."""
    specs = parse(metrics, metrics_by_name())
    scorer_of_computation: dict[str, Scorer] = {}
    for spec in specs:
        if spec.computation not in scorer_of_computation:
            scorer = load_metric(spec.metric, place, dict(spec.parameters), f"metric {spec.name}")
            exit_stack.callback(scorer.close)
            scorer_of_computation[spec.computation] = scorer
    specs_and_rules = [(spec, _rule(spec, scorer_of_computation[spec.computation])) for spec in specs]
    if missing == "error":
        _check(texts, corpus, specs, scorer_of_computation)
    raters, computation_of_key = [], dict[tuple[str, Mode], Computation]()
    for spec, rule in specs_and_rules:
        scorer = scorer_of_computation[spec.computation]
        shared_rules = {
            other_rule for other_spec, other_rule in specs_and_rules if other_spec.computation == spec.computation
        }
        mode = _reference_mode(rule, shared_rules, scorer)
        computation = computation_of_key.setdefault(
            (spec.computation, mode),
            Computation(scorer=scorer, mode=mode, corpus=corpus, used=_usable_outputs(corpus, scorer)),
        )
        raters.append(Rater(spec, rule, computation))
    return raters


def _rule(spec: RaterSpec, scorer: Scorer) -> Rule | str:
    allowed_rules = scorer.traits.rules
    if spec.rule and spec.rule not in allowed_rules:
        raise OptionError(
            f"metric {spec.name}: unknown rule {spec.rule!r}; rules of this metric: "
            f"{join_labels(allowed_rules) or 'none, because it uses no references'}"
        )
    return spec.rule or next(iter(allowed_rules), "")


def _reference_mode(rule: Rule | str, shared_rules: set[Rule | str], scorer: Scorer) -> Mode:
    """Return which references the metric gets, such that all raters of the metric share its values if possible."""
    if shared_rules == {"first"} or (scorer.traits.systems and rule == "first"):
        return "first"
    if "all" not in scorer.traits.rules or rule == "all":
        return "all"
    return "first" if shared_rules <= {"first", "all"} else "alone"


def _usable_outputs(corpus: Corpus, scorer: Scorer) -> list[int]:
    """Return the positions of the outputs that have all inputs of a metric."""
    exclusion_masks = (scorer.traits.systems & ~corpus.complete, *map(corpus.lacks_input, scorer.traits.needs))
    return np.flatnonzero(~np.any(exclusion_masks, axis=0)[corpus.texts.item]).tolist()


def _check(texts: Study, corpus: Corpus, specs: Sequence[RaterSpec], scorer_of_computation: dict[str, Scorer]) -> None:
    """Raise `InputError` if texts lack an input of a metric, or if outputs are missing."""
    for spec in specs:
        for need in scorer_of_computation[spec.computation].traits.needs:
            if items_without_input := list(compress(corpus.items, corpus.lacks_input(need))):
                raise InputError(
                    f"{texts.name}: metric {spec.name} needs {need}, and {len(items_without_input)} of "
                    f"{len(corpus.items)} items have {'none' if need == 'references' else f'no {need}'} "
                    f"({join_labels(items_without_input, limit=3)}); "
                    "add these inputs, or skip these items with --missing drop (in Python missing='drop')"
                )
    absent_outputs = [
        f"{corpus.systems[system_index]} of {corpus.items[item_index]}" for item_index, system_index in corpus.absent
    ]
    if absent_outputs:
        raise InputError(
            f"{texts.name}: {len(absent_outputs)} of {len(corpus.items) * len(corpus.systems)} outputs are missing "
            f"({join_labels(absent_outputs, limit=3)}); add them, or score the remaining outputs with --missing drop "
            "(in Python missing='drop')"
        )
