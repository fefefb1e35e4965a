"""Commands for the owner of an annotation study: invitations, status, stop, and export."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from custodes.command_line import SWITCH, whole
from custodes.console import put, say, tell
from custodes.errors import OptionError
from custodes.files import check_distinct_files, check_writable, is_stream, write_atomically
from custodes.options import Output
from custodes.question_commands import OUTPUT

if TYPE_CHECKING:
    from custodes.annotate.service import Service

Study = Annotated[Path, Parameter(help="Study file, such as study.db.")]
Worker = Annotated[str, Parameter(help="Label of an annotator, such as w007.")]


@contextmanager
def held(study: Path) -> Iterator[Service]:
    """Open a study. An error is raised if the study is being served."""
    from custodes.annotate.service import Service

    with Service.open(study, threaded=False) as service:
        yield service


def invite(
    study: Study,
    *,
    annotators: Annotated[int, Parameter(help="Number of links.", converter=whole)],
    url: Annotated[
        str | None,
        Parameter(
            help="Address at the beginning of the links (default: the last address of the server, or the "
            "default of `serve` before the first start)."
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
                f"{output} exists already and may hold links that cannot be created again; give another file"
            )
    from custodes.annotate.server import check_address, local_url

    if url is not None:
        check_address("--url", url)
    with held(study) as service:
        start = (url or service.address().result() or local_url()).rstrip("/")
        links = service.invite(annotators).result()
        service.set_address(start).result()
    text = "worker,link\n" + "".join(f"{worker},{start}/s/{token}\n" for worker, token in links)
    if url is None:
        tell(f"note: the links begin with {start}; serve the study at this address, or give another address with --url")
    if output is None:
        put([text.encode()])
        return
    place = write_atomically(output, text)
    if not is_stream(place):
        os.chmod(place, 0o600)
        say(str(place))


def status(study: Study, *, output: Output = OUTPUT) -> None:
    """Print the progress of a study: pairs, annotators, cost and forecast. The study may be served at the same time.

    Example: `custodes annotate status study.db --format json`
    """
    from custodes.annotate.study_status import Status
    from custodes.annotate.study_status import status as asked

    output.check([study], Status.declared())
    output.answer(lambda progress: asked(study))


def stop(
    study: Study, *, why: Annotated[str, Parameter(help="Reason, stored in the study.", show_default=False)] = ""
) -> None:
    """End a study. Each pair of systems keeps the decision of its last completed interim analysis.

    Example: `custodes annotate stop study.db --why 'the budget is spent'`
    """
    with held(study) as service:
        service.control("stop", why).result()
    say(f"{study}: stopped; `custodes annotate reopen` opens it again")


def reopen(
    study: Study, *, why: Annotated[str, Parameter(help="Reason, stored in the study.", show_default=False)] = ""
) -> None:
    """Reopen a study that was stopped.

    Example: `custodes annotate reopen study.db`
    """
    with held(study) as service:
        service.control("reopen", why).result()
    say(f"{study}: open")


def exclude(
    study: Study,
    worker: Worker,
    *,
    why: Annotated[str, Parameter(help="Reason, which is stored in the study. It must not depend on the answers.")],
) -> None:
    """Exclude an annotator. Open interim analyses collect new answers; completed interim analyses do not change.

    Example: `custodes annotate exclude study.db w007 --why 'known comparisons: 1 of 5'`
    """
    with held(study) as service:
        service.exclude(worker, why).result()
    say(f"{study}: {worker} is excluded")


def forget(study: Study, worker: Worker) -> None:
    """Erase the platform id and the free text of an annotator. The answers stay under the label of the annotator.

    Example: `custodes annotate forget study.db w007`
    """
    with held(study) as service:
        service.forget(worker).result()
    say(f"{study}: the study no longer contains the name of {worker}; earlier copies of the study still contain it")


def reconcile(
    study: Study,
    codes: Annotated[Path, Parameter(help="The platform's list of annotators and completion codes (.csv).")],
    *,
    output: Output = OUTPUT,
) -> int:
    """Compare a platform's list of completion codes with a study, to see whom to pay and which codes are wrong.

    The exit status is 1 if a code belongs to another annotator, or if an annotator is missing. The study may be served
    at the same time.

    Example: `custodes annotate reconcile study.db codes.csv -o checked.csv`
    """
    from custodes.annotate.completion_codes import Reconciled
    from custodes.annotate.completion_codes import reconcile as asked

    output.check([study, codes], Reconciled.declared())
    return output.answer(lambda progress: asked(study, codes))


def backup(
    study: Study, *, output: Annotated[Path, Parameter(name=["--output", "-o"], help="File for the copy.")]
) -> None:
    """Copy a study, also while the study is served. The copy can be served.

    The command overwrites an earlier copy of the same study, but no other file.

    Example: `custodes annotate backup study.db -o copy.db`
    """
    from custodes.annotate import study_file

    check_distinct_files([output], [study])
    say(str(study_file.copy(study_file.check(study), check_writable(output))))


def export(
    study: Study,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder for the tables.")],
    external_ids: Annotated[
        bool, SWITCH, Parameter(help="Include the platform ids of the annotators, which identify them.")
    ] = False,
) -> None:
    """Write all data of a study as tables, also while the study is served. Every verb reads the table battles.csv.

    Example: `custodes annotate export study.db -o export/`
    """
    from custodes.annotate.export_study import export as written

    say(str(written(study, output, external_ids=external_ids)))


OWNER = (invite, status, stop, reopen, exclude, forget, reconcile, backup, export)
"""Commands in the order of their use in a study."""
