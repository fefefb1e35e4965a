"""Section: whom each metric favours."""

from __future__ import annotations

from custodes.plots.favoritism import accuracy_scatter, by_system, heat_map
from custodes.reporting.section import ChosenTable, Column, Context, Figure, Section, empty_rows, render, spec_of
from custodes.reporting.tables import table_html

METRICS = (
    Column(field="metric", label="Metric"),
    Column(
        field="mean_abs_favi",
        label="Mean |Favi-Score|",
        kind="number",
        low="mean_abs_favi_low",
        high="mean_abs_favi_high",
    ),
    Column(
        field="mean_abs_favi_chance",
        label="By a coin",
        kind="number",
        title="expected |Favi-Score| if errors fell by a coin",
    ),
    Column(field="std_abs_favi", label="Spread", kind="number", title="standard deviation of |Favi-Score| over pairs"),
    Column(field="sample_accuracy", label="Sample accuracy", kind="percent"),
    Column(field="system_accuracy", label="Same sign of margin", kind="percent", title="share of system pairs"),
)
PAIRS = (
    Column(field="system_a", label="System A"),
    Column(field="system_b", label="System B"),
    Column(field="n", label="n", kind="int"),
    Column(field="errors", label="Errors", kind="int"),
    Column(field="favi", label="Favi-Score (for A)", kind="number", low="favi_low", high="favi_high"),
    Column(field="favi_even", label="Even-handed", kind="number", title="of an even-handed metric as accurate"),
    Column(field="decision_human", label="People", title="+ A better, - B better, = not different"),
    Column(field="decision_metric", label="Metric", title="+ A better, - B better, = not different"),
    Column(field="flip_probability", label="Margins opposite", kind="percent", title="posterior probability"),
    Column(field="note", label="Note"),
)


def favoritism_section(context: Context) -> Section:
    """How one-sided errors are, for whom, and what they do to decisions."""
    here = {"aspect": "{aspect}"}
    of_metric = {"aspect": "{aspect}", "metric": "{metric}"}
    beside = Figure(
        id="favoritism-accuracy",
        title="How often a metric errs, and how one-sidedly",
        caption="Right: errs seldom. Low: errs to both sides alike. Whisker: interval from resampled items. Grey "
        "dash: what errors that fall to either side by a coin would give.",
        alt="Scatter plot of mean absolute Favi-Score against sample accuracy, one point a metric.",
        spec=spec_of(accuracy_scatter(empty_rows()).properties(width="container")),
        table="favoritism.metrics",
        where=here,
    )
    heat = Figure(
        id="favoritism-map",
        title="Every metric and every system",
        caption="Mean Favi-Score of a system against every other one, from −2 to 2: orange where errors favour it, "
        "blue where they go against it, colour full at ±1.",
        alt="Heat map of the mean Favi-Score of every system by every metric, with the numbers in the cells.",
        spec=spec_of(heat_map(empty_rows())),
        table="favoritism.systems",
        where=here,
    )
    strip = Figure(
        id="favoritism-systems",
        title="Whom {metric} favours",
        caption="One point an opponent; box: middle half; orange: median. Hollow points may be chance.",
        alt="Strip and box plot of the Favi-Scores of every system against every other one, for the chosen metric.",
        spec=spec_of(by_system(empty_rows()).properties(width="container")),
        table="favoritism.pairs",
        where=of_metric,
        lines=("system_a", "system_b"),
    )
    tables = (
        ChosenTable(
            id="favoritism-pairs",
            caption="Every pair of systems, by the chosen metric",
            table="favoritism.pairs",
            columns=PAIRS,
            where=of_metric,
        ),
    )
    notes = [note.message for note in context.results["favoritism"].notes if note.rule.startswith("favi")]
    frame = context.table("favoritism.metrics").sort("mean_abs_favi", descending=True, nulls_last=True)
    html = render(
        "favoritism.html",
        one_sided=context.one_sided,
        beside=beside,
        heat=heat,
        strip=strip,
        table=table_html(frame, METRICS, id="favoritism-metrics", caption="Favoritism of each metric", notes=notes),
        tables=tables,
    )
    return Section(id="favoritism", title="Who favours whom", html=html, charts=(beside, heat, strip), tables=tables)
