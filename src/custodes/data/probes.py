"""Probes: outcomes that a judge gave to two forms of the same output."""

from __future__ import annotations

import polars as pl

from custodes.data.table import bounded_column, check_columns, check_unique, label_column

ORDER, LENGTH, FORMAT, NAME, REPEAT = PROBES = ("order", "length", "format", "name", "repeat")
KEY = ("item", "system", "against", "rater", "aspect", "probe", "order")
OUTCOMES = ("plain", "changed")
SCHEMA = {**dict.fromkeys(KEY, pl.String), **dict.fromkeys(OUTCOMES, pl.Float64)}
EMPTY = ("against", "aspect", "order")


def read_probes(frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """Return a checked table of probes in the format that `judge` writes.

    The columns are item, system, against, rater, aspect, probe, order, and two outcomes. `system` is the system whose
    output is changed. `against` is the compared system, or '' for a pointwise judge. A probe examines a property of the
    output, such as a greater length. `plain` is the outcome of the output without this property, and `changed` is the
    outcome of the output with it. Outcomes lie between 0 and 1; null means no answer.
    """
    check_columns(frame, where=where, required=(*KEY, *OUTCOMES), optional=("invalid",))
    probe_rows = pl.DataFrame(
        [
            *(label_column(frame, column_name, where=where, empty=column_name in EMPTY) for column_name in KEY),
            *(
                bounded_column(frame, column_name, 1, where=where, allowed="a number from 0 to 1, or empty")
                for column_name in OUTCOMES
            ),
        ],
        schema=SCHEMA,
    )
    check_unique(probe_rows, KEY, where=where, what="probe", hint="one row per output, probe and order")
    return probe_rows
