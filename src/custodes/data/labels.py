"""Labels: known pairs of binary words, the positive word of a pair, and codes of labels in a table of ratings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from custodes.data.mapping.column_vocabulary import BINARY_WORDS
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
    ("negative", "positive"),
    ("irrelevant", "relevant"),
    ("unfaithful", "faithful"),
    ("unhelpful", "helpful"),
    ("ungrounded", "grounded"),
    ("invalid", "valid"),
    ("ko", "ok"),
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
"""Known pairs of labels, with the positive one second."""

POLARITY: Mapping[str, int] = {word: code for pair in BINARY for code, word in enumerate(pair)}
"""Code of each known label: 0 (negative) or 1 (positive)."""

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
    words = _words(distinct_values)
    return column.replace_strict(distinct_values, words, return_dtype=pl.String) if len(distinct_values) else words


def _words(column: pl.Series) -> pl.Series:
    column = restore_integers(column)
    words = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    if not column.dtype.is_numeric():
        is_text = words.cast(pl.Float64, strict=False).is_null()
        words = words.zip_with(~is_text, words.str.replace_all(r"[\s-]+", "_"))
    words = words.str.replace(r"^(\d+)\.0+$", "$1")
    return words.set(words.is_in([*MISSING_TOKENS, "unlabelled", "unlabeled"]), None)


def is_binary(words: Iterable[str]) -> bool:
    """Whether all words are known binary labels, possibly of different pairs (`false` with `pass` is binary)."""
    distinct_words = set(words)
    return bool(distinct_words) and distinct_words <= POLARITY.keys()


def infer_scale(columns: Mapping[str, pl.Series], *, gold: Sequence[str], where: str) -> LabelScale:
    """The common scale of label columns that `label_words` converted. The columns in `gold` contain human labels.

    Known binary labels make a binary scale, even if they are from different pairs. Integers make an ordinal scale.
    Other words make a nominal scale, in alphabetical order. If the human labels are binary or integers, a numeric
    column with other values holds scores. If there are no human labels, a column with non-integers holds scores if
    another column has binary or integer labels.

    Raises
    ------
    InputError
        If human labels are neither words nor integers, or if there are too many different labels.
    """
    words_of_rater = {name: set(column.drop_nulls().unique()) for name, column in columns.items()}
    reference_raters = (
        list(gold)
        or [name for name, rater_words in words_of_rater.items() if not _are_fractions(rater_words)]
        or list(columns)
    )
    words: list[str] = sorted({word for name in reference_raters for word in columns[name].drop_nulls().unique()})
    if not words:
        words = sorted(set().union(*words_of_rater.values()))
    if is_binary(words):
        raters_with_scores = frozenset(
            name
            for name, rater_words in words_of_rater.items()
            if not is_binary(rater_words) and rater_words and _are_numbers(rater_words)
        )
        return LabelScale(words=binary_words(words), scores=raters_with_scores)
    if _are_numbers(words):
        values = sorted({float(word) for word in words})
        if any(value != int(value) for value in values) or len(values) > MOST_STEPS:
            raise InputError(
                f"{where}: {'human ' if gold else ''}labels are scores ({join_labels(words, limit=4)}); give labels "
                f"that are words or at most {MOST_STEPS} whole numbers"
            )
        raters_with_scores = frozenset(
            name
            for name, rater_words in words_of_rater.items()
            if not rater_words <= set(words) and _are_numbers(rater_words)
        )
        return LabelScale(words=tuple(str(int(value)) for value in values), ordered=True, scores=raters_with_scores)
    labels = set(words).union(
        *(rater_words for rater_words in words_of_rater.values() if not _are_numbers(rater_words))
    )
    if len(labels) > MOST_LABELS:
        raise InputError(
            f"{where}: {len(labels)} different labels ({join_labels(sorted(labels), limit=4)}); at most "
            f"{MOST_LABELS} are allowed"
        )
    return LabelScale(words=tuple(sorted(labels)))


def _are_numbers(words: Iterable[str]) -> bool:
    return all(_is_number(word) for word in words)


def _are_fractions(words: Iterable[str]) -> bool:
    """Whether the words are numbers that include a non-integer."""
    return _are_numbers(words) and not all(float(word).is_integer() for word in words)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def binary_words(words: Sequence[str]) -> tuple[str, str]:
    """The negative and the positive word. If only one word occurs, the other word of the known pair is added."""
    word_of_code = {POLARITY[word]: word for word in sorted(words, reverse=True)}
    for code in (0, 1):
        if code not in word_of_code:
            word_of_code[code] = next(known_pair[code] for known_pair in BINARY if word_of_code[1 - code] in known_pair)
    return word_of_code[0], word_of_code[1]


def encode_labels(words: pl.Series, raters: pl.Series, scale: LabelScale) -> pl.Series:
    """The words of raters as numbers: scores for the raters in `scale.scores`, and codes for other raters. A word
    without a code becomes null."""
    code_of_word = (
        POLARITY if scale.binary and is_binary(scale.words) else {w: code for code, w in enumerate(scale.words)}
    )
    word_codes = words.replace_strict(code_of_word, default=None, return_dtype=pl.Float64)
    return words.cast(pl.Float64, strict=False).zip_with(raters.is_in(list(scale.scores)), word_codes)


def unify_scales(
    frames: tuple[pl.DataFrame, pl.DataFrame],
    scales: tuple[Mapping[str, LabelScale], Mapping[str, LabelScale]],
    *,
    kind: Mapping[str, str],
) -> tuple[tuple[pl.DataFrame, pl.DataFrame], dict[str, LabelScale]]:
    """Ratings of two inputs, recoded to a common scale for each shared aspect, and the scales of all aspects.

    If one input has labels and the other input has numbers (0 and 1, or scores of a judge), the numbers are read as if
    they were a further column in the table of labels (see `infer_scale`).

    Parameters
    ----------
    frames : pair of DataFrame
        Ratings with `rater`, `aspect` and `score`.
    scales : pair of mappings
        Scales by aspect.
    kind : mapping
        Kind of each rater: 'human' or 'metric'.
    """
    scale_of_aspect = {**scales[1], **scales[0]}
    for aspect in scale_of_aspect:
        is_aspect = pl.col("aspect") == aspect
        scales_of_inputs = [scale.get(aspect) for scale in scales]
        if scales_of_inputs[0] == scales_of_inputs[1] or not all(
            frame.select(is_aspect.any()).item() for frame in frames
        ):
            continue
        words_of_inputs = [
            _decode_labels(frame.filter(is_aspect), scale)
            for frame, scale in zip(frames, scales_of_inputs, strict=True)
        ]
        words_by_rater = pl.concat(words_of_inputs).partition_by("rater", as_dict=True, maintain_order=True)
        columns = {str(rater): rater_rows["word"].alias(str(rater)) for (rater,), rater_rows in words_by_rater.items()}
        human_raters = [rater for rater in columns if kind.get(rater) == "human"]
        scale = infer_scale(columns, gold=human_raters, where=aspect or "labels of two inputs")
        scale_of_aspect[aspect] = scale
        frames = (
            _recode_labels(frames[0], is_aspect, words_of_inputs[0], scale),
            _recode_labels(frames[1], is_aspect, words_of_inputs[1], scale),
        )
    return frames, scale_of_aspect


def _decode_labels(rows: pl.DataFrame, scale: LabelScale | None) -> pl.DataFrame:
    """Rater and word of each rating."""
    numbers = label_words(rows["score"]).alias("word")
    if scale is None:
        return pl.DataFrame([rows["rater"], numbers])
    word_of_code = {float(code): word for code, word in enumerate(scale.words)}
    words = rows["score"].replace_strict(word_of_code, default=None, return_dtype=pl.String)
    has_score = rows["rater"].is_in(list(scale.scores))
    return pl.DataFrame([rows["rater"], numbers.zip_with(has_score, words).alias("word")])


def _recode_labels(frame: pl.DataFrame, is_recoded: pl.Expr, words: pl.DataFrame, scale: LabelScale) -> pl.DataFrame:
    """Ratings with the selected scores as codes of a scale; labels that are not in the scale are dropped."""
    row_indices = frame.select(is_recoded).to_series().arg_true()
    label_codes = encode_labels(words["word"], words["rater"], scale).cast(frame.schema["score"])
    return frame.with_columns(frame["score"].clone().scatter(row_indices, label_codes)).drop_nulls("score")
