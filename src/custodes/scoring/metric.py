"""Definition of a text metric: needed inputs, properties, loader, and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from custodes.stats.arrays import Bools, Floats, Ints

Need = Literal["references", "source", "image", "context"]
"""Inputs of an item that a metric can need besides the output."""

Rule = Literal["all", "first", "best", "mean"]
"""Rules for several references. `all`: the metric gets all references together. Otherwise each reference is scored
alone, and the first, best or mean score is used. Each rule is a separate rater, because the rule can change which
metric is better."""


@dataclass(frozen=True, kw_only=True)
class MetricInputs:
    """Inputs of a metric as parallel arrays. `item` and `system` (outputs,) are positions of each output's item in
    `sources`, `references`, `images`, `contexts` (items,), and of its system in the names of systems.

    Fields that a metric does not need are empty. A call gets a part of the outputs, with distinct texts and in any
    order of systems, unless the score depends on all texts or is a score of systems (`Traits`).

    """

    outputs: Sequence[str]
    item: Ints
    system: Ints
    sources: Sequence[str]
    references: Sequence[Sequence[str]]
    images: Sequence[Sequence[str]]
    contexts: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Result of a metric.

    `values` (outputs, k): one column for each reference of the item if the metric scores one reference at a time (no
    rule "all"), NaN after the last; else one column. `why`: reason of a missing score by output position. `truncated`
    (outputs,): whether a text was truncated to fit the model. `systems` (systems,): scores of systems over all items if
    these are not means (corpus BLEU); `values` then has no column. `seconds`: CPU time in other processes, or spent
    earlier for another metric that shares results.

    """

    values: Floats
    why: Mapping[int, str] = field(default_factory=dict)
    truncated: Bools | None = None
    systems: Floats | None = None
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Properties of a metric's scores.

    `rules`: allowed rules for several references, the default first; () if no references are used. With "all" among
    them the metric returns one value for any number of references, and gets one reference at a time for the other
    rules. `whole`: the score of an output depends on all texts (word frequencies in CIDEr), so it is stored under a
    hash of all texts. `systems`: it scores systems over all their items instead of single outputs.

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
    """Where a metric runs: device of a model ('cpu', 'cuda', 'cuda:1', 'mps'), batch size in outputs, number of
    processes."""

    device: str = "cpu"
    batch: int = 32
    jobs: int = 1


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """A loaded metric. `signature`: everything that can change a score (library and version, parameters, digest of the
    model); it is part of the cache key. `ready` gets all texts before the first part, and raises `OptionError` if they
    would take too long. `close` frees resources.
    """

    signature: str
    traits: Traits
    score: Callable[[MetricInputs], Scored]
    ready: Callable[[MetricInputs], None] = lambda texts: None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric by its name on the command line.

    `load(place, **parameters)` loads it, or raises `MissingExtraError`, `InputError` (no such model) or `OptionError`,
    before anything is scored. `parameters`: defaults by name; a value on the command line is converted to the type of
    the default. `gives`: one sentence for lists. `source`: paper or project.
    """

    name: str
    gives: str
    source: str
    load: Callable[..., Scorer]
    traits: Traits
    parameters: Mapping[str, Any] = field(default_factory=dict)
    extra: str = ""
