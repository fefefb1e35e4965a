"""Atomic writing and locking of files.

A file is written under a temporary name in the folder of the target, and then renamed to the target.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from custodes.errors import OptionError, join_labels, reject
from custodes.process import UNFINISHED

STANDARD_STREAMS = STANDARD_INPUT, STANDARD_OUTPUT, _ = "/dev/stdin", "/dev/stdout", "/dev/stderr"


def write_atomically(path: str | Path, content: bytes | str | Iterable[bytes]) -> Path:
    """Write a file completely, or leave the existing file unchanged.

    `OptionError` is raised if the path is not writable. Content in several parts is written part by part.

    An existing file keeps its mode. If the path is a link, the target of the link is written. A device, a pipe or an
    open descriptor (`/dev/stdout`) is written to and never replaced.

    >>> import tempfile
    >>> write_atomically(Path(tempfile.mkdtemp()) / "note.txt", "done").read_text()
    'done'
    """
    target_path = check_writable(path)
    encoded_content = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    content_blocks = [encoded_content] if isinstance(encoded_content, bytes) else encoded_content
    try:
        if is_stream(target_path):
            file_descriptor = _descriptor(target_path)
            with open(target_path if file_descriptor is None else os.dup(file_descriptor), "wb") as output_stream:
                output_stream.writelines(content_blocks)
        else:
            _replace(os.path.realpath(target_path), content_blocks)
    except FileNotFoundError:  # the folder exists, but belongs to a file system without regular files
        raise _unwritable(target_path, f"cannot create a new file in the folder {target_path.parent}") from None
    except OSError as problem:
        raise _unwritable(target_path, problem.strerror) from None
    return target_path


def _replace(target_path: str, content_blocks: Iterable[bytes]) -> None:
    """Write a new file, or replace an existing file."""
    old_file_status = os.stat(target_path) if os.path.exists(target_path) else None
    temporary_path = os.path.join(os.path.dirname(target_path), f".custodes-{secrets.token_hex(8)}")
    UNFINISHED.add(temporary_path)
    try:
        # The permissions are never wider than those of the replaced file; for a new file, the umask sets them.
        file_descriptor = os.open(
            temporary_path,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0),
            (0o666 if old_file_status is None else 0o600),
        )
        with os.fdopen(file_descriptor, "wb") as temporary_file:
            temporary_file.writelines(content_blocks)
        if old_file_status is not None:
            os.chmod(temporary_path, stat.S_IMODE(old_file_status.st_mode))
        os.replace(temporary_path, target_path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary_path)
        raise
    finally:
        UNFINISHED.discard(temporary_path)


def check_writable(path: str | Path) -> Path:
    """Check that the output file can be created or replaced. If this is not possible (for example, if the path is a
    folder), `OptionError` is raised."""
    checked_path = Path(path)
    try:
        with suppress(FileNotFoundError):
            os.stat(checked_path)
    except (OSError, ValueError) as problem:  # a cycle of links, a file in place of a folder, or an invalid name
        raise _unwritable(checked_path, getattr(problem, "strerror", None) or "no file can have this name") from None
    message_start, is_file = f"cannot write {checked_path}:", not is_stream(checked_path)
    parent_folder = os.path.dirname(os.path.realpath(checked_path))
    shown_folder = parent_folder if os.path.islink(checked_path) else checked_path.parent
    reject(
        (os.path.isdir(checked_path), f"{message_start} it is a folder; give the name of a file"),
        (
            os.path.exists(checked_path) and not os.access(checked_path, os.W_OK),
            f"{message_start} the file is write-protected; choose another place",
        ),
        (
            is_file and not os.path.isdir(parent_folder),
            f"{message_start} no such folder {shown_folder}; create the folder first",
        ),
        (
            is_file and not os.access(parent_folder, os.W_OK),
            f"{message_start} the folder {shown_folder} is not writable; choose another place",
        ),
    )
    return checked_path


def _unwritable(path: Path, reason: str | None) -> OptionError:
    return OptionError(f"cannot write {path}: {reason}; choose another place")


def check_distinct_files(outputs: Iterable[str | Path], inputs: Iterable[str | Path]) -> None:
    """Raise `OptionError` if an output is also an input, is in an input folder, or is written twice.

    Links are followed.

    >>> check_distinct_files(["report.html"], ["ratings.csv"])
    """
    input_name_of_identity: dict[tuple[int, int] | None, str] = {}
    for input_name in map(str, inputs):
        input_path = STANDARD_INPUT if input_name == "-" else input_name
        if file_identity := _identity(input_path) or _identity(input_path.partition("::")[0]):
            input_name_of_identity[file_identity] = input_name
    real_output_paths = set[Path]()
    for output_path in map(Path, outputs):
        if is_stream(output_path):
            continue
        real_path = Path(os.path.realpath(output_path))
        input_names = [
            input_name_of_identity[file_identity]
            for file_identity in map(_identity, (real_path, *real_path.parents))
            if file_identity in input_name_of_identity
        ]
        input_noun = "the input" if _identity(real_path) in input_name_of_identity else "a file in the input folder"
        reject(
            (
                real_path in real_output_paths,
                f"cannot write {output_path}: two outputs have this path; choose another name for one output",
            ),
            (
                real_path.exists() and input_names,
                f"cannot write {output_path}: it is {input_noun} {join_labels(input_names[:1])}; choose another name",
            ),
        )
        real_output_paths.add(real_path)


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Device and inode of a regular file or a folder; None if the path is neither."""
    file_status = _status(path)
    if file_status is None or not (stat.S_ISREG(file_status.st_mode) or stat.S_ISDIR(file_status.st_mode)):
        return None
    return file_status.st_dev, file_status.st_ino


def _status(path: str | Path) -> os.stat_result | None:
    """Status of a path; None if the path does not exist or the name is invalid."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def is_stream(path: str | Path) -> bool:
    """Whether a path is a device, a pipe or an open descriptor.

    The suffix of such a path does not determine a format.
    """
    return _status(path) is not None and (_identity(path) is None or _descriptor(path) is not None)


def _descriptor(path: str | Path) -> int | None:
    """The number of the open descriptor that a path names, such as `/dev/stdout` or `/dev/fd/3`."""
    absolute_path = os.path.abspath(path)
    if absolute_path in STANDARD_STREAMS:
        return STANDARD_STREAMS.index(absolute_path)
    path_match = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", absolute_path)
    return int(path_match[1]) if path_match else None


def is_folder(path: str | Path) -> bool:
    """Whether a path is a folder: the path ends in /, or the folder exists."""
    return str(path).endswith("/") or os.path.isdir(path)


def make_folder(path: str | Path) -> Path:
    """Return the path of a folder, which is created if it does not exist."""
    folder_path = Path(path)
    try:
        folder_path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        reason_text = getattr(problem, "strerror", None) or "no folder can have this name"
        raise OptionError(f"cannot make folder {folder_path}: {reason_text}; choose another place") from None
    return folder_path


def lock(file: BinaryIO, *, wait: bool) -> None:
    """Lock an open file for this process until the file is closed.

    If another process holds the lock, the function waits for its release if `wait` is true, and else raises OSError.
    """
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def open_with_lock(path: str | Path) -> Iterator[BinaryIO]:
    """Open an existing or new file, and lock it against other processes.

    The file is read from its start, and writing appends to the file.
    """
    with check_writable(path).open("a+b") as file:
        lock(file, wait=True)
        file.seek(0)
        yield file
