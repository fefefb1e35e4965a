"""Columns with human ratings, detected by the words in their names, and patterns for these columns. Kinds of raters,
from a column of kinds or from the name of the column of raters."""

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


def people_pattern(human_column_names: Sequence[str], column_names: Sequence[str]) -> str:
    """A pattern that matches `human_column_names` and none of the remaining names in `column_names`.

    If the names have no common form, the pattern lists the names, and each name is a rater.

    >>> people_pattern(["human_style_ann1", "human_depth_ann1"], ["human_style_ann1", "human_depth_ann1", "bleu"])
    'human_{aspect}_{rater}'
    """
    for fixed_prefix, labels_of_field, separator, fixed_suffix in _iter_common_forms(human_column_names):
        kind_prefix = "" if "human" in split_name(f"{fixed_prefix} {fixed_suffix}") else "human:"
        for fields_with_listed_labels in ((), ("rater",), ("aspect",), ("aspect", "rater")):
            placeholders = [
                f"{{{field_name}:{','.join(dict.fromkeys(labels))}}}"
                if field_name in fields_with_listed_labels
                else f"{{{field_name}}}"
                for field_name, labels in labels_of_field.items()
            ]
            pattern_text = (
                f"{kind_prefix}{escape_braces(fixed_prefix)}{escape_braces(separator).join(placeholders)}"
                f"{escape_braces(fixed_suffix)}"
            )
            if match_columns(pattern_text, column_names).keys() == set(human_column_names):
                return pattern_text
    return f"human:{{rater:{','.join(human_column_names)}}}"


def _iter_common_forms(human_column_names: Sequence[str]) -> Iterator[tuple[str, dict[str, list[str]], str, str]]:
    """Possible common forms of the names: the fixed start, the labels of one or two fields, the text between the
    fields, and the fixed end."""
    token_lists = [re.split(r"([\W_]+)", name) for name in human_column_names]  # words at even indices
    prefix_tokens, suffix_tokens = list[str](), list[str]()
    while all(
        name_tokens[:2] == token_lists[0][:2] and len(name_tokens) > 2 for name_tokens in token_lists
    ) and not _is_label(token_lists[0][0]):
        prefix_tokens += token_lists[0][:2]
        token_lists = [name_tokens[2:] for name_tokens in token_lists]
    last_tokens = token_lists[0][-2:]
    may_be_suffix = not last_tokens[-1] or (looks_human(last_tokens[-1]) and not _is_label(last_tokens[-1]))
    if may_be_suffix and all(name_tokens[-2:] == last_tokens and len(name_tokens) > 2 for name_tokens in token_lists):
        suffix_tokens, token_lists = last_tokens, [name_tokens[:-2] for name_tokens in token_lists]
    if all(_is_aspect(word) for name_tokens in token_lists for word in name_tokens[::2]):
        yield (
            "".join(prefix_tokens),
            {"aspect": ["".join(name_tokens) for name_tokens in token_lists]},
            "",
            "".join(suffix_tokens),
        )
    for is_rater_last in (True, False):
        aspect_rater_splits = [
            aspect_rater_split
            for name_tokens in token_lists
            if (aspect_rater_split := _split_words(name_tokens, is_rater_last=is_rater_last))
        ]
        aspect_labels, separators, rater_labels = (
            [aspect_rater_split[part_index] for aspect_rater_split in aspect_rater_splits] for part_index in range(3)
        )
        if (
            len(aspect_rater_splits) == len(token_lists)
            and len(set(separators)) == 1
            and _is_plausible(rater_labels, aspect_labels)
        ):
            labels_of_field = (
                {"aspect": aspect_labels, "rater": rater_labels}
                if is_rater_last
                else {"rater": rater_labels, "aspect": aspect_labels}
            )
            yield "".join(prefix_tokens), labels_of_field, separators[0], "".join(suffix_tokens)


def _split_words(name_tokens: list[str], *, is_rater_last: bool) -> tuple[str, ...] | None:
    """The aspect, the separator and the rater in a name that is given as a list of words and separators.

    The rater begins with a word that looks like a rater, or is the part after a known aspect.
    """
    direction_step = 1 if is_rater_last else -1
    name_tokens = name_tokens[::direction_step]
    word_indices = range(2, len(name_tokens), 2)
    likely_rater_indices = [
        *(word_index for word_index in word_indices if looks_like_rater(name_tokens[word_index])),
        *(
            word_index
            for word_index in word_indices
            if _is_aspect(name_tokens[0]) and not _is_aspect(name_tokens[word_index])
        ),
    ]
    if not likely_rater_indices:
        return None
    rater_index = likely_rater_indices[0]
    return tuple(
        "".join(part_tokens[::direction_step])
        for part_tokens in (
            name_tokens[: rater_index - 1],
            name_tokens[rater_index - 1 : rater_index],
            name_tokens[rater_index:],
        )
    )


def _is_label(word: str) -> bool:
    """Whether a word may be the label of an aspect or a rater: a known aspect, or a word with a number."""
    return _is_aspect(word) or any(character.isdigit() for character in word)


def _is_aspect(word: str) -> bool:
    return word.lower() in ASPECTS | SHORT_ASPECTS


def _is_plausible(raters: Sequence[str], aspects: Sequence[str]) -> bool:
    """Whether it is plausible that `raters` are raters and `aspects` are aspects.

    This is plausible if `raters` look like raters, or if known aspects are fully crossed with `raters`.
    """
    if any(looks_like_rater(aspect) or not GENERIC.isdisjoint(split_name(aspect)) for aspect in aspects):
        return False
    is_crossed_with_aspects = len(set(raters)) * len(set(aspects)) == len(raters) and any(
        set(split_name(aspect)) & ASPECTS for aspect in aspects
    )
    return is_crossed_with_aspects or all(any(map(looks_like_rater, split_name(rater))) for rater in raters)


def pooled_aspects(human_column_names: Sequence[str]) -> list[str]:
    """The aspects in the names of human ratings, if there are several aspects, as in `human_coherence` and
    `human_fluency`.

    A part of the names is an aspect if the part is a known aspect or is crossed with a part that numbers annotators.

    >>> pooled_aspects(["human_coherence", "human_fluency"]), pooled_aspects(["expert_1", "turker_1"])
    (['coherence', 'fluency'], [])
    """
    name_word_lists = [split_name(name) for name in human_column_names]
    aspects_in_names = dict.fromkeys(
        stem(word) for words in name_word_lists for word in words if stem(word) in ASPECTS | SHORT_ASPECTS
    )
    if len(aspects_in_names) > 1:
        return list(aspects_in_names)
    if len({len(words) for words in name_word_lists}) != 1:
        return []
    label_sets_of_varying_positions = [
        labels for labels in map(dict.fromkeys, zip(*name_word_lists, strict=True)) if len(labels) > 1
    ]
    if len(label_sets_of_varying_positions) != 2 or len(label_sets_of_varying_positions[0]) * len(
        label_sets_of_varying_positions[1]
    ) != len(name_word_lists):
        return []
    aspect_label_sets = [labels for labels in label_sets_of_varying_positions if not any(map(looks_like_rater, labels))]
    return (
        list(aspect_label_sets[0])
        if len(aspect_label_sets) == 1
        and any(all(map(looks_like_rater, labels)) for labels in label_sets_of_varying_positions)
        else []
    )


def people_patterns(frame: pl.DataFrame, score_column_names: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Patterns of the columns with human ratings, and the matched columns. If every possible pattern would mix
    the ratings of several aspects, there is no pattern."""
    average_column_names = find_averages(score_column_names)
    non_average_column_names = [
        column_name for column_name in score_column_names if column_name not in average_column_names
    ]
    human_column_names = [
        column_name
        for column_name in non_average_column_names
        if looks_human(column_name) or (_has_aspect_and_rater(column_name) and has_half_steps(frame[column_name]))
    ]
    human_names_with_aspect = [column_name for column_name in human_column_names if ASPECTS & name_stems(column_name)]
    for candidate_column_names in dict.fromkeys([tuple(human_column_names), tuple(human_names_with_aspect)]):
        pattern = people_pattern(candidate_column_names, score_column_names) if candidate_column_names else ""
        if "{aspect" in pattern or not pooled_aspects(candidate_column_names):
            return ((pattern,) if candidate_column_names else ()), list(candidate_column_names)
    return (), human_column_names


def _has_aspect_and_rater(name: str) -> bool:
    """Whether a name has a known aspect and a numbered rater: `coherence_r1`."""
    words = split_name(name)
    return any(map(_is_aspect, words)) and any(map(looks_like_rater, words)) and not looks_like_machine(name)


def nested_patterns(frame: pl.DataFrame, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The patterns of objects that hold scores, such as `human:scores.*` or `metric:scores.*`, and the remaining paths.

    Lists of numbers are read as human ratings. Integers in an object that is named like ratings are read as human
    ratings, too.
    """
    patterns, remaining_paths, rater_parent_paths = list[str](), list[str](), list[str]()
    paths_of_parent: dict[str, list[str]] = {}
    for path in paths:
        if frame[path].n_unique() > 1:
            list_path, list_separator, _ = path.rpartition(".*.")
            paths_of_parent.setdefault(f"{list_path}.*" if list_separator else path.split(".")[0], []).append(path)
    for parent_path, child_paths in paths_of_parent.items():
        key_parts_of_children = [child_path[len(parent_path) + 1 :].split(".") for child_path in child_paths]
        aspects_in_first_key_parts, aspects_in_last_key_parts = (
            {stem(word) for key_parts in key_parts_of_children for word in split_name(key_parts[part_index])} & ASPECTS
            for part_index in (0, -1)
        )
        parent_stems = name_stems(parent_path)
        is_machine_parent = looks_like_machine(parent_path) or not parent_stems.isdisjoint(MACHINE_SCORES)
        has_list_positions = any(key_parts[-1].isdigit() for key_parts in key_parts_of_children)
        is_human_parent = (
            not is_machine_parent
            and all(map(has_half_steps, frame[child_paths]))
            and (has_list_positions or bool(parent_stems & (HUMAN | RATINGS)))
        )
        max_n_key_parts = max(map(len, key_parts_of_children))
        if (
            is_human_parent and max_n_key_parts == 2 and aspects_in_last_key_parts and not aspects_in_first_key_parts
        ):  # an object of ratings by each annotator
            rater_parent_paths.append(parent_path)
        elif max_n_key_parts > 2 or not (is_human_parent or is_machine_parent or len(child_paths) > 1):
            remaining_paths += child_paths
        elif is_human_parent and max_n_key_parts == 1 and not aspects_in_first_key_parts:
            patterns.append(f"human:{escape_braces(parent_path)}.{{rater}}")
        elif not parent_path.endswith(".*"):
            patterns.append(f"{'human' if is_human_parent else 'metric'}:{parent_path}.*")
        elif has_list_positions:
            patterns.append(f"human:{escape_braces(parent_path)}.{{aspect}}.{{rater:{POSITION}}}")
        else:
            patterns.append(
                f"{'human' if is_human_parent else 'metric'}:{escape_braces(parent_path)}."
                f"{'{aspect}' if is_human_parent else '{rater}'}"
            )
    if rater_parent_paths:
        rater_field_text = (
            f"{{rater:{','.join(f'{parent_path}.*' for parent_path in rater_parent_paths)}}}"
            if len(rater_parent_paths) > 1
            else f"{escape_braces(rater_parent_paths[0])}.{{rater}}"
        )
        patterns.append(f"human:{rater_field_text}.{{aspect}}")
    return patterns, remaining_paths


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


MOST_NAMED = 12
"""Maximum number of metrics without an aspect next to a proposed pattern that reads aspects, because these metrics must
be listed by name. If there are more, the proposed pattern reads no aspects."""


def metric_column_patterns(
    score_column_names: Sequence[str],
    human_column_names: Sequence[str],
    excluded_column_names: Sequence[str] = (),
    aspects: Sequence[str] = (),
) -> tuple[str, ...]:
    """Patterns of the metric columns. Metric columns are all remaining columns except averages and columns that look
    like human ratings.

    The patterns do not match the numeric columns `excluded_column_names`. `aspects` are the aspects of the human
    ratings; metrics may also rate these aspects.
    """
    non_human_column_names = [
        column_name for column_name in score_column_names if column_name not in human_column_names
    ]
    average_column_names = find_averages(score_column_names)
    metric_column_names = [
        column_name
        for column_name in non_human_column_names
        if column_name not in average_column_names and not looks_human(column_name)
    ]
    if not metric_column_names:
        return ()
    aspects_text = ",".join(map(escape_braces, aspects))
    separators = (
        {name_separator for column_name in metric_column_names for name_separator in re.findall(r"[\W_]+", column_name)}
        if len(aspects) > 1
        else set[str]()
    )
    for separator in map(escape_braces, sorted(separators)):
        for pattern_text in (
            f"{{aspect:{aspects_text}}}{separator}{{rater}}",
            f"{{rater}}{separator}{{aspect:{aspects_text}}}",
        ):
            label_by_role_of_column = match_columns(
                f"metric:{pattern_text}", [*metric_column_names, *excluded_column_names]
            )
            has_few_unmatched_metrics = len(metric_column_names) - len(label_by_role_of_column) <= MOST_NAMED
            if (
                has_few_unmatched_metrics
                and set(label_by_role_of_column) <= set(metric_column_names)
                and len({label_by_role["aspect"] for label_by_role in label_by_role_of_column.values()}) > 1
            ):
                return f"metric:{pattern_text}", *metric_column_patterns(
                    score_column_names,
                    [*human_column_names, *label_by_role_of_column],
                    [*excluded_column_names, *label_by_role_of_column],
                )
    return (
        ("metric:{rater}",)
        if metric_column_names == non_human_column_names and not excluded_column_names
        else (f"metric:{{rater:{','.join(metric_column_names)}}}",)
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
    doubled_numbers = parse_numbers(column).drop_nulls() * 2
    return bool((doubled_numbers == doubled_numbers.round()).all())


def with_kinds(
    mapped_table: pl.DataFrame, column_of_role: Mapping[str, str], *, where: str
) -> tuple[pl.DataFrame, list[Note]]:
    """The mapped table, with the kinds of raters if these follow from the name of the column of raters.

    Without a column of kinds, labels in a column such as `annotator` are human
    (except names of models), and labels in a column such as `metric` are metrics (except names such as `human`).
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
