"""Guesses of a mapping for a table that no reader accepts, from names and cells. A mapping "reads" a table if a reader
accepts the mapped table. Only a guess that reads the table is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from os.path import commonprefix

import polars as pl

from custodes.data.mapping.annotator_columns import (
    nested_patterns,
    numbers_of,
    people_patterns,
    rest_pattern,
)
from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    AVERAGES,
    GENERIC,
    IDS,
    NAMES,
    PEOPLE_ROLES,
    SCORERS,
    WON,
    averages,
    is_fact,
    is_measure,
    kind_words,
    looks_human,
    named,
    normalised,
    parts,
    sides,
    stem,
)
from custodes.data.mapping.columns import RATED, Columns
from custodes.data.mapping.guess_texts import (
    CATEGORIES,
    CHOICES,
    has_another_role,
    is_index,
    is_number,
    is_prose,
    is_text,
    is_time,
    judges,
    looks_like_score,
    may_be_scores,
    may_be_systems,
    per_system,
    text_guesses,
    texts_beside,
    texts_of_pairs,
)
from custodes.data.mapping.pattern import literal, matches
from custodes.data.mapping.phrases import may_be_phrases, proposed_phrases
from custodes.data.mapping.text_columns import TEXTS
from custodes.data.table import MISSING_TOKENS, counted_cells

LOOKED_AT = 5000
"""Number of rows from which guesses are derived."""

SAMPLED = 1000
"""Number of rows used to distinguish phrases and texts from labels."""

NEARLY = r"^(#[A-Z/0-9!?]+|[+-]?\d[\d.,'\u2019\s]*(%|/\s*\d+|\s*[-(:]\s*\D.*)?)$"
"""Cells of score columns that are not numbers: `1.234,5`, `50%`, `4/5`, `4 - good`, `#REF!`."""

PROSE = 4
"""Minimum number of blanks in a cell that is a text rather than a rating in words."""

RATERS = ("rater", "aspect", "kind", "repeat")
ROLES_GUESSED = ("item", "system", "score", *RATERS, "winner", "order")

Guess = Iterator[tuple[dict[str, str], tuple[str, ...]]]
"""Roles and patterns to try."""
Verdicts = Iterator[tuple[dict[str, str], Sequence[str]]]
"""Roles of the columns of verdicts, and further roles."""


def certain(frame: pl.DataFrame, declared: Columns, reads: Callable[[pl.DataFrame, Columns], bool]) -> Columns | None:
    """The mapping of texts that reads the table and is certain according to names and cells; None if there is no
    certain mapping."""
    head = frame.head(LOOKED_AT)
    for guess, is_certain in text_guesses(frame.head(SAMPLED), declared):
        if guess != declared and reads(head, guess):
            return guess if is_certain and (frame.height <= LOOKED_AT or reads(frame, guess)) else None
    return None


def suggested(
    frame: pl.DataFrame,
    declared: Columns,
    reads: Callable[[pl.DataFrame, Columns, int], bool],
    wrong: str,
    nested: Collection[str] = (),
) -> str:
    """Advice such as `; try --column item=doc_id ...`, with the first guess that reads the table; empty if no guess
    reads the table.

    `declared` is the mapping of the user, which is a part of all guesses. `nested` are the columns from nested cells. A
    guess that would drop a score column because of invalid cells is not suggested. The advice then names the cell to
    correct, unless the message `wrong` already names that cell.
    """
    head = frame.head(LOOKED_AT)
    texts: Iterable[Columns] = (guess for guess, _ in text_guesses(frame.head(SAMPLED), declared))
    has_scores = any(looks_like_score(name) for name in head.columns if is_number(head[name]))
    if has_scores:  # a mapping of texts alone would drop the scores, but scores are useless if nothing can be compared
        texts = (guess for guess in texts if _of_one_system(frame, guess))
    guess_lists = [guesses(head, declared, nested), texts]
    has_pairs = sides(head.columns) and named("winner", head.columns)
    if not has_scores and not has_pairs and texts_beside(frame.head(SAMPLED), []):
        guess_lists = [sorted(texts, key=lambda guess: _of_one_system(frame, guess)), guess_lists[0]]
    for guess in chain(*guess_lists):
        n_systems = 1 if _of_one_system(frame, guess) else 2
        if (
            guess != declared
            and reads(head, guess, n_systems)
            and (frame.height <= LOOKED_AT or reads(frame, guess, n_systems))
        ):
            invalid_cell = _broken(frame, guess)
            if invalid_cell:
                return (
                    ""
                    if invalid_cell in wrong
                    else f"; {invalid_cell} is not a number: correct this cell, then a mapping can be suggested"
                )
            return f"; try {flags(guess)} (in Python columns={guess.mapping})"
    return ""


def _of_one_system(frame: pl.DataFrame, guess: Columns) -> bool:
    """Whether a mapping names no column of systems, or a column with only one system."""
    if {"output_a", "system_a"} & guess.roles.keys() or any(
        "{system" in name for name in (guess.roles.get("text", ""), *guess.patterns)
    ):
        return False
    system = guess.roles.get("system", "system")
    return system not in frame.columns or frame[system].n_unique() < 2


def _broken(frame: pl.DataFrame, guess: Columns) -> str:
    """Text such as `NAME 'cell' in row 1`, for the first column of scores that the guess drops because some cells are
    not numbers.

    A column is a column of scores if most cells are numbers or similar to numbers, or if the column is named like a
    rating.
    """
    if not guess.matched(frame.columns):
        return ""
    for name in frame.columns:
        n_cells, n_numbers = counted_cells(frame[name])
        if name in guess.roles.values() or name in RATED or n_numbers == n_cells or not is_text(frame[name]):
            continue
        if not (CATEGORIES | IDS).isdisjoint(parts(name)):
            continue
        texts = frame[name].str.strip_chars()
        is_invalid = texts.is_not_null() & ~texts.str.to_lowercase().is_in(MISSING_TOKENS) & numbers_of(texts).is_null()
        n_nearly = int((is_invalid & texts.fill_null("").str.contains(NEARLY)).sum())
        is_rating = looks_human(name) or {stem(word) for word in parts(name)} & (ASPECTS | SCORERS)
        has_prose = bool((texts.filter(is_invalid).str.count_matches(r"\s") >= PROSE).any())
        words = {word.rstrip("0123456789") for cell in texts.filter(is_invalid).head(CHOICES) for word in parts(cell)}
        if 2 * (n_numbers + n_nearly) >= n_cells or (is_rating and not has_prose and words.isdisjoint(PEOPLE_ROLES)):
            row = int(is_invalid.arg_true()[0])
            return f"{name} {texts[row]!r} in row {row + 1}"
    return ""


def flags(columns: Columns) -> str:
    """A mapping as command-line options."""
    options = [f"--column {shlex.quote(f'{role}={name}')}" for role, name in columns.roles.items()]
    return " ".join([*options, *(f"--columns {shlex.quote(pattern)}" for pattern in columns.patterns)])


def guesses(frame: pl.DataFrame, declared: Columns, nested: Collection[str] = ()) -> Iterator[Columns]:
    """Mappings that may read a table, the most likely mapping first: mappings of verdicts, of long tables and of wide
    tables, and then mappings of scores of a single system, which is named after the file."""
    declared_names = set(declared.roles.values())
    free = [name for name in frame.columns if name and name not in declared_names]
    candidates = {
        role: [declared.roles[role]] if role in declared.roles else named(role, free) for role in ROLES_GUESSED
    }
    numbers = [name for name in free if is_number(frame[name]) and not is_fact(name) and not is_index(frame[name])]
    if "rater" not in declared.roles:
        raters = [*candidates["rater"], *(name for name in free if name.endswith(".*.name"))]
        candidates["rater"] = [name for name in raters if _may_name(frame[name])]
    if "kind" not in declared.roles:
        candidates["kind"] = [name for name in candidates["kind"] if kind_words(frame[name]) is not None]
    has_pairs = any(set(NAMES["system"]) & set(parts(name)) for name, _ in sides(free))
    items, systems = _places(frame, free, candidates)
    yield from _of(declared, _verdicts(frame, free, candidates, items), frame.columns)
    if candidates["winner"] and has_pairs:
        return  # no other layout is possible
    texts = {} if "text" in declared.roles else texts_beside(frame.head(SAMPLED), [*declared_names])
    pairs = [(item, system) for item, system in product(items, systems) if item != system][: CHOICES * CHOICES]
    # If every row is a different item, no two systems can be compared.
    pairs.sort(key=lambda pair: frame[pair[0]].n_unique() == frame.height)
    bases = [{"item": item, "system": system} for item, system in pairs]
    bases_of_one: list[dict[str, str]] = []
    if "system" not in (*declared.roles, *frame.columns):
        yield from _of(declared, per_system(frame, free), frame.columns)
        if not has_pairs and not declared.patterns and any(may_be_scores(column) for column in frame):
            bases_of_one = _places_of_one(frame, free, numbers, texts)
    for make_layouts, base in (*product((_long, _half_long, _wide), bases), *product((_long, _wide), bases_of_one)):
        item = base["item"]
        scores = [name for name in numbers if name not in base.values() and _tells(frame, name, item)]
        aspects = [
            name for name in candidates["aspect"] if normalised(name) != "question" or _varies(frame, name, item)
        ]
        layouts = list(make_layouts(frame, base, scores, {**candidates, "aspect": aspects}, declared, nested))
        yield from _of(declared, chain(_with_texts(layouts, texts, declared), layouts), frame.columns)


def _places_of_one(
    frame: pl.DataFrame, free: Sequence[str], numbers: Sequence[str], texts: Mapping[str, str]
) -> list[dict[str, str]]:
    """Candidate mappings of the item in a table of one system. A constant column may hold the name of the system."""
    systems = [name for name in named("system", free) if frame[name].n_unique() == 1 and is_text(frame[name])]
    item_columns = [
        *(name for name in named("item", free) if not is_time(frame[name]) and name not in numbers),
        *(name for name in free if parts(name)[-1] in IDS or (is_index(frame[name]) and not is_measure(name))),
        *([texts["source"]] if "source" in texts else []),
    ]
    system_role = {"system": systems[0]} if systems else {}
    return [{"item": item, **system_role} for item in dict.fromkeys(item_columns)]


def _with_texts(
    layouts: Sequence[tuple[dict[str, str], tuple[str, ...]]], texts: Mapping[str, str], declared: Columns
) -> Guess:
    """Layouts of scores, completed by the text columns of the table. The source may serve as the item."""
    for roles, patterns in layouts:
        text_roles = {
            role: name
            for role, name in texts.items()
            if name not in roles.values() or (role == "source" and name == roles["item"])
        }
        if "text" in text_roles and (patterns or declared.patterns or "score" in roles):
            yield {**roles, **text_roles}, patterns


def _of(declared: Columns, layouts: Guess, names: Sequence[str]) -> Iterator[Columns]:
    """Guesses, completed by the mapping of the user. Columns that already have the name of their role, and patterns
    without a match, are left out."""
    for roles, patterns in layouts:
        allowed_equal = (("source", "item"), ("winner", "system_a"))
        duplicates = {role for role, other_role in allowed_equal if roles.get(role) == roles.get(other_role)}
        if len(set(roles.values())) == len({*roles} - duplicates):
            mapped = {
                role: name
                for role, name in roles.items()
                if (role != name or role in TEXTS or role in duplicates) and role not in declared.roles
            }
            all_patterns = tuple(dict.fromkeys((*declared.patterns, *patterns)))
            matched_patterns = Columns(roles={**mapped, **declared.roles}, patterns=all_patterns).matched(names)
            matching = [
                pattern for pattern in all_patterns if pattern in matched_patterns and "score" not in declared.roles
            ]
            merged_patterns = tuple(dict.fromkeys((*declared.patterns, *matching)))
            yield Columns(roles=declared.roles, patterns=merged_patterns).over(Columns(roles=mapped))


def _places(
    frame: pl.DataFrame, free: Sequence[str], candidates: Mapping[str, Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Candidate columns for the item and for the system. Candidates by name come first, followed by candidates by the
    number of distinct labels."""
    n_values = {name: frame[name].n_unique() for name in free if not frame[name].dtype.is_nested()}
    labels = [name for name in n_values if not frame[name].dtype.is_float() and not looks_human(name)]
    likely_items = sorted(
        (n for n in labels if n_values[n] > 1 and _may_name(frame[n]) and not (is_time(frame[n]) or judges(frame[n]))),
        key=n_values.__getitem__,
        reverse=True,
    )
    items = list(dict.fromkeys([*candidates["item"], *(name for name in likely_items if not is_measure(name))]))
    system_words = [
        name for name in labels if may_be_systems(frame[name]) and not has_another_role(name, "system", "item")
    ]
    likely_systems = sorted(
        (
            name
            for name in system_words
            if not (name.endswith(".*.name") or is_fact(name))
            and (not items or any(_varies(frame, name, item) for item in items[:CHOICES]))
        ),
        key=n_values.__getitem__,
    )
    by_name = [name for name in candidates["system"] if n_values.get(name, 2) > 1 and not is_time(frame[name])]
    return items[:CHOICES], list(dict.fromkeys([*by_name, *likely_systems]))[:CHOICES]


def _verdicts(
    frame: pl.DataFrame, free: Sequence[str], candidates: Mapping[str, Sequence[str]], items: Sequence[str]
) -> Guess:
    """Layouts with two systems and the winner.

    A column is tried as `preference` only if the column has this name or negative numbers. In a column `preference`, 0
    is a tie.
    """
    pairs = [pair for pair in sides(free) if not all(is_prose(frame[name]) for name in pair)][:CHOICES]
    head = frame.head(SAMPLED)
    phrase_columns = [name for name in free if pairs and may_be_phrases(head[name]) and not is_time(head[name])]
    phrases = {name: phrase for name in phrase_columns if (phrase := proposed_phrases(head[name]))}
    unique_names = [name for name in free if frame[name].n_unique() == frame.height and not is_time(frame[name])]
    id_columns = [
        name for name in unique_names if name not in items and name not in phrases and not is_prose(frame[name])
    ]
    winners = [name for name in candidates["winner"] if not is_prose(head[name])]
    output_roles = texts_of_pairs(head, [])  # used if no columns name the systems
    bases = [{"system_a": a, "system_b": b} for a, b in pairs] or ([output_roles] if output_roles else [])
    for base, item in product(bases, [*items, *id_columns[:1]]):
        verdict_columns = [name for name in winners if name not in (item, *base.values())]
        phrase_columns = [name for name in phrases if name not in (item, *base.values())]
        for verdict_roles, further_roles in (
            *_by_name(frame, base, verdict_columns, free),
            *_in_words(frame, verdict_columns),
            *_in_phrases(phrase_columns, phrases, has_order=bool(candidates["order"])),
        ):
            roles = {"item": item, **base, **verdict_roles}
            yield from _with_outputs(head, roles | _other_roles(roles, candidates, further_roles))


def _by_name(frame: pl.DataFrame, base: Mapping[str, str], columns: Sequence[str], free: Sequence[str]) -> Verdicts:
    """Layouts with the winner and the loser, or with the names of the systems and one column of verdicts per rater."""
    first = base.get("system_a", "")
    if not first or any(is_number(frame[name]) for name in base.values()):
        return
    if WON.isdisjoint(parts(first)):
        yield from (({"winner": pattern}, ("repeat", "order")) for pattern in _patterns_of(columns, free))
    else:
        yield {"winner": first}, RATERS


def _in_words(frame: pl.DataFrame, columns: Sequence[str]) -> Verdicts:
    """Layouts with one column of verdicts."""
    for winner in columns[:2]:
        has_negative = numbers_of(frame[winner]).lt(0).any()
        for role in ("preference", "winner") if winner == "preference" else ("winner", "preference"):
            if role == winner or role == "winner" or has_negative:
                yield {role: winner}, (*RATERS, "order")


def _in_phrases(columns: Sequence[str], phrases: Mapping[str, str], *, has_order: bool) -> Verdicts:
    """Layouts with a column of phrases. Phrases mostly name the outputs in the order in which the judge saw them."""
    for winner in columns:
        by_position = phrases[winner].replace("{winner}", "{position}")
        for phrase in (by_position, phrases[winner]) if has_order else (phrases[winner], by_position):
            yield {"winner": winner, "phrase": phrase}, (*RATERS, "order")


def _with_outputs(head: pl.DataFrame, roles: Mapping[str, str]) -> Guess:
    """Roles that include the two outputs, if the table has columns of outputs; then roles without outputs."""
    outputs = texts_of_pairs(head, [name for role, name in roles.items() if role != "item"])
    if outputs:
        yield {**roles, **outputs}, ()
    yield dict(roles), ()


def _patterns_of(columns: Sequence[str], free: Sequence[str]) -> Iterator[str]:
    """Patterns such as `{rater}_choice`, each for at least two columns of verdicts."""
    if len(columns) < 2:
        return
    patterns = []
    for separator in re.finditer(r"[\W_]+", columns[0]):
        left, right = columns[0][: separator.end()], columns[0][separator.start() :]
        patterns += [f"{literal(left)}{{rater}}", f"{{rater}}{literal(right)}"]
    yield from (name for name in patterns if set(matches(name, free)) == set(columns))
    yield f"{{rater:{','.join(map(literal, columns))}}}"


def _other_roles(
    base: Mapping[str, str], candidates: Mapping[str, Sequence[str]], roles: Sequence[str]
) -> dict[str, str]:
    """Further roles, for columns that have the name of one of these roles."""
    other_roles: dict[str, str] = {}
    for role in roles:
        free = [name for name in candidates[role] if name not in base.values() and name not in other_roles.values()]
        other_roles |= {role: free[0]} if free else {}
    return other_roles


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
    aspects = [name for name in numbers if ASPECTS & {stem(word) for word in parts(name)}]
    if len(aspects) > 1:  # next to an aspect such as fluency, overall is an aspect too
        scores = [name for name in scores if name not in aspects or name in declared.roles.values()]
    if not scores and len(numbers) == 1 and not ASPECTS & {stem(word) for word in parts(numbers[0])}:
        scores = list(numbers)
    further_roles = _other_roles(base, candidates, ("rater", "aspect", "kind", "repeat"))
    for score in scores[:2]:
        if "rater" in further_roles and score not in further_roles.values():
            yield {**base, **further_roles, "score": score}, ()
            yield {**base, "rater": further_roles["rater"], "score": score}, ()


def _half_long(
    frame: pl.DataFrame,
    base: dict[str, str],
    numbers: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    declared: Columns,
    nested: Collection[str],
) -> Guess:
    """Layouts with one row per rater and output, and a column per aspect."""
    further_roles = _other_roles(base, candidates, ("rater", "repeat"))
    aspects = [name for name in numbers if name not in further_roles.values()]
    if (
        "rater" not in further_roles
        or any(map(looks_human, aspects))
        or all(GENERIC.issuperset(parts(name)) for name in aspects)
    ):
        return
    kind_prefix = "human:" if PEOPLE_ROLES & set(parts(further_roles["rater"])) else ""
    rated_names = [
        name for name in aspects if set(parts(name)) & (ASPECTS | GENERIC) and not AVERAGES & set(parts(name))
    ]
    rated_names = rated_names or aspects
    used_names = (*aspects, *base.values(), *further_roles.values())
    unused_names = [name for name in frame.columns if is_number(frame[name]) and name not in used_names]
    prefix = re.sub(r"[^\W_]*$", "", commonprefix(rated_names)) if len(rated_names) > 1 else ""  # noqa: RUF071
    for pattern in (f"{literal(prefix)}{{aspect}}", f"{{aspect:{','.join(map(literal, rated_names))}}}"):
        if matches(pattern, [*aspects, *unused_names]).keys() == set(rated_names):
            yield {**base, **further_roles}, (f"{kind_prefix}{pattern}",)


def _wide(
    frame: pl.DataFrame,
    base: dict[str, str],
    numbers: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    declared: Columns,
    nested: Collection[str],
) -> Guess:
    """Layouts with one row per output, and a column per rater."""
    further_roles = {
        role: name for role, name in _other_roles(base, candidates, ("aspect", "repeat")).items() if name == role
    }
    scores = [name for name in numbers if name not in further_roles.values() and (name == "score" or name not in RATED)]
    object_patterns, flat_columns = nested_patterns(frame, [name for name in scores if name in nested])
    if object_patterns:
        scores = flat_columns + [name for name in scores if name not in nested]
    patterns, human_columns = people_patterns(frame, scores)
    # Numbers that are not scores, such as the latency of a request, match no pattern.
    other_numbers = [
        name
        for name in frame.columns
        if name not in (*base.values(), *scores, *further_roles.values())
        and is_number(frame[name])
        and name not in RATED
    ]
    if patterns or object_patterns:
        aspects = {row.get("aspect", "") for pattern in patterns for row in matches(pattern, human_columns).values()}
        metric_patterns = rest_pattern(scores, human_columns, other_numbers, sorted(aspects - {""}))
        yield {**base, **further_roles}, (*object_patterns, *patterns, *metric_patterns)
    elif human_columns:
        return
    if averages(scores) or other_numbers or nested:
        single_scores = [
            name for name in scores if name not in averages(scores) and (not nested or frame[name].n_unique() > 1)
        ]
        if single_scores:
            yield {**base, **further_roles}, (f"{{rater:{','.join(single_scores)}}}",)
        return
    yield {**base, **further_roles}, ()
    yield {**base, **further_roles}, ("{rater}",)


def _may_name(column: pl.Series) -> bool:
    """Whether cells may be labels of raters or items: a label occurs at least twice on average, and the cells are not
    numbers with a decimal point."""
    if column.dtype.is_nested() or column.dtype.is_float() or column.n_unique() > column.len() / 2:
        return False
    return not (is_number(column) and column.cast(pl.String).str.contains(".", literal=True).any())


def _tells(frame: pl.DataFrame, name: str, item: str) -> bool:
    """Whether the numbers of a column may be scores: the column has the name of a score, or its numbers do not merely
    number the items."""
    numbers_the_item = frame[name].n_unique() == frame[item].n_unique() < frame.height
    return looks_like_score(name) or not numbers_the_item or _varies(frame, name, item)


def _varies(frame: pl.DataFrame, name: str, item: str) -> bool:
    """Whether a column has several values for an item; otherwise it describes the item."""
    return bool((frame.group_by(item).agg(pl.col(name).n_unique())[name] > 1).any()) if name != item else False
