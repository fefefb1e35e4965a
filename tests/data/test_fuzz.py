"""Any bytes under any name, and any small table, make a valid study or raise CustodesError; nothing else."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.preferences import Preferences
from custodes.data.readers import READERS
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import CustodesError

SUFFIXES = [".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".tar", ".tar.gz", ".tgz", ".txt", ""]
SCORES = pl.DataFrame(
    {
        "item": ["1", "2"],
        "system": ["A", "B"],
        "rater": ["ann", "bleu"],
        "kind": ["human", "metric"],
        "score": ["1", "2"],
    }
)
COLUMNS = [
    *("item", "system", "rater", "kind", "score", "aspect", "repeat", "order", "model_a", "model_b", "winner", ""),
    *("system_a", "system_b", "preference", "ref", "subset", "instruction", "generator_1", "generator_2", "annotator"),
    *("dataset", "judge", "prompt", "gold", "winner_original_order", "winner_swapped_order", "outputs", "references"),
]
FAMILIES = [
    ["item", "system", "rater", "score"],
    ["item", "system", "ann"],
    ["item", "model_a", "model_b", "winner", "rater"],
    ["item", "system_a", "system_b", "preference", "rater", "order"],
    ["item", "system_a", "system_b", "preference", "rater", "order", "invalid", "p_a", "p_tie", "p_b"],
    ["item", "system_a", "system_b", "preference", "rater", "role", "seconds"],
    ["instruction", "generator_1", "generator_2", "preference", "annotator"],
    ["ref", "subset", "model"],
    ["dataset", "item", "judge", "prompt", "gold", "winner_original_order", "winner_swapped_order"],
    ["item", "outputs", "references", "image", "context", "meta"],
    ["item", "system", "text", "source", "images", "meta"],
]
SIDE_FAMILIES = [
    ["rater", "kind"],
    ["rater", "higher_is_better", "low", "high", "person"],
    ["item", "cluster", "weight"],
]
WORDS = [
    "",
    "1",
    "2",
    "0",
    "-1",
    "1.5",
    "A",
    "B",
    "human",
    "metric",
    "model_a",
    "tie",
    "nan",
    "inf",
    "x",
    "ab",
    "ba",
    " ",
]
WORDS += ['{"A": "x"}', '{"A": 1}', "[", '["r"]', "null", "\u2028", "é\n"]
CELLS = st.none() | st.sampled_from(WORDS) | st.text(max_size=3)
TYPED = [
    CELLS,
    st.none() | st.integers(-2, 3),
    st.none() | st.floats(width=32),
    st.booleans(),
    st.lists(st.integers(0, 1), max_size=2),
    st.fixed_dictionaries({"A": CELLS}),
    st.binary(max_size=2),
    st.dates(),
]
LABELS = st.sampled_from(["a", "b", "c", "1", "2"])
NUMBERS = st.sampled_from(["1", "2.5", "-3", "", None, "nan", "-0.0"])
GOOD = {
    **dict.fromkeys(["score", "ann", "model"], NUMBERS),
    **dict.fromkeys(["model_a", "system_a", "generator_1"], st.sampled_from("AAB")),
    **dict.fromkeys(["model_b", "system_b", "generator_2"], st.sampled_from("BBC")),
    "rater": st.sampled_from(["ann", "bleu", "b*", "x"]),
    **dict.fromkeys(["higher_is_better", "person"], st.sampled_from(["yes", "no", "", None])),
    **dict.fromkeys(["low", "high", "weight"], st.sampled_from(["1", "2", ""])),
    "winner": st.sampled_from(["model_a", "model_b", "tie", "both_bad", "", "garbage"]),
    "preference": st.sampled_from(["1", "0", "-1", "1.5", ""]),
    "kind": st.sampled_from(["human", "metric", ""]),
    "order": st.sampled_from(["ab", "ba", "", "unknown"]),
    "gold": st.just("1"),
    **dict.fromkeys(["winner_original_order", "winner_swapped_order"], st.sampled_from(["1", "2", "", "tie"])),
    "ref": st.sampled_from(["1", "0"]),
    "subset": st.just("x"),
    "outputs": st.sampled_from(['{"A": "x"}', '{"A": "x", "B": true}']),
    **dict.fromkeys(["references", "image", "images"], st.sampled_from(["r", '["r", "s"]', "", None])),
    "meta": st.sampled_from(['{"a": 1}', "", None]),
    "invalid": st.sampled_from(["", "", "refusal", None]),
    **dict.fromkeys(["p_a", "p_b"], st.sampled_from(["0.5", "0.25", "", None])),
    "p_tie": st.sampled_from(["0", "0.5", "", None]),
    "role": st.sampled_from(["primary", "second", "", None, "crowd"]),
    "seconds": st.sampled_from(["0", "3.5", "", None, "-1", "inf", "fast"]),
}


def check(study: Study) -> None:
    """The invariants of the central types."""
    raters = study.raters.frame
    check_rows(study.ratings.frame, study.preferences, raters)
    check_rows(study.second_ratings.frame, study.second, raters)
    assert raters["rater"].is_unique().all()
    assert study.items.frame["item"].is_unique().all()
    if study.outputs is not None:
        assert not study.outputs.texts.select("item", "system").is_duplicated().any()
        assert study.outputs.sources["item"].is_unique().all()
        assert study.outputs.sources.null_count().sum_horizontal().item() == 0
    assert len(study.fingerprint()) == 16


def check_rows(scores: pl.DataFrame, preferences: Preferences, raters: pl.DataFrame) -> None:
    verdicts = preferences.frame
    assert scores.null_count().sum_horizontal().item() == 0
    chances = verdicts.select("p_a", "p_tie", "p_b")
    assert verdicts.drop(*chances.columns, "seconds").null_count().sum_horizontal().item() == 0
    assert all(None in row or (min(row) >= 0 and abs(sum(row) - 1) <= 1.1e-3) for row in chances.rows())
    assert verdicts.filter(pl.col("seconds") < 0).is_empty()
    assert set(preferences.missing["why"]).isdisjoint({"", None})
    assert scores["score"].is_finite().all()
    assert not scores.drop("score").is_duplicated().any()
    assert not verdicts.drop("preference", "seconds", *chances.columns).is_duplicated().any()
    assert (verdicts["system_a"] < verdicts["system_b"]).all()
    assert set(verdicts["preference"]) <= {1, 0, -1}
    assert set(verdicts["order"]) <= {"ab", "ba", ""}
    assert set(scores["rater"]) | set(verdicts["rater"]) <= set(raters["rater"])
    assert set(raters["kind"]) <= {"human", "metric", ""}
    for frame in (scores, verdicts, raters):
        labels = frame.select("rater", *(name for name in frame.columns if name.startswith("system")))
        assert not (labels == "").select(pl.any_horizontal(pl.all())).to_series().any()


def try_reading(source: object, **options: object) -> None:
    try:
        study = read(source, **options)  # type: ignore[arg-type]
    except CustodesError as error:
        lines = str(error).splitlines()
    else:
        check(study)
        lines = ["read"]
    assert len(lines) == 1


def try_bytes(data: bytes, suffix: str, reader: str | None) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        path.write_bytes(data)
        try_reading(path, reader=reader)
        try_reading(path, reader=reader, invalid="force")


def seeds() -> list[bytes]:
    """Good files, to be damaged."""
    parquet = io.BytesIO()
    SCORES.write_parquet(parquet)
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, text in {"wmt/sources/en-de.txt": "a\n", "wmt/metric-scores/en-de/m.seg.score": "S\t1\n"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    plain = [SCORES.write_csv().encode(), SCORES.write_ndjson().encode(), parquet.getvalue(), tar.getvalue()]
    return plain + [gzip.compress(data, mtime=0) for data in plain]


@given(data=st.binary(max_size=80), suffix=st.sampled_from(SUFFIXES), gz=st.sampled_from(["", ".gz"]))
@settings(max_examples=150, deadline=None)
def test_any_bytes(data: bytes, suffix: str, gz: str) -> None:
    try_bytes(data, suffix + gz, None)


@given(
    data=st.sampled_from(seeds()),
    suffix=st.sampled_from(SUFFIXES),
    gz=st.sampled_from(["", ".gz"]),
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=3), st.integers(0, 3)), max_size=3),
    cut=st.none() | st.integers(0, 10_000),
)
@settings(max_examples=250, deadline=None)
def test_damaged_files(data: bytes, suffix: str, gz: str, edits: list[tuple[int, bytes, int]], cut: int | None) -> None:
    for at, new, old in edits:
        at %= len(data) + 1
        data = data[:at] + new + data[at + old :]
    try_bytes(data if cut is None else data[:cut], suffix + gz, None)


@st.composite
def tables(draw: st.DrawFn, families: list[list[str]] = FAMILIES) -> pl.DataFrame:
    """Columns of a family, some taken out, some strange ones put in, cells of text or of any type."""
    names = [name for name in draw(st.sampled_from(families)) if draw(st.integers(0, 19))]
    names += draw(st.lists(st.sampled_from(COLUMNS), max_size=1))
    height = draw(st.sampled_from([1, 2, 2, 3, 4, 0]))
    columns = {}
    for name in dict.fromkeys(names):
        # mostly cells that fit, so that whole studies come out of it too
        kind = draw(st.integers(0, 19))
        cells = draw(st.sampled_from(TYPED)) if kind == 0 else CELLS if kind == 1 else GOOD.get(name, LABELS)
        if name in ("item", "instruction") and kind > 2 and draw(st.booleans()):
            columns[name] = pl.Series(name, range(height))
            continue
        columns[name] = pl.Series(name, draw(st.lists(cells, min_size=height, max_size=height)), strict=False)
    return pl.DataFrame(columns)


@given(
    frame=tables(),
    reader=st.none() | st.none() | st.sampled_from(READERS),
    invalid=st.sampled_from(["error", "drop", "force"]),
)
@settings(max_examples=300, deadline=None)
def test_any_table(frame: pl.DataFrame, reader: str | None, invalid: str) -> None:
    try_reading(frame, reader=reader, invalid=invalid)


@given(frame=tables(), suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]))
@settings(max_examples=100, deadline=None)
def test_any_table_in_a_file(frame: pl.DataFrame, suffix: str) -> None:
    buffer = io.BytesIO()
    if suffix != ".parquet":
        frame = frame.select(pl.exclude(pl.Binary))
    try:
        {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}[suffix](buffer)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):  # a table that this format cannot hold
        return
    try_bytes(buffer.getvalue(), suffix, None)


@given(raters=tables(SIDE_FAMILIES), items=tables(SIDE_FAMILIES))
@settings(max_examples=60, deadline=None)
def test_any_side_table(raters: pl.DataFrame, items: pl.DataFrame) -> None:
    try_reading(SCORES, raters=raters)
    try_reading(SCORES, items=items)
