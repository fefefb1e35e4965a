"""Writing files so that a reader never meets half of one: to a temporary file beside it, then renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from custodes.errors import OptionError


def write_atomically(path: str | Path, content: bytes | str) -> Path:
    """Write a whole file or leave what was there untouched; raises `OptionError` where the place cannot be written.

    >>> import tempfile
    >>> write_atomically(Path(tempfile.mkdtemp()) / "note.txt", "done").read_text()
    'done'
    """
    target = check_writable(path)
    data = content.encode() if isinstance(content, str) else content
    if target.exists() and not target.is_file():  # a device or pipe, which a rename would replace
        target.write_bytes(data)
        return target
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as problem:
        raise OptionError(f"cannot write {target}: {problem.strerror}; choose another place") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except OSError as problem:
        Path(name).unlink(missing_ok=True)
        raise OptionError(f"cannot write {target}: {problem.strerror}; choose another place") from None
    return target


def check_writable(path: str | Path) -> Path:
    """The path of a file to come; raises `OptionError` where it is a folder already, or its folder is missing."""
    target = Path(path)
    if target.is_dir():
        raise OptionError(f"cannot write {target}: it is a folder; give a file name (or a name that ends in /)")
    if not target.parent.is_dir():
        raise OptionError(f"cannot write {target}: no such folder {target.parent}; make it first")
    if not os.access(target.parent, os.W_OK):
        raise OptionError(f"cannot write {target}: the folder {target.parent} is not writable; choose another place")
    return target


def is_folder(path: str | Path) -> bool:
    """Whether a place is a folder: its name ends in /, or there is one."""
    return str(path).endswith("/") or Path(path).is_dir()


def folder(path: str | Path) -> Path:
    """The folder, made if it is not there."""
    target = Path(path)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OptionError(f"cannot make folder {target}: {problem.strerror}; choose another place") from None
    return target
