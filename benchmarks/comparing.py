"""List the cells of two versions of a table that differ by more than random draws explain.

The declared kind of a column gives its role. Names, counts, flags, decisions and sentences are exact. Estimates are
equal to 1e-9, relative or absolute. Bounds, standard deviations and probabilities may differ by `WITHIN` standard
errors of the difference of two independent runs of R draws. That is sqrt(2) times the standard error of one run:

- of a probability or p-value p: sqrt(p (1 - p) / R), at least 1 / R, with the mean of p (1 - p) in both versions;
- of a bound that is a percentile of R draws: the standard error of the quantile at level a is sqrt(a (1 - a) / R) / f,
  with the density f at the quantile. For a normal distribution with standard deviation s and a = .025 it is
  sqrt(.025 * .975) / .0584 * s / sqrt(R) = 2.67 s / sqrt(R), where s is the width of the interval divided by 3.92.
  Draws may be skewed: twice the distance from the estimate to the bound replaces the width where it is larger;
- of a standard deviation s over n replications: s / sqrt(2 n), and of the mean next to it: s / sqrt(n).

The start with a second seed replaces assumptions. An estimate that differs by seed is a mean over draws: the root mean
square of the differences in its column is the standard error of a difference. Where differences by seed are larger than
the standard errors above expect (fewer draws than R, few distinct values), these are multiplied by the root mean square
of the ratios. A bound or probability that is the same for both seeds has a formula or draws with a fixed seed; a change
within its tolerance is `minor`, but listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Role = Literal["exact", "estimate", "bound", "deviation", "probability"]

WITHIN = 4.0
EQUAL = 1e-9
PER_WIDTH = 2.67 / 3.92
"""Standard error of a bound, in widths of the interval over sqrt(R)."""
EXACT = ("label", "labels", "flag", "count")
PROBABILITIES = ("p", "probability")
KEY, PLACE = "_key", "_place"
LONGEST_NAME = 60
"""Characters; longer texts are sentences, which do not identify rows."""


@dataclass(frozen=True)
class Moved:
    """A cell, row, column or sentence that differs.

    `by_seed`: the start also differs by seed in this cell. `probabilities`: those of the row in both versions, for an
    exact cell. `minor`: within the tolerance.
    """

    table: str
    row: str
    column: str
    start: Any
    now: Any
    tolerance: float | None = None
    probabilities: str = ""
    by_seed: bool = False
    minor: bool = False

    @property
    def reason(self) -> str:
        """The tolerance or the probabilities, and whether the start differs by seed."""
        limit = self.probabilities if self.tolerance is None else f"{self.tolerance:.2g}"
        return "; ".join(filter(None, (limit, "differs by seed" if self.by_seed else "")))


def roles_of(kinds: Mapping[str, str]) -> dict[str, Role]:
    """Column to role, from the declared kinds; bounds and deviations have the declaration of their estimate."""
    roles: dict[str, Role] = {}
    for name, kind in kinds.items():
        stem, _, end = name.rpartition("_")
        if kind in EXACT:
            roles[name] = "exact"
        elif kind in PROBABILITIES:
            roles[name] = "probability"
        elif end in ("low", "high") and {f"{stem}_low", f"{stem}_high"} <= set(kinds):
            roles[name] = "bound"
        else:
            roles[name] = "deviation" if end == "sd" and stem in kinds else "estimate"
    return roles


def compare(
    table: str,
    start: pl.DataFrame,
    now: pl.DataFrame,
    roles: Mapping[str, Role],
    *,
    draws: int,
    second: pl.DataFrame | None = None,
) -> list[Moved]:
    """The differences of two versions of a table.

    Rows are matched by the fewest leading exact columns other than sentences that identify every row. Columns without a
    role are exact. `second` is the start with another seed.
    """
    moved = [
        Moved(table, "", name, *("column" if name in frame.columns else None for frame in (start, now)))
        for name in dict.fromkeys((*start.columns, *now.columns))
        if (name in start.columns) != (name in now.columns)
    ]
    shared = [name for name in start.columns if name in now.columns]
    names = [name for name in shared if roles.get(name, "exact") == "exact"]
    key = key_of(start, now, [name for name in names if not any(is_sentence(frame[name]) for frame in (start, now))])
    start, now = keyed(start, key), keyed(now, key)
    for frame, counterpart in ((start, now), (now, start)):
        rows = frame.join(counterpart, on=KEY, how="anti", maintain_order="left")[KEY]
        moved += [Moved(table, row, "", *(("row", None) if frame is start else (None, "row"))) for row in rows]
    matched = start.select(KEY).join(now.select(KEY), on=KEY, how="inner", maintain_order="left")
    start, now = (matched.join(frame, on=KEY, how="left", maintain_order="left") for frame in (start, now))
    if not now[PLACE].is_sorted():
        moved.append(Moved(table, "", "", "order of rows", "another order of rows"))
    if second is not None:
        second = keyed(second, key)
        has_all = matched.join(second, on=KEY, how="anti").is_empty()
        second = matched.join(second, on=KEY, how="left", maintain_order="left") if has_all else None
    for name in shared:
        if name not in key:
            moved += compare_column(table, name, start, now, roles, draws=draws, second=second)
    return moved


def key_of(start: pl.DataFrame, now: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """The fewest leading columns that identify every row of both frames; all columns if none do."""
    for n in range(len(names) + 1):
        if all(
            frame.select(names[:n]).n_unique() == frame.height if n else frame.height <= 1 for frame in (start, now)
        ):
            return list(names[:n])
    return list(names)


def is_sentence(column: pl.Series) -> bool:
    """Whether a column contains texts longer than names."""
    return column.dtype == pl.String and (column.str.len_chars().max() or 0) > LONGEST_NAME


def keyed(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Frame with its key as text, in which equal rows are numbered, and with the position of each row."""
    parts = [
        pl.col(name).list.join(", ") if frame.schema[name] == pl.List(pl.String) else pl.col(name).cast(pl.String)
        for name in key
    ]
    key_text = pl.concat_str([part.fill_null("–") for part in parts], separator=" / ") if parts else pl.lit("")
    frame = frame.with_columns(key_text.alias(KEY)).with_row_index(PLACE)
    again = pl.int_range(pl.len()).over(KEY)
    return frame.with_columns(pl.when(again > 0).then(pl.format("{} #{}", KEY, again + 1)).otherwise(KEY).alias(KEY))


def compare_column(
    table: str,
    name: str,
    start: pl.DataFrame,
    now: pl.DataFrame,
    roles: Mapping[str, Role],
    *,
    draws: int,
    second: pl.DataFrame | None,
) -> list[Moved]:
    """The differences of one column in frames of the same rows."""
    if roles.get(name, "exact") == "exact" or not (start.schema[name].is_numeric() and now.schema[name].is_numeric()):
        old, new = start[name].to_list(), now[name].to_list()
        other = old if second is None else second[name].to_list()
        return [
            Moved(table, key, name, a, b, None, probabilities(start, now, roles, place), a != c)
            for place, (key, a, b, c) in enumerate(zip(start[KEY], old, new, other, strict=True))
            if a != b
        ]
    old, new = numbers(start, name), numbers(now, name)
    equal = EQUAL * np.maximum(1, np.abs(np.nan_to_num(old, posinf=0, neginf=0)))
    by_seed = None if second is None else np.nan_to_num(numbers(second, name) - old, posinf=0, neginf=0)
    is_fixed = by_seed is not None and bool((np.abs(by_seed) <= equal).all())
    limits = np.fmax(equal, WITHIN * errors_of_differences(name, start, now, roles[name], draws=draws, by_seed=by_seed))
    with np.errstate(invalid="ignore"):
        far, differs = (
            ~((np.abs(new - old) <= most) | (new == old) | (np.isnan(old) & np.isnan(new))) for most in (limits, equal)
        )
    return [
        Moved(
            table,
            start[KEY][place],
            name,
            start[name][place],
            now[name][place],
            float(limits[place]),
            by_seed=by_seed is not None and bool(abs(by_seed[place]) > equal[place]),
            minor=not far[place],
        )
        for place in np.flatnonzero(differs if is_fixed else far).tolist()
    ]


def errors_of_differences(
    name: str, start: pl.DataFrame, now: pl.DataFrame, role: Role, *, draws: int, by_seed: Floats | None
) -> Floats:
    """Standard errors of the differences of two runs, by row; 0 for values without random draws.

    `by_seed`: the differences of two runs of the start, if available.
    """
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(2) * np.nan_to_num(standard_errors(name, start, now, role, draws=draws))
    if by_seed is None or not errors.size:
        return errors
    if not errors.any():
        return np.full(len(errors), np.sqrt(np.mean(by_seed**2)))
    ratios = by_seed[errors > 0] / errors[errors > 0]
    return errors * max(1.0, float(np.sqrt(np.mean(ratios**2))))


def standard_errors(name: str, start: pl.DataFrame, now: pl.DataFrame, role: Role, *, draws: int) -> Floats:
    """Monte Carlo standard error of one run, by row; 0 or NaN without draws or a formula."""
    old = numbers(start, name)
    replications = numbers(start, "replications") if "replications" in start.columns else draws
    if role == "probability":
        variances = [p * (1 - p) for p in (np.clip(numbers(frame, name), 0, 1) for frame in (start, now))]
        return np.maximum(np.sqrt(np.nan_to_num(np.mean(variances, axis=0)) / draws), 1 / draws)
    if role == "bound":
        stem = name.rpartition("_")[0]
        low, high = (numbers(start, f"{stem}_{end}") for end in ("low", "high"))
        middle = numbers(start, stem) if stem in start.columns else (low + high) / 2
        return PER_WIDTH * np.fmax(high - low, 2 * np.abs(old - middle)) / np.sqrt(draws)
    if role == "deviation":
        return old / np.sqrt(2 * replications)
    if f"{name}_sd" in start.columns:
        return numbers(start, f"{name}_sd") / np.sqrt(replications)
    return np.zeros(len(old))


def numbers(frame: pl.DataFrame, name: str) -> Floats:
    """A column as floats, null as NaN."""
    return frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()


def probabilities(start: pl.DataFrame, now: pl.DataFrame, roles: Mapping[str, Role], place: int) -> str:
    """The probabilities of a row in both versions."""
    names = [
        name for name, role in roles.items() if role == "probability" and {name} <= {*start.columns} & {*now.columns}
    ]
    return ", ".join(f"{name} {text(start[name][place])} -> {text(now[name][place])}" for name in names)


def text(value: Any) -> str:
    """Cell as text, with ten digits for numbers."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.10g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
