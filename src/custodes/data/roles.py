"""The role of an annotation: first opinions count for systems, and second opinions only measure annotators."""

from __future__ import annotations

import polars as pl

from custodes.data.table import label_column, refuse_values

PRIMARY, SECOND = "primary", "second"
ROLES = (PRIMARY, SECOND)


def second_rows(frame: pl.DataFrame, *, where: str) -> pl.Series | None:
    """Whether each row of a file is a second opinion, according to the column `role`; None if no cell is one of
    `ROLES`.

    An empty cell is a first opinion. A column of that name with other words is ignored.

    >>> second_rows(pl.DataFrame({"role": ["second", ""]}), where="b.csv").to_list()
    [True, False]
    """
    if "role" not in frame.columns or frame["role"].dtype.is_nested():
        return None
    role = label_column(frame, "role", where=where, empty=True).str.to_lowercase()
    if not role.is_in(ROLES).any():
        return None
    refuse_values(role, ~role.is_in([*ROLES, ""]), where=where, allowed=", ".join(ROLES))
    return role == SECOND
