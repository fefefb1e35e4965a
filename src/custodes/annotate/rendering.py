"""All texts of a study as safe HTML, both outputs of an item in one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from custodes.annotate import texts
from custodes.annotate.material import Item, Material
from custodes.data.notes import Note
from custodes.data.outputs import turns_of
from custodes.progress import Progress

Render = Literal["plain", "markdown", "markdown+math"]


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """HTML of every item's context and source, and of every output by item and system."""

    items: Mapping[str, str]
    outputs: Mapping[tuple[str, str], str]
    notes: tuple[Note, ...] = ()


def render(material: Material, how: Render, *, progress: Progress) -> Rendered:
    """All texts as they are shown."""
    items = {item.label: _context(item) for item in material.items}
    outputs = {key: texts.plain(own.text) for key, own in material.outputs.items()}
    return Rendered(items=items, outputs=outputs)


def _context(item: Item) -> str:
    turns = turns_of(item.context)
    if turns is None:
        said = texts.plain(item.context)
    else:
        said = texts.dialogue([(role, texts.plain(text)) for role, text in turns])
    return said + texts.plain(item.source)
