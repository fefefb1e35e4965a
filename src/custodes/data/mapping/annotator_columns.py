"""Detection of columns with human ratings, by words or by aspects crossed with names, and patterns for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from os.path import commonprefix
from typing import NamedTuple

import polars as pl

from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    AVERAGES,
    GENERIC,
    HUMAN,
    SHORT_ASPECTS,
    averages,
    looks_human,
    looks_like_machine,
    looks_like_rater,
    parts,
    stem,
)
from custodes.data.mapping.languages import word_list
from custodes.data.mapping.pattern import POSITION, literal, matches

WITH_WORD = (
    "{kind}{word}{gap}{{aspect}}{gap}{{rater}}",
    "{kind}{word}{gap}{{rater}}{gap}{{aspect}}",
    "{kind}{word}{gap}{{aspect}}{gap}{{rater:{globs}}}",
    "{kind}{word}{gap}{{rater:{globs}}}{gap}{{aspect}}",
    "{kind}{{aspect}}{gap}{word}{gap}{{rater}}",
    "{kind}{{rater}}{gap}{word}{gap}{{aspect}}",
    "{alone}",
    "{kind}{word}{gap}{{aspect}}",
    "{kind}{{aspect}}{gap}{word}",
)
"""Templates of names that contain a word for annotators, such as human."""
WITHOUT_WORD = ("human:{{aspect}}{gap}{{rater:{globs}}}", "human:{{rater:{globs}}}{gap}{{aspect}}")
"""Templates of names without such a word."""


def people_pattern(people: Sequence[str], columns: Sequence[str]) -> str:
    """A pattern that matches these columns and no others among `columns`.

    If the names have no common template, the pattern lists them: each column is then a rater.

    >>> people_pattern(["human_style_ann1", "human_depth_ann1"], ["human_style_ann1", "human_depth_ann1", "bleu"])
    'human_{aspect}_{rater}'
    """
    for written in _templates(people):
        labels = matches(written, columns)
        if labels.keys() == set(people) and _plausible(written, list(labels.values())):
            return written
    return f"human:{{rater:{','.join(people)}}}"


def pooled_aspects(people: Sequence[str]) -> list[str]:
    """The aspects in names of human ratings, if there are several: `human_coherence` and `human_fluency`.

    A part of the names is an aspect if it is a known one, or if it is crossed with a part that numbers annotators.

    >>> pooled_aspects(["human_coherence", "human_fluency"]), pooled_aspects(["expert_1", "turker_1"])
    (['coherence', 'fluency'], [])
    """
    names = [parts(name) for name in people]
    listed = [stem(part) for words in names for part in words if stem(part) in ASPECTS | SHORT_ASPECTS]
    if len(set(listed)) > 1:
        return list(dict.fromkeys(listed))
    if len({len(words) for words in names}) != 1:
        return []
    varying = [labels for labels in map(dict.fromkeys, zip(*names, strict=True)) if len(labels) > 1]
    if len(varying) != 2 or len(varying[0]) * len(varying[1]) != len(names):
        return []
    aspects = [labels for labels in varying if not any(map(looks_like_rater, labels))]
    return (
        list(aspects[0]) if len(aspects) == 1 and any(all(map(looks_like_rater, labels)) for labels in varying) else []
    )


def _templates(people: Sequence[str]) -> Iterator[str]:
    """Possible templates of names, the most specific first."""
    everywhere = set.intersection(*(set(re.split(r"[\W_]", name)) for name in people))
    fixed = [part for part in everywhere if looks_human(part) and part == stem(part)]
    for gap in sorted({sign for name in people for sign in re.findall(r"[\W_]", name)}):
        if gap in "{}":
            continue
        globs = ",".join(sorted({glob for name in people for glob in _globs(name.split(gap), gap, fixed)}))
        for word in sorted(fixed, key=lambda word: word != "human"):
            kind = "" if word.lower() == "human" else "human:"
            alone = f"human:{{rater:{word}{gap}*}}" if kind else f"{word}{gap}{{rater}}"
            texts = {"kind": kind, "word": word, "gap": gap, "globs": globs, "alone": alone}
            yield from (shape.format(**texts) for shape in WITH_WORD if globs or "{globs}" not in shape)
        yield from (shape.format(gap=gap, globs=globs) for shape in WITHOUT_WORD if globs)
    globs = ",".join(sorted({glob for name in people for glob in _globs([name], "", [])}))
    if globs:
        yield f"human:{{rater:{globs}}}"


def _globs(names: Sequence[str], gap: str, fixed: Sequence[str]) -> Iterator[str]:
    """Globs for the rater in a name: `ann*` for `ann1`, `expert_*` for `expert_1`."""
    for place, part in enumerate(names):
        if looks_human(part) and place + 1 < len(names) and names[place + 1].isdigit():
            yield f"{part}{gap}*"
        elif looks_human(part) and part not in fixed:
            yield part if part == stem(part) else f"{stem(part)}*"


def _plausible(written: str, labels: Sequence[Mapping[str, str]]) -> bool:
    """Whether the parts interpreted as raters and aspects are plausible."""
    raters = {row["rater"] for row in labels if "rater" in row}
    aspects = {row["aspect"] for row in labels if "aspect" in row}
    any_known = any(set(parts(aspect)) & ASPECTS for aspect in aspects)
    for label in (*raters, *aspects):  # no outer separators or unbalanced brackets
        if re.search(r"^[-_.:;,/|]|[-_.:;,/|]$", label.strip()) or label.count("(") != label.count(")"):
            return False
    if any(looks_like_rater(aspect) or not GENERIC.isdisjoint(parts(aspect)) for aspect in aspects):
        return False
    if raters and not aspects:
        return all(map(looks_like_rater, raters))
    # A full cross of known aspects and unknown names may be annotators' names.
    return all(map(looks_like_rater, raters)) or (any_known and len(raters) * len(aspects) == len(labels))


WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
CLEAN = re.compile(r"[A-Za-z]+(?:[-_. ][A-Za-z]+)*")
"""Aspects that are safe in a comma list of globs."""
AFTER = re.compile(r"(?P<gap>[\W_]+)(?P<rater>.*?[^\W_])(?P<end>[\W_]*)")
BEFORE = re.compile(r"(?P<fixed>[\W_]*)(?P<rater>[^\W_].*?)(?P<gap>[\W_]+)")
"""Separator and rater after an aspect, or before it."""


MACHINE_SCORES = frozenset(word_list("metric metrics automatic auto predict predicted model eval grading"))
RATINGS = frozenset(word_list("scores ratings score rating annotation annotations labels judgments"))
"""Names of objects with human scores."""


class _Split(NamedTuple):
    """A column, the fixed texts in its name (before, between and after the labels), and the labels."""

    name: str
    fixed: tuple[str, str, str]
    aspect: str
    rater: str


def people_cross(columns: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The columns named by a full cross of at least two known aspects and at least two other parts that are not names
    of models, with a pattern for these columns alone; empty without any.

    >>> people_cross(["style_al", "style_bo", "depth_al", "depth_bo", "bleu", "depth_gpt4"])
    (('style_al', 'style_bo', 'depth_al', 'depth_bo'), 'human:{aspect:style,depth}_{rater:al,bo}')
    """
    for rater_last in (True, False):
        splits = _splits(columns, rater_last=rater_last)
        for fixed in dict.fromkeys(split.fixed for split in splits):
            crossed = _crossed([split for split in splits if split.fixed == fixed])
            pattern = _pattern(crossed, columns, rater_last=rater_last) if crossed else ""
            if pattern:
                return tuple(split.name for split in crossed), pattern
    return (), ""


def beside_people(judges: Sequence[str], people: Sequence[str]) -> set[str]:
    """The judges whose names are crossed with names of annotators.

    >>> sorted(beside_people(["depth_al", "depth_bo", "bleu"], ["style_al", "style_bo"]))
    ['depth_al', 'depth_bo']
    """
    crossed, _ = people_cross([*people, *judges])
    return set(judges) & set(crossed) if set(people) & set(crossed) else set()


def _splits(columns: Sequence[str], *, rater_last: bool) -> list[_Split]:
    """Names with a known aspect, whose remaining part after it (or before it) may be an annotator."""
    spans: dict[str, tuple[int, int]] = {}
    for name in columns:
        words = [word for word in WORD.finditer(name) if word[0].lower() in ASPECTS | SHORT_ASPECTS]
        if words:
            spans[name] = (words[0].start(), words[-1].end())
    leads = [name[:start] for name, (start, _) in spans.items()]
    # The common prefix of all names before the aspect, up to the end of a word (these are no paths).
    lead = leads[0] if len(set(leads)) == 1 else re.sub(r"[^\W_]*$", "", commonprefix(leads))  # noqa: RUF071
    splits = []
    for name, (start, end) in spans.items():
        match = AFTER.fullmatch(name[end:]) if rater_last else BEFORE.fullmatch(name[:start])
        if match:
            text = {"fixed": lead, "end": name[end:], **match.groupdict()}
            aspect = name[len(lead) if rater_last else start : end]
            splits.append(_Split(name, (text["fixed"], text["gap"], text["end"]), aspect, text["rater"]))
    return [split for split in splits if CLEAN.fullmatch(split.aspect) and _may_be_a_person(split.rater)]


def _may_be_a_person(label: str) -> bool:
    """Whether a label is neither that of a machine nor of a computed value."""
    words = set(parts(label))
    plain = bool(words & (AVERAGES | GENERIC)) and not {stem(word) for word in words} & HUMAN
    return not looks_like_machine(label) and not plain and not set(label) & set(",{}[]*?!")


def _crossed(splits: Sequence[_Split]) -> list[_Split]:
    """The names whose raters share at least two aspects, and those of other raters with some of these aspects."""
    aspects: dict[str, set[str]] = {}
    for split in splits:
        aspects.setdefault(split.rater, set()).add(split.aspect)
    sets = list(aspects.values())
    core = max((names for names in sets if len(names) > 1 and sets.count(names) > 1), key=len, default=set())
    return [split for split in splits if split.aspect in core and aspects[split.rater] <= core]


def _pattern(splits: Sequence[_Split], columns: Sequence[str], *, rater_last: bool) -> str:
    """A pattern that matches these columns and no others."""
    aspects = ",".join(dict.fromkeys(split.aspect for split in splits))
    raters = ",".join(dict.fromkeys(split.rater for split in splits))
    fixed, gap, end = map(literal, splits[0].fixed)
    kind = "" if "human" in parts(f"{fixed} {end}") else "human:"
    for rater in ("{rater}", f"{{rater:{raters}}}"):
        first, second = (f"{{aspect:{aspects}}}", rater) if rater_last else (rater, f"{{aspect:{aspects}}}")
        pattern = f"{kind}{fixed}{first}{gap}{second}{end}"
        if set(matches(pattern, columns)) == {split.name for split in splits}:
            return pattern
    return ""


def people_patterns(frame: pl.DataFrame, scores: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Patterns of the columns with human ratings, and these columns; no pattern if only one that pools aspects fits."""
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


def nested_patterns(frame: pl.DataFrame, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths of objects of scores, `human:scores.*` or `metric:scores.*`, and the remaining paths.

    Lists of numbers, and integers below a word for ratings, are human ratings.
    """
    patterns, left, crossed = list[str](), list[str](), list[str]()
    parents: dict[str, list[str]] = {}
    for path in paths:
        if frame[path].n_unique() > 1:
            start, star, _ = path.rpartition(".*.")
            parents.setdefault(f"{start}.*" if star else path.split(".")[0], []).append(path)
    for parent, names in parents.items():
        keys = [name[len(parent) + 1 :].split(".") for name in names]
        words = {stem(part) for part in parts(parent)}
        machine = looks_like_machine(parent) or not words.isdisjoint(MACHINE_SCORES)
        lists = any(key[-1].isdigit() for key in keys)
        whole = all(
            (values == values.round()).all() for values in (numbers_of(frame[n]).drop_nulls() * 2 for n in names)
        )
        human = not machine and whole and (lists or not words.isdisjoint(HUMAN | RATINGS))
        depth = max(map(len, keys))
        seconds = {stem(part) for key in keys if len(key) == 2 for part in parts(key[1])}
        by_person = bool(seconds & ASPECTS) and not {stem(part) for key in keys for part in parts(key[0])} & ASPECTS
        people = all(key[0].isdigit() or looks_like_rater(key[0]) or by_person for key in keys)
        if human and depth == 2 and people:
            crossed.append(parent)
        elif human and depth == 1 and not {stem(part) for key in keys for part in parts(key[0])} & ASPECTS:
            patterns.append(f"human:{literal(parent)}.{{rater}}")
        elif parent.endswith(".*") and depth <= 2:
            places = [f"human:{literal(parent)}.{{aspect}}.{{rater:{POSITION}}}"] if lists else []
            rest = [f"{'human' if human else 'metric'}:{literal(parent)}.{'{aspect}' if human else '{rater}'}"]
            patterns += places + (rest if any(len(key) == 1 for key in keys) else [])
        elif depth <= 2 and (human or machine or len(names) > 1):
            patterns.append(f"{'human' if human else 'metric'}:{parent}.*")
        else:
            left += names
    if len(crossed) == 1:
        patterns.append(f"human:{literal(crossed[0])}.{{rater}}.{{aspect}}")
    elif crossed:
        patterns.append(f"human:{{rater:{','.join(f'{parent}.*' for parent in crossed)}}}.{{aspect}}")
    return patterns, left


MOST_NAMED = 12
"""Metrics without an aspect that a proposed command names one by one; with more, no metric is split by aspects."""


def rest_pattern(
    scores: Sequence[str], people: Sequence[str], spare: Sequence[str] = (), aspects: Sequence[str] = ()
) -> tuple[str, ...]:
    """Patterns of the metric columns: all remaining columns, without averages and columns that look like human ratings.

    `spare` are other numeric columns, which the patterns must not match; `aspects` are those of human ratings, which
    metrics may share.
    """
    left = [name for name in scores if name not in people]
    metrics = [name for name in left if name not in averages(scores) and not looks_human(name)]
    if not metrics:
        return ()
    names = ",".join(map(literal, aspects))
    gaps = {sign for name in metrics for sign in re.findall(r"[\W_]+", name)} if len(aspects) > 1 else set[str]()
    for gap in map(literal, sorted(gaps)):
        for shape in (f"{{aspect:{names}}}{gap}{{rater}}", f"{{rater}}{gap}{{aspect:{names}}}"):
            labels = matches(f"metric:{shape}", [*metrics, *spare])
            few_left = len(metrics) - len(labels) <= MOST_NAMED
            if few_left and set(labels) <= set(metrics) and len({row["aspect"] for row in labels.values()}) > 1:
                return f"metric:{shape}", *rest_pattern(scores, [*people, *labels], [*spare, *labels])
    return ("metric:{rater}",) if metrics == left and not spare else (f"metric:{{rater:{','.join(metrics)}}}",)


def numbers_of(column: pl.Series) -> pl.Series:
    """The numbers of a column, null for other cells; no values for nested cells."""
    return (
        pl.Series(dtype=pl.Float64)
        if column.dtype.is_nested()
        else column.cast(pl.String).cast(pl.Float64, strict=False)
    )
