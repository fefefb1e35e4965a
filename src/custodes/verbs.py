"""Questions as verbs of the command line: every argument of a question is an option, declared where the question is."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from cyclopts import Parameter
from numpy.typing import ArrayLike

from custodes.answers.effort import effort
from custodes.answers.question import UNRECORDED, Option, options_of
from custodes.answers.result import Result
from custodes.answers.setting import HELP
from custodes.arguments import members, value_list
from custodes.console import quiet_pipe, say
from custodes.data.loading import small_file
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed, shown
from custodes.files import is_stream
from custodes.options import Inputs, Output, Reading, Telling, read_by
from custodes.words import SWITCH, is_whole, whole

READING, OUTPUT = Reading(), Output()

DryRun = Annotated[bool, SWITCH, Parameter(help="Print the estimated run time and memory, then exit.")]
"""An estimate instead of an answer."""

KEYWORD = inspect.Parameter.KEYWORD_ONLY

STOPPING = "stopping"
"""The argument whose parts are options; what it is made of is loaded by the questions that have it alone."""


def verb(asked: Any, output: Telling = OUTPUT, *, first: str = "") -> Callable[..., int]:
    """The command that asks a question of some inputs and writes its answer; `first` names the option that is a word
    before the inputs, if any."""
    about, *_ = inspect.signature(asked).parameters.values()
    result: type[Result] = get_type_hints(asked)["return"]

    def command(
        *inputs: Inputs, dry_run: DryRun = False, reading: Reading = READING, output: Any = output, **options: Any
    ) -> int:
        about_option = options.get(about.name) or ()
        output.check(read_by([*inputs, *about_option], *reading.files, *options.values()), result.declared())
        if first:
            options[first], *inputs = inputs  # type: ignore[assignment]
        if inputs and about.default is None:
            raise OptionError(f"{asked.__name__}: {listed(inputs)}: a study to start from is --{about.name} FILE")
        sources = inputs or options.pop(about.name, None)
        if not sources and about.default is None:
            reading.refuse(about.name)
        arguments = arguments_of(asked, options)
        with output.progress(reading_of(sources)):
            study = reading.about(sources or ()) if sources or about.default is about.empty else None
        if dry_run:
            tell_effort(asked, study, arguments)
            return 0
        answer, seconds = answered(asked, study, output, arguments)
        with quiet_pipe():
            output.write(answer, seconds)
        return int(answer.status)

    text = " ".join((inspect.getdoc(asked) or "").partition("\n\n")[0].split())
    command.__name__, command.__doc__ = asked.__name__, f"{text}\n\nExample: `{asked.example}`"
    made = with_options(command, asked)
    if about.default is None:  # it may be asked about nothing, so the study is an option
        own = inspect.signature(made)
        note = Parameter(help="A study to start from; repeatable.", negative="")
        words, *rest = own.parameters.values()
        start = inspect.Parameter(about.name, KEYWORD, default=None, annotation=Annotated[list[str] | None, note])
        made.__annotations__[words.name] = Annotated[str, Parameter(show=False)]  # which it refuses in its own words
        made.__signature__ = own.replace(parameters=[words, start, *rest])  # type: ignore[attr-defined]
    if first:
        own = inspect.signature(made)
        word = own.parameters[first]
        note = Parameter(help=next(option.help for option in options_of(asked) if option.name == first))
        word = inspect.Parameter(first, word.POSITIONAL_ONLY, annotation=Annotated[str, note])
        rest = [other for other in own.parameters.values() if other.name != first]
        made.__signature__ = own.replace(parameters=[word, *rest])  # type: ignore[attr-defined]
    return made


def reading_of(sources: Sequence[str] | None) -> str:
    """What is said while inputs are read."""
    return f"reading {listed(sources, limit=2)}" if sources else ""


def tell_effort(asked: Any, study: Any, arguments: dict[str, Any]) -> None:
    """Print the estimated time and memory of a question."""
    defaults = {option.name: option.default for option in options_of(asked)}
    with quiet_pipe():
        say(str(effort(asked.__name__, study, defaults | arguments)))


def answered(
    asked: Any, study: Study | None, output: Telling, arguments: dict[str, Any], *, lines: bool = False
) -> tuple[Any, float]:
    """The answer to a question, and the seconds that it took; `lines`: progress also where there is no terminal."""
    start = time.perf_counter()
    with output.progress(getattr(asked, "__name__", "").strip("<>"), lines=lines) as progress:
        made = asked(study, progress=progress, **arguments)
    return made, time.perf_counter() - start


def written(place: Path) -> None:
    """Say where a table was written, but not in what it was written to."""
    if not is_stream(place):
        say(str(place))


def with_options(command: Callable[..., Any], asked: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the arguments of a function as its options; a default that is a group of options is its type."""
    hints = get_type_hints(command, include_extras=True)
    first, *own = (
        p.replace(annotation=type(p.default) if isinstance(p.default, Reading | Telling) else hints[p.name])
        for p in inspect.signature(command).parameters.values()
        if p.kind is not p.VAR_KEYWORD
    )
    made = inspect.Signature([first, *_parameters(options_of(asked)), *own])
    command.__signature__ = made  # type: ignore[attr-defined]
    return command


def _parameters(options: Sequence[Option]) -> Iterator[inspect.Parameter]:
    for option in options:
        if option.name == STOPPING:
            from custodes.evaluate.protocol.stopping import Stopping

            hints = get_type_hints(Stopping)
            for name in hints:
                own = option.default if isinstance(option.default, Stopping) else Stopping()
                yield _parameter(Option(name, hints[name], getattr(own, name), HELP[name]))
        elif option.name not in UNRECORDED or option.name == "rng":
            yield _parameter(option)


def _parameter(option: Option) -> inspect.Parameter:
    name, kind = "seed" if option.name == "rng" else option.name, _flag(option)
    said = option.default is None or option.default is False or "default" in option.help
    text = option.help if said else f"{option.help.removesuffix('.')} (default: {_shown(option.default)})."
    if kind is bool:
        note = Parameter(help=text, negative="", show_default=False)
        return inspect.Parameter(name, KEYWORD, default=False, annotation=Annotated[bool, note])
    more: dict[str, Any] = {"converter": whole} if kind is int else {"negative": ""} if kind == list[str] else {}
    return inspect.Parameter(
        name, KEYWORD, default=None, annotation=Annotated[kind | None, Parameter(help=text, **more)]
    )


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _flag(option: Option) -> Any:
    """The type of an option on the command line: a word that is read later, unless it is one simple thing."""
    simple = {"rng": int, "batch": str, "budget": str, "stop": list[str]}
    own = [member for member in members(option.kind) if member is not type(None)]
    if option.name in simple:
        return simple[option.name]
    if len(own) == 1 and (own[0] in (bool, int, float, str) or get_origin(own[0]) is Literal):
        return own[0]
    return list[str] if any(member in (Sequence[str], tuple[str, ...]) for member in own) else str


def arguments_of(asked: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a question from the options that were given."""
    made = {name: value for name, value in given.items() if value is not None}
    options = {option.name: option for option in options_of(asked)}
    if "seed" in made:
        made["rng"] = made.pop("seed")
    for name, value in made.items():
        if name in options:
            made[name] = _read(name, options[name].kind, value)
    return made | (_stoppings(made) if STOPPING in options else {})


def _stoppings(made: dict[str, Any]) -> dict[str, Any]:
    """The argument `stopping`, of options that are taken out of those given: one rule for every combination of the
    batches, budgets and rules that were named; nothing where none was."""
    from custodes.evaluate.protocol.stopping import USUAL, Stopping, idle

    hints = get_type_hints(Stopping)
    given = {name: made.pop(name) for name in hints if name in made}
    if not given:
        return {}
    lists: dict[str, list[Any]] = {
        name: wholes(f"--{name}", given.pop(name)) for name in ("batch", "budget") if name in given
    }
    lists |= {"stop": value_list("--stop", given.pop("stop"))} if "stop" in given else {}
    read = {name: _read(name, hints[name], value) for name, value in given.items()}
    ways: list[dict[str, Any]] = [dict(zip(lists, own, strict=True)) for own in product(*lists.values())]
    unused = [set(idle(way.get("stop", USUAL.stop), read.get("looks"))) for way in ways]
    never = set.intersection(*unused)  # refused; what some of the rules take is not given to the others
    rules = [
        Stopping(**{name: value for name, value in (read | way).items() if name not in own - never})
        for way, own in zip(ways, unused, strict=True)
    ]
    return {STOPPING: rules}


def _read(name: str, kind: Any, value: Any) -> Any:
    """A value of a type that a word on the command line stands for."""
    kinds = [member for member in members(kind) if member is not type(None)]
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, list):
        return value[0] if len(value) == 1 and str in kinds else value
    if not isinstance(value, str):
        return value
    if members(ArrayLike)[0] in kinds:
        return channel_table(value)
    if Sequence[float] in kinds:
        return numbers(option, value)
    if Sequence[int] in kinds or tuple[int, ...] in kinds:
        return tuple(wholes(option, value))
    if float in kinds:
        try:
            return float(value)
        except ValueError:
            return value  # a word, which the question knows or refuses
    return value


def numbers(option: str, text: str) -> list[float]:
    """A comma list of numbers."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"{option} {text!r}: a comma list of numbers, such as 0,0.1,0.3") from None


def wholes(option: str, text: str) -> list[int]:
    """A comma list of whole numbers."""
    parts = [part.strip() for part in text.split(",")]
    if not all(map(is_whole, parts)):
        raise OptionError(f"{option} {shown(text)}: a comma list of whole numbers, such as 10,20,40")
    return [int(part) for part in parts]


def channel_table(text: str) -> list[list[float]] | str:
    """A 3x3 table [human, metric] from a .csv of three lines, or the word `ideal`."""
    if text == "ideal":
        return text
    try:
        lines = small_file(Path(text), "a channel").decode("utf-8").splitlines()
        return [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
    except OSError:
        raise InputError(f"--channel {text}: no such file; give a .csv of 3x3 numbers, or the word ideal") from None
    except ValueError:
        raise InputError(
            f"{text}: three lines of three numbers are needed: a line each for people's win, tie and loss, in it how"
            " often the metric says win, tie, loss; no header"
        ) from None
