"""Columns with human ratings, detected by the words in their names, and patterns for these columns. Kinds of raters,
from a column of kinds or from the name of the column of raters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

import polars as pl

from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    GENERIC,
    HUMAN,
    METRIC_ROLES,
    PEOPLE_ROLES,
    PROTOCOLS,
    SHORT_ASPECTS,
    is_model_name,
    looks_human,
    looks_like_machine,
    looks_like_rater,
    name_stems,
    split_name,
    stem,
    word_list,
)
from custodes.data.mapping.pattern import escape_braces, match_columns
from custodes.data.notes import Note, build_notes
from custodes.data.table import label_column
from custodes.errors import join_labels

MACHINE_SCORES = frozenset(word_list("metric metrics automatic auto predict predicted model eval grading"))
RATINGS = frozenset(word_list("scores ratings score rating annotation annotations labels judgments"))
"""Words in the names of JSON objects that hold human scores."""


def people_pattern(human_column_names: Sequence[str], column_names: Sequence[str]) -> str:
    """A pattern that matches `human_column_names` and none of the remaining names in `column_names`.

    If the names have no common form, the pattern lists the names, and each name is a rater. If each name contains
    another protocol, such as MQM and DA, it is an aspect.

    >>> people_pattern(["human_style_ann1", "human_depth_ann1"], ["human_style_ann1", "human_depth_ann1", "bleu"])
    'human_{aspect}_{rater}'
    """
    candidate_patterns = sorted(_iter_patterns(human_column_names[0]), key=lambda pattern: "{rater" in pattern)
    for pattern in candidate_patterns:
        label_by_role_of_column = match_columns(pattern, column_names)
        if label_by_role_of_column.keys() == set(human_column_names) and _is_plausible(
            list(label_by_role_of_column.values())
        ):
            return pattern
    protocols = [word for name in human_column_names for word in split_name(name) if word in PROTOCOLS]
    are_aspects = len(set(protocols)) == len(protocols) == len(human_column_names) > 1
    return f"human:{{{'aspect' if are_aspects else 'rater'}:{','.join(map(escape_braces, human_column_names))}}}"


def _iter_patterns(name: str) -> Iterator[str]:
    """Possible patterns of a name, with a placeholder for the aspect and possibly one for the rater."""
    tokens = list(map(escape_braces, re.split(r"([\W_]+)", name)))  # words at even indices
    for start, stop in combinations(range(0, len(tokens) + 2, 2), 2):
        before, after = "".join(tokens[:start]), "".join(tokens[stop - 1 :])
        fixed_words = split_name(f"{before} {after}")
        if any(looks_like_rater(word) and word != "human" for word in fixed_words):
            continue  # the rater is no fixed text
        kind_prefix = "" if "human" in fixed_words else "human:"
        yield f"{kind_prefix}{before}{{aspect}}{after}"
        for middle_index in range(start + 1, stop - 1, 2):
            rater_fields = [
                "{rater}",
                *(f"{{rater:{stem(word)}*}}" for word in tokens[middle_index + 1 : middle_index + 2]),
            ]
            yield from (
                f"{kind_prefix}{before}{first_field}{tokens[middle_index]}{second_field}{after}"
                for rater_field in rater_fields
                for first_field, second_field in (("{aspect}", rater_field), (rater_field, "{aspect}"))
            )


def _is_aspect(word: str) -> bool:
    return word.lower() in ASPECTS | SHORT_ASPECTS | PROTOCOLS


def _is_plausible(label_by_role_list: Sequence[Mapping[str, str]]) -> bool:
    """Whether it is plausible that the parts of names are aspects and raters.

    Without raters, all aspects must be known. With raters, the raters must look like raters, or some aspects must be
    known and every rater must have rated every aspect.
    """
    aspects, raters = (
        [label_by_role.get(role, "") for label_by_role in label_by_role_list] for role in ("aspect", "rater")
    )
    if not any(raters):
        return all(_is_aspect(word) for aspect in aspects for word in split_name(aspect))
    if any(
        (looks_like_rater(aspect) and not _is_aspect(aspect)) or not GENERIC.isdisjoint(split_name(aspect))
        for aspect in aspects
    ):
        return False
    has_known_aspect = any(_is_aspect(word) for aspect in aspects for word in split_name(aspect))
    return (has_known_aspect and len(set(raters)) * len(set(aspects)) == len(raters)) or (
        (has_known_aspect or len(raters) > 1) and all(any(map(looks_like_rater, split_name(rater))) for rater in raters)
    )


def pooled_aspects(human_column_names: Sequence[str]) -> list[str]:
    """The known aspects in the names of human ratings, if there are several, as in `human_coherence` and
    `human_fluency`.

    >>> pooled_aspects(["human_coherence", "human_fluency"]), pooled_aspects(["human_coherence_1", "human_coherence_2"])
    (['coherence', 'fluency'], [])
    """
    word_stems = [stem(word) for name in human_column_names for word in split_name(name)]
    aspects = list(dict.fromkeys(word for word in word_stems if _is_aspect(word)))
    return aspects if len(aspects) > 1 else []


def mapping_advice(human_column_names: Sequence[str], column_names: Sequence[str]) -> str:
    """Advice to map columns that are named after several aspects; '' if no pattern separates two known aspects.

    >>> mapping_advice(["human_fluency", "human_style"], ["human_fluency", "human_style", "bleu"])
    ". The names contain aspects: map the columns by --columns 'human_{aspect}' --columns 'metric:{rater:bleu}'"
    """
    patterns = [people_pattern(human_column_names, column_names)] if pooled_aspects(human_column_names) else [""]
    if "{aspect" not in patterns[0]:  # the pattern of a list of names would mix the ratings of several aspects
        return ""
    escaped_other_names = [escape_braces(name) for name in column_names if name not in human_column_names]
    patterns += [f"metric:{{rater:{','.join(escaped_other_names)}}}"] if escaped_other_names else []
    return (
        f". The names contain aspects: map the columns by {' '.join(f'--columns {pattern!r}' for pattern in patterns)}"
    )


def people_patterns(
    frame: pl.DataFrame, score_column_names: Sequence[str], number_column_names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Patterns of the columns with human ratings, and the matched columns. The patterns match none of the other columns
    in `number_column_names`. If every possible pattern would mix the ratings of several aspects, no pattern is
    returned."""
    human_column_names = [
        name
        for name in score_column_names
        if looks_human(name) or (_is_numbered_rating(name) and has_half_steps(frame[name]))
    ]
    names_with_aspect = [name for name in human_column_names if ASPECTS & name_stems(name)]
    for candidate_names in (human_column_names, names_with_aspect):
        pattern = people_pattern(candidate_names, number_column_names) if candidate_names else ""
        if "{aspect" in pattern or not pooled_aspects(candidate_names):
            return list(filter(None, [pattern])), candidate_names
    return [], human_column_names


def _is_numbered_rating(name: str) -> bool:
    """Whether a name has a known aspect or the word rating, and a numbered rater: `coherence_r1`, `rating_2`."""
    name_words = split_name(name)
    return (
        ("rating" in name_words or any(map(_is_aspect, name_words)))
        and any(map(looks_like_rater, name_words))
        and not looks_like_machine(name)
    )


def nested_patterns(frame: pl.DataFrame, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The patterns of objects that hold scores, such as `human:scores.*` or `metric:scores.*`, and the remaining paths.

    Whole and half numbers in an object that is named like human ratings are read as human ratings.
    """
    object_patterns, remaining_paths = list[str](), list[str]()
    for parent_name in dict.fromkeys(path.split(".")[0] for path in paths):
        child_paths = [path for path in paths if path.split(".")[0] == parent_name]
        is_machine = looks_like_machine(parent_name) or not MACHINE_SCORES.isdisjoint(name_stems(parent_name))
        is_human = not (is_machine or (HUMAN | RATINGS).isdisjoint(name_stems(parent_name))) and all(
            map(has_half_steps, frame[child_paths])
        )
        subpaths = [path.partition(".")[2] for path in child_paths]
        has_rater_keys = is_human and not any("." in subpath or ASPECTS & name_stems(subpath) for subpath in subpaths)
        if any(subpath.count(".") > subpath.rpartition(".")[2].isdigit() for subpath in subpaths):
            # the position in a list of objects names no annotator
            path_key_lists = [subpath.split(".") for subpath in subpaths]
            aspect_levels = {
                key_level
                for path_keys in path_key_lists
                for key_level, key in enumerate(path_keys)
                if ASPECTS & name_stems(key)
            }
            has_two_keys = all(len(path_keys) == 2 and not path_keys[0].isdigit() for path_keys in path_key_lists)
            if is_human and has_two_keys and len(aspect_levels) == 1:
                field_pattern = "{aspect}.{rater}" if aspect_levels == {0} else "{rater}.{aspect}"
                object_patterns.append(f"human:{parent_name}.{field_pattern}")
            remaining_paths += [] if is_human else child_paths
        elif is_human or is_machine or len(child_paths) > 1:
            object_patterns.append(
                f"{'human' if is_human else 'metric'}:{parent_name}.{'{rater}' if has_rater_keys else '*'}"
            )
        else:
            remaining_paths += child_paths
    return object_patterns, remaining_paths


def aspect_variants(judge_names: Sequence[str], human_names: Sequence[str]) -> set[str]:
    """The names in `judge_names` that differ from a name in `human_names` only in the aspect.

    >>> sorted(aspect_variants(["depth_al", "depth_cy", "bleu"], ["style_al", "style_bo"]))
    ['depth_al']
    """
    words_except_aspects_of_name = {
        name: tuple(word for word in split_name(name) if not _is_aspect(word))
        for name in (*judge_names, *human_names)
        if any(map(_is_aspect, split_name(name)))
    }
    human_words_except_aspects = {
        words_except_aspects_of_name[name] for name in human_names if words_except_aspects_of_name.get(name)
    }
    return {name for name in judge_names if words_except_aspects_of_name.get(name) in human_words_except_aspects}


def metric_patterns(
    metric_column_names: Sequence[str], other_column_names: Sequence[str], aspects: Collection[str]
) -> list[str]:
    """Patterns that match the metric columns and none of the numeric columns `other_column_names`.

    `aspects` are the aspects of the human ratings. Metrics may also rate these aspects.
    """
    aspects_text = ",".join(map(escape_braces, sorted(aspects)))
    separators = {separator for name in metric_column_names for separator in re.findall(r"[\W_]+", name)}
    candidate_patterns = [
        f"metric:{pattern}"
        for separator in map(escape_braces, sorted(separators))
        for pattern in (
            f"{{aspect:{aspects_text}}}{separator}{{rater}}",
            f"{{rater}}{separator}{{aspect:{aspects_text}}}",
        )
    ]
    aspect_pattern = max(
        candidate_patterns, key=lambda pattern: len(match_columns(pattern, metric_column_names)), default=""
    )
    label_by_role_of_column = (
        match_columns(aspect_pattern, metric_column_names) if aspect_pattern and len(aspects) > 1 else {}
    )
    remaining_names = [
        name for name in metric_column_names if len(label_by_role_of_column) < 2 or name not in label_by_role_of_column
    ]
    remaining_pattern = (
        "{rater}" if not other_column_names else f"{{rater:{','.join(map(escape_braces, remaining_names))}}}"
    )
    return [
        *([aspect_pattern] if len(label_by_role_of_column) > 1 else []),
        *([f"metric:{remaining_pattern}"] if remaining_names else []),
    ]


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
    doubled_numbers = parse_numbers(column).drop_nulls() * 2
    return bool((doubled_numbers == doubled_numbers.round()).all())


def with_kinds(
    mapped_table: pl.DataFrame, column_of_role: Mapping[str, str], *, where: str
) -> tuple[pl.DataFrame, list[Note]]:
    """The mapped table, with the kinds of raters if these follow from the name of the column of raters.

    Without a column of kinds, labels in a column such as `annotator` are human, except names of models. Labels in a
    column such as `metric` are metrics, except names such as `human`.
    """
    rater_column_name = column_of_role.get("rater", "")
    rater_role_words = set(split_name(rater_column_name)) & (PEOPLE_ROLES | METRIC_ROLES)
    if "kind" in mapped_table.columns or "rater" not in mapped_table.columns or not rater_role_words:
        return mapped_table, []
    rater_labels = label_column(mapped_table, "rater", where=where, empty=True)
    is_column_of_metrics = bool(rater_role_words & METRIC_ROLES)
    metric_labels = [
        rater_label
        for rater_label in rater_labels.unique(maintain_order=True)
        if (not looks_human(rater_label) if is_column_of_metrics else is_model_name(rater_label))
    ]
    row_kinds = rater_labels.is_in(metric_labels).replace_strict(
        {True: "metric", False: "human"}, return_dtype=pl.String
    )
    exception_text = f", except {join_labels(metric_labels)}" if metric_labels else ""
    return mapped_table.with_columns(row_kinds.alias("kind")), build_notes(
        (
            "annotators-by-column",
            not is_column_of_metrics,
            f"{where}: raters of column {rater_column_name!r} are read as human{exception_text}; give --human if "
            "this is wrong",
        )
    )
