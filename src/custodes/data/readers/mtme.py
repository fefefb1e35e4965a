"""mt-metrics-eval V2: a folder or tar of sources, references, outputs, documents, human and metric scores.

One test set and language pair is read, `PATH::wmt23/en-de`. Members of a tar are read in memory, never extracted; only
plain files with the expected names are looked at.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from glob import escape as glob_escape
from pathlib import Path
from typing import IO, Literal

import polars as pl

from custodes.data.items import Items
from custodes.data.loading import LARGEST, LARGEST_MEMBER, file_bytes, holds_table, utf8_text
from custodes.data.notes import noted
from custodes.data.outputs import SCHEMA, Outputs
from custodes.data.raters import Raters
from custodes.data.ratings import SCHEMA as RATINGS
from custodes.data.ratings import Ratings
from custodes.data.readers.reader import Invalid, PathReader
from custodes.data.study import Study
from custodes.data.table import number_column, refuse
from custodes.errors import InputError, listed, suggestion

GZIP = b"\x1f\x8b"
TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")

PARTS = ("sources", "references", "system-outputs", "documents", "human-scores", "metric-scores")
SOURCE = re.compile(r"(?:\./)?(?:(.*[^/])/)?sources/([^/]+)\.txt")
SPARE = (".domain.score", ".seg.rating")
"""Files that are not used: means over a domain, and the annotators' single errors."""

KNOWN = (
    "; other folders known: logs of Inspect, lm-evaluation-harness or HELM, results of AlpacaEval"
    " (MODEL/ANNOTATOR/annotations.json) or RewardBench 2, shards of Parquet, and what save_to_disk wrote"
)
"""Folders that other readers take: this one is asked last."""

TWO_WORDS = r"^(\S+)\s+(\S+)$"


@dataclass(frozen=True, kw_only=True)
class ScoreFile:
    """The scores of one rater: a line a segment of a system (seg), or a line a system (sys)."""

    name: str
    rater: str
    kind: Literal["human", "metric"]
    level: Literal["seg", "sys"]


def read_mtme(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """The study of one test set and language pair.

    Item = number of the segment (from 1), cluster = document, group = domain, raters = stems of the score files;
    system-level scores are rows with an empty item.
    """
    name = path.resolve().name
    pairs = sorted({(match[1] or "", match[2]) for match in map(SOURCE.fullmatch, _names(path)) if match})
    # Test sets by their steps below the path; the path itself has its own name.
    roots = {f"{root or name}/{pair}": (root, pair) for root, pair in pairs}
    if not roots:
        raise InputError(
            f"{name}: no mt-metrics-eval data: no file TESTSET/sources/LP.txt in it;"
            f" give the folder or tar that holds the test sets, or a table file{KNOWN if path.is_dir() else ''}"
        )
    label = _chosen(roots, part, where=name)
    root, pair = roots[label]
    files = _files_of_folder(path / root, pair) if path.is_dir() else _files_of_tar(path, root, pair)
    return _study(files, pair, name=f"{name}::{_shortest(label, roots)}", digest=_digest(path, files))


def _names(path: Path) -> Iterator[str]:
    """The source files of test sets; a folder may be the test set itself or hold it one or two levels below."""
    if path.is_dir():
        for depth in ("", "*/", "*/*/"):
            yield from (file.relative_to(path).as_posix() for file in path.glob(f"{depth}sources/*.txt"))
    else:
        yield from (name for name, _ in _members(path, SOURCE))


def _shortest(label: str, labels: Iterable[str]) -> str:
    """TESTSET/LP, with as many steps before it as tell it from others of that name."""
    steps = label.split("/")
    tails = ["/".join(steps[-size:]) for size in range(2, len(steps))]
    return next((tail for tail in tails if sum(_ends(other, tail) for other in labels) == 1), label)


def _ends(label: str, tail: str) -> bool:
    return f"/{label}".endswith(f"/{tail}")


def _chosen(roots: Mapping[str, tuple[str, str]], part: str | None, *, where: str) -> str:
    """The test set that a part names: TESTSET/LP, either of both, or more of its steps where two have one name."""
    fitting = [label for label in roots if part is None or _ends(label, part) or _ends(label.rpartition("/")[0], part)]
    fitting = [label for label in fitting if label == part] or fitting
    if len(fitting) == 1:
        return fitting[0]
    names = [_shortest(label, roots) for label in (fitting or roots)]
    if part is None or fitting:
        raise InputError(f"{where}: holds several test sets; say which by PATH::TESTSET/LP: {listed(names)}")
    raise InputError(f"{where}: no {part!r} in it; it holds {listed(names)}{suggestion(part, names)}")


def _files_of_folder(folder: Path, pair: str) -> dict[str, str]:
    pair = glob_escape(pair)
    files = [file for part in PARTS for pattern in (f"{pair}.*", f"{pair}/*") for file in (folder / part).glob(pattern)]
    named = {file.relative_to(folder).as_posix(): file for file in files if file.is_file()}
    return {name: "" if name.endswith(SPARE) else utf8_text(file_bytes(named[name]), name) for name in sorted(named)}


def _files_of_tar(path: Path, root: str, pair: str) -> dict[str, str]:
    place = re.escape(f"{root}/" if root else "")
    pattern = re.compile(rf"(?:\./)?{place}((?:{'|'.join(PARTS)})/{re.escape(pair)}(?:\.[^/]+|/[^/]+))")
    members = {pattern.sub(r"\1", name): data for name, data in _members(path, pattern)}
    return {name: utf8_text(members[name], name) for name in sorted(members)}


def _members(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of a tar's plain files with a wanted name; links, devices and sparse files are passed over."""
    taken = 0
    try:
        with path.open("rb") as raw:
            zipped = raw.read(len(GZIP)) == GZIP
            raw.seek(0)
            stream = _Stream(gzip.GzipFile(fileobj=raw) if zipped else raw)
            with tarfile.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
                for member in tar:
                    if not member.isreg() or member.issparse() or not pattern.fullmatch(member.name):
                        continue
                    if member.size > LARGEST_MEMBER:
                        raise InputError(
                            f"{path.name}: {member.name} is over 512 MiB; unpack the tar and give the folder"
                        )
                    taken += member.size
                    if taken > LARGEST:
                        raise InputError(
                            f"{path.name}: over 2,048 MiB of one test set; unpack the tar and give the folder"
                        )
                    content = tar.extractfile(member)
                    assert content is not None
                    yield member.name, b"" if member.name.endswith(SPARE) else content.read()
            if not stream.complete():
                raise EOFError("no end of archive")
    except InputError:
        raise
    except Exception as error:  # tarfile and the decompressors below it raise a dozen kinds on damaged bytes
        raise InputError(f"{path.name}: a damaged or truncated tar file ({error}); copy or download it again") from None


class _Stream:
    """A stream that remembers its last block: tarfile takes a tar cut between two files for a whole one."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self.file = file
        self.last = b""

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.last = (self.last + data)[-tarfile.BLOCKSIZE :]
        return data

    def complete(self) -> bool:
        """Whether the stream, read to its end, ends in a block of zeros, as every tar does."""
        while self.read(tarfile.RECORDSIZE):
            pass
        return self.last == bytes(tarfile.BLOCKSIZE)


def _digest(path: Path, files: Mapping[str, str]) -> str:
    if path.is_dir():
        content = "".join(f"{name}\0{text}\0" for name, text in files.items())
        return hashlib.sha256(content.encode()).hexdigest()[:16]
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


def _study(files: Mapping[str, str], pair: str, *, name: str, digest: str) -> Study:
    sources = _lines(files[f"sources/{pair}.txt"])
    segments = pl.Series("item", range(1, len(sources) + 1)).cast(pl.String)
    scored = [score_file for score_file in (_score_file(file, pair) for file in files) if score_file is not None]
    kinds: dict[str, str] = {}
    for file in sorted(scored, key=lambda file: file.kind):
        if kinds.setdefault(file.rater, file.kind) != file.kind:
            raise InputError(f"{name}: {file.rater!r} has human and metric scores; rename one of the files")
    empty = pl.DataFrame(schema={"item": pl.String, "system": pl.String, "score": pl.Float64, "rater": pl.String})
    rows = [_scores(file, files[file.name], len(sources)) for file in scored]
    scores = pl.concat([empty, *rows])
    spare = [file.rpartition("/")[2] for file in files if file.endswith(SPARE)]
    missing = scores.filter(pl.col("score").is_null())
    by_rater = listed(f"{rater} {n}" for rater, n in missing.group_by("rater", maintain_order=True).len().iter_rows())
    notes = noted(
        (
            "missing-score",
            missing.height,
            f"{name}: {missing.height} scores are None and count as not rated ({by_rater})",
        ),
        ("unused-files", len(spare), f"{name}: files not used: {listed(spare)}"),
    )
    ratings = scores.drop_nulls("score").with_columns(aspect=pl.lit(""), repeat=pl.lit("0"))
    return Study(
        ratings=Ratings(frame=ratings.select(list(RATINGS))),
        raters=Raters.infer(kinds),
        items=_items(files, pair, segments),
        outputs=_outputs(files, pair, segments, sources),
        notes=tuple(notes),
        name=name,
        digest=digest,
    )


def _score_file(name: str, pair: str) -> ScoreFile | None:
    for prefix, kind in ((f"human-scores/{pair}.", "human"), (f"metric-scores/{pair}/", "metric")):
        match = re.fullmatch(rf"{re.escape(prefix)}(.+)\.(seg|sys)\.score", name)
        if match:
            return ScoreFile(name=name, rater=match[1], kind=kind, level=match[2])  # type: ignore[arg-type]
    return None


def _scores(file: ScoreFile, text: str, n_segments: int) -> pl.DataFrame:
    table = _two_words(text, ("system", "score"), where=file.name, layout="SYSTEM<TAB>SCORE")
    counts = table["system"].value_counts(sort=True)
    expected = n_segments if file.level == "seg" else 1
    wrong = counts.filter(pl.col("count") != expected).sort("system")
    if wrong.height:
        system, count = wrong.row(0)
        raise InputError(
            f"{file.name}: {count} lines for system {system!r}, {expected} expected (the source has {n_segments} lines;"
            f" {counts.height} systems, {table.height} lines, expected {counts.height * expected})"
        )
    segment = pl.col("system").cum_count().over("system").cast(pl.String)
    item = segment if file.level == "seg" else pl.lit("")
    return table.select(
        item.alias("item"), "system", number_column(table, "score", where=file.name), pl.lit(file.rater).alias("rater")
    )


def _items(files: Mapping[str, str], pair: str, segments: pl.Series) -> Items:
    name = f"documents/{pair}.docs"
    if name not in files:
        return Items.empty()
    table = _two_words(files[name], ("group", "cluster"), where=name, layout="DOMAIN<TAB>DOCUMENT")
    _check_length(table.height, segments.len(), where=name)
    return Items.make(table.with_columns(segments), where=name)[0]


def _outputs(files: Mapping[str, str], pair: str, segments: pl.Series, sources: list[str]) -> Outputs:
    prefix = f"system-outputs/{pair}/"
    systems = [name for name in files if name.startswith(prefix) and name.endswith(".txt")]
    texts = [pl.DataFrame(schema=SCHEMA)]
    for name in systems:
        lines = _lines(files[name])
        _check_length(len(lines), segments.len(), where=name)
        system = pl.lit(name.removeprefix(prefix).removesuffix(".txt"))
        texts.append(pl.DataFrame({"item": segments, "text": lines}).select("item", system.alias("system"), "text"))
    references = [name for name in files if name.startswith("references/")]
    columns = [_lines(files[name]) for name in references]
    for name, lines in zip(references, columns, strict=True):
        _check_length(len(lines), segments.len(), where=name)
    by_item = [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in sources]
    items = pl.DataFrame(
        {"item": segments, "source": sources, "references": by_item},
        schema_overrides={"references": pl.List(pl.String)},
    )
    return Outputs.of(pl.concat(texts), items)


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _two_words(text: str, names: tuple[str, str], *, where: str, layout: str) -> pl.DataFrame:
    lines = pl.Series("line", _lines(text), dtype=pl.String).str.strip_chars()
    words = lines.str.extract_groups(TWO_WORDS).struct.unnest()
    words.columns = list(names)
    refuse(words[names[0]].is_null(), lambda rows, _: f"{where}: line {rows} is not {layout}")
    return words


def _check_length(came: int, expected: int, *, where: str) -> None:
    if came != expected:
        raise InputError(f"{where}: {came} lines, {expected} expected (one for every line of the source)")


def fits(path: Path) -> bool:
    """Whether a path may be of this format: a tar, or any folder that is no table."""
    return not holds_table(path) if path.is_dir() else path.name.lower().endswith(TAR_SUFFIXES)


READER = PathReader(name="mtme", fits=fits, make=read_mtme)
