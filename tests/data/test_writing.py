"""Long tables are written byte for byte the same, and `read` takes them back."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from custodes.data.preferences import Preferences
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.data.writing import SUFFIXES, check_suffix, long_tables, table_bytes, write_table
from custodes.errors import OptionError

FORMS = [*SUFFIXES, ".csv.gz", ".jsonl.gz", ".TSV"]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Return a study with scores, verdicts, texts and metadata of raters and items."""
    scores = pl.DataFrame(
        {"item": ["i,1", "i,1", "2"], "system": ["A", "B", "A"], "rater": "ann", "score": [1.5, 2, 3]}
    )
    verdicts = pl.DataFrame(
        {"item": ["2"], "system_a": ["A"], "system_b": ["B"], "rater": ["judge"], "preference": [1]}
    )
    texts = tmp_path / "texts.jsonl"
    texts.write_text(
        '{"item": "2", "source": "q", "references": ["r"], "outputs": {"B": "b", "A": "a\\n"}}\n'
        '{"item": "i,1", "outputs": {"A": "z"}}\n'
    )
    raters = pl.DataFrame({"rater": ["ann", "judge"], "kind": ["human", "metric"]})
    items = pl.DataFrame({"item": ["i,1", "2"], "cluster": ["c", "c"], "weight": [2.0, 1.0]})
    return read(scores, verdicts, texts, raters=raters, items=items)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read_back(study: Study, tmp_path: Path, form: str) -> None:
    tables = long_tables(study)
    assert list(tables) == ["ratings", "battles", "raters", "items", "outputs"]
    paths = {name: write_table(tables[name], tmp_path / f"{name}{form}") for name in ("ratings", "battles", "items")}
    texts = write_table(tables["outputs"], tmp_path / "outputs.jsonl")
    again = read(paths["ratings"], paths["battles"], texts, items=paths["items"])
    assert again.ratings.frame.equals(study.ratings.frame)
    assert again.preferences.frame.equals(study.preferences.frame)
    assert again.raters.kind == {"ann": "human", "judge": "metric"}
    assert again.items.frame.equals(study.items.frame)
    assert again.outputs is not None
    assert again.outputs.texts.sort("item", "system").equals(study.outputs.texts.sort("item", "system"))
    assert again.outputs.sources.sort("item").equals(study.outputs.sources.sort("item"))


def test_second_opinions_follow_the_first_with_their_role(study: Study) -> None:
    second = replace(study, second=study.preferences, second_ratings=study.ratings)
    for name in ("ratings", "battles"):
        first_rows, rows = (long_tables(source)[name] for source in (study, second))
        n = first_rows.height
        assert rows["role"].to_list() == ["primary"] * n + ["second"] * n
        assert rows.drop("role").head(n).equals(rows.drop("role").tail(n))
        assert rows.drop("role").head(n).equals(first_rows)
    alone = replace(second, preferences=Preferences())
    assert long_tables(alone)["battles"]["role"].to_list() == ["second"]


def test_tables_without_rows_are_left_out() -> None:
    assert list(long_tables(read(pl.DataFrame({"item": [1], "system": ["A"], "ann": [1]})))) == ["ratings", "raters"]


@pytest.mark.parametrize("form", [".csv.gz", ".parquet"])
def test_the_same_table_gives_the_same_bytes(tmp_path: Path, form: str) -> None:
    table = pl.DataFrame({"a": [1, 2]})
    first, second = (write_table(table, tmp_path / f"{name}{form}").read_bytes() for name in ("one", "other"))
    assert first == second


def test_the_bytes_of_each_form() -> None:
    table = pl.DataFrame({"a": ["=1", "x"], "b": [["p", "ä"], []]})
    quoted = 'a,b\n\'=1,"[""p"",""ä""]"\nx,[]\n'.encode()
    assert table_bytes(table, "t.csv", quote_formulas=True) == quoted
    assert table_bytes(table, "t.csv") == quoted.replace(b"'=", b"=")
    assert table_bytes(table, "t.TSV", quote_formulas=True) == quoted.replace(b",b", b"\tb").replace(
        b"1,", b"1\t"
    ).replace(b"x,", b"x\t")
    assert table_bytes(table, "t.jsonl", quote_formulas=True) == (
        '{"a":"=1","b":["p","ä"]}\n{"a":"x","b":[]}\n'.encode()
    )
    assert gzip.decompress(table_bytes(table, "t.csv.gz", quote_formulas=True)) == quoted
    assert pl.read_parquet(table_bytes(table, "t.parquet", quote_formulas=True)).equals(table)
    long = pl.DataFrame({"a": range(12_001)})
    assert table_bytes(long, "t.csv") == long.write_csv().encode()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a/s.xlsx", "cannot write s.xlsx: unknown suffix '.xlsx'; allowed: .csv, .tsv, .jsonl, .parquet"),
        (
            "s.cvs.gz",
            "cannot write s.cvs.gz: unknown suffix '.cvs' (did you mean '.csv'?); allowed: .csv, .tsv, .jsonl, "
            ".parquet",
        ),
        ("s", "cannot write s: unknown suffix ''; allowed: .csv, .tsv, .jsonl, .parquet"),
    ],
)
def test_an_unknown_suffix_is_refused_before_anything_is_written(name: str, message: str) -> None:
    with pytest.raises(OptionError) as error:
        check_suffix(name)
    assert str(error.value) == message
    assert check_suffix("s.CSV.gz") == ".csv"


@pytest.mark.parametrize("form", [".csv", ".jsonl", ".parquet"])
def test_reasons_chances_and_what_is_known_of_items_come_back(tmp_path: Path, form: str) -> None:
    verdicts = pl.DataFrame(
        {
            "item": ["1", "2", "3"],
            "system_a": "B",
            "system_b": "A",
            "rater": "j",
            "order": ["ab", "ba", "ab"],
            "preference": [1, None, None],
            "invalid": ["", "refusal", ""],
            **{name: [value, None, None] for name, value in {"p_a": 0.8, "p_tie": 0.1, "p_b": 0.1}.items()},
        }
    )
    texts = pl.DataFrame(
        {
            "item": ["1", "2"],
            "outputs": [{"A": "a", "B": "b"}, {"A": "c", "B": None}],
            "images": [["x.png", "y.png"], []],
            "context": ["before", ""],
            "meta": ['{"year": "1990"}', ""],
        }
    )
    metadata = {"kind": "metric", "cost": 0.01, "cost_unit": "usd", "signature": "judge v1 | temperature 0"}
    raters = pl.DataFrame({"rater": ["j"], **metadata})
    study = read(verdicts, texts, raters=raters)
    tables = long_tables(study)
    paths = {name: write_table(tables[name], tmp_path / f"{name}{form}") for name in ("battles", "outputs", "raters")}
    again = read(paths["battles"], paths["outputs"], raters=paths["raters"])
    assert again.preferences.frame.equals(study.preferences.frame)
    assert again.preferences.missing.equals(study.preferences.missing)
    assert again.raters.frame.equals(study.raters.frame)
    assert study.outputs is not None
    assert again.outputs is not None
    assert again.outputs.sources.equals(study.outputs.sources)
    plain = read(verdicts.drop("p_a", "p_tie", "p_b", "invalid"))
    assert {"p_a", "invalid"}.isdisjoint(
        long_tables(replace(plain, preferences=plain.preferences.select_rows(pl.col("item") == "1")))["battles"].columns
    )


@pytest.mark.parametrize(
    "columns",
    [
        {"judge": ["5", "1", "3", "2"], "human": ["4", "1", None, "1"]},
        {"judge": ["pass", "fail", None, "pass"], "human": ["pass", "fail", None, None]},
        {"judge": ["other", "billing", "refund", "billing"], "human": ["other", "refund", None, "billing"]},
        {"judge": ["0.5", "1", "0.25", "0"], "human": ["yes", "no", "yes", None]},
    ],
)
def test_labels_are_written_as_words(columns: dict[str, list[str | None]], tmp_path: Path) -> None:
    mapping = {"item": "id", "score": ["human:{rater:human}", "metric:{rater:judge}"]}
    study = read(pl.DataFrame({"id": range(4), **columns}), columns=mapping)
    file = write_table(long_tables(study)["ratings"], tmp_path / "ratings.csv")
    again = read(file)
    assert again.labels == study.labels
    assert again.raters.kind == study.raters.kind
    assert again.unlabelled.select("item").equals(study.unlabelled.select("item"))
    keys = ["item", "rater", "score"]
    assert again.ratings.frame.select(keys).sort(keys).equals(study.ratings.frame.select(keys).sort(keys))
    unlabelled = pl.read_csv(file, infer_schema=False).filter(pl.col("label").is_null())
    assert set(unlabelled["rater"]) <= {"judge"}  # the first metric
    assert set(unlabelled["item"]) == set(map(str, range(4))) - set(study.ratings.frame["item"])
    written = set(pl.read_csv(file, infer_schema=False)["label"].drop_nulls())
    assert written >= {word for scale in study.labels.values() for word in scale.words if word in columns["human"]}
