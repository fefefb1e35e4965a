"""Labels composed of several columns, such as the item `{doc_id}/{seg_id}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from custodes.data.table import LoadedTable, label_column

COMPOSED_ROLES = ("item", "system", "rater", "cluster", "group", "dataset")
"""Roles whose labels may be composed of several columns."""
COMPOSE_HINT = "if several columns together name the item, give all of them, as in item={doc_id}/{segment_id}"
"""Advice if rows are not unique."""
COMPONENT = re.compile(r"\{([^{}]+)\}")


def component_columns(role: str, name: str) -> list[str]:
    """The columns of which the labels of a role are composed; only `name` if it is the name of one column.

    >>> component_columns("item", "{doc_id}/{seg_id}"), component_columns("item", "doc_id")
    (['doc_id', 'seg_id'], ['doc_id'])
    """
    return (COMPONENT.findall(name) if role in COMPOSED_ROLES else []) or [name]


def compose_labels(table: LoadedTable, roles: Mapping[str, str]) -> LoadedTable:
    """The table with a column for each composed label, named as in `roles`. Components without another role are
    dropped.

    >>> table = LoadedTable(frame=pl.DataFrame({"doc": ["a"], "segment": [1]}), name="table")
    >>> compose_labels(table, {"item": "{doc}/{segment}"}).frame.rows()
    [('a/1',)]
    """
    frame, composed_columns, component_names = table.frame, list[pl.Series](), set[str]()
    for role, name in roles.items():
        names_of_role = component_columns(role, name)
        if name not in frame.columns and set(names_of_role) <= set(frame.columns):
            labels = [label_column(frame, column_name, where=table.name) for column_name in names_of_role]
            composed_columns.append(frame.select(pl.format(COMPONENT.sub("{}", name), *labels).alias(name)).to_series())
            component_names.update(names_of_role)
    return replace(table, frame=frame.drop(component_names.difference(roles.values())).with_columns(composed_columns))
