"""Tables of labels in several files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.errors import InputError
from tests.data.two_raters import EXPERT, JUDGE, N, words
from tests.messages import exactly


def version_files(folder: Path, *, human: bool = True) -> list[Path]:
    """Files of two versions without a column of systems, with the same tickets."""
    files = [folder / f"v{number}.csv" for number in (1, 2)]
    for number, file in enumerate(files):
        judge = words([label ^ (k % 7 == number) for k, label in enumerate(JUDGE)], "fail", "pass")
        table = pl.DataFrame({"ticket_id": range(N), "judge": judge, "human": words(EXPERT, "fail", "pass")})
        (table if human else table.drop("human")).write_csv(file)
    return files


@pytest.mark.parametrize("human", [True, False])
@pytest.mark.parametrize("rows", [slice(None), slice(0, 60)])
def test_a_file_per_version_is_a_system(human: bool, rows: slice, tmp_path: Path) -> None:
    files = version_files(tmp_path, human=human)
    if rows.stop:  # different tickets
        pl.read_csv(files[0])[: rows.stop].write_csv(files[0])
        pl.read_csv(files[1])[rows.stop :].write_csv(files[1])
    expected = pl.concat([pl.read_csv(file).with_columns(version=pl.lit(file.stem)) for file in files])
    names = "v1.csv, v2.csv"
    for study in (cu.read(files), cu.read(tmp_path / "v*.csv"), cu.read(*files, columns={"item": "ticket_id"})):
        assert study.systems == ("v1", "v2")
        assert study.ratings.frame.sort(pl.all()).equals(cu.read(expected).ratings.frame.sort(pl.all()))
        (note,) = [note for note in study.notes if note.rule == "systems-of-files"]
        assert (note.count, note.message) == (
            2,
            f"{names} have no column of systems, so each of them is one system, named v1, v2; if they are about the "
            "same system, add a column system with one value",
        )


def test_files_of_human_labels_belong_to_the_only_file_of_a_judge(tmp_path: Path) -> None:
    first, second = version_files(tmp_path)
    table = pl.read_csv(first, schema_overrides={"ticket_id": pl.String})
    human = table.select("ticket_id", "human").drop_nulls()
    study = cu.read(table.drop("human"), human[:20], human[20:])
    assert len(study.systems) == 1
    assert study.ratings.frame.filter(rater="human").height == human.height
    human.write_csv(tmp_path / "human.csv")
    for files, message in (
        (
            [*version_files(tmp_path, human=False), tmp_path / "human.csv"],
            "v1.csv, v2.csv, human.csv have no column of systems, and only some of them have a rater in common, so it "
            "is unknown which of them are about the same system; add a column system",
        ),
        (
            [table, table[:9]],
            "table, table have no column of systems and have a rater in common, but their names do not distinguish "
            "their systems; add a column system, or rename the files",
        ),
    ):
        with pytest.raises(InputError, match=exactly(message)):
            cu.read(files)
    # a constant column of versions names the system
    for number, file in enumerate((first, second), start=1):
        pl.read_csv(file).with_columns(version=pl.lit(f"r{number}")).write_csv(file)
    assert cu.read(first, second, human.with_columns(version=pl.lit("r2"))).systems == ("r1", "r2")


def versions_with_own_items() -> tuple[pl.DataFrame, pl.DataFrame]:
    """A judge's labels of two versions with different items, and human labels without a column of versions."""
    table = pl.DataFrame(
        {
            "trace_id": [f"t{k}" for k in range(N)],
            "build_tag": ["v1", "v2"] * (N // 2),
            "judge": words(JUDGE, "fail", "pass"),
            "human": words(EXPERT, "fail", "pass"),
        }
    )
    return table.drop("human"), table.select("trace_id", "human").drop_nulls()


def test_human_labels_without_systems_have_the_system_of_their_item() -> None:
    judge, human = versions_with_own_items()
    columns = {"item": "trace_id", "system": "build_tag"}
    expected = cu.read(judge.join(human, on="trace_id", how="left"), columns=columns).ratings.frame.sort(pl.all())
    unknown = pl.concat([human, pl.DataFrame({"trace_id": ["x1", "x2"], "human": ["pass", "fail"]})])
    half = len(human) // 2
    for files in ((judge, human), (human, judge), (judge, human[:half], human[half:]), (judge, unknown)):
        study = cu.read(*files, columns=columns)
        assert study.systems == ("v1", "v2")
        assert study.ratings.frame.sort(pl.all()).equals(expected)
        notes = [note.message for note in study.notes if note.rule == "system-unknown"]
        assert notes == (
            ["table: 2 items are left out, because the file names no system and table does not have these items"]
            if files[-1] is unknown
            else []
        )
    # the judge's file has human labels, too
    rest = judge.join(human[:half], on="trace_id", how="left")
    assert cu.read(rest, human[half:], columns=columns).ratings.frame.sort(pl.all()).equals(expected)
    with pytest.raises(InputError, match="two inputs hold the same rating"):
        cu.read(rest, human, columns=columns)
    # the systems of all files count, in any order of the files
    others = judge.with_columns(build_tag=pl.lit("v3"))
    for files in ((human, judge, others), (human, others, judge), (others, human, judge)):
        with pytest.raises(InputError, match="no item and system in common: .*add the column of systems to table$"):
            cu.read(*files, columns=columns)
    parts = judge.partition_by("build_tag", maintain_order=True)
    assert cu.read(human, *parts, columns=columns).ratings.frame.sort(pl.all()).equals(expected)
    # items of several systems do not show the system
    both = pl.concat([judge, judge.with_columns(build_tag=pl.col("build_tag").replace({"v1": "v2", "v2": "v1"}))])
    with pytest.raises(InputError, match=r"no item and system in common: .*; add the column of systems to table$"):
        cu.read(both, human, columns=columns)


def test_repeated_rows_of_an_output_are_named() -> None:
    judge, human = versions_with_own_items()
    repeated = pl.concat([judge, judge[:3]]).drop("build_tag")
    (message,) = [note.message for note in cu.read(repeated).notes if note.rule == "repeated-ids"]
    assert message.startswith("table: 3 rows repeat a value of trace_id, so row numbers are the items, and each")
    with pytest.raises(
        InputError,
        match=exactly(
            "table and table have no item and system in common: table has items 1, 10 and 121 more of systems table; "
            "table has items t0, t102 and 38 more of systems table; table: 3 rows repeat a value of trace_id, so row "
            "numbers are the items, and each row counts as a separate output; if trace_id names the output, keep one "
            "row for each of its values"
        ),
    ):
        cu.read(repeated, human)
    assert not [note for note in cu.read(judge).notes if note.rule == "repeated-ids"]


def test_all_repeated_ids_are_named() -> None:
    labels = words([*JUDGE, *JUDGE], "fail", "pass")
    table = pl.DataFrame({"ticket_id": [*range(N), *range(N)], "judge": labels, "human": labels})
    (message,) = [note.message for note in cu.read(table).notes if note.rule == "repeated-ids"]
    assert message.startswith(f"table: {N} rows repeat a value of ticket_id, so row numbers are the items")


@pytest.mark.parametrize("are_human_labels_equal", [True, False])
def test_each_version_of_a_judge_is_a_metric(are_human_labels_equal: bool) -> None:
    first_rows = pl.DataFrame({"id": range(N), "judge": words(JUDGE, "fail", "pass"), "judge_version": 1})
    first_rows = first_rows.with_columns(expert=pl.Series(words(EXPERT, "fail", "pass")))
    second_rows = first_rows.with_columns(judge=pl.lit("pass"), judge_version=2 * pl.col("judge_version"))
    if not are_human_labels_equal:
        second_rows = second_rows.with_columns(expert=pl.lit("fail"))
    table = pl.concat([first_rows, second_rows])
    study = cu.read(table)
    assert (study.metrics, study.humans) == (("judge 1", "judge 2"), ("expert",))
    rates = {row["metric"]: row for row in cu.rates(study).rates.iter_rows(named=True)}
    single = cu.rates(cu.read(first_rows)).rates.row(0, named=True)
    assert rates["judge 1"]["judge_rate"] == single["judge_rate"] < rates["judge 2"]["judge_rate"] == 1
    if are_human_labels_equal:
        assert rates["judge 1"]["n_labelled"] == single["n_labelled"]
    columns = {"item": "id", "rater": "judge_version", "score": ["human:expert", "metric:{rater:judge}"]}
    assert cu.read(table, columns=columns).ratings.frame.equals(study.ratings.frame)
    assert cu.read(table.drop("expert"), columns=columns | {"score": "metric:judge"}).metrics == study.metrics


def test_files_of_several_reviewers_may_label_the_same_outputs() -> None:
    judge = pl.DataFrame({"id": range(N), "judge": words(JUDGE, "fail", "pass")})
    files = [
        pl.DataFrame({"id": range(N), "label": words(JUDGE, "fail", "pass"), "reviewer": name})[start : start + 60]
        for name, start in (("anna", 0), ("ben", 40))
    ]
    study = cu.read(judge, *files)
    assert (study.humans, study.metrics) == (("anna", "ben"), ("judge",))
    assert study.ratings.frame.filter(pl.col("rater") != "judge").height == 120
    versions = judge.with_columns(version=pl.when(pl.col("id") % 2 == 0).then(pl.lit("v1")).otherwise(pl.lit("v2")))
    with pytest.raises(InputError, match=r"rater 'label', .*; 20 such ratings, .*, or rename the rater"):
        cu.read(versions, *(file.drop("reviewer") for file in files))


def test_a_file_with_a_judge_in_common_is_one_more_system() -> None:
    judge, _ = versions_with_own_items()
    study = cu.read(judge, judge.drop("build_tag"), columns={"item": "trace_id", "system": "build_tag"})
    assert study.systems == ("table", "v1", "v2")


def test_human_labels_of_a_second_file_are_of_the_only_system_and_on_one_scale() -> None:
    rng = np.random.default_rng(0)
    gold = rng.choice(["billing", "bug", "other"], 300)
    judge = np.where(rng.random(300) < 0.8, gold, rng.choice(["billing", "bug", "other"], 300))
    whole = pl.DataFrame({"id": range(300), "judge_label": judge, "human_label": gold})
    labelled = whole.filter(pl.col("human_label") != "other")
    expected = cu.rates(whole.with_columns(pl.col("human_label").replace({"other": None}))).confusion
    human_labels = labelled.select("id", "human_label")
    machine = pl.DataFrame(
        {"item": whole["id"].cast(pl.String), "rater": "judge_label", "kind": "metric", "label": judge, "system": "app"}
    )
    for inputs in ([human_labels, machine], [machine, human_labels]):
        study = cu.read(inputs)
        assert study.systems == ("app",)
        counts = cu.rates(study).confusion
        assert counts.sort("label", "human_label")["n"].to_list() == expected["n"].to_list()


def test_scores_of_a_judge_in_a_second_file_are_scores_and_codes_are_labels() -> None:
    rng = np.random.default_rng(0)
    good = rng.random(200) < 0.6
    human_labels = pl.DataFrame({"id": range(200), "expert": np.where(good, "pass", "fail")})
    base = {"item": [str(k) for k in range(200)], "system": "app", "rater": "judge", "kind": "metric"}
    scores = cu.read(pl.DataFrame({**base, "score": rng.integers(1, 6, 200) + 2.0 * good}), human_labels)
    assert scores.labels[""].scores == {"judge"}
    assert cu.rates(scores).judges["auc"][0] > 0.7
    codes = cu.read(pl.DataFrame({**base, "score": good.astype(float)}), human_labels)
    assert codes.labels[""].scores == frozenset()
    assert cu.rates(codes).judges["accuracy"].to_list() == [1.0]
    assert cu.read(human_labels.rename({"id": "case"})).humans == ("expert",)


def test_further_columns_of_two_inputs_are_slices() -> None:
    first_input = pl.DataFrame({"id": range(20), "expert": ["pass", "fail"] * 10, "topic": ["a"] * 20})
    second_input = pl.DataFrame(
        {"id": range(30), "judge": ["pass", "fail"] * 15, "topic": ["b"] * 30, "length": range(30)}
    )
    study = cu.read(first_input, second_input)
    assert study.attributes["topic"].value_counts().sort("topic").rows() == [("a", 20), ("b", 10)]
    assert study.attributes["length"].null_count() == 0
    assert len(study.systems) == 1


def test_slices_of_one_input_are_kept_beside_an_input_without_slices() -> None:
    items = [str(k) for k in range(20)]
    labels = pl.DataFrame({"id": items, "expert": ["pass", "fail"] * 10, "topic": ["a", "a", "b", "b"] * 5})
    ratings = pl.DataFrame(
        {"item": items, "system": "app", "rater": "judge", "kind": "metric", "score": [1.5, 2.5] * 10}
    )
    assert cu.read(ratings).attributes is None
    for inputs in ((ratings, labels), (labels, ratings)):
        attributes = cu.read(*inputs).attributes
        assert attributes is not None
        assert attributes["topic"].value_counts().sort("topic").rows() == [("a", 10), ("b", 10)]


def test_an_output_whose_judge_is_unsure_has_a_match() -> None:
    labels = words(JUDGE, "fail", "pass")
    judge = pl.DataFrame({"id": range(N), "judge": ["unsure", *labels[1:]]})
    study = cu.read(judge, pl.DataFrame({"id": range(N), "human": labels}))
    assert study.ratings.frame.height == 2 * N - 1
    assert "partial-join" not in {note.rule for note in study.notes}
