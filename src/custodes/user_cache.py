"""Cache in the user's folder for texts that take seconds to compute and depend only on the versions of libraries."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path

from custodes.errors import OptionError
from custodes.files import write_atomically

ALONE = 0o700
"""Mode of a folder that other users cannot read or write, because its files are inserted into pages."""


def cached_text(name: str, make: Callable[[], str]) -> str:
    """The text that is stored under a name, which includes a version. A missing text is computed by `make` and stored.

    If the text cannot be stored, it is computed every time. A damaged file is not used, and neither is a folder that
    other users can open.

    >>> cached_text("doctest-2", lambda: "result")
    'result'
    """
    cache_path = cache_folder() / name
    if (cached_content := _read(cache_path)) is not None:
        return cached_content
    text = make()
    with suppress(OSError, OptionError):
        cache_path.parent.mkdir(mode=ALONE, parents=True, exist_ok=True)
        write_atomically(cache_path, _digest(text) + "\n" + text)
    return text


def cache_folder() -> Path:
    """The user's cache folder on this system."""
    return user_cache_path("custodes", appauthor=False)


def _read(cache_path: Path) -> str | None:
    """The stored text, if complete and written by this user; else None."""
    try:
        folder_status = os.stat(cache_path.parent)
        if hasattr(os, "getuid") and (folder_status.st_uid != os.getuid() or folder_status.st_mode & 0o777 & ~ALONE):
            return None
        digest, _, text = cache_path.read_bytes().decode().partition("\n")
    except (OSError, ValueError):  # missing, an invalid name, or not text
        return None
    return text if digest == _digest(text) else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
