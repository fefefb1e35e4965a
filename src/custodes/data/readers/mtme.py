"""mt-metrics-eval V2: a folder or a tar with sources, references, outputs, documents, human scores and metric scores.

One test set and language pair is read, as in `PATH::wmt23/en-de`. Members of a tar are read into memory and never
extracted. Only plain files with expected names are used.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from os.path import commonpath
from pathlib import Path, PurePosixPath

import polars as pl

from custodes.data.items import Items
from custodes.data.loading import LARGEST, LARGEST_MEMBER, decode_text, holds_table, read_file_bytes
from custodes.data.notes import build_notes
from custodes.data.outputs import SCHEMA, Outputs
from custodes.data.raters import Raters
from custodes.data.ratings import SCHEMA as RATINGS
from custodes.data.ratings import Ratings
from custodes.data.readers.reader import Invalid, PathReader
from custodes.data.study import Study
from custodes.data.table import digest_of, format_counts, number_column, refuse
from custodes.errors import InputError, join_labels, reject, suggestion

PARTS = ("sources", "references", "system-outputs", "documents", "human-scores", "metric-scores")
SOURCE = re.compile(r"(?:\./)?(?:(.*[^/])/)?sources/([^/]+)\.txt")
UNUSED_SUFFIXES = (".domain.score", ".seg.rating")
"""Suffixes of files that are not used: means by domain, and individual error annotations."""

KNOWN_LAYOUTS = (
    "test sets of mt-metrics-eval (TESTSET/sources/LP.txt), logs of Inspect, lm-evaluation-harness, HELM or "
    "Every Eval Ever, results of AlpacaEval (MODEL/ANNOTATOR/annotations.json) or RewardBench 2, texts "
    "(SYSTEM/ITEM.txt), shards of Parquet, and data sets written by save_to_disk"
)
"""All layouts of folders that the readers know. This reader is tried last, so its error message lists all layouts."""


def _reject_layout(path: Path, name: str) -> None:
    """Raise `InputError` for a folder or tar that cannot be read."""
    entry_names = sorted(entry.name for entry in path.iterdir() if entry.name[0] != ".") if path.is_dir() else []
    reject(
        (
            not path.is_dir(),
            f"{name}: no test sets of mt-metrics-eval, as TESTSET/sources/LP.txt is missing; give a tar of test sets",
        ),
        (not entry_names, f"{name}: the folder is empty; give a folder or file with data"),
        (
            True,
            f"{name}: the layout of this folder is unknown; give an entry of it ({join_labels(entry_names, limit=5)}), "
            f"or a known layout: {KNOWN_LAYOUTS}",
        ),
        error=InputError,
    )


def read_mtme(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """The study of one test set and language pair.

    The item is the number of the segment (from 1), the cluster is the document, and the group is the domain. The raters
    are the stems of the score files. System-level scores are rows with an empty item.
    """
    path_name = path.resolve().name
    roots_and_language_pairs = {
        (member_match[1] or "", member_match[2]) for member_match, _ in _iter_members(path, SOURCE)
    }
    if not roots_and_language_pairs:
        _reject_layout(path, path_name)
    common_folder = commonpath([PurePosixPath(test_set_root).parent for test_set_root, _ in roots_and_language_pairs])
    # Test sets by their path below the common folder. If `path` is itself a test set, its name is used.
    root_and_pair_of_label = {
        (PurePosixPath(test_set_root).relative_to(common_folder) if test_set_root else PurePosixPath(path_name))
        .joinpath(language_pair)
        .as_posix(): (
            test_set_root,
            language_pair,
        )
        for test_set_root, language_pair in sorted(roots_and_language_pairs)
    }
    test_set_label = _select_test_set(root_and_pair_of_label, part, where=path_name)
    test_set_root, language_pair = root_and_pair_of_label[test_set_label]
    root_regex = re.escape(f"{test_set_root}/" if test_set_root else "")
    member_regex = re.compile(
        rf"(?:\./)?{root_regex}((?:{'|'.join(PARTS)})/{re.escape(language_pair)}(?:\.[^/]+|/[^/]+))"
    )
    return _study(
        dict(
            sorted(
                {
                    member_match[1]: decode_text(member_bytes, member_match[1])
                    for member_match, member_bytes in _iter_members(path, member_regex)
                }.items()
            )
        ),
        language_pair,
        name=f"{path_name}::{test_set_label}",
    )


def _select_test_set(test_set_labels: Collection[str], part: str | None, *, where: str) -> str:
    """The test set that a part names. A part is TESTSET/LP, TESTSET or LP, or has more path components if these names
    are ambiguous."""
    fitting_labels = [
        label
        for label in test_set_labels
        if part is None or any(f"/{label_end}".endswith(f"/{part}") for label_end in (label, label.rpartition("/")[0]))
    ]
    if part in test_set_labels or len(fitting_labels) == 1:
        return part if part in test_set_labels else fitting_labels[0]  # type: ignore[return-value]
    if part is None or fitting_labels:
        raise InputError(
            f"{where}: holds several test sets; select one with PATH::TESTSET/LP: {join_labels(fitting_labels)}"
        )
    raise InputError(
        f"{where}: no test set {part!r}; test sets: {join_labels(test_set_labels)}{suggestion(part, test_set_labels)}"
    )


def _iter_members(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    """The plain files of a folder or tar whose names match the pattern, each with its content. Files that are not used
    are skipped.

    A folder may be the test set itself or contain it one or two levels below. Links, devices and sparse files of a tar
    are skipped.
    """
    if path.is_dir():
        for file_path in (
            file_path
            for depth_glob in ("", "*/", "*/*/")
            for folder_name in PARTS
            for subpath_glob in ("*", "*/*")
            for file_path in path.glob(f"{depth_glob}{folder_name}/{subpath_glob}")
        ):
            name_match = pattern.fullmatch(file_path.relative_to(path).as_posix())
            if name_match and file_path.is_file():
                yield name_match, b"" if file_path.name.endswith(UNUSED_SUFFIXES) else read_file_bytes(file_path)
        return
    total_size = 0
    try:
        with tarfile.open(path) as tar_file:
            for tar_member in tar_file:
                name_match = pattern.fullmatch(tar_member.name)
                if not name_match or not tar_member.isreg() or tar_member.issparse():
                    continue
                total_size += tar_member.size
                reject(
                    (
                        tar_member.size > LARGEST_MEMBER,
                        f"{path.name}: {tar_member.name} is larger than 512 MiB; unpack the tar and give the folder",
                    ),
                    (
                        total_size > LARGEST,
                        f"{path.name}: a test set is larger than 2,048 MiB; unpack the tar and give the folder",
                    ),
                    error=InputError,
                )
                member_stream = tar_file.extractfile(tar_member)
                yield (
                    name_match,
                    b"" if member_stream is None or tar_member.name.endswith(UNUSED_SUFFIXES) else member_stream.read(),
                )
            _check_end(tar_file)
    except InputError:
        raise
    except Exception as error:  # tarfile and decompressors raise many kinds of errors on damaged bytes
        raise InputError(f"{path.name}: a damaged or truncated tar file ({error}); copy or download it again") from None


def _check_end(tar: tarfile.TarFile) -> None:
    """Raise an error if the tar has no block of zeros after the last file, or if the compressed stream is truncated."""
    stream = tar.fileobj
    assert stream is not None
    stream.seek(tar.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise EOFError("the end of the archive is missing")
    while stream.read(tarfile.RECORDSIZE):
        pass


def _study(text_of_file: Mapping[str, str], language_pair: str, *, name: str) -> Study:
    source_lines = _lines(text_of_file[f"sources/{language_pair}.txt"])
    segment_labels = pl.Series("item", range(1, len(source_lines) + 1)).cast(pl.String)
    kind_of_rater: dict[str, str] = {}
    score_tables = [pl.DataFrame(schema=RATINGS)]
    for file_name, file_text in text_of_file.items():
        score_file_match = re.fullmatch(
            rf"(human|metric)-scores/{re.escape(language_pair)}[./](.+)\.(seg|sys)\.score", file_name
        )
        if score_file_match:
            rater_kind, rater_name, score_level = score_file_match.groups()
            if kind_of_rater.setdefault(rater_name, rater_kind) != rater_kind:
                raise InputError(
                    f"{name}: {rater_name!r} has a file of human scores and a file of metric scores; rename one of the "
                    "two files"
                )
            score_rows = _scores(
                file_text, has_segments=score_level == "seg", where=file_name, n_segments=len(source_lines)
            )
            score_tables.append(
                score_rows.with_columns(rater=pl.lit(rater_name), aspect=pl.lit(""), repeat=pl.lit("0")).select(
                    list(RATINGS)
                )
            )
    score_table = pl.concat(score_tables)
    unused_file_names = [
        file_name.rpartition("/")[2] for file_name in text_of_file if file_name.endswith(UNUSED_SUFFIXES)
    ]
    missing_score_rows = score_table.filter(pl.col("score").is_null())
    notes = build_notes(
        (
            "missing-score",
            missing_score_rows.height,
            f"{name}: {missing_score_rows.height} scores are None and count as not rated "
            f"({format_counts(missing_score_rows['rater'])})",
        ),
        ("unused-files", len(unused_file_names), f"{name}: files not used: {join_labels(unused_file_names)}"),
    )
    documents_file_name = f"documents/{language_pair}.docs"
    item_properties = Items()
    if documents_file_name in text_of_file:
        document_table = _read_word_pairs(
            text_of_file[documents_file_name],
            ("group", "cluster"),
            where=documents_file_name,
            layout="DOMAIN<TAB>DOCUMENT",
        )
        _check_length(document_table.height, len(source_lines), where=documents_file_name)
        item_properties, _ = Items.make(document_table.with_columns(segment_labels), where=documents_file_name)
    return Study(
        ratings=Ratings(frame=score_table.drop_nulls("score")),
        raters=Raters.infer(kind_of_rater),
        items=item_properties,
        outputs=_outputs(text_of_file, language_pair, segment_labels, source_lines),
        notes=tuple(notes),
        name=name,
        digest=digest_of(*(f"{file_name}\0{file_text}\0" for file_name, file_text in text_of_file.items())),
    )


def _scores(text: str, *, has_segments: bool, where: str, n_segments: int) -> pl.DataFrame:
    """The item, system and score of each line in a file. For each system, the file has a line per segment, or a single
    line, whose item is empty."""
    n_lines = n_segments if has_segments else 1
    score_table = _read_word_pairs(text, ("system", "score"), where=where, layout="SYSTEM<TAB>SCORE")
    line_count_table = score_table["system"].value_counts(sort=True)
    wrong_count_rows = line_count_table.filter(pl.col("count") != n_lines).sort("system")
    if wrong_count_rows.height:
        system_name, n_system_lines = wrong_count_rows.row(0)
        raise InputError(
            f"{where}: system {system_name!r} has {n_system_lines} lines, expected {n_lines} (the source has "
            f"{n_segments} lines; this file has {score_table.height} lines for {line_count_table.height} systems and "
            f"should have {line_count_table.height * n_lines})"
        )
    return score_table.select(
        pl.col("system").cum_count().over("system").cast(pl.String).alias("item")
        if has_segments
        else pl.lit("").alias("item"),
        "system",
        number_column(score_table, "score", where=where),
    )


def _outputs(
    text_of_file: Mapping[str, str], language_pair: str, segment_labels: pl.Series, source_lines: Sequence[str]
) -> Outputs:
    """The texts of systems, and the sources with references."""
    output_folder_prefix = f"system-outputs/{language_pair}/"
    lines_of_file = {
        file_name: _lines(file_text)
        for file_name, file_text in text_of_file.items()
        if file_name.startswith(("references/", output_folder_prefix))
    }
    system_tables, references_of_item = [pl.DataFrame(schema=SCHEMA)], [list[str]() for _ in source_lines]
    for file_name, file_lines in lines_of_file.items():
        _check_length(len(file_lines), len(source_lines), where=file_name)
        if file_name.startswith("references/"):
            for references, reference_line in zip(references_of_item, file_lines, strict=True):
                references.append(reference_line)
        elif file_name.endswith(".txt"):
            system_name = file_name.removeprefix(output_folder_prefix).removesuffix(".txt")
            system_tables.append(pl.DataFrame({"item": segment_labels, "system": system_name, "text": file_lines}))
    return Outputs.from_sources(
        pl.concat(system_tables),
        pl.DataFrame(
            {"item": segment_labels, "source": source_lines, "references": references_of_item},
            schema_overrides={"references": pl.List(pl.String)},
        ),
    )


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _read_word_pairs(text: str, column_names: tuple[str, str], *, where: str, layout: str) -> pl.DataFrame:
    word_pair_table = (
        pl.Series("line", _lines(text), dtype=pl.String)
        .str.strip_chars()
        .str.extract_groups(r"^(?<{}>\S+)\s+(?<{}>\S+)$".format(*column_names))
        .struct.unnest()
    )
    refuse(word_pair_table[column_names[0]].is_null(), lambda rows, _: f"{where}: line {rows} is not {layout}")
    return word_pair_table


def _check_length(n_lines: int, n_expected_lines: int, *, where: str) -> None:
    if n_lines != n_expected_lines:
        raise InputError(f"{where}: {n_lines} lines, expected {n_expected_lines} (one per line of the source)")


def fits(path: Path) -> bool:
    """Whether a path may have this format. This is true for a tar, and for any folder that is not a table."""
    return not holds_table(path) if path.is_dir() else path.name.lower().endswith((".tar", ".tar.gz", ".tgz"))


READER = PathReader(name="mtme", fits=fits, make=read_mtme)
