"""Makes the pages of docs/reference from the code. Run by `make docs`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import custodes as cu
from custodes import cli
from custodes.annotate.check_study import StudyCheck
from custodes.annotate.completion_codes import Reconciled
from custodes.annotate.plan import rows
from custodes.annotate.rehearsal import Rehearsal
from custodes.annotate.study_status import Status
from custodes.answers.result import Provenance, Result
from custodes.answers.shared_arguments import Setting
from custodes.data.items import Items
from custodes.data.notes import Note
from custodes.data.outputs import Outputs
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.diagnosis import EXTRAS
from custodes.questions import QUESTIONS
from custodes.scoring.metrics import METRICS
from custodes.scoring.scripts import OURS as WORKERS

PARTS = {
    "What every result is": (Result, Provenance, Note),
    "What a study is made of": (Ratings, Preferences, Raters, Items, Outputs),
}
"""Classes that have no public name of their own: values of those that have one are made of them."""

OTHERS = {
    "scores": cu.Scores,
    "judgements": cu.Judgements,
    "doctor": cu.Doctor,
    "study_check": StudyCheck,
    "rehearsal": Rehearsal,
    "status": Status,
    "reconciled": Reconciled,
}
"""Results that are no question's."""

DOCS = Path(__file__).parent
MADE = "<!-- Made by docs/generate.py; do not edit. -->\n"


def command_line() -> str:
    """Every verb with its options."""
    lines = [
        "# Command line",
        "",
        MADE,
        "`custodes VERB INPUT... [options]`. An input is a file, a folder, `PATH::TESTSET/LP` for mt-metrics-eval",
        "data, or the word `demo`. What comes out is in [results](results.md); what goes in is in [data](../data.md).",
        "",
        "`custodes --version` prints the version, `custodes VERB --help` the options of a verb, and",
        "`custodes --install-completion` installs completion for your shell.",
        "",
    ]
    for verb, command in _verbs(cli.app()):
        lines += [f"## `{verb}`", "", *_paragraphs(command.help), "", "| option | values | meaning |", "|---|---|---|"]
        for argument in command.assemble_argument_collection():
            if not argument.name.startswith("-"):
                continue
            names = ", ".join(f"`{name}`" for name in argument.names)
            lines.append(f"| {names} | {_values(argument)} | {_cell(argument.parameter.help or '')} |")
        lines.append("")
    return "\n".join(lines)


def _verbs(app: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every verb with its command; a verb of verbs (`combine`) gives its own."""
    for name in app:
        if name.startswith("-"):
            continue
        inner = list(_verbs(app[name], f"{before}{name} ")) if app[name].default_command is None else []
        yield from inner or [(before + name, app[name])]


def _values(argument: Any) -> str:
    choices = argument.get_choices()
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    kinds = {bool: "", int: "number", float: "number", str: "text", Path: "path"}
    return next((word for kind, word in kinds.items() if kind in (argument.hint, *_members(argument.hint))), "text")


def _members(hint: Any) -> tuple[Any, ...]:
    return tuple(getattr(hint, "__args__", ()))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _paragraphs(text: str) -> list[str]:
    return inspect.cleandoc(text).splitlines()


def python() -> str:
    """Every public name with its signature and docstring."""
    lines = ["# Python", "", MADE, "`import custodes as cu`, then:", ""]
    for name in cu.__all__:
        lines += _entry(f"cu.{name}", getattr(cu, name))
    lines += ["## Setting", "", "What every question takes beside its own arguments.", "", *_doc(Setting), ""]
    lines += [f"- `{name}`: `{_type(kind)}`" for name, kind in Setting.__annotations__.items()]
    for heading, parts in PARTS.items():
        lines += ["", f"## {heading}", ""]
        for part in parts:
            lines += [f"### `{part.__name__}`", "", *_doc(part), "", *_inside(part), ""]
    return "\n".join(lines) + "\n"


def results() -> str:
    """Every table of every question with its fields, as they are declared."""
    lines = [
        "# Results: every table and field",
        "",
        MADE,
        "What the verbs write with `--format json` and `csv`, and what the results hold in Python (as Polars frames:",
        '`result.metrics`, or `result.to_frame("metrics").to_pandas()`).',
        "",
        "JSON is one object: `question`, `provenance`, `notes`, then each table as a list of rows, then `seconds` (not",
        "with `--no-timing`).",
        "",
        "- `provenance`: `study` (the input), `digest` (of its bytes), `options`, `seed`, `versions`, `dropped` (notes",
        "  that carry a count).",
        "- `notes`: `rule`, `message`, `count`, `aspect`. Everything left out, inferred or undefined is named here.",
        "- An undefined value is null in JSON and an empty cell in CSV; a note or the column `note` says why. It is",
        "  never 0.",
        "- Rows start with `aspect` (or `target`, an aspect or `mean:A,B`), which is empty where ratings have none.",
        "  `complementarity` and `ceiling` take all aspects at once: a rater's name holds its aspect",
        "  (`human:coherence`, `judge:coherence`).",
        "- `x_low` and `x_high` are the ends of the interval of `x` at the level `confidence`; `x_sd` is its standard",
        "  deviation over replications.",
        "",
    ]
    declared = {name: getattr(cu, name.capitalize()) for name in QUESTIONS}
    for question, result in {**declared, **OTHERS}.items():
        lines += [f"## `{question}`", ""]
        for name, table in result.declared().items():
            lines += [f"### `{name}`", table.doc, "", "| field | kind | meaning |", "|---|---|---|"]
            lines += [f"| `{table.by}` | label | what the row is about |"] if table.by else []
            for column in table.columns:
                ends = "".join(f", `{own.removeprefix(column.name)}`" for own in column.names[1:])
                lines.append(f"| `{column.name}`{ends} | {column.kind} | {_cell(column.doc)} |")
            lines.append("")
    return "\n".join(lines)


def _entry(name: str, value: Any) -> list[str]:
    if inspect.ismodule(value):
        lines = [f"## `{name}`", "", *_doc(value), ""]
        for member in value.__all__:
            if callable(getattr(value, member)):
                lines += _entry(f"{name}.{member}", getattr(value, member))
        return lines
    if inspect.isclass(value):
        # The tables of a result stand in results.md alone.
        told = _doc(value)[:1] if issubclass(value, Result) else _doc(value)
        return [f"## `{name}`", "", *told, "", *_inside(value), ""]
    if callable(value):
        signature = _signature(name, value)
        return [f"## `{name}`", "", "```text", *signature, "```", "", *_doc(value), ""]
    return [f"## `{name}`", "", f"`{value!r}`", ""]


def _inside(cls: type[Any]) -> list[str]:
    """The fields of a class, then its methods and properties, with what they have from a class above; what all results
    have is told once."""
    tables = cls.declared() if issubclass(cls, Result) else {}
    told = [f"`{own.name}`: `{_type(own.type)}`" for own in _fields(cls) if own.name not in tables]
    above = [] if cls is Result or not issubclass(cls, Result) else list(Result.__mro__)
    lines = [] if above else [f"- {field}" for field in told]
    if above:
        lines = [
            f"Tables: {', '.join(f'`{table}`' for table in tables)} ([fields](results.md#{cls.__name__.lower()})).",
            "",
        ]
        lines += [f"Beside what [every result](#what-every-result-is) has: {', '.join(told)}.", ""] if told else []
    for name in dict.fromkeys(member for base in cls.__mro__ if base not in above for member in vars(base)):
        home = next(base for base in cls.__mro__ if name in vars(base))
        attribute = vars(home)[name]
        if name.startswith("_") or home in above or not home.__module__.startswith("custodes"):
            continue
        if isinstance(attribute, property):
            lines.append(f"- `{name}`: {_summary(attribute)}")
        elif callable(getattr(cls, name)):
            lines.append(f"- `{name}({_arguments(getattr(cls, name), bound=attribute)})`: {_summary(attribute)}")
    return lines


def _fields(cls: type[Any]) -> list[Any]:
    inherited = fields(Result) if issubclass(cls, Result) and cls is not Result else ()
    known = {own.name for own in inherited}
    return [own for own in fields(cls) if own.name not in known] if is_dataclass(cls) else []


def _summary(attribute: Any) -> str:
    doc = (inspect.getdoc(attribute) or "").partition("\n\n")[0]
    return " ".join(doc.split())


def _arguments(function: Any, *, bound: Any) -> str:
    """The arguments of a method as they are given, without their types."""
    shown, keyword_only = [], False
    own = list(inspect.signature(function).parameters.values())
    for parameter in own if isinstance(bound, classmethod | staticmethod) else own[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            shown.append("*")
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        shown.append(f"{prefix}{parameter.name}{default}")
    return ", ".join(shown)


def _signature(name: str, function: Any) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())
    returns = inspect.signature(function).return_annotation
    arguments, keyword_only = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
                arguments.append("*")
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        kind = "" if parameter.annotation is parameter.empty else f": {_type(parameter.annotation)}"
        arguments.append(f"{prefix}{parameter.name}{kind}{default}")
    if not arguments:
        return [f"{name}() -> {_type(returns)}"]
    return [f"{name}(", *(f"    {argument}," for argument in arguments), f") -> {_type(returns)}"]


def _default(value: Any) -> str:
    return value.__name__ if inspect.isfunction(value) else repr(value)


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", str(annotation))
    return re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text)


def _doc(value: Any) -> list[str]:
    """The docstring; names of sections in bold, parameters as a list, examples in a fenced block."""
    lines: list[str] = []
    fenced, section = False, ""
    text = inspect.getdoc(value).splitlines()
    for line, after in zip(text, [*text[1:], ""], strict=True):
        if after and set(after) == {"-"}:
            section = line
            lines += [f"**{section}**", ""]
            continue
        if line and set(line) == {"-"}:
            continue
        inside = line.startswith((">>>", "...")) or (fenced and line != "")
        if inside != fenced:
            lines.append("```pycon" if inside else "```")
            fenced = inside
        if section in ("Parameters", "Returns", "Raises") and line and not line.startswith(" "):
            name, _, kind = line.partition(" : ")
            line = f"- `{name}`: {kind}" if kind else f"- `{name}`"
        lines.append(line)
    return [*lines, "```"] if fenced else lines


def extras() -> str:
    """Every extra with what it gives."""
    lines = [
        "# Extras",
        "",
        MADE,
        "What `pip install 'custodes[EXTRA]'` adds; `custodes doctor` says which are there.",
        "",
    ]
    lines += ["| extra | gives | modules |", "|---|---|---|"]
    for name, extra in EXTRAS.items():
        lines.append(f"| `{name}` | {extra.gives} | {', '.join(f'`{module}`' for module in extra.modules)} |")
    return "\n".join([*lines, "| `all` | all of them | |", ""])


def metrics() -> str:
    """Every metric of texts."""
    lines = [
        "# Metrics of texts",
        "",
        MADE,
        "What `custodes score --metric NAME[:parameter=value,...][@rule,...]` knows; [score](../score.md) says how",
        "they are used. Of the rules the first is the default. `worker` gives what its worker says.",
        "",
        "| metric | what it is | needs | rules | better | parameters | extra | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, own in METRICS.items():
        traits = own.traits
        cells = [
            f"`{name}`",
            own.gives.removesuffix(".") + (" (scores systems)" if traits.systems else ""),
            ", ".join(traits.needs),
            ", ".join(traits.rules),
            "higher" if traits.higher_is_better else "lower",
            ", ".join(f"`{key}={value}`" for key, value in own.parameters.items()),
            f"`{own.extra}`" if own.extra else "",
            own.source,
        ]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    lines += [
        "",
        "## Workers by name",
        "",
        "`worker:NAME`; [run a worker](../howto/run-a-worker.md) says what each needs.",
    ]
    lines += ["", "| worker | what it is | source |", "|---|---|---|"]
    lines += [f"| `{own.name}` | {_cell(own.gives)} | {_cell(own.source)} |" for own in WORKERS]
    return "\n".join([*lines, ""])


def study_plan() -> str:
    """Every key of the plan of an annotation study."""
    lines = [
        "# Keys of a study plan",
        "",
        MADE,
        "The TOML file of [`annotate new --plan`](../howto/plan-a-study.md); `--write-plan` writes one with all keys.",
        "",
        "| key | default | meaning |",
        "|---|---|---|",
    ]
    for section, key, default, meaning in rows():
        name = f"[{section}] {key}" if section else key
        lines.append(f"| `{name}` | {_cell(default or '(empty)')} | {_cell(meaning)} |")
    return "\n".join([*lines, ""])


def pages() -> dict[Path, str]:
    """Path to content of every generated page."""
    made = {"cli": command_line(), "api": python(), "results": results(), "extras": extras()}
    made |= {"metrics": metrics(), "study-plan": study_plan()}
    folder = DOCS / "reference"
    return {folder / f"{name}.md": re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n" for name, text in made.items()}


PICTURE = DOCS / "images" / "partiality.svg"


def picture(path: Path = PICTURE) -> Path:
    """The picture of the README: to whom each metric of the demo is partial."""
    result = cu.favoritism(cu.read("demo"), aspect="coherence")
    return cu.plots.save(cu.plots.partiality_map(result), path)


if __name__ == "__main__":
    print(picture().relative_to(DOCS.parent))
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))
