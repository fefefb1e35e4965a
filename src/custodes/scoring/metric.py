"""What a metric of texts is: a value that says what it needs and how it is loaded; and what it is given and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from custodes.stats.arrays import Bools, Floats, Ints

Need = Literal["references", "source", "image", "context"]
"""What of an item a metric needs beside the output."""

Rule = Literal["all", "first", "best", "mean"]
"""What becomes of several references: all are given to the metric at once; or each is scored alone, and the first, the
best or the mean of these scores is taken. Another rule is another rater: it changes which metric is better."""


@dataclass(frozen=True, kw_only=True)
class MetricInputs:
    """What metrics score: arrays side by side. `item` and `system` (outputs,) are positions of each output's item in
    `sources`, `references`, `images`, `contexts` (items,), and of its system in the names of systems.

    What a metric does not say it needs is empty. Outputs come in parts, each text once and all systems as one, unless
    the metric looks at the whole or at systems (`Traits`).
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
    """What a metric said.

    `values` (outputs, k): where it scores one reference at a time (no rule "all"), a column for each reference of the
    item, NaN behind the last; else one column. `why`: position of an output to the reason why it has no score.
    `truncated` (outputs,): whether a text was cut to fit the model. `systems` (systems,): scores of systems over all
    items at once, where these are not the mean (BLEU of a corpus); `values` has no column then. `seconds`: CPU time in
    other processes, or earlier, for another metric that shares what it made.
    """

    values: Floats
    why: Mapping[int, str] = field(default_factory=dict)
    truncated: Bools | None = None
    systems: Floats | None = None
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What is known of a metric's scores.

    `rules`: what may become of several references, the default first; () where none are used. With "all" among them
    the metric gives one value to any number of references, and is given one at a time for the other rules. `whole`: the
    score of an output depends on all texts (the frequencies of words in CIDEr), so it is kept under a hash of all.
    `systems`: it scores systems over all their items, and no output.
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
    """Where a metric runs: the device of a model ('cpu', 'cuda', 'cuda:1', 'mps'), outputs a batch, processes."""

    device: str = "cpu"
    batch: int = 32
    jobs: int = 1


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """A metric that is loaded. `signature` says everything that may change a score: library and version, parameters,
    a digest of the model; it is part of the key of what is kept. `ready` is given all that is to be scored before the
    first part, and raises `OptionError` where that would take too long. `close` frees what it holds."""

    signature: str
    traits: Traits
    score: Callable[[MetricInputs], Scored]
    ready: Callable[[MetricInputs], None] = lambda texts: None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric by its name on the command line.

    `load(place, **parameters)` makes it ready, or raises `MissingExtraError`, `InputError` (no such model) or
    `OptionError`, before anything is scored. `parameters`: name to default; a value on the command line is read as the
    type of the default. `gives`: one sentence for lists. `source`: paper or project.
    """

    name: str
    gives: str
    source: str
    load: Callable[..., Scorer]
    traits: Traits
    parameters: Mapping[str, Any] = field(default_factory=dict)
    extra: str = ""
