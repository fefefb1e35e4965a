"""Metric specifications: names, parameters and reference rules, with one-line errors for invalid ones."""

from __future__ import annotations

import re

import pytest

from custodes.errors import OptionError
from custodes.scoring.metric import Metric, Scorer, Traits
from custodes.scoring.spec import parse


def metric(name: str, **parameters: object) -> Metric:
    def load(*_: object, **__: object) -> Scorer:
        raise AssertionError

    rules = ("all", "first", "best", "mean")
    return Metric(name=name, gives="", source="", load=load, traits=Traits(rules=rules), parameters=parameters)


KNOWN = {
    value.name: value
    for value in (
        metric("rouge1"),
        metric("chrf", word_order=0, lowercase=False, beta=2.0),
        metric("bertscore", model=""),
        metric("worker", command=""),
    )
}


def raters(*specs: str) -> list[tuple[str, str, dict[str, object]]]:
    return [(spec.name, spec.rule, dict(spec.parameters)) for spec in parse(specs, KNOWN)]


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("rouge1", ["rouge1"]),
        ("rouge1@first", ["rouge1@first"]),
        ("rouge1@first,best", ["rouge1@first", "rouge1@best"]),
        ("chrf:word_order=2@best", ["chrf:word_order=2@best"]),
        ("mine=rouge1", ["mine"]),
        ("mine=rouge1@best", ["mine"]),
        ("mine=rouge1@first,best", ["mine@first", "mine@best"]),
        ("bertscore:model=/home/me/models/tiny", ["bertscore:model=tiny"]),
        ("bertscore:model=/home/me/models/tiny/@mean", ["bertscore:model=tiny@mean"]),
        ("bertscore:model=people/tiny", ["bertscore:model=tiny"]),
        ("worker:/usr/bin/python3 /a/b/comet.py --model=/m/one --x @y", ["worker:python3 comet.py --model=one --x @y"]),
        (r"worker:'sp ace/b'\''ad.py' ok", ["worker:b'ad.py ok"]),
        (
            'worker:run="uv run" "my models/comet.py" --model="/m/the one"',
            ["worker:run=uv run comet.py --model=the one"],
        ),
        ("bertscore:model=/home/my models/tiny", ["bertscore:model=tiny"]),
        (" rouge1 ", ["rouge1"]),
    ],
)
def test_raters_are_called_as_they_were_asked_for_but_for_paths(spec: str, names: list[str]) -> None:
    assert [name for name, _, _ in raters(spec)] == names


def test_values_are_of_the_type_of_the_default() -> None:
    (result,) = raters("chrf:word_order=2,lowercase=true,beta=3")
    assert result == ("chrf:word_order=2,lowercase=true,beta=3", "", {"word_order": 2, "lowercase": True, "beta": 3.0})
    assert raters("bertscore:model=/a,b/c@d/e@first")[0][1:] == ("first", {"model": "/a,b/c@d/e"})
    assert raters("worker:run --a=1,b=2 x=y")[0][2] == {"command": "run --a=1,b=2 x=y"}
    assert raters("w=worker:run@best")[0] == ("w", "best", {"command": "run"})


def test_what_is_asked_in_two_ways_is_computed_once() -> None:
    one, two, three = parse(["chrf", "x=chrf:word_order=0", "chrf:word_order=1"], KNOWN)
    assert one.computation == two.computation != three.computation


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["roge1"], "metric 'roge1': unknown metric 'roge1' (did you mean 'rouge1'?)"),
        (["zzz"], "unknown metric 'zzz'; metrics: rouge1, chrf, bertscore, worker"),
        (["rouge1@frist"], "unknown rule 'frist' (did you mean 'first'?); rules of rouge1: all, first, best, mean"),
        (["rouge1@first,first"], "a rule occurs twice"),
        (["chrf:wordorder=2"], "chrf has no parameter 'wordorder' (did you mean 'word_order'?); parameters: word_ord"),
        (["rouge1:x=1"], "rouge1 has no parameter 'x'; parameters: none"),
        (["chrf:word_order"], "chrf has no parameter 'word_order'"),
        (["chrf:word_order=two"], "word_order='two' is not a whole number; the default is 0"),
        (["chrf:beta=x"], "beta='x' is not a number; the default is 2.0"),
        (["chrf:lowercase=maybe"], "lowercase='maybe' is not true or false; the default is False"),
        (["chrf:beta=1,beta=2"], "beta occurs twice"),
        (["rouge1", "rouge1"], "metric 'rouge1' is requested twice; give one of them another name"),
        (["bertscore:model=/a/tiny", "bertscore:model=/b/tiny"], "'bertscore:model=tiny' is requested twice"),
        (["x=chrf", "x=rouge1"], "metric 'x' is requested twice"),
        (["worker:mine 'x"], 'worker: "mine \'x" is not a command line: No closing quotation'),
        (["worker:"], "give the command, as in worker:COMMAND"),
        ([], "no metric is given; give one or more of rouge1, chrf, bertscore, worker"),
        ([""], "no metric is given; give one or more"),
    ],
)
def test_what_cannot_be_asked_is_one_line(specs: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse(specs, KNOWN)
