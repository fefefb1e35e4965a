"""Tables of labels with typical layouts and names of users."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.labels import LabelScale
from custodes.errors import InputError
from tests.data.two_raters import EXPERT, JUDGE, RNG, N, words
from tests.messages import exactly


@pytest.mark.parametrize(
    ("item", "human", "judge", "pair"),
    [
        ("id", "human_passed", "judge_passed", (0, 1)),
        ("case_id", "expert_label", "llm_judge_label", ("fail", "pass")),
        ("trace_id", "gold", "grader", ("No", "Yes")),
        ("request_id", "reviewer", "autograder_verdict", (False, True)),
        ("sample", "sme_verdict", "gpt_judge", ("Incorrect", "Correct")),
        ("q_id", "annotator", "eval_result", ("unsafe", "safe")),
    ],
)
def test_a_column_for_each_rater(item: str, human: str, judge: str, pair: tuple[object, object]) -> None:
    table = pl.DataFrame(
        {item: range(N), judge: words(JUDGE, *pair), human: words(EXPERT, *pair), "latency_ms": RNG.random(N)}
    )
    study = cu.read(table)
    assert (study.humans, study.metrics) == ((human,), (judge,))
    assert len(study.systems) == 1
    assert study.labels[""].binary
    scores = {name: study.ratings.frame.filter(rater=name)["score"] for name in (human, judge)}
    assert scores[judge].mean() == pytest.approx(JUDGE.mean())
    assert scores[human].mean() == pytest.approx(np.mean([label for label in EXPERT if label is not None]))
    assert "latency_ms" in study.attributes.columns
    # the note prints a mapping that reads the same table
    note = next(note.message for note in study.notes if note.rule == "label-columns")
    assert f"human:{{rater:{human}}}" in note
    again = (
        cu.read(table, columns={"item": item, "score": [f"human:{{rater:{human}}}", f"metric:{{rater:{judge}}}"]})
        if item in note
        else study
    )
    assert again.ratings.frame.sort(pl.all()).equals(study.ratings.frame.sort(pl.all()))


@pytest.mark.parametrize("reviewer", ["reviewer", "labelled_by", "annotator_id"])
@pytest.mark.parametrize("human", [("pass", "fail", "unsure"), ("pass", "fail"), ()])
def test_names_of_reviewers_are_no_labels(reviewer: str, human: tuple[str, ...]) -> None:
    columns = {"human_verdict": [human[k % len(human)] for k in range(N)]} if human else {}
    table = pl.DataFrame(
        {"id": range(N), "judge": words(JUDGE, "fail", "pass"), reviewer: ["anna", "bob", "chen"] * (N // 3), **columns}
    )
    study = cu.read(table)
    assert (study.humans, study.metrics) == (tuple(columns), ("judge",))
    assert set(study.labels[""].words) == {"pass", "fail"}


@pytest.mark.parametrize(("column", "is_label"), [("reviewer", False), ("annotator", False), ("expert", True)])
def test_two_unknown_words_are_labels_of_an_expert_and_names_of_reviewers(column: str, is_label: bool) -> None:
    table = pl.DataFrame({"id": range(N), column: ["ann", "bob"] * (N // 2), "label": words(JUDGE, "fail", "pass")})
    assert (cu.read(table).humans, cu.read(table).metrics) == (("label",), ())
    assert cu.read(table.rename({"label": "judge"})).humans == ((column,) if is_label else ())
    levels = {column: ["good", "fair", "poor"] * (N // 3), "judge": ["high", "medium", "low"] * (N // 3)}
    with pytest.raises(
        InputError,
        match=exactly(
            "judge and the annotators have no label in common (labels of judge: high, low, medium; of "
            "annotators: fair, good, poor); replace them by the same words, or give rates and gate the "
            "positive labels of both, with a comma: positive='LABEL,LABEL'"
        ),
    ):
        cu.rates(pl.DataFrame({"id": range(N), **levels}))


def reviews(n_reviewers: int) -> pl.DataFrame:
    """A table with one row per review; the last half of the outputs has no review."""
    outputs = pl.DataFrame(
        {"ticket_id": range(N), "version": ["v1", "v2"] * (N // 2), "judge": words(JUDGE, "no", "yes")}
    )
    reviewed = outputs.head(N // 2).join(pl.DataFrame({"reviewer": ["anna", "bob", "chen"][:n_reviewers]}), how="cross")
    reviewed = reviewed.with_columns(human_verdict=pl.Series(["yes", "no", "yes", "yes", "no"] * 12 * n_reviewers))
    return pl.concat([reviewed, outputs.tail(N // 2)], how="diagonal")


@pytest.mark.parametrize("mapping", [{}, {"rater": "reviewer"}, {"judge": "judge"}, {"judge": "{rater:judge}"}])
def test_reviews_are_labels_of_several_annotators_of_one_output(mapping: dict[str, str]) -> None:
    table, columns = reviews(3).sample(fraction=1, shuffle=True, seed=0), dict[str, object](mapping)
    if judge := columns.pop("judge", None):
        columns |= {"rater": "reviewer", "score": ["human:human_verdict", f"metric:{judge}"]}
    study = cu.read(table, columns=columns)  # type: ignore[arg-type]
    ratings = study.ratings.frame
    assert (sorted(study.humans), study.metrics) == (["anna", "bob", "chen"], ("judge",))
    assert ratings.filter(rater="judge").height == N
    assert ratings["item"].n_unique() == N
    human = ratings.filter(pl.col("rater") != "judge").select("item", "rater", "score")
    expected = table.drop_nulls("reviewer").select(
        pl.col("ticket_id").cast(pl.String), "reviewer", (pl.col("human_verdict") == "yes").cast(pl.Float64)
    )
    assert sorted(human.iter_rows()) == sorted(expected.iter_rows())
    # a file of reviews joins the file of the judge
    two_files = cu.read(table.select("ticket_id", "version", "judge").unique(), table.drop("judge").drop_nulls())
    assert two_files.ratings.frame.sort(pl.all()).equals(ratings.sort(pl.all()))


def test_columns_with_names_of_models_name_no_reviewers() -> None:
    table = reviews(2).drop_nulls()
    models = pl.col("reviewer").replace_strict({"anna": "gpt-4", "bob": "claude-3"})
    for data, column in ((table, "created_by"), (table.with_columns(models), "labelled_by")):
        assert cu.read(data.rename({"reviewer": column})).humans == ("human_verdict",)
    assert set(cu.read(table.rename({"reviewer": "labelled_by"})).humans) == {"anna", "bob"}
    mixed = cu.read(table.with_columns(pl.col("reviewer").replace("bob", "gpt-4")))
    assert (mixed.humans, set(mixed.metrics)) == (("anna",), {"gpt-4", "judge"})


@pytest.mark.parametrize("number", [[], [pl.int_range(N + 1).alias("review_id")]])
def test_an_output_with_two_reviews_by_one_reviewer_is_refused(number: list[pl.Expr]) -> None:
    table = reviews(2).drop_nulls()
    doubled = pl.concat([table, table[:1]]).with_columns(number)
    with pytest.raises(
        InputError,
        match=exactly(
            "table: two reviews by 'anna' for one output, in rows 1, 121 (item '0', system 'v1'); keep one "
            "of them, or number the runs in a column with repeat=NAME"
        ),
    ):
        cu.read(doubled)
    outputs = doubled.with_columns(judge=pl.Series(["yes", "no", "no"] * (N // 3) + ["no"]))  # rows are outputs
    assert cu.read(outputs).ratings.frame["item"].n_unique() == N + 1


@pytest.mark.parametrize("rows_of_labels", [False, True])
def test_a_reviewer_with_the_name_of_the_judge_is_refused(rows_of_labels: bool) -> None:
    table = reviews(2).drop_nulls().with_columns(pl.col("reviewer").replace("bob", "judge"))
    if rows_of_labels:
        human = table.select("ticket_id", rater="reviewer", kind=pl.lit("human"), label="human_verdict")
        judge = table.select("ticket_id", rater=pl.lit("judge"), kind=pl.lit("metric"), label="judge")
        table = pl.concat([human, judge.unique(maintain_order=True)])
    with pytest.raises(
        InputError,
        match=exactly("table: rater 'judge' has labels of kind human and of kind metric; give each rater one kind"),
    ):
        cu.read(table, columns={"rater": "rater"} if rows_of_labels else {})


def test_a_judge_has_one_label_per_reviewed_output() -> None:
    table = reviews(2).with_columns(judge=pl.Series(["yes", "no"] * (3 * N // 4)))
    with pytest.raises(
        InputError,
        match=exactly(
            "table: different labels in 'judge' for one output, in rows 1, 2 (item '0', system 'v1'); in a "
            "table with one row per review (reviewer: 'reviewer'), repeat the label of the judge in all rows "
            "of an output; if the rows are different outputs, name another column with item=NAME"
        ),
    ):
        cu.read(table)


def test_versions_are_systems_and_both_model_and_version_where_both_vary() -> None:
    base = {
        "trace": np.repeat(np.arange(30), 4),
        "expert": words(EXPERT, "bad", "good"),
        "judge": words(JUDGE, "bad", "good"),
    }
    version, model = np.tile(["v1", "v2"], 60), np.tile(["x", "x", "y", "y"], 30)
    assert cu.read(pl.DataFrame({**base, "prompt_version": version, "model": model})).systems == (
        "x v1",
        "x v2",
        "y v1",
        "y v2",
    )
    one = {**{name: values[:60] for name, values in base.items()}, "trace": np.repeat(np.arange(30), 2)}
    assert cu.read(pl.DataFrame({**one, "version": version[:60], "model": ["m"] * 60})).systems == ("v1", "v2")
    single = {**{name: values[:30] for name, values in base.items()}, "trace": np.arange(30)}
    assert cu.read(pl.DataFrame({**single, "model": ["m"] * 30})).systems == ("m",)


def test_a_row_for_each_label() -> None:
    judge = pl.DataFrame({"run": [f"r{k}" for k in range(N)], "label": words(JUDGE, "fail", "pass")})
    human = judge.with_columns(label=pl.Series(words(EXPERT, "fail", "pass"), dtype=pl.String)).drop_nulls()
    table = pl.concat(
        [
            judge.with_columns(source=pl.lit("LLM"), metric=pl.lit("correctness")),
            human.with_columns(source=pl.lit("HUMAN"), metric=pl.lit("correctness")),
        ]
    )
    study = cu.read(table.with_columns(uid=pl.int_range(table.height)))
    assert study.aspects == ("correctness",)
    assert (study.humans, study.metrics) == (("HUMAN",), ("LLM",))
    assert study.ratings.frame["item"].n_unique() == N
    raters = table.select("run", "label", rater=pl.col("source") + "1", kind=pl.col("source"))
    assert cu.read(raters).humans == ("HUMAN1",)


@pytest.mark.parametrize("given", [False, True])
def test_only_annotators_have_a_name_in_a_log(given: bool) -> None:
    judge = pl.DataFrame({"traceId": range(N), "value": words(JUDGE, "no", "yes"), "source": ["EVAL"] * N})
    human = judge.with_columns(value=pl.Series(words(EXPERT, "no", "yes"), dtype=pl.String)).drop_nulls()
    human = human.with_columns(source=pl.lit("ANNOTATION"), annotator=pl.Series(["ann", "bob", None, "ann"] * 10))
    roles = {"item": "traceId", "score": "value", "kind": "source", "rater": "annotator"} if given else {}
    study = cu.read(pl.concat([judge, human], how="diagonal"), columns=roles)
    assert (set(study.humans), study.metrics) == ({"ann", "bob", "ANNOTATION"}, ("EVAL",))


def test_the_confidence_of_a_judge_is_no_judge() -> None:
    table = pl.DataFrame(
        {"id": range(N), "llm_verdict": words(JUDGE, "no", "yes"), "llm_confidence": RNG.random(N), "human": EXPERT}
    )
    assert cu.read(table).metrics == ("llm_verdict",)
    assert cu.read(table.drop("llm_verdict")).metrics == ("llm_confidence",)


def test_scores_of_a_judge_stay_scores() -> None:
    table = pl.DataFrame({"id": range(N), "judge_score": RNG.random(N), "human": words(EXPERT, "fail", "pass")})
    study = cu.read(table)
    assert study.labels[""].scores == {"judge_score"}
    assert study.ratings.frame.filter(rater="judge_score")["score"].n_unique() == N


def test_conversations_are_clusters_and_other_columns_slices() -> None:
    table = pl.DataFrame(
        {
            "conversation_id": np.arange(N) // 4,
            "turn_id": range(N),
            "topic": ["a", "b"] * (N // 2),
            "judge": words(JUDGE, "fail", "pass"),
            "human": words(EXPERT, "fail", "pass"),
        }
    )
    study = cu.read(table)
    assert study.items.frame["cluster"].n_unique() == N // 4
    assert {"topic", "conversation_id"} <= set(study.attributes.columns)


@pytest.mark.parametrize(
    "names", [("trace_id", "session_id", "app_version"), ("id", "attributes.session.id", "service.version")]
)
def test_prompts_of_several_conversations_are_no_items(names: tuple[str, str, str]) -> None:
    """Conversations are clusters of traces, but the same question occurs in several conversations."""
    item, cluster, version = names
    table = pl.DataFrame(
        {
            "question": [f"q{k // 2}" for k in range(N)],
            item: [f"t{k}" for k in range(N)],
            cluster: [f"s{k % 30}" for k in range(N)],
            version: ["v1", "v2"] * (N // 2),
            "judge": words(JUDGE, "fail", "pass"),
        }
    )
    study = cu.read(table)
    assert study.systems == ("v1", "v2")
    assert study.items.frame["cluster"].n_unique() == 30
    assert set(study.ratings.frame["item"]) == set(table[item])
    assert cu.read(table.drop(cluster)).ratings.frame["item"].n_unique() == N // 2


@pytest.mark.parametrize(
    "name", ["judge_prompt_version", "user_agent_version", "annotator_user_id", "labelling_session_id"]
)
def test_versions_of_the_judge_and_sessions_of_reviewers_are_slices(name: str) -> None:
    study = cu.read(
        pl.DataFrame(
            {
                "trace_id": range(N),
                name: ["1", "2"] * (N // 2),
                "judge": words(JUDGE, "fail", "pass"),
                "human_label": words(EXPERT, "fail", "pass"),
            }
        )
    )
    assert study.systems == ("table",)
    assert study.items.frame.is_empty()
    assert name in study.attributes.columns


@pytest.mark.parametrize("name", ["evaluation_by_expert", "evaluation_human", "grading_annotator", "human_evaluation"])
def test_evaluations_by_people_are_human_labels(name: str) -> None:
    columns = {"id": range(N), name: words(EXPERT, "fail", "pass"), "judge": words(JUDGE, "fail", "pass")}
    study = cu.read(pl.DataFrame(columns))
    assert (study.humans, study.metrics) == ((name,), ("judge",))


def test_agreement_says_which_of_two_unknown_words_is_positive_for_scores() -> None:
    table = pl.DataFrame({"id": range(N), "judge": RNG.random(N), "human": words(EXPERT, "hate", "neutral")})
    messages = [note.message for note in cu.agreement(table, resamples=0).notes if note.rule == "positive-by-order"]
    assert len(messages) == 1
    assert "'neutral', the last in order, counts as positive" in messages[0]
    known = table.with_columns(pl.col("human").replace({"hate": "fail", "neutral": "pass"}))
    assert "positive-by-order" not in {note.rule for note in cu.agreement(known, resamples=0).notes}


def test_labels_of_nested_evaluations_and_annotations_have_a_mapping() -> None:
    evaluations = [{"faithfulness": {"label": word, "explanation": "x"}} for word in words(JUDGE, "fail", "pass")]
    annotations = [
        {"faithfulness": {"label": word, "annotator": "tom"}} if word else None
        for word in words(EXPERT, "fail", "pass")
    ]
    table = pl.DataFrame({"trace_id": range(N), "evaluations": evaluations, "annotations": annotations})
    with pytest.raises(InputError, match=r"try --column item=trace_id --columns") as error:
        cu.read(table)
    columns = json.loads(str(error.value).partition("columns=")[2].removesuffix(")").replace("'", '"'))
    assert set(cu.read(table, columns=columns).humans) == {"annotations.faithfulness.label"}


def test_notes_say_how_a_table_of_labels_was_read() -> None:
    labels = {"judge": ["pass", "fail", "pass", "maybe"], "human": ["pass", "fail", None, None], "tags": [[1]] * 4}
    topics = {name: ["x", "x", "y", "y"] for name in "abcde"}
    versions = {"id": [1, 2, 1, 2], "model": ["m", "n", "n", "m"], "version": ["v1", "v1", "v2", "v2"]}
    mapping = "--columns 'human:{rater:human}' --columns 'metric:{rater:judge}'"
    unknown = "table: 1 labels of judge are not among fail, pass and count as not labelled (maybe)"
    for table, message in (
        (pl.DataFrame(labels), f"{mapping}; item: number of the row"),
        (
            pl.DataFrame(labels | topics),
            f"{mapping}; item: number of the row; other columns are slices (a, b, c, d and 1 more)",
        ),
        (
            pl.DataFrame(labels | versions).with_columns(judge=pl.Series(["pass", "fail"] * 2)),
            f"--column item=id {mapping}; system: model and version; other columns are slices (model, version)",
        ),
    ):
        messages = [note.message for note in cu.read(table).notes]
        assert messages[-1] == f"table: read as labels with {message}"
        assert messages[:-1] == ([] if "version" in table.columns else [unknown])
    columns = {"item": "id", "score": ["human:human", "metric:judge", "metric:other_judge"]}
    table = pl.DataFrame(labels).with_columns(id=pl.int_range(4), other_judge=pl.lit(None, pl.String))
    assert [(note.rule, note.count, note.message) for note in cu.read(table, columns=columns).notes] == [
        ("unknown-label", 1, unknown),
        ("rater-without-labels", 1, "table: raters without a label: other_judge"),
    ]
    empty = table.with_columns(pl.lit("n/a").alias(name) for name in ("judge", "human", "other_judge"))
    with pytest.raises(InputError, match=exactly("table: no row has a label; give at least one")):
        cu.read(empty, columns=columns)
    rows = {"run": ["1", "2", "1", "2", "2"], "label": ["pass"] * 5, "source": ["LLM"] * 2 + ["HUMAN"] * 3}
    with pytest.raises(
        InputError,
        match=exactly(
            "table: the same label occurs twice, in rows 4, 5 (item '2', system 'table', rater 'HUMAN', kind 'human', "
            "repeat '0'); name the column of annotators with rater=NAME, or number the runs in a column, and name "
            "this column with repeat=NAME"
        ),
    ):
        cu.read(pl.DataFrame(rows))


def test_rating_tables_stay_ratings() -> None:
    rows = [(f"i{k}", system, k % 5 + 1, 0.1 * k) for k in range(20) for system in "AB"]
    study = cu.read(pl.DataFrame(rows, schema=["item", "system", "human", "bleu"], orient="row"))
    assert not study.labels
    assert set(study.raters.kind) == {"human", "bleu"}


def test_bad_labels_have_one_clear_line() -> None:
    steps = pl.DataFrame({"id": range(N), "version": ["v1", "v2"] * (N // 2), "judge": words(JUDGE, "FAIL", "PASS")})
    steps = steps.with_columns(human_verdict=pl.Series(RNG.integers(1, 6, N)))
    message = r"the labels of judge \(fail, pass\) are not among the human labels \(1, 2, 3, 4, 5\), .* at least 4"
    for columns in ({}, {"item": "id", "system": "version", "score": ["human:human_verdict", "metric:judge"]}):
        with pytest.raises(InputError, match=message):
            cu.read(steps, columns=columns)  # type: ignore[arg-type]
    human = steps.select(
        item="id", system="version", rater=pl.lit("human"), kind=pl.lit("human"), score="human_verdict"
    )
    with pytest.raises(InputError, match=message):
        cu.read(steps.drop("human_verdict"), human)
    twice = pl.DataFrame({"id": [1, 1], "judge": ["pass", "fail"], "human": ["pass", "fail"]})
    with pytest.raises(
        InputError,
        match=exactly(
            "table: the same output occurs twice, in rows 1, 2 (item '1', system 'table', repeat '0'); one "
            "row per output; name another column with item=NAME; if several columns together name the item, give all "
            "of them, as in item={doc_id}/{segment_id}; number the runs of a rater in a column with repeat=NAME, "
            "or name the reviewers of rows with rater=NAME"
        ),
    ):
        cu.read(twice, columns={"item": "id", "score": ["human:{rater:human}", "metric:{rater:judge}"]})
    many = pl.DataFrame({"id": range(40), "judge": ["x"] * 40, "human": [k % 15 for k in range(40)]})
    with pytest.raises(
        InputError,
        match=exactly(
            "table: human labels are scores (0, 1, 10, 11 and 11 more); give labels that are words or at "
            "most 11 whole numbers"
        ),
    ):
        cu.read(many, columns={"item": "id", "score": ["human:{rater:human}", "metric:{rater:judge}"]})


@pytest.mark.parametrize("template", ["{rater}_{aspect}", "{rater} {aspect}", "{aspect}_{rater}_label"])
def test_columns_named_by_criteria_are_aspects(template: str) -> None:
    columns = {
        template.format(rater=rater, aspect=aspect): words(labels, "fail", "pass")
        for rater, labels in (("human", EXPERT), ("judge", JUDGE))
        for aspect in ("tone", "facts")
    }
    table = pl.DataFrame({"id": range(N), **columns})
    study = cu.read(table)
    assert (study.humans, study.metrics, sorted(study.aspects)) == (("human",), ("judge",), ["facts", "tone"])
    rates = cu.rates(study).rates
    assert sorted(rates["aspect"]) == ["facts", "tone"]
    assert rates["n_labelled"].to_list() == [N // 3] * 2
    note = next(note.message for note in study.notes if note.rule == "label-columns")
    assert "{aspect:tone,facts}" in note
    patterns = [part.split("'")[0] for part in note.split("--columns '")[1:]]
    again = cu.read(table, columns={"item": "id", "score": patterns})
    assert sorted(again.aspects) == ["facts", "tone"]
    assert len(again.humans) == len(again.metrics) == 1


@pytest.mark.parametrize("pair", [("fail", "pass"), ("0", "1")])
def test_labels_as_a_judge_writes_them(pair: tuple[str, str], tmp_path: Path) -> None:
    judge = [pair[int(label)] for label in JUDGE]
    chances = [f"{0.7 + 0.2 * label}" if k else None for k, label in enumerate(JUDGE)]
    rows = [
        (item, "app", rater, "metric", aspect, repeat, label, "" if label else "no-verdict")
        for aspect in ("", "tone")
        for repeat in (0, 1)
        for rater, labels in (("judge", judge), ("judge@expected", chances))
        for item, label in enumerate(labels)
    ]
    columns = ["item", "system", "rater", "kind", "aspect", "repeat", "label", "invalid"]
    pl.DataFrame(rows, schema=columns, orient="row").write_csv(tmp_path / "labels.csv")
    study = cu.read(tmp_path / "labels.csv")
    assert (study.humans, study.metrics) == ((), ("judge", "judge@expected"))
    assert set(study.aspects) == {"", "tone"}
    assert study.labels["tone"] == LabelScale(words=pair, scores=frozenset({"judge@expected"}))
    assert study.ratings.frame.filter(rater="judge").height == 4 * N
    assert study.attributes.columns == ["item", "system"]
    (note,) = [note for note in study.notes if note.rule == "invalid-label"]
    assert note.message == "labels.csv: 4 labels are invalid and count as not labelled (no-verdict 4)"
    human_labels = pl.DataFrame({"id": range(N), "expert": words(EXPERT, "fail", "pass")})
    both = cu.read(tmp_path / "labels.csv", human_labels)
    assert both.labels[""].scores == {"judge@expected"}
