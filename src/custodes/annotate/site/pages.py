"""The pages of annotators: HTML from views, and actions from submitted forms."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from custodes.annotate import arrivals, safe_html
from custodes.annotate.plan import StudyPlan
from custodes.annotate.views import (
    Act,
    Agree,
    Answer,
    Ask,
    Begin,
    Break,
    Comment,
    Consent,
    Decline,
    Example,
    Instructions,
    Skip,
    Stop,
    Undo,
    View,
    VisitEnd,
    Wait,
)
from custodes.annotate.visits import LONGEST_COMMENT, SKIPPING
from custodes.annotate.wording import scale_bounds
from custodes.annotate.wording.translations import ENGLISH, words

HERE = Path(__file__).parent
BUTTONS = 11
"""Maximum number of points of a scale that is displayed as buttons. A larger scale is displayed as a slider with a
number field."""

TEMPLATES = {
    Consent: "consent.html",
    Instructions: "instructions.html",
    Ask: "ask.html",
    Break: "break.html",
    Wait: "wait.html",
    VisitEnd: "done.html",
}


@dataclass(frozen=True)
class AnswerButton:
    """An answer button. The form sends `value`. The button displays `text`, the shortcut `hint`, and `label`, which is
    the plan's label for a point of the rating scale. `keys` are the shortcut keys."""

    value: str
    text: str
    keys: tuple[str, ...] = ()
    hint: str = ""
    label: str = ""


class Static:
    """A file of the folder `static`, with its content. The public name contains a hash of the content."""

    def __init__(self, file_path: Path) -> None:
        self.path, self.bytes = file_path, file_path.read_bytes()
        self.type = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}[file_path.suffix]
        self.public_name = f"{file_path.stem}.{hashlib.sha256(self.bytes).hexdigest()[:12]}{file_path.suffix}"


@cache
def static() -> dict[str, Static]:
    """Return the files of the folder `static` by public name."""
    return {file.public_name: file for file in map(Static, sorted((HERE / "static").iterdir()))}


@cache
def environment() -> Any:
    """Return the environment of the templates. It escapes all values."""
    import jinja2

    template_environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    public_name_of_file = {static_file.path.name: public_name for public_name, static_file in static().items()}
    template_environment.globals |= {"static": public_name_of_file.__getitem__}
    template_environment.filters |= {"prose": prose}
    return template_environment


@lru_cache(maxsize=256)
def prose(text: str) -> Any:
    """Return a text of the owner as safe HTML. The text is converted as Markdown, or as plain text if Markdown would
    lose a word. Results are cached."""
    from markupsafe import Markup

    try:
        return Markup(safe_html.to_html(text, "markdown"))
    except safe_html.UnlikeError:
        return Markup(safe_html.plain(text))


def render(template_name: str, *, plan: StudyPlan | None = None, notice_key: str = "", **template_values: Any) -> str:
    """Render a template with the words of the plan's language. `notice_key` is the key of a message to display."""
    phrase_of_key = ENGLISH if plan is None else words(plan.texts.language, plan.question.noun)
    language_tag = "en" if plan is None else plan.texts.language
    page_template = environment().get_template(template_name)
    return str(
        page_template.render(
            w=phrase_of_key, plan=plan, lang=language_tag, notice=phrase_of_key.get(notice_key, ""), **template_values
        )
    )


def render_view(plan: StudyPlan, view: View, *, path: str, notice_key: str = "") -> str:
    """Render the current page of an annotator, whose address is `path`."""
    template_values: dict[str, Any] = {"view": view, "path": path}
    if isinstance(view, Ask):
        template_values |= {"choices": choices_of(plan), "reasons": SKIPPING, "longest": LONGEST_COMMENT}
    elif isinstance(view, Instructions):
        template_values |= {"examples": view.examples, "answer": answer_of(plan)}
    elif isinstance(view, VisitEnd):
        completion_code = arrivals.code_of(plan, view.why, view.code)
        template_values |= {"code": completion_code, "link": arrivals.return_link(plan, completion_code)}
    return render(TEMPLATES[type(view)], plan=plan, notice_key=notice_key, **template_values)


def render_help(plan: StudyPlan, examples: tuple[Example, ...], *, path: str) -> str:
    """Render the page of the instructions that an annotator can open during annotation."""
    return render("help.html", plan=plan, path=path, examples=examples, answer=answer_of(plan))


def render_arrival(plan: StudyPlan, worker_id: str, *, path: str, notice_key: str = "") -> str:
    """Render the entry page of an open link: a description of the study, and a button that passes on the worker's id.
    If the plan needs the id and it is empty, the page has a field for it. `notice_key` is the key of a message to
    display."""
    return render("join.html", plan=plan, notice_key=notice_key, path=path, worker_id=worker_id)


def message(
    message_key: str,
    plan: StudyPlan | None = None,
    *,
    path: str = "",
    fields: Mapping[str, str] | None = None,
) -> str:
    """Render a page with one message. `message_key` is the key of the message in the words of the language. Without a
    plan, the language is English. If `fields` are given, the page has a form that sends them again to `path`."""
    return render("message.html", plan=plan, kind=message_key, path=path, fields=fields or {})


def render_error(status: int) -> str:
    """Render the page for a request that cannot be served."""
    return message(
        {404: "absent", 413: "too_large", 429: "too_many", 500: "broken_down", 503: "unable"}.get(status, "wrong")
    )


@lru_cache(maxsize=64)
def choices_of(plan: StudyPlan) -> tuple[AnswerButton, ...]:
    """Return the answer buttons of an aspect, from left to right. The result is empty if the answer is typed as a
    number."""
    question_plan, phrase_of_key = plan.question, words(plan.texts.language, plan.question.noun)
    if question_plan.mode == "compare":
        answer_buttons = [AnswerButton("1", phrase_of_key["first_better"], ("1", "ArrowLeft"), "←")]
        if question_plan.equal:
            answer_buttons.append(AnswerButton("0", phrase_of_key["equal"], ("0",), "0"))
        return (*answer_buttons, AnswerButton("-1", phrase_of_key["second_better"], ("2", "ArrowRight"), "→"))
    lowest_rating, highest_rating = question_plan.scale
    if highest_rating - lowest_rating >= BUTTONS:
        return ()
    ratings = range(lowest_rating, highest_rating + 1)
    return tuple(
        AnswerButton(str(rating), str(rating), (str(rating),) if 0 <= rating <= 9 else (), label=rating_label)
        for rating, rating_label in zip(ratings, question_plan.labels or [""] * len(ratings), strict=True)
    )


def answer_of(plan: StudyPlan) -> dict[int, str]:
    """Return the displayed text of every answer that can be the correct answer of an example."""
    if plan.question.mode == "rate":
        lowest_rating, highest_rating = plan.question.scale
        lowest_rating_text, highest_rating_text = scale_bounds(plan.question)
        text_of_rating = {rating: str(rating) for rating in range(lowest_rating, highest_rating + 1)}
        return {**text_of_rating, lowest_rating: lowest_rating_text, highest_rating: highest_rating_text}
    phrase_of_key = words(plan.texts.language, plan.question.noun)
    return {1: phrase_of_key["first_better"], 0: phrase_of_key["equal"], -1: phrase_of_key["second_better"]}


# --- forms


class UnreadError(ValueError):
    """A form is invalid. The text of the error is the key of a message in the words of a language."""


def act_of(plan: StudyPlan, form_fields: Mapping[str, str]) -> Act:
    """Return the action that a form requests. Raise `UnreadError` for an invalid form.

    >>> act_of(StudyPlan(), {"do": "answer", "assignment": "7", "v0": "1", "seconds": "3.2"})
    Answer(assignment=7, values={'': 1}, seconds=3.2)
    """
    match form_fields.get("do"):
        case "agree" if form_fields.get("agree"):
            return Agree(digest=form_fields.get("digest", ""))
        case "decline":
            return Decline()
        case "begin":
            return Begin()
        case "stop":
            return Stop()
        case "undo":
            return Undo(assignment=assignment_of(form_fields))
        case "skip" if form_fields.get("reason") in SKIPPING:
            return Skip(
                assignment=assignment_of(form_fields), reason=form_fields["reason"], seconds=seconds(form_fields)
            )
        case "comment" if form_fields.get("text", "").strip():
            assignment_id = assignment_of(form_fields) if "assignment" in form_fields else None
            return Comment(text=form_fields["text"].strip(), assignment=assignment_id)
        case "answer":
            return _answer(plan, form_fields)
    raise UnreadError("unread")


def _answer(plan: StudyPlan, form_fields: Mapping[str, str]) -> Answer:
    """Return the answer in a form. The service checks which values are allowed."""
    answer_of_aspect = {}
    for aspect_index, aspect in enumerate(plan.question.aspects):
        answer_text = form_fields.get(f"v{aspect_index}", "")
        if not answer_text:
            raise UnreadError("unfilled")
        answer_of_aspect[aspect] = _parse_integer(answer_text)
    return Answer(assignment=assignment_of(form_fields), values=answer_of_aspect, seconds=seconds(form_fields))


def assignment_of(form_fields: Mapping[str, str]) -> int:
    """Return the assignment number of a form. Raise `UnreadError` if the form has no valid number."""
    assignment_id = _parse_integer(form_fields.get("assignment", ""))
    if not 0 <= assignment_id < 2**63:
        raise UnreadError("unread")
    return assignment_id


def _parse_integer(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 20:
        raise UnreadError("unread")
    return int(text)


def seconds(form_fields: Mapping[str, str]) -> float | None:
    """Return the seconds for which the question was visible, or None if the page did not measure them."""
    try:
        visible_seconds = float(form_fields.get("seconds", ""))
    except ValueError:
        return None
    return visible_seconds if math.isfinite(visible_seconds) and visible_seconds >= 0 else None
