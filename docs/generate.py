"""Generate the pages of docs/reference from the code. Run by `make docs`."""

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
from custodes.annotate.plan import StudyPlan
from custodes.annotate.plan_file import default_text, rows
from custodes.annotate.rehearsal import Rehearsal
from custodes.annotate.study_status import Status
from custodes.answers.result import Provenance, Result
from custodes.answers.shared_arguments import PreferenceOptions
from custodes.cli import QUESTIONS
from custodes.data.items import Items
from custodes.data.notes import Note
from custodes.data.outputs import Outputs
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.diagnosis import EXTRAS
from custodes.scoring.metrics import METRICS
from custodes.scoring.scripts import OURS as WORKERS

PARTS = {
    "Members of all results": (Result, Provenance, Note),
    "Parts of a study": (Ratings, Preferences, Raters, Items, Outputs),
}
"""Headings to classes that are reached through public objects but have no public name."""

OTHER_RESULTS = {
    "scores": cu.Scores,
    "judgements": cu.Judgements,
    "doctor": cu.Doctor,
    "study_check": StudyCheck,
    "rehearsal": Rehearsal,
    "status": Status,
}
"""Results of functions that are not questions."""

DOCS = Path(__file__).parent
HEADER = "<!-- Made by docs/generate.py; do not edit. -->\n"


def command_line() -> str:
    """Return the page of all commands with their options."""
    lines = [
        "# Command line",
        "",
        HEADER,
        "`custodes VERB INPUT... [options]`. An input is a file, a folder, `PATH::TESTSET/LP` for mt-metrics-eval",
        "data, or the word `demo`. [Data](../data.md) describes the inputs, and [results](results.md) the outputs.",
        "",
        "`custodes --version` prints the version, and `custodes VERB --help` prints the options of a command.",
        "`custodes --install-completion` installs the completion for your shell.",
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
    """Names and commands; the subcommands of a group such as `combine` instead of the group."""
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
    """Return the page of all public names with their signatures and docstrings."""
    lines = ["# Python", "", HEADER, "The names below need `import custodes as cu`.", ""]
    for name in cu.__all__:
        lines += _entry(f"cu.{name}", getattr(cu, name))
    lines += [
        "## Setting",
        "",
        "All questions accept these arguments.",
        "",
        *_doc(PreferenceOptions),
        "",
    ]
    lines += [f"- `{name}`: `{_type(kind)}`" for name, kind in PreferenceOptions.__annotations__.items()]
    for heading, parts in PARTS.items():
        lines += ["", f"## {heading}", ""]
        for part in parts:
            lines += [f"### `{part.__name__}`", "", *_doc(part), "", *_members_of(part), ""]
    return "\n".join(lines) + "\n"


def results() -> str:
    """Return the page of all tables of results with their declared fields."""
    lines = [
        "# Results: every table and field",
        "",
        HEADER,
        "This page lists the tables of every result. `--format csv` and `--format json` write them. In Python they are",
        'Polars frames: `result.metrics`, or `result.to_frame("metrics").to_pandas()`.',
        "",
        "The JSON output is one object with the keys `question`, `provenance` and `notes`, a list of rows for each",
        "table, and `seconds` (unless `--no-timing` is set).",
        "",
        "- `provenance`: `study` (the input), `digest` (of its bytes), `options`, `seed`, `versions`, and `dropped`",
        "  (notes that have a count).",
        "- `notes`: `rule`, `message`, `count`, `aspect`. Notes report data that were left out, options that were",
        "  inferred, and values that are undefined.",
        "- An undefined value is null in JSON and an empty cell in CSV, never 0. A note or the column `note` gives the",
        "  reason.",
        "- The first column is `aspect` (or `target`: an aspect or `mean:A,B`), empty if ratings have no aspects.",
        "  `complementarity` and `ceiling` use all aspects together, so the name of a rater contains the aspect",
        "  (`human:coherence`, `judge:coherence`).",
        "- `x_low` and `x_high` are the bounds of the interval of `x` at the level `confidence`. `x_sd` is the",
        "  standard deviation of `x` over replications.",
        "",
    ]
    declared = {name: getattr(cu, name.capitalize()) for name in QUESTIONS}
    for question, result in {**declared, **OTHER_RESULTS}.items():
        lines += [f"## `{question}`", ""]
        for name, table in result.table_declarations().items():
            lines += [f"### `{name}`", table.doc, "", "| field | kind | meaning |", "|---|---|---|"]
            lines += [f"| `{table.by}` | label | the aspect or target of the row |"] if table.by else []
            for column in table.columns:
                bounds = "".join(f", `{name.removeprefix(column.name)}`" for name in column.names[1:])
                lines.append(f"| `{column.name}`{bounds} | {column.kind} | {_cell(column.doc)} |")
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
        # The tables of results are described in results.md only.
        doc = _doc(value)[:1] if issubclass(value, Result) else _doc(value)
        return [f"## `{name}`", "", *doc, "", *_members_of(value), ""]
    if callable(value):
        signature = _signature(name, value)
        return [f"## `{name}`", "", "```text", *signature, "```", "", *_doc(value), ""]
    return [f"## `{name}`", "", f"`{value!r}`", ""]


def _members_of(cls: type[Any]) -> list[str]:
    """Fields, methods and properties of a class. The members that all results share are listed once, for `Result`."""
    tables = cls.table_declarations() if issubclass(cls, Result) else {}
    attributes = [f"`{field.name}`: `{_type(field.type)}`" for field in _fields(cls) if field.name not in tables]
    inherited = [] if cls is Result or not issubclass(cls, Result) else list(Result.__mro__)
    lines = [] if inherited else [f"- {attribute}" for attribute in attributes]
    if inherited:
        lines = [
            f"Tables: {', '.join(f'`{table}`' for table in tables)} ([fields](results.md#{cls.__name__.lower()})).",
            "",
        ]
        shared = "In addition to the [members of all results](#members-of-all-results): "
        lines += [f"{shared}{', '.join(attributes)}.", ""] if attributes else []
    for name in dict.fromkeys(member for base in cls.__mro__ if base not in inherited for member in vars(base)):
        home = next(base for base in cls.__mro__ if name in vars(base))
        attribute = vars(home)[name]
        if name.startswith("_") or home in inherited or not home.__module__.startswith("custodes"):
            continue
        if isinstance(attribute, property):
            lines.append(f"- `{name}`: {_summary(attribute)}")
        elif callable(getattr(cls, name)):
            lines.append(f"- `{name}({_arguments(getattr(cls, name), bound=attribute)})`: {_summary(attribute)}")
    return lines


def _fields(cls: type[Any]) -> list[Any]:
    of_results = fields(Result) if issubclass(cls, Result) and cls is not Result else ()
    names = {field.name for field in of_results}
    return [field for field in fields(cls) if field.name not in names] if is_dataclass(cls) else []


def _summary(attribute: Any) -> str:
    doc = (inspect.getdoc(attribute) or "").partition("\n\n")[0]
    return " ".join(doc.split())


def _arguments(function: Any, *, bound: Any) -> str:
    """Arguments of a method, without their types."""
    arguments, keyword_only = [], False
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters if isinstance(bound, classmethod | staticmethod) else parameters[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            arguments.append("*")
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        arguments.append(f"{prefix}{parameter.name}{default}")
    return ", ".join(arguments)


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
    """Docstring with section names in bold, parameters as a list, and examples in fenced blocks."""
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
    """Return the page of extras."""
    lines = [
        "# Extras",
        "",
        HEADER,
        "`pip install 'custodes[EXTRA]'` installs an extra. `custodes doctor` lists the installed extras.",
        "",
    ]
    lines += ["| extra | what it adds | modules |", "|---|---|---|"]
    for name, extra in EXTRAS.items():
        lines.append(f"| `{name}` | {extra.gives} | {', '.join(f'`{module}`' for module in extra.modules)} |")
    return "\n".join([*lines, "| `all` | all of them | |", ""])


def metrics() -> str:
    """Return the page of metrics of texts."""
    lines = [
        "# Metrics of texts",
        "",
        HEADER,
        "These metrics can be named in `custodes score --metric NAME[:parameter=value,...][@rule,...]`. The page",
        "[score](../score.md) explains their use. The first rule of a metric is its default. `worker` has the",
        "properties that its worker reports.",
        "",
        "| metric | what it is | needs | rules | better | parameters | extra | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, metric in METRICS.items():
        traits = metric.traits
        cells = [
            f"`{name}`",
            metric.gives.removesuffix(".") + (" (scores systems)" if traits.systems else ""),
            ", ".join(traits.needs),
            ", ".join(traits.rules),
            "higher" if traits.higher_is_better else "lower",
            ", ".join(f"`{key}={value}`" for key, value in metric.parameters.items()),
            f"`{metric.extra}`" if metric.extra else "",
            metric.source,
        ]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    lines += [
        "",
        "## Workers by name",
        "",
        "Use these workers as `worker:NAME`. [Run a worker](../howto/run-a-worker.md) lists their requirements.",
    ]
    lines += ["", "| worker | what it is | source |", "|---|---|---|"]
    lines += [f"| `{worker.name}` | {_cell(worker.gives)} | {_cell(worker.source)} |" for worker in WORKERS]
    return "\n".join([*lines, ""])


def study_plan() -> str:
    """Return the page of the keys of a study plan."""
    lines = [
        "# Keys of a study plan",
        "",
        HEADER,
        "[`annotate new --plan`](../howto/plan-a-study.md) reads a TOML file with these keys. `--write-plan` writes a",
        "file with all keys.",
        "",
        "| key | default | meaning |",
        "|---|---|---|",
    ]
    for section, key, default, meaning in rows(StudyPlan()):
        name = f"[{section}] {key}" if section else key
        lines.append(f"| `{name}` | {_cell(default_text(default) or '(empty)')} | {_cell(meaning)} |")
    return "\n".join([*lines, ""])


def pages() -> dict[Path, str]:
    """Path to content of every generated page."""
    contents = {"cli": command_line(), "api": python(), "results": results(), "extras": extras()}
    contents |= {"metrics": metrics(), "study-plan": study_plan()}
    folder = DOCS / "reference"
    return {folder / f"{name}.md": re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n" for name, text in contents.items()}


PICTURE = DOCS / "images" / "partiality.svg"


def picture(path: Path = PICTURE) -> Path:
    """Save the figure of the README: the partiality of each metric of the demo to each system."""
    result = cu.favoritism(cu.read("demo"), aspect="coherence")
    return cu.plots.save(cu.plots.partiality_map(result), path)


if __name__ == "__main__":
    print(picture().relative_to(DOCS.parent))
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))
