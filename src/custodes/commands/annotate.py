"""The verbs `annotate`: a study of people's answers made, looked at, tried, served."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from custodes.commands.annotate_owner import OWNER
from custodes.commands.annotate_plan import plan_from, with_plan
from custodes.commands.annotate_serve import flushed, serve
from custodes.console import say, tell
from custodes.files import check_distinct_files, write_atomically
from custodes.options import Inputs, Output, Reading, read_by
from custodes.process import NOTHING_KEPT, Stoppable
from custodes.verbs import OUTPUT, READING, numbers
from custodes.words import SWITCH, whole

annotate = App(name="annotate")

Study = Annotated[Path, Parameter(help="The file of the study, such as study.db.")]
Number = Annotated[int | None, Parameter(converter=whole)]


def new(
    *inputs: Inputs,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="The file of the study.")] = Path("study.db"),
    plan: Annotated[Path | None, Parameter(help="TOML with all that is asked; options count more.")] = None,
    systems: Annotated[list[str] | None, Parameter(help="Only these systems.", negative="")] = None,
    pairs: Annotated[list[str] | None, Parameter(help="Only these pairs, A:B each.", negative="")] = None,
    gold: Annotated[
        Path | None, Parameter(help="Table of comparisons with known answers, which check people's work.")
    ] = None,
    metric: Annotated[
        str | None, Parameter(help="A metric among the inputs that is corrected by people, with --estimator.")
    ] = None,
    write_plan: Annotated[
        Path | None, Parameter(help="Write the plan as TOML with every key explained, and make no study.")
    ] = None,
    reading: Reading = READING,
    **options: Any,
) -> None:
    """Make a study: texts in, one file that has every text and the order of all questions, fixed before the first.

    Texts are rows of item, system, text, or item with outputs by system; with context, image, source where there are.
    References are kept for metrics and not displayed.

    Example: `custodes annotate new outputs.jsonl -o study.db --question 'Which answer is better?' --looks 10,20,40`
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


def told(place: Path, *, after: int = 0) -> None:
    """What was noted of a study, after the first so many notes."""
    for note in dict.fromkeys(notes(place)[after:]):
        tell(f"note: {note}")


def notes(place: Path) -> list[str]:
    """What was noted of a study."""
    from custodes.annotate.study_status import notes_of

    return notes_of(place)


@annotate.command
def add(
    study: Study,
    *inputs: Inputs,
    systems: Annotated[list[str] | None, Parameter(help="Only these systems.", negative="")] = None,
    pairs: Annotated[
        list[str] | None, Parameter(help="Only these pairs with a new system, A:B each.", negative="")
    ] = None,
    reading: Reading = READING,
) -> None:
    """Add systems or items to a study that nobody serves now; what was asked stays, and so do the orders.

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
    """What would fool people or the reader of a study, before anybody is asked; exit status 1 where something would.

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
        list[Path] | None, Parameter(help="TOML of another plan to compare; repeatable.", negative="")
    ] = None,
    people: Annotated[Number, Parameter(help="People at once (default: 20).")] = None,
    margins: Annotated[
        str | None, Parameter(help="By how much careful people prefer each system to the next (default: 0,0.2).")
    ] = None,
    careless: Annotated[float | None, Parameter(help="Share who answer at random (default: 0.1).")] = None,
    sided: Annotated[float | None, Parameter(help="Share who take the first shown (default: 0.1).")] = None,
    leaving: Annotated[float | None, Parameter(help="Chance to vanish after an answer (default: 0.02).")] = None,
    seconds: Annotated[float | None, Parameter(help="Median of an answer (default: 40).")] = None,
    reliability: Annotated[
        float | None, Parameter(help="Correlation of a careful impression with true quality (default: 0.8).")
    ] = None,
    repetitions: Annotated[Number, Parameter(help="Rehearsals of each plan and margin (default: 20).")] = None,
    seed: Annotated[Number, Parameter(help="Of all draws (default: 0).")] = None,
    output: Output = OUTPUT,
) -> int:
    """Ask simulated people first: answers, hours, cost, and decisions right and wrong, before anybody is paid.

    Example: `custodes annotate rehearse study.db --people 10 --margins 0,0.1,0.3`
    """
    from custodes.annotate.plan_file import read_plan
    from custodes.annotate.rehearsal import Rehearsal
    from custodes.annotate.rehearsal import rehearse as asked

    output.check([study, *(plan or ())], Rehearsal.declared())
    arguments: dict[str, Any] = {
        "plans": {path.stem: read_plan(path) for path in plan} if plan else None,
        "people": people,
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
    port: Annotated[int, Parameter(help="Port; 0: any that is free.", converter=whole)] = 0,
    folder: Annotated[Path | None, Parameter(help="DIR that keeps study.db (default: none is kept).")] = None,
    no_browser: Annotated[bool, SWITCH, Parameter(help="Only print the addresses.")] = False,
) -> None:
    """Try it: a study of short texts of our own, served on this machine and opened in the browser, until Ctrl-C.

    Example: `custodes annotate demo`
    """
    from custodes.annotate.demo import demo as shown

    shown(port=port, folder=folder, open_browser=not no_browser, tell=flushed)


annotate.command(with_plan(new), name="new")
annotate.command(serve)
for command in OWNER:
    annotate.command(command)
