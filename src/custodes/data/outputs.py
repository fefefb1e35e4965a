"""Outputs: the texts of systems, and the inputs of the systems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from custodes.data.mapping.column_vocabulary import find_columns
from custodes.data.notes import Note, build_notes
from custodes.errors import InputError, join_labels

if TYPE_CHECKING:
    from custodes.data.study import Study

SCHEMA = {"item": pl.String, "system": pl.String, "text": pl.String}
IMAGES = {"item": pl.String, "system": pl.String, "image": pl.String}
SOURCES: dict[str, Any] = {
    "item": pl.String,
    "source": pl.String,
    "references": pl.List(pl.String),
    "images": pl.List(pl.String),
    "context": pl.String,
    "meta": pl.String,
}
ROLES = ("role", "from", "speaker", "author")
"""Keys of the speaker in a turn of a dialogue."""
WORDS = ("text", "content", "value")
"""Keys of the words of a turn."""


def missing_texts_error(study: Study) -> InputError:
    """The error for a study without texts. For a table of labels, the message names the column of texts."""
    text_column_names = [] if study.attributes is None else find_columns("text", study.attributes.columns)
    advice_text = (
        f"give the columns of items, systems and texts, as in --column item=NAME --column system=NAME --column "
        f"text={text_column_names[0]}"
        if text_column_names
        else "give outputs with the columns item, system, text, or item and outputs (an object {system: text})"
    )
    return InputError(f"{study.name}: there are no texts of outputs; {advice_text}")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Texts and images of a study.

    `texts` has one row per output: item, system, text. `sources` has one row per item, with item, source, references,
    images, context and meta. `images` are paths or addresses. `context` is a text, or turns as a JSON list of objects
    with role and text. `meta` is a JSON object as text. Missing values of `sources` are '' or []. `images` has one row
    per image of an output: item, system, image (a path or an address).
    """

    texts: pl.DataFrame
    sources: pl.DataFrame
    images: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=IMAGES))

    @classmethod
    def from_sources(cls, texts: pl.DataFrame, sources: pl.DataFrame, images: pl.DataFrame | None = None) -> Outputs:
        """Outputs from `sources` that may lack columns; missing columns and nulls become empty."""
        return cls(
            texts=texts,
            sources=pl.concat([pl.DataFrame(schema=SOURCES), sources], how="diagonal_relaxed")
            .select(list(SOURCES))
            .with_columns(
                pl.col(pl.String).fill_null(""),
                pl.col(pl.List(pl.String)).fill_null(pl.lit([], dtype=pl.List(pl.String))),
            ),
            images=pl.DataFrame(schema=IMAGES) if images is None else images,
        )

    def resolve_images(self, folder: Path) -> Outputs:
        """The outputs with paths of images resolved relative to the folder; addresses are unchanged."""
        path_of_location = {
            image_location: str(folder / image_location)
            for image_location in pl.concat(
                [self.sources["images"].explode().drop_nulls(), self.images["image"]]
            ).unique()
            if "\0" not in image_location and (folder / image_location).is_file()
        }
        return replace(
            self,
            sources=self.sources.with_columns(pl.col("images").list.eval(pl.element().replace(path_of_location))),
            images=self.images.with_columns(pl.col("image").replace(path_of_location)),
        )

    def merge_with(self, other: Outputs) -> tuple[Outputs, list[Note]]:
        """The outputs of both studies, and notes. If the two studies have different texts of an output, or different
        values of an item, the first text or value is used."""
        text_rows, source_rows = pl.concat([self.texts, other.texts]), pl.concat([self.sources, other.sources])
        text_rows, source_rows, notes = select_first_values(text_rows, source_rows, where="two inputs")
        return Outputs.from_sources(
            text_rows,
            source_rows,
            pl.concat(
                [self.images, other.images.join(self.images, on=["item", "system"], how="anti", maintain_order="left")]
            ),
        ), notes


def select_first_values(
    texts: pl.DataFrame, sources: pl.DataFrame, *, where: str
) -> tuple[pl.DataFrame, pl.DataFrame, list[Note]]:
    """The first non-empty text of each output, the first non-empty value of each item in each column, and notes on
    further values."""
    source_column_names = [column_name for column_name in sources.columns if column_name != "item"]
    list_column_expression = pl.col(pl.List(pl.String))
    source_rows = sources.with_columns(
        pl.col(pl.String).replace("", None), pl.when(list_column_expression.list.len() > 0).then(list_column_expression)
    )
    source_rows_by_item, output_key_names = source_rows.group_by("item", maintain_order=True), ["item", "system"]
    n_outputs_with_several_texts = (
        texts.filter(pl.col("text") != "")
        .group_by(output_key_names)
        .agg(pl.col("text").n_unique())
        .filter(pl.col("text") > 1)
        .height
    )
    has_several_values_frame = source_rows_by_item.agg(pl.col(source_column_names).drop_nulls().n_unique() > 1)
    differing_column_names = [
        column_name for column_name in source_column_names if has_several_values_frame[column_name].any()
    ]
    n_items_with_several_values = has_several_values_frame.filter(
        pl.any_horizontal(pl.lit(False), *source_column_names)
    ).height
    return (
        texts.group_by(output_key_names, maintain_order=True).agg(
            pl.col("text").filter(pl.col("text") != "").first().fill_null("")
        ),
        source_rows_by_item.agg(pl.col(source_column_names).drop_nulls().first()),
        build_notes(
            (
                "texts-differ",
                n_outputs_with_several_texts,
                f"{where}: {n_outputs_with_several_texts} outputs have several texts; the first text of each output is "
                "used",
            ),
            (
                "sources-differ",
                n_items_with_several_values,
                f"{where}: {n_items_with_several_values} items have several values of "
                f"{join_labels(differing_column_names)}; the first value of each item is used",
            ),
        ),
    )


def parse_turns(cell: Any) -> list[tuple[str, str]] | None:
    """The speaker and the words of each turn of a dialogue. A dialogue is a list of objects, or JSON of such a list.
    The result is None for any other cell.

    >>> parse_turns('[{"role": "user", "text": "Hi"}, {"from": "gpt", "value": "Hello"}]'), parse_turns("[1] a source")
    ([('user', 'Hi'), ('gpt', 'Hello')], None)
    >>> parse_turns('[{"role": "user", "text": "Hi"}, "Hello"]')
    """
    if isinstance(cell, str):
        if not cell.lstrip().startswith("["):
            return None
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            return None
    cell = cell.to_list() if isinstance(cell, pl.Series) else cell
    if not isinstance(cell, list) or not cell or not all(isinstance(turn, dict) for turn in cell):
        return None
    speakers = [
        next((turn[key_name] for key_name in ROLES if isinstance(turn.get(key_name), str)), "") for turn in cell
    ]
    if not all(speakers) or any(not set(WORDS) & set(turn) for turn in cell):
        return None
    contents = [next((turn[key_name] for key_name in WORDS if turn.get(key_name) is not None), "") for turn in cell]
    return list(zip(speakers, map(_turn_text, contents), strict=True))


def _turn_text(content: Any) -> str:
    """The words of a turn, from a text or from the texts of several parts."""
    if isinstance(content, list):
        return "\n".join(
            content_text
            for content_text in (
                content_part.get("text") if isinstance(content_part, dict) else content_part for content_part in content
            )
            if isinstance(content_text, str)
        )
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)


def format_dialogue(turns: Sequence[tuple[str, str]]) -> str:
    """Turns as the text of a context.

    >>> format_dialogue([("user", "Hi")])
    '[{"role": "user", "text": "Hi"}]'
    """
    return json.dumps([{"role": speaker, "text": text} for speaker, text in turns], ensure_ascii=False)
