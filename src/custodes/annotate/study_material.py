"""The displayed content of a study (items, outputs and images), and the preferences of its metric."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl

from custodes.arguments import value_list
from custodes.data.loading import check_exists
from custodes.data.outputs import missing_texts_error
from custodes.data.patterns import Patterns, select_labels
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.data.ties_and_orders import human_threshold
from custodes.errors import InputError, MissingExtraError, OptionError, join_labels, reject, short_repr, suggestion
from custodes.evaluate.rater_comparison import compare_all_raters
from custodes.progress import Progress
from custodes.stats import ABSENT
from custodes.stats.arrays import Signs

if TYPE_CHECKING:
    from PIL.Image import Image


Pair = tuple[str, str | None]
"""Two systems to compare, or one system to rate and None."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """An item. `context` is a text, or the turns of a dialogue as JSON (see `parse_turns`). `images` are paths.
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
    def from_study(cls, study: Study, *, systems: Patterns = None) -> StudyMaterial:
        """Return the texts of a study. Raise `InputError` if the study has no texts."""
        study_outputs = study.outputs
        if study_outputs is None or not study_outputs.texts.height:
            raise missing_texts_error(study)
        system_patterns = study.selection.get("systems") if systems is None else systems
        available_systems = tuple(study_outputs.texts["system"].unique().sort())
        selected_systems = select_labels(system_patterns, available_systems, option="systems", what="system")
        text_frame = study_outputs.texts.filter(pl.col("system").is_in(list(selected_systems)))
        image_rows = study_outputs.images.group_by("item", "system", maintain_order=True).agg("image").iter_rows()
        image_paths_of_output = {
            (item_label, system): tuple(image_paths) for item_label, system, image_paths in image_rows
        }
        output_of_item_and_system = {
            (item_label, system): SystemOutput(
                text=output_text, images=image_paths_of_output.get((item_label, system), ())
            )
            for item_label, system, output_text in text_frame.select("item", "system", "text").iter_rows()
        }
        item_frame = study.items.item_rows(text_frame["item"].unique(maintain_order=True)).select(
            "item", "cluster", "group"
        )
        source_row_of_item = {
            source_row["item"]: source_row for source_row in study_outputs.sources.iter_rows(named=True)
        }
        items = []
        for item_label, cluster_name, group_name in item_frame.iter_rows():
            source_row = source_row_of_item.get(item_label, {})
            items.append(
                Item(
                    label=item_label,
                    cluster=cluster_name,
                    group=group_name,
                    source=source_row.get("source", ""),
                    context=source_row.get("context", ""),
                    images=tuple(source_row.get("images", ())),
                    meta=source_row.get("meta", ""),
                    references=tuple(source_row.get("references", ())),
                )
            )
        return cls(items=tuple(items), systems=tuple(sorted(selected_systems)), outputs=output_of_item_and_system)

    def labels(self) -> list[str]:
        """Return the labels of the items."""
        return [item.label for item in self.items]


def read_material(texts: Any, *, systems: Patterns = None) -> tuple[Study, StudyMaterial]:
    """Return a study and its displayed content. `texts` is a study, or one or several inputs that `read` accepts."""
    study = texts if isinstance(texts, Study) else read(*(texts if isinstance(texts, list | tuple) else [texts]))
    return study, StudyMaterial.from_study(study, systems=systems)


def pairs_of(systems: Sequence[str], pairs: Sequence[Any] | str | None, *, mode: str) -> list[Pair]:
    """Return the pairs of systems to compare: all pairs, or the pairs that are named ('A:B', or two names).

    >>> pairs_of(["A", "B", "C"], ["A:C"], mode="compare"), pairs_of(["A", "B"], None, mode="rate")
    ([('A', 'C')], [('A', None), ('B', None)])
    """
    sorted_systems = sorted(systems)
    if mode == "rate":
        reject(
            (
                pairs is not None,
                f"pairs={short_repr(pairs)} has no effect, because annotators rate single outputs; use systems instead",
            )
        )
        return [(system, None) for system in sorted_systems]
    if len(sorted_systems) < 2:
        raise InputError(
            f"only one system ({', '.join(sorted_systems)}), but a comparison needs two; add systems, "
            'or collect ratings with mode = "rate"'
        )
    if pairs is None:
        return list(combinations(sorted_systems, 2))
    allowed_pair_labels = [
        f"{first_system}:{second_system}" for first_system, second_system in permutations(sorted_systems, 2)
    ]
    pair_entries = [pairs] if isinstance(pairs, str) else pairs
    named_pairs = [
        _pair(pair_specification, sorted_systems)
        for pair_entry in pair_entries
        for pair_specification in (
            value_list("pairs", pair_entry, labels=allowed_pair_labels) if isinstance(pair_entry, str) else [pair_entry]
        )
    ]
    return list(dict.fromkeys(named_pairs))


def _pair(pair_specification: Any, systems: Sequence[str]) -> Pair:
    system_names = pair_specification
    if isinstance(pair_specification, str):  # labels may contain colons; use the split that names two systems
        candidate_name_pairs = [
            (pair_specification[:colon_index], pair_specification[colon_index + 1 :])
            for colon_index, character in enumerate(pair_specification)
            if character == ":"
        ]
        system_names = next(
            (
                candidate_name_pair
                for candidate_name_pair in candidate_name_pairs
                if set(candidate_name_pair) <= set(systems)
            ),
            candidate_name_pairs[0] if candidate_name_pairs else (),
        )
    if not (
        isinstance(system_names, list | tuple)
        and len(system_names) == 2
        and all(isinstance(system_name, str) for system_name in system_names)
    ):
        raise OptionError(f"pairs: {short_repr(pair_specification)} does not name two systems; write FIRST:SECOND")
    first_system, second_system = sorted(system_names)
    reject(
        *(
            (
                system_name not in systems,
                f"pairs: no such system {short_repr(system_name)}{suggestion(system_name, systems)}",
            )
            for system_name in system_names
        ),
        (
            first_system == second_system,
            f"pairs: {short_repr(pair_specification)} compares a system with itself; name two different systems",
        ),
    )
    return first_system, second_system


T = TypeVar("T", Item, SystemOutput)

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
"""Metadata that images keep, because colours and animation depend on these metadata."""
REMOTE = ("http://", "https://", "data:", "ftp://")


@dataclass(frozen=True, kw_only=True)
class Medium:
    """An image in the form in which it is served. The name of an image consists of the SHA-256 hash of the content and
    the extension of the type, so the name does not reveal the author."""

    name: str
    type: str
    content: bytes


def load_images(material: StudyMaterial, *, progress: Progress) -> tuple[StudyMaterial, Iterable[Medium]]:
    """Return the material and its images. In the material, the path of each image is replaced by the name under which
    the image is served. Raise `InputError` for the first invalid path or image."""
    items_and_outputs: list[Item | SystemOutput] = [*material.items, *material.outputs.values()]
    image_paths = list(
        dict.fromkeys(image_path for item_or_output in items_and_outputs for image_path in item_or_output.images)
    )
    if not image_paths:
        return material, ()
    medium_of_path = {
        image_path: medium(image_path) for image_path in progress(image_paths, total=len(image_paths), desc="images")
    }

    def with_names(item_or_output: T) -> T:
        return replace(
            item_or_output, images=tuple(medium_of_path[image_path].name for image_path in item_or_output.images)
        )

    return replace(
        material,
        items=tuple(map(with_names, material.items)),
        outputs={item_and_system: with_names(output) for item_and_system, output in material.outputs.items()},
    ), medium_of_path.values()


def medium(path: str) -> Medium:
    """Return the image in a file. Raise `InputError` for a web address, and for a file that is not a displayable
    image."""
    file_path = Path(path)
    reject(
        (
            path.lower().startswith(REMOTE),
            f"image {short_repr(path)}: this is an address, but images must be files; download the image, and give "
            "the path of the file",
        ),
        ("\0" in path, f"image {short_repr(path)}: not a valid file name"),
        error=InputError,
    )
    check_exists(file_path)
    try:
        if not file_path.is_file():
            raise InputError(f"image {short_repr(path)}: no such file")
        n_bytes = file_path.stat().st_size
        if n_bytes > LARGEST:
            raise InputError(
                f"image {short_repr(path)}: {n_bytes / 2**20:.1f} MiB, but the limit is {LARGEST >> 20} MiB; make the "
                "image smaller"
            )
        file_content = file_path.read_bytes()
    except OSError as problem:
        raise InputError(f"image {short_repr(path)}: cannot be read: {problem.strerror}") from None
    image_format, image_bytes = _reencode_image(file_content, path)
    mime_type, extension = TYPES[image_format]
    return Medium(name=f"{hashlib.sha256(image_bytes).hexdigest()}.{extension}", type=mime_type, content=image_bytes)


def _reencode_image(file_content: bytes, path: str) -> tuple[str, bytes]:
    """Return the format of an image, and its content encoded again from its pixels."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError("images need Pillow: pip install 'custodes[annotate]'") from error
    allowed_formats_text = "PNG, JPEG, WebP or GIF"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the size is checked below
            with Image.open(io.BytesIO(file_content), formats=list(TYPES)) as image:
                n_pixels = image.width * image.height * getattr(image, "n_frames", 1)
                if n_pixels > PIXELS:
                    raise InputError(
                        f"image {short_repr(path)}: {image.width} x {image.height} pixels ({n_pixels / 1000000.0:.0f} "
                        f"million in all), but the limit is {PIXELS // 10**6} million; make the image smaller"
                    )
                image_format, is_animated = str(image.format), getattr(image, "is_animated", False)
                upright_image = image if is_animated else ImageOps.exif_transpose(image)
                return image_format, _encode_image(upright_image, image_format, is_animated=is_animated)
    except Image.DecompressionBombError:
        raise InputError(
            f"image {short_repr(path)}: more than {PIXELS // 10**6} million pixels; make the image smaller"
        ) from None
    except UnidentifiedImageError:
        raise InputError(
            f"image {short_repr(path)}: the content is not an image; allowed: {allowed_formats_text}"
        ) from None
    except InputError:
        raise
    except Exception as problem:  # Pillow raises various errors for damaged files
        cause_text = " ".join(str(problem).split())[:100] or type(problem).__name__
        raise InputError(
            f"image {short_repr(path)}: damaged ({cause_text}); save the image again as {allowed_formats_text}"
        ) from None


def _encode_image(image: Image, image_format: str, *, is_animated: bool) -> bytes:
    """Return the pixels as an image file. The image is upright and has no metadata such as place, camera and
    comments."""
    image.load()
    image.info = {info_key: info_value for info_key, info_value in image.info.items() if info_key in KEPT}
    save_options_of_format: dict[str, dict[str, Any]] = {
        "PNG": {"exif": b""},
        "JPEG": {"exif": b"", "quality": 95, "icc_profile": image.info.get("icc_profile")},
        "WEBP": {"exif": b"", "lossless": True, "xmp": b""},
        "GIF": {"comment": b""},
    }
    image_buffer = io.BytesIO()
    image.save(image_buffer, format=image_format, save_all=is_animated, **save_options_of_format[image_format])
    return image_buffer.getvalue()


def metric_signs(
    study: Study, metric_pattern: str, material: StudyMaterial, pairs: Sequence[Pair], *, aspect: str
) -> tuple[str, Signs]:
    """Return the name of the metric that a pattern selects, and the metric's preferences (pairs, items): 1, 0, -1 or
    `ABSENT`.

    Scores that differ only by rounding error are ties. Raise `OptionError` if the pattern does not select exactly one
    metric, and `InputError` if the metric has no scores of these outputs.
    """
    study_aspects = study.aspects
    metric_study = study.select(
        metrics=metric_pattern, aspect=aspect if aspect in study_aspects else None, one_side=True
    )
    if len(metric_study.metrics) != 1:
        raise OptionError(
            f"metric={metric_pattern!r} selects {len(metric_study.metrics)} metrics "
            f"({join_labels(metric_study.metrics)}); name one"
        )
    (metric_name,) = metric_study.metrics
    scored_aspects = (
        [aspect] if aspect in study_aspects else list(dict.fromkeys(metric_study._rater_rows([metric_name])["aspect"]))
    )
    if len(scored_aspects) > 1:
        raise OptionError(
            f"metric={metric_pattern!r} has scores of {len(scored_aspects)} aspects ({join_labels(scored_aspects)}), "
            "but the first aspect of the question is not among them; give the first aspect of the question one of "
            "these names"
        )
    metric_scores = metric_study.ratings.frame.filter(rater=metric_name)["score"].to_numpy()
    rater_comparison = compare_all_raters(
        metric_study, scored_aspects[0], {"ties": human_threshold(metric_scores, None)}
    )
    metric_comparisons = rater_comparison.preferences.select_rater(1)
    sign_of_comparison: dict[tuple[object, ...], int] = {
        (metric_comparisons.system_a[pair_index], metric_comparisons.system_b[pair_index], item_index): preference_sign
        for pair_index, item_index, preference_sign in zip(
            metric_comparisons.pair, metric_comparisons.item, metric_comparisons.sign, strict=True
        )
    }
    index_of_item = {item_label: item_index for item_index, item_label in enumerate(rater_comparison.items)}
    sign_matrix = np.array(
        [
            [sign_of_comparison.get((*pair, index_of_item.get(item_label)), ABSENT) for item_label in material.labels()]
            for pair in pairs
        ],
        dtype=np.int8,
    )
    if (sign_matrix == ABSENT).all():
        raise InputError(f"{study.name}: {metric_name!r} has no scores of these outputs; add the scores")
    return metric_name, sign_matrix
