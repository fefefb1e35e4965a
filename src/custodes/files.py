"""Atomic writing and locking of files.

A file is written under a temporary name in the folder of the target, and then renamed to the target.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from custodes.errors import OptionError
from custodes.process import UNFINISHED

STANDARD_INPUT, STANDARD_OUTPUT = "/dev/stdin", "/dev/stdout"


def write_atomically(path: str | Path, content: bytes | str | Iterable[bytes]) -> Path:
    """Write a file completely, or leave the existing file unchanged.

    `OptionError` is raised if the path is not writable. Content in several parts is written part by part.

    An existing file keeps its mode. If the path is a link, the target of the link is written. A device, a pipe or an
    open descriptor (`/dev/stdout`) is written to and never replaced.

    >>> import tempfile
    >>> write_atomically(Path(tempfile.mkdtemp()) / "note.txt", "done").read_text()
    'done'
    """
    place = check_writable(path)
    whole = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    data = [whole] if isinstance(whole, bytes) else whole
    try:
        if (number := _descriptor(place)) is not None:
            with os.fdopen(os.dup(number), "wb") as stream:
                stream.writelines(data)
        elif is_stream(place):
            with place.open("wb") as stream:
                stream.writelines(data)
        else:
            _replace(os.path.realpath(place), data)
    except FileNotFoundError:  # the folder exists, but belongs to a file system without regular files
        raise _unwritable(place, f"cannot create a new file in the folder {place.parent}") from None
    except OSError as problem:
        raise _unwritable(place, problem.strerror) from None
    return place


def _replace(target: str, data: Iterable[bytes]) -> None:
    """Write a new file, or replace an existing file."""
    before = os.stat(target) if os.path.exists(target) else None
    name = os.path.join(os.path.dirname(target), f".custodes-{secrets.token_hex(8)}")
    UNFINISHED.add(name)
    try:
        # Never wider permissions than the replaced file, not even temporarily; a new file has those of the umask.
        mode = 0o666 if before is None else 0o600
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        with os.fdopen(handle, "wb") as file:
            file.writelines(data)
        if before is not None:
            os.chmod(name, _keep_owner(name, before))
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    finally:
        UNFINISHED.discard(name)


def _keep_owner(name: str, before: os.stat_result) -> int:
    """Give a file the owner and group of the file that it replaces, if the system allows this.

    The result is the permissions that the new file gets.
    """
    mode, after = stat.S_IMODE(before.st_mode), os.stat(name)
    if (after.st_uid, after.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.chown(name, before.st_uid, before.st_gid)
        except (OSError, AttributeError):
            mode &= ~0o7070  # group permissions must not apply to another group
    return mode


def check_writable(path: str | Path) -> Path:
    """Check that the output file can be created or replaced; `OptionError` otherwise, for example for a folder."""
    place = Path(path)
    if os.path.isdir(place):
        raise _unwritable(place, "it is a folder", "give a file name (or a name that ends in /)")
    try:
        status: os.stat_result | None = os.stat(place)
    except FileNotFoundError:
        status = None
    except NotADirectoryError:
        raise _unwritable(place, f"{place.parent} is not a folder") from None
    except OSError as problem:  # a cycle of links, or a name that is too long
        raise _unwritable(place, problem.strerror) from None
    except ValueError:
        raise _unwritable(place, "no file can have this name") from None
    if status is not None and not os.access(place, os.W_OK):
        raise _unwritable(place, "the file is write-protected")
    if is_stream(place):
        return place
    parent = os.path.dirname(os.path.realpath(place))
    if not os.path.isdir(parent):
        raise _unwritable(
            place, f"no such folder {parent if os.path.islink(place) else place.parent}", "create the folder first"
        )
    if not os.access(parent, os.W_OK):
        raise _unwritable(place, f"the folder {place.parent} is not writable")
    return place


def _unwritable(place: Path, why: str | None, way_out: str = "choose another place") -> OptionError:
    return OptionError(f"cannot write {place}: {why}; {way_out}")


def check_distinct_files(outputs: Iterable[str | Path], inputs: Iterable[str | Path]) -> None:
    """Raise `OptionError` if an output is also an input, is in an input folder, or is written twice.

    Links are followed.

    >>> check_distinct_files(["report.html"], ["ratings.csv"])
    """
    read: dict[tuple[int, int] | None, str] = {}
    for name in map(str, inputs):
        path = STANDARD_INPUT if name == "-" else name
        if identity := _identity(path) or _identity(path.partition("::")[0]):
            read[identity] = name
    seen = set[Path]()
    for place in map(Path, outputs):
        if is_stream(place):
            continue
        whole = Path(os.path.realpath(place))
        if whole in seen:
            raise OptionError(f"cannot write {place}: two outputs have this path; choose another name for one output")
        seen.add(whole)
        if _identity(whole) in read:
            raise OptionError(f"cannot write {place}: it is the input {read[_identity(whole)]}; choose another name")
        for folder in whole.parents if whole.exists() else ():
            if _identity(folder) in read:
                raise OptionError(
                    f"cannot write {place}: the path is in the input folder {read[_identity(folder)]} and may "
                    f"be a part of"
                    " the input; choose another place"
                )


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Device and inode of a file or folder; None if the path does not exist."""
    status = _status(path)
    if status is None or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return None
    return status.st_dev, status.st_ino


def _status(path: str | Path) -> os.stat_result | None:
    """Status of a path; None if the path does not exist or the name is invalid."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def is_stream(path: str | Path) -> bool:
    """Whether a path exists and is not a regular file.

    Such paths are devices, pipes and open descriptors. Their suffix does not determine a format.
    """
    return _status(path) is not None and (_identity(path) is None or _descriptor(path) is not None)


def _descriptor(path: str | Path) -> int | None:
    """The number of the open descriptor that a path refers to (`/dev/stdout`, `/dev/fd/3`), also through links."""
    place = os.path.abspath(path)
    for _ in range(40):  # as many links as Linux follows
        folder, name = os.path.split(place)
        if os.path.realpath(folder) in ("/dev/fd", f"/proc/{os.getpid()}/fd") and name.isdigit():
            return int(name)
        if not os.path.islink(place):
            return None
        place = os.path.normpath(os.path.join(os.path.realpath(folder), os.readlink(place)))
    return None


def is_folder(path: str | Path) -> bool:
    """Whether a path is a folder: the path ends in /, or the folder exists."""
    return str(path).endswith("/") or os.path.isdir(path)


def folder(path: str | Path) -> Path:
    """Return the path of a folder, which is created if it does not exist."""
    target = Path(path)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "no folder can have this name"
        raise OptionError(f"cannot make folder {target}: {why}; choose another place") from None
    return target


def lock(file: BinaryIO, *, wait: bool) -> None:
    """Lock an open file for this process until the file is closed.

    If another process holds the lock, OSError is raised, or with `wait` the process waits for the release of the lock.
    """
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextmanager
def locked(path: str | Path) -> Iterator[BinaryIO]:
    """Open an existing or new file that is locked against other processes.

    The file is read from its start, and writing appends to the file.
    """
    with check_writable(path).open("a+b") as file:
        lock(file, wait=True)
        file.seek(0)
        yield file
