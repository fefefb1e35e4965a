"""The command `annotate`: create, check, simulate, serve, monitor and export annotation studies."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from cyclopts import App, Parameter

from custodes.annotate.plan import KEYS, StudyPlan
from custodes.annotate.plan_file import change_plan, default_text, plan_of, read_plan, rows, to_toml
from custodes.arguments import members, value_list
from custodes.command_line import HOW, SWITCH, parse_whole_number
from custodes.commands.annotate_serve import print_and_flush, serve
from custodes.console import print_diagnostic, print_line, write_stdout
from custodes.errors import OptionError, short_repr
from custodes.files import check_distinct_files, check_writable, is_stream, write_atomically
from custodes.options import InputOptions, Inputs, Output, input_files
from custodes.process import NOTHING_KEPT, Stoppable
from custodes.question_commands import OUTPUT, READING, numbers, with_parameters

if TYPE_CHECKING:
    from custodes.annotate.service import Service

annotate = App(name="annotate", group_parameters=HOW["group_parameters"])

Study = Annotated[Path, Parameter(help="Study file, such as study.db.")]
Worker = Annotated[str, Parameter(help="Label of an annotator, such as w007.")]
Number = Annotated[int | None, Parameter(converter=parse_whole_number)]

NAMES = {("question", "text"): "question", ("question", "aspects"): "aspects"}
"""Options whose names differ from the names of their keys in the plan file."""
SINGLE = {"aspects": "aspect"}
"""Alternative names of repeatable options, in the singular."""
IN_A_FILE = {("annotators", "codes")}
"""Keys that only a plan file can set, because a table cannot be given on the command line."""


def new(
    *inputs: Inputs,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Study file.")] = Path("study.db"),
    plan: Annotated[Path | None, Parameter(help="Plan file (.toml); options override its keys.")] = None,
    systems: Annotated[list[str] | None, Parameter(help="Systems (default: all).", negative="")] = None,
    pairs: Annotated[
        list[str] | None, Parameter(help="Pairs of systems, each A:B (default: all).", negative="")
    ] = None,
    gold: Annotated[
        Path | None, Parameter(help="Table of comparisons with known answers, to test the annotators.")
    ] = None,
    metric: Annotated[
        str | None,
        Parameter(
            help="Metric in the input data, whose ratings are combined with the human answers by "
            "the method of --estimator."
        ),
    ] = None,
    serve_for: Annotated[
        Number,
        Parameter(
            name="--serve",
            help="Serve the study immediately on this machine, like annotate serve, with links for this "
            "number of annotators.",
        ),
    ] = None,
    write_plan: Annotated[Path | None, Parameter(help="Write the plan as a commented .toml file, then exit.")] = None,
    reading: InputOptions = READING,
    **options: Any,
) -> None:
    """Create an annotation study from texts. The study file contains all texts, and all questions in their order.

    Texts are rows with item, system and text, or rows with an item and the outputs of all systems. Context, image and
    source are optional. References are stored for metrics and are not displayed.


    Example: `custodes annotate new outputs.jsonl -o study.db --question 'Which answer is better?' --serve 4`
    """
    from custodes.annotate.new_study import new as create_study
    from custodes.annotate.study_status import notes_of

    study_plan = build_plan(plan, options)
    if write_plan is not None:
        check_distinct_files([write_plan], input_files(inputs, plan, sidecars=False))
        print_line(str(write_atomically(write_plan, to_toml(study_plan))))
        return
    check_distinct_files([output], input_files(inputs, plan, gold, *reading.files, sidecars=False))
    study_path = create_study(
        reading.study(inputs), output, plan=study_plan, systems=systems, pairs=pairs, gold=gold, metric=metric
    )
    for note in dict.fromkeys(notes_of(study_path)):
        print_diagnostic(f"note: {note}")
    print_line(str(study_path))
    if serve_for is not None:
        serve(study_path, annotators=serve_for)
    else:
        print_diagnostic(
            f"next: custodes annotate check {study_path}, then custodes annotate serve {study_path} --annotators 10"
        )


@annotate.command
def check(study: Study, *, output: Output = OUTPUT) -> int:
    """Report problems of an annotation study before it starts. The exit status is 1 if there are problems.

    Example: `custodes annotate check study.db`
    """
    from custodes.annotate.check_study import StudyCheck
    from custodes.annotate.check_study import check as check_study

    output.check([study], StudyCheck.table_declarations())
    return output.answer(lambda progress: check_study(study))


@annotate.command
def rehearse(
    study: Study,
    *,
    plan: Annotated[
        list[Path] | None, Parameter(help="Another plan file (.toml) to compare; repeatable.", negative="")
    ] = None,
    annotators: Annotated[
        Number, Parameter(help="Number of annotators who answer at the same time (default: 20).")
    ] = None,
    margins: Annotated[
        str | None,
        Parameter(
            help=(
                "Margins by which careful annotators prefer each system to the next worse system. A margin is the "
                "proportion of wins minus the proportion of losses. Each margin is simulated separately (default: "
                "0,0.2)."
            )
        ),
    ] = None,
    careless: Annotated[
        float | None, Parameter(help="Proportion of annotators who answer at random (default: 0.1).")
    ] = None,
    sided: Annotated[
        float | None, Parameter(help="Proportion of annotators who always choose the first output (default: 0.1).")
    ] = None,
    leaving: Annotated[
        float | None, Parameter(help="Probability that an annotator leaves after an answer (default: 0.02).")
    ] = None,
    seconds: Annotated[float | None, Parameter(help="Median time of an answer in seconds (default: 40).")] = None,
    reliability: Annotated[
        float | None,
        Parameter(help="Correlation of a careful annotator's impression with the true quality (default: 0.8)."),
    ] = None,
    repetitions: Annotated[
        Number, Parameter(help="Number of simulations for each combination of plan and margin (default: 20).")
    ] = None,
    seed: Annotated[Number, Parameter(help="Random seed (default: 0).")] = None,
    output: Output = OUTPUT,
) -> int:
    """Simulate an annotation study to estimate answers, hours, cost, and the rates of correct and wrong decisions.

    Example: `custodes annotate rehearse study.db --annotators 10 --margins 0,0.1,0.3`
    """
    from custodes.annotate.rehearsal import Rehearsal
    from custodes.annotate.rehearsal import rehearse as simulate_study

    output.check([study, *(plan or ())], Rehearsal.table_declarations())
    value_of_argument: dict[str, Any] = {
        "plans": {plan_path.stem: read_plan(plan_path) for plan_path in plan} if plan else None,
        "annotators": annotators,
        "margins": None if margins is None else numbers("--margins", margins),
        "careless": careless,
        "sided": sided,
        "leaving": leaving,
        "seconds": seconds,
        "reliability": reliability,
        "repetitions": repetitions,
        "rng": seed,
    }
    given_arguments = {
        argument_name: argument_value
        for argument_name, argument_value in value_of_argument.items()
        if argument_value is not None
    }
    with Stoppable(NOTHING_KEPT):
        return output.answer(partial(simulate_study, study, **given_arguments), "rehearse")


@annotate.command
def demo(
    *,
    port: Annotated[int, Parameter(help="Port, or 0 for any free port.", converter=parse_whole_number)] = 0,
    folder: Annotated[Path | None, Parameter(help="Folder for study.db (default: a temporary folder).")] = None,
    no_browser: Annotated[bool, SWITCH, Parameter(help="Print the addresses, and do not open a browser.")] = False,
) -> None:
    """Serve a small example study on this machine until Ctrl-C, and open the study in the browser.

    Example: `custodes annotate demo`
    """
    from custodes.annotate.demo import demo as serve_demo

    serve_demo(port=port, folder=folder, open_browser=not no_browser, tell=print_and_flush)


# Commands for the owner of a study, in the order of their use.


def open_study_service(study: Path) -> Service:
    """Open a study. An error is raised if the study is being served."""
    from custodes.annotate.service import Service

    return Service.open(study, threaded=False)


def change_study(study: Path, change: Callable[[Service], Future[Any]], new_state_text: str) -> None:
    """Change a study that is not being served, and print its new state."""
    with open_study_service(study) as service:
        change(service).result()
    print_line(f"{study}: {new_state_text}")


@annotate.command
def invite(
    study: Study,
    *,
    annotators: Annotated[int, Parameter(help="Number of links.", converter=parse_whole_number)],
    url: Annotated[
        str | None,
        Parameter(
            help="Address at which the study will be served, for the beginning of the links (default: the default "
            "address of `serve`)."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            help="File (.csv) for the links, which must be kept secret (default: the links are printed).",
        ),
    ] = None,
) -> None:
    """Create one access link per annotator. Links are secret and shown once; the study file holds only hashes of links.

    While a study is being served, create links on the owner's page.

    Example: `custodes annotate invite study.db --annotators 10 -o links.csv`
    """
    if output is not None:
        check_distinct_files([output], [study])
        if check_writable(output).exists() and not is_stream(output):
            raise OptionError(
                f"{output} exists already and may contain links, which cannot be shown again; give another file"
            )
    from custodes.annotate.server import check_address, local_url

    if url is not None:
        check_address("--url", url)
    base_url = (url or local_url()).rstrip("/")
    with open_study_service(study) as service:
        labels_and_tokens = service.invite(annotators).result()
    links_csv = "worker,link\n" + "".join(
        f"{annotator_label},{base_url}/s/{token}\n" for annotator_label, token in labels_and_tokens
    )
    if url is None:
        print_diagnostic(
            f"note: the links work only if the study is served at {base_url}; to use another address, give it with "
            "--url"
        )
    if output is None:
        write_stdout([links_csv.encode()])
        return
    links_path = write_atomically(output, links_csv)
    if not is_stream(links_path):
        os.chmod(links_path, 0o600)
        print_line(str(links_path))


@annotate.command
def status(study: Study, *, output: Output = OUTPUT) -> None:
    """Print the progress of a study: pairs, annotators, cost and forecast. The study may be served at the same time.

    Example: `custodes annotate status study.db --format json`
    """
    from custodes.annotate.study_status import Status
    from custodes.annotate.study_status import status as study_status

    output.check([study], Status.table_declarations())
    output.answer(lambda progress: study_status(study))


@annotate.command
def stop(
    study: Study, *, why: Annotated[str, Parameter(help="Reason, stored in the study.", show_default=False)] = ""
) -> None:
    """End a study. Each pair of systems keeps the decision of its last completed interim analysis.

    Example: `custodes annotate stop study.db --why 'the budget is spent'`
    """
    change_study(
        study,
        lambda service: service.control("stop", why),
        "stopped; `custodes annotate reopen` opens the study again",
    )


@annotate.command
def reopen(
    study: Study, *, why: Annotated[str, Parameter(help="Reason, stored in the study.", show_default=False)] = ""
) -> None:
    """Reopen a study that was stopped.

    Example: `custodes annotate reopen study.db`
    """
    change_study(study, lambda service: service.control("reopen", why), "open")


@annotate.command
def exclude(
    study: Study,
    worker: Worker,
    *,
    why: Annotated[str, Parameter(help="Reason, which is stored in the study. It must not depend on the answers.")],
) -> None:
    """Exclude an annotator. In incomplete interim analyses, new answers replace the answers of the annotator. Completed
    analyses do not change.

    Example: `custodes annotate exclude study.db w007 --why 'known comparisons: 1 of 5'`
    """
    change_study(study, lambda service: service.exclude(worker, why), f"{worker} is excluded")


@annotate.command
def forget(study: Study, worker: Worker) -> None:
    """Erase the platform id and the free text of an annotator. The answers stay under the label of the annotator.

    Example: `custodes annotate forget study.db w007`
    """
    change_study(
        study,
        lambda service: service.forget(worker),
        f"the platform id and the free text of {worker} are erased; earlier copies of the study keep them",
    )


@annotate.command
def backup(
    study: Study, *, output: Annotated[Path, Parameter(name=["--output", "-o"], help="File for the copy.")]
) -> None:
    """Copy a study, even while the study is served. The copy can be served.

    The command overwrites an earlier copy of the same study, but no other file.

    Example: `custodes annotate backup study.db -o copy.db`
    """
    from custodes.annotate import study_file

    check_distinct_files([output], [study])
    print_line(str(study_file.copy(study_file.check(study), check_writable(output))))


@annotate.command
def export(
    study: Study,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="New folder for the tables.")],
) -> None:
    """Write all data of a study as tables, even while the study is served. Every verb reads the table battles.csv.

    Example: `custodes annotate export study.db -o export/`
    """
    from custodes.annotate.export_study import export as export_study

    print_line(str(export_study(study, output)))


# Options for the keys of a plan, derived from the declaration of the plan.


def build_plan(path: Path | None, options: dict[str, Any]) -> StudyPlan:
    """The plan of a file, or the default plan. Options of the command line replace the values of the plan."""
    study_plan = StudyPlan() if path is None else read_plan(path)
    changes_of_section: dict[str, dict[str, Any]] = {}
    for section, section_keys in KEYS.items():
        type_of_key = get_type_hints(type(getattr(study_plan, section) if section else study_plan))
        for key in section_keys:
            option_value = options.get(_name(section, key))
            if option_value is not None:
                changes_of_section.setdefault(section, {})[key] = _value(
                    _name(section, key), type_of_key[key], option_value
                )
    if "texts" in changes_of_section:  # @FILE is relative to the current folder
        plan_texts = plan_of({"texts": changes_of_section["texts"]}, where="options", folder=Path()).texts
        changes_of_section["texts"] = {key: getattr(plan_texts, key) for key in changes_of_section["texts"]}
    return change_plan(study_plan, changes_of_section)


def _name(section: str, key: str) -> str:
    return NAMES.get((section, key), key)


def _option(section: str, key: str, default: str, help_text: str) -> inspect.Parameter:
    option_name = _name(section, key)
    default_text = f" (default: {default})" if default and default != '""' else ""
    help_text = f"{help_text[0].upper()}{help_text[1:]}{default_text}."
    annotated_type: Any = str | None
    cli_parameter = Parameter(help=help_text)
    if option_name in SINGLE:
        annotated_type = list[str] | None
        cli_parameter = Parameter(name=[f"--{option_name}", f"--{SINGLE[option_name]}"], help=help_text, negative="")
    return inspect.Parameter(
        option_name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotated_type, cli_parameter]
    )


def _value(option_name: str, value_type: Any, text_or_texts: Any) -> Any:
    """A text of the command line converted to a value of a plan; several texts are converted to a list."""
    is_list = get_origin(value_type) is tuple
    entry_texts = value_list(option_name, text_or_texts, allow_descriptions=option_name in SINGLE) if is_list else []
    try:
        if float in members(value_type):
            with suppress(ValueError):
                return float(text_or_texts)
        return msgspec.convert((entry_texts or [""]) if is_list else text_or_texts, value_type, strict=False)
    except (msgspec.ValidationError, ValueError):
        raise OptionError(
            f"--{option_name.replace('_', '-')} {short_repr(text_or_texts)} is not allowed; give "
            f"{_expected_type(value_type)}"
        ) from None


def _expected_type(value_type: Any) -> str:
    if get_origin(value_type) is tuple:
        return "a comma list, such as 10,20,40" if get_args(value_type)[0] is int else "a comma list"
    literal_values = [literal for member_type in members(value_type) for literal in get_args(member_type)]
    if literal_values:
        return " or ".join(map(str, literal_values))
    text_of_type = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return " or ".join(text_of_type[member_type] for member_type in members(value_type) if member_type in text_of_type)


plan_options = [
    _option(section, key, default_text(default), help_text)
    for section, key, default, help_text in rows(StudyPlan())
    if (section, key) not in IN_A_FILE
]
annotate.command(with_parameters(new, plan_options), name="new")
annotate.command(serve)
