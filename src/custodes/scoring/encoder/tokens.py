"""Texts to tokens: a tokenizer.json by `tokenizers`, cut at the model's limit, with what BERTScore asks of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from custodes.errors import InputError, MissingExtraError, shown
from custodes.scoring.encoder.files import ModelFiles, said
from custodes.stats.arrays import Bools, Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer

OFFSET = ("roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "xlm-roberta-xl", "xmod", "data2vec-text")
"""Kinds of models whose positions are counted from behind the padding token, so that two of them are never used."""

SPACED = ("roberta", "gpt2")
"""Kinds whose first word is one like all others only with a space before it; bert-score puts it there for these."""

NO_LIMIT = 1_000_000
"""transformers writes 10^30 where it knows of no limit."""


class Tokens(NamedTuple):
    """A text as tokens. `added` (tokens,): put there by the tokenizer; `cut`: the text went on behind the limit."""

    ids: Ints
    kinds: Ints
    added: Bools
    cut: bool

    @property
    def empty(self) -> bool:
        """Whether nothing in it is of the text."""
        return bool(self.added.all())


class TextTokenizer:
    """The tokenizer of a model: `limit` tokens at most, `weightless` ids that have no weight in BERTScore.

    As in bert-score 0.3.13 a text is stripped, and the tokens that begin and separate texts (`cls_token`,
    `sep_token`) have no weight of their own, but may be what another token is most like.
    """

    def __init__(self, files: ModelFiles, tokenizer: Tokenizer) -> None:
        settings = {**files.setting("special_tokens_map.json"), **files.setting("tokenizer_config.json")}
        config = files.setting("config.json")
        truncation = tokenizer.truncation
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.limit = _limit(settings, config) or (truncation["max_length"] if truncation else None)
        if self.limit is not None:
            tokenizer.enable_truncation(self.limit)
        self._space = " " if config.get("model_type") in SPACED else ""
        self.weightless = _weightless(tokenizer, settings)
        self.signature = f"tokenizers {version('tokenizers')}"

    def __call__(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text."""
        stripped = [text.strip() for text in texts]
        encodings = self._tokenizer.encode_batch([self._space + text if text else "" for text in stripped])
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
    """The tokenizer.json of a model."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError("encoders need tokenizers: pip install 'custodes[encode]'") from error
    try:
        tokenizer = Tokenizer.from_file(str(files.folder / "tokenizer.json"))
    except Exception as problem:  # its own kind is Exception
        raise InputError(f"{shown(files.name)}: its tokenizer.json is not a tokenizer: {said(problem)}") from None
    return TextTokenizer(files, tokenizer)


def _limit(settings: dict[str, Any], config: dict[str, Any]) -> int | None:
    """How many tokens the model takes, from its settings; None where they do not say."""
    limits = [settings.get("model_max_length"), config.get("max_position_embeddings"), config.get("n_positions")]
    if isinstance(limits[1], int) and config.get("model_type") in OFFSET:
        limits[1] -= int(config.get("pad_token_id") or 0) + 1
    return min(
        (int(limit) for limit in limits if isinstance(limit, int | float) and 0 < limit < NO_LIMIT), default=None
    )


def _weightless(tokenizer: Tokenizer, settings: dict[str, Any]) -> frozenset[int]:
    """The ids of `cls_token` and `sep_token`; where no file names them, of what is put around an empty text."""
    if not settings:
        return frozenset(tokenizer.encode("").ids)
    named = [settings.get(name) for name in ("cls_token", "sep_token")]
    texts = [token.get("content") if isinstance(token, dict) else token for token in named]
    ids = [tokenizer.token_to_id(text) for text in texts if isinstance(text, str)]
    return frozenset(token_id for token_id in ids if token_id is not None)
