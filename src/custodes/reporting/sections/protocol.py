"""Section: number of annotations that are needed for the same decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from custodes.data.interim_analyses import sequential_notes
from custodes.errors import InputError
from custodes.evaluate.protocol.protocol import Protocol, protocol
from custodes.evaluate.protocol.stopping import Stopping
from custodes.plots.protocol import MEASURES, curve, line_names
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import table_html

STOPPING = Stopping(looks=(10, 20, 40), boundary="pocock")

FEWEST = 20
"""Minimum number of annotations per pair, on average. With fewer annotations, early stopping saves nothing."""

CAPTIONS = {
    "correct": "Each point is the mean over replications at one interim analysis. An undecided pair counts "
    "as a decision for no difference.",
    "kld": "Kullback–Leibler divergence (KLD) between the proportions of wins, ties and losses on the "
    "annotations so far and on all annotations.",
}


def check_not_stopped(context: Context) -> None:
    """Raise an error if the number of answers depended on earlier answers, because a replay needs a fixed number."""
    if sequential_notes(context.study.looks):
        raise InputError(
            "in this study the number of answers depended on earlier answers, but a replay or a plan needs a "
            "fixed number of answers; the section Annotators shows the interim analyses."
        )


def _ask(context: Context) -> Protocol:
    check_not_stopped(context)
    result: Protocol = context.ask(protocol, metrics="none", stopping=STOPPING, null=True)
    max_annotations_per_pair = max(
        (reference_row["annotations"] / reference_row["pairs"] for reference_row in result.reference.to_dicts()),
        default=0.0,
    )
    if max_annotations_per_pair < FEWEST:
        raise InputError(
            f"a pair of systems has {max_annotations_per_pair:.0f} human annotations on average, and a replay with "
            f"interim analyses after {', '.join(map(str, STOPPING.looks or ()))} needs at least {FEWEST}."
        )
    return result


def _figures(context: Context) -> Sequence[Figure]:
    line_labels = line_names(context.table("protocol.curve"))
    return [
        Figure(
            id=f"protocol-{measure}",
            title=MEASURES[measure],
            caption=caption,
            alt=f"Line of {MEASURES[measure]} against the number of annotations; the table below holds the last value.",
            spec=spec_of(curve(empty_rows(), measure, line_labels=line_labels), width="container"),
            table="protocol.curve",
            where={"aspect": "{aspect}"},
        )
        for measure, caption in CAPTIONS.items()
    ]


def _build(context: Context) -> Mapping[str, object]:
    """The values of the template, with a table of the decisions that the replayed protocol makes with human ratings."""
    protocol_rows = context.table("protocol.protocol").join(
        context.table("protocol.reference"), on="aspect", how="left", maintain_order="left"
    )
    self_agreement_column = context.table_declaration("protocol.reference").column("self_agreement")
    protocol_columns = [
        column
        for column in context.table_declaration("protocol.protocol").columns
        if column.name not in ("metric", "estimator")
    ]
    insertion_index = [column.name for column in protocol_columns].index("correct") + 1
    return {
        "replications": context.results["protocol"].provenance.options["replications"],
        "looks": STOPPING.looks,
        "table": table_html(
            protocol_rows,
            [*protocol_columns[:insertion_index], self_agreement_column, *protocol_columns[insertion_index:]],
            id="protocol-table",
            caption="Results of the protocol",
            notes=context.notes("protocol"),
        ),
    }


PROTOCOL = Section(
    question="protocol",
    title="Annotation protocol",
    ask=_ask,
    figures=_figures,
    build=_build,
    pages=("both", "humans"),
)
