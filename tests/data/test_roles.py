"""Second opinions have a separate `role`, which every question respects and every format stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.data.writing import long_tables, write_table
from tests.messages import exactly

VERDICTS = pl.DataFrame(
    [
        *(("1", "B", "A", "w1", "ab", 1, "primary", 12.5), ("1", "B", "A", "w2", "ba", -1, "second", 3.0)),
        ("2", "A", "B", "w2", "ab", 0, "", None),
        ("2", "A", "B", "w1", "ab", None, "second", 4.0),
        ("3", "A", "B", "w1", "ba", 1, "Primary", 0.0),
    ],
    schema=["item", "system_a", "system_b", "rater", "order", "preference", "role", "seconds"],
    orient="row",
).with_columns(kind=pl.lit("human"), aspect=pl.lit("x"), repeat=pl.lit("0"))
RATED = pl.DataFrame(
    {"item": "1", "system": ["A", "A", "B"], "rater": ["w1", "w2", "w1"], "score": [3, 5, None]}
).with_columns(kind=pl.lit("human"), role=pl.Series(["primary", "second", "second"]))


@pytest.fixture
def study() -> Study:
    return cu.read(VERDICTS, RATED)


def test_second_opinions_are_no_evidence_of_systems(study: Study) -> None:
    rows = study.preferences.frame.select("item", "rater", "order", "preference", "seconds").rows()
    assert rows == [("1", "w1", "ba", -1, 12.5), ("2", "w2", "ab", 0, None), ("3", "w1", "ba", 1, 0.0)]
    assert study.preferences.missing.is_empty()
    assert study.second.frame.select("item", "rater", "order", "preference", "seconds").rows() == [
        ("1", "w2", "ab", 1, 3.0)
    ]
    assert study.second.missing.select("item", "rater", "why").rows() == [("2", "w1", "empty")]
    assert study.ratings.frame["rater"].to_list() == ["w1"]
    assert study.second_ratings.frame.select("rater", "score").rows() == [("w2", 5.0)]
    assert "2 second opinions" in repr(study)


@pytest.mark.parametrize("form", [".csv", ".parquet"])
def test_both_roles_are_written_and_read_back(study: Study, tmp_path: Path, form: str) -> None:
    tables = long_tables(study)
    paths = [write_table(tables[name], tmp_path / f"{name}{form}") for name in ("battles", "ratings")]
    again = cu.read(*paths)
    for part in ("preferences", "second"):
        assert getattr(again, part).frame.equals(getattr(study, part).frame)
        assert getattr(again, part).missing.equals(getattr(study, part).missing)
    assert again.ratings.frame.equals(study.ratings.frame)
    assert again.second_ratings.frame.equals(study.second_ratings.frame)


def test_selection_takes_both(study: Study) -> None:
    assert study.select(aspect="x", one_side=True).second.frame.height == 1
    assert study.select(human="w1", one_side=True).second.frame.is_empty()
    assert study.select(human="w1", one_side=True).second.missing.height == 1
    assert study.select(systems="A", aspect="x", one_side=True).second.frame.is_empty()


def test_a_join_unites_both_and_knows_doubles(study: Study) -> None:
    second_input = VERDICTS.with_columns(rater=pl.col("rater") + "x")
    assert cu.read(VERDICTS, second_input).second.frame["rater"].to_list() == ["w2", "w2x"]
    with pytest.raises(cu.InputError, match="same second opinion"):
        cu.read(VERDICTS.filter(pl.col("role") != "Primary"), VERDICTS.filter(pl.col("role") == "second"))


def test_the_digest_tells_second_opinions_and_times(study: Study) -> None:
    whole = replace(study, digest="")
    plain = replace(whole, second=whole.select(human="w1", one_side=True).second)
    assert plain.fingerprint() != whole.fingerprint()
    times = [cu.read(VERDICTS.with_columns(seconds=pl.lit(part))).fingerprint() for part in (1.0, 2.0, None)]
    assert len({*times}) == 3
    assert times[2] == cu.read(VERDICTS.drop("seconds")).fingerprint()


def test_a_foreign_column_role_is_not_ours() -> None:
    foreign = cu.read(VERDICTS.with_columns(role=pl.lit("crowd")))
    assert foreign.preferences.frame.height == 4
    assert [note.message for note in foreign.notes if note.rule == "unused-columns"] == [
        "table: columns not used: role"
    ]


def test_another_word_beside_ours_is_refused_with_its_row() -> None:
    rows = VERDICTS.with_columns(role=pl.Series(["primary", "secnd", "", "second", "primary"]))
    with pytest.raises(cu.InputError, match=r"role.*'secnd'.*row 2.*primary, second"):
        cu.read(rows)


def test_seconds_are_none_below_zero() -> None:
    with pytest.raises(
        cu.InputError,
        match=exactly("table: seconds -1.0 in row 1, 2, 3, 4, 5; allowed: a number of seconds of at least 0, or empty"),
    ):
        cu.read(VERDICTS.with_columns(seconds=pl.lit(-1.0)))
