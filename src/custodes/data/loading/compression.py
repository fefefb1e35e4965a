"""Limits of size: decompression (gzip, bzip2, xz, zstd, and zip archives of tables), and memory before parsing.

A few kilobytes can decompress to any size, so the output is counted during decompression. The memory that a table will
take is estimated from the bytes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from custodes.errors import InputError, MissingExtraError
from custodes.memory import fits_in_memory, machine_memory

LARGEST = 2 * 2**30
"""Maximum size in bytes of a decompressed file or archive, of a database result, or of a pipe."""

LARGEST_MEMBER = 512 * 2**20
"""Maximum size in bytes of one log, or of one file of an archive."""

STEP = 2**16
"""Block size in bytes for reading a file in an archive, whose declared size may be wrong."""

ZSTD = 93
"""The number of zstd among the compression methods of zip archives."""


DECOMPRESSORS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),  # type: ignore[dict-item, return-value]
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
"""Decompressors by the first bytes of a file: gzip, bzip2 and xz."""


def decompress(data: bytes, where: str) -> bytes:
    """The decompressed content of a compressed file; other bytes are returned unchanged."""
    open_stream = next((opener for magic, opener in DECOMPRESSORS.items() if data.startswith(magic)), None)
    if open_stream is None:
        return data
    try:
        with open_stream(io.BytesIO(data)) as stream:
            decompressed_bytes = stream.read(LARGEST + 1)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, ValueError):
        raise InputError(f"{where}: a damaged or truncated compressed file; copy or download it again") from None
    check_content_size(len(decompressed_bytes), where)
    return decompressed_bytes


def check_content_size(size: int, where: str) -> None:
    """Raise `InputError` if a content in bytes is larger than `LARGEST`."""
    if size > LARGEST:
        raise InputError(f"{where}: the content has more than {LARGEST / 2**20:,.0f} MiB; give a smaller table")


def zip_archive(file_bytes: bytes, where: str) -> Any:
    """An open zip archive. Raises `InputError` if the archive is damaged or declares sizes above the limits.

    The module zipfile of Python 3.14 reads zstd. Earlier versions of Python use the backport of this module if it is
    installed.
    """
    zip_module: Any = zipfile
    with suppress(ImportError):
        from backports.zstd import zipfile as zip_module
    try:
        archive = zip_module.ZipFile(io.BytesIO(file_bytes))
    except Exception:  # zipfile raises many types of error for damaged bytes
        raise InputError(f"{where}: a damaged or truncated zip file; copy or download it again") from None
    check_content_size(sum(member_info.file_size for member_info in archive.infolist()), where)
    return archive


def zip_member(archive: Any, member_name: str, where: str) -> bytes:
    """The content of one file in a zip archive, limited to the declared size."""
    member_info = archive.getinfo(member_name)
    if member_info.flag_bits & 1:
        raise InputError(f"{where}: encrypted; unzip it first")
    try:
        with archive.open(member_info) as member_stream:
            return b"".join(iter(lambda: member_stream.read(STEP), b""))
    except Exception as error:  # zipfile and its decompressors raise many types of error for damaged bytes
        if isinstance(error, NotImplementedError) and member_info.compress_type == ZSTD:
            raise MissingExtraError(
                f"{where}: compressed with zstd; run pip install 'custodes[logs]', use Python 3.14, or "
                "write the log uncompressed (Inspect: inspect log convert --to json)"
            ) from error
        raise InputError(f"{where}: damaged, or compressed with an unsupported method ({error})") from None


TEXT_COPIES = 3
"""Number of copies of the content in memory during parsing: as bytes, as text and as cells."""

CELL = 64
"""Overhead in bytes of a text cell, in the table and in the study."""

JSON_COPIES = 10
"""Overhead in bytes of a cell of JSON that is parsed as a whole, with its objects."""

BATCH_ROWS = 20_000
"""Number of JSON objects that are held in memory before conversion to columns."""

SIZE_ADVICE = (
    "select the columns and rows that you need, or count outcomes of pairs first (count_pairs on a Polars scan)"
)


def check_size(n_bytes: float, message_beginning: str) -> None:
    """Raise `InputError` if this number of bytes does not fit into memory. The message begins with
    `message_beginning`."""
    if not fits_in_memory(n_bytes):
        raise InputError(
            f"{message_beginning} {n_bytes / 1e9:,.1f} GB of memory; this machine has "
            f"{machine_memory() / 1e9:,.1f} GB. To read the data, {SIZE_ADVICE}"
        )
