"""The texts of a study as arrays, and the computation that raters share.

A computation provides the inputs and the cache key of each value, and the scores by each rule for references.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl

from custodes.cache import Cache, KeptScore
from custodes.control_characters import escape_controls
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.errors import InputError, reject, short_repr
from custodes.plugins import describe_error
from custodes.scoring.metric import MetricInputs, MetricResult, Need, Place, Rule, Scorer
from custodes.stats.arrays import Bools, Floats

Mode = Literal["all", "first", "alone"]
"""Which references a metric gets: all references, the first reference, or each reference alone."""

FORMAT = b"custodes 1\n"
"""Version of the cache keys; it is increased if a key contains other inputs than before."""

ADDRESSES = ("http://", "https://", "data:")
"""Prefixes of image addresses; an address can be given in place of an image file."""

CALL = 8
"""Number of batches in one call of a metric.

Scores are stored after each call, so an interrupted run loses at most the batches of one call.
"""

SHORTEST = 1e-9
"""Minimum CPU seconds of a call; it is needed if the clock does not advance during a call."""

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
            raise InputError(
                f"{study.name}: there are no texts to score; give texts with the columns item and outputs (an object "
                f"{{system: text}}), and also source or references if a metric needs them"
            )
        output_rows = study.outputs.texts
        item_names, system_names = (tuple(output_rows[name].unique(maintain_order=True)) for name in ("item", "system"))
        item_rows = pl.DataFrame({"item": item_names}).join(
            study.outputs.sources, "item", "left", maintain_order="left"
        )
        item_columns = item_rows.select(
            pl.col("source", "context").fill_null(""),
            pl.col("references", "images").fill_null(pl.lit([], dtype=pl.List(pl.String))).list.drop_nulls(),
        ).to_dict(as_series=False)
        return cls(
            texts=MetricInputs(
                outputs=output_rows["text"].to_list(),
                item=label_codes(output_rows["item"], item_names),
                system=label_codes(output_rows["system"], system_names),
                sources=item_columns["source"],
                references=item_columns["references"],
                images=item_columns["images"],
                contexts=item_columns["context"],
            ),
            items=item_names,
            systems=system_names,
        )

    def lacks_input(self, need: Need) -> Bools:
        """Return whether each item (items,) lacks this input."""
        inputs_of_need: dict[Need, Sequence[Sequence[str]]] = {
            "source": self.texts.sources,
            "references": self.texts.references,
            "image": self.texts.images,
            "context": self.texts.contexts,
        }
        return np.array([not item_inputs for item_inputs in inputs_of_need[need]], dtype=np.bool_)

    @cached_property
    def output_digests(self) -> list[bytes]:
        """SHA-256 digest of each output."""
        return [hashlib.sha256(text.encode()).digest() for text in self.texts.outputs]

    @cached_property
    def _image_digest(self) -> Callable[[str], bytes]:
        return cache(_image_digest)  # each image is read only once

    def item_digest(self, item: int, references: Sequence[str], needs: Sequence[Need]) -> bytes:
        """Return the digest of those inputs of an item that a metric with these needs uses."""
        texts = self.texts
        inputs_in_use = (
            list(references) if "references" in needs else [],
            texts.sources[item] if "source" in needs else "",
            texts.contexts[item] if "context" in needs else "",
            [self._image_digest(path).hex() for path in texts.images[item]] if "image" in needs else [],
        )
        return hashlib.sha256(msgspec.json.encode(inputs_in_use)).digest()

    @cached_property
    def absent(self) -> list[tuple[int, int]]:
        """Item and system of each missing output."""
        has_output = np.zeros((len(self.items), len(self.systems)), dtype=np.bool_)
        has_output[self.texts.item, self.texts.system] = True
        return [(int(item), int(system)) for item, system in np.argwhere(~has_output)]

    @cached_property
    def reference_systems(self) -> list[str]:
        """Systems whose outputs are all references of their items, for example human references as a system.

        Systems with fewer than `FEW` outputs are not included.
        """
        texts, has_text_outside_references = self.texts, np.zeros(len(self.systems), dtype=np.bool_)
        for output_text, item, system in zip(texts.outputs, texts.item.tolist(), texts.system.tolist(), strict=True):
            has_text_outside_references[system] |= output_text not in texts.references[item]
        is_large = np.bincount(texts.system, minlength=len(self.systems)) >= FEW
        return [self.systems[system] for system in np.flatnonzero(~has_text_outside_references & is_large)]

    @cached_property
    def complete(self) -> Bools:
        """Whether each item (items,) has an output of every system."""
        is_complete_item = np.ones(len(self.items), dtype=np.bool_)
        is_complete_item[[item for item, _ in self.absent]] = False
        return is_complete_item


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


def _image_digest(path: str) -> bytes:
    try:
        return hashlib.sha256(path.encode() if path.startswith(ADDRESSES) else Path(path).read_bytes()).digest()
    except (OSError, ValueError) as problem:
        reason_text = getattr(problem, "strerror", None) or "a file cannot have this name"
        raise InputError(f"image {short_repr(path)}: {reason_text}; give the path of a file, or an address") from None


@dataclass(frozen=True, kw_only=True)
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
        texts = self.corpus.texts
        shown_items_of_item = {item: self._items(item) for item in {int(texts.item[output]) for output in self.used}}
        output_item_pairs = [
            (output, item) for output in self.used for item in shown_items_of_item[int(texts.item[output])]
        ]
        if not self.scorer.traits.systems:
            return [[pair] for pair in output_item_pairs]
        pairs_of_system: list[list[tuple[int, ShownItem]]] = [[] for _ in self.corpus.systems]
        for output, item in output_item_pairs:
            pairs_of_system[int(texts.system[output])].append((output, item))
        return [
            sorted(unit, key=lambda pair: (pair[1].digest, self.corpus.output_digests[pair[0]]))
            for unit in pairs_of_system
        ]

    def _items(self, item: int) -> list[ShownItem]:
        needs = self.scorer.traits.needs
        references = self.corpus.texts.references[item] if "references" in needs else []
        reference_lists: dict[Mode, list[Sequence[str]]] = {
            "all": [references],
            "first": [references[:1]],
            "alone": [[text] for text in references],
        }
        return [
            ShownItem(item, references_of_call, self.corpus.item_digest(item, references_of_call, needs))
            for references_of_call in reference_lists[self.mode]
        ]

    @cached_property
    def keys(self) -> list[str]:
        """Cache key of each unit: a hash of exactly those inputs that can change the unit's values."""
        traits = self.scorer.traits
        digests_of_unit = [
            [item.digest + self.corpus.output_digests[output] for output, item in unit] for unit in self.units
        ]
        sorted_digests = sorted(chain(*digests_of_unit)) if traits.whole else []
        key_prefix = hashlib.sha256(b"".join([FORMAT, self.scorer.signature.encode(), b"\n", *sorted_digests])).digest()
        key_prefix += b"system" if traits.systems else b""
        return [hashlib.sha256(key_prefix + b"".join(unit_digests)).hexdigest() for unit_digests in digests_of_unit]

    @property
    def _per_reference(self) -> bool:
        """Whether the metric returns a value for each reference."""
        traits = self.scorer.traits
        return bool(traits.rules) and "all" not in traits.rules and not traits.systems

    def find(self, score_cache: Cache) -> dict[str, KeptScore]:
        """Return the stored values by key.

        If only the first reference is used, but values for all references are stored, the first of these values is
        taken.
        """
        stored_values = score_cache.scores(list(dict.fromkeys(self.keys)))
        if self.mode == "first" and self._per_reference and len(stored_values) < len(set(self.keys)):
            all_references_keys = replace(self, mode="all").keys
            stored_for_all = score_cache.scores(all_references_keys)
            for key, all_references_key in zip(self.keys, all_references_keys, strict=True):
                if key not in stored_values and (kept_score := stored_for_all.get(all_references_key)):
                    seconds = kept_score.seconds / max(1, len(kept_score.values) // 8)
                    stored_values[key] = kept_score._replace(key=key, values=kept_score.values[:8], seconds=seconds)
        return stored_values

    def missing_units(self, stored_values: Mapping[str, KeptScore]) -> list[int]:
        """Return the positions of units without a stored value, one unit for each key.

        The texts determine the order; units of an item are adjacent.
        """
        unit_of_key = {key: unit_index for unit_index, key in reversed([*enumerate(self.keys)])}
        return sorted((unit for key, unit in unit_of_key.items() if key not in stored_values), key=self._sort_key)

    def _sort_key(self, unit_index: int) -> tuple[bytes, str]:
        return self.units[unit_index][0][1].digest, self.keys[unit_index]

    def calls(self, missing_unit_indices: Sequence[int], place: Place) -> list[list[int]]:
        """Return the missing units, grouped into calls of the metric.

        If a value depends on all texts, one call contains all units, including units with stored values.
        """
        if self.scorer.traits.whole:
            return [sorted(range(len(self.units)), key=self._sort_key)] if missing_unit_indices else []
        n_units_per_call = 1 if self.scorer.traits.systems else CALL * place.batch
        return [
            list(missing_unit_indices[start : start + n_units_per_call])
            for start in range(0, len(missing_unit_indices), n_units_per_call)
        ]

    def texts(self, unit_indices: Sequence[int]) -> MetricInputs:
        """Return the inputs of the metric in a call. Only the fields that the metric needs are filled."""
        all_texts, traits = self.corpus.texts, self.scorer.traits
        output_item_pairs = [pair for unit_index in unit_indices for pair in self.units[unit_index]]
        outputs = [output for output, _ in output_item_pairs]
        counts_items = traits.whole or traits.systems  # for these metrics, two items with equal inputs count as two
        keys = [(item.digest, item.number if counts_items else 0) for _, item in output_item_pairs]
        item_of_key = {key: item for key, (_, item) in zip(keys, output_item_pairs, strict=True)}
        index_of_key = {key: index for index, key in enumerate(item_of_key)}
        items = item_of_key.values()
        return MetricInputs(
            outputs=[all_texts.outputs[output] for output in outputs],
            item=np.array([index_of_key[key] for key in keys], dtype=np.int64),
            system=all_texts.system[outputs] if traits.whole else np.zeros(len(outputs), dtype=np.int64),
            sources=[all_texts.sources[item.number] if "source" in traits.needs else "" for item in items],
            references=[list(item.references) for item in items],
            images=[all_texts.images[item.number] if "image" in traits.needs else [] for item in items],
            contexts=[all_texts.contexts[item.number] if "context" in traits.needs else "" for item in items],
        )

    def run(self, unit_indices: Sequence[int]) -> list[KeptScore]:
        """Call the metric and return the values to be stored.

        Raises InputError if the metric fails or returns invalid values.
        """
        metric_result, seconds = time_metric(self.scorer.score, self.texts(unit_indices))
        units, scores_systems = [self.units[unit_index] for unit_index in unit_indices], self.scorer.traits.systems
        n_values_of_unit = [len(unit[0][1].references) if self._per_reference else 1 for unit in units]
        values = _system_values(metric_result) if scores_systems else _output_values(metric_result, n_values_of_unit)
        if np.isinf(values).any():
            raise InputError("the metric returned an infinite score; a score must be finite, or NaN with a reason")
        truncated = [False] * len(units) if metric_result.truncated is None else metric_result.truncated
        reasons = ["" if scores_systems else metric_result.why.get(i, "") for i in range(len(units))]
        seconds_per_output = seconds / sum(map(len, units))
        return [
            KeptScore(
                self.keys[unit_index],
                self.scorer.signature,
                (np.array([np.nan]) if reasons[i] else values[i, : n_values_of_unit[i]] + 0.0)  # -0 becomes 0
                .astype("<f8")
                .tobytes(),
                bool(np.any(truncated if scores_systems else truncated[i])),
                escape_controls(reasons[i]),
                seconds_per_output,
            )
            for i, unit_index in enumerate(unit_indices)
        ]

    def column(self, stored_values: Mapping[str, KeptScore], rule: Rule | str) -> RuleScores:
        """Return the score of each used output (or system) by a reference rule.

        If one of the values of an output is NaN, the rules `best` and `mean` give no score. With the rule `first`, only
        the CPU seconds of the first value count. With any other rule, the CPU seconds of all values count.

        """
        unit_scores_of_output = [
            [stored_values[key] for key, _ in group]
            for _, group in groupby(zip(self.keys, self.units, strict=True), key=lambda pair: pair[1][0][0])
        ]
        is_truncated = [
            any(unit_score.truncated for unit_score in unit_scores) for unit_scores in unit_scores_of_output
        ]
        n_values_of_output = [
            sum(len(unit_score.values) // 8 for unit_score in unit_scores) for unit_scores in unit_scores_of_output
        ]
        first_indices = np.cumsum([0, *n_values_of_output[:-1]])
        values = np.frombuffer(
            b"".join(unit_score.values for unit_score in chain(*unit_scores_of_output)), dtype="<f8"
        ).astype(float)
        if rule == "first":
            scores, unit_scores_of_output = (
                values[first_indices],
                [unit_scores[:1] for unit_scores in unit_scores_of_output],
            )
            seconds = [unit_score.seconds / (len(unit_score.values) // 8) for (unit_score,) in unit_scores_of_output]
        else:
            reduce = np.maximum if self.scorer.traits.higher_is_better else np.minimum
            scores = (reduce if rule == "best" else np.add).reduceat(values, first_indices)
            scores = scores if rule == "best" else scores / n_values_of_output
            seconds = [sum(unit_score.seconds for unit_score in unit_scores) for unit_scores in unit_scores_of_output]
        reasons = [
            next(filter(None, (unit_score.why for unit_score in unit_scores)), NO_NUMBER if np.isnan(score) else "")
            for unit_scores, score in zip(unit_scores_of_output, scores.tolist(), strict=True)
        ]
        return RuleScores(np.where(np.array(reasons) != "", np.nan, scores), reasons, np.array(seconds), is_truncated)


def time_metric(score: Callable[[MetricInputs], MetricResult], texts: MetricInputs) -> tuple[MetricResult, float]:
    """Return the result of a metric and its CPU seconds in this process and other processes.

    Raises InputError if the metric fails.
    """
    start_time = time.process_time()
    try:
        metric_result: Any = score(texts)
        if not isinstance(metric_result, MetricResult):
            raise TypeError(f"the metric returned {type(metric_result).__name__}, expected MetricResult")
    except Exception as error:  # one failing metric must not stop the remaining metrics
        raise InputError(describe_error(error)) from error
    return metric_result, max(SHORTEST, time.process_time() - start_time + metric_result.seconds)


def _system_values(metric_result: MetricResult) -> Floats:
    """Return the value (1, 1) of one system."""
    system_scores = np.array([] if metric_result.systems is None else metric_result.systems, dtype=np.float64)
    if system_scores.shape != (1,):
        scores_text = "no scores" if metric_result.systems is None else f"scores of shape {system_scores.shape}"
        raise InputError(f"the metric returned {scores_text} for systems, expected shape (1,)")
    return system_scores[:, None]


def _output_values(metric_result: MetricResult, n_values_of_unit: Sequence[int]) -> Floats:
    """Return the values (outputs, references) after checking their shape.

    The shape must agree with the number of outputs and with their numbers of references, `n_values_of_unit`.
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
