from __future__ import annotations

import gzip
import hashlib
import io
import json
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from custodes.data.ratings import Ratings
from custodes.data.readers import DEMO, READERS, read
from custodes.data.study import Study
from custodes.errors import InputError, OptionError

ROWS = [
    {"item": "001", "system": "A", "rater": "ann", "kind": "human", "aspect": "", "repeat": "0", "score": "4"},
    {"item": "001", "system": "B", "rater": "ann", "kind": "human", "aspect": "", "repeat": "0", "score": "2.5"},
    {"item": "001", "system": "A", "rater": "bleu, v2", "kind": "metric", "aspect": "", "repeat": "0", "score": "31"},
]
EXPECTED = [
    ("001", "A", "ann", "", "0", 4.0),
    ("001", "B", "ann", "", "0", 2.5),
    ("001", "A", "bleu, v2", "", "0", 31.0),
]
BATTLES = pl.DataFrame({"item": [1, 2, 3, 4], "model_a": "A", "model_b": "B", "rater": "judge", "kind": "metric"})


def as_bytes(rows: list[dict[str, str]], suffix: str) -> bytes:
    frame = pl.DataFrame(rows)
    if suffix == ".parquet":
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        return buffer.getvalue()
    if suffix in (".csv", ".tsv"):
        return frame.write_csv(separator="," if suffix == ".csv" else "\t").encode()
    if suffix == ".json":
        return json.dumps(rows).encode()
    return "\n".join(json.dumps(row) for row in rows).encode()


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet"])
def test_every_suffix_reads_the_same_ratings(tmp_path: Path, suffix: str, zipped: str) -> None:
    path = tmp_path / f"scores{suffix}{zipped}"
    data = as_bytes(ROWS, suffix)
    path.write_bytes(gzip.compress(data) if zipped else data)
    study = read(path)
    assert study.ratings.frame.rows() == EXPECTED
    assert study.raters.kind == {"ann": "human", "bleu, v2": "metric"}
    assert study.notes == ()
    assert study.name == f"scores{suffix}{zipped}"
    assert study.digest == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    assert str(tmp_path) not in repr(study)


def test_suffixes_in_capitals_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "SCORES.CSV"
    text = pl.DataFrame(ROWS).write_csv().replace("\n", "\r\n") + "\r\n\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read(str(path)).ratings.frame.rows() == EXPECTED


def test_numbers_in_json_are_labels_as_written(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(
        '{"item": 7, "system": "A", "rater": 1.50, "score": 4}\n\n{"item": 8, "system": "A", "rater": 1.50}\n'
    )
    study = read(path)
    assert study.ratings.frame.rows() == [("7", "A", "1.50", "", "0", 4.0)]
    assert [note.rule for note in study.notes] == ["missing-score"]


def test_wide() -> None:
    frame = pl.DataFrame(
        {
            "item": ["1", "2"],
            "system": ["A", "A"],
            "aspect": ["x", "x"],
            "repeat": ["", "3"],
            "H:ann": ["4", ""],
            "bleu": [1.0, 2.0],
        }
    )
    study = read(frame)
    assert study.ratings.frame.rows() == [
        ("1", "A", "H:ann", "x", "0", 4.0),
        ("1", "A", "bleu", "x", "0", 1.0),
        ("2", "A", "bleu", "x", "3", 2.0),
    ]
    assert study.raters.kind == {"H:ann": "", "bleu": ""}
    assert [(note.rule, note.count) for note in study.notes] == [("missing-score", 1)]


@pytest.mark.parametrize(
    ("verdict", "preference"),
    [
        ("model_a", 1),
        ("Model_B", -1),
        ("tie", 0),
        ("both_bad", 0),
        ("tie (bothbad)", 0),
        ("TIE (both bad)", 0),
        ("model a", 1),
    ],
)
def test_battles_verdicts(verdict: str, preference: int) -> None:
    study = read(BATTLES.head(1).with_columns(winner=pl.lit(verdict)))
    assert study.preferences.frame.row(0) == ("1", "A", "B", "judge", "", "0", "", preference)
    assert ("both-bad" in {note.rule for note in study.notes}) is ("bad" in verdict.lower())


def test_battles_by_preference_with_order_and_aspect() -> None:
    frame = pl.DataFrame(
        {
            "item": 1,
            "system_a": "B",
            "system_b": "A",
            "preference": ["1", "-1.0"],
            "rater": "j",
            "order": ["ab", "ba"],
            "aspect": "x",
        }
    )
    study = read(frame)
    assert study.preferences.frame.rows() == [
        ("1", "A", "B", "j", "x", "0", "ba", -1),
        ("1", "A", "B", "j", "x", "0", "ab", 1),
    ]
    assert study.raters.kind == {"j": ""}


def test_battles_without_a_rater_are_one_persons() -> None:
    study = read(BATTLES.drop("rater", "kind").with_columns(winner=pl.lit("tie")))
    assert study.raters.kind == {"human": "human"}
    assert [note.message for note in study.notes] == [
        "table: no column 'rater'; all verdicts are taken for those of one person, 'human'"
    ]


def test_unreadable_verdicts_are_refused_or_dropped_and_counted() -> None:
    frame = BATTLES.with_columns(
        winner=pl.Series(["model_a", "garbage", None, "???"]), rater=pl.Series(["j", "j", "j", "k"])
    )
    with pytest.raises(InputError) as error:
        read(frame)
    assert str(error.value) == (
        "table: 2 verdicts cannot be read ('garbage' in row 2, '???' in row 4); allowed: model_a, model_b, tie,"
        " both_bad, or nothing; mend them, or drop and count them with invalid='drop' (--invalid drop)"
    )
    study = read(frame, invalid="drop")
    assert study.preferences.frame["item"].to_list() == ["1"]
    assert [(note.rule, note.count, note.message) for note in study.notes] == [
        ("missing-verdict", 1, "table: 1 verdicts are empty and count as not rated"),
        ("unreadable-verdict", 2, "table: 2 verdicts could not be read and were dropped (j 1, k 1)"),
    ]


def test_alpacaeval(tmp_path: Path) -> None:
    path = tmp_path / "annotations.json"
    told = [1, 2, 1.5, 1.2, 1.8, float("nan"), None, 3]
    rows = [
        {"instruction": f"do {k}", "generator_1": "gpt", "generator_2": "alpaca", "preference": p, "annotator": "judge"}
        for k, p in enumerate(told)
    ]
    path.write_text(json.dumps(rows))
    with pytest.raises(
        InputError, match=r"3 verdicts cannot be read \('NaN' in row 6, 'no preference' in row 7, '3' in row 8\)"
    ):
        read(path)
    study = read(path, invalid="drop")
    # alpaca < gpt, so that generator_1 = gpt is system_b
    assert study.preferences.frame["preference"].to_list() == [-1, 1, 0, -1, 1]
    assert study.preferences.frame["item"].to_list() == [f"do {k}" for k in range(5)]
    assert study.raters.kind == {"judge": ""}
    assert read(path, reader="alpacaeval", invalid="drop").preferences.frame.equals(study.preferences.frame)


REWARDS = {"ref": [1, 0, 0, 1], "subset": ["x", "x", "y", "y"], "model": [0.9, 0.1, 0.5, 0.4]}


def test_rewardbench_in_either_order_of_a_pair() -> None:
    study = read(pl.DataFrame(REWARDS))
    assert study.preferences.frame.select("item", "system_a", "system_b", "rater", "preference").rows() == [
        ("1", "chosen", "rejected", "ref", 1),
        ("2", "chosen", "rejected", "ref", 1),
    ]
    assert study.ratings.frame.select("item", "system", "score").rows() == [
        ("1", "chosen", 0.9),
        ("1", "rejected", 0.1),
        ("2", "rejected", 0.5),
        ("2", "chosen", 0.4),
    ]
    assert study.items.frame.select("item", "group").rows() == [("1", "x"), ("2", "y")]
    assert study.raters.kind == {"ref": "human", "model": "metric"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ref": [1, 1, 0, 1]}, "table: row 1 and the next are no pair; a pair has one subset, ref 1 and ref 0"),
        (
            {"subset": ["x", "x", "x", "y"]},
            "table: row 3 and the next are no pair; a pair has one subset, ref 1 and ref 0",
        ),
        ({"ref": [1, 0, 2, None]}, "table: ref in row 3, 4 is neither 1 (chosen) nor 0 (rejected)"),
    ],
)
def test_rewardbench_pairs_are_checked(changes: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InputError) as error:
        read(pl.DataFrame(REWARDS | changes))
    assert str(error.value) == message


def test_rewardbench_needs_an_even_number_of_rows() -> None:
    with pytest.raises(InputError, match=r"^table: 3 rows; a pair is two rows, so their number must be even$"):
        read(pl.DataFrame(REWARDS).head(3))


JUDGMENTS = {
    "dataset": ["D/x", "D/x"],
    "item": [0, 1],
    "judge": "gpt",
    "prompt": "CoT",
    "repeat": 0,
    "gold": [1, 2],
    "winner_original_order": ["1", ""],
    "winner_swapped_order": ["2", "2"],
}


def test_llmbar() -> None:
    study = read(pl.DataFrame(JUDGMENTS))
    assert study.preferences.frame.drop("system_a", "system_b", "aspect", "repeat").rows() == [
        ("D/x/0", "gpt/CoT", "ab", 1),
        ("D/x/0", "gpt/CoT", "ba", -1),
        ("D/x/1", "gpt/CoT", "ba", -1),
        ("D/x/0", "gold", "", 1),
        ("D/x/1", "gold", "", -1),
    ]
    assert study.raters.kind == {"gold": "human", "gpt/CoT": "metric"}
    assert study.items.frame.select("item", "group").rows() == [("D/x/0", "D/x"), ("D/x/1", "D/x")]
    assert [(note.rule, note.count) for note in study.notes] == [("missing-verdict", 1)]


def test_llmbar_unreadable_verdicts_name_the_row_of_the_file() -> None:
    frame = pl.DataFrame(JUDGMENTS | {"winner_swapped_order": ["2", "tie"]})
    with pytest.raises(
        InputError, match=r"^table: 1 verdicts cannot be read \('tie' in row 2\); allowed: 1 \(output_1\)"
    ):
        read(frame)
    assert (
        read(frame, invalid="drop").notes[-1].message
        == "table: 1 verdicts could not be read and were dropped (gpt/CoT 1)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item": [0, 0], "repeat": [0, 1]}, "table: item 'D/x/0' has another gold in row 2; an item has one gold"),
        ({"gold": [1, 3]}, "table: gold '3' in row 2; allowed: 1, 2"),
        (
            {"item": [0, 0], "gold": [1, 1]},
            "table: the same judgment stands twice, in rows 1, 2 (dataset 'D/x', item '0', judge 'gpt', prompt 'CoT',"
            " repeat '0'); number the runs of a judge in a column 'repeat', or take the doubled row out",
        ),
    ],
)
def test_llmbar_is_checked(changes: dict[str, list[object]], message: str) -> None:
    with pytest.raises(InputError) as error:
        read(pl.DataFrame(JUDGMENTS | changes))
    assert str(error.value) == message


def test_outputs(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(
        '{"item": 1, "source": "a", "references": ["r", "s"], "outputs": {"A": "x\\ny", "B": null}}\n'
        '{"item": 2, "references": "r", "outputs": {"A": true}}\n'
    )
    study = read(path)
    assert study.outputs is not None
    assert study.outputs.texts.rows() == [("1", "A", "x\ny"), ("2", "A", "true")]
    assert study.outputs.sources.rows() == [("1", "a", ["r", "s"]), ("2", "", ["r"])]
    assert [(note.rule, note.count) for note in study.notes] == [("output-not-text", 1)]


def test_outputs_from_a_dataframe_with_structs() -> None:
    frame = pl.DataFrame(
        {"item": [1, 2], "references": [["r"], None], "outputs": [{"A": "x", "B": None}, {"A": "y", "B": "z"}]}
    )
    outputs = read(frame).outputs
    assert outputs is not None
    assert outputs.texts.rows() == [("1", "A", "x"), ("2", "A", "y"), ("2", "B", "z")]
    assert outputs.sources["references"].to_list() == [["r"], []]


def test_the_demo_is_a_study() -> None:
    study = read(DEMO)
    assert isinstance(study, Study)
    assert study.humans
    assert study.metrics


def test_the_registry_names_every_format() -> None:
    assert set(READERS) == {"ratings", "wide", "battles", "alpacaeval", "mtme", "rewardbench", "llmbar", "outputs"}


def test_a_forced_reader_says_what_it_needs() -> None:
    with pytest.raises(InputError) as error:
        read(pl.DataFrame(ROWS), reader="battles")
    assert str(error.value).startswith("table: column 'system_a' is missing (is it 'system'?); columns: item, system,")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reader": "rating"},
            "reader='rating' is unknown (did you mean 'ratings'?); readers: ratings, battles, wide,",
        ),
        ({"invalid": "skip"}, "invalid='skip' is unknown; allowed: error, drop"),
        ({"reader": "mtme"}, "reader='mtme' takes the path of a folder or tar, not a dataframe"),
    ],
)
def test_bad_options_raise(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as error:
        read(pl.DataFrame(ROWS), **options)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_no_input_raises() -> None:
    with pytest.raises(OptionError, match=r"^read: no input; give a path, a dataframe, or 'demo'$"):
        read()


PLAIN = {"item": [1, 2, 3], "system": ["A", "A", "B"], "rater": ["ann", "ann", "bob"], "score": [4.0, None, 2.5]}
VERDICTS = {"item": [1, 2], "system_a": ["B", "A"], "system_b": ["A", "B"], "rater": ["j", "j"], "preference": [1, 0]}


def doors(columns: dict[str, list[object]]) -> dict[str, object]:
    """The same table through every kind of dataframe."""
    frame, pandas = pl.DataFrame(columns), pd.DataFrame(columns)
    arrow = pa.table(columns)
    strings = [name for name, values in columns.items() if isinstance(values[0], str)]
    return {
        "polars": frame,
        "polars lazy": frame.lazy(),
        "polars categories": frame.with_columns(pl.col(strings).cast(pl.Categorical)),
        "pandas": pandas,
        "pandas objects": pandas.astype(object),
        "pandas categories": pandas.astype(dict.fromkeys(strings, "category")),
        "pandas nullable": pandas.convert_dtypes(),
        "pandas arrow": pandas.convert_dtypes(dtype_backend="pyarrow"),
        "pandas text": pandas.astype(object).where(pandas.notna(), "").astype(str),
        "pandas with an index": pandas.set_index(pd.Index(range(10, 10 + len(pandas)))),
        "pyarrow": arrow,
        "duckdb": duckdb.from_arrow(arrow),
    }


@pytest.mark.parametrize("door", list(doors(PLAIN)))
def test_every_dataframe_gives_the_same_ratings(door: str) -> None:
    study = read(doors(PLAIN)[door])
    assert study.ratings.frame.equals(Ratings.make(pl.DataFrame(PLAIN))[0].frame)
    assert [(note.rule, note.count) for note in study.notes] == [("missing-score", 1)]
    assert study.fingerprint() == read(pl.DataFrame(PLAIN)).fingerprint()


@pytest.mark.parametrize("door", list(doors(VERDICTS)))
def test_every_dataframe_gives_the_same_preferences(door: str) -> None:
    study = read(doors(VERDICTS)[door])
    assert study.preferences.frame.select("item", "system_a", "system_b", "preference").rows() == [
        ("1", "A", "B", -1),
        ("2", "A", "B", 0),
    ]
