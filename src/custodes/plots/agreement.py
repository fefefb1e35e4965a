"""Picture: one statistic of agreement per metric, with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from custodes.errors import OptionError, suggestion
from custodes.evaluate.agreement import STATISTICS, Agreement
from custodes.plots import theme
from custodes.plots.choice import of_aspect, titled

if TYPE_CHECKING:
    import altair as alt

LABELS = {
    "sample_accuracy": "Sample accuracy",
    "system_accuracy": "System accuracy (signs of margins)",
    "pairwise_accuracy": "Pairwise accuracy of system means",
    **{
        f"{kind}_{level}": f"{name} {where}"
        for kind, name in (("pearson", "Pearson r"), ("spearman", "Spearman ρ"), ("kendall", "Kendall τ-b"))
        for level, where in (("system", "over systems"), ("item", "within items"), ("global", "over all outputs"))
    },
    "acc_eq": "Pairwise accuracy with ties (acc_eq)",
    "acc_eq_epsilon": "Tie threshold of acc_eq (metric's units)",
    "spa": "Soft pairwise accuracy",
}
"""What a reader sees instead of the field's name."""

HALF = ("system_accuracy", "pairwise_accuracy", "spa")


def chance_level(statistic: str) -> float | None:
    """What a metric that knows nothing gets, where that does not depend on the data."""
    if statistic.startswith(("pearson", "spearman", "kendall")):
        return 0.0
    return 0.5 if statistic in HALF else None


def agreement_intervals(
    result: Agreement,
    *,
    statistic: str = "kendall_item",
    aspect: str | None = None,
    width: int = theme.PAGE_WIDTH,
    dark: bool = False,
) -> alt.TopLevelMixin:
    """A dot and whiskers per metric, best first; a dashed line where a metric that knows nothing would be.

    `statistic` is one of the columns of `Agreement.metrics`; metrics for which it is undefined are left out.
    Raises `OptionError` for an unknown statistic or aspect.

    >>> import custodes as cu
    >>> result = cu.agreement(cu.read("demo"), resamples=0, compare_by=())
    >>> agreement_intervals(result, aspect="fluency").to_dict()["title"]
    'Kendall τ-b within items (fluency)'
    """
    who = "agreement_intervals"
    if statistic not in STATISTICS:
        raise OptionError(
            f"{who}: statistic={statistic!r}; statistics: {', '.join(STATISTICS)}{suggestion(statistic, STATISTICS)}"
        )
    rows, aspect = of_aspect(result.metrics, aspect, who=who)
    data = rows.select("metric", value=statistic, low=f"{statistic}_low", high=f"{statistic}_high").with_columns(
        chance=pl.lit(chance_level(statistic), dtype=pl.Float64)
    )
    chart = intervals(theme.inline(data), label=LABELS[statistic]).properties(width=width)
    return theme.themed(chart, dark=dark, title=titled(LABELS[statistic], aspect))


def intervals(data: Any, *, label: str) -> Any:
    """Rows metric, value, low, high, chance."""
    import altair as alt

    order = alt.EncodingSortField(field="value", op="max", order="descending")
    metric = alt.Y("metric:N", sort=order)
    base = alt.Chart(data).transform_filter("isValid(datum.value)")
    tooltip = [
        alt.Tooltip("metric:N"),
        alt.Tooltip("value:Q", format=".3f", title=label),
        alt.Tooltip("low:Q", format=".3f"),
        alt.Tooltip("high:Q", format=".3f"),
    ]
    chance = base.transform_filter("isValid(datum.chance)").mark_tick(
        color=theme.GREY, thickness=2, size=theme.ROW, opacity=0.9
    )
    whisker = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2, opacity=0.6, color=theme.BLUE)
    dot = base.mark_point(color=theme.BLUE, opacity=1)
    x = alt.X("value:Q", title=label, scale=alt.Scale(zero=False, nice=True))
    return (
        alt.layer(
            chance.encode(x=alt.X("chance:Q"), y=metric, tooltip=[alt.Tooltip("chance:Q", format=".3f")]),
            whisker.encode(x=alt.X("low:Q"), x2="high:Q", y=metric),
            dot.encode(x=x, y=metric, tooltip=tooltip),
        )
        .resolve_scale(x="shared")
        .properties(height=alt.Step(theme.ROW))
    )
