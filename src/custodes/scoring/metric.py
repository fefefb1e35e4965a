"""Definition of a text metric: the inputs that it needs, its properties, its loader, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from custodes.stats.arrays import Bools, Floats, Ints

Need = Literal["references", "source", "image", "context"]
"""Inputs of an item that a metric can need besides the output."""

Rule = Literal["all", "first", "best", "mean"]
"""Rules for several references. With `all`, the metric gets all references together. With any other rule, each
reference is scored alone, and the first, best or mean score is used. Each rule gives a separate rater, because a metric
may agree better with annotators by one rule than by another."""


@dataclass(frozen=True, kw_only=True)
class MetricInputs:
    """Inputs of a metric as parallel arrays.

    `item` (outputs,) is the position of each output's item in `sources`, `references`, `images` and `contexts`
    (items,). `system` (outputs,) is the position of each output's system in the names of systems. Fields that a metric
    does not need are empty.

    If a metric scores each output independently of other texts, a call gets a part of the outputs, in any order.
    Outputs with equal text and equal inputs then occur only once, and `system` is 0. If the score depends on all texts,
    a call gets all outputs. If the metric scores systems, a call gets all outputs of one system. See `Traits`.

    """

    outputs: Sequence[str]
    item: Ints
    system: Ints
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    images: Sequence[Sequence[str]]
    contexts: Sequence[str]

    def texts_to_compare(self, need: Need) -> Sequence[Sequence[str]]:
        """Return the references of each item, or (for the need 'source') its source as the only text."""
        return self.references if need == "references" else [[source] for source in self.sources]

    def of_need(self, need: Need) -> Sequence[Any]:
        """Return the inputs (items,) of one kind."""
        return {
            "references": self.references,
            "source": self.sources,
            "image": self.images,
            "context": self.contexts,
        }[need]


@dataclass(frozen=True, kw_only=True)
class MetricResult:
    """Result of a metric.

    - `values` (outputs, k): scores. If the metric scores one reference at a time (it has no rule "all"), there is one
      column for each reference, with NaN after the last reference of the item; otherwise there is one column.
    - `why`: reasons of missing scores, by position of the output.
    - `truncated` (outputs,): whether a text was truncated to fit the model.
    - `systems` (systems,): scores of systems over all items, if these are not means of outputs' scores (as in corpus
      BLEU); `values` then has no column.
    - `seconds`: CPU seconds that are not measured during the call: CPU seconds of other processes, and CPU seconds that
      another metric spent earlier on results that this metric reuses.

    """

    values: Floats
    why: Mapping[int, str] = field(default_factory=dict)
    truncated: Bools | None = None
    systems: Floats | None = None
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Properties of a metric's scores.

    - `needs`: inputs of an item that the metric needs besides the output.
    - `rules`: allowed rules for several references, the default first; () if no references are used. If "all" is
      allowed, the metric returns one value for any number of references; for any other rule it gets one reference at a
      time.
    - `low`, `high`: lowest and highest possible score; None if there is no bound.
    - `whole`: whether the score of an output depends on all texts (as word frequencies in CIDEr do). The score is then
      stored under a hash of all texts.
    - `systems`: whether the metric scores systems over all their items instead of single outputs.

    """

    needs: tuple[Need, ...] = ()
    rules: tuple[Rule, ...] = ()
    higher_is_better: bool = True
    low: float | None = None
    high: float | None = None
    whole: bool = False
    systems: bool = False


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a metric runs: the device of a model ('cpu', 'cuda', 'cuda:1', 'mps'), the number of outputs in a batch,
    and the number of processes."""

    device: str = "cpu"
    batch: int = 32
    jobs: int = 1


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """A loaded metric.

    - `signature`: everything that can change a score (library and version, parameters, digest of the model). The
    signature is part of the cache key.
    - `traits`: properties of the scores.
    - `score`: function that computes scores.
    - `close`: function that frees resources.
    """

    signature: str
    traits: Traits
    score: Callable[[MetricInputs], MetricResult]
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric with its name on the command line.

    - `gives`: one sentence that says what the metric measures, for lists of metrics.
    - `source`: the paper or project that defines the metric.
    - `load`: function that loads the metric, called as `load(place, **parameters)` before anything is scored. The
    function may raise `MissingExtraError`, `InputError` (for example, if the model does not exist) or `OptionError`.
    - `parameters`: default values by name. A value on the command line is converted to the type of the default.
    - `extra`: the extra of this package that the metric needs, if any.
    """

    name: str
    gives: str
    source: str
    load: Callable[..., Scorer]
    traits: Traits
    parameters: Mapping[str, Any] = field(default_factory=dict)
    extra: str = ""
