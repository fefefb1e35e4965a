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
from tests.data.study_parts import note_counts

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
            "reader='rating' is unknown (did you mean 'ratings'?); readers: ratings, battles, outputs, looks, "
            "wide, alpacaeval, arena, arenahard, mtbench, rewardbench, rewardbench2_data, llmbar, annotation, "
            "alpacaeval_results, inspect_ai, lm_eval, helm, every_eval_ever, rewardbench2, texts_folder, mtme",
        ),
        ({"invalid": "skip"}, "invalid='skip'; allowed: error, drop, force"),
        ({"reader": "mtme"}, "reader='mtme' needs the path of a file or folder, not a dataframe"),
    ],
)
def test_bad_options_raise(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as error:
        read(SCORES, **options)  # type: ignore[arg-type]
    assert str(error.value) == message


PLAIN = {"item": [1, 2, 3], "system": ["A", "A", "B"], "rater": ["ann", "ann", "bob"], "score": [4.0, None, 2.5]}


FRAME, PANDAS, ARROW, STRINGS = pl.DataFrame(PLAIN), pd.DataFrame(PLAIN), pa.table(PLAIN), ["system", "rater"]
DOORS: dict[str, object] = {
    "polars": FRAME,
    "polars lazy": FRAME.lazy(),
    "polars categories": FRAME.with_columns(pl.col(STRINGS).cast(pl.Categorical)),
    "pandas": PANDAS,
    "pandas objects": PANDAS.astype(object),
    "pandas categories": PANDAS.astype(dict.fromkeys(STRINGS, "category")),
    "pandas nullable": PANDAS.convert_dtypes(),
    "pandas arrow": PANDAS.convert_dtypes(dtype_backend="pyarrow"),
    "pandas text": PANDAS.astype(object).where(PANDAS.notna(), "").astype(str),
    "pandas with an index": PANDAS.set_index(pd.Index(range(10, 10 + len(PANDAS)))),
    "pyarrow": ARROW,
    "duckdb": duckdb.from_arrow(ARROW),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_dataframe_gives_the_same_ratings(door: str) -> None:
    study = read(DOORS[door])
    assert study.ratings.frame.equals(Ratings.make(pl.DataFrame(PLAIN))[0].frame)
    assert note_counts(study) == {"missing-score": 1}
    assert study.fingerprint() == read(pl.DataFrame(PLAIN)).fingerprint()
