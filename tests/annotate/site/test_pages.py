"""HTML of the annotator pages."""

from __future__ import annotations

import gzip
from dataclasses import replace as replace_view
from html.parser import HTMLParser

from msgspec.structs import replace

from custodes.annotate.plan import Question, StudyPlan, StudyTexts
from custodes.annotate.site import pages
from custodes.annotate.views import Ask, Consent, Example, Side, VisitEnd
from tests.annotate.site.gallery import all_pages, ask, side

PLAN = StudyPlan(texts=StudyTexts(consent="Why.", instructions="How.", contact="anna@example.org"))
EXAMPLE = Example(context=side(""), sides=(side("a"), side("b")), expected=0, why="Neither.")
ASK = ask("Given.", "First.", "Second.")


class Parts(HTMLParser):
    """HTML parser that collects start tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag and attributes.items() <= attrs.items()]


def choices(plan: StudyPlan, **values: object) -> list[tuple[str | None, str | None]]:
    parts = Parts(pages.render_view(plan, question(**values), path="/s/x"))
    return [(button["value"], button.get("data-key")) for button in parts.of("button", name="v0")]


def question(**values: object) -> Ask:
    return ask("Given.", "First.", "Second.", **values)


def test_one_heading_a_language_and_no_script_within() -> None:
    for name, page in all_pages(PLAN, ASK, EXAMPLE).items():
        parts = Parts(page)
        assert len(parts.of("h1")) == 1, name
        assert parts.of("html") == [{"lang": "en", "dir": "ltr"}]
        scripts = [f"/static/{file}" for file in pages.static() if file.endswith(".js")]
        assert [attributes["src"] for attributes in parts.of("script")] == scripts
        keys = {key for _, attributes in parts.tags for key in attributes}
        assert not [key for key in keys if key.startswith("on") or key == "style"], name
        assert page.count("<main") == 1


def test_answers_from_left_to_right_with_their_keys() -> None:
    expected = [("1", "1 ArrowLeft"), ("0", "0"), ("-1", "2 ArrowRight")]
    assert choices(PLAN) == expected
    assert choices(replace(PLAN, question=Question(equal=False))) == [expected[0], expected[2]]
    rate = replace(PLAN, question=Question(mode="rate", scale=(1, 7)))
    assert choices(rate) == [(str(n), str(n)) for n in range(1, 8)]


def test_aspects_are_answered_one_by_one() -> None:
    plan = replace(PLAN, question=Question(aspects=("Adequacy", "Fluency")))
    parts = Parts(pages.render_view(plan, question(given={"Adequacy": 1, "Fluency": 0}), path="/s/x"))
    radios = parts.of("input", type="radio")
    buttons = [(radio["name"], radio["value"]) for radio in radios]
    assert buttons == [(f"v{k}", value) for k in (0, 1) for value in ("1", "0", "-1")]
    assert [button for button, radio in zip(buttons, radios, strict=True) if "checked" in radio] == [
        buttons[0],
        buttons[4],
    ]
    assert all("required" in radio for radio in radios)


def test_a_long_scale_is_a_number() -> None:
    plan = replace(PLAN, question=Question(mode="rate", scale=(0, 100)))
    (number,) = Parts(pages.render_view(plan, question(), path="/s/x")).of("input", type="number")
    assert (number["min"], number["max"], number["name"]) == ("0", "100", "v0")


def test_withdrawn_answers_are_marked() -> None:
    parts = Parts(pages.render_view(PLAN, question(given={"": -1}), path="/s/x"))
    assert [button["value"] for button in parts.of("button", name="v0") if button.get("aria-current")] == ["-1"]
    assert len(parts.of("input", value="undo")) == 1
    assert not Parts(pages.render_view(PLAN, question(can_undo=False), path="/s/x")).of("input", value="undo")


def test_an_empty_output_is_named() -> None:
    view = replace_view(question(), sides=(Side(html=""), Side(html="<p>text</p>")))
    for language, text in (("en", "(empty)"), ("de", "(leer)")):
        plan = replace(PLAN, texts=replace(PLAN.texts, language=language))
        assert pages.render_view(plan, view, path="/s/x").count(text) == 1


def test_texts_of_the_owner_are_markdown_made_safe() -> None:
    plan = replace(PLAN, texts=replace(PLAN.texts, consent="**Why** <script>alert(1)</script>", language="fr"))
    page = pages.render_view(plan, Consent(digest="d"), path="/s/x")
    assert "<strong>Why</strong> &lt;script&gt;" in page
    assert 'lang="fr" dir="auto"' in page
    assert '<html lang="en" dir="ltr">' in page  # language of the interface


def test_a_second_language_speaks_throughout() -> None:
    german = replace(PLAN, texts=replace(PLAN.texts, language="de"))
    english, translated = all_pages(PLAN, ASK, EXAMPLE), all_pages(german, ASK, EXAMPLE)
    for name, page in translated.items():
        if not name.isdecimal():  # errors belong to no study
            assert '<html lang="de" dir="ltr">' in page, name
            assert page != english[name]
            assert "Comparison" not in page


def test_the_way_back_to_a_platform() -> None:
    page = Parts(all_pages(PLAN, ASK, EXAMPLE)["return"])
    assert page.of("a")[0]["href"] == "https://app.prolific.com/submissions/complete?cc=K7QM"
    declined = VisitEnd(why="declined", code=None, answers=0)
    assert not Parts(pages.render_view(PLAN, declined, path="/s/x")).of("input", id="code")


def test_static_files_are_small() -> None:
    """The compressed stylesheet and script have less than 6 KiB in total."""
    files = [file for name, file in pages.static().items() if name.startswith("annotate.")]
    assert {file.type for file in files} == {"text/css", "text/javascript"}
    assert sum(len(gzip.compress(file.bytes)) for file in files) < 6 * 1024
