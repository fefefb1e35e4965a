"""Guesses of a mapping for a table that cannot be read as it is, from names and content; only working ones are
shown."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, product

import polars as pl

from custodes.data.mapping.annotator_columns import (
    nested_patterns,
    numbers_of,
    people_patterns,
    pooled_aspects,
    rest_pattern,
)
from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    AVERAGES,
    GENERIC,
    NAMES,
    PEOPLE_ROLES,
    SCORERS,
    averages,
    is_fact,
    looks_human,
    named,
    normalised,
    parts,
    sides,
    stem,
)
from custodes.data.mapping.columns import RATED, Columns
from custodes.data.mapping.guess_texts import (
    has_another_role,
    is_index,
    is_number,
    is_prose,
    is_text,
    is_time,
    judges,
    looks_like_score,
    may_be_systems,
    per_system,
    text_guesses,
    texts_beside,
    texts_of_pairs,
)
from custodes.data.mapping.pattern import literal
from custodes.data.mapping.phrases import may_be_phrases, proposed_phrases
from custodes.data.mapping.text_columns import TEXTS
from custodes.data.notes import Note, noted
from custodes.data.table import MISSING_TOKENS, counted_cells
from custodes.errors import CustodesError, listed

Guess = Iterator[tuple[dict[str, str], tuple[str, ...]]]
"""Roles and patterns to try."""

LOOKED_AT = 5000
"""Rows from which guesses are derived."""

SAMPLED = 1000
"""Rows from which text columns are detected."""

CHOICES = 4
"""Most candidate columns for an item and for a system."""

NEARLY = r"^(#[A-Z/0-9!?]+|[+-]?\d[\d.,'\u2019\s]*(%|/\s*\d+|\s*[-(:]\s*\D.*)?)$"
"""Cells of score columns that are not numbers: `1.234,5`, `50%`, `4/5`, `4 - good`, `#REF!`."""

PROSE = 4
"""Fewest blanks in a cell that is a text rather than a rating in words."""


def certain(frame: pl.DataFrame, declared: Columns, reads: Callable[[pl.DataFrame, Columns], bool]) -> Columns | None:
    """The mapping of texts that reads the table and is certain from names and cells; None without any."""
    head = frame.head(LOOKED_AT)
    for guess, sure in text_guesses(frame.head(SAMPLED), declared):
        if guess != declared and reads(head, guess):
            return guess if sure and (frame.height <= LOOKED_AT or reads(frame, guess)) else None
    return None


def suggested(
    frame: pl.DataFrame,
    declared: Columns,
    reads: Callable[[pl.DataFrame, Columns], bool],
    wrong: str,
    nested: Collection[str] = (),
) -> str:
    """Advice `; try --column item=doc_id ...` with the first guess that reads the table; empty without any.

    `declared` is the mapping given by the user, which all guesses keep; `nested` are the columns from nested cells. A
    guess that would drop a score column because of invalid cells is not suggested; instead the advice is what to
    correct, unless the message `wrong` already says so.
    """
    head = frame.head(LOOKED_AT)
    ratings: Iterator[Columns] = guesses(head, declared, nested)
    texts = (guess.columns for guess in text_guesses(frame.head(SAMPLED), declared))
    scored = any(looks_like_score(name) for name in head.columns if is_number(head[name]))
    if scored:  # a mapping of texts alone would drop the scores, but they are useless if nothing can be compared
        texts = (guess for guess in texts if _of_one_system(frame, guess))
    first, then = (texts, ratings) if not scored and texts_beside(frame.head(SAMPLED), []) else (ratings, texts)
    for guess in chain(first, then):
        if guess != declared and reads(head, guess) and (frame.height <= LOOKED_AT or reads(frame, guess)):
            broken = _broken(frame, guess)
            if broken:
                return (
                    "" if broken in wrong else f"; {broken} is not a number: correct it, and a mapping can be suggested"
                )
            return f"; try {flags(guess)} (in Python columns={guess.mapping})"
    return ""


def _of_one_system(frame: pl.DataFrame, guess: Columns) -> bool:
    """Whether a mapping of texts has outputs of one system only."""
    if guess.text_pattern or "output_a" in guess.roles:
        return False
    system = guess.roles.get("system", "system")
    return system not in frame.columns or frame[system].n_unique() < 2


def _broken(frame: pl.DataFrame, guess: Columns) -> str:
    """`NAME 'cell' in row 1` for the first dropped column that holds scores except for some cells.

    Most of its cells are numbers or nearly so, or its name is that of a rating.
    """
    if not guess.matched(frame.columns):
        return ""
    for name in frame.columns:
        cells, numbers = counted_cells(frame[name])
        if name in guess.roles.values() or name in RATED or numbers == cells or not is_text(frame[name]):
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
    """A mapping as command-line options."""
    options = [f"--column {shlex.quote(f'{role}={name}')}" for role, name in columns.roles.items()]
    return " ".join([*options, *(f"--columns {shlex.quote(pattern)}" for pattern in columns.patterns)])


def apart(frame: pl.DataFrame, raters: Sequence[str], *, where: str) -> list[Note]:
    """A note on columns of annotators that differ by aspect, with patterns that separate the aspects."""
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


def guesses(frame: pl.DataFrame, declared: Columns, nested: Collection[str] = ()) -> Iterator[Columns]:
    """Mappings that may read a table, the most likely first: for verdicts, long tables, wide tables."""
    taken = set(declared.roles.values())
    free = [name for name in frame.columns if name and name not in taken]
    candidates = {
        role: [declared.roles[role]] if role in declared.roles else named(role, free) for role in ROLES_GUESSED
    }
    numbers = [name for name in free if is_number(frame[name]) and not is_fact(name) and not is_index(frame[name])]
    if "rater" not in declared.roles:
        candidates["rater"] = [name for name in candidates["rater"] if _may_name(frame[name])]
    items, systems = _places(frame, free, candidates)
    yield from _of(declared, _verdicts(frame, free, candidates, items), frame.columns)
    if candidates["winner"] and any(set(NAMES["system"]) & set(parts(name)) for name, _ in sides(free)):
        return  # with two systems per row, no other layout is meant
    pairs = [(item, system) for item, system in product(items, systems) if item != system][: CHOICES * CHOICES]
    if "system" not in (*declared.roles, *frame.columns):
        yield from _of(declared, per_system(frame, free), frame.columns)
    beside = {} if "text" in declared.roles else texts_beside(frame.head(SAMPLED), [*taken])
    for shape in (_long, _half_long, _wide):
        for item, system in pairs:
            others = [name for name in numbers if name not in (item, system)]
            base = {"item": item, "system": system}
            aspects = [
                name for name in candidates["aspect"] if normalised(name) != "question" or _varies(frame, name, item)
            ]
            shapes = list(shape(frame, base, others, {**candidates, "aspect": aspects}, declared, nested))
            yield from _of(declared, _with_texts(shapes, beside, declared), frame.columns)
            yield from _of(declared, iter(shapes), frame.columns)


ROLES_GUESSED = ("item", "system", "rater", "score", "aspect", "kind", "repeat", "winner", "order")


def _with_texts(
    shapes: Sequence[tuple[dict[str, str], tuple[str, ...]]], texts: Mapping[str, str], declared: Columns
) -> Guess:
    """Layouts of scores, with the text columns next to them; the source may be the item."""
    for roles, patterns in shapes:
        more = {
            role: name
            for role, name in texts.items()
            if name not in roles.values() or (role == "source" and name == roles["item"])
        }
        if "text" in more and (patterns or declared.patterns or "score" in roles):
            yield {**roles, **more}, patterns


def _of(declared: Columns, shapes: Guess, names: Sequence[str]) -> Iterator[Columns]:
    """Guesses completed by the user's mapping; columns with the name of their role need no entry, nor patterns without
    a match."""
    for roles, patterns in shapes:
        if len(set(roles.values())) == len(
            {*roles} - ({"source"} if roles.get("source") == roles.get("item") else set())
        ):
            mapped = {
                role: name
                for role, name in roles.items()
                if (role != name or role in TEXTS) and role not in declared.roles
            }
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
    """Candidate columns for item and system: by name, then by number of distinct labels."""
    counts = {name: frame[name].n_unique() for name in free if not frame[name].dtype.is_nested()}
    labels = [name for name in counts if not frame[name].dtype.is_float() and not looks_human(name)]
    words = [name for name in labels if may_be_systems(frame[name]) and not has_another_role(name, "system", "item")]
    few = sorted((name for name in words if not is_fact(name)), key=counts.__getitem__)
    many = sorted(
        (n for n in labels if counts[n] > 1 and _may_name(frame[n]) and not is_time(frame[n]) and not judges(frame[n])),
        key=counts.__getitem__,
        reverse=True,
    )
    items = list(dict.fromkeys([*candidates["item"], *many]))
    by_name = [name for name in candidates["system"] if counts.get(name, 2) > 1 and not is_time(frame[name])]
    return items[:CHOICES], list(dict.fromkeys([*by_name, *few]))[:CHOICES]


def _verdicts(
    frame: pl.DataFrame, free: Sequence[str], candidates: Mapping[str, Sequence[str]], items: Sequence[str]
) -> Guess:
    """Layouts with two systems and the better one.

    As `preference`, only columns with negative numbers are tried unless they have that name: there 0 is a tie.
    """
    pairs = [pair for pair in sides(free) if not all(is_prose(frame[name]) for name in pair)][:CHOICES]
    sided = [pair for pair in pairs if not any(is_number(frame[name]) for name in pair)]
    head = frame.head(SAMPLED)
    texts = [name for name in free if sided and may_be_phrases(head[name]) and not is_time(head[name])]
    phrases = {name: phrase for name in texts if (phrase := proposed_phrases(head[name]))}
    unique = [name for name in free if frame[name].n_unique() == frame.height and not is_time(frame[name])]
    ids = [name for name in unique if name not in items and name not in phrases and not is_prose(frame[name])]
    outputs = texts_of_pairs(head, [])
    if outputs and not pairs:  # outputs without system names
        for item, winner in product(
            [*items, *ids[:1]], [name for name in candidates["winner"] if not is_prose(head[name])]
        ):
            base = {"item": item, "winner": winner, **outputs}
            yield base | _others(base, candidates, ("rater", "aspect", "kind", "repeat", "order")), ()
    for (a, b), item in product(pairs, [*items, *ids[:1]]):
        for winner in candidates["winner"][:2]:
            signs = numbers_of(frame[winner]).lt(0).any()
            for role in ("preference", "winner") if winner == "preference" else ("winner", "preference"):
                if role == winner or role == "winner" or signs:
                    base = {"item": item, "system_a": a, "system_b": b, role: winner}
                    more = _others(base, candidates, ("rater", "aspect", "kind", "repeat"))
                    roles = {**base, **more, **_others({**base, **more}, candidates, ("order",))}
                    texts_of_both = texts_of_pairs(head, [name for role, name in roles.items() if role != "item"])
                    if texts_of_both:
                        yield {**roles, **texts_of_both}, ()
                    yield roles, ()
        for winner, phrase in phrases.items():
            base = {"item": item, "system_a": a, "system_b": b, "winner": winner}
            more = _others(base, candidates, ("rater", "aspect", "kind", "repeat"))
            more |= _others({**base, **more}, candidates, ("order",))
            by_position = phrase.replace("{winner}", "{position}")
            # Phrases mostly refer to the outputs in displayed order.
            for patterns in (by_position, phrase) if "order" in more else (phrase, by_position):
                if winner not in (a, b, item):
                    yield {**base, **more, "phrase": patterns}, ()


def _others(base: Mapping[str, str], candidates: Mapping[str, Sequence[str]], roles: Sequence[str]) -> dict[str, str]:
    """Further roles for columns with the names of these roles."""
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
    nested: Collection[str],
) -> Guess:
    """Layouts with one row per rating."""
    scores = [name for name in candidates["score"] if name in numbers or name in declared.roles.values()]
    rated = [name for name in numbers if ASPECTS & {stem(part) for part in parts(name)}]
    if len(rated) > 1:  # overall next to fluency is an aspect
        scores = [name for name in scores if name not in rated or name in declared.roles.values()]
    if not scores and len(numbers) == 1 and not ASPECTS & {stem(part) for part in parts(numbers[0])}:
        scores = list(numbers)
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
    nested: Collection[str],
) -> Guess:
    """Layouts with one row per rater and output, and a column per aspect."""
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
    above = {name.rpartition(".")[0] for name in aspects}
    if aspects and set(aspects) <= set(nested) and len(above) == 1 and "" not in above:
        yield {**base, **more}, (f"{kind}{literal(above.pop())}.{{aspect}}",)
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
    nested: Collection[str],
) -> Guess:
    """Layouts with one row per output, and a column per rater."""
    more = _others(base, candidates, ("aspect", "repeat"))
    more = {role: name for role, name in more.items() if name == role}
    scores = [name for name in numbers if name not in more.values() and (name == "score" or name not in RATED)]
    below, flat = nested_patterns(frame, [name for name in scores if name in nested])
    if below:
        scores = flat + [name for name in scores if name not in nested]
    patterns, people = people_patterns(frame, scores)
    # Numbers that are not scores, such as the latency of a request, match no pattern.
    spare = [
        name
        for name in frame.columns
        if name not in (*base.values(), *scores, *more.values()) and is_number(frame[name]) and name not in RATED
    ]
    if patterns or below:
        metrics = rest_pattern(scores, people, spare)
        yield {**base, **more}, (*below, *patterns, *metrics)
    elif people:
        return
    if averages(scores) or spare or nested:
        plain = [name for name in scores if name not in averages(scores) and (not nested or frame[name].n_unique() > 1)]
        if plain:
            yield {**base, **more}, (f"{{rater:{','.join(plain)}}}",)
        return
    yield {**base, **more}, ()
    yield {**base, **more}, ("{rater}",)


def _may_name(column: pl.Series) -> bool:
    """Whether cells may be names of raters: each occurs in several rows, and none is a malformed number."""
    if column.dtype.is_nested() or column.dtype.is_float() or column.n_unique() > column.len() / 2:
        return False
    return not (is_number(column) and column.cast(pl.String).str.contains(".", literal=True).any())


def _varies(frame: pl.DataFrame, name: str, item: str) -> bool:
    """Whether a column has several values for an item; otherwise it describes the item."""
    return bool((frame.group_by(item).agg(pl.col(name).n_unique())[name] > 1).any()) if name != item else False
