"""Raters: kind (human or metric), scale and direction. If no file declares scale and direction, they are inferred."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.mapping.column_vocabulary import kind_of_label, name_stems, parse_kinds
from custodes.data.notes import Note, build_notes
from custodes.data.table import (
    check_columns,
    check_unique,
    label_column,
    refuse,
    refuse_values,
    to_polars,
    typed_column,
)
from custodes.errors import InputError, join_labels, suggestion

SCHEMA = {
    "rater": pl.String,
    "kind": pl.String,
    "higher_is_better": pl.Boolean,
    "low": pl.Float64,
    "high": pl.Float64,
    "person": pl.Boolean,
    "date": pl.String,
    "cost": pl.Float64,
    "cost_unit": pl.String,
    "own_system": pl.String,
    "signature": pl.String,
    "truncated": pl.Float64,
}
SIGNATURE_RULE = "signatures-differ"
"""The note on a rater name that may stand for different raters."""
EXPECTED_SUFFIX = "@expected"
"""Suffix of the rater with the expected score of a judge, or the probability of its positive label."""

DIRECTION_RULE = "undeclared-direction"
"""The note on metrics that have the name of an error metric (see `ERRORS`), and on scores that may be ranks,
although no table declares the direction."""
ERRORS = ("ter", "wer", "edit", "js", "js-source", "corpus-ter", "corpus-wer")
"""Metrics of `custodes score` for which lower is better. A rater with such a name is probably this metric."""
RANKS = frozenset({"rank", "ranks", "ranking", "rankings"})
"""Words in the names of ratings that may be ranks."""
KINDS = ("human", "metric")


@dataclass(frozen=True, kw_only=True)
class Raters:
    """A table with one row per rater.

    Columns: kind ('human', 'metric', '' while unknown), higher_is_better, low, high (null: not declared), person
    (false: an annotator slot, possibly shared by several persons), date, cost, cost_unit (unit of the cost; null:
    unknown), own_system (a comma list of globs of systems that belong to the rater, such as systems of the same maker;
    null: none), signature (everything that may change the scores of a metric or judge, such as library, version and
    parameters), truncated (the proportion of outputs that were truncated before the rater read them). `directed` are
    the raters whose direction was declared in a table.
    """

    frame: pl.DataFrame
    directed: frozenset[str] = frozenset()

    @classmethod
    def infer(cls, kind_of_rater: Mapping[str, str]) -> Raters:
        """Raters of which only the kinds are known. By assumption, higher is better, and an annotator may stand for
        several persons. The scale is unknown."""
        return cls(
            frame=pl.DataFrame(
                [
                    {"rater": rater_name, "kind": rater_kind, "higher_is_better": True, "person": False}
                    for rater_name, rater_kind in kind_of_rater.items()
                ],
                schema=SCHEMA,
            )
        )

    def select_kind(self, kind: str) -> tuple[str, ...]:
        """The raters of one kind, in the order of the table."""
        return tuple(rater_name for rater_name, rater_kind in self.kind.items() if rater_kind == kind)

    @property
    def kind(self) -> dict[str, str]:
        """The kind of each rater."""
        return dict(self.frame.select("rater", "kind").iter_rows())

    @property
    def direction(self) -> dict[str, float]:
        """The direction of each rater: +1 (higher is better) or -1 (lower is better)."""
        return {
            rater_name: 1.0 if is_higher_better else -1.0
            for rater_name, is_higher_better in zip(self.frame["rater"], self.frame["higher_is_better"], strict=True)
        }

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The declared bounds (low, high) of each rater that has both bounds."""
        return {
            rater_name: (low, high)
            for rater_name, low, high in self.frame.select("rater", "low", "high").drop_nulls().iter_rows()
        }

    @property
    def own_systems(self) -> dict[str, str]:
        """The patterns of the systems that belong to each rater. Raters without patterns are omitted."""
        return dict(self.frame.drop_nulls("own_system").select("rater", "own_system").iter_rows())

    def select_raters(self, raters: Sequence[str]) -> Raters:
        """The table of these raters only, in this order."""
        return replace(
            self,
            frame=pl.DataFrame({"rater": list(raters)}, schema={"rater": pl.String}).join(
                self.frame, on="rater", how="left", maintain_order="left"
            ),
        )

    def with_kinds(self, kind_of_rater: Mapping[str, str]) -> Raters:
        """The raters, with the kinds of `kind_of_rater` set."""
        return replace(
            self,
            frame=self.frame.with_columns(
                pl.Series(
                    "kind",
                    [kind_of_rater.get(rater_name, former_kind) for rater_name, former_kind in self.kind.items()],
                    dtype=pl.String,
                )
            ),
        )

    def merge_with(self, other: Raters) -> tuple[Raters, list[Note]]:
        """The raters of both tables, with the values that either table declares.

        If one of the tables declares for a rater that lower is better, this direction is used. A note lists names with
        different signatures, because such a name may stand for two raters.
        """
        rows_grouped_by_rater = (
            pl.concat([self.frame, other.frame])
            .sort(pl.col("kind") == "", maintain_order=True)
            .group_by("rater", maintain_order=True)
        )
        conflict_texts = [
            f"{rater_name} ({join_labels(distinct_signatures, limit=2)})"
            for rater_name, distinct_signatures in rows_grouped_by_rater.agg(
                pl.col("signature").drop_nulls().unique(maintain_order=True)
            ).iter_rows()
            if len(distinct_signatures) > 1
        ]
        return Raters(
            frame=rows_grouped_by_rater.agg(
                pl.col("kind").first(),
                pl.col("higher_is_better").all(),
                pl.col("low", "high").filter(pl.col("low").is_not_null() | pl.col("high").is_not_null()).first(),
                pl.col("person").any(),
                pl.col("date", "cost").drop_nulls().first(),
                pl.col("cost_unit").filter(pl.col("cost").is_not_null()).first(),
                pl.col("own_system", "signature", "truncated").drop_nulls().first(),
            ).select(list(SCHEMA)),
            directed=self.directed | other.directed,
        ), build_notes(
            (
                SIGNATURE_RULE,
                len(conflict_texts),
                "raters with the same name in two inputs are treated as one rater, although their signatures differ: "
                f"{join_labels(conflict_texts, limit=2)}. If the raters differ, rename one of them",
            )
        )

    def merge_side_table(self, table: Any, *, where: str = "raters") -> tuple[Raters, list[Note]]:
        """Fill in the values of a side table. The column `rater` of the side table may hold globs; a literal name takes
        precedence.

        The columns are rater and any of kind, higher_is_better (true or false), low, high, person, date, cost,
        cost_unit, own_system, signature and truncated (0 to 1). A date is YYYY, YYYY-MM or YYYY-MM-DD. cost_unit is
        the unit of the cost. own_system is a comma list of systems or globs.
        """
        side_frame = to_polars(table, where=where)
        unused_column_notes = check_columns(side_frame, where=where, required=("rater",), optional=tuple(SCHEMA)[1:])
        declared_values_of_pattern = _checked_side_table(side_frame, where=where)
        rater_names = list(self.frame["rater"])
        unmatched_patterns = [
            pattern
            for pattern in declared_values_of_pattern
            if pattern not in rater_names and not any(fnmatchcase(rater_name, pattern) for rater_name in rater_names)
        ]
        if declared_values_of_pattern and len(unmatched_patterns) == len(declared_values_of_pattern):
            raise InputError(
                f"{where}: no rater of this table is in the data ({join_labels(unmatched_patterns)}); raters: "
                f"{join_labels(rater_names)}{suggestion(unmatched_patterns[0], rater_names)}"
            )
        notes = [
            *(
                Note(
                    rule="idle-rater-row",
                    message=f"{where}: {pattern!r} matches no rater{suggestion(pattern, rater_names)}",
                    count=1,
                )
                for pattern in unmatched_patterns
            ),
            *unused_column_notes,
        ]
        rater_rows, directed_raters = [], set(self.directed)
        for rater_row in self.frame.iter_rows(named=True):
            rater_name = rater_row["rater"]
            declared_values: dict[str, Any] = {}
            for pattern, pattern_values in declared_values_of_pattern.items():
                if pattern not in rater_names and fnmatchcase(rater_name, pattern):
                    declared_values = pattern_values | declared_values
            declared_values |= declared_values_of_pattern.get(rater_name, {})  # takes precedence over globs
            declared_kind = declared_values.get("kind", rater_row["kind"])
            notes += build_notes(
                (
                    "kind-overruled",
                    int(rater_row["kind"] not in ("", declared_kind)),
                    f"{where}: {rater_name!r} is {declared_kind} in this table and {rater_row['kind']} in the data; "
                    "this table takes precedence",
                )
            )
            # A new cost without a unit does not inherit the unit of the replaced cost.
            rater_rows.append(rater_row | ({"cost_unit": None} if "cost" in declared_values else {}) | declared_values)
            directed_raters |= {rater_name} if "higher_is_better" in declared_values else set()
        return Raters(frame=pl.DataFrame(rater_rows, schema=SCHEMA), directed=frozenset(directed_raters)), notes

    def undeclared_directions(self, score_names: Sequence[str] = ()) -> list[Note]:
        """Notes on metrics with the names of error metrics and on scores that may be ranks, if no table declares
        that lower is better. `score_names` are the names of the score column and of the aspects.

        >>> [note.count for note in Raters.infer({"ter@best": "metric", "terse": "metric"}).undeclared_directions()]
        [1]
        """
        undeclared_rows = self.frame.filter(~pl.col("rater").is_in(list(self.directed)))
        undeclared_metric_names = [
            rater_name
            for rater_name in undeclared_rows.filter(pl.col("kind") != "human", "higher_is_better")["rater"]
            if re.split("[:@]", rater_name)[0].lower() in ERRORS
        ]
        undeclared_annotators = undeclared_rows.filter(pl.col("kind") != "metric")["rater"]
        rank_names = [
            name
            for name in dict.fromkeys([*undeclared_annotators, *(score_names if undeclared_rows.height else ())])
            if name and not RANKS.isdisjoint(name_stems(name))
        ]
        return build_notes(
            (
                DIRECTION_RULE,
                len(undeclared_metric_names),
                f"for metrics named {join_labels(undeclared_metric_names)}, lower is usually better, but in these data "
                "higher counts as better; if lower is better, set higher_is_better to false in a raters table "
                "(--raters)",
            ),
            (
                DIRECTION_RULE,
                len(rank_names),
                f"the scores {join_labels(map(repr, rank_names))} may be ranks, of which 1 is the best, but in these "
                "data higher counts as better; set higher_is_better of the raters to false in a raters table "
                "(--raters) if 1 is the best, and to true otherwise",
            ),
        )


def _checked_side_table(frame: pl.DataFrame, *, where: str) -> dict[str, dict[str, Any]]:
    """The non-empty values of each row, by the pattern of rater names in the row."""
    rater_label_frame = pl.DataFrame([label_column(frame, "rater", where=where)])
    check_unique(rater_label_frame, ["rater"], where=where, what="rater", hint="one row per rater")
    side_table = rater_label_frame.with_columns(
        _side_column(frame, column_name, where=where)
        for column_name in SCHEMA
        if column_name in frame.columns and column_name != "rater"
    )
    if "truncated" in side_table.columns:
        refuse_values(
            side_table["truncated"],
            ~side_table["truncated"].is_between(0, 1),
            where=where,
            allowed="a proportion from 0 to 1",
        )
    if {"low", "high"} <= set(side_table.columns):
        refuse(
            side_table["low"] >= side_table["high"],
            lambda row_numbers, _: (
                f"{where}: low is not below high in row {row_numbers}; correct the bounds of the scale"
            ),
        )
    return {
        side_row.pop("rater"): {
            column_name: cell_value for column_name, cell_value in side_row.items() if cell_value is not None
        }
        for side_row in side_table.iter_rows(named=True)
    }


def _side_column(frame: pl.DataFrame, column_name: str, *, where: str) -> pl.Series:
    """A column of a side table, converted to the type in `SCHEMA`; empty cells become null."""
    if column_name == "kind":
        return kind_column(frame, where=where).replace("", None)
    typed_series = typed_column(frame, column_name, SCHEMA[column_name], where=where)
    if column_name == "date":
        full_dates = (typed_series + "-01-01").str.head(10).str.to_date("%Y-%m-%d", strict=False)
        refuse_values(
            typed_series,
            (typed_series != "")
            & ~(typed_series.str.contains("^[0-9]{4}(-[0-9]{2}){0,2}$") & (full_dates.dt.year().fill_null(0) > 0)),
            where=where,
            allowed="YYYY, YYYY-MM, YYYY-MM-DD",
        )
    return typed_series.replace("", None) if SCHEMA[column_name] == pl.String else typed_series


def kind_column(frame: pl.DataFrame, *, where: str) -> pl.Series:
    """The column `kind` as human, metric or empty, from words such as `annotator` or `llm`."""
    kind_cells = label_column(frame, "kind", where=where, empty=True)
    kind_words = kind_cells.unique()
    kind_series = kind_cells.replace_strict(kind_words, parse_kinds(kind_words).set(kind_words == "", ""))
    refuse_values(
        kind_cells,
        kind_series.is_null(),
        where=where,
        allowed="human, metric, or words such as annotator, expert, llm, judge",
    )
    return kind_series


def rater_kinds(frame: pl.DataFrame, *, where: str) -> dict[str, str]:
    """The kind of each rater, from the columns `rater` and `kind` (optional) of a data file. If the kind is missing,
    the label of the rater may show the kind. A rater of both kinds raises `InputError`."""
    kind_rows = pl.DataFrame([label_column(frame, "rater", where=where), kind_column(frame, where=where)]).unique(
        maintain_order=True
    )
    declared_kind_rows = kind_rows.filter(pl.col("kind") != "")
    two_kind_raters = declared_kind_rows.filter(pl.col("rater").is_duplicated())["rater"].unique(maintain_order=True)
    if two_kind_raters.len():
        raise InputError(
            f"{where}: rater {join_labels(map(repr, two_kind_raters))} is both human and metric in column 'kind'; "
            "give each rater one kind"
        )
    return {rater_name: kind_of_label(rater_name) for rater_name in kind_rows["rater"]} | dict(
        declared_kind_rows.iter_rows()
    )


FEW_RATINGS = 20
"""Minimum number of ratings of an annotator; with fewer ratings, the observed range says too little about the scale."""

LEAST_OVERLAP = 0.2
"""Two raters count as using the same scale if the overlap of their ranges, divided by the union of the ranges, is at
least this value. A rater who used 4 to 5 of a scale from 1 to 5 has an overlap of .25 with a rater who used the full
scale. MQM penalties and direct assessments from 0 to 100 have an overlap of 0.
"""

RANGE_MARGIN = 0.05
"""Proportion of scores outside declared bounds above which there is a warning."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Bounds of a rater's scores, as declared in a raters file. Without a declaration, the bounds are the observed
    range.

    >>> Scale(low=1, high=5).comparable(Scale(low=0, high=100))
    False
    """

    low: float
    high: float
    n: int = FEW_RATINGS
    declared: bool = False

    @classmethod
    def from_scores(cls, scores: NDArray[np.float64]) -> Scale:
        """The observed range of the scores of a rater; NaN is ignored."""
        finite_scores = scores[np.isfinite(scores)]
        if not finite_scores.size:
            return cls(low=np.nan, high=np.nan, n=0)
        return cls(low=float(finite_scores.min()), high=float(finite_scores.max()), n=finite_scores.size)

    def comparable(self, other: Scale) -> bool:
        """Whether scores on this scale and the scale `other` can be averaged.

        The declared bounds must be equal, or the observed ranges must overlap enough.
        """
        if self.declared and other.declared:
            return self.low == other.low and self.high == other.high
        if min(self.n, other.n) < FEW_RATINGS:
            return True
        overlap_width = min(self.high, other.high) - max(self.low, other.low)
        if min(self.high - self.low, other.high - other.low) == 0:
            # A constant rater uses only one point of the scale. If this point is in the range of the other rater,
            # nothing shows that the scales differ.
            return overlap_width >= 0
        return overlap_width / (max(self.high, other.high) - min(self.low, other.low)) >= LEAST_OVERLAP


LEAST_TOP = 3
"""If a scale starts below 0 and ends below this value, its negative values are probably scores: -1, 0, 1, 2."""


def missing_code(scores: NDArray[np.float64]) -> str:
    """A description of the lowest or highest score, if it may be a code for a missing score; otherwise ''.

    A score may be a code in two cases. In the first case, the score is the only negative integer, the lowest other
    score is at least 0, and the highest is at least `LEAST_TOP`. In the second case, all digits of the score are nines
    (99, -999), and the distance from the score to the nearest other score is larger than the range of the other scores.

    >>> missing_code(np.array([1.0, 2.0, 3.0, 99.0] * 5))
    '99 occurs 5 times among scores from 1 to 3'
    """
    distinct_scores, score_counts = np.unique(scores[np.isfinite(scores)], return_counts=True)
    if len(distinct_scores) < 3 or score_counts.sum() < FEW_RATINGS:
        return ""
    for extreme_index, other_scores in ((0, distinct_scores[1:]), (-1, distinct_scores[:-1])):
        candidate_code, lowest_other_score, highest_other_score = map(
            float, (distinct_scores[extreme_index], other_scores[0], other_scores[-1])
        )
        is_negative_code = candidate_code < 0 <= lowest_other_score and highest_other_score >= LEAST_TOP
        has_only_nines = abs(candidate_code) > 9 and set(f"{abs(candidate_code):.0f}") == {"9"}
        is_far_from_others = (
            max(lowest_other_score - candidate_code, candidate_code - highest_other_score)
            > highest_other_score - lowest_other_score
        )
        if candidate_code.is_integer() and (is_negative_code or (has_only_nines and is_far_from_others)):
            return (
                f"{candidate_code:g} occurs {score_counts[extreme_index]} times among scores from "
                f"{lowest_other_score:.4g} to {highest_other_score:.4g}"
            )
    return ""
