"""The displayed content of a study (items, outputs and images), and the preferences of its metric."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from custodes.arguments import value_list
from custodes.data.loading import check_exists
from custodes.data.panel import label_codes
from custodes.data.patterns import Patterns, select_labels
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.data.ties_and_orders import FLOAT_NOISE
from custodes.errors import InputError, MissingExtraError, OptionError, listed, shown, suggestion
from custodes.evaluate.rater_comparison import all_raters
from custodes.progress import Progress
from custodes.stats import ABSENT
from custodes.stats.arrays import Signs

if TYPE_CHECKING:
    from PIL.Image import Image


Pair = tuple[str, str | None]
"""Two systems to compare, or one system to rate and None."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """An item. `context` is a text, or the turns of a dialogue as JSON (see `turns_of`). `images` are paths.
    `references` are stored for metrics and not displayed."""

    label: str
    cluster: str = ""
    group: str = ""
    source: str = ""
    context: str = ""
    images: tuple[str, ...] = ()
    meta: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SystemOutput:
    """The output of a system for an item."""

    text: str
    images: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the output has neither text nor images."""
        return not self.text.strip() and not self.images


@dataclass(frozen=True, kw_only=True)
class StudyMaterial:
    """Items in file order, systems in alphabetical order, and the existing outputs by item and system."""

    items: tuple[Item, ...]
    systems: tuple[str, ...]
    outputs: Mapping[tuple[str, str], SystemOutput]

    @classmethod
    def of(cls, study: Study, *, systems: Patterns = None) -> StudyMaterial:
        """Return the texts of a study. Raise `InputError` if the study has no texts."""
        source = study.outputs
        if source is None or not source.texts.height:
            raise InputError(
                f"{study.name}: there are no texts; give outputs (columns item, system, text, or item and outputs)"
            )
        chosen = study.selection.get("systems") if systems is None else systems
        systems_there = tuple(source.texts["system"].unique().sort())
        selected = select_labels(chosen, systems_there, option="systems", what="system")
        texts = source.texts.filter(pl.col("system").is_in(list(selected)))
        pictures: dict[tuple[str, str], list[str]] = {}
        for item, system, image in source.images.select("item", "system", "image").iter_rows():
            pictures.setdefault((item, system), []).append(image)
        outputs = {
            (item, system): SystemOutput(text=text, images=tuple(pictures.get((item, system), ())))
            for item, system, text in texts.select("item", "system", "text").iter_rows()
        }
        labels = texts["item"].unique(maintain_order=True)
        described = study.items.for_items(labels).select("item", "cluster", "group")
        facts = {row["item"]: row for row in source.sources.iter_rows(named=True)}
        items = []
        for item, cluster, group in described.iter_rows():
            row = facts.get(item, {})
            words = {name: row.get(name, "") for name in ("source", "context", "meta")}
            images, references = (tuple(row.get(name, ())) for name in ("images", "references"))
            items.append(Item(label=item, cluster=cluster, group=group, images=images, references=references, **words))
        return cls(items=tuple(items), systems=tuple(sorted(selected)), outputs=outputs)

    def labels(self) -> list[str]:
        """Return the labels of the items."""
        return [item.label for item in self.items]

    def images(self) -> list[str]:
        """Return the paths of all images of items and outputs."""
        above = [path for item in self.items for path in item.images]
        return above + [path for output in self.outputs.values() for path in output.images]

    def with_images(self, names: Mapping[str, str]) -> StudyMaterial:
        """Return the material with the names under which images are served, instead of their paths."""
        return replace(
            self,
            items=tuple(replace(entry, images=_named(entry.images, names)) for entry in self.items),
            outputs={key: replace(entry, images=_named(entry.images, names)) for key, entry in self.outputs.items()},
        )


def _named(images: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names[path] for path in images)


def read_material(texts: Any, *, systems: Patterns = None) -> tuple[Study, StudyMaterial]:
    """Return a study and its displayed content. If `texts` is not a study, it is read as a study."""
    study = texts if isinstance(texts, Study) else read(*(texts if isinstance(texts, list | tuple) else [texts]))
    return study, StudyMaterial.of(study, systems=systems)


def pairs_of(systems: Sequence[str], pairs: Sequence[Any] | str | None, *, mode: str) -> list[Pair]:
    """Return the pairs of systems to compare: all pairs, or the pairs that are named ('A:B', or two names).

    >>> pairs_of(["A", "B", "C"], ["A:C"], mode="compare"), pairs_of(["A", "B"], None, mode="rate")
    ([('A', 'C')], [('A', None), ('B', None)])
    """
    labels_known = sorted(systems)
    if mode == "rate":
        if pairs is not None:
            raise OptionError(
                f"pairs={shown(pairs)} has no effect, because annotators rate single outputs; use systems instead"
            )
        return [(system, None) for system in labels_known]
    if len(labels_known) < 2:
        raise InputError(
            f"only one system ({', '.join(labels_known)}), but a comparison needs two; add systems, "
            'or collect ratings with mode = "rate"'
        )
    if pairs is None:
        return list(combinations(labels_known, 2))
    labels = [f"{a}:{b}" for a, b in permutations(labels_known, 2)]
    entries = [pairs] if isinstance(pairs, str) else pairs
    named = [value_list("pairs", entry, labels=labels) if isinstance(entry, str) else [entry] for entry in entries]
    return list(dict.fromkeys(_pair(value, labels_known) for values in named for value in values))


def _pair(entry: Any, systems: Sequence[str]) -> Pair:
    names = entry
    if isinstance(entry, str):  # labels may contain colons; use the split that names two systems
        cuts = [(entry[:at], entry[at + 1 :]) for at, letter in enumerate(entry) if letter == ":"]
        names = next((cut for cut in cuts if set(cut) <= set(systems)), cuts[0] if cuts else ())
    if not (isinstance(names, list | tuple) and len(names) == 2 and all(isinstance(name, str) for name in names)):
        raise OptionError(f"pairs: {shown(entry)} does not name two systems; write FIRST:SECOND")
    for name in names:
        if name not in systems:
            raise OptionError(f"pairs: no such system {shown(name)}{suggestion(name, systems)}")
    if names[0] == names[1]:
        raise OptionError(f"pairs: {shown(entry)} compares a system with itself; name two different systems")
    first, second = sorted(names)
    return first, second


LARGEST = 5 * 2**20
"""Maximum size of an image in bytes."""
PIXELS = 40_000_000
"""Maximum number of pixels of an image; for an animation, of all frames together."""
TYPES = {
    "PNG": ("image/png", "png"),
    "JPEG": ("image/jpeg", "jpg"),
    "WEBP": ("image/webp", "webp"),
    "GIF": ("image/gif", "gif"),
}
"""Allowed formats by Pillow's name. SVG is not allowed, because an SVG file may contain programs."""
KEPT = ("icc_profile", "transparency", "duration", "loop", "background")
"""Metadata that are kept. They describe colours and animation."""
REMOTE = ("http://", "https://", "data:", "ftp://")


@dataclass(frozen=True, kw_only=True)
class Medium:
    """An image as it is served. Its name consists of the SHA-256 hash of its content and the extension of its type, so
    the name does not reveal the author."""

    name: str
    type: str
    content: bytes


def media_of(paths: Iterable[str], *, progress: Progress) -> dict[str, Medium]:
    """Return the image of each path. Raise `InputError` for the first invalid path or image."""
    distinct = list(dict.fromkeys(paths))
    return {path: medium(path) for path in progress(distinct, total=len(distinct), desc="images")} if distinct else {}


def medium(path: str) -> Medium:
    """Return the image in a file. Raise `InputError` for a web address, and for a file that is not a displayable
    image."""
    if path.lower().startswith(REMOTE):
        raise InputError(
            f"image {shown(path)}: this is an address, but images must be files; download the image and give its path"
        )
    place = Path(path)
    if "\0" in path:
        raise InputError(f"image {shown(path)}: not a valid file name")
    check_exists(place)
    try:
        if not place.is_file():
            raise InputError(f"image {shown(path)}: no such file")
        size = place.stat().st_size
        if size > LARGEST:
            raise InputError(
                f"image {shown(path)}: {size / 2**20:.1f} MiB, but the limit is {LARGEST >> 20} MiB; make it smaller"
            )
        content = place.read_bytes()
    except OSError as problem:
        raise InputError(f"image {shown(path)}: cannot be read: {problem.strerror}") from None
    kind, pixels = _remade(content, path)
    return Medium(name=f"{hashlib.sha256(pixels).hexdigest()}.{kind[1]}", type=kind[0], content=pixels)


def _remade(content: bytes, path: str) -> tuple[tuple[str, str], bytes]:
    """Return the type of an image, and its content encoded again from its pixels."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("images need Pillow: pip install 'custodes[annotate]'") from error
    allowed = "PNG, JPEG, WebP or GIF"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the size is checked below
            with Image.open(io.BytesIO(content), formats=list(TYPES)) as image:
                pixels = image.width * image.height * getattr(image, "n_frames", 1)
                if pixels > PIXELS:
                    raise InputError(
                        f"image {shown(path)}: {image.width} x {image.height} pixels ({pixels / 1000000.0:.0f} "
                        f"million in all), but the limit is {PIXELS // 10**6} million; make the image smaller"
                    )
                name = str(image.format)
                moves = getattr(image, "is_animated", False)
                return TYPES[name], _saved(image if moves else ImageOps.exif_transpose(image), name, moves=moves)
    except Image.DecompressionBombError:
        raise InputError(
            f"image {shown(path)}: more than {PIXELS // 10**6} million pixels; make the image smaller"
        ) from None
    except UnidentifiedImageError:
        raise InputError(f"image {shown(path)}: the content is not an image; allowed: {allowed}") from None
    except InputError:
        raise
    except Exception as problem:  # Pillow raises various errors for damaged files
        why = " ".join(str(problem).split())[:100] or type(problem).__name__
        raise InputError(f"image {shown(path)}: damaged ({why}); save the image again as {allowed}") from None


def _saved(image: Image, name: str, *, moves: bool) -> bytes:
    """Return the pixels as an image file. The image is upright and has no metadata such as place, camera and
    comments."""
    image.load()
    info: dict[Any, Any] = {key: value for key, value in image.info.items() if key in KEPT}
    image.info = info
    options: dict[str, Any] = {"format": name, "exif": b""} if name != "GIF" else {"format": name, "comment": b""}
    if name == "JPEG":
        options |= {"quality": 95, "icc_profile": info.get("icc_profile")}
    if name == "WEBP":
        options |= {"lossless": True, "xmp": b""}
    if moves:
        options |= {"save_all": True}
    buffer = io.BytesIO()
    image.save(buffer, **options)
    return buffer.getvalue()


def metric_signs(
    study: Study, metric: str, material: StudyMaterial, pairs: Sequence[Pair], *, aspect: str
) -> tuple[str, Signs]:
    """Return the name of the metric that a pattern selects, and the metric's preferences (pairs, items): 1, 0, -1 or
    `ABSENT`.

    Scores that differ only by rounding error are ties. Raise `OptionError` if the pattern does not select exactly one
    metric, and `InputError` if the metric has no scores of these outputs.
    """
    aspects = study.aspects
    chosen = study.select(metrics=metric, aspect=aspect if aspect in aspects else None, one_side=True)
    if len(chosen.metrics) != 1:
        raise OptionError(
            f"metric={metric!r} selects {len(chosen.metrics)} metrics ({listed(chosen.metrics)}); name one"
        )
    (name,) = chosen.metrics
    scored = [aspect] if aspect in aspects else list(dict.fromkeys(chosen._rows_of([name])["aspect"]))
    if len(scored) > 1:
        raise OptionError(
            f"metric={metric!r} has scores of {len(scored)} aspects ({listed(scored)}), but the "
            "first aspect of the question is not among them; give this aspect one of these names"
        )
    scores = chosen.ratings.frame.filter(rater=name)["score"].to_numpy()
    noise = FLOAT_NOISE * float(np.ptp(scores)) if len(scores) else 0.0
    comparison = all_raters(chosen, scored[0], {"ties": noise})
    rows = comparison.preferences.of_rater(1)
    items = label_codes(pl.Series(comparison.items, dtype=pl.String), [item.label for item in material.items])
    place = {pair: number for number, pair in enumerate(zip(rows.system_a, rows.system_b, strict=True))}
    signs = np.full((len(pairs), len(material.items)), ABSENT, dtype=np.int8)
    for row, (a, second) in zip(signs, pairs, strict=True):
        b = str(second)  # comparisons have two systems
        turn = 1 if (a, b) in place else -1
        number = place.get((a, b) if turn == 1 else (b, a), -1)
        here = (rows.pair == number) & (items[rows.item] >= 0)
        row[items[rows.item[here]]] = turn * rows.sign[here]
    if (signs == ABSENT).all():
        raise InputError(f"{study.name}: {name!r} has no scores of these outputs; add the scores")
    return name, signs
