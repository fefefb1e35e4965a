"""The texts of a study as arrays, and the computation that raters share.

A computation provides the inputs and the cache key of each value, and the scores by each rule for references.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain, pairwise
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
        rows = study.outputs.texts
        items, systems = (tuple(rows[name].unique(maintain_order=True)) for name in ("item", "system"))
        sources = pl.DataFrame({"item": items}).join(study.outputs.sources, "item", "left", maintain_order="left")
        empty_list = pl.lit([], dtype=pl.List(pl.String))
        item_texts = sources.select(
            pl.col("source", "context").fill_null(""),
            pl.col("references", "images").fill_null(empty_list).list.drop_nulls(),
        ).to_dict(as_series=False)
        return cls(
            texts=MetricInputs(
                outputs=rows["text"].to_list(),
                item=label_codes(rows["item"], items),
                system=label_codes(rows["system"], systems),
                sources=item_texts["source"],
                references=item_texts["references"],
                images=item_texts["images"],
                contexts=item_texts["context"],
            ),
            items=items,
            systems=systems,
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
    def absent(self) -> list[tuple[int, int]]:
        """Item and system of each missing output."""
        is_present = np.zeros((len(self.items), len(self.systems)), dtype=np.bool_)
        is_present[self.texts.item, self.texts.system] = True
        return [(int(item), int(system)) for item, system in np.argwhere(~is_present)]

    @cached_property
    def reference_systems(self) -> list[str]:
        """Systems whose outputs are all references of their items, for example human references as a system.

        Systems with fewer than `FEW` outputs are not included.
        """
        texts, has_other_text = self.texts, np.zeros(len(self.systems), dtype=np.bool_)
        for text, item, system in zip(texts.outputs, texts.item.tolist(), texts.system.tolist(), strict=True):
            has_other_text[system] |= text not in texts.references[item]
        n_outputs = np.bincount(texts.system, minlength=len(self.systems))
        return [self.systems[system] for system in np.flatnonzero(~has_other_text & (n_outputs >= FEW))]

    @cached_property
    def complete(self) -> Bools:
        """Whether each item (items,) has an output of every system."""
        is_complete = np.ones(len(self.items), dtype=np.bool_)
        is_complete[[item for item, _ in self.absent]] = False
        return is_complete


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


class Digests:
    """SHA-256 digests of outputs and of the inputs of items; each digest is computed only once."""

    def __init__(self, texts: MetricInputs) -> None:
        self._texts = texts
        self._image = cache(_image_digest)
        self.outputs = [hashlib.sha256(text.encode()).digest() for text in texts.outputs]

    def item(self, item: int, references: Sequence[str], needs: Sequence[Need]) -> bytes:
        """Return the digest of those inputs of an item that a metric with these needs uses."""
        texts = self._texts
        used_inputs = (
            list(references) if "references" in needs else [],
            texts.sources[item] if "source" in needs else "",
            texts.contexts[item] if "context" in needs else "",
            [self._image(path).hex() for path in texts.images[item]] if "image" in needs else [],
        )
        return hashlib.sha256(msgspec.json.encode(used_inputs)).digest()


def _image_digest(path: str) -> bytes:
    try:
        content = path.encode() if path.startswith(ADDRESSES) else Path(path).read_bytes()
    except (OSError, ValueError) as problem:
        reason_text = getattr(problem, "strerror", None) or "a file cannot have this name"
        raise InputError(f"image {short_repr(path)}: {reason_text}; give the path of a file, or an address") from None
    return hashlib.sha256(content).digest()


@dataclass(frozen=True, kw_only=True)
class Computation:
    """Values of one metric for outputs, or for systems over all their outputs.

    `used`: positions of the scored outputs.
    """

    scorer: Scorer
    mode: Mode
    corpus: Corpus
    digests: Digests
    used: Sequence[int]

    @cached_property
    def units(self) -> list[list[tuple[int, ShownItem]]]:
        """The units to score, each with pairs of an output and its item.

        A unit has one pair, for one output and one set of references. If the metric scores systems, a unit has the
        pairs of all outputs of a system, in an order that the texts determine.
        """
        texts = self.corpus.texts
        items = {item: self._items(item) for item in {int(texts.item[output]) for output in self.used}}
        pairs = [(output, item) for output in self.used for item in items[int(texts.item[output])]]
        if not self.scorer.traits.systems:
            return [[pair] for pair in pairs]
        systems: list[list[tuple[int, ShownItem]]] = [[] for _ in self.corpus.systems]
        for output, item in pairs:
            systems[int(texts.system[output])].append((output, item))
        return [sorted(unit, key=lambda pair: (pair[1].digest, self.digests.outputs[pair[0]])) for unit in systems]

    def _items(self, item: int) -> list[ShownItem]:
        needs = self.scorer.traits.needs
        references = self.corpus.texts.references[item] if "references" in needs else []
        reference_lists = [references[:1] if self.mode == "first" else references]
        if self.mode == "alone":
            reference_lists = [[text] for text in references]
        return [
            ShownItem(item, references_of_call, self.digests.item(item, references_of_call, needs))
            for references_of_call in reference_lists
        ]

    @cached_property
    def keys(self) -> list[str]:
        """Cache key of each unit: a hash of exactly those inputs that can change the unit's values."""
        traits = self.scorer.traits
        digests_of_units = [
            [item.digest + self.digests.outputs[output] for output, item in unit] for unit in self.units
        ]
        sorted_digests = sorted(chain(*digests_of_units)) if traits.whole else []
        prefix = hashlib.sha256(b"".join([FORMAT, self.scorer.signature.encode(), b"\n", *sorted_digests])).digest()
        prefix += b"system" if traits.systems else b""
        return [hashlib.sha256(prefix + b"".join(unit_digests)).hexdigest() for unit_digests in digests_of_units]

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
            first_reference_key_of = {
                all_references_key: key
                for all_references_key, key in zip(all_references_keys, self.keys, strict=True)
                if key not in stored_values
            }
            for all_references_key, row in score_cache.scores(list(first_reference_key_of)).items():
                seconds = row.seconds / max(1, len(row.values) // 8)
                stored_values[first_reference_key_of[all_references_key]] = row._replace(
                    key=first_reference_key_of[all_references_key], values=row.values[:8], seconds=seconds
                )
        return stored_values

    def missing_units(self, stored_values: Mapping[str, KeptScore]) -> list[int]:
        """Return the positions of units without a stored value, one unit for each key.

        The texts determine the order; units of an item are adjacent.
        """
        first_unit = {key: unit for unit, key in reversed([*enumerate(self.keys)])}
        return sorted((unit for key, unit in first_unit.items() if key not in stored_values), key=self._order)

    def _order(self, unit_index: int) -> tuple[bytes, str]:
        return self.units[unit_index][0][1].digest, self.keys[unit_index]

    def calls(self, missing_unit_indices: Sequence[int], place: Place) -> list[list[int]]:
        """Return the missing units, grouped into calls of the metric.

        If a value depends on all texts, one call contains all units, including units with stored values.
        """
        if self.scorer.traits.whole:
            return [sorted(range(len(self.units)), key=self._order)] if missing_unit_indices else []
        n_per_call = 1 if self.scorer.traits.systems else CALL * place.batch
        return [
            list(missing_unit_indices[start : start + n_per_call])
            for start in range(0, len(missing_unit_indices), n_per_call)
        ]

    def texts(self, call: Sequence[int]) -> MetricInputs:
        """Return the inputs of the metric in a call. Only the fields that the metric needs are filled."""
        texts, traits = self.corpus.texts, self.scorer.traits
        pairs = [pair for unit_index in call for pair in self.units[unit_index]]
        has_numbered_items = (
            traits.whole or traits.systems
        )  # for these metrics, two items with equal inputs count as two
        items = {(item.digest, item.number if has_numbered_items else 0): item for _, item in pairs}
        index_of_item = {item: index for index, item in enumerate(items)}
        return MetricInputs(
            outputs=[texts.outputs[output] for output, _ in pairs],
            item=np.array(
                [index_of_item[item.digest, item.number if has_numbered_items else 0] for _, item in pairs],
                dtype=np.int64,
            ),
            system=np.array([int(texts.system[output]) if traits.whole else 0 for output, _ in pairs], dtype=np.int64),
            sources=[texts.sources[item.number] if "source" in traits.needs else "" for item in items.values()],
            references=[list(item.references) for item in items.values()],
            images=[texts.images[item.number] if "image" in traits.needs else [] for item in items.values()],
            contexts=[texts.contexts[item.number] if "context" in traits.needs else "" for item in items.values()],
        )

    def run(self, call: Sequence[int]) -> list[KeptScore]:
        """Call the metric and return the values to be stored.

        Raises InputError if the metric fails or returns invalid values.
        """
        result, seconds = time_metric(self.scorer.score, self.texts(call))
        units, is_systems = [self.units[unit_index] for unit_index in call], self.scorer.traits.systems
        widths = [len(unit[0][1].references) if self._per_reference else 1 for unit in units]
        values = _system_values(result) if is_systems else _output_values(result, widths)
        if np.isinf(values).any():
            raise InputError("the metric returned an infinite score; a score must be finite, or NaN with a reason")
        rows = []
        for row, (unit_index, width) in enumerate(zip(call, widths, strict=True)):
            reason = "" if is_systems else result.why.get(row, "")
            is_truncated = result.truncated is not None and bool(
                np.any(result.truncated if is_systems else result.truncated[row])
            )
            kept_values = np.array([np.nan]) if reason else values[row, :width] + 0.0  # -0 becomes 0
            seconds_per_output = seconds / sum(map(len, units))
            rows.append(
                KeptScore(
                    self.keys[unit_index],
                    self.scorer.signature,
                    kept_values.astype("<f8").tobytes(),
                    is_truncated,
                    escape_controls(reason),
                    seconds_per_output,
                )
            )
        return rows

    def column(self, stored_values: Mapping[str, KeptScore], rule: Rule | str) -> RuleScores:
        """Return the score of each used output (or system) by a reference rule.

        If one of the values of an output is NaN, the rules `best` and `mean` give no score. With the rule `first`, only
        the CPU seconds of the first value count. With any other rule, the CPU seconds of all values count.

        """
        rows = [stored_values[key] for key in self.keys]
        outputs = [unit[0][0] for unit in self.units]
        first_units = [
            unit_index
            for unit_index, output in enumerate(outputs)
            if not unit_index or outputs[unit_index - 1] != output
        ]
        groups = [rows[start:end] for start, end in pairwise([*first_units, len(rows)])]
        values = np.frombuffer(b"".join(row.values for row in rows), dtype="<f8").astype(np.float64)
        widths = np.array([len(row.values) // 8 for row in rows])
        seconds = np.repeat(np.array([row.seconds for row in rows]) / widths, widths)
        first_value_indices = (np.cumsum(widths) - widths)[first_units]
        if rule == "first":
            scores, seconds, reasons = (
                values[first_value_indices],
                seconds[first_value_indices],
                [group[0].why for group in groups],
            )
        else:
            n_values_per_output = np.diff(np.append(first_value_indices, len(values)))
            best_of = np.maximum if self.scorer.traits.higher_is_better else np.minimum
            scores = (
                best_of.reduceat(values, first_value_indices)
                if rule == "best"
                else np.add.reduceat(values, first_value_indices) / n_values_per_output
            )
            seconds = np.add.reduceat(seconds, first_value_indices)
            reasons = [next((row.why for row in group if row.why), "") for group in groups]
        reasons_of_outputs = [
            reason or (NO_NUMBER if is_undefined else "")
            for reason, is_undefined in zip(reasons, np.isnan(scores).tolist(), strict=True)
        ]
        truncated = [any(row.truncated for row in group) for group in groups]
        return RuleScores(
            np.where([bool(reason) for reason in reasons_of_outputs], np.nan, scores),
            reasons_of_outputs,
            seconds,
            truncated,
        )


def time_metric(score: Callable[[MetricInputs], MetricResult], texts: MetricInputs) -> tuple[MetricResult, float]:
    """Return the result of a metric and its CPU seconds in this process and other processes.

    Raises InputError if the metric fails.
    """
    start = time.process_time()
    try:
        result: Any = score(texts)
        if not isinstance(result, MetricResult):
            raise TypeError(f"the metric returned {type(result).__name__}, expected MetricResult")
    except Exception as error:  # one failing metric must not stop the remaining metrics
        raise InputError(describe_error(error)) from error
    return result, max(SHORTEST, time.process_time() - start + result.seconds)


def _system_values(result: MetricResult) -> Floats:
    """Return the value (1, 1) of one system."""
    values = None if result.systems is None else np.asarray(result.systems, dtype=np.float64)
    if values is None or values.shape != (1,):
        raise InputError(
            f"the metric returned {'no scores' if values is None else f'scores of shape {values.shape}'} for systems, "
            "expected shape (1,)"
        )
    return values[:, None]


def _output_values(result: MetricResult, widths: Sequence[int]) -> Floats:
    """Return the values (outputs, references) after checking their shape.

    The shape must agree with the number of outputs and with their numbers of references, `widths`.
    """
    values = np.asarray(result.values, dtype=np.float64)
    truncated = range(len(widths)) if result.truncated is None else result.truncated
    reject(
        (
            values.ndim != 2 or len(values) != len(widths) or values.shape[1] < max(widths),
            f"the metric returned values of shape {values.shape}, expected ({len(widths)}, {max(widths)})",
        ),
        (
            len(truncated) != len(widths),
            f"the metric reports truncation of {len(truncated)} texts, expected {len(widths)}",
        ),
        (
            any(not 0 <= row < len(widths) for row in result.why),
            "the metric gives a reason for an output that was not requested",
        ),
        error=InputError,
    )
    return values
