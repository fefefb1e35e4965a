"""Detection of columns with human ratings by the words in their names, patterns for these columns, and kinds of raters
from the words in a column of kinds or in the name of the column of raters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    GENERIC,
    HUMAN,
    METRIC_ROLES,
    PEOPLE_ROLES,
    SHORT_ASPECTS,
    averages,
    is_model_name,
    kind_words,
    looks_human,
    looks_like_machine,
    looks_like_rater,
    parts,
    stem,
    word_list,
)
from custodes.data.mapping.pattern import POSITION, literal, matches
from custodes.data.notes import Note, noted
from custodes.data.table import label_column
from custodes.errors import listed

MACHINE_SCORES = frozenset(word_list("metric metrics automatic auto predict predicted model eval grading"))
RATINGS = frozenset(word_list("scores ratings score rating annotation annotations labels judgments"))
"""Words in the names of objects that hold human scores."""


def people_pattern(people: Sequence[str], columns: Sequence[str]) -> str:
    """A pattern that matches the names `people` and none of the remaining names in `columns`.

    If the names have no common form, the pattern lists the names, and each name is a rater.

    >>> people_pattern(["human_style_ann1", "human_depth_ann1"], ["human_style_ann1", "human_depth_ann1", "bleu"])
    'human_{aspect}_{rater}'
    """
    for start, fields, gap, end in _forms(people):
        kind = "" if "human" in parts(f"{start} {end}") else "human:"
        for limited in ((), ("rater",), ("aspect",), ("aspect", "rater")):
            places = [
                f"{{{name}:{','.join(dict.fromkeys(labels))}}}" if name in limited else f"{{{name}}}"
                for name, labels in fields.items()
            ]
            written = f"{kind}{literal(start)}{literal(gap).join(places)}{literal(end)}"
            if matches(written, columns).keys() == set(people):
                return written
    return f"human:{{rater:{','.join(people)}}}"


def _forms(people: Sequence[str]) -> Iterator[tuple[str, dict[str, list[str]], str, str]]:
    """Possible common forms of the names: the fixed start, the labels of one or two fields, the text between the
    fields, and the fixed end."""
    names = [re.split(r"([\W_]+)", name) for name in people]  # words at even places
    start, end = list[str](), list[str]()
    while all(name[:2] == names[0][:2] and len(name) > 2 for name in names) and not _is_label(names[0][0]):
        start += names[0][:2]
        names = [name[2:] for name in names]
    last = names[0][-2:]
    fixed = not last[-1] or (looks_human(last[-1]) and not _is_label(last[-1]))
    if fixed and all(name[-2:] == last and len(name) > 2 for name in names):
        end, names = last, [name[:-2] for name in names]
    if all(_is_aspect(word) for name in names for word in name[::2]):
        yield "".join(start), {"aspect": ["".join(name) for name in names]}, "", "".join(end)
    for rater_last in (True, False):
        splits = [split for name in names if (split := _split(name, rater_last=rater_last))]
        aspects, gaps, raters = ([split[place] for split in splits] for place in range(3))
        if len(splits) == len(names) and len(set(gaps)) == 1 and _plausible(raters, aspects):
            fields = {"aspect": aspects, "rater": raters} if rater_last else {"rater": raters, "aspect": aspects}
            yield "".join(start), fields, gaps[0], "".join(end)


def _split(words: list[str], *, rater_last: bool) -> tuple[str, ...] | None:
    """Aspect, separator and rater in the words of a name.

    The rater begins with a word that looks like a rater, or is the part after a known aspect.
    """
    turn = 1 if rater_last else -1
    words = words[::turn]
    places = range(2, len(words), 2)
    likely = [place for place in places if looks_like_rater(words[place])]
    likely += [place for place in places if _is_aspect(words[0]) and not _is_aspect(words[place])]
    if not likely:
        return None
    place = likely[0]
    return tuple("".join(part[::turn]) for part in (words[: place - 1], words[place - 1 : place], words[place:]))


def _is_label(word: str) -> bool:
    """Whether a word may be the label of an aspect or a rater: a known aspect, or a word with a number."""
    return _is_aspect(word) or any(sign.isdigit() for sign in word)


def _is_aspect(word: str) -> bool:
    return word.lower() in ASPECTS | SHORT_ASPECTS


def _plausible(raters: Sequence[str], aspects: Sequence[str]) -> bool:
    """Whether it is plausible that `raters` are raters and `aspects` are aspects.

    This is plausible if `raters` look like raters, or if known aspects are fully crossed with `raters`.
    """
    if any(looks_like_rater(aspect) or not GENERIC.isdisjoint(parts(aspect)) for aspect in aspects):
        return False
    crossed = len(set(raters)) * len(set(aspects)) == len(raters) and any(
        set(parts(name)) & ASPECTS for name in aspects
    )
    return crossed or all(any(map(looks_like_rater, parts(rater))) for rater in raters)


def pooled_aspects(people: Sequence[str]) -> list[str]:
    """The aspects in the names of human ratings, if there are several aspects, as in `human_coherence` and
    `human_fluency`.

    A part of the names is an aspect if the part is a known aspect or is crossed with a part that numbers annotators.

    >>> pooled_aspects(["human_coherence", "human_fluency"]), pooled_aspects(["expert_1", "turker_1"])
    (['coherence', 'fluency'], [])
    """
    names = [parts(name) for name in people]
    stems = dict.fromkeys(stem(part) for words in names for part in words if stem(part) in ASPECTS | SHORT_ASPECTS)
    if len(stems) > 1:
        return list(stems)
    if len({len(words) for words in names}) != 1:
        return []
    varying = [labels for labels in map(dict.fromkeys, zip(*names, strict=True)) if len(labels) > 1]
    if len(varying) != 2 or len(varying[0]) * len(varying[1]) != len(names):
        return []
    aspects = [labels for labels in varying if not any(map(looks_like_rater, labels))]
    return (
        list(aspects[0]) if len(aspects) == 1 and any(all(map(looks_like_rater, labels)) for labels in varying) else []
    )


def people_patterns(frame: pl.DataFrame, scores: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Patterns of the columns with human ratings, and the matched columns. If every possible pattern would mix
    the ratings of several aspects, there is no pattern."""
    plain = [name for name in scores if name not in averages(scores)]
    named_so = [name for name in plain if looks_human(name) or (_numbers_people(name) and in_halves(frame[name]))]
    of_aspects = [name for name in named_so if ASPECTS & {stem(part) for part in parts(name)}]
    for people in dict.fromkeys([tuple(named_so), tuple(of_aspects)]):
        pattern = people_pattern(people, scores) if people else ""
        if "{aspect" in pattern or not pooled_aspects(people):
            return ((pattern,) if people else ()), list(people)
    return (), named_so


def _numbers_people(name: str) -> bool:
    """Whether a name has a known aspect and a numbered rater: `coherence_r1`."""
    words = parts(name)
    return any(map(_is_aspect, words)) and any(map(looks_like_rater, words)) and not looks_like_machine(name)


def nested_patterns(frame: pl.DataFrame, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The patterns of objects that hold scores, such as `human:scores.*` or `metric:scores.*`, and the remaining paths.

    Lists of numbers are read as human ratings. Integers in an object that is named like ratings are read as human
    ratings, too.
    """
    patterns, left, crossed = list[str](), list[str](), list[str]()
    parents: dict[str, list[str]] = {}
    for path in paths:
        if frame[path].n_unique() > 1:
            start, star, _ = path.rpartition(".*.")
            parents.setdefault(f"{start}.*" if star else path.split(".")[0], []).append(path)
    for parent, names in parents.items():
        keys = [name[len(parent) + 1 :].split(".") for name in names]
        firsts, lasts = ({stem(part) for key in keys for part in parts(key[place])} & ASPECTS for place in (0, -1))
        words = {stem(part) for part in parts(parent)}
        machine = looks_like_machine(parent) or not words.isdisjoint(MACHINE_SCORES)
        lists = any(key[-1].isdigit() for key in keys)
        human = not machine and all(map(in_halves, frame[names])) and (lists or bool(words & (HUMAN | RATINGS)))
        depth = max(map(len, keys))
        if human and depth == 2 and lasts and not firsts:  # an object of ratings by each annotator
            crossed.append(parent)
        elif depth > 2 or not (human or machine or len(names) > 1):
            left += names
        elif human and depth == 1 and not firsts:
            patterns.append(f"human:{literal(parent)}.{{rater}}")
        elif not parent.endswith(".*"):
            patterns.append(f"{'human' if human else 'metric'}:{parent}.*")
        elif lists:
            patterns.append(f"human:{literal(parent)}.{{aspect}}.{{rater:{POSITION}}}")
        else:
            patterns.append(f"{'human' if human else 'metric'}:{literal(parent)}.{'{aspect}' if human else '{rater}'}")
    if crossed:
        several = f"{{rater:{','.join(f'{parent}.*' for parent in crossed)}}}"
        patterns.append(f"human:{several if len(crossed) > 1 else f'{literal(crossed[0])}.{{rater}}'}.{{aspect}}")
    return patterns, left


def beside_people(judges: Sequence[str], people: Sequence[str]) -> set[str]:
    """The names in `judges` that differ from a name in `people` only in the aspect.

    >>> sorted(beside_people(["depth_al", "depth_cy", "bleu"], ["style_al", "style_bo"]))
    ['depth_al']
    """

    def rest(name: str) -> tuple[str, ...]:
        return tuple(part for part in parts(name) if not _is_aspect(part))

    rated = {rest(name) for name in people if rest(name) not in ((), tuple(parts(name)))}
    return {name for name in judges if rest(name) in rated and rest(name) != tuple(parts(name))}


MOST_NAMED = 12
"""Maximum number of metrics without an aspect that a proposed command lists by name. If there are more, the command
gives no metric an aspect."""


def rest_pattern(
    scores: Sequence[str], people: Sequence[str], spare: Sequence[str] = (), aspects: Sequence[str] = ()
) -> tuple[str, ...]:
    """Patterns of the metric columns. Metric columns are all remaining columns except averages and columns that look
    like human ratings.

    The patterns do not match the numeric columns `spare`. `aspects` are the aspects of the human ratings; metrics may
    also rate these aspects.
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
    """The numbers of a column, with null for cells that are not numbers. For a column of nested cells the result is
    empty."""
    return (
        pl.Series(dtype=pl.Float64)
        if column.dtype.is_nested()
        else column.cast(pl.String).cast(pl.Float64, strict=False)
    )


def in_halves(column: pl.Series) -> bool:
    """Whether the numbers of a column are whole or halves, as most human ratings are."""
    doubled = numbers_of(column).drop_nulls() * 2
    return bool((doubled == doubled.round()).all())


def with_kinds(mapped: pl.DataFrame, roles: Mapping[str, str], *, where: str) -> tuple[pl.DataFrame, list[Note]]:
    """A mapped table. It has a column of kinds if the words of such a column, or the name of the column of raters,
    determine the kinds.

    Words such as `llm` mean metrics. Without a column of kinds, labels in a column such as `annotator` are human
    (except names of models), and labels in a column such as `metric` are metrics (except names such as `human`).
    """
    if "kind" in roles and "kind" in mapped.columns and (words := kind_words(mapped["kind"])) is not None:
        return mapped.with_columns(words), []
    source = roles.get("rater", "")
    named_so = set(parts(source)) & (PEOPLE_ROLES | METRIC_ROLES)
    if "kind" in mapped.columns or "rater" not in mapped.columns or not named_so:
        return mapped, []
    labels = label_column(mapped, "rater", where=where, empty=True)
    unique = labels.unique(maintain_order=True)
    of_metrics = bool(named_so & METRIC_ROLES)
    metrics = [label for label in unique if (not looks_human(label) if of_metrics else is_model_name(label))]
    kinds = labels.is_in(metrics).replace_strict({True: "metric", False: "human"}, return_dtype=pl.String)
    others = f", except {listed(metrics)}" if metrics else ""
    message = f"{where}: raters of column {source!r} are read as human{others}; give --human if this is wrong"
    return mapped.with_columns(kinds.alias("kind")), noted(("annotators-by-column", not of_metrics, message))
