"""Material: what is shown to people, out of any study with texts; items and systems in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import polars as pl

from custodes.arguments import value_list
from custodes.data.patterns import Patterns, select_labels
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, shown, suggestion

Pair = tuple[str, str | None]
"""Two systems that are compared, or one that is rated."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is known of an item: `context` is a text, or turns as JSON (see `turns_of`); `images` are paths;
    `references` are kept for metrics and not displayed."""

    label: str
    cluster: str = ""
    group: str = ""
    source: str = ""
    context: str = ""
    images: tuple[str, ...] = ()
    meta: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a system gave for an item."""

    text: str
    images: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to see."""
        return not self.text.strip() and not self.images


@dataclass(frozen=True, kw_only=True)
class Material:
    """Items in the order of the file, systems sorted, and the outputs that there are by item and system."""

    items: tuple[Item, ...]
    systems: tuple[str, ...]
    outputs: Mapping[tuple[str, str], Output]

    @classmethod
    def of(cls, study: Study, *, systems: Patterns = None) -> Material:
        """The texts of a study; InputError where there are none."""
        given = study.outputs
        if given is None or not given.texts.height:
            raise InputError(
                f"{study.name}: no texts to show; give outputs (columns item, system, text, or item and outputs)"
            )
        chosen = study.selection.get("systems") if systems is None else systems
        known = tuple(given.texts["system"].unique().sort())
        wanted = select_labels(chosen, known, option="systems", what="system")
        texts = given.texts.filter(pl.col("system").is_in(list(wanted)))
        pictures: dict[tuple[str, str], list[str]] = {}
        for item, system, image in given.images.select("item", "system", "image").iter_rows():
            pictures.setdefault((item, system), []).append(image)
        outputs = {
            (item, system): Output(text=text, images=tuple(pictures.get((item, system), ())))
            for item, system, text in texts.select("item", "system", "text").iter_rows()
        }
        labels = texts["item"].unique(maintain_order=True)
        described = study.items.for_items(labels).select("item", "cluster", "group")
        facts = {row["item"]: row for row in given.sources.iter_rows(named=True)}
        items = []
        for item, cluster, group in described.iter_rows():
            own = facts.get(item, {})
            words = {name: own.get(name, "") for name in ("source", "context", "meta")}
            images, references = (tuple(own.get(name, ())) for name in ("images", "references"))
            items.append(Item(label=item, cluster=cluster, group=group, images=images, references=references, **words))
        return cls(items=tuple(items), systems=tuple(sorted(wanted)), outputs=outputs)

    def images(self) -> list[str]:
        """The paths of all images."""
        above = [path for item in self.items for path in item.images]
        return above + [path for output in self.outputs.values() for path in output.images]

    def with_images(self, names: Mapping[str, str]) -> Material:
        """The same with other names for images: those under which they are served."""
        return replace(
            self,
            items=tuple(replace(own, images=_named(own.images, names)) for own in self.items),
            outputs={key: replace(own, images=_named(own.images, names)) for key, own in self.outputs.items()},
        )


def _named(images: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names[path] for path in images)


def read_material(texts: Any, *, systems: Patterns = None) -> tuple[Study, Material]:
    """What `read` takes as a study, or a study, and what of it is shown."""
    study = texts if isinstance(texts, Study) else read(*(texts if isinstance(texts, list | tuple) else [texts]))
    return study, Material.of(study, systems=systems)


def pairs_of(systems: Sequence[str], pairs: Sequence[Any] | str | None, *, mode: str) -> list[Pair]:
    """The pairs of systems that are asked about: all, or those that are named ('A:B', or two names).

    >>> pairs_of(["A", "B", "C"], ["A:C"], mode="compare"), pairs_of(["A", "B"], None, mode="rate")
    ([('A', 'C')], [('A', None), ('B', None)])
    """
    known = sorted(systems)
    if mode == "rate":
        if pairs is not None:
            raise OptionError(
                f"pairs={shown(pairs)} would change nothing: people rate one output at a time; see systems"
            )
        return [(system, None) for system in known]
    if len(known) < 2:
        raise InputError(f'one system ({", ".join(known)}): a comparison needs two; or ask for ratings, mode = "rate"')
    if pairs is None:
        return list(combinations(known, 2))
    labels = [f"{a}:{b}" for a, b in permutations(known, 2)]
    entries = [pairs] if isinstance(pairs, str) else pairs
    named = [value_list("pairs", entry, labels=labels) if isinstance(entry, str) else [entry] for entry in entries]
    return list(dict.fromkeys(_pair(value, known) for values in named for value in values))


def _pair(given: Any, known: Sequence[str]) -> Pair:
    names = given
    if isinstance(given, str):  # a label may hold a colon: of all ways to cut, the one that names two systems
        cuts = [(given[:at], given[at + 1 :]) for at, letter in enumerate(given) if letter == ":"]
        names = next((cut for cut in cuts if set(cut) <= set(known)), cuts[0] if cuts else ())
    if not (isinstance(names, list | tuple) and len(names) == 2 and all(isinstance(name, str) for name in names)):
        raise OptionError(f"pairs: {shown(given)} names no two systems; write FIRST:SECOND")
    for name in names:
        if name not in known:
            raise OptionError(f"pairs: no system {shown(name)} here{suggestion(name, known)}")
    if names[0] == names[1]:
        raise OptionError(f"pairs: {shown(given)} is a system against itself")
    first, second = sorted(names)
    return first, second
