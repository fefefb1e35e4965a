"""Section: size of a similar future study."""

from __future__ import annotations

from custodes.evaluate.protocol.plan import Plan, plan
from custodes.plots.protocol import power_lines
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.sections.protocol import STOPPING, check_not_stopped
from custodes.reporting.tables import table_html


def _ask(context: Context) -> Plan:
    check_not_stopped(context)
    return context.ask(plan, metrics="none", stopping=STOPPING)


def _power(context: Context) -> list[Figure]:
    return [
        Figure(
            id="plan-power",
            title="Power by margin",
            caption="Power to find the better system with human ratings alone and one analysis per pair. "
            "Points: pairs of systems, each at the margin estimated from this study.",
            alt="Lines of the power to find the better system against the margin, with one line for each "
            "number of annotations.",
            spec=spec_of(power_lines(empty_rows()), width="container"),
            table="plan.power",
            where={"aspect": "{aspect}"},
        )
    ]


PLAN = Section(
    question="plan",
    title="Planning the next study",
    text="Future studies are simulated from the posterior of this study, so their pairs of systems differ as much as "
    "the pairs of this study. Decisions use human ratings alone, with interim analyses after "
    f"{', '.join(map(str, STOPPING.looks or ()))} annotations and a Pocock boundary. An annotation is one comparison "
    "of two systems on one item. A decision is “correct” if it equals the simulated truth.",
    ask=_ask,
    figures=_power,
    build=lambda context: {
        "table": table_html(
            context.table("plan.plan"),
            [
                column
                for column in context.table_declaration("plan.plan").columns
                if column.name not in ("metric", "estimator")
            ],
            id="plan-table",
            caption=f"Decisions of studies with at most {max(STOPPING.looks or ())} annotations of each pair",
        )
    },
    pages=("both", "humans"),
)
