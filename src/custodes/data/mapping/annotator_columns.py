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
    find_averages,
    is_model_name,
    kind_words,
    looks_human,
    looks_like_machine,
    looks_like_rater,
    name_stems,
    split_name,
    stem,
    word_list,
)
from custodes.data.mapping.pattern import POSITION, escape_braces, match_columns
from custodes.data.notes import Note, build_notes
from custodes.data.table import label_column
from custodes.errors import join_labels

MACHINE_SCORES = frozenset(word_list("metric metrics automatic auto predict predicted model eval grading"))
RATINGS = frozenset(word_list("scores ratings score rating annotation annotations labels judgments"))
"""Words in the names of JSON objects that hold human scores."""


def people_pattern(people: Sequence[str], columns: Sequence[str]) -> str:
    """A pattern that matches the names `people` and none of the remaining names in `columns`.

    If the names have no common form, the pattern lists the names, and each name is a rater.

    >>> people_pattern(["human_style_ann1", "human_depth_ann1"], ["human_style_ann1", "human_depth_ann1", "bleu"])
    'human_{aspect}_{rater}'
    """
    for prefix, labels_of_field, separator, suffix in _iter_common_forms(people):
        kind_prefix = "" if "human" in split_name(f"{prefix} {suffix}") else "human:"
        for listed_fields in ((), ("rater",), ("aspect",), ("aspect", "rater")):
            placeholders = [
                f"{{{name}:{','.join(dict.fromkeys(labels))}}}" if name in listed_fields else f"{{{name}}}"
                for name, labels in labels_of_field.items()
            ]
            field_text = escape_braces(separator).join(placeholders)
            pattern = f"{kind_prefix}{escape_braces(prefix)}{field_text}{escape_braces(suffix)}"
            if match_columns(pattern, columns).keys() == set(people):
                return pattern
    return f"human:{{rater:{','.join(people)}}}"


def _iter_common_forms(people: Sequence[str]) -> Iterator[tuple[str, dict[str, list[str]], str, str]]:
    """Possible common forms of the names: the fixed start, the labels of one or two fields, the text between the
    fields, and the fixed end."""
    split_names = [re.split(r"([\W_]+)", name) for name in people]  # words at even places
    prefix, suffix = list[str](), list[str]()
    while all(name[:2] == split_names[0][:2] and len(name) > 2 for name in split_names) and not _is_label(
        split_names[0][0]
    ):
        prefix += split_names[0][:2]
        split_names = [name[2:] for name in split_names]
    last_words = split_names[0][-2:]
    has_fixed_end = not last_words[-1] or (looks_human(last_words[-1]) and not _is_label(last_words[-1]))
    if has_fixed_end and all(name[-2:] == last_words and len(name) > 2 for name in split_names):
        suffix, split_names = last_words, [name[:-2] for name in split_names]
    if all(_is_aspect(word) for name in split_names for word in name[::2]):
        yield "".join(prefix), {"aspect": ["".join(name) for name in split_names]}, "", "".join(suffix)
    for rater_last in (True, False):
        split_labels = [split for name in split_names if (split := _split_words(name, rater_last=rater_last))]
        aspects, separators, raters = ([split[index] for split in split_labels] for index in range(3))
        if len(split_labels) == len(split_names) and len(set(separators)) == 1 and _is_plausible(raters, aspects):
            labels_of_field = (
                {"aspect": aspects, "rater": raters} if rater_last else {"rater": raters, "aspect": aspects}
            )
            yield "".join(prefix), labels_of_field, separators[0], "".join(suffix)


def _split_words(words: list[str], *, rater_last: bool) -> tuple[str, ...] | None:
    """The aspect, the separator and the rater in a name that is given as a list of words.

    The rater begins with a word that looks like a rater, or is the part after a known aspect.
    """
    step = 1 if rater_last else -1
    words = words[::step]
    positions = range(2, len(words), 2)
    likely_positions = [position for position in positions if looks_like_rater(words[position])]
    likely_positions += [position for position in positions if _is_aspect(words[0]) and not _is_aspect(words[position])]
    if not likely_positions:
        return None
    position = likely_positions[0]
    return tuple(
        "".join(words_of_role[::step])
        for words_of_role in (words[: position - 1], words[position - 1 : position], words[position:])
    )


def _is_label(word: str) -> bool:
    """Whether a word may be the label of an aspect or a rater: a known aspect, or a word with a number."""
    return _is_aspect(word) or any(sign.isdigit() for sign in word)


def _is_aspect(word: str) -> bool:
    return word.lower() in ASPECTS | SHORT_ASPECTS


def _is_plausible(raters: Sequence[str], aspects: Sequence[str]) -> bool:
    """Whether it is plausible that `raters` are raters and `aspects` are aspects.

    This is plausible if `raters` look like raters, or if known aspects are fully crossed with `raters`.
    """
    if any(looks_like_rater(aspect) or not GENERIC.isdisjoint(split_name(aspect)) for aspect in aspects):
        return False
    is_crossed_with_aspects = len(set(raters)) * len(set(aspects)) == len(raters) and any(
        set(split_name(name)) & ASPECTS for name in aspects
    )
    return is_crossed_with_aspects or all(any(map(looks_like_rater, split_name(rater))) for rater in raters)


def pooled_aspects(people: Sequence[str]) -> list[str]:
    """The aspects in the names of human ratings, if there are several aspects, as in `human_coherence` and
    `human_fluency`.

    A part of the names is an aspect if the part is a known aspect or is crossed with a part that numbers annotators.

    >>> pooled_aspects(["human_coherence", "human_fluency"]), pooled_aspects(["expert_1", "turker_1"])
    (['coherence', 'fluency'], [])
    """
    parts_of_names = [split_name(name) for name in people]
    known_aspects = dict.fromkeys(
        stem(word) for words in parts_of_names for word in words if stem(word) in ASPECTS | SHORT_ASPECTS
    )
    if len(known_aspects) > 1:
        return list(known_aspects)
    if len({len(words) for words in parts_of_names}) != 1:
        return []
    varying_parts = [labels for labels in map(dict.fromkeys, zip(*parts_of_names, strict=True)) if len(labels) > 1]
    if len(varying_parts) != 2 or len(varying_parts[0]) * len(varying_parts[1]) != len(parts_of_names):
        return []
    aspect_parts = [labels for labels in varying_parts if not any(map(looks_like_rater, labels))]
    return (
        list(aspect_parts[0])
        if len(aspect_parts) == 1 and any(all(map(looks_like_rater, labels)) for labels in varying_parts)
        else []
    )


def people_patterns(frame: pl.DataFrame, scores: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Patterns of the columns with human ratings, and the matched columns. If every possible pattern would mix
    the ratings of several aspects, there is no pattern."""
    single_ratings = [name for name in scores if name not in find_averages(scores)]
    human_columns = [
        name for name in single_ratings if looks_human(name) or (_numbers_people(name) and has_half_steps(frame[name]))
    ]
    aspect_columns = [name for name in human_columns if ASPECTS & name_stems(name)]
    for candidates in dict.fromkeys([tuple(human_columns), tuple(aspect_columns)]):
        pattern = people_pattern(candidates, scores) if candidates else ""
        if "{aspect" in pattern or not pooled_aspects(candidates):
            return ((pattern,) if candidates else ()), list(candidates)
    return (), human_columns


def _numbers_people(name: str) -> bool:
    """Whether a name has a known aspect and a numbered rater: `coherence_r1`."""
    words = split_name(name)
    return any(map(_is_aspect, words)) and any(map(looks_like_rater, words)) and not looks_like_machine(name)


def nested_patterns(frame: pl.DataFrame, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The patterns of objects that hold scores, such as `human:scores.*` or `metric:scores.*`, and the remaining paths.

    Lists of numbers are read as human ratings. Integers in an object that is named like ratings are read as human
    ratings, too.
    """
    patterns, remaining_paths, rater_parents = list[str](), list[str](), list[str]()
    paths_of_parent: dict[str, list[str]] = {}
    for path in paths:
        if frame[path].n_unique() > 1:
            parent_path, separator, _ = path.rpartition(".*.")
            paths_of_parent.setdefault(f"{parent_path}.*" if separator else path.split(".")[0], []).append(path)
    for parent, child_paths in paths_of_parent.items():
        keys = [name[len(parent) + 1 :].split(".") for name in child_paths]
        first_aspects, last_aspects = (
            {stem(word) for key in keys for word in split_name(key[index])} & ASPECTS for index in (0, -1)
        )
        parent_stems = name_stems(parent)
        is_machine = looks_like_machine(parent) or not parent_stems.isdisjoint(MACHINE_SCORES)
        has_lists = any(key[-1].isdigit() for key in keys)
        is_human = (
            not is_machine
            and all(map(has_half_steps, frame[child_paths]))
            and (has_lists or bool(parent_stems & (HUMAN | RATINGS)))
        )
        max_depth = max(map(len, keys))
        if is_human and max_depth == 2 and last_aspects and not first_aspects:  # an object of ratings by each annotator
            rater_parents.append(parent)
        elif max_depth > 2 or not (is_human or is_machine or len(child_paths) > 1):
            remaining_paths += child_paths
        elif is_human and max_depth == 1 and not first_aspects:
            patterns.append(f"human:{escape_braces(parent)}.{{rater}}")
        elif not parent.endswith(".*"):
            patterns.append(f"{'human' if is_human else 'metric'}:{parent}.*")
        elif has_lists:
            patterns.append(f"human:{escape_braces(parent)}.{{aspect}}.{{rater:{POSITION}}}")
        else:
            patterns.append(
                f"{'human' if is_human else 'metric'}:{escape_braces(parent)}.{'{aspect}' if is_human else '{rater}'}"
            )
    if rater_parents:
        rater_field = (
            f"{{rater:{','.join(f'{parent}.*' for parent in rater_parents)}}}"
            if len(rater_parents) > 1
            else f"{escape_braces(rater_parents[0])}.{{rater}}"
        )
        patterns.append(f"human:{rater_field}.{{aspect}}")
    return patterns, remaining_paths


def aspect_variants(judges: Sequence[str], people: Sequence[str]) -> set[str]:
    """The names in `judges` that differ from a name in `people` only in the aspect.

    >>> sorted(aspect_variants(["depth_al", "depth_cy", "bleu"], ["style_al", "style_bo"]))
    ['depth_al']
    """
    other_words = {
        name: tuple(word for word in split_name(name) if not _is_aspect(word))
        for name in (*judges, *people)
        if any(map(_is_aspect, split_name(name)))
    }
    rated_names = {other_words[name] for name in people if other_words.get(name)}
    return {name for name in judges if other_words.get(name) in rated_names}


MOST_NAMED = 12
"""Maximum number of metrics without an aspect if a proposed pattern reads the aspects of other metrics. Metrics without
an aspect must then be listed by name; if there are more, the pattern reads no aspects."""


def metric_column_patterns(
    scores: Sequence[str], people: Sequence[str], spare: Sequence[str] = (), aspects: Sequence[str] = ()
) -> tuple[str, ...]:
    """Patterns of the metric columns. Metric columns are all remaining columns except averages and columns that look
    like human ratings.

    The patterns do not match the numeric columns `spare`. `aspects` are the aspects of the human ratings; metrics may
    also rate these aspects.
    """
    remaining_columns = [name for name in scores if name not in people]
    metrics = [name for name in remaining_columns if name not in find_averages(scores) and not looks_human(name)]
    if not metrics:
        return ()
    aspect_names = ",".join(map(escape_braces, aspects))
    separators = {sign for name in metrics for sign in re.findall(r"[\W_]+", name)} if len(aspects) > 1 else set[str]()
    for separator in map(escape_braces, sorted(separators)):
        for pattern_text in (
            f"{{aspect:{aspect_names}}}{separator}{{rater}}",
            f"{{rater}}{separator}{{aspect:{aspect_names}}}",
        ):
            labels_of_column = match_columns(f"metric:{pattern_text}", [*metrics, *spare])
            has_few_unmatched = len(metrics) - len(labels_of_column) <= MOST_NAMED
            if (
                has_few_unmatched
                and set(labels_of_column) <= set(metrics)
                and len({row["aspect"] for row in labels_of_column.values()}) > 1
            ):
                return f"metric:{pattern_text}", *metric_column_patterns(
                    scores, [*people, *labels_of_column], [*spare, *labels_of_column]
                )
    return (
        ("metric:{rater}",)
        if metrics == remaining_columns and not spare
        else (f"metric:{{rater:{','.join(metrics)}}}",)
    )


def parse_numbers(column: pl.Series) -> pl.Series:
    """The numbers of a column, with null for cells that are not numbers. For a column of nested cells the result is
    empty."""
    return (
        pl.Series(dtype=pl.Float64)
        if column.dtype.is_nested()
        else column.cast(pl.String).cast(pl.Float64, strict=False)
    )


def has_half_steps(column: pl.Series) -> bool:
    """Whether the numbers of a column are whole or halves, as most human ratings are."""
    twice_the_numbers = parse_numbers(column).drop_nulls() * 2
    return bool((twice_the_numbers == twice_the_numbers.round()).all())


def with_kinds(mapped: pl.DataFrame, roles: Mapping[str, str], *, where: str) -> tuple[pl.DataFrame, list[Note]]:
    """The mapped table, with the kinds of raters if these follow from the words in a column of kinds or from the name
    of the column of raters.

    Words such as `llm` mean metrics. Without a column of kinds, labels in a column such as `annotator` are human
    (except names of models), and labels in a column such as `metric` are metrics (except names such as `human`).
    """
    if "kind" in roles and "kind" in mapped.columns and (stated_kinds := kind_words(mapped["kind"])) is not None:
        return mapped.with_columns(stated_kinds), []
    rater_column = roles.get("rater", "")
    roles_in_name = set(split_name(rater_column)) & (PEOPLE_ROLES | METRIC_ROLES)
    if "kind" in mapped.columns or "rater" not in mapped.columns or not roles_in_name:
        return mapped, []
    rater_labels = label_column(mapped, "rater", where=where, empty=True)
    unique_labels = rater_labels.unique(maintain_order=True)
    is_metric_column = bool(roles_in_name & METRIC_ROLES)
    metrics = [
        label for label in unique_labels if (not looks_human(label) if is_metric_column else is_model_name(label))
    ]
    kinds = rater_labels.is_in(metrics).replace_strict({True: "metric", False: "human"}, return_dtype=pl.String)
    exception_text = f", except {join_labels(metrics)}" if metrics else ""
    message = (
        f"{where}: raters of column {rater_column!r} are read as human{exception_text}; give --human if this is wrong"
    )
    return mapped.with_columns(kinds.alias("kind")), build_notes(
        ("annotators-by-column", not is_metric_column, message)
    )
