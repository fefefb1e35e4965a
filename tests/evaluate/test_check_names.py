from __future__ import annotations

import polars as pl
import pytest

import custodes as cu
from custodes.data.study import Study
from tests.data.mapping.tables import wide
from tests.evaluate.studies import problems_of, scores_of, study_of

TWO_ASPECTS = ("human_coherence_ann1", "human_coherence_ann2", "human_fluency_ann1", "human_fluency_ann2", "bleu")


def pooled() -> Study:
    return cu.read(wide(*TWO_ASPECTS, text=False).rename({"doc_id": "item", "model": "system"}))


def test_people_who_become_metrics_are_told_in_every_question() -> None:
    study = pooled()
    message = "raters that look human are read as metrics: human_fluency_ann1, human_fluency_ann2; name them in human"
    for question in (cu.agreement, cu.favoritism, cu.ranking, cu.leaderboard):
        notes = question(study, human="human_coherence*", resamples=20).notes  # type: ignore[operator]
        assert [note.message[: len(message)] for note in notes if note.rule == "annotators-as-metrics"] == [message]
    problem = problems_of(study, human="human_coherence*")["annotators-as-metrics"]
    assert (problem["severity"], problem["examples"]) == ("warning", ["human_fluency_ann1", "human_fluency_ann2"])


def test_who_is_selected_or_left_out_is_told_no_more() -> None:
    study = pooled()
    assert "annotators-as-metrics" not in problems_of(study, human="human_*")
    assert "annotators-as-metrics" not in problems_of(study, human="human_coherence*", metrics="bleu")


def test_a_declared_metric_with_a_name_of_people_is_only_in_check() -> None:
    frame = wide("human_style", "human_judge", "bleu", text=False)
    columns = {"item": "doc_id", "system": "model", "score": ["{rater:human_style}", "metric:{rater}"]}
    study = cu.read(frame, columns=columns)
    assert study.raters.kind["human_judge"] == "metric"
    assert problems_of(study, human="human_style")["annotators-as-metrics"]["examples"] == ["human_judge"]
    assert "annotators-as-metrics" not in {note.rule for note in cu.ranking(study, human="human_style").notes}


def test_people_of_several_aspects_are_told() -> None:
    problem = problems_of(pooled(), human="human_*")["pooled-aspects"]
    assert problem["severity"] == "warning"
    assert str(problem["message"]).startswith(
        "ratings of several aspects (coherence, fluency) are combined as if each aspect were an annotator (human_"
    )
    study = cu.read(
        wide(*TWO_ASPECTS, text=False),
        columns={"item": "doc_id", "system": "model", "score": ["human_{aspect}_{rater}", "metric:{rater}"]},
    )
    assert "pooled-aspects" not in problems_of(study)


def test_columns_of_people_that_nothing_names_are_a_warning() -> None:
    columns = {"item": "doc_id", "system": "model", "score": ["human_{aspect}_{rater:ann1}", "metric:bleu"]}
    problem = problems_of(cu.read(wide(*TWO_ASPECTS, text=False), columns=columns))["unused-annotators"]
    assert problem["severity"] == "warning"
    assert "human_coherence_ann2, human_fluency_ann2" in str(problem["message"])


@pytest.mark.parametrize("twin", ["ASTER", "\u0410ster", "As\u200bter"])
def test_systems_that_look_alike_are_named(twin: str) -> None:
    problem = problems_of(study_of(scores_of(0, items=40), systems=["Aster", twin, "Birch", "Cedar"]))["look-alikes"]
    assert problem["severity"] == "warning"
    assert set(problem["examples"]) == {"Aster", twin}  # type: ignore[arg-type]
    assert str(problem["message"]).startswith("some systems have names that look equal but count as different: ")
    assert str(problem["message"]).isascii()  # Invisible characters are escaped.


def test_a_wide_table_without_kinds_names_the_raters_that_look_human() -> None:
    with pytest.raises(cu.OptionError) as error:
        cu.agreement(pooled())
    message = str(error.value)
    assert message.startswith(
        "no rater is known to be human; name the annotators with human='PATTERN' (or give a "
        "column or raters file with 'kind'). Raters:"
    )
    assert "these look human: human_coherence" in message
    ratings = pl.DataFrame({"item": [1, 1], "system": ["A", "B"], "rater": "ann", "score": [1.0, None]})
    with pytest.raises(cu.OptionError) as error:
        cu.agreement(cu.read(ratings))  # A missing score is noted, but does not explain the error.
    assert str(error.value).endswith("consistency need no annotators); these look human: ann")
    columns = {"score": ["human_{aspect}_{rater}", "metric:{rater}"]}
    frame = wide(*TWO_ASPECTS, text=False).rename({"doc_id": "item", "model": "system"})
    assert cu.read(frame, columns=columns).aspects == ("coherence", "fluency")  # type: ignore[arg-type]


@pytest.mark.parametrize("extra", [{"aspect": "x"}, {}])
def test_people_without_aspects_in_their_names_are_told_nothing(extra: dict[str, str]) -> None:
    names = TWO_ASPECTS if extra else ("expert_1", "expert_2", "turker_1", "turker_2", "bleu")
    frame = wide(*names, text=False).rename({"doc_id": "item", "model": "system"})
    study = cu.read(frame.with_columns(**{name: pl.lit(value) for name, value in extra.items()}))
    assert study.notes == ()


def test_annotators_of_an_aspect_that_was_not_chosen_are_told_of() -> None:
    names = ("coherence_alice", "coherence_bob", "fluency_alice", "fluency_bob", "bleu")
    rows = [
        {"item": str(i), "system": system, **{name: (i + j + at) % 5 for at, name in enumerate(names)}}
        for i in range(6)
        for j, system in enumerate("ABC")
    ]
    notes = {
        note.rule: note.message for note in cu.agreement(pl.DataFrame(rows), human="coherence_*", resamples=0).notes
    }
    assert "fluency_alice, fluency_bob;" in notes["annotators-as-metrics"]
