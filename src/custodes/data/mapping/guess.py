"""The mapping that would read a refused table: guessed from names and content, and told only where it reads."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import polars as pl

from custodes.data.mapping.columns import ROLES, Columns
from custodes.data.mapping.pattern import literal
from custodes.data.mapping.people import numbers_of, people_patterns, pooled_aspects, rest_pattern
from custodes.data.mapping.words import (
    ASPECTS,
    AVERAGES,
    GENERIC,
    NAMES,
    PEOPLE_ROLES,
    SCORERS,
    averages,
    looks_human,
    named,
    normalised,
    parts,
    sides,
    stem,
)
from custodes.data.notes import Note, noted
from custodes.data.table import MISSING_TOKENS, counted_cells
from custodes.errors import CustodesError, listed

Guess = Iterator[tuple[dict[str, str], tuple[str, ...]]]
"""Roles and patterns, to be tried."""

LOOKED_AT = 5000
"""Rows that guesses are made of."""

CHOICES = 4
"""Columns tried for an item and for a system."""

MOST_SYSTEMS = 200

NEARLY = r"^(#[A-Z/0-9!?]+|[+-]?\d[\d.,'\u2019\s]*(%|/\s*\d+|\s*[-(:]\s*\D.*)?)$"
"""Cells of scores that cannot be read: `1.234,5`, `50%`, `4/5`, `4 - good`, `#REF!`."""

PROSE = 4
"""Blanks in a cell that is a text and no rating in words."""


def suggested(
    frame: pl.DataFrame, declared: Columns, reads: Callable[[pl.DataFrame, Columns], bool], wrong: str
) -> str:
    """`; try --column item=doc_id ...` for the first guess that reads the table, else nothing.

    `declared` is what the caller said himself, which every guess keeps. A guess that would leave out a column of scores
    because of its cells is not told; what to mend is, where `wrong`, what is wrong with the table, does not say it.
    """
    head = frame.head(LOOKED_AT)
    for guess in guesses(head, declared):
        if guess != declared and reads(head, guess) and (frame.height <= LOOKED_AT or reads(frame, guess)):
            broken = _broken(frame, guess)
            if broken:
                return (
                    "" if broken in wrong else f"; {broken} is not a number: correct it, and a mapping can be suggested"
                )
            return f"; try {flags(guess)} (in Python columns={guess.mapping})"
    return ""


def _broken(frame: pl.DataFrame, guess: Columns) -> str:
    """`NAME 'cell' in row 1` for the first column left out that is one of scores but for some cells.

    Most of its cells are numbers or nearly so, or its name is one of ratings.
    """
    if not guess.matched(frame.columns):
        return ""
    for name in frame.columns:
        cells, numbers = counted_cells(frame[name])
        if name in guess.roles.values() or name in ROLES or numbers == cells or frame[name].dtype != pl.String:
            continue
        texts = frame[name].str.strip_chars()
        bad = texts.is_not_null() & ~texts.str.to_lowercase().is_in(MISSING_TOKENS) & numbers_of(texts).is_null()
        nearly = int((bad & texts.fill_null("").str.contains(NEARLY)).sum())
        rated = looks_human(name) or {stem(part) for part in parts(name)} & (ASPECTS | SCORERS)
        prose = bool((texts.filter(bad).str.count_matches(r"\s") >= PROSE).any())
        if 2 * (numbers + nearly) >= cells or (rated and not prose):
            at = int(bad.arg_true()[0])
            return f"{name} {texts[at]!r} in row {at + 1}"
    return ""


def flags(columns: Columns) -> str:
    """A mapping as options of the command line."""
    options = [f"--column {shlex.quote(f'{role}={name}')}" for role, name in columns.roles.items()]
    return " ".join([*options, *(f"--columns {shlex.quote(pattern)}" for pattern in columns.patterns)])


def apart(frame: pl.DataFrame, raters: Sequence[str], *, where: str) -> list[Note]:
    """A note on columns of people that are told apart by aspects, with the patterns that keep aspects apart."""
    patterns, people = people_patterns(frame, raters)
    aspects = pooled_aspects(people)
    if not patterns or not aspects or "aspect" in frame.columns:
        return []
    columns = Columns(patterns=(*patterns, *rest_pattern(raters, people)))
    try:
        columns.apply(frame, where=where)
    except CustodesError:
        return []
    message = (
        f"{where}: columns of annotators differ by aspect ({listed(aspects)}), so each is read as "
        f"a rater; to read aspects instead: {flags(columns)} (in Python columns={columns.mapping})"
    )
    return noted(("aspects-in-names", True, message))


def guesses(frame: pl.DataFrame, declared: Columns) -> Iterator[Columns]:
    """Mappings that may read a table, the likeliest first: of verdicts, of long, of wide tables."""
    taken = set(declared.roles.values())
    free = [name for name in frame.columns if name and name not in taken]
    candidates = {
        role: [declared.roles[role]] if role in declared.roles else named(role, free) for role in ROLES_GUESSED
    }
    numbers = [name for name in free if _is_number(frame[name])]
    if "rater" not in declared.roles:
        candidates["rater"] = [name for name in candidates["rater"] if _may_name(frame[name])]
    items, systems = _places(frame, free, candidates)
    yield from _of(declared, _verdicts(frame, free, candidates, items), frame.columns)
    if candidates["winner"] and any(set(NAMES["system"]) & set(parts(name)) for name, _ in sides(free)):
        return  # of two systems a row: no other shape is meant
    pairs = [(item, system) for item, system in product(items, systems) if item != system][: CHOICES * CHOICES]
    for shape in (_long, _half_long, _wide):
        for item, system in pairs:
            others = [name for name in numbers if name not in (item, system)]
            base = {"item": item, "system": system}
            aspects = [
                name for name in candidates["aspect"] if normalised(name) != "question" or _varies(frame, name, item)
            ]
            yield from _of(
                declared, shape(frame, base, others, {**candidates, "aspect": aspects}, declared), frame.columns
            )


ROLES_GUESSED = ("item", "system", "rater", "score", "aspect", "kind", "repeat", "winner", "order")


def _of(declared: Columns, shapes: Guess, names: Sequence[str]) -> Iterator[Columns]:
    """Guesses under what the caller said; a column that has the name of its role needs no word, and neither does a
    pattern that finds nothing left."""
    for roles, patterns in shapes:
        if len(set(roles.values())) == len(roles):
            mapped = {role: name for role, name in roles.items() if role != name and role not in declared.roles}
            whole = Columns(
                roles={**mapped, **declared.roles}, patterns=tuple(dict.fromkeys((*declared.patterns, *patterns)))
            )
            matched = whole.matched(names)
            new = tuple(
                pattern for pattern in whole.patterns if pattern in matched and pattern not in declared.patterns
            )
            patterns_left = declared.patterns if "score" in declared.roles else (*declared.patterns, *new)
            yield Columns(roles=declared.roles, patterns=patterns_left).over(Columns(roles=mapped))


def _places(
    frame: pl.DataFrame, free: Sequence[str], candidates: Mapping[str, Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Columns that may be the item and the system: by name, then by how many labels they hold."""
    counts = {name: frame[name].n_unique() for name in free if not frame[name].dtype.is_nested()}
    labels = [name for name in counts if not frame[name].dtype.is_float() and not looks_human(name)]
    words = [name for name in labels if not _is_number(frame[name])]
    few = sorted((n for n in words if 2 <= counts[n] <= min(MOST_SYSTEMS, frame.height / 2)), key=counts.__getitem__)
    many = sorted((n for n in labels if counts[n] > 1 and _may_name(frame[n])), key=counts.__getitem__, reverse=True)
    items = list(dict.fromkeys([*candidates["item"], *many]))
    return items[:CHOICES], list(dict.fromkeys([*candidates["system"], *few]))[:CHOICES]


def _verdicts(
    frame: pl.DataFrame, free: Sequence[str], candidates: Mapping[str, Sequence[str]], items: Sequence[str]
) -> Guess:
    """Two systems and who is better.

    Only a column with a number below 0 is tried as `preference` where it is not named so: there 0 is a tie.
    """
    for (a, b), item in product(sides(free)[:CHOICES], items):
        for winner in candidates["winner"][:2]:
            signs = numbers_of(frame[winner]).lt(0).any()
            for role in ("preference", "winner") if winner == "preference" else ("winner", "preference"):
                if role == winner or role == "winner" or signs:
                    base = {"item": item, "system_a": a, "system_b": b, role: winner}
                    more = _others(base, candidates, ("rater", "aspect", "kind", "repeat"))
                    yield {**base, **more, **_others({**base, **more}, candidates, ("order",))}, ()


def _others(base: Mapping[str, str], candidates: Mapping[str, Sequence[str]], roles: Sequence[str]) -> dict[str, str]:
    """Further roles that columns have the names of."""
    others: dict[str, str] = {}
    for role in roles:
        free = [name for name in candidates[role] if name not in base.values() and name not in others.values()]
        others |= {role: free[0]} if free else {}
    return others


def _long(
    frame: pl.DataFrame,
    base: dict[str, str],
    numbers: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    declared: Columns,
) -> Guess:
    """A row per rating."""
    scores = [name for name in candidates["score"] if name in numbers or name in declared.roles.values()]
    more = _others(base, candidates, ("rater", "aspect", "kind", "repeat"))
    for score in scores[:2]:
        if "rater" in more and score not in more.values():
            yield {**base, **more, "score": score}, ()
            yield {**base, "rater": more["rater"], "score": score}, ()


def _half_long(
    frame: pl.DataFrame,
    base: dict[str, str],
    numbers: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    declared: Columns,
) -> Guess:
    """A row per rater and output, with a column for each aspect."""
    more = _others(base, candidates, ("rater", "repeat"))
    aspects = [name for name in numbers if name not in more.values()]
    if (
        "rater" not in more
        or any(map(looks_human, aspects))
        or all(GENERIC.issuperset(parts(name)) for name in aspects)
    ):
        return
    kind = "human:" if PEOPLE_ROLES & set(parts(more["rater"])) else ""
    firsts = {parts(name)[0] for name in aspects}
    rated = [name for name in aspects if set(parts(name)) & (ASPECTS | GENERIC) and not AVERAGES & set(parts(name))]
    if len(rated) < len(aspects) and rated:
        yield {**base, **more}, (f"{kind}{{aspect:{','.join(rated)}}}",)
    if len(aspects) > 1 and len(firsts) == 1 and (first := next(iter(firsts))) in GENERIC:
        lead = aspects[0][: len(first) + 1]
        yield {**base, **more}, (f"{kind}{literal(lead)}{{aspect}}",)
    yield {**base, **more}, (f"{kind}{{aspect}}",)


def _wide(
    frame: pl.DataFrame,
    base: dict[str, str],
    numbers: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    declared: Columns,
) -> Guess:
    """A row per output, with a column for each rater."""
    more = _others(base, candidates, ("aspect", "repeat"))
    more = {role: name for role, name in more.items() if name == role}
    scores = [name for name in numbers if name not in more.values() and (name == "score" or name not in ROLES)]
    patterns, people = people_patterns(frame, scores)
    if patterns:
        yield {**base, **more}, (*patterns, *rest_pattern(scores, people))
    elif people:
        return
    if averages(scores):
        plain = [name for name in scores if name not in averages(scores)]
        yield {**base, **more}, (f"{{rater:{','.join(plain)}}}",)
        return
    yield {**base, **more}, ()
    yield {**base, **more}, ("{rater}",)


def _may_name(column: pl.Series) -> bool:
    """Whether cells may be labels of raters, and are no scores: each is there for several rows, and none is broken."""
    if column.dtype.is_nested() or column.dtype.is_float() or column.n_unique() > column.len() / 2:
        return False
    return not (_is_number(column) and column.cast(pl.String).str.contains(".", literal=True).any())


def _varies(frame: pl.DataFrame, name: str, item: str) -> bool:
    """Whether a column says several things of an item; one that says one thing is part of the item."""
    return bool((frame.group_by(item).agg(pl.col(name).n_unique())[name] > 1).any()) if name != item else False


def _is_number(column: pl.Series) -> bool:
    """Whether every cell is a number or empty, and one is a number."""
    cells, numbers = counted_cells(column)
    return 0 < cells == numbers
