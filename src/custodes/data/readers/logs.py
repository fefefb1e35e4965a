"""Functions for logs of evaluation tools: size limits, parsing of JSON with a declared layout, and conversion of
records to a study.

A layout has the structure of the JSON, with only the fields that are read. Other fields are ignored.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from custodes.data.items import Items
from custodes.data.loading import LARGEST_MEMBER, decode_text, parse_json, read_file_bytes
from custodes.data.notes import Note, build_notes
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import KEY, Ratings
from custodes.data.readers.outputs import build_outputs
from custodes.data.readers.reader import Invalid, PathReader
from custodes.data.study import Study
from custodes.data.table import UNPAIRED_SURROGATE
from custodes.errors import InputError, join_labels
from custodes.strict_json import prepare_decoder

HEAD = 2**20
"""Number of bytes of a file of JSON Lines that are searched for keys."""

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
Label = str | int | float


def layout_type(layout: Any) -> Any:
    """The msgspec type of a JSON layout: `{field: type}`, `{field: (type, default)}`, `{str: type}` for objects with
    any keys, `[type]`, or a type.

    >>> tag = layout_type({"name": str, "score": (float, None)})
    >>> msgspec.convert({"name": "a", "more": 1}, tag).score is None
    True
    """
    if isinstance(layout, list):
        return list[layout_type(layout[0])]  # type: ignore[misc]
    if not isinstance(layout, dict):
        return layout
    if list(layout) == [str]:
        return dict[str, layout_type(layout[str])]  # type: ignore[misc]
    struct_field_tuples: list[Any] = []
    for field_name, field_layout in layout.items():
        if isinstance(field_layout, tuple):
            field_type, default_value = layout_type(field_layout[0]), field_layout[1]
            struct_field_tuples.append(
                (field_name, field_type | None if default_value is None else field_type, default_value)
            )
        else:
            struct_field_tuples.append((field_name, layout_type(field_layout)))
    return prepare_decoder(msgspec.defstruct("Layout", struct_field_tuples, kw_only=True))


def log_bytes(path: Path) -> bytes:
    """The content of a file. A file above the size limit raises `InputError`."""
    if os.path.isfile(path) and path.stat().st_size > LARGEST_MEMBER:
        raise InputError(f"{path.name}: the file is larger than {LARGEST_MEMBER // 2**20} MiB; split the file")
    return read_file_bytes(path)


def parse_log(json_bytes: bytes, layout: Any, *, where: str, what: str) -> Any:
    """Parse JSON with a declared layout. Invalid JSON and JSON with a different layout give different messages."""
    json_text = decode_text(json_bytes, where)
    decoded_value = parse_json(json_text, where=where, as_text=False)
    if "\\ud" in json_text.lower() and LONE_SURROGATE.search(json.dumps(decoded_value, ensure_ascii=False)):
        raise InputError(f"{where}: holds {UNPAIRED_SURROGATE}; correct the text")
    return convert_to_layout(decoded_value, layout, where=where, what=what)


def convert_to_layout(value: Any, layout: Any, *, where: str, what: str) -> Any:
    """A decoded value, converted to the declared layout. `what` is the name of the format in messages."""
    try:
        return msgspec.convert(value, layout, strict=False)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        keys_text = f"; it has the keys {join_labels(value)}" if isinstance(value, dict) and value else ""
        raise InputError(f"{where}: this does not have the layout of {what}: {error}{keys_text}") from None


def top_keys(path: Path) -> frozenset[str]:
    """The keys of the object in a .json file; empty for other content and for a damaged file."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return frozenset()
    file_status = path.stat()
    return _keys(path.resolve(), file_status.st_mtime_ns, file_status.st_size)


@lru_cache(maxsize=128)
def _keys(path: Path, modified_ns: int, size: int) -> frozenset[str]:
    """The keys. Because every format reads the keys, the keys are cached as long as the file does not change."""
    try:
        with path.open("rb") as stream:
            if not stream.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
                return frozenset()
        return frozenset(json.loads(log_bytes(path)))
    except (OSError, ValueError, RecursionError, InputError):
        return frozenset()


def has_keys(path: Path, *keys: str) -> bool:
    """Whether the object in a .json file has these keys, or the first `HEAD` bytes of another file contain them."""
    if path.suffix.lower() == ".json":
        return top_keys(path).issuperset(keys)
    with path.open("rb") as stream:
        first_bytes = stream.read(HEAD)
    return all(f'"{key}"'.encode() in first_bytes for key in keys)


def format_label(value: Label) -> str:
    """An identifier as a label: integers without a decimal point."""
    is_whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
    return str(int(value) if is_whole else value).strip()


@dataclass(kw_only=True)
class LogRecords:
    """Scores, texts and sources of a log, which are added one by one. `where` is the name of the log in messages.

    `scores` has item, system, rater, aspect, repeat and score. `texts` has item, system and text. `sources` has item,
    source and references; the first row of an item counts. `groups` maps an item to a group. `lower` has the raters for
    which lower is better.
    """

    where: str
    scores: list[tuple[str, str, str, str, str, float | None]] = field(default_factory=list)
    texts: list[tuple[str, str, str | None]] = field(default_factory=list)
    sources: list[tuple[str, str, list[str]]] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    lower: set[str] = field(default_factory=set)
    runs: dict[tuple[str, str], str] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)

    def load(self, path: Path, name: str) -> bytes:
        """Read one file of the log. The digest of the study includes the content of the file."""
        file_bytes = log_bytes(path)
        self.digest.update(f"{name}\0{len(file_bytes)}\0".encode() + file_bytes)
        return file_bytes

    def lines(self, path: Path, name: str, layout: Any, *, what: str) -> Iterator[tuple[dict[str, Any], Any]]:
        """The object in each line of a file of JSON Lines, in two forms: as decoded, and converted to the declared
        layout."""
        for line_number, line_bytes in enumerate(self.load(path, name).split(b"\n"), start=1):
            if line_bytes.strip():
                line_location = f"{path.name}, line {line_number}"
                line_object = parse_log(line_bytes, dict[str, Any], where=line_location, what=what)
                yield line_object, convert_to_layout(line_object, layout, where=line_location, what=what)

    def run(self, task: str, model: str, source: str) -> None:
        """Register a run. A second run of the same model on the same task raises `InputError`."""
        if (task, model) in self.runs:
            raise InputError(
                f"{self.where}: {self.runs[task, model]} and {source} are both runs of {model} on {task}; give only "
                "one of these runs"
            )
        self.runs[task, model] = source

    def score(self, item: str, system: str, rater: str, value: float | None, *, repeat: str = "0") -> None:
        """Add one score of a metric. None and NaN are missing scores."""
        self.kinds.setdefault(rater.strip(), "metric")
        self.scores.append((item, system, rater, "", repeat, None if value is None or math.isnan(value) else value))

    def study(
        self, *, preferences: Preferences | None = None, notes: Sequence[Note] = (), sides: bool = False
    ) -> Study:
        """The study of all records. Duplicate scores, and a log without scores and preferences, raise `InputError`."""
        try:
            score_table = pl.DataFrame(
                self.scores, schema={**dict.fromkeys(KEY, pl.String), "score": pl.Float64}, orient="row"
            )
            group_table = pl.DataFrame(
                list(self.groups.items()), schema={"item": pl.String, "group": pl.String}, orient="row"
            )
            outputs, text_notes = build_outputs(self.texts, self.sources, where=self.where)
        except UnicodeEncodeError:
            raise InputError(f"{self.where}: holds {UNPAIRED_SURROGATE}; correct the text") from None
        n_missing_scores = score_table["score"].null_count()
        if n_missing_scores == score_table.height and not (preferences and preferences.frame.height):
            raise InputError(f"{self.where}: no sample has a score; give logs with scores")
        duplicate_rows = score_table.filter(pl.struct(KEY).is_duplicated())
        if duplicate_rows.height:
            first_duplicate_row = duplicate_rows.row(0, named=True)
            raise InputError(
                f"{self.where}: {first_duplicate_row['rater']} scored item {first_duplicate_row['item']!r} of "
                f"{first_duplicate_row['system']} more than once ({duplicate_rows.height} such scores); give one run "
                "of each system"
            )
        return Study(
            ratings=Ratings.make(score_table, where=self.where)[0] if score_table.height else Ratings(),
            preferences=preferences or Preferences(),
            raters=Raters(
                frame=Raters.infer(self.kinds).frame.with_columns(
                    higher_is_better=~pl.col("rater").is_in([*self.lower])
                )
            ),
            items=Items.make(group_table, where=self.where)[0],
            outputs=outputs,
            notes=(
                *notes,
                *build_notes(
                    (
                        "missing-score",
                        n_missing_scores,
                        f"{self.where}: {n_missing_scores} scores are missing and count as not rated",
                    ),
                ),
                *text_notes,
            ),
            name=self.where,
            digest=self.digest.hexdigest()[:16],
            sides=sides,
        )


def log_reader(
    name: str,
    *,
    what: str,
    patterns: Sequence[str],
    depth: int,
    missing_contents: str,
    is_log: Callable[[Path], bool],
    make: Callable[..., Study],
) -> PathReader:
    """Create the reader of a format of log files.

    Parameters
    ----------
    name, what
        The name of the reader, and the name of the format in messages.
    patterns
        Globs of the names of log files.
    depth
        Number of levels of subfolders that may contain log files.
    missing_contents
        The description of what is missing in a folder without a log, for the message.
    is_log
        Function that returns whether a file is a log, according to its name and its keys (see `has_keys`).
    make
        Function that makes a study: `make(files, where=, invalid=)`.
    """

    def logs(path: Path) -> Iterator[Path]:
        return (
            log_path
            for n_levels in range(depth + 1)
            for name_pattern in patterns
            for log_path in sorted(path.glob("*/" * n_levels + name_pattern))
            if log_path.is_file() and is_log(log_path)
        )

    def fits(path: Path) -> bool:
        return next(logs(path), None) is not None if path.is_dir() else path.is_file() and is_log(path)

    def read(path: Path, *, part: str | None, invalid: Invalid) -> Study:
        source_name = path.resolve().name
        if part is not None:
            raise InputError(f"{source_name}: {what} has no parts; remove ::{part} from the path")
        log_paths = list(logs(path)) if path.is_dir() else [path]
        if not log_paths:
            raise InputError(f"{source_name}: the folder does not hold {what}: {missing_contents}")
        return make(log_paths, where=source_name, invalid=invalid)

    return PathReader(name=name, fits=fits, make=read)


def parse_number(value: object, number_of_word: Mapping[str, float] = {}) -> float | None:
    """A value as a number; None if the value cannot be converted. True becomes 1, a text with a number becomes the
    number, and a word becomes its number in `number_of_word`."""
    number_or_word = value
    if isinstance(value, str):
        word = value.strip().lower()
        number_or_word = number_of_word.get(word, None if "_" in word else word)  # float() would read 1_0 as 10
    try:
        return float(number_or_word) if isinstance(number_or_word, bool | int | float | str) else None
    except OverflowError:
        return math.inf
    except ValueError:
        return None
