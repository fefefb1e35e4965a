"""Choice of the reader by `read`, and the types of source that it accepts."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from custodes.data.ratings import Ratings
from custodes.data.reading import read
from custodes.errors import InputError, OptionError
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


TABLES = {
    "ratings": "item=1/2 *system=A/A *rater=j/j kind=metric/metric role=primary/primary score=1/2",
    "wide": "item=1/2 *system=A/A aspect=x/x repeat=0/1 bleu=1/2 ter=1/1",
    "battles": "*item=1/2 *model_a=A/B *model_b=B/A winner=tie/tie *rater=j/j kind=metric/metric aspect=x/x "
    "order=ab/ba seconds=1/2 repeat=0/0 role=primary/primary *p_a=0/0 *p_tie=1/1 *p_b=0/0",
    "outputs": '*item=1/2 *outputs={"A":"x"}/{"A":"y"} context=c/d source=s/t ?images=a/b meta={}/{}',
    "alpacaeval": "*instruction=x/y *generator_1=A/A *generator_2=B/B ?output_1=s/t ?output_2=u/v preference=1/2 "
    "*annotator=j/j dataset=d/d input=i/i",
    "arena": "*id=1/2 *model_a=A/B *model_b=B/A winner=tie/tie *judge=j/j kind=human/human language=en/en "
    "order=ab/ba ?conversation_a=x/y ?conversation_b=x/y ?prompt=p/q",
    "arenahard": '*uid=1/2 *model=A/A *judge=j/j *baseline=B/B category=c/c *games=[{"score":"A>B"}]/[null]',
    "mtbench": "*question_id=1/2 *model_1=A/A *model_2=B/B g1_winner=tie/tie g2_winner=tie/tie *judge=j/j turn=1/2 "
    "m1_score=1/2",
    "mtbench scores": "*question_id=1/2 *model=A/A *judge=j/j turn=1/1 score=1/2",
    "rewardbench": "*ref=1/0 *subset=x/x bleu=1/2",
    "rewardbench2_data": "*id=1/2 *subset=x/x ?prompt=p/q ?chosen=a/b ?rejected=c/d",
    "llmbar": "*dataset=d/d *item=1/2 *judge=j/j *prompt=p/p repeat=0/0 *gold=1/2 winner_original_order=1/2 "
    "winner_swapped_order=1/2",
}
"""Two rows for each reader. A star marks a column whose cells must not be empty, and a question mark a column of
texts, whose cells may end in NUL."""


@pytest.mark.parametrize("name", TABLES)
def test_errors_name_the_table_and_the_column(name: str) -> None:
    columns = {column: cells.split("/") for column, cells in (each.split("=") for each in TABLES[name].split())}
    table, reader = pl.DataFrame({column.strip("*?"): cells for column, cells in columns.items()}), name.split()[0]
    assert read(table, reader=reader).name == "table"
    required, checked = [name for name in columns if name[0] == "*"], [name for name in columns if name[0] != "?"]
    for bad_cell, refused in (("", required), ("x\0", checked)):
        messages = {}
        for column in table.columns:
            try:
                read(table.with_columns(pl.Series(column, [bad_cell, table[column][1]])), reader=reader)
            except InputError as error:
                messages[column] = str(error)
        assert list(messages) == [column.strip("*?") for column in refused]
        assert all(message.startswith(("table: ", "table, row 1: ")) for message in messages.values())
