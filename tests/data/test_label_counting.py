"""`rates` of counted labels equals `rates` of the labels, for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.errors import InputError, OptionError
from tests.command_line import Run, custodes, refused
from tests.messages import exactly

__all__ = ["custodes"]

duckdb = pytest.importorskip("duckdb")

TABLES = ("rates", "judges", "differences", "slices", "confusion", "replacement")


def traces(n: int = 900, *, labelled: float = 0.15, seed: int = 0, tnr: float = 0.7) -> pl.DataFrame:
    """Return labels of one application by two judges, one with gaps, and by an expert on a random subset."""
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.7

    def words(passed: np.ndarray, share: float) -> pl.Series:
        return pl.Series(np.where(passed, "Pass", "fail")).set(pl.Series(rng.random(n) >= share), None)

    judge = np.where(good, rng.random(n) < 0.95, rng.random(n) >= tnr)
    return pl.DataFrame(
        {
            "id": [f"t{k}" for k in range(n)],
            "judge_a": words(judge, 1.0),
            "judge_b": words(good ^ (rng.random(n) < 0.2), 0.9),
            "expert": words(good, labelled),
            "topic": rng.choice(["billing", "returns", "other"], n),
        }
    )


def versions() -> pl.DataFrame:
    """Return labels of two versions on the same traces."""
    parts = [traces(seed=k, tnr=tnr).with_columns(version=pl.lit(f"v{k}")) for k, tnr in ((1, 0.8), (2, 0.4))]
    return pl.concat(parts)


def conversations() -> pl.DataFrame:
    """Return traces of conversations of one to five turns, some labelled, and traces without a conversation."""
    rng = np.random.default_rng(4)
    of = np.repeat(np.arange(400), rng.integers(1, 6, 400))[:900]
    table = traces(labelled=0.9).with_columns(conversation_id=pl.Series(of), topic=pl.lit("x"))
    few = pl.when(pl.col("conversation_id") < 60).then("expert")
    return table.with_columns(expert=few, conversation_id=pl.col("conversation_id").replace({399: None, 398: None}))


def criteria() -> pl.DataFrame:
    """Return labels of an expert and a judge for two criteria."""
    tone, facts = traces(seed=1), traces(seed=2)
    return pl.DataFrame(
        {
            "id": tone["id"],
            "human_tone": tone["expert"],
            "judge_tone": tone["judge_a"],
            "human_facts": facts["expert"],
            "judge_facts": facts["judge_a"],
            "topic": tone["topic"],
        }
    )


def long_rows() -> pl.DataFrame:
    """Return a row per label, of two versions."""
    columns = {"judge_a": "judge", "judge_b": "judge", "expert": "human"}
    return (
        versions()
        .unpivot(list(columns), index=["id", "version", "topic"], variable_name="rater", value_name="label")
        .with_columns(kind=pl.col("rater").replace(columns))
        .drop_nulls("label")
    )


def in_polars(table: pl.DataFrame, folder: Path) -> Any:
    table.write_parquet(folder / "traces.parquet")
    return pl.scan_parquet(folder / "traces.parquet")


@pytest.fixture
def in_duckdb() -> Iterator[Callable[[pl.DataFrame, Path], Any]]:
    with duckdb.connect() as connection:

        def relation(table: pl.DataFrame, folder: Path) -> Any:
            table.write_parquet(folder / "traces.parquet")
            return connection.read_parquet(str(folder / "traces.parquet"))

        yield relation


def assert_same_answer(table: pl.DataFrame, counts: pl.DataFrame, *, by: str | None = "topic") -> None:
    whole, from_counts = cu.rates(table, by=by), cu.rates(counts, by=by)
    for name in TABLES:
        assert_frame_equal(whole.to_frame(name), from_counts.to_frame(name), rel_tol=1e-9)
    rules, rules_of_counts = ({note.rule for note in answer.notes} for answer in (whole, from_counts))
    assert rules | {"label-columns"} == rules_of_counts


@pytest.mark.parametrize("data", [traces, versions, conversations, criteria, long_rows])
def test_rates_of_counts_are_those_of_the_labels(
    data: Callable[[], pl.DataFrame], tmp_path: Path, in_duckdb: Callable[[pl.DataFrame, Path], Any]
) -> None:
    table = data()
    counts = cu.count_labels(in_polars(table, tmp_path), by=["topic"], name="table")
    assert_same_answer(table, counts)
    assert counts["item"].n_unique() < 0.75 * table.height
    batched = cu.count_labels(in_polars(table, tmp_path), by=["topic"], name="table", batches=7)
    key = ["rater", "aspect", "item", "system"]
    assert_frame_equal(batched.sort(key), counts.sort(key))
    other = cu.count_labels(in_duckdb(table, tmp_path), by=["topic"], name="table")
    assert_frame_equal(other.sort(key), counts.sort(key), check_column_order=False)


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        (
            {"judge": ["y", "y", "n", None, "n"], "human": ["y", None, None, None, "n"], "p": [0.5, 1, 1, 1, 0.5]},
            {"columns": {"score": ["human:{rater:human}", "metric:{rater:judge}"], "probability": "p"}, "name": "x"},
            [
                *((f"x with human label {k}", "x", "human", label, 0.5, 1) for k, label in ((1, "y"), (2, "n"))),
                *((f"x {k}", "x", "judge", label, None, 1) for k, label in ((1, "n"), (2, "y"), (3, None))),
                *((f"x with human label {k}", "x", "judge", label, 0.5, 1) for k, label in ((1, "y"), (2, "n"))),
            ],
        ),
        (
            {
                "id": [f"t{k}" for k in range(8)],
                "conversation_id": [*"aabbccd", None],
                "judge": [*"ynynnyyy"],
                "human": ["y", *[None] * 7],
                "topic": [*"uuuvvuuu"],
            },
            {"by": ["topic"]},
            [
                ("t0", "labels", "human", "y", "a", 1, "u"),
                ("labels 1.1", "labels", "judge", "y", "labels 1", 2, "u"),  # conversation d, and the last item
                ("labels 2.1", "labels", "judge", "y", "labels 2", 2, "u"),  # conversations b and c
                ("labels 2.2", "labels", "judge", "n", "labels 2", 2, "v"),
                ("t0", "labels", "judge", "y", "a", 1, "u"),
                ("t1", "labels", "judge", "n", "a", 1, "u"),
            ],
        ),
        (
            {"id": [1, 1, 2, 2, 3, 3], "version": ["v1", "v2"] * 3, "judge": [*"ynynny"], "human": ["y", *[None] * 5]},
            {"name": "z"},
            [
                ("1", "v1", "human", "y", 1),
                *((item, "v1", "judge", label, 1) for item, label in (("1", "y"), ("z 1", "y"), ("z 2", "n"))),
                *((item, "v2", "judge", label, 1) for item, label in (("1", "n"), ("z 1", "n"), ("z 2", "y"))),
            ],
        ),
    ],
    ids=["no items", "clusters", "systems"],
)
def test_rows_of_counts(
    columns: dict[str, list[Any]], options: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    counts = cu.count_labels(pl.LazyFrame(columns), **options)
    constant = {"kind", "aspect", "repeat", "invalid"}
    assert counts.select(name for name in counts.columns if name not in constant).rows() == expected
    assert set(counts.select("rater", "kind").iter_rows()) == {("human", "human"), ("judge", "metric")}
    assert counts.select(constant - {"kind"}).unique().row(0) == ("", "", "")


def test_integers_are_equal_to_the_last_one_and_bounds_have_the_same_seed() -> None:
    table = traces(5000, labelled=0.05)
    whole, from_counts = cu.rates(table, rng=7), cu.rates(cu.count_labels(table.lazy(), name="table"), rng=7)
    for name, columns in (("rates", ["n", "n_labelled"]), ("confusion", ["n"]), ("judges", ["n_labelled"])):
        assert whole.to_frame(name).select(columns).equals(from_counts.to_frame(name).select(columns))
    assert whole.rates["corrected_rate_low"].to_list() == from_counts.rates["corrected_rate_low"].to_list()


def test_labels_at_the_end_of_a_long_table_are_seen() -> None:
    n = 30_000
    late = np.arange(n) >= n - 50
    table = pl.DataFrame(
        {
            "id": range(n),
            "version": np.where(np.arange(n) < 25_000, "v1", "v2"),
            "judge": np.where(np.arange(n) % 4 == 0, "fail", "pass"),
            "human": pl.Series(np.where(np.arange(n) % 3 == 0, "fail", "pass")).set(pl.Series(~late), None),
        }
    )
    counts = cu.count_labels(table.lazy())
    assert sorted(counts["system"].unique()) == ["v1", "v2"]
    assert counts.filter(kind="human").height == 50
    assert cu.rates(counts).rates["n"].to_list() == [25_000, 5_000]


def test_a_table_with_a_column_of_counts_is_read_like_the_rows_it_stands_for() -> None:
    cells = pl.DataFrame(
        {"judge": ["pass", "pass", "fail", "fail", "pass", "fail"], "n": [40, 6, 3, 21, 500, 300]}
    ).with_columns(human=pl.Series(["pass", "fail", "pass", "fail", None, None]))
    rows = cells.select(pl.col("judge", "human").repeat_by("n").explode())
    from_counts = cu.rates(cu.read(cells, columns={"n_outputs": "n"}))
    assert_frame_equal(from_counts.rates, cu.rates(rows.with_columns(id=pl.int_range(pl.len()))).rates, rel_tol=1e-9)
    assert from_counts.rates.select("n", "n_labelled").row(0) == (870, 70)
    with pytest.raises(InputError, match=r"n_outputs 0.0 in row 1, 2, 3, 4; allowed: a positive whole number"):
        cu.read(cells.with_columns(n=pl.col("n") // 50), columns={"n_outputs": "n"})


def test_other_questions_refuse_counts() -> None:
    counts = cu.count_labels(traces().lazy())
    for question in (cu.agreement, cu.check, cu.verdict, cu.labelling, cu.route, cu.report):
        with pytest.raises(
            OptionError,
            match=r"^\S* holds numbers of equal outputs \(n_outputs\), which only the question rates supports; pass "
            "the table with one row per output$",
        ):
            question(counts)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            {"id": pl.lit("t1")},
            "count_labels: the output of labels for item 't1' occurs 900 times; name another column with "
            "item=NAME, or count one run",
        ),
        (
            {"judge_a": pl.int_range(pl.len()).cast(pl.String)},
            "count_labels: column 'judge_a' has more than 200 different values, but only labels can be counted, "
            "not scores or texts; give a column of labels, or pass a sample of the table to the function rates",
        ),
    ],
)
def test_what_cannot_be_counted_is_named(change: dict[str, pl.Expr], error: str) -> None:
    columns = {"item": "id", "score": ["human:{rater:expert}", "metric:{rater:judge_a}"]}
    with pytest.raises(InputError, match=exactly(error)):
        cu.count_labels(traces().with_columns(**change).lazy(), columns=columns)
    numbers = pl.int_range(pl.len())
    table = (
        traces()
        .with_columns(
            numbers.alias("n_outputs"),
            (numbers % 2).alias("repeat"),
            *((numbers % n).alias(f"number{n}") for n in (11, 12)),
            *(pl.format("g{}", numbers % n).alias(f"text{n}") for n in (2, 50, 51)),
            version=pl.format("v{}", numbers % 2),
        )
        .lazy()
    )
    reserved = ": this column has a reserved name or another role; leave the column out of by"
    for by, message in (
        ("topics", "by='topics': no such column (did you mean 'topic'?)"),
        *((name, f"by='{name}'{reserved}") for name in ("judge_a", "id", "version", "n_outputs", "repeat")),
        *(
            (
                f"{kind}{n + 1}",
                f"by='{kind}{n + 1}' has more than {n} different values; give a column with fewer values, such as a "
                "column of groups",
            )
            for kind, n in (("number", 11), ("text", 50))
        ),
    ):
        with pytest.raises(OptionError, match=exactly(f"count_labels: {message}")):
            cu.count_labels(table, by=[by], columns={"system": "version"})
    by_values = cu.count_labels(table, by=["number11", "text2"], columns={"system": "version"})
    assert by_values.columns[-3:] == ["n_outputs", "number11", "text2"]
    message = (
        "count_labels: more than 500 different combinations of system, labels and number11, text50; give fewer columns "
        "in by="
    )
    with pytest.raises(InputError, match=exactly(message)):
        cu.count_labels(table, by=["number11", "text50"], columns={"system": "version"})


def test_a_table_of_reviews_and_clusters_without_items_are_refused() -> None:
    table = traces(90)
    for frame, columns, message in (
        (
            pl.concat([table.with_columns(reviewer=pl.lit(name)) for name in "ab"]),
            {"item": "id", "rater": "reviewer"},
            "an output has several rows, one per review (column 'reviewer'); keep one row per output, or pass the "
            "table to the function rates",
        ),
        (
            table.drop("id").with_columns(conversation_id=pl.int_range(pl.len()) // 3),
            {"cluster": "conversation_id"},
            "clusters hold several outputs, and no column identifies these outputs; name such a column with item=NAME",
        ),
    ):
        with pytest.raises(InputError, match=exactly(f"count_labels: {message}")):
            cu.count_labels(frame.lazy(), columns=columns)


def test_repeats_are_refused_and_a_single_run_is_counted() -> None:
    counts = cu.count_labels(traces().lazy(), name="table")  # the layout of `judge`, with a column `repeat`
    again = counts.drop("n_outputs").with_columns(repeat=pl.lit("0"))
    assert cu.count_labels(again.lazy(), name="again")["n_outputs"].sum() > 0
    with pytest.raises(
        InputError,
        match=exactly(
            "count_labels: column 'n_outputs' holds counts, so the outputs are counted already; pass the "
            "table to the function rates"
        ),
    ):
        cu.count_labels(counts.lazy())
    both = pl.concat([again, again.with_columns(repeat=pl.lit("1"))])
    with pytest.raises(
        InputError, match=exactly("count_labels: column 'repeat' numbers repeats; keep the rows of one repeat only")
    ):
        cu.count_labels(both.lazy())


def test_texts_are_no_labels() -> None:
    with pytest.raises(
        InputError,
        match=exactly(
            "count_labels: the table has no column of labels (id, text); name the columns of labels, as in "
            "columns={'score': ['human:{rater:sme}', 'metric:{rater:grader}']}"
        ),
    ):
        cu.count_labels(pl.LazyFrame({"id": [1, 2], "text": ["one answer", "another answer"]}))


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_the_command_writes_a_table_that_rates_reads(engine: str, tmp_path: Path, custodes: Run) -> None:
    traces().write_parquet(tmp_path / "traces.parquet")
    from_counts = custodes(*f"count traces.parquet --by topic -o counts.csv --quiet --engine {engine}".split())
    assert (from_counts.status, from_counts.out.strip()) == (0, "counts.csv")
    answers = [
        custodes(*f"rates {file} --by topic --format csv --quiet".split()) for file in ("traces.parquet", "counts.csv")
    ]
    assert [answer.status for answer in answers] == [0, 0]
    assert answers[0].out == answers[1].out


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            "-o c.json",
            "must end in .counts.json, or in .csv, .tsv, .jsonl, .parquet for counts of labels; rename the file",
        ),
        ("-o c.csv --human expert", "has no effect: the table holds labels; name their columns with --columns"),
        ("-o c.counts.json --by topic", "has no effect: the table holds scores or verdicts; to count labels, give -o"),
    ],
)
def test_options_without_effect_are_refused(options: str, error: str, tmp_path: Path, custodes: Run) -> None:
    traces().write_parquet(tmp_path / "traces.parquet")
    refused(custodes(*f"count traces.parquet {options}".split()), error)
