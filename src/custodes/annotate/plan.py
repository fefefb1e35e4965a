"""The plan of a study: sections and keys with defaults, descriptions and limits, the validation of a plan, and its
stopping rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

from custodes.arguments import check_one_of, seed_or_generator
from custodes.errors import OptionError, reject, short_repr, suggestion
from custodes.evaluate.protocol.stopping import Stopping, select_estimators_and_rules
from custodes.stats.correction.estimator import Estimator
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.rules import Rule
from custodes.strict_json import prepare_decoder

LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
CURRENCY = re.compile(r"[A-Z]{3}")
WIDEST = 100
"""Maximum difference between the highest and the lowest rating of a scale."""
RETURN_URL = re.compile(r"https?://[^/?#]", re.IGNORECASE)
IDENTIFIER = re.compile(r"[0-9A-Za-z_.@+-]{1,100}")
"""Pattern of a worker's id and of other link parameters."""


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question: a comparison of two outputs (`compare`), or a rating of one output (`rate`)."""

    text: Annotated[
        str,
        Meta(description="the question; default: Which response is better? (mode rate: How good is this response?)"),
    ] = ""
    noun: Annotated[
        str,
        Meta(
            description="noun for an output, such as summary; default: the noun in the question, or response if the "
            "question contains none"
        ),
    ] = ""
    mode: Annotated[Literal["compare", "rate"], Meta(description="compare two outputs, or rate one output")] = "compare"
    aspects: Annotated[
        tuple[str, ...],
        Meta(
            description="names of aspects that are answered separately on one page (describe them in instructions); "
            'the first aspect decides when a pair is closed; [""] means no aspects'
        ),
    ] = ("",)
    equal: Annotated[bool, Meta(description="allow the answer that both are equal")] = True
    scale: Annotated[tuple[int, int], Meta(description="rating scale: smallest and largest whole number")] = (1, 5)
    labels: Annotated[tuple[str, ...], Meta(description="rating scale: a label for each point, or no labels")] = ()


class StudyTexts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Texts for annotators, and the way in which outputs are displayed."""

    title: Annotated[str, Meta(description="title of the pages")] = ""
    instructions: Annotated[
        str,
        Meta(
            description=(
                "instructions: Markdown, @FILE in the folder of the plan, or a template (compare, adequacy, rate)"
            )
        ),
    ] = ""
    consent: Annotated[
        str, Meta(description="consent before the first question: Markdown, @FILE, or a template (consent)")
    ] = ""
    thanks: Annotated[str, Meta(description="text at the end: Markdown, @FILE, or a template (thanks)")] = ""
    contact: Annotated[
        str,
        Meta(description="address for questions of annotators; without it, custodes annotate check gives a warning"),
    ] = ""
    language: Annotated[str, Meta(description="language of the texts, such as en, de or ar")] = "en"
    render: Annotated[
        Literal["plain", "markdown", "markdown+math"],
        Meta(
            description="format in which outputs are displayed: plain, markdown or markdown+math; both outputs of a "
            "comparison have the same format"
        ),
    ] = "plain"


class Codes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Completion codes that a platform fixes in advance.

    `finished` is for finished visits. `failed` is for visits that ended because the annotator failed the qualification
    or the control questions, or was excluded. `no_work` is for visits that ended because no questions were left, the
    annotator left, or the study was stopped. If a code is empty, each visit has a separate code.
    """

    finished: str = ""
    failed: str = ""
    no_work: str = ""


class AnnotatorPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recruitment and quality control of annotators."""

    recruit: Annotated[
        Literal["links", "open"], Meta(description="links: one link per annotator; open: one link for all annotators")
    ] = "links"
    worker_id: Annotated[
        str,
        Meta(
            description=(
                "for an open link: name of the parameter that holds the worker's id, such as PROLIFIC_PID. If a link "
                "lacks this parameter, the worker types the id. If the name is empty, each visitor is a new annotator"
            )
        ),
    ] = ""
    return_url: Annotated[
        str,
        Meta(
            description="address to which annotators return at the end, with {code} in the address; "
            "empty: annotators copy the code"
        ),
    ] = ""
    batch: Annotated[int, Meta(ge=1, description="questions per batch")] = 15
    batches: Annotated[int, Meta(ge=1, description="maximum number of batches per annotator")] = 20
    cap: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="maximum proportion of a pair's answers (up to the current interim analysis) that one "
            "annotator may give. An annotator may always give 2 answers, and with personal links an equal share "
            "of the answers",
        ),
    ] = 0.1
    per_item: Annotated[
        int,
        Meta(
            ge=1,
            description="number of answers to each comparison, from different annotators; for a fixed total cost, "
            "most pairs are decided if this number is 1",
        ),
    ] = 1
    overlap: Annotated[
        float,
        Meta(
            ge=0,
            le=0.9,
            description=(
                "proportion of second opinions (answers to a question that another annotator has answered). Second "
                "opinions measure the reliability of annotators and do not affect decisions. Idle annotators may get "
                "a few more second opinions"
            ),
        ),
    ] = 0.12
    gold_every: Annotated[
        int,
        Meta(
            ge=0,
            description="15 means that one in 15 questions is a control question, which has a known answer; 0: no "
            "control questions",
        ),
    ] = 15
    attention: Annotated[
        int,
        Meta(
            ge=0,
            description="number of attention checks per batch: obvious comparisons that are "
            "generated from the texts of the study",
        ),
    ] = 1
    qualification: Annotated[
        int,
        Meta(ge=0, description="number of questions with known answers before the first batch; 0: no such questions"),
    ] = 0
    passed: Annotated[
        int, Meta(ge=0, description="number of qualification questions that must be answered correctly")
    ] = 0
    most: Annotated[int, Meta(ge=1, description="maximum number of annotators")] = 1000
    codes: Annotated[
        Codes,
        Meta(description="fixed completion codes of the platform; empty: each visit has a separate code"),
    ] = Codes()


class Money(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Payment: price of answers, platform fee and target wage."""

    price: Annotated[float, Meta(ge=0, le=1e6, description="price per answer")] = 0.0
    fee: Annotated[float, Meta(ge=0, le=10, description="fee of the platform, as a proportion of the price")] = 0.0
    wage: Annotated[float, Meta(ge=0, le=1e6, description="target hourly wage")] = 12.0
    currency: Annotated[str, Meta(description="currency of price and wage, such as USD or EUR")] = "USD"


class StoppingRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stopping rule of the study. The fields have the same meaning as in `Stopping`."""

    looks: Annotated[
        tuple[int, ...],
        Meta(
            description=(
                "interim analyses: numbers of answers to a pair after which the pair may be closed. Numbers above "
                "the number of items are reduced to it"
            )
        ),
    ] = (10, 20, 40)
    boundary: Annotated[
        str | float,
        Meta(
            description="boundary of the interim analyses: pocock, obrien-fleming, a number that |z| must exceed, or "
            "none (gamma is then not controlled)"
        ),
    ] = "pocock"
    stop: Annotated[
        Literal["decided", "futility"],
        Meta(
            description="decided: a pair is closed when it is decided; futility: also when a decision has become "
            "improbable"
        ),
    ] = "futility"
    futility: Annotated[
        float,
        Meta(
            description="if stop is futility: a pair is closed when the probability that it will be decided is below "
            "this value"
        ),
    ] = 0.2
    gamma: Annotated[float, Meta(description="maximum probability that equal systems are declared different")] = 0.05
    family: Annotated[
        bool, Meta(description="whether gamma applies to all pairs jointly (true) or to each pair (false)")
    ] = False
    budget: Annotated[
        int | None,
        Meta(
            description=(
                "total number of answers used for decisions. Each comparison (or rated output) needs per_item "
                "answers. Second opinions (overlap) and control questions (gold_every, attention, qualification) are "
                "additional"
            )
        ),
    ] = None
    estimator: Annotated[
        str | None,
        Meta(
            description=(
                "estimator of the outcome of a pair: human or pooled. With a metric, it may also be mixture, ppi and "
                "others. The default is mixture with a metric, and human without a metric"
            )
        ),
    ] = None


@prepare_decoder
class StudyPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The complete plan of a study: questions, annotators, payment and stopping rule."""

    name: Annotated[str, Meta(description="name of the study and of its files")] = "study"
    question: Question = Question()
    texts: StudyTexts = StudyTexts()
    annotators: AnnotatorPlan = AnnotatorPlan()
    money: Money = Money()
    stopping: StoppingRule = StoppingRule()
    seed: Annotated[
        int, Meta(description="seed of all orders, presentation sides and positions of control questions")
    ] = 0


PLAN = msgspec.json.Decoder(StudyPlan)
"""Decoder of a plan that is stored in a study file."""
SECTIONS = ("question", "texts", "annotators", "money", "stopping")


def _descriptions(struct_type: type) -> dict[str, str]:
    return {
        key: annotation.__metadata__[0].description
        for key, annotation in get_type_hints(struct_type, include_extras=True).items()
        if getattr(annotation, "__metadata__", ())
    }


KEYS = {"": _descriptions(StudyPlan), **{name: _descriptions(type(getattr(StudyPlan(), name))) for name in SECTIONS}}
"""Keys of each section with their descriptions, in the order of the file. The section '' has the keys that are in no
section of the file."""


def convert_plan(plan_values: Any) -> StudyPlan:
    """Return the plan with these values by section and key. Raise `OptionError` for a wrong type or a value out of
    range."""
    try:
        return msgspec.convert(plan_values, StudyPlan)
    except msgspec.ValidationError as problem:
        raise OptionError(_plain_message(str(problem), plan_values)) from None


def _plain_message(problem_text: str, plan_values: Any) -> str:
    """Return a message of msgspec, such as ``Expected `int` >= 1 - at `$.money.price` ``, in words and with the key as
    in the file."""
    expectation_text, _, key_path = problem_text.partition(" - at ")
    section, _, key = key_path.strip("`").removeprefix("$").removeprefix(".").partition(".")
    key_text = f"[{section}] {key}" if key else section
    invalid_value = plan_values.get(section, {}).get(key) if key else None
    if expectation_text.startswith("Invalid enum value"):
        allowed_keywords = get_args(get_type_hints(type(getattr(StudyPlan(), section)))[key])
        return (
            f"{key_text} = {short_repr(invalid_value)} is not allowed; allowed: {', '.join(allowed_keywords)}"
            f"{suggestion(str(invalid_value), allowed_keywords)}"
        )
    for msgspec_type_name, type_wording in (
        ("`float | str`", "text or a number"),
        ("`str`", "text in quotes"),
        ("`int`", "a whole number"),
        ("`float`", "a number"),
        ("`bool`", "true or false"),
        ("`array`", "a list"),
        ("`null`", "nothing"),
        ("`object`", "a section"),
    ):
        expectation_text = expectation_text.replace(msgspec_type_name, type_wording)
    for operator, operator_wording in ((" >= ", "from"), (" > ", "above"), (" <= ", "at most")):
        type_text, matched_operator, limit_text = expectation_text.partition(operator)
        if matched_operator:
            allowed_text = f"{type_text.removeprefix('Expected ')} {operator_wording} {float(limit_text):g}"
            return f"{key_text}={invalid_value} is not allowed; give {allowed_text}"
    return f"{key_text}: {expectation_text[:1].lower()}{expectation_text[1:]}"


def check_plan(plan: StudyPlan) -> StudyPlan:
    """Return the plan after validation. Raise `OptionError` for the first value that is invalid, or that has no effect
    together with the other values."""
    try:
        plan_as_builtins = msgspec.to_builtins(plan)
        msgspec.json.encode(plan_as_builtins)
    except UnicodeEncodeError as problem:
        raise OptionError(
            f"plan: {short_repr(problem.object)} has characters that cannot be written to a file"
        ) from None
    except (TypeError, OverflowError) as problem:
        raise OptionError(f"plan: {problem}; allowed are text, numbers, true and false") from None
    plan = convert_plan(plan_as_builtins)  # a struct that was created in Python may contain values of other types
    seed_or_generator("seed", plan.seed)
    reject(
        (not plan.name.strip(), "name='': the study has no name; give a name"),
        *_question_checks(plan),
        (
            not LANGUAGE.fullmatch(plan.texts.language),
            f"[texts] language={plan.texts.language!r} is not a language tag; give one such as en, pt-BR or ar",
        ),
        *_annotator_checks(plan),
        (
            not CURRENCY.fullmatch(plan.money.currency),
            f"[money] currency={plan.money.currency!r} is not allowed; give three capital letters, such as USD or EUR",
        ),
    )
    try:
        stopping_of(plan, n_pairs=1)
    except OptionError as problem:
        raise OptionError(f"[stopping] {problem}") from None
    return plan


def _question_checks(plan: StudyPlan) -> list[tuple[object, str]]:
    """Return, for each check of the question, whether the plan fails, and the error message."""
    question_plan, is_rating_study = plan.question, plan.question.mode == "rate"
    aspect_names = [aspect.strip() for aspect in question_plan.aspects]
    has_unnamed_aspect = "" in aspect_names and len(aspect_names) > 1
    lowest_rating, highest_rating = question_plan.scale
    n_points = highest_rating - lowest_rating + 1
    keys_except_budget = [key for key in StoppingRule.__struct_fields__ if key != "budget"]
    unused_key_checks = _unused_key_checks("question", question_plan, ("scale", "labels"), "mode is compare")
    if is_rating_study:
        unused_key_checks = [
            *_unused_key_checks("question", question_plan, ("equal",), "mode is rate"),
            *_unused_key_checks(
                "stopping", plan.stopping, keys_except_budget, "mode is rate, and no decisions are made from ratings"
            ),
        ]
    return [
        (
            question_plan.text and not question_plan.text.strip(),
            f"[question] text={short_repr(question_plan.text)} is not allowed; give the question, or leave out text "
            "for the default",
        ),
        (
            not aspect_names or len(set(aspect_names)) < len(aspect_names) or has_unnamed_aspect,
            f"[question] aspects={short_repr(question_plan.aspects)} is not allowed; give one or more different names",
        ),
        (
            is_rating_study and not 1 < n_points <= WIDEST + 1,
            f"[question] scale={short_repr(question_plan.scale)} is not allowed; give the lowest and highest rating, "
            f"such as [1, 5], at most {WIDEST} apart",
        ),
        (
            is_rating_study and question_plan.labels and len(question_plan.labels) != n_points,
            f"[question] labels: {len(question_plan.labels)} labels for the {n_points} points of the scale; give one "
            "label per point, or no labels",
        ),
        *unused_key_checks,
    ]


def _unused_key_checks(
    section: str, section_plan: msgspec.Struct, keys: Sequence[str], why_unused: str
) -> list[tuple[object, str]]:
    """Return the checks that keys without an effect have their default values."""
    return [
        (
            getattr(section_plan, key) != getattr(type(section_plan)(), key),
            f"[{section}] {key}={short_repr(getattr(section_plan, key))} has no effect: {why_unused}",
        )
        for key in keys
    ]


def _annotator_checks(plan: StudyPlan) -> list[tuple[object, str]]:
    """Return, for each check of the annotators, whether the plan fails, and the error message."""
    annotator_plan, budget = plan.annotators, plan.stopping.budget
    is_return_url = RETURN_URL.match(annotator_plan.return_url) and "{code}" in annotator_plan.return_url
    min_controls_per_batch = annotator_plan.attention + (0 < annotator_plan.gold_every <= annotator_plan.batch)
    return [
        (
            annotator_plan.recruit == "links" and annotator_plan.worker_id,
            f"[annotators] worker_id={short_repr(annotator_plan.worker_id)} has no effect: recruit is links, and "
            "personal links identify annotators already",
        ),
        (
            annotator_plan.worker_id and not IDENTIFIER.fullmatch(annotator_plan.worker_id),
            f"[annotators] worker_id={short_repr(annotator_plan.worker_id)} is not allowed; give the name of a "
            "parameter of the link, such as workerId",
        ),
        (
            annotator_plan.return_url and not is_return_url,
            f"[annotators] return_url={short_repr(annotator_plan.return_url)} is not allowed; give an address with "
            f"{{code}} in it, such as https://app.prolific.com/submissions/complete?cc={{code}}",
        ),
        (
            min_controls_per_batch >= annotator_plan.batch > 1,
            f"[annotators] attention={annotator_plan.attention}: control questions fill the whole batch of "
            f"{annotator_plan.batch}; reduce attention, or use larger batches",
        ),
        (
            annotator_plan.gold_every == 1,
            "[annotators] gold_every=1: every question would have a known answer; give 2 or more, or 0",
        ),
        (
            annotator_plan.passed > annotator_plan.qualification,
            f"[annotators] passed={annotator_plan.passed} exceeds the {annotator_plan.qualification} questions of the "
            "qualification; give a smaller number",
        ),
        (
            annotator_plan.qualification and not annotator_plan.passed,
            f"[annotators] qualification={annotator_plan.qualification} has no effect without passed; set passed to "
            "the number of answers that must be correct",
        ),
        (
            budget is not None and 0 < budget < annotator_plan.per_item,
            f"[stopping] budget={budget} is below the {annotator_plan.per_item} answers of one comparison (per_item); "
            "increase the budget",
        ),
    ]


def stopping_of(plan: StudyPlan, *, n_pairs: int) -> Stopping:
    """Return the stopping rule of the plan as `Stopping`. If gamma applies to all pairs jointly, gamma is divided by
    `n_pairs`.

    >>> stopping_of(StudyPlan(), n_pairs=3)
    Stopping(stop='futility', looks=(10, 20, 40), boundary='pocock')
    """
    stopping_plan = plan.stopping
    stopping_settings = Stopping(
        looks=stopping_plan.looks,
        boundary=stopping_plan.boundary,
        stop=stopping_plan.stop,
        futility=stopping_plan.futility,
        gamma=stopping_plan.gamma / max(1, n_pairs) if stopping_plan.family else stopping_plan.gamma,
        budget=budget_of(plan),
    )
    if stopping_plan.estimator is not None:
        check_one_of("estimator", stopping_plan.estimator, ESTIMATORS)
    return stopping_settings


def budget_of(plan: StudyPlan) -> int | None:
    """Return the number of comparisons within the budget, or None without a budget. Each comparison gets all its
    answers. For ratings, the result is the number of outputs.

    >>> budget_of(StudyPlan(stopping=StoppingRule(budget=100)))
    100
    """
    budget = plan.stopping.budget
    return None if budget is None else budget // plan.annotators.per_item


def rule_of(plan: StudyPlan, *, n_pairs: int, max_items: int, has_metric: bool) -> Rule:
    """Return the rule for a study with `n_pairs` pairs of at most `max_items` items. Interim analyses are limited to
    `max_items` items."""
    estimators, (stopping_settings,) = select_estimators_and_rules(
        plan.stopping.estimator, stopping_of(plan, n_pairs=n_pairs), is_without_metric=not has_metric
    )
    estimator: Estimator = estimators[0]
    return stopping_settings.rule(estimator, max_annotations=max_items, seed=plan.seed)
