"""The texts of a study as arrays, and the computation that raters share.

A computation provides the inputs and the cache key of each value, and the scores by each rule for references.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, compress, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl

from custodes.cache import KeptScore
from custodes.control_characters import escape_controls
from custodes.data.outputs import missing_texts_error
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.errors import InputError, reject, short_repr
from custodes.plugins import describe_error
from custodes.scoring.metric import MetricInputs, MetricResult, Need, Place, Rule, Scorer
from custodes.stats.arrays import Bools, Floats

Mode = Literal["all", "first", "alone"]
"""Which references a metric gets: all references, the first reference, or each reference alone."""

FORMAT = b"custodes 1\n"
"""Version of the cache keys. The version is increased if the inputs that a key contains are changed."""

ADDRESSES = ("http://", "https://", "data:")
"""Prefixes of image addresses; an address can be given in place of an image file."""

CALL = 8
"""Number of batches in one call of a metric.

Scores are stored after each call, so an interrupted run loses at most the batches of one call.
"""

SHORTEST = 1e-9
"""Minimum CPU seconds of a call, for the case that the clock does not advance during the call."""

NO_NUMBER = "the metric returned no number"

FEW = 5
"""Minimum number of outputs for the note on a system whose outputs are all references. With fewer outputs, this can
happen by chance."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """All texts, with the labels of items and systems in file order."""

    texts: MetricInputs
    items: tuple[str, ...]
    systems: tuple[str, ...]

    @classmethod
    def from_study(cls, study: Study) -> Corpus:
        """Return the texts of a study. Raises `InputError` if there are no texts."""
        if study.outputs is None or study.outputs.texts.is_empty():
            raise missing_texts_error(study)
        output_rows = study.outputs.texts
        items, systems = (
            tuple(output_rows[column_name].unique(maintain_order=True)) for column_name in ("item", "system")
        )
        item_rows = pl.DataFrame({"item": items}).join(study.outputs.sources, "item", "left", maintain_order="left")
        item_input_rows = item_rows.select("references", "images", sources="source", contexts="context").with_columns(
            pl.col(pl.String).fill_null(""),
            pl.col(pl.List(pl.String)).fill_null(pl.lit([], dtype=pl.List(pl.String))).list.drop_nulls(),
        )
        return cls(
            texts=MetricInputs(
                outputs=output_rows["text"].to_list(),
                item=label_codes(output_rows["item"], items),
                system=label_codes(output_rows["system"], systems),
                **item_input_rows.to_dict(as_series=False),
            ),
            items=items,
            systems=systems,
        )

    def lacks_input(self, need: Need) -> Bools:
        """Return whether each item (items,) lacks this input."""
        return np.array([not item_input for item_input in self.texts.of_need(need)], dtype=np.bool_)

    @cached_property
    def output_digests(self) -> list[bytes]:
        """SHA-256 digest of each output."""
        return [hashlib.sha256(text.encode()).digest() for text in self.texts.outputs]

    @cached_property
    def _image_digest(self) -> Callable[[str], str]:
        return cache(_image_digest)  # each image is read only once

    def item_digest(self, item: int, references: Sequence[str], needs: Sequence[Need]) -> bytes:
        """Return the digest of `references` and of the other inputs of an item that are listed in `needs`."""
        return hashlib.sha256(
            msgspec.json.encode(
                (
                    list(references),
                    self.texts.sources[item] if "source" in needs else "",
                    self.texts.contexts[item] if "context" in needs else "",
                    list(map(self._image_digest, self.texts.images[item])) if "image" in needs else [],
                )
            )
        ).digest()

    @cached_property
    def absent(self) -> list[tuple[int, int]]:
        """Item and system of each missing output."""
        is_absent_output = np.ones((len(self.items), len(self.systems)), dtype=np.bool_)
        is_absent_output[self.texts.item, self.texts.system] = False
        return [(int(item_index), int(system_index)) for item_index, system_index in np.argwhere(is_absent_output)]

    @cached_property
    def reference_systems(self) -> list[str]:
        """Systems whose outputs are all references of their items, for example human references as a system.

        Systems with fewer than `FEW` outputs are not included.
        """
        is_reference_output = [
            output_text in self.texts.references[item_index]
            for output_text, item_index in zip(self.texts.outputs, self.texts.item.tolist(), strict=True)
        ]
        n_outputs, n_reference_outputs = (
            np.bincount(self.texts.system, output_weights, len(self.systems))
            for output_weights in (None, is_reference_output)
        )
        return list(compress(self.systems, (n_outputs == n_reference_outputs) & (n_outputs >= FEW)))

    @cached_property
    def complete(self) -> Bools:
        """Whether each item (items,) has an output of every system."""
        return ~np.isin(np.arange(len(self.items)), [item_index for item_index, _ in self.absent])


class ShownItem(NamedTuple):
    """An item with the references for a metric, and a digest of all inputs of the item."""

    number: int
    references: Sequence[str]
    digest: bytes


class RuleScores(NamedTuple):
    """Scores of outputs (or systems) by a reference rule.

    Missing scores are NaN, and `why` has their reasons ('' for a score). `seconds` are CPU seconds, and `truncated` is
    true if a text was truncated.
    """

    scores: Floats
    why: list[str]
    seconds: Floats
    truncated: list[bool]


def _image_digest(path: str) -> str:
    try:
        return hashlib.sha256(path.encode() if path.startswith(ADDRESSES) else Path(path).read_bytes()).hexdigest()
    except (OSError, ValueError) as problem:
        reason_text = getattr(problem, "strerror", None) or "a file cannot have this name"
        raise InputError(f"image {short_repr(path)}: {reason_text}; give the path of a file, or an address") from None


@dataclass(frozen=True, kw_only=True, eq=False)
class Computation:
    """Values of one metric for outputs, or for systems over all their outputs.

    `used`: positions of the scored outputs.
    """

    scorer: Scorer
    mode: Mode
    corpus: Corpus
    used: Sequence[int]

    @cached_property
    def units(self) -> list[list[tuple[int, ShownItem]]]:
        """The units to score, each with pairs of an output and its item.

        A unit has one pair, for one output and one set of references. If the metric scores systems, a unit has the
        pairs of all outputs of a system, in an order that the texts determine.
        """
        item_of_output, system_of_output = self.corpus.texts.item.tolist(), self.corpus.texts.system.tolist()
        shown_items_of_item = {
            item_index: self._shown_items(item_index)
            for item_index in dict.fromkeys(item_of_output[output_index] for output_index in self.used)
        }
        output_item_pairs = [
            (output_index, shown_item)
            for output_index in self.used
            for shown_item in shown_items_of_item[item_of_output[output_index]]
        ]
        if not self.scorer.traits.systems:
            return [[pair] for pair in output_item_pairs]
        pairs_of_system: list[list[tuple[int, ShownItem]]] = [[] for _ in self.corpus.systems]
        for pair in sorted(output_item_pairs, key=lambda pair: (pair[1].digest, self.corpus.output_digests[pair[0]])):
            pairs_of_system[system_of_output[pair[0]]].append(pair)
        return pairs_of_system

    def _shown_items(self, item_index: int) -> list[ShownItem]:
        needs = self.scorer.traits.needs
        references = self.corpus.texts.references[item_index] if "references" in needs else []
        reference_lists_of_mode: dict[Mode, list[Sequence[str]]] = {
            "all": [references],
            "first": [references[:1]],
            "alone": [[reference] for reference in references],
        }
        return [
            ShownItem(item_index, shown_references, self.corpus.item_digest(item_index, shown_references, needs))
            for shown_references in reference_lists_of_mode[self.mode]
        ]

    @cached_property
    def keys(self) -> list[str]:
        """Cache key of each unit: a hash of all inputs that can change the unit's values, and of no other inputs."""
        traits = self.scorer.traits
        digests_by_unit = [
            [shown_item.digest + self.corpus.output_digests[output_index] for output_index, shown_item in unit]
            for unit in self.units
        ]
        sorted_digests = sorted(chain(*digests_by_unit)) if traits.whole else []
        key_prefix = hashlib.sha256(b"".join([FORMAT, self.scorer.signature.encode(), b"\n", *sorted_digests])).digest()
        key_prefix += b"system" if traits.systems else b""
        return [hashlib.sha256(key_prefix + b"".join(unit_digests)).hexdigest() for unit_digests in digests_by_unit]

    def missing_units(self, kept_score_of_key: Mapping[str, KeptScore]) -> list[int]:
        """Return the positions of units without a stored value, one unit for each key.

        The texts determine the order; units of an item are adjacent.
        """
        unit_index_of_key = {key: unit_index for unit_index, key in reversed([*enumerate(self.keys)])}
        return sorted(
            (unit_index for key, unit_index in unit_index_of_key.items() if key not in kept_score_of_key),
            key=self._sort_key,
        )

    def _sort_key(self, unit_index: int) -> tuple[bytes, str]:
        return self.units[unit_index][0][1].digest, self.keys[unit_index]

    def calls(self, missing_unit_indices: Sequence[int], place: Place) -> list[list[int]]:
        """Return the units without a value, grouped into calls of the metric. If a value depends on all texts, a single
        call contains all units, also those with stored values.
        """
        if self.scorer.traits.whole:
            return [sorted(range(len(self.units)), key=self._sort_key)] if missing_unit_indices else []
        n_units_per_call = 1 if self.scorer.traits.systems else CALL * place.batch
        return [
            list(missing_unit_indices[start_index : start_index + n_units_per_call])
            for start_index in range(0, len(missing_unit_indices), n_units_per_call)
        ]

    def texts(self, unit_indices: Sequence[int]) -> MetricInputs:
        """Return the inputs of the metric in a call. Only the fields that the metric needs are filled."""
        metric_inputs, traits = self.corpus.texts, self.scorer.traits
        output_indices, shown_items = zip(
            *(pair for unit_index in unit_indices for pair in self.units[unit_index]), strict=True
        )
        # For metrics of all texts or of systems, two items with equal inputs count as two.
        keeps_equal_items_apart = traits.whole or traits.systems
        item_keys = [
            (shown_item.digest, shown_item.number if keeps_equal_items_apart else 0) for shown_item in shown_items
        ]
        shown_item_of_key = dict(zip(item_keys, shown_items, strict=True))
        position_of_item_key = {item_key: position for position, item_key in enumerate(shown_item_of_key)}

        def inputs_of_items(need: Need, placeholder: Any) -> list[Any]:
            need_inputs = metric_inputs.of_need(need)
            return [
                need_inputs[shown_item.number] if need in traits.needs else placeholder
                for shown_item in shown_item_of_key.values()
            ]

        return MetricInputs(
            outputs=[metric_inputs.outputs[output_index] for output_index in output_indices],
            item=np.array([position_of_item_key[item_key] for item_key in item_keys], dtype=np.int64),
            system=metric_inputs.system[list(output_indices)] if traits.whole else np.zeros(len(item_keys), np.int64),
            sources=inputs_of_items("source", ""),
            references=[list(shown_item.references) for shown_item in shown_item_of_key.values()],
            images=inputs_of_items("image", []),
            contexts=inputs_of_items("context", ""),
        )

    def run(self, unit_indices: Sequence[int]) -> list[KeptScore]:
        """Call the metric and return the values to be stored.

        Raises InputError if the metric fails or returns invalid values.
        """
        metric_result, cpu_seconds = time_metric(self.scorer.score, self.texts(unit_indices))
        rules, scores_systems = self.scorer.traits.rules, self.scorer.traits.systems
        call_units = [self.units[unit_index] for unit_index in unit_indices]
        has_value_per_reference = bool(rules) and "all" not in rules and not scores_systems
        n_values_of_unit = [len(unit[0][1].references) if has_value_per_reference else 1 for unit in call_units]
        scores_of_unit = (
            _system_values(metric_result) if scores_systems else _output_values(metric_result, n_values_of_unit)
        )
        if np.isinf(scores_of_unit).any():
            raise InputError("the metric returned an infinite score; a score must be finite, or NaN with a reason")
        is_truncated = [False] * len(call_units) if metric_result.truncated is None else metric_result.truncated
        kept_scores = []
        for unit_position, (unit_index, n_values) in enumerate(zip(unit_indices, n_values_of_unit, strict=True)):
            missing_reason = "" if scores_systems else metric_result.why.get(unit_position, "")
            unit_scores = (
                np.array([np.nan]) if missing_reason else scores_of_unit[unit_position, :n_values] + 0.0
            )  # -0 becomes 0
            kept_scores.append(
                KeptScore(
                    self.keys[unit_index],
                    self.scorer.signature,
                    unit_scores.astype("<f8").tobytes(),
                    bool(np.any(is_truncated if scores_systems else is_truncated[unit_position])),
                    escape_controls(missing_reason),
                    cpu_seconds / sum(map(len, call_units)),
                )
            )
        return kept_scores

    def column(self, kept_score_of_key: Mapping[str, KeptScore], rule: Rule | str) -> RuleScores:
        """Return the score of each used output (or system) by a reference rule.

        If one of the values of an output is NaN, the rules `best` and `mean` give no score. The CPU seconds of the
        score are those of the first value with the rule `first`, and those of all values with any other rule.

        """
        kept_scores_of_output = [
            [kept_score_of_key[key] for key, _ in keys_and_units]
            for _, keys_and_units in groupby(zip(self.keys, self.units, strict=True), key=lambda pair: pair[1][0][0])
        ]
        is_truncated = [
            any(kept_score.truncated for kept_score in kept_scores) for kept_scores in kept_scores_of_output
        ]
        values_of_output = [
            np.frombuffer(b"".join(kept_score.values for kept_score in kept_scores), dtype="<f8")
            for kept_scores in kept_scores_of_output
        ]
        if rule == "first":
            kept_scores_of_output = [
                [kept_scores[0]._replace(seconds=kept_scores[0].seconds / (len(kept_scores[0].values) // 8))]
                for kept_scores in kept_scores_of_output
            ]
        function_of_rule: dict[str, Callable[[Floats], Any]] = {
            "first": itemgetter(0),
            "best": np.max if self.scorer.traits.higher_is_better else np.min,
        }
        output_scores = np.array(list(map(function_of_rule.get(rule, np.mean), values_of_output)), dtype=np.float64)
        reason_of_output = [
            next((kept_score.why for kept_score in kept_scores if kept_score.why), NO_NUMBER if np.isnan(score) else "")
            for kept_scores, score in zip(kept_scores_of_output, output_scores.tolist(), strict=True)
        ]
        return RuleScores(
            np.where(np.array(reason_of_output) != "", np.nan, output_scores),
            reason_of_output,
            np.array([sum(kept_score.seconds for kept_score in kept_scores) for kept_scores in kept_scores_of_output]),
            is_truncated,
        )


def time_metric(score: Callable[[MetricInputs], MetricResult], texts: MetricInputs) -> tuple[MetricResult, float]:
    """Return the result of a metric and its CPU seconds in this process and other processes.

    Raises InputError if the metric fails.
    """
    start_cpu_seconds = time.process_time()
    try:
        metric_result: Any = score(texts)
        if not isinstance(metric_result, MetricResult):
            raise TypeError(f"the metric returned {type(metric_result).__name__}, expected MetricResult")
    except Exception as error:  # one failing metric must not stop the remaining metrics
        raise InputError(describe_error(error)) from error
    return metric_result, max(SHORTEST, time.process_time() - start_cpu_seconds + metric_result.seconds)


def _system_values(metric_result: MetricResult) -> Floats:
    """Return the value (1, 1) of one system."""
    system_scores = np.array([] if metric_result.systems is None else metric_result.systems, dtype=np.float64)
    if system_scores.shape != (1,):
        raise InputError(f"the metric returned scores of shape {system_scores.shape} for systems, expected shape (1,)")
    return system_scores[:, None]


def _output_values(metric_result: MetricResult, n_values_of_unit: Sequence[int]) -> Floats:
    """Return the values (outputs, references) after checking their shape.

    The shape must agree with the number of outputs, and with the number of references of each output
    (`n_values_of_unit`).
    """
    output_scores = np.asarray(metric_result.values, dtype=np.float64)
    is_truncated = range(len(n_values_of_unit)) if metric_result.truncated is None else metric_result.truncated
    reject(
        (
            output_scores.ndim != 2
            or len(output_scores) != len(n_values_of_unit)
            or output_scores.shape[1] < max(n_values_of_unit),
            f"the metric returned values of shape {output_scores.shape}, expected ({len(n_values_of_unit)}, "
            f"{max(n_values_of_unit)})",
        ),
        (
            len(is_truncated) != len(n_values_of_unit),
            f"the metric reports truncation of {len(is_truncated)} texts, expected {len(n_values_of_unit)}",
        ),
        (
            any(not 0 <= output_index < len(n_values_of_unit) for output_index in metric_result.why),
            "the metric gives a reason for an output that was not requested",
        ),
        error=InputError,
    )
    return output_scores
