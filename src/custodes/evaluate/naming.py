"""Notes on names: labels that look equal, and metrics that are named like annotators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from custodes.data.confusable_labels import confusable, escape_confusable
from custodes.data.mapping.annotator_columns import beside_people
from custodes.data.mapping.column_vocabulary import looks_human
from custodes.data.study import Study
from custodes.errors import listed

Finding = tuple[str, str, Sequence[str]]
"""Rule, count or message, and names."""


def named_alike(study: Study) -> Iterator[Finding]:
    """Systems, raters and aspects with labels that look equal but count as different."""
    labels = {"systems": study.systems, "raters": tuple(study.raters.kind), "aspects": study.aspects}
    for what, names in labels.items():
        sets = confusable(names)
        if sets:
            examples = listed((" = ".join(map(escape_confusable, one)) for one in sets), limit=4)
            message = f"{what} that look equal and count as different: {examples}; give each one name"
            yield "look-alikes", message, [label for one in sets for label in one]


def people_as_metrics(study: Study, metrics: set[str]) -> Iterator[Finding]:
    """Metrics with names that look like those of annotators."""
    kinds = study.raters.kind
    open_ = [name for name in kinds if name in metrics and kinds[name] != "metric"]
    beside = beside_people(open_, [name for name in kinds if name not in metrics])
    named = {name for name in metrics if looks_human(name, declared=kinds[name] == "metric")}
    people = [name for name in kinds if name in named | beside]
    if people:
        message = (
            f"raters that look human are evaluated as metrics: {listed(people)}; if they are human, "
            "select them with human or give them the kind human, else leave them out of metrics"
        )
        yield "people-as-metrics", message, people
