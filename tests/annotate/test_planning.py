"""Study plans: reading from TOML, error messages with key and remedy, and writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.annotate.new_study import plan_notes
from custodes.annotate.plan import (
    KEYS,
    AnnotatorPlan,
    Money,
    Question,
    StoppingRule,
    StudyPlan,
    StudyTexts,
    check_plan,
    rule_of,
    stopping_of,
)
from custodes.annotate.plan_file import change_plan, plan_of, read_plan, to_toml
from custodes.annotate.wording import PLACEHOLDER, TEMPLATES, fill_plan_texts, placeholders, template
from custodes.annotate.wording.translations import LANGUAGES
from custodes.errors import InputError, OptionError


def test_every_key_of_a_plan_is_explained() -> None:
    plan = StudyPlan()
    assert {*KEYS[""], *KEYS} - {""} == set(StudyPlan.__struct_fields__)
    for section, keys in KEYS.items():
        if section:
            assert list(keys) == list(type(getattr(plan, section)).__struct_fields__)


def test_a_plan_that_is_written_is_read_back(tmp_path: Path) -> None:
    plan = StudyPlan(
        question=Question(text="Which?\nReally", aspects=("fluency", "coherence")),
        texts=StudyTexts(instructions='Read.\n\n"""Both""" \\n\ttwo\x7f'),
        annotators=AnnotatorPlan(recruit="open", return_url="https://example.org/?c={code}", cap=0.25),
        stopping=StoppingRule(looks=(5, 9), boundary=2.3, budget=100, estimator="human", family=True),
        seed=2**63,
    )
    path = tmp_path / "study.toml"
    for written_plan in (plan, StudyPlan()):
        path.write_text(to_toml(written_plan), encoding="utf-8")
        assert read_plan(path) == written_plan


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_survives_the_file(text: str) -> None:
    import tomllib

    plan = msgspec.structs.replace(StudyPlan(), texts=StudyTexts(thanks=text.removeprefix("@")))
    assert plan_of(tomllib.loads(to_toml(plan)), where="study.toml", folder=Path()) == plan


RATE = '[question]\nmode = "rate"\n'


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[annotators]\nbatc = 3", "[annotators] has the unknown key batc (did you mean 'batch'?); keys: recruit,"),
        ("batch = 3", "unknown key batch; this key belongs in [annotators]; keys: name, seed, and sections question,"),
        ("[stoping]\nlooks = [1]", "unknown key stoping (did you mean 'stopping'?); keys: name, seed, and sections"),
        ("annotators = 3", "annotators = 3 is not a section; write [annotators]"),
        ('[annotators]\nbatch = "x"', "[annotators] batch: expected a whole number, got text in quotes"),
        ('[question]\nmode = "rat"', "[question] mode = 'rat' is not allowed; allowed: compare, rate (did you mean"),
        ("[question]\nscale = [1, 5]\nlabels = ['bad']", "labels=('bad',) has no effect: mode is compare"),
        (f"{RATE}scale = [5, 1]", "scale=(5, 1) is not allowed; give the lowest and highest rating, such as [1, 5]"),
        (f"{RATE}scale = [0, 101]", "at most 100 apart"),
        (f'{RATE}labels = ["bad"]', "1 labels for the 5 points of the scale; give one label per point, or no labels"),
        (f"{RATE}[stopping]\nlooks = [2]", "[stopping] looks=(2,) has no effect: mode is rate"),
        (f"{RATE}[stopping]\nfamily = true", "[stopping] family=True has no effect"),
        ("[annotators]\nper_item = 3\n[stopping]\nbudget = 2", "[stopping] budget=2 is below the 3 answers of one"),
        (f"{RATE}equal = false", "equal=False has no effect: mode is rate"),
        ('[question]\naspects = ["a", "a"]', "one or more different names"),
        ('[question]\ntext = " "', "[question] text=' ' is not allowed; give the question, or leave out text"),
        ('[texts]\nlanguage = "English"', "a language tag; give one such as en, pt-BR or ar"),
        ('[texts]\nconsent = "@absent.md"', "absent.md: no such file; give a file in the folder"),
        ('[annotators]\nworker_id = "PID"', "worker_id='PID' has no effect: recruit is links"),
        ('[annotators]\nrecruit = "open"\nworker_id = "two words"', "a parameter of the link, such as workerId"),
        ('[annotators]\nreturn_url = "https://example.org/done"', "an address with {code} in it"),
        ('[annotators]\nreturn_url = "javascript:alert({code})"', "an address with {code} in it"),
        ('[annotators]\nreturn_url = "//example.org/{code}"', "an address with {code} in it"),
        ("[annotators]\ncap = 0", "[annotators] cap=0 is not allowed; give a number above 0"),
        ("[annotators]\ngold_every = 1", "every question would have a known answer"),
        ("[annotators]\nattention = 15", "attention=15: control questions fill the whole batch of 15; reduce"),
        ("[annotators]\nqualification = 3\npassed = 4", "passed=4 exceeds the 3 questions of the qualification; give"),
        ("[annotators]\nqualification = 3", "qualification=3 has no effect without passed; set passed to the number"),
        ("[money]\nprice = -1", "[money] price=-1 is not allowed; give a number from 0"),
        ("[money]\nprice = nan", "[money] price=nan is not allowed; give a number from 0"),
        ('[money]\ncurrency = "dollar"', "three capital letters"),
        ("[stopping]\nlooks = [3, 1]", "[stopping] looks=3,1 is not allowed; give increasing numbers of annotations"),
        ('[stopping]\nboundary = "pocok"', "did you mean 'pocock'?"),
        ('[stopping]\nestimator = "mixtur"', "did you mean 'mixture'?"),
        ("seed = -1", "must be a seed (a whole number from 0"),
        ("x =", "not TOML"),
    ],
)
def test_invalid_plans_are_refused_in_one_line(toml: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(toml)
    with pytest.raises(InputError) as error:
        read_plan(path)
    assert str(error.value).startswith("study.toml: ")
    assert message in str(error.value)


def test_a_plan_that_is_made_in_python_is_checked_as_well() -> None:
    wrong: Any = "three"
    for plan, message in {
        StudyPlan(annotators=AnnotatorPlan(batch=wrong)): r"\[annotators\] batch: expected a whole number, got text",
        StudyPlan(question=Question(equal=wrong)): r"\[question\] equal: expected true or false",
        StudyPlan(name="\ud800"): "characters that cannot be written to a file",
    }.items():
        with pytest.raises(OptionError, match=message):
            check_plan(plan)
    listed: Any = ["fluency", "depth"]
    assert check_plan(StudyPlan(question=Question(aspects=listed))).question.aspects == ("fluency", "depth")


def test_texts_may_be_in_files_next_to_the_plan(tmp_path: Path) -> None:
    (tmp_path / "how.md").write_text("Look **twice** at {question}")
    (tmp_path / "study.toml").write_text('[texts]\ninstructions = "@how.md"\n')
    plan = read_plan(tmp_path / "study.toml")
    assert plan.texts.instructions == "Look **twice** at {question}"
    assert fill_plan_texts(plan).texts.instructions == "Look **twice** at Which response is better?"


def test_options_count_more_than_the_file() -> None:
    plan = change_plan(StudyPlan(seed=5), {"annotators": {"batch": 10}, "": {"name": "n"}})
    assert (plan.annotators.batch, plan.name, plan.seed) == (10, "n", 5)
    with pytest.raises(OptionError, match="batch"):
        change_plan(plan, {"annotators": {"batch": 0}})


def test_templates_are_filled_from_the_plan() -> None:
    for name in TEMPLATES:
        names = {*PLACEHOLDER.findall(template(name))}
        assert all({*PLACEHOLDER.findall(template(name, language))} == names for language in LANGUAGES)
        assert names <= {*placeholders(StudyPlan())}
    plan = StudyPlan(
        texts=StudyTexts(contact="a@b.example", instructions="adequacy"),
        money=Money(price=0.15),
        annotators=AnnotatorPlan(batch=10),
    )
    texts = fill_plan_texts(plan).texts
    assert "more **adequate**" in texts.instructions
    assert "Which response is better?" in texts.instructions
    assert "a@b.example" in texts.consent
    assert "0.15 USD for each answer, which is 1.50 USD for a complete batch" in texts.consent
    assert "{" not in texts.consent + texts.instructions
    assert fill_plan_texts(fill_plan_texts(plan)) == fill_plan_texts(plan)
    german = fill_plan_texts(
        StudyPlan(texts=StudyTexts(language="de-CH"), annotators=AnnotatorPlan(recruit="open", worker_id="workerId"))
    ).texts
    assert "Wir erkennen Sie an Ihrer Worker-ID" in german.consent
    assert "{" not in german.consent + german.instructions
    assert "Purpose" in fill_plan_texts(StudyPlan(texts=StudyTexts(language="fr"))).texts.consent  # no translation
    braces = StudyPlan(texts=StudyTexts(consent="{} {json} {batch}"))
    assert fill_plan_texts(braces).texts.consent == "{} {json} 15"  # other braces stay


def test_stopping_is_that_of_the_protocol() -> None:
    assert stopping_of(StudyPlan(stopping=StoppingRule(family=True)), n_pairs=10).gamma == pytest.approx(0.005)
    rule = rule_of(StudyPlan(), n_pairs=1, max_items=25, has_metric=False)
    assert rule.looks == (10, 20, 25)  # limited by the number of items
    assert rule.estimator.name == "human"
    assert rule_of(StudyPlan(), n_pairs=1, max_items=25, has_metric=True).estimator.name == "mixture"
    with pytest.raises(OptionError, match="needs a metric"):
        rule_of(StudyPlan(stopping=StoppingRule(estimator="ppi")), n_pairs=1, max_items=25, has_metric=False)
    with pytest.raises(OptionError, match="has no effect"):
        check_plan(StudyPlan(stopping=StoppingRule(stop="decided", futility=0.5)))


def test_a_plan_without_a_boundary_says_what_it_costs() -> None:
    # Ten interim analyses, one per 10 answers: .193 (Armitage 1969; protocol-and-plan.md in docs/explanation).
    ten = StudyPlan(stopping=StoppingRule(boundary="none", looks=tuple(range(10, 101, 10))))
    (note,) = plan_notes(ten, max_items=200)
    assert (note.rule, "different with probability 0.19" in note.message) == ("no-boundary", True)
    assert [note.rule for note in plan_notes(StudyPlan(), max_items=15)] == ["looks-cut"]
    assert plan_notes(StudyPlan(), max_items=40) == []


LABELLED = Question(mode="rate", noun="summary", scale=(0, 1), labels=("fail", "pass"))


@pytest.mark.parametrize(
    ("language", "question", "text", "scale"),
    [
        ("en", Question(), "Which response is better?", ""),
        ("en", Question(mode="rate"), "How good is this response?", ""),
        ("de", Question(), "Welche Antwort ist besser?", ""),
        ("de-CH", Question(mode="rate"), "Wie gut ist diese Antwort?", ""),
        ("en", Question(mode="rate", text="How true?"), "How true?", ""),
        ("en", LABELLED, "How good is this summary?", "Choose one of the two answers: 0 (fail) or 1 (pass)."),
        ("de", LABELLED, "Wie gut ist dieser Text (summary)?", "eine der beiden Antworten: 0 (fail) oder 1 (pass)."),
    ],
)
def test_texts_name_the_question_the_noun_and_the_labels(
    language: str, question: Question, text: str, scale: str
) -> None:
    plan = fill_plan_texts(StudyPlan(question=question, texts=StudyTexts(language=language)))
    assert plan.question.text == text
    assert text in plan.texts.instructions
    assert text in plan.texts.consent
    assert scale in plan.texts.instructions


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_consent_tells_of_questions_with_known_answers(language: str) -> None:
    def consent(**annotators: int) -> str:
        return fill_plan_texts(
            StudyPlan(texts=StudyTexts(language=language), annotators=AnnotatorPlan(**annotators))
        ).texts.consent

    w = LANGUAGES[language]
    first = w["qualification"].format(number=5, passed=4)
    assert w["checks"] in consent()
    assert w["checks"] in consent(gold_every=0)
    assert w["checks"] not in consent(gold_every=0, attention=0)
    assert f"{first} {w['checks']}" in consent(qualification=5, passed=4)
    assert first in consent(gold_every=0, attention=0, qualification=5, passed=4)
    assert not any(word in consent() for word in ("not tested", "nicht geprüft"))
