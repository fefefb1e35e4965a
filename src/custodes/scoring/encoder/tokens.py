"""Tokens of texts, by a tokenizer.json and the library `tokenizers`. Texts are truncated at the model's limit."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from custodes.errors import InputError, requires_extra, short_repr
from custodes.scoring.encoder.files import ModelFiles, one_line_message
from custodes.stats.arrays import Bools, Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer

OFFSET = ("roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "xlm-roberta-xl", "xmod", "data2vec-text")
"""Model types whose positions start after the index of the padding token, so that the first positions are never used.
"""

SPACED = ("roberta", "gpt2")
"""Model types that tokenize the first word of a text like all other words only if a space precedes the word. For these
types, bert-score adds the space.
"""

NO_LIMIT = 1_000_000
"""A limit of at least this number counts as no limit, because transformers writes 10^30 for models without a limit."""


class Tokens(NamedTuple):
    """Tokens of a text.

    `added` (tokens,) marks special tokens that the tokenizer added. `cut` is true if the text was truncated.
    """

    ids: Ints
    kinds: Ints
    added: Bools
    cut: bool

    @property
    def empty(self) -> bool:
        """Whether no token comes from the text."""
        return bool(self.added.all())


class TextTokenizer:
    """Tokenizer of a model.

    A text gets at most `limit` tokens. Tokens with the ids `weightless` have no weight in BERTScore. As in bert-score
    0.3.13, white space around a text is removed. The tokens that begin and separate texts (`cls_token`, `sep_token`)
    have weight 0, but other tokens may be matched with these special tokens.
    """

    def __init__(self, files: ModelFiles, tokenizer: Tokenizer) -> None:
        tokenizer_settings = files.read_settings("special_tokens_map.json", "tokenizer_config.json")
        model_config = files.read_settings("config.json")
        truncation_settings = tokenizer.truncation
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.limit = _token_limit(tokenizer_settings, model_config) or (truncation_settings or {}).get("max_length")
        if self.limit is not None:
            tokenizer.enable_truncation(self.limit)
        self._space = " " if model_config.get("model_type") in SPACED else ""
        self.weightless = _special_token_ids(tokenizer, tokenizer_settings)
        self.signature = f"tokenizers {version('tokenizers')}"

    def __call__(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text."""
        encodings = self._tokenizer.encode_batch([self._space + text if text else "" for text in map(str.strip, texts)])
        return [
            Tokens(
                ids=np.array(encoding.ids, dtype=np.int64),
                kinds=np.array(encoding.type_ids, dtype=np.int64),
                added=np.array(encoding.special_tokens_mask, dtype=bool),
                cut=bool(encoding.overflowing),
            )
            for encoding in encodings
        ]


def tokenizer_of(files: ModelFiles) -> TextTokenizer:
    """Return the tokenizer from the tokenizer.json of a model."""
    with requires_extra("encoders need tokenizers", "encode"):
        from tokenizers import Tokenizer
    try:
        tokenizer = Tokenizer.from_file(str(files.folder / "tokenizer.json"))
    except Exception as problem:  # tokenizers raises plain Exception
        raise InputError(
            f"{short_repr(files.name)}: the tokenizer.json of the model is not a tokenizer: {one_line_message(problem)}"
        ) from None
    return TextTokenizer(files, tokenizer)


def _token_limit(tokenizer_settings: dict[str, Any], model_config: dict[str, Any]) -> int | None:
    """Return the maximum number of tokens according to the settings of the model; None if there is no limit."""
    n_positions = model_config.get("max_position_embeddings")
    if isinstance(n_positions, int) and model_config.get("model_type") in OFFSET:
        n_positions -= int(model_config.get("pad_token_id") or 0) + 1
    return min(
        [
            int(limit)
            for limit in (tokenizer_settings.get("model_max_length"), n_positions, model_config.get("n_positions"))
            if isinstance(limit, int | float) and 0 < limit < NO_LIMIT
        ],
        default=None,
    )


def _special_token_ids(tokenizer: Tokenizer, tokenizer_settings: dict[str, Any]) -> frozenset[int]:
    """Return the ids of `cls_token` and `sep_token`.

    If there is no settings file, return the ids of the special tokens that the tokenizer adds to an empty text.
    """
    if not tokenizer_settings:
        return frozenset(tokenizer.encode("").ids)
    token_settings = (tokenizer_settings.get(setting_name) for setting_name in ("cls_token", "sep_token"))
    token_texts = (
        token_setting.get("content") if isinstance(token_setting, dict) else token_setting
        for token_setting in token_settings
    )
    token_ids = (tokenizer.token_to_id(token_text) for token_text in token_texts if isinstance(token_text, str))
    return frozenset(token_id for token_id in token_ids if token_id is not None)
