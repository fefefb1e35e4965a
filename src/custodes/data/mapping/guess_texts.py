"""Guesses of text columns (outputs, systems and sources), from names and cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

import polars as pl

from custodes.data.mapping.annotator_columns import in_halves
from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    CORE,
    DECIDED,
    GENERIC,
    NAMES,
    SCORERS,
    TIME,
    TRUTH,
    WON,
    forms,
    is_fact,
    is_measure,
    looks_human,
    looks_like_machine,
    named,
    normalised,
    parts,
    sides,
    stem,
    word_list,
)
from custodes.data.mapping.columns import RATED, Columns
from custodes.data.mapping.pattern import literal, matches
from custodes.data.mapping.text_columns import ANSWERS, PAIR, several
from custodes.data.outputs import turns_of
from custodes.data.table import counted_cells

BLANKS = 2
"""Minimum mean number of blanks per cell for a column of prose."""
LABEL = 80
"""Maximum number of characters of a label."""
CHOICES = 4
"""Maximum number of candidate columns that are tried for a role."""
MOST_SYSTEMS = 200
FEWEST = 10
"""Minimum number of rows of a table in which consecutive numbers count as row numbers."""
CROSSED = 0.5
"""Minimum proportion of items with outputs of at least two systems for a comparison of systems."""
CATEGORY = 0.2
"""Maximum ratio of distinct values to rows in a column of categories. A column of categories holds short words and does
not have the name of a model or metric."""
OUTPUT_WORDS = word_list(
    "output outputs response responses answer answers completion completions generation generations generated"
    " prediction predictions pred hypothesis hyp summary translation text candidate reply result caption model"
    " system out"
)
"""Words for outputs in column names, for tables with a column of outputs per system."""
SIDES_OF_A_PAIR = frozenset(word_list("chosen rejected baseline candidate"))
CATEGORIES = frozenset(
    word_list(
        "category categories group topic language lang split subset domain type tag tags difficulty level source_type"
        " dataset task comment comments note notes remark explanation rationale reason feedback label verdict critique"
        " reasoning justification"
    )
)
"""Words in names of columns that describe items or rate outputs."""
WINNERS = CORE["winner"] | {"outcome"}
"""Names of columns that name the better of two outputs."""
UNCLEAR = frozenset(word_list("answer summary translation text content result reply caption candidate"))
"""Names of columns that hold outputs if the table has a column of systems; otherwise, they may be sources or
references."""
SIZES = frozenset(
    word_list("length len size count counts num n words chars characters sentences difficulty level turn turns")
)
"""Words in names of numbers that describe a text."""
RATED_BY_HAND = frozenset(word_list("rating ratings stars likert"))
SIDE = r"[\W_]*(a|b|1|2|x|y|left|right)$"
"""Ending of a column name for one side of a pair."""
TRUTHS = len(TRUTH) + 1


def text_guesses(frame: pl.DataFrame, declared: Columns) -> Iterator[tuple[Columns, bool]]:
    """Mappings of texts that may read a table, the most likely mapping first, each with a flag that is true if the
    mapping is certain."""
    taken = set(declared.roles.values())
    free = [name for name in frame.columns if name and name not in taken]
    rated = any(judges(frame[name]) for name in free) or any(may_be_scores(frame[name]) for name in free)
    seen = []
    sided = [pair for pair in sides(free) if _are_systems(frame, pair)]
    rated |= any(not WON.isdisjoint(parts(better)) for better, _ in sided)
    for shape in (_pairs,) if sided else (_conversations, _by_common_word, _rows, _any_columns):
        for roles, sure in shape(frame, free, declared.roles):
            columns = declared.over(Columns(roles=roles))
            if columns not in seen:
                seen.append(columns)
                yield columns, sure and not rated


Roles = Iterator[tuple[dict[str, str], bool]]


def texts_beside(frame: pl.DataFrame, taken: Sequence[str]) -> dict[str, str]:
    """Roles of the text columns in a table of scores: the output, and columns of prose that describe the item."""
    free = [name for name in frame.columns if name not in taken and is_prose(frame[name])]
    text = ["text"] if "text" in frame.columns and is_text(frame["text"]) else named("text", free)[:1]
    return {"text": text[0], **_of_item(frame, free, text)} if text else {}


def texts_of_pairs(frame: pl.DataFrame, taken: Sequence[str]) -> dict[str, str]:
    """Roles of the columns with the two outputs in a table of verdicts, and of columns that describe the item."""
    free = [name for name in frame.columns if name not in taken]
    pairs = [pair for pair in sides(free) if all(is_prose(frame[name]) for name in pair)]
    return {**dict(zip(PAIR, pairs[0], strict=True)), **_of_item(frame, free, pairs[0])} if pairs else {}


def per_system(frame: pl.DataFrame, free: Sequence[str]) -> Iterator[tuple[dict[str, str], tuple[str, ...]]]:
    """Roles and patterns of a table with one row per item, and columns of texts and scores for each system.

    The columns are `answer_gpt` and `human_gpt`, or nested: `texts.gpt` and `scores.gpt.bleu`.
    """
    scores = [name for name in free if is_number(frame[name]) and not is_fact(name)]
    for roles, _ in _by_common_word(frame, free, {}):
        systems = {labels["system"] for labels in matches(roles["text"], free).values()}
        raters: dict[tuple[str, str, str], list[str]] = {}  # texts before and after the system, and the rater
        for name, system in product(scores, systems):
            before, match, after = name.partition(system)
            gap, rater = re.fullmatch(r"([\W_]*)(.*)", after).groups()  # type: ignore[union-attr]
            if match and (gap or not rater) and "." not in rater and not before[-1:].isalnum():
                raters.setdefault((before, gap, rater), []).append(name)
        patterns: dict[str, list[str]] = {}
        for (before, gap, rater), columns in raters.items():
            if len(columns) > 1:
                pattern = f"{_kind(frame, before + rater, columns)}{literal(before)}{{system}}{literal(gap)}"
                patterns.setdefault(pattern, []).append(literal(rater))
        if patterns:
            yield (
                roles,
                tuple(
                    f"{pattern}{{rater:{','.join(names)}}}" if any(names) else pattern
                    for pattern, names in patterns.items()
                ),
            )


def _kind(frame: pl.DataFrame, pattern: str, columns: Collection[str]) -> str:
    """Prefix of a pattern: `human:` or `metric:`."""
    words = {stem(part) for part in parts(pattern)}
    rated = words & (ASPECTS | RATED_BY_HAND) and all(in_halves(frame[name]) for name in columns)
    return "human:" if looks_human(pattern) or rated else "metric:"


def is_number(column: pl.Series) -> bool:
    """Whether all cells are numbers or empty, and at least one is a number."""
    cells, numbers = counted_cells(column)
    return 0 < cells == numbers


def looks_like_score(name: str) -> bool:
    """Whether a numeric column has the name of a score."""
    words = {stem(part) for part in parts(name)}
    return not is_fact(name) and (looks_human(name) or not words.isdisjoint(ASPECTS | GENERIC | SCORERS))


def may_be_scores(column: pl.Series) -> bool:
    """Whether a column may hold scores. Row numbers, and properties of a request or text such as the number of tokens,
    are not scores."""
    if not is_number(column) or is_fact(column.name) or named("item", [column.name]):
        return False
    return column.n_unique() > 1 and not is_index(column) and SIZES.isdisjoint(map(stem, parts(column.name)))


def is_index(column: pl.Series) -> bool:
    """Whether the cells are row numbers."""
    if column.len() < FEWEST or not is_number(column) or column.null_count() or column.n_unique() < column.len():
        return False
    numbers = column.cast(pl.Float64)
    return bool((numbers.diff().drop_nulls() == 1).all())


def judges(column: pl.Series) -> bool:
    """Whether a column holds judgements of outputs: scores, binary labels, or the winner of a pair."""
    if is_number(column) or column.dtype == pl.Boolean:
        return looks_like_score(column.name)
    if column.dtype != pl.String:
        return False
    labels = set(column.drop_nulls().str.strip_chars().str.to_lowercase().unique().head(TRUTHS)) - {""}
    judged = bool(set(forms(column.name)) & WINNERS) or looks_human(column.name)
    return bool(labels) and (labels <= TRUTH or (judged and not is_prose(column)))


def is_text(column: pl.Series) -> bool:
    """Whether a column holds text rather than numbers, times or structures."""
    return column.dtype == pl.String and counted_cells(column)[0] > 0 and not is_number(column) and not is_time(column)


def is_time(column: pl.Series) -> bool:
    """Whether the cells are times."""
    cells = column.drop_nulls()
    written = column.dtype == pl.String and cells.len() > 0 and cells.str.strip_chars().str.contains(TIME).all()
    return column.dtype.is_temporal() or bool(written)


def is_prose(column: pl.Series) -> bool:
    """Whether most cells have several words."""
    return is_text(column) and _blanks(column) >= BLANKS


def may_be_systems(column: pl.Series) -> bool:
    """Whether the labels of a column may be systems. There must be several short labels, which are not times, numbers
    or ratings."""
    if not is_text(column):
        return False
    labels = column.drop_nulls().str.strip_chars()
    lower = set(labels.str.to_lowercase().unique())
    return (
        2 <= len(lower) <= min(MOST_SYSTEMS, column.len() / 2)
        and int(labels.str.len_chars().max() or 0) <= LABEL  # type: ignore[arg-type]
        and not lower <= TRUTH
        and not is_prose(column)
    )


def has_another_role(name: str, *roles: str) -> bool:
    """Whether a column has the name of a role other than `roles`."""
    others = (names for role, names in NAMES.items() if role not in roles)
    return bool(set(forms(name)) & {word for names in others for word in names})


def _blanks(column: pl.Series) -> float:
    held = column.drop_nulls().str.strip_chars()
    return float(held.filter(held != "").str.count_matches(r"\s+").mean() or 0)  # type: ignore[arg-type]


def _of_item(frame: pl.DataFrame, free: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """The roles of columns that describe the item: source, context, references and images."""
    left = [name for name in free if name not in outputs]
    roles: dict[str, str] = {}
    for role in ("references", "source", "context", "images"):
        lists = role in ("references", "images")
        texts = [name for name in left if is_text(frame[name]) or (lists and frame[name].dtype == pl.List(pl.String))]
        candidates = [*(_numbered(left, role) if role == "references" else ()), *named(role, texts)]
        suggested = CORE.get(role, frozenset())
        candidates += [name for name in texts if not suggested.isdisjoint(parts(name)) and is_prose(frame[name])]
        if candidates:
            roles[role] = candidates[0]
            left = [name for name in left if name not in several(candidates[0], left)]
    return roles


def _numbered(columns: Sequence[str], role: str) -> list[str]:
    """Globs of numbered columns: `reference_*` for `reference_1` and `reference_2`."""
    stems: dict[str, list[str]] = {}
    for name in columns:
        match = re.fullmatch(r"(.*?)[\W_]?\d+", name)
        if match and (match[1].lower() in NAMES[role] or not CORE[role].isdisjoint(parts(match[1]))):
            stems.setdefault(match[1], []).append(name)
    return [f"{start}*" for start, names in stems.items() if len(names) > 1 and start not in columns]


def _items(frame: pl.DataFrame, free: Sequence[str], source: str | None) -> list[str]:
    """Candidate columns for the item, the most likely column first: ids by name, the source, and columns of labels (the
    most values first)."""
    labels = [
        name
        for name in free
        if not (frame[name].dtype.is_float() or frame[name].dtype.is_nested() or is_time(frame[name]))
        and frame[name].n_unique() > 1
        and not is_measure(name)
    ]
    ids = [name for name in named("item", labels) if not is_prose(frame[name])]
    numbers = [name for name in labels if is_index(frame[name])]
    others = (name for name in labels if not (has_another_role(name, "item") or is_fact(name) or judges(frame[name])))
    many = [name for name in others if not is_prose(frame[name])]
    many.sort(key=lambda name: frame[name].n_unique(), reverse=True)
    return list(dict.fromkeys([*ids, *numbers, *([source] if source else []), *many]))


def _systems(frame: pl.DataFrame, free: Sequence[str]) -> tuple[list[str], list[str]]:
    """Candidate columns for the system, found by name (columns with several labels first), and then candidates found by
    cells."""
    columns = [
        frame[name] for name in named("system", free) if not (frame[name].dtype.is_nested() or is_time(frame[name]))
    ]
    by_name = [column.name for column in columns if _labels_few(column) and not is_prose(column)]
    by_name.sort(key=lambda name: frame[name].n_unique() < 2)
    others = [
        name
        for name in free
        if name not in by_name
        and may_be_systems(frame[name])
        and not is_fact(name)
        and not has_another_role(name, "system")
        and CATEGORIES.isdisjoint(parts(name))
    ]
    return by_name, others


def _labels_few(column: pl.Series) -> bool:
    return column.n_unique() <= max(1, min(MOST_SYSTEMS, column.len() / 2)) and not column.dtype.is_float()


def _crossed(frame: pl.DataFrame, item: str, system: str | None) -> bool:
    """Whether every output occurs only once, and most items have outputs of several systems."""
    by_system = [] if system is None else [pl.col(system).alias("system")]
    keys = frame.select(pl.col(item).cast(pl.String).alias("item"), *by_system)
    if keys.is_duplicated().any():
        return False
    if system is None or frame[system].n_unique() < 2:
        return True
    return bool((keys.group_by("item").len()["len"] > 1).mean() >= CROSSED)  # type: ignore[operator]


def _place(
    frame: pl.DataFrame, free: Sequence[str], source: str | None, declared: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], bool]]:
    """Columns of item and system in a table with one row per output, and whether both columns have usual names."""
    by_name, others = _systems(frame, free)
    of_roles = "system" if "system" in frame.columns else declared.get("system")
    systems = [of_roles] if of_roles else [*by_name, *others][:CHOICES]
    items = [declared["item"]] if "item" in declared else _items(frame, free, source)[:CHOICES]
    for system, item in product(systems or [None], items):  # type: ignore[list-item]
        if system == item or not _crossed(frame, item, system):
            continue
        clear = system in (None, *by_name, *declared.values(), "system")
        sure = clear and (item == source or item in named("item", [item]))
        varied = system is None or frame[system].n_unique() > 1
        yield {"item": item, **({"system": system} if system else {})}, sure and (varied or len(by_name) == 1)


def _rows(frame: pl.DataFrame, free: Sequence[str], declared: Mapping[str, str]) -> Roles:
    """Layout with one row per output, in a column with the name of an output."""
    texts = [name for name in free if is_text(frame[name]) and not _are_conversations(frame[name])]
    for text in [declared["text"]] if "text" in declared else named("text", texts)[:CHOICES]:
        of_item = _of_item(frame, free, [text])
        for place, sure in _place(frame, [name for name in free if name != text], of_item.get("source"), declared):
            others = {text, *(name for role, name in of_item.items() if role != "source")}
            if others.isdisjoint(place.values()):
                clear = "system" in place or not set(forms(text)) & UNCLEAR
                yield {**place, "text": text, **of_item}, sure and clear


def _are_conversations(column: pl.Series) -> bool:
    """Whether the cells are conversations."""
    cells = column.drop_nulls().head(20)
    return cells.len() > 0 and all(turns_of(cell) is not None for cell in cells)


def _conversations(frame: pl.DataFrame, free: Sequence[str], declared: Mapping[str, str]) -> Roles:
    """Layout with one row per conversation; the output is the last turn, or a column of outputs."""
    for name in [name for name in free if _are_conversations(frame[name])]:
        left = [other for other in free if other != name]
        last = [turns[-1][0].lower() for cell in frame[name].drop_nulls().head(20) if (turns := turns_of(cell))]
        answered = sum(speaker in ANSWERS for speaker in last) * 2 > len(last)
        texts = [other for other in left if is_text(frame[other]) and not _are_conversations(frame[other])]
        outputs = {} if answered else dict(zip(("text",), named("text", texts), strict=False))
        if not answered and not outputs:
            continue
        left = [other for other in left if other not in outputs.values()]
        of_item = {role: column for role, column in _of_item(frame, left, []).items() if role == "references"}
        roles = {"messages": name, **outputs, **of_item}
        for place, sure in _place(frame, left, None, declared):
            yield {**place, **roles}, sure
        system = _systems(frame, left)[0][:1]
        yield {**({"system": system[0]} if system else {}), **roles}, bool(system)


def _are_systems(frame: pl.DataFrame, pair: Sequence[str]) -> bool:
    """Whether two columns hold the systems of a pair."""
    return all(
        is_text(frame[name]) and named("system", [_without_side(name)]) and not is_prose(frame[name]) for name in pair
    )


def _without_side(name: str) -> str:
    """The name of a column of a pair without the part that names the side; `system` if no part remains."""
    decided = {side for pair in DECIDED for side in pair}
    return re.sub(SIDE, "", "_".join(part for part in parts(name) if part not in decided) or "system")


def _pairs(frame: pl.DataFrame, free: Sequence[str], declared: Mapping[str, str]) -> Roles:
    """Layout with one row per pair of outputs, and columns for the systems of both outputs."""
    texts = [pair for pair in sides(free) if all(is_prose(frame[name]) for name in pair)]
    systems = [pair for pair in sides(free) if _are_systems(frame, pair)]
    for (a, b), (first, second) in product(systems, texts):
        of_item = _of_item(frame, free, [a, b, first, second])
        left = [name for name in free if name not in (a, b, first, second)]
        for item in _items(frame, left, of_item.get("source"))[:1]:
            sure = item == of_item.get("source") or item in named("item", [item])
            yield {"item": item, "system_a": a, "system_b": b, "output_a": first, "output_b": second, **of_item}, sure


def _per_item(
    frame: pl.DataFrame, free: Sequence[str], outputs: Sequence[str], declared: Mapping[str, str]
) -> dict[str, str] | None:
    """Roles of a table with one row per item; None if every candidate column for the item has duplicate values."""
    of_item = _of_item(frame, free, outputs)
    left = [name for name in free if name not in outputs]
    items = [declared["item"]] if "item" in declared else _items(frame, left, of_item.get("source"))
    unique = [name for name in items if frame[name].n_unique() == frame.height]
    sure = [n for n in unique if n == of_item.get("source") or named("item", [n]) or is_index(frame[n])]
    if items and not unique:
        return None
    item = next(iter(sure or unique), "item")
    return of_item if item == "item" else {"item": item, **of_item}


def _by_common_word(frame: pl.DataFrame, free: Sequence[str], declared: Mapping[str, str]) -> Roles:
    """Layout with one row per item, and columns with a common word for outputs: `output_gpt`, `output_claude`."""
    named_so = [name for name in free if not _has_text_role(name)]
    texts = [name for name in named_so if is_text(frame[name]) or not counted_cells(frame[name])[0]]
    for pattern in dict.fromkeys(pattern for name in texts for pattern in _shapes(name)):
        columns = {name: way for name, way in matches(pattern, texts).items() if not _has_text_role(way["system"])}
        if len(columns) < 2 or not any(is_prose(frame[name]) for name in columns):
            continue
        if set(matches(pattern, free)) != set(columns):
            systems = ",".join(labels["system"] for labels in columns.values())
            pattern = pattern.replace("{system}", f"{{system:{systems}}}")
        roles = _per_item(frame, free, list(columns), declared)
        if roles is not None and not set(columns) & set(roles.values()):
            yield {**roles, "text": pattern}, True


def _has_text_role(name: str) -> bool:
    """Whether a name is the name of a source, a reference or another text, and not the name of a system."""
    word = normalised(name)
    return len(word) > 1 and any(word in NAMES[role] for role in ("text", "source", "references", "context", "item"))


def _shapes(name: str) -> Iterator[str]:
    """Possible patterns of a name, with a word for outputs before or after the system."""
    words = "|".join(OUTPUT_WORDS)
    before = re.match(rf"(?i)((?:.*[\W_])?(?:{words})(?:[\W_]+|(?=\d+$|[ab]$)))(.+?)([)\]]?)$", name)
    if before:
        yield f"{literal(before[1])}{{system}}{literal(before[3])}"
    after = re.match(rf"(?i)(.+?)([\W_]+(?:{words}))$", name)
    if after:
        yield f"{{system}}{literal(after[2])}"
    parent, dot, last = name.rpartition(".")
    if dot:
        yield f"{literal(parent)}.{{system}}"
        above, dot, _ = parent.rpartition(".")
        if dot and normalised(last) in OUTPUT_WORDS:
            yield f"{literal(above)}.{{system}}.{literal(last)}"


def _any_columns(frame: pl.DataFrame, free: Sequence[str], declared: Mapping[str, str]) -> Roles:
    """Layout with one row per item, and one text column per system that has the name of the system."""
    of_item = _of_item(frame, free, [])
    used = {*of_item.values(), *named("item", free)}
    if any(may_be_systems(frame[name]) for name in named("system", free)):
        return
    left = [name for name in free if name not in used and is_text(frame[name]) and not _is_category(frame[name])]
    if len(left) < 2 or not any(is_prose(frame[name]) for name in left):
        return
    roles = _per_item(frame, [name for name in free if name not in left], [], declared)
    if roles is not None:
        sure = all(looks_like_machine(name) for name in left) or set(left) <= SIDES_OF_A_PAIR
        rest = [name for name in free if name not in roles.values() and name not in RATED]
        pattern = "{system}" if set(rest) == set(left) else f"{{system:{','.join(left)}}}"
        yield {**roles, "text": pattern}, sure


def _is_category(column: pl.Series) -> bool:
    """Whether a column describes items or rates outputs, such as a category, an address or a rating."""
    if not CATEGORIES.isdisjoint(parts(column.name)) or is_fact(column.name):
        return True
    short = column.n_unique() <= max(2, CATEGORY * column.len()) and not is_prose(column)
    return short and not looks_like_machine(column.name)
