"""Choice of the reader by `read`, and the types of source that it accepts."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from custodes.data.ratings import Ratings
from custodes.data.reading import read
from custodes.errors import OptionError
from tests.data.input_errors import reading_error

SCORES = pl.DataFrame({"item": ["001"], "system": ["A"], "rater": ["ann"], "kind": ["human"], "score": ["4"]})


def test_a_forced_reader_says_what_it_needs() -> None:
    assert reading_error(SCORES, reader="battles").startswith(
        "table: column 'system_a' is missing (is it 'system'?); columns: item, system,"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reader": "rating"},
            "reader='rating' is unknown (did you mean 'ratings'?); readers: ratings, battles, outputs,",
        ),
        ({"invalid": "skip"}, "invalid='skip'; allowed: error, drop, force"),
        ({"reader": "mtme"}, "reader='mtme' needs the path of a file or folder, not a dataframe"),
    ],
)
def test_bad_options_raise(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as error:
        read(SCORES, **options)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


PLAIN = {"item": [1, 2, 3], "system": ["A", "A", "B"], "rater": ["ann", "ann", "bob"], "score": [4.0, None, 2.5]}
VERDICTS = {"item": [1, 2], "system_a": ["B", "A"], "system_b": ["A", "B"], "rater": ["j", "j"], "preference": [1, -1]}


def doors(columns: dict[str, list[object]]) -> dict[str, object]:
    """Return the same table as every type of dataframe."""
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
        ("2", "A", "B", -1),
    ]
