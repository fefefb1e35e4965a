"""Labels: known pairs of binary words, the positive word of a pair, and codes of labels in a table of ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from custodes.data.mapping.column_vocabulary import BINARY_WORDS, word_list
from custodes.data.table import MISSING_TOKENS, restore_integers
from custodes.errors import InputError, join_labels

BINARY: Sequence[tuple[str, str]] = (
    ("fail", "pass"),
    ("failed", "passed"),
    ("no", "yes"),
    ("n", "y"),
    ("false", "true"),
    ("f", "t"),
    ("0", "1"),
    ("bad", "good"),
    ("incorrect", "correct"),
    ("wrong", "right"),
    ("unsafe", "safe"),
    ("unacceptable", "acceptable"),
    ("reject", "accept"),
    ("rejected", "accepted"),
    ("reject", "approve"),
    ("rejected", "approved"),
    ("violation", "no_violation"),
    ("negative", "positive"),
    ("irrelevant", "relevant"),
    ("unfaithful", "faithful"),
    ("hallucinated", "faithful"),
    ("unsupported", "supported"),
    ("unhelpful", "helpful"),
    ("ungrounded", "grounded"),
    ("invalid", "valid"),
    ("ko", "ok"),
    ("not_ok", "ok"),
    ("falsch", "richtig"),
    ("schlecht", "gut"),
    ("nicht_bestanden", "bestanden"),
    ("down", "up"),
    ("dislike", "like"),
    ("thumbs_down", "thumbs_up"),
    ("not_resolved", "resolved"),
    ("unresolved", "resolved"),
    ("failure", "success"),
    ("👎", "👍"),
    ("✗", "✓"),
    ("❌", "✅"),
    *BINARY_WORDS,
)
"""Known pairs of labels; the second label of a pair is positive."""

POLARITY: Mapping[str, int] = {word: code for pair in BINARY for code, word in enumerate(pair)}
"""Code of each known label: 0 (negative) or 1 (positive)."""

ABSTENTIONS = frozenset(
    word_list(
        "unsure not_sure uncertain unclear unknown undecided abstain abstained skip skipped cannot_tell can't_tell"
        " cannot_judge don't_know not_applicable ? unsicher unklar"
    )
)
"""Words that count as a missing label beside the two words of a known pair, in lower case with underscores."""

MOST_LABELS = 20
"""Maximum number of distinct words in a column of labels. A column with more words holds names or texts."""

MOST_STEPS = 11
"""Maximum number of distinct integers in a column of ordinal labels."""


@dataclass(frozen=True, kw_only=True)
class LabelScale:
    """The labels of an aspect: `words` in the order of codes 0, 1, ... If there are two words, the second word is
    positive.

    `ordered` is true if the codes have an order. `scores` are the raters with scores instead of codes. A threshold
    converts scores to labels.
    """

    words: tuple[str, ...]
    ordered: bool = False
    scores: frozenset[str] = frozenset()

    @property
    def binary(self) -> bool:
        """Whether there are two labels."""
        return len(self.words) == 2


def label_words(column: pl.Series) -> pl.Series:
    """Cells of a column as lower-case words. Empty cells become null, and integers lose their decimal point."""
    distinct_values = column.unique()
    distinct_words = _words(distinct_values)
    return (
        column.replace_strict(distinct_values, distinct_words, return_dtype=pl.String)
        if len(distinct_values)
        else distinct_words
    )


def _words(column: pl.Series) -> pl.Series:
    column = restore_integers(column)
    word_series = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    word_series = word_series.zip_with(
        word_series.cast(pl.Float64, strict=False).is_not_null(), word_series.str.replace_all(r"[\s-]+", "_")
    )
    word_series = word_series.str.replace(r"^(\d+)\.0+$", "$1")
    return word_series.set(word_series.is_in([*MISSING_TOKENS, "unlabelled", "unlabeled"]), None)


def is_binary(words: Iterable[str]) -> bool:
    """Whether all words are known binary labels, possibly of different pairs (`false` with `pass` is binary)."""
    distinct_words = set(words)
    return bool(distinct_words) and distinct_words <= POLARITY.keys()


def without_abstentions(words: Iterable[str]) -> set[str]:
    """The words without abstentions, if the other words are known negative and positive labels; else all words.

    >>> sorted(without_abstentions(["pass", "fail", "unsure"])), sorted(without_abstentions(["bug", "unknown"]))
    (['fail', 'pass'], ['bug', 'unknown'])
    """
    all_words = set(words)
    decided_words = all_words - ABSTENTIONS
    return decided_words if {POLARITY.get(word) for word in decided_words} == {0, 1} else all_words


def infer_scale(
    word_column_of_rater: Mapping[str, pl.Series], *, human_raters: Sequence[str], where: str
) -> LabelScale:
    """The common scale of label columns that `label_words` converted. The columns of
    `human_raters` contain human labels.

    Known binary labels make a binary scale, even if they are from different pairs; abstentions such as `unsure` beside
    them are no labels. Integers make an ordinal scale.
    Other words make a nominal scale, in alphabetical order. If the human labels are integers or two words, a numeric
    column with values that are not among these labels contains scores. Without human labels, a column with non-integers
    contains scores if another column has binary or integer labels.

    Raises
    ------
    InputError
        If human labels are neither words nor integers, or if there are too many different labels.
    """
    distinct_words_of_rater = {
        rater_name: set(word_column.drop_nulls().unique()) for rater_name, word_column in word_column_of_rater.items()
    }
    reference_raters = (
        list(human_raters)
        or [
            rater_name
            for rater_name, rater_words in distinct_words_of_rater.items()
            if not _are_numbers(rater_words) or all(float(word).is_integer() for word in rater_words)
        ]
        or list(word_column_of_rater)
    )
    all_reference_words: set[str] = set().union(
        *(distinct_words_of_rater[rater_name] for rater_name in reference_raters)
    ) or set().union(*distinct_words_of_rater.values())
    reference_words = sorted(without_abstentions(all_reference_words))
    numeric_words_of_rater = {
        rater_name: rater_words
        for rater_name, rater_words in distinct_words_of_rater.items()
        if rater_words and _are_numbers(rater_words)
    }
    if is_binary(reference_words):
        return LabelScale(
            words=binary_words(reference_words),
            scores=frozenset(
                rater_name for rater_name, words in numeric_words_of_rater.items() if not is_binary(words)
            ),
        )
    if _are_numbers(reference_words):
        reference_numbers = sorted({float(word) for word in reference_words})
        if len(reference_numbers) > MOST_STEPS or not all(
            reference_number.is_integer() for reference_number in reference_numbers
        ):
            raise InputError(
                f"{where}: {'human ' if human_raters else ''}labels are scores "
                f"({join_labels(reference_words, limit=4)}); give labels that are words or at most "
                f"{MOST_STEPS} whole numbers"
            )
        return LabelScale(
            words=tuple(str(int(reference_number)) for reference_number in reference_numbers),
            ordered=True,
            scores=frozenset(
                rater_name for rater_name, words in numeric_words_of_rater.items() if not words <= set(reference_words)
            ),
        )
    if len(reference_words) == 2 and numeric_words_of_rater:
        return LabelScale(words=tuple(reference_words), scores=frozenset(numeric_words_of_rater))
    all_distinct_labels = set(reference_words).union(
        *(words for rater_name, words in distinct_words_of_rater.items() if rater_name not in numeric_words_of_rater)
    )
    if len(all_distinct_labels) > MOST_LABELS:
        raise InputError(
            f"{where}: {len(all_distinct_labels)} different labels "
            f"({join_labels(sorted(all_distinct_labels), limit=4)}); at most {MOST_LABELS} are allowed"
        )
    return LabelScale(words=tuple(sorted(all_distinct_labels)))


def _are_numbers(words: Iterable[str]) -> bool:
    return pl.Series(list(words)).cast(pl.Float64, strict=False).null_count() == 0


def binary_words(words: Sequence[str]) -> tuple[str, str]:
    """The negative and the positive word. If only one word occurs, the other word of the known pair is added."""
    word_of_code = {POLARITY[word]: word for word in sorted(words, reverse=True)}
    for polarity_code in (0, 1):
        if polarity_code not in word_of_code:
            word_of_code[polarity_code] = next(
                word_pair[polarity_code] for word_pair in BINARY if word_of_code[1 - polarity_code] in word_pair
            )
    return word_of_code[0], word_of_code[1]


def encode_raters(word_rows: pl.DataFrame, *, human_raters: Sequence[str], where: str) -> tuple[pl.Series, LabelScale]:
    """The code of the label in each row, and the common scale of all raters (see `infer_scale`). The raters in
    `LabelScale.scores` have scores instead of codes. A word without a code becomes null.

    `word_rows` has the columns `rater` and `word`. Raises `InputError` if judges and annotators have no label in
    common, because judges then cannot be validated.
    """
    word_column_of_rater = {
        str(rater_name): rater_rows["word"]
        for (rater_name,), rater_rows in word_rows.group_by("rater", maintain_order=True)
    }
    scale = infer_scale(word_column_of_rater, human_raters=human_raters, where=where)
    word_column, rater_column = word_rows["word"], word_rows["rater"]
    label_codes = word_column.cast(pl.Float64, strict=False).zip_with(
        rater_column.is_in(list(scale.scores)),
        word_column.replace_strict(
            POLARITY
            if scale.binary and is_binary(scale.words)
            else {word: label_code for label_code, word in enumerate(scale.words)},
            default=None,
            return_dtype=pl.Float64,
        ),
    )
    judge_label_rows = word_rows.select("rater", "word", code=label_codes).filter(
        ~pl.col("rater").is_in(list(human_raters)), pl.col("word").is_not_null()
    )
    if human_raters and judge_label_rows.height and not judge_label_rows["code"].count():
        first_judge = judge_label_rows["rater"][0]
        first_judge_words = judge_label_rows.filter(rater=first_judge)["word"].unique().sort()
        example_text = (
            f", such as {first_judge_words[-1]!r} for human labels of at least {scale.words[-2]}" * scale.ordered
        )
        raise InputError(
            f"{where}: the labels of {first_judge} ({join_labels(first_judge_words, limit=4)}) are not among the human "
            f"labels ({join_labels(scale.words, limit=5)}), so they cannot be compared; use the same labels for "
            f"both{example_text}"
        )
    return label_codes, scale


def unify_scales(
    rating_frames: tuple[pl.DataFrame, pl.DataFrame],
    scales: tuple[Mapping[str, LabelScale], Mapping[str, LabelScale]],
    *,
    kind_of_rater: Mapping[str, str],
) -> tuple[tuple[pl.DataFrame, pl.DataFrame], dict[str, LabelScale]]:
    """Ratings of two inputs, recoded to a common scale for each shared aspect, and the scales of all aspects.

    One input may have labels and the other input numbers (0 and 1, or scores of a judge). Both are then read by the
    rules for label columns of one table (see `infer_scale`).

    Parameters
    ----------
    rating_frames : pair of DataFrame
        Ratings with `rater`, `aspect` and `score`.
    scales : pair of mappings
        Scales by aspect.
    kind_of_rater : mapping
        Kind of each rater: 'human' or 'metric'.
    """
    scale_of_aspect = {**scales[1], **scales[0]}
    for aspect in scale_of_aspect:
        is_aspect_row = pl.col("aspect") == aspect
        input_scales = [input_scale_of_aspect.get(aspect) for input_scale_of_aspect in scales]
        if input_scales[0] == input_scales[1] or not all(
            rating_frame.select(is_aspect_row.any()).item() for rating_frame in rating_frames
        ):
            continue
        word_rows = pl.concat(
            [
                _decode_labels(rating_frame.filter(is_aspect_row), input_scale)
                for rating_frame, input_scale in zip(rating_frames, input_scales, strict=True)
            ]
        )
        label_codes, scale_of_aspect[aspect] = encode_raters(
            word_rows,
            human_raters=[
                rater_name
                for rater_name in word_rows["rater"].unique(maintain_order=True)
                if kind_of_rater.get(rater_name) == "human"
            ],
            where=aspect or "labels of two inputs",
        )
        first_frame, second_frame = rating_frames
        n_first_rows = first_frame.filter(is_aspect_row).height
        rating_frames = (
            _replace_scores(first_frame, is_aspect_row, label_codes[:n_first_rows]),
            _replace_scores(second_frame, is_aspect_row, label_codes[n_first_rows:]),
        )
    return rating_frames, scale_of_aspect


def _decode_labels(rows: pl.DataFrame, scale: LabelScale | None) -> pl.DataFrame:
    """Rater and word of each rating."""
    score_words = label_words(rows["score"]).alias("word")
    if scale is None:
        return pl.DataFrame([rows["rater"], score_words])
    return pl.DataFrame(
        [
            rows["rater"],
            score_words.zip_with(
                rows["rater"].is_in(list(scale.scores)),
                rows["score"].replace_strict(
                    {float(label_code): word for label_code, word in enumerate(scale.words)},
                    default=None,
                    return_dtype=pl.String,
                ),
            ).alias("word"),
        ]
    )


def _replace_scores(rating_frame: pl.DataFrame, is_replaced_row: pl.Expr, new_scores: pl.Series) -> pl.DataFrame:
    """Ratings with the selected scores replaced; ratings whose new score is null are dropped."""
    return rating_frame.with_columns(
        rating_frame["score"]
        .clone()
        .scatter(
            rating_frame.select(is_replaced_row).to_series().arg_true(), new_scores.cast(rating_frame.schema["score"])
        )
    ).drop_nulls("score")
