from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from custodes.data.joining import join
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.reading import read
from custodes.data.study import SYSTEM_SCORE_RULE, Study, select_aspect_rows
from custodes.errors import InputError, OptionError
from tests.data.input_errors import input_error
from tests.messages import exactly


def table(rater: str, kind: str, *, items: str = "12", systems: str = "AB", aspect: str = "") -> pl.DataFrame:
    rows = [
        {"item": item, "system": system, "rater": rater, "kind": kind, "aspect": aspect, "score": k}
        for k, (item, system) in enumerate((i, s) for i in items for s in systems)
    ]
    return pl.DataFrame(rows)


ANN, BOB = table("ann", "human", aspect="fluency"), table("bob", "human", aspect="relevance")
BLEU, JUDGE = table("bleu", "metric"), table("judge", "metric", aspect="fluency")
NO_METRIC = r"^no metric, as every rater is human; add scores of a metric \(leaderboard and consistency need"


VERDICTS = read(
    pl.DataFrame({"item": ["1"], "model_a": "A", "model_b": "B", "rater": "j", "kind": "llm", "winner": "A"})
)


def study() -> Study:
    return read(pl.concat([ANN, BOB, BLEU, JUDGE]))


def rules(source: Study) -> dict[str, int]:
    return {note.rule: note.count for note in source.notes}


def messages(source: Study) -> list[tuple[str, int, str]]:
    return [(note.rule, note.count, note.message) for note in source.notes]


def test_what_a_study_holds() -> None:
    example = study()
    assert (example.humans, example.metrics) == (("ann", "bob"), ("bleu", "judge"))
    assert (example.systems, example.aspects) == (("A", "B"), ("fluency", "relevance"))
    assert example.item_labels().to_list() == ["1", "2"]
    assert repr(example) == (
        "<Study table: 2 items, 2 systems, 2 annotators, 2 metrics, 16 ratings; aspects fluency, relevance>"
    )
    judged = replace(VERDICTS, name="a\x1b", second=VERDICTS.preferences, second_ratings=example.ratings)
    assert repr(judged) == "<Study a\\x1b: 1 items, 2 systems, 1 metrics, 1 verdicts, 17 second opinions>"


@pytest.mark.parametrize(
    ("options", "raters", "expected"),
    [
        ({"human": "ann"}, {"ann", "bleu", "judge"}, [("annotators-not-selected", 1, "annotators not selected: bob")]),
        (
            {"human": "bob"},
            {"bob", "bleu"},
            [
                ("annotators-not-selected", 1, "annotators not selected: ann"),
                (
                    "aspect-without-annotators",
                    1,
                    "metrics of the aspect 'fluency' are excluded (judge), because no selected annotator rated this "
                    "aspect",
                ),
            ],
        ),
        ({"aspect": "relevance"}, {"bob", "bleu"}, []),
        ({"systems": "A"}, {"ann", "bob", "bleu", "judge"}, [("systems-not-selected", 1, "systems not selected: B")]),
    ],
)
def test_selection_notes_what_it_leaves_out(
    options: Any, raters: set[str], expected: list[tuple[str, int, str]]
) -> None:
    selection = study().select(**options)
    assert set(selection.ratings.frame["rater"]) == raters
    assert messages(selection) == expected


def of_kinds(**kinds: str) -> Study:
    rows = [{"item": "1", "system": system, "rater": rater, "score": 1} for rater in kinds for system in "AB"]
    return Study(ratings=Ratings.make(pl.DataFrame(rows))[0], raters=Raters.infer(kinds))


def test_raters_that_may_be_read_wrongly_are_noted() -> None:
    unknown = dict.fromkeys(("human_x", "thing", "gpt-4", "alpha-judge"), "")
    human = (
        "annotators-as-metrics",
        1,
        "raters that look human are read as metrics: human_x; name them in human, or exclude them",
    )
    kind = "nothing shows whether these raters are human, so they are read as metrics: {}; name annotators in human"
    source = of_kinds(ann="human", **unknown)
    assert messages(source.select()) == [human, ("unknown-kind", 1, kind.format("thing"))]
    assert messages(source.select(human="ann")) == messages(source.select(metrics="*")) == [human]
    assert messages(of_kinds(**unknown).select(one_side=True)) == [
        human,
        ("unknown-kind", 2, kind.format("thing, alpha-judge")),
    ]
    pooled = of_kinds(human_fluency_1="human", human_coherence_1="human", bleu="metric")
    assert messages(pooled.select()) == [
        (
            "pooled-aspects",
            2,
            "ratings of several aspects (fluency, coherence) are combined as if each aspect were an annotator "
            "(human_fluency_1, human_coherence_1). Name the aspect in the columns, as in --columns "
            "'human_{aspect}_{rater}', or select one aspect with human",
        )
    ]


def test_annotators_without_ratings_are_refused_or_noted() -> None:
    rows = {"rater": [*"abcd"], "kind": "human"}
    kinds = Raters.infer({"bleu": "metric", **dict.fromkeys("abcd", "human")})
    source = replace(of_kinds(bleu="metric"), raters=kinds.merge_side_table(pl.DataFrame(rows))[0])
    message = "annotators have no score or verdict yet (a, b, c and 1 more)"
    with pytest.raises(
        InputError,
        match=exactly(
            f"study: {message}; add human ratings, or use leaderboard or consistency, which work without human ratings"
        ),
    ):
        source.select()
    selection = source.select(one_side=True)
    assert messages(selection) == [("annotators-without-ratings", 4, f"{message}; only metrics are used")]
    assert (selection.humans, selection.metrics) == ((), ("bleu",))


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        *((None, ("bleu", "judge")), ("@aspect", ("judge",)), ("@noaspect", ("bleu",))),
        *(("@aspect,@noaspect", ("bleu", "judge")), ("@noaspect,b*", ("bleu",)), ("!bleu", ("judge",))),
    ],
)
def test_selection_of_metrics(metrics: str | None, expected: tuple[str, ...]) -> None:
    assert study().select(metrics=metrics).metrics == expected


def test_raters_without_a_kind_are_metrics_once_people_are_named() -> None:
    wide = read(pl.DataFrame({"item": ["1", "1"], "system": ["A", "B"], "H:x": [1, 2], "bleu": [3, 4]}))
    assert wide.raters.kind == {"H:x": "", "bleu": ""}
    selection = wide.select(human="H:*")
    assert selection.raters.kind == {"H:x": "human", "bleu": "metric"}


def test_systems_and_group() -> None:
    source = read(table("ann", "human", systems="ABC"), table("bleu", "metric", systems="ABC"))
    source = source.describe(items=pl.DataFrame({"item": ["1", "2"], "group": ["news", "social"]}))
    selection = source.select(systems="!B", group="news")
    assert set(selection.ratings.frame["item"]) == {"1"}
    assert selection.systems == ("A", "C")
    assert rules(selection) == {"systems-not-selected": 1}


def test_a_choice_of_groups_names_scores_of_whole_systems_that_it_leaves_out() -> None:
    corpus = table("corpus", "metric").head(2).with_columns(item=pl.lit(""))
    items = pl.DataFrame({"item": ["1", "2"], "group": ["news", "social"]})
    source = read(pl.concat([ANN, corpus])).describe(items=items)
    assert rules(source.select()) == {}
    (note,) = source.select(group="news").notes
    assert (note.rule, note.count) == (SYSTEM_SCORE_RULE, 1)
    message = "group='news' leaves out the scores of whole systems by corpus, because these scores describe all items"
    assert note.message == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"human": "an"}, "human='an': no such rater; raters: ann, bob (did you mean 'ann'?)"),
        ({"metrics": "blue"}, "metrics='blue': no such metric; metrics: bleu, judge (did you mean 'bleu'?)"),
        ({"metrics": "ann"}, "metrics='ann': no such metric; metrics: bleu, judge"),
        ({"human": "a*,bleu"}, "human='a*,bleu': 'bleu' is a metric; annotators: ann, bob"),
        ({"aspect": "flow"}, "aspect='flow': no such aspect; aspects: fluency, relevance"),
        ({"systems": "Z"}, "systems='Z': no such system; systems: A, B"),
        ({"group": "news"}, "group='news': the items have no groups; give an items file with a column 'group'"),
    ],
)
def test_unknown_names_raise(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as error:
        study().select(**options)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_a_study_without_people_or_metrics_cannot_be_asked() -> None:
    with pytest.raises(
        OptionError,
        match=exactly(
            "no human ratings, as every rater is a metric (bleu); add a file of human ratings, or collect "
            "human ratings with custodes annotate new (leaderboard and consistency need no annotators)"
        ),
    ):
        read(BLEU).select()
    with pytest.raises(OptionError, match=NO_METRIC):
        read(ANN).select()
    with pytest.raises(OptionError, match=exactly("human='*': every rater is a metric; add human ratings")):
        read(BLEU).select(human="*")
    with pytest.raises(
        OptionError,
        match=exactly(
            "metrics='@aspect' excludes every metric; @aspect selects metrics with an aspect, and @noaspect metrics "
            "without an aspect"
        ),
    ):
        read(ANN, BLEU).select(metrics="@aspect")
    for kinds, hint in (({"bob": ""}, ""), ({"h": "", "human_x": "", "m": "metric"}, "; these look human: human_x")):
        with pytest.raises(
            OptionError,
            match=exactly(
                "no rater is known to be human; name the annotators with human='PATTERN' (or give a column or raters "
                f"file with 'kind'). Raters: {', '.join(kinds)} (leaderboard and consistency need no annotators){hint}"
            ),
        ):
            of_kinds(**kinds).select()
    with pytest.raises(
        InputError,
        match=exactly(
            "study: a metric is named 'human', the name reserved for the combined annotators; select it with the "
            "option human, or rename it"
        ),
    ):
        of_kinds(ann="human", human="metric").select()


def test_one_side_is_enough_where_a_question_says_so() -> None:
    metrics_alone = read(BLEU).select(one_side=True)
    assert (metrics_alone.humans, metrics_alone.metrics, metrics_alone.aspects) == ((), ("bleu",), ("",))
    people_alone = read(ANN).select(one_side=True)
    assert (people_alone.humans, people_alone.metrics) == (("ann",), ())
    assert people_alone.ratings.frame.equals(read(ANN).ratings.frame)
    with pytest.raises(OptionError, match=NO_METRIC):
        read(ANN).select(one_side=True, metrics="bleu")
    cached = read(ANN).with_cache()
    assert cached.select(one_side=True).metrics == ()
    for _ in range(2):
        with pytest.raises(OptionError, match=NO_METRIC):
            cached.select()


def test_a_partial_join_is_counted_on_both_sides() -> None:
    assert read(ANN, BLEU).notes == ()
    joined = read(ANN, table("bleu", "metric", items="23"))
    assert messages(joined) == 2 * [("partial-join", 2, "table: 2 of 4 outputs have no match in the other input")]


OTHER_ITEMS = replace(read(table("bleu", "metric", items="34")), name="b.csv")


@pytest.mark.parametrize(
    ("studies", "message"),
    [
        (
            [replace(read(ANN), name="a.csv"), OTHER_ITEMS],
            "a.csv and b.csv have no item and system in common: a.csv has items 1, 2 of systems A, B; b.csv has items "
            "3, 4 of systems A, B; use the same items in both inputs, or name another column of items, as in --column "
            "item=NAME",
        ),
        (
            [read(ANN), read(table("ann", "metric"))],
            "rater 'ann' is human in one input and a metric in another input; rename one of the raters",
        ),
        (
            [read(BLEU), read(BLEU)],
            "two inputs hold the same rating (item '1', system 'A', rater 'bleu', repeat '0'; 4 such ratings, 4 with "
            "equal values); remove one input, or rename the rater; if the items differ, give them different labels, "
            "such as news/1",
        ),
    ],
)
def test_inputs_that_cannot_be_joined_are_refused(studies: list[Study], message: str) -> None:
    assert input_error(join, studies) == message


def test_side_tables() -> None:
    described = read(
        pl.concat([ANN, BLEU]),
        raters=pl.DataFrame({"rater": ["b*"], "higher_is_better": ["false"]}),
        items=pl.DataFrame({"item": ["1", "9"], "cluster": ["doc", "doc"]}),
    )
    assert described.raters.direction == {"ann": 1.0, "bleu": -1.0}
    assert described.items.frame["cluster"].to_list() == ["doc", "doc"]
    assert [note.message for note in described.notes] == ["items: the table lacks 1 of 2 items of the data (2)"]


TEXTS = {"item": ["1"], "system": ["A"], "text": ["x"]}


def test_items_of_a_study_of_texts_are_described() -> None:
    texts = read(pl.DataFrame({"item": ["2", "1", "2"], "system": [*"AAB"], "text": "x"}))
    described = texts.describe(items=pl.DataFrame({"item": ["1"], "group": ["g"]}), items_name="i.csv")
    assert messages(described) == [("items-not-described", 1, "i.csv: the table lacks 1 of 2 items of the data (2)")]
    assert texts.item_labels().is_empty()


def test_the_fingerprint_depends_on_every_part() -> None:
    base = study()
    timed = replace(VERDICTS.preferences, frame=VERDICTS.preferences.frame.with_columns(seconds=pl.lit(2.0)))
    variants = [
        read(pl.concat([ANN, BOB, BLEU])),
        base.describe(raters=pl.DataFrame({"rater": ["bleu"], "higher_is_better": [False]})),
        base.describe(items=pl.DataFrame({"item": ["1", "2"], "cluster": ["x", "x"]})),
        replace(base, preferences=VERDICTS.preferences),
        replace(base, preferences=timed),
        replace(base, preferences=replace(timed, missing=timed.frame.select("item"))),
        replace(base, second=VERDICTS.preferences),
        replace(base, second_ratings=base.ratings),
        replace(base, looks=pl.DataFrame({"look": [1]})),
        replace(base, probes=pl.DataFrame({"look": [2]})),
        *(replace(base, outputs=read(pl.DataFrame(TEXTS | change)).outputs) for change in ({}, {"source": "q"})),
    ]
    prints = {variant.fingerprint() for variant in [base, *variants]}
    assert len(prints) == len(variants) + 1
    assert study().fingerprint() == base.fingerprint()
    from_file = replace(base, digest="0123456789abcdef")
    assert from_file.fingerprint() == "0123456789abcdef"
    assert (
        from_file.describe(items=pl.DataFrame({"item": ["1", "2"], "cluster": ["x", "x"]})).digest != from_file.digest
    )


def test_columns_of_outputs_are_taken_from_both_inputs() -> None:
    first, second = (
        pl.DataFrame({"item": [*items], "system": "A", "size": sizes, **more})
        for items, sizes, more in (("12", [1, None], {}), ("23", [5, 6], {"kind": ["p", "q"]}))
    )
    source, other = read(ANN), read(BLEU)
    joined = join([replace(source, attributes=first), replace(other, attributes=second)]).attributes
    assert joined is not None
    assert joined.columns == ["item", "system", "size", "kind"]
    assert joined.rows() == [("1", "A", 1, None), ("2", "A", 5, "p"), ("3", "A", 6, "q")]
    for studies in ([replace(source, attributes=first), other], [other, replace(source, attributes=first)]):
        assert join(studies).attributes is first


def test_verdicts_that_nobody_could_read_are_selected_and_joined_along() -> None:
    rows = pl.DataFrame({"item": "1", "model_a": "A", "model_b": ["B", "C", "D"], "rater": "j", "kind": "metric"})
    judge_rows = read(rows.with_columns(winner=pl.Series(["garbage", "model_a", "tie"])), invalid="force")
    second = read(rows.with_columns(winner=pl.Series(["garbage", "", "tie"]), rater=pl.lit("k")), invalid="force")
    both = join([judge_rows, second])
    assert both.preferences.missing.select("rater", "system_b", "why").rows() == [
        *(("j", "B", "unreadable"), ("k", "B", "unreadable"), ("k", "C", "empty"))
    ]
    selection = both.select(metrics="k", systems="A,C", one_side=True)
    assert selection.preferences.missing.select("rater", "why").rows() == [("k", "empty")]


def test_an_own_system_that_is_no_system_is_refused_with_a_suggestion() -> None:
    named = pl.DataFrame({"rater": ["judge"], "own_system": ["gpt-4,Bb*"]})
    pairs = pl.DataFrame(
        {"item": ["1"], "model_a": ["gpt-4"], "model_b": ["Bard"], "rater": ["judge"], "kind": ["metric"]}
    )
    source = read(pairs.with_columns(winner=pl.lit("tie")))
    assert input_error(source.describe, raters=named, raters_name="raters.csv") == (
        "raters.csv: 'judge': own_system='Bb*': no such system; systems: Bard, gpt-4"
    )
    with pytest.raises(InputError, match=r"own_system='gpt4': no such system.*did you mean 'gpt-4'"):
        source.describe(raters=named.with_columns(own_system=pl.lit("gpt4")))
    assert source.describe(raters=named.with_columns(own_system=pl.lit("gpt*"))).raters.own_systems == {"judge": "gpt*"}


def test_a_study_with_a_cache_selects_the_same_once() -> None:
    plain, cached = study(), study().with_cache()
    selection = cached.select(one_side=True)
    assert cached.select() is selection
    assert cached.select(human=None) is selection
    assert cached.select(human=["ann"]) is cached.select(human=("ann",))
    for options in ({}, {"human": "ann"}, {"metrics": "bleu", "aspect": "relevance"}, {"systems": "A"}):
        ours, theirs = cached.select(**options), plain.select(**options)
        assert ours.ratings.frame.equals(theirs.ratings.frame)
        assert (ours.notes, ours.systems, ours.aspects) == (theirs.notes, theirs.systems, theirs.aspects)
    assert cached.fingerprint() == plain.fingerprint()
    assert replace(cached, ratings=cached.ratings).select() is not selection
    assert plain.select() is not plain.select()


def test_the_cache_of_a_study_is_no_part_of_it() -> None:
    plain, cached = study(), study().with_cache()
    cached.select()
    assert cached.cache
    assert cached == cached.with_cache()
    for second in (cached.with_cache(), chosen_again := cached.select(systems="A")):
        assert second.cache == {}
    assert chosen_again is cached.select(systems="A")
    assert repr(cached) == repr(plain)
    assert replace(cached, name="other").cache is None
    assert plain.cache is None
    with pytest.raises(ValueError, match="cache"):
        replace(cached, cache={})


def test_rows_of_an_aspect_are_those_of_the_rater_under_it_or_without_any() -> None:
    rows = [("a", "style"), ("a", "truth"), ("a", ""), ("b", ""), ("c", "truth")]
    frame = pl.DataFrame(rows, schema=["rater", "aspect"], orient="row")
    assert select_aspect_rows(frame, "style").rows() == [("a", "style"), ("b", "")]
    assert select_aspect_rows(frame, "truth").rows() == [("a", "truth"), ("b", ""), ("c", "truth")]


def test_sides_of_a_pair_stay_sides_in_a_joined_study() -> None:
    rows = pl.DataFrame({"item": "1", "model_a": "A", "model_b": [*"BCDE"], "kind": "metric", "winner": "tie"})
    first, second, third = (read(rows.with_columns(rater=pl.lit(name))) for name in "jkl")
    sides = replace(first, sides=True)
    message = (
        "the names of systems (A, B, C, D and 1 more) are the sides of a pair, so favoritism, rankings and "
        "leaderboards have no meaning; use the sample accuracy (agreement) instead"
    )
    assert messages(sides.select(one_side=True)) == [("sides", 0, message)]
    assert [join(studies).sides for studies in ([sides, second], [second, sides], [second, third])] == [
        True,
        True,
        False,
    ]
