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
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, TypeVar

from custodes.errors import InputError, MissingExtraError
from custodes.memory import fits_in_memory, machine_memory

T = TypeVar("T")

LARGEST = 2 * 2**30
"""Maximum size in bytes of a decompressed file or archive, or of a pipe."""

LARGEST_MEMBER = 512 * 2**20
"""Maximum size in bytes of one log, or of one file of an archive."""

UNSUSPICIOUS_SIZE = 256 * 2**20
"""Size in bytes below which the compression ratio is not limited: small tables with few labels compress well."""

MAX_RATIO = 200
"""Maximum compression ratio of larger tables."""

CHUNK, STEP = 2**20, 2**16
"""Block sizes in bytes for reading a stream, and for reading a file in an archive, whose declared size may be wrong."""

ZSTD = 93
"""The number of zstd among the compression methods of zip archives."""


@dataclass(frozen=True, kw_only=True)
class CompressionFormat:
    """A type of compression: suffix, first bytes, decompressor, and the command that decompresses a file."""

    suffix: str
    magic: bytes
    open: Callable[[IO[bytes]], IO[bytes]]
    command: str
    name: str


COMPRESSION_FORMATS = (
    CompressionFormat(
        suffix=".gz",
        magic=b"\x1f\x8b",
        open=lambda raw: gzip.GzipFile(fileobj=raw),  # type: ignore[arg-type, return-value]
        command="gunzip",
        name="gzip",
    ),
    CompressionFormat(suffix=".bz2", magic=b"BZh", open=bz2.BZ2File, command="bunzip2", name="bzip2"),
    CompressionFormat(suffix=".xz", magic=b"\xfd7zXZ\x00", open=lzma.LZMAFile, command="unxz", name="xz"),
)


def detect_compression(data: bytes) -> CompressionFormat | None:
    """The type of compression according to the first bytes; None if the bytes are not compressed."""
    return next(
        (compression_format for compression_format in COMPRESSION_FORMATS if data.startswith(compression_format.magic)),
        None,
    )


def decompress(data: bytes, compression_format: CompressionFormat, name: str) -> bytes:
    """The decompressed content. Raises `InputError` if the data are damaged, or if the content exceeds a limit."""
    if not data:
        return data
    try:
        content = read_up_to(compression_format.open(io.BytesIO(data)), max_decompressed_size(len(data)))
    except EOFError:
        raise InputError(
            f"{name}: the {compression_format.name} file is truncated; copy or download it again"
        ) from None
    except (OSError, zlib.error, lzma.LZMAError, ValueError):
        raise InputError(
            f"{name}: not a {compression_format.name} file, or a damaged one; remove {compression_format.suffix} "
            "from the name of the file, or copy the file again"
        ) from None
    check_decompressed_size(
        len(content), len(data), name, f"if the file is genuine, decompress it with {compression_format.command}"
    )
    return content


def max_decompressed_size(compressed_size: int) -> int:
    """The maximum decompressed size that is allowed for a compressed size."""
    return min(LARGEST, max(UNSUSPICIOUS_SIZE, MAX_RATIO * compressed_size))


def check_decompressed_size(decompressed_size: int, compressed_size: int, name: str, advice: str) -> None:
    """Raise `InputError` if a decompressed size is not allowed for the compressed size."""
    largest_size = max_decompressed_size(compressed_size)
    if decompressed_size > largest_size:
        ratio_text = f", over {largest_size // max(compressed_size, 1)} times its size" * (largest_size < LARGEST)
        raise InputError(f"{name}: unpacks to more than {format_mebibytes(largest_size)}{ratio_text}; {advice}")


def format_mebibytes(size: int) -> str:
    """A size in MiB as text."""
    return f"{size / 2**20:,.0f} MiB"


def read_up_to(stream: IO[bytes], max_size: int) -> bytes:
    """The content of a stream. Reading stops when the content exceeds the limit."""
    content_buffer = io.BytesIO()
    while content_buffer.tell() <= max_size and (chunk := stream.read(CHUNK)):
        content_buffer.write(chunk)
    return content_buffer.getvalue()


def limit_total_size(
    batches: Iterable[T], max_size: int, size_of: Callable[[T], int], size_error: InputError
) -> list[T]:
    """The batches. Raises the error `size_error` as soon as the sum of their sizes exceeds the limit."""
    accepted_batches, total_size = [], 0
    for batch in batches:
        accepted_batches.append(batch)
        total_size += size_of(batch)
        if total_size > max_size:
            raise size_error
    return accepted_batches


def zip_archive(file_bytes: bytes, name: str) -> Any:
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
        raise InputError(f"{name}: a damaged or truncated zip file; copy or download it again") from None
    check_decompressed_size(
        sum(member_info.file_size for member_info in archive.infolist()),
        len(file_bytes),
        name,
        "if the file is genuine, unzip it",
    )
    return archive


def zip_member(archive: Any, member_name: str, name: str) -> bytes:
    """The content of one file in a zip archive, limited to the declared size."""
    member_info = archive.getinfo(member_name)
    if member_info.flag_bits & 1:
        raise InputError(f"{name}: encrypted; unzip it first")
    try:
        with archive.open(member_info) as member_stream:
            return b"".join(iter(lambda: member_stream.read(STEP), b""))
    except Exception as error:  # zipfile and its decompressors raise many types of error for damaged bytes
        if isinstance(error, NotImplementedError) and member_info.compress_type == ZSTD:
            raise MissingExtraError(
                f"{name}: compressed with zstd; run pip install 'custodes[logs]', use Python 3.14, or "
                "write the log uncompressed (Inspect: inspect log convert --to json)"
            ) from error
        raise InputError(f"{name}: damaged, or compressed with an unsupported method ({error})") from None


TEXT_COPIES = 3
"""Number of copies of a text in memory during parsing: bytes, text and cells."""

CELL = 64
"""Overhead in bytes of a text cell, in the table and in the study."""

OBJECT, VALUE, LIST = 400, 130, 80
"""Sizes in bytes of a JSON object, of a value with its key, and of a list."""

BATCH_ROWS = 20_000
"""Number of JSON objects that are held in memory before conversion to columns."""

SIZE_ADVICE = (
    "select the columns and rows that you need, or count outcomes of pairs first (count_pairs on a Polars scan)"
)


def check_json(text: str, name: str, *, by_lines: bool) -> None:
    """Raise `InputError` if the objects of a JSON text would not fit into memory. With JSON Lines, only a block of
    objects is in memory at a time."""
    n_objects, n_values, n_lists = text.count("{"), text.count(","), text.count("[")
    n_required_bytes: float = OBJECT * n_objects + VALUE * (n_objects + n_values) + LIST * n_lists
    if by_lines:
        n_required_bytes = n_required_bytes * min(1.0, BATCH_ROWS / max(n_objects, 1)) + CELL * (n_objects + n_values)
    check_size(TEXT_COPIES * len(text) + n_required_bytes, f"{name}: JSON of {n_objects:,} objects may take")


def check_size(n_bytes: float, message_beginning: str) -> None:
    """Raise `InputError` if this number of bytes does not fit into memory. The message begins with
    `message_beginning`."""
    if not fits_in_memory(n_bytes):
        raise InputError(
            f"{message_beginning} {n_bytes / 1000000000.0:,.1f} GB of memory; this machine has "
            f"{machine_memory() / 1000000000.0:,.1f} GB. To read the data, {SIZE_ADVICE}"
        )
