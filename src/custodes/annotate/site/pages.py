"""What each page needs, and its HTML: a view of a session in, a page out."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from custodes.annotate import recruit, texts
from custodes.annotate.acting import LONGEST, SKIPPING
from custodes.annotate.plan import StudyPlan
from custodes.annotate.session import Ask, Break, Consent, Done, Example, Instructions, Paused, View, Wait
from custodes.annotate.site.differences import marked
from custodes.annotate.site.forms import BOTH_BAD
from custodes.annotate.site.words import ENGLISH, words

HERE = Path(__file__).parent
BUTTONS = 11
"""Points of a scale that are buttons; more are a slider and a number."""
PAUSED = 60
"""Seconds until a page of a paused study looks again."""

TEMPLATES = {
    Consent: "consent.html",
    Instructions: "instructions.html",
    Ask: "ask.html",
    Break: "break.html",
    Wait: "wait.html",
    Paused: "wait.html",
    Done: "done.html",
}


@dataclass(frozen=True)
class Choice:
    """One of the answers to a question: what it sends, what it says, the keys that choose it and the one that is shown,
    and the owner's word for it."""

    value: str
    text: str
    keys: tuple[str, ...] = ()
    hint: str = ""
    label: str = ""


@dataclass(frozen=True)
class Asked:
    """One aspect of a question: the name of its field, its choices (none: a number), and what was answered before."""

    field: str
    aspect: str
    choices: tuple[Choice, ...]
    given: str | None


class Static:
    """A file of `static/`, and what of it goes over the network."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.type = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}[path.suffix]
        self.bytes = path.read_bytes()
        self.packed = gzip.compress(self.bytes, mtime=0)


@cache
def static() -> dict[str, Static]:
    """Files of `static/` by the name under which they are sent, which changes with what is in them."""
    files = sorted(path for path in (HERE / "static").iterdir() if path.is_file())
    return {f"{p.stem}.{hashlib.sha256(p.read_bytes()).hexdigest()[:12]}{p.suffix}": Static(p) for p in files}


@cache
def environment() -> Any:
    """The templates, everything escaped."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    sent = {file.path.name: name for name, file in static().items()}
    made.globals |= {"static": sent.__getitem__}
    made.filters |= {"prose": prose}
    return made


@lru_cache(maxsize=256)
def prose(text: str) -> Any:
    """A text of the owner, Markdown, as safe HTML; made once."""
    from markupsafe import Markup

    return Markup(texts.prose(text))


def render(template: str, *, plan: StudyPlan | None = None, said: str = "", **values: Any) -> str:
    """A template filled in, with the words of the plan's language; `said`, a key of these, is told of what was done."""
    w = ENGLISH if plan is None else words(plan.texts.language)
    lang = "en" if plan is None else plan.texts.language
    made = environment().get_template(template)
    return str(made.render(w=w, plan=plan, lang=lang, said=w.get(said, ""), **values))


def of_view(plan: StudyPlan, view: View, *, path: str, said: str = "", marks: bool = False) -> str:
    """The page of a session, at `path`: where it stands now. `marks`: words that differ, where the plan has it."""
    values: dict[str, Any] = {"view": view, "path": path, "refresh": None}
    if isinstance(view, Ask):
        may = plan.texts.differences and len(view.sides) == 2
        found = marked(*view.sides) if may and marks else None
        if found is not None:
            values["view"] = replace(view, sides=found)
        elif may and marks:
            said = "too_long"
        values |= {
            "asked": asked(plan, view),
            "reasons": SKIPPING,
            "longest": LONGEST,
            "marked": found is not None,
            "may_mark": may,
        }
    elif isinstance(view, Instructions):
        values |= {"examples": view.examples, "answer": answer_of(plan), "preview": False}
    elif isinstance(view, Wait):
        values["refresh"] = max(view.seconds, 1)
    elif isinstance(view, Paused):
        values["refresh"] = PAUSED
    elif isinstance(view, Done):
        values["back"] = recruit.ending(plan, view)
    return render(TEMPLATES[type(view)], plan=plan, said=said, **values)


def of_help(plan: StudyPlan, examples: tuple[Example, ...], *, path: str) -> str:
    """The instructions once more, for one who is in the middle of it."""
    return render("help.html", plan=plan, path=path, examples=examples, answer=answer_of(plan))


def of_arrival(
    plan: StudyPlan, arrival: recruit.Arrival, params: Mapping[str, str], *, path: str, examples: tuple[Example, ...]
) -> str:
    """The door of a study: what it is, and a button that carries on what the link says; for who only looks, all that
    there is to read."""
    link = recruit.LINKS[arrival.source]
    asks_who = link.person if plan.people.named and not arrival.params else ""
    names = (link.person, *link.others, recruit.TOKEN)
    kept = {name: params[name] for name in names if name in params and name != asks_who}
    return render(
        "join.html",
        plan=plan,
        path=path,
        params=kept,
        asks_who=asks_who,
        preview=arrival.preview,
        examples=examples,
        answer=answer_of(plan),
    )


def message(
    kind: str, plan: StudyPlan | None = None, *, what: str = "", path: str = "", fields: Mapping[str, str] | None = None
) -> str:
    """A page that says one thing, a key of the words; in English where no study is known. With `fields`, a form that
    sends them once more to `path`."""
    return render("message.html", plan=plan, kind=kind, what=what, path=path, fields=fields or {})


def of_error(status: int) -> str:
    """The page of a request that cannot be served."""
    return message(
        {404: "absent", 413: "too_large", 429: "too_many", 500: "broken_down", 503: "unable"}.get(status, "wrong")
    )


def asked(plan: StudyPlan, ask: Ask) -> tuple[Asked, ...]:
    """The aspects of a question, in their order."""
    choices = choices_of(plan)
    given = {aspect: str(value) for aspect, value in ask.given.items()}
    return tuple(
        Asked(field=f"v{place}", aspect=aspect, choices=choices, given=given.get(aspect))
        for place, aspect in enumerate(plan.question.aspects)
    )


@lru_cache(maxsize=64)
def choices_of(plan: StudyPlan) -> tuple[Choice, ...]:
    """What may be answered to each aspect, from left to right; nothing where it is a number."""
    question, w = plan.question, words(plan.texts.language)
    if question.mode == "compare":
        made = [Choice("1", w["first_better"], ("1", "ArrowLeft"), "←")]
        if question.equal:
            made.append(Choice("0", w["equally_good" if question.both_bad else "equal"], ("0",), "0"))
        if question.equal and question.both_bad and len(question.aspects) == 1:  # of several, one box says it of all
            made.append(Choice(BOTH_BAD, w["both_bad"], ("b",), "b"))
        return (*made, Choice("-1", w["second_better"], ("2", "ArrowRight"), "→"))
    low, high = question.scale
    if high - low >= BUTTONS:
        return ()
    points = range(low, high + 1)
    labels = dict(zip(points, question.labels, strict=True)) if len(question.labels) == len(points) else {}
    return tuple(Choice(str(p), str(p), (str(p),) if 0 <= p <= 9 else (), label=labels.get(p, "")) for p in points)


def answer_of(plan: StudyPlan) -> dict[int, str]:
    """The words of the right answer of an example."""
    if plan.question.mode == "rate":
        return {value: str(value) for value in range(plan.question.scale[0], plan.question.scale[1] + 1)}
    w = words(plan.texts.language)
    return {1: w["first_better"], 0: w["equal"], -1: w["second_better"]}
