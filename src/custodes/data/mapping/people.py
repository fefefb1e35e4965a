"""Which columns of a table are people's, and the patterns that say so."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from custodes.data.mapping.cross import people_cross
from custodes.data.mapping.shapes import people_pattern, pooled_aspects
from custodes.data.mapping.words import ASPECTS, averages, looks_human, parts, stem


def people_patterns(frame: pl.DataFrame, scores: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Patterns of the columns of people, and these columns; no pattern where only one that pools aspects would do."""
    plain = [name for name in scores if name not in averages(scores)]
    named_so = [name for name in plain if looks_human(name)]
    doubled = {name: numbers_of(frame[name]).drop_nulls() * 2 for name in plain}
    # Human ratings are mostly whole numbers or halves.
    crossed, cross = people_cross([name for name, values in doubled.items() if (values == values.round()).all()])
    if set(crossed) <= set(named_so):
        of_aspects = [name for name in named_so if ASPECTS & {stem(part) for part in parts(name)}]
        for people in dict.fromkeys([tuple(named_so), tuple(of_aspects)]):
            pattern = people_pattern(people, scores) if people else "{aspect"
            if "{aspect" in pattern or not pooled_aspects(people):
                return ((pattern,) if people else ()), list(people)
    if not cross:
        return (), named_so
    others = [name for name in named_so if name not in crossed and not set(crossed) <= set(named_so)]
    more = (people_pattern(others, scores),) if others else ()
    return (cross, *more), [*crossed, *others]


def rest_pattern(scores: Sequence[str], people: Sequence[str]) -> tuple[str, ...]:
    """The pattern of metrics beside people: of all that is left, without averages and what looks like people's."""
    left = [name for name in scores if name not in people]
    metrics = [name for name in left if name not in averages(scores) and not looks_human(name)]
    if not metrics:
        return ()
    return ("metric:{rater}",) if metrics == left else (f"metric:{{rater:{','.join(metrics)}}}",)


def numbers_of(column: pl.Series) -> pl.Series:
    """The numbers of a column, null where a cell holds none."""
    return (
        pl.Series(dtype=pl.Float64)
        if column.dtype.is_nested()
        else column.cast(pl.String).cast(pl.Float64, strict=False)
    )
