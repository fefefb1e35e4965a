# ruff: noqa: I001, F401
"""Readers. Each format has one line in this module, and formats that share code have one file. The module
`custodes.data.reading` selects the reader."""

from __future__ import annotations

from typing import Any

from custodes.data.readers.reader import PathReader, TableReader, plugin_readers
from custodes.plugins import members

from custodes.data.readers.ratings import READER as RATINGS
from custodes.data.readers.battles import READER as BATTLES
from custodes.data.readers.outputs import READER as OUTPUTS
from custodes.data.readers.annotation import INTERIM_ANALYSES
from custodes.data.readers.ratings import WIDE
from custodes.data.readers.alpacaeval import READER as ALPACAEVAL
from custodes.data.readers.arena import READER as ARENA
from custodes.data.readers.judge_logs import ARENAHARD, MTBENCH
from custodes.data.readers.rewardbench import TABLE, PUBLISHED_DATA
from custodes.data.readers.judge_logs import LLMBAR

from custodes.data.readers.annotation import READER as ANNOTATION
from custodes.data.readers.alpacaeval import RESULTS as ALPACAEVAL_RESULTS
from custodes.data.readers.inspect_ai import READER as INSPECT_AI
from custodes.data.readers.lm_eval import READER as LM_EVAL
from custodes.data.readers.helm import READER as HELM
from custodes.data.readers.every_eval_ever import READER as EVERY_EVAL_EVER
from custodes.data.readers.rewardbench import SCORES_BY_MODEL
from custodes.data.readers.outputs import TEXTS_FOLDER
from custodes.data.readers.mtme import READER as MTME

TABLE_READERS = {reader.name: reader for reader in members(globals(), TableReader)}
"""Built-in readers of tables by name. The first reader whose columns match is used. `outputs` must come before `wide`,
because `wide` would read texts as scores."""

PATH_READERS = {reader.name: reader for reader in members(globals(), PathReader)}
"""Built-in readers of folders, archives and logs by name. These readers are tried before the readers of tables."""

BUILTIN_READERS = (*TABLE_READERS, *PATH_READERS)

READERS: tuple[str, ...]
"""Names allowed in `reader=`: built-in readers, and those of other packages, which are looked up on first use."""


def __getattr__(name: str) -> Any:
    if name == "READERS":
        return (*BUILTIN_READERS, *plugin_readers(BUILTIN_READERS))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
