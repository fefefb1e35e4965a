"""The command `annotate`: create, check, simulate and serve annotation studies."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from custodes.command_line import HOW, SWITCH, whole
from custodes.commands.annotate_owner import OWNER
from custodes.commands.annotate_plan import plan_from, with_plan
from custodes.commands.annotate_serve import flushed, serve
from custodes.console import say, tell
from custodes.files import check_distinct_files, write_atomically
from custodes.options import Inputs, Output, Reading, read_by
from custodes.process import NOTHING_KEPT, Stoppable
from custodes.question_commands import OUTPUT, READING, numbers

annotate = App(name="annotate", group_parameters=HOW["group_parameters"])

Study = Annotated[Path, Parameter(help="Study file, such as study.db.")]
Number = Annotated[int | None, Parameter(converter=whole)]


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
        str | None, Parameter(help="Metric in the input data; --estimator combines its ratings with the human answers.")
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
    reading: Reading = READING,
    **options: Any,
) -> None:
    """Create an annotation study from texts. The study file holds all texts and the order of all questions.

    Texts are rows with item, system and text, or rows with an item and the outputs of all systems. Context, image and
    source are optional. References are stored for metrics and are not displayed.


    Example: `custodes annotate new outputs.jsonl -o study.db --question 'Which answer is better?' --serve 4`
    """
    from custodes.annotate.new_study import new as made
    from custodes.annotate.plan_file import to_toml

    study_plan = plan_from(plan, options)
    if write_plan is not None:
        check_distinct_files([write_plan], read_by(inputs, plan, sidecars=False))
        say(str(write_atomically(write_plan, to_toml(study_plan))))
        return
    check_distinct_files([output], read_by(inputs, plan, gold, *reading.files, sidecars=False))
    options_of_new: dict[str, Any] = {
        "plan": study_plan,
        "systems": systems,
        "pairs": pairs,
        "gold": gold,
        "metric": metric,
    }
    place = made(reading.study(inputs), output, **options_of_new)
    told(place)
    say(str(place))
    if serve_for is not None:
        from custodes.annotate.server import usual_port

        serve(place, annotators=serve_for, port=usual_port())
    else:
        tell(f"next: custodes annotate check {place}, then custodes annotate serve {place} --annotators 10")


def told(place: Path, *, after: int = 0) -> None:
    """Print the notes on a study, except the first `after` notes."""
    for note in dict.fromkeys(notes(place)[after:]):
        tell(f"note: {note}")


def notes(place: Path) -> list[str]:
    """Return the notes on a study."""
    from custodes.annotate.study_status import notes_of

    return notes_of(place)


@annotate.command
def add(
    study: Study,
    *inputs: Inputs,
    systems: Annotated[list[str] | None, Parameter(help="Systems (default: all).", negative="")] = None,
    pairs: Annotated[
        list[str] | None, Parameter(help="Pairs with a new system, each A:B (default: all).", negative="")
    ] = None,
    reading: Reading = READING,
) -> None:
    """Add systems or items to a study that is not being served. Existing answers and orders do not change.

    Example: `custodes annotate add study.db outputs2.jsonl`
    """
    from custodes.annotate.add_to_study import add as added

    check_distinct_files([study], read_by(inputs, *reading.files, sidecars=False))
    before = len(notes(study))
    place = added(study, reading.study(inputs), systems=systems, pairs=pairs)
    told(place, after=before)
    say(str(place))


@annotate.command
def check(study: Study, *, output: Output = OUTPUT) -> int:
    """Report problems of an annotation study before it starts. The exit status is 1 if there are problems.

    Example: `custodes annotate check study.db`
    """
    from custodes.annotate.check_study import StudyCheck
    from custodes.annotate.check_study import check as asked

    output.check([study], StudyCheck.declared())
    return output.answer(lambda progress: asked(study))


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
        Parameter(help="Margins by which careful annotators prefer each system to the next one (default: 0,0.2)."),
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
        Number, Parameter(help="Number of simulations of each plan and margin (default: 20).")
    ] = None,
    seed: Annotated[Number, Parameter(help="Random seed (default: 0).")] = None,
    output: Output = OUTPUT,
) -> int:
    """Simulate an annotation study to estimate answers, hours, cost, and correct and wrong decisions.

    Example: `custodes annotate rehearse study.db --annotators 10 --margins 0,0.1,0.3`
    """
    from custodes.annotate.plan_file import read_plan
    from custodes.annotate.rehearsal import Rehearsal
    from custodes.annotate.rehearsal import rehearse as asked

    output.check([study, *(plan or ())], Rehearsal.declared())
    arguments: dict[str, Any] = {
        "plans": {path.stem: read_plan(path) for path in plan} if plan else None,
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
    options = {name: value for name, value in arguments.items() if value is not None}
    with Stoppable(NOTHING_KEPT):
        return output.answer(partial(asked, study, **options), "rehearse")


@annotate.command
def demo(
    *,
    port: Annotated[int, Parameter(help="Port, or 0 for any free port.", converter=whole)] = 0,
    folder: Annotated[Path | None, Parameter(help="Folder for study.db (default: a temporary folder).")] = None,
    no_browser: Annotated[bool, SWITCH, Parameter(help="Print the addresses, and do not open a browser.")] = False,
) -> None:
    """Serve a small example study on this machine until Ctrl-C, and open the study in the browser.

    Example: `custodes annotate demo`
    """
    from custodes.annotate.demo import demo as shown

    shown(port=port, folder=folder, open_browser=not no_browser, tell=flushed)


annotate.command(with_plan(new), name="new")
annotate.command(serve)
for command in OWNER:
    annotate.command(command)
