"""Compressed files, unpacked up to a declared size: gzip, bzip2, xz, and a zip archive of tables.

A few kilobytes can unpack to any size, so what comes out is counted while it comes.
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
from dataclasses import dataclass
from typing import IO, Any

from custodes.errors import InputError, MissingExtraError

LARGEST = 2 * 2**30
"""Bytes that come out of a compressed file or an archive, or through a pipe, at most."""

LARGEST_MEMBER = 512 * 2**20
"""Bytes of one log, or of one file of an archive, at most."""

UNSUSPICIOUS = 256 * 2**20
"""Up to so many bytes the ratio is not looked at: short tables of few labels pack well."""

RATIO = 200
"""How many times its packed size a larger table may be."""

CHUNK, STEP = 2**20, 2**16
"""Bytes that are read at a time of a compressed file, and of a member of an archive, which may declare too little."""

ZSTD = 93
"""The number of this compression in zip archives."""


@dataclass(frozen=True, kw_only=True)
class Packing:
    """A kind of compression: its suffix, the first bytes, how a stream is unpacked, and with which command."""

    suffix: str
    magic: bytes
    open: Callable[[IO[bytes]], IO[bytes]]
    command: str
    name: str


PACKINGS = (
    Packing(
        suffix=".gz",
        magic=b"\x1f\x8b",
        open=lambda raw: gzip.GzipFile(fileobj=raw),  # type: ignore[arg-type, return-value]
        command="gunzip",
        name="gzip",
    ),
    Packing(suffix=".bz2", magic=b"BZh", open=bz2.BZ2File, command="bunzip2", name="bzip2"),
    Packing(suffix=".xz", magic=b"\xfd7zXZ\x00", open=lzma.LZMAFile, command="unxz", name="xz"),
)


def packing_of(data: bytes) -> Packing | None:
    """The kind of compression by the first bytes; None where it is none of them."""
    return next((packing for packing in PACKINGS if data.startswith(packing.magic)), None)


def unpacked(data: bytes, packing: Packing, name: str) -> bytes:
    """What a compressed file holds; raises where it is damaged, or larger than the declared limits."""
    if not data:
        return data
    limit = allowed(len(data))
    try:
        content = read_up_to(packing.open(io.BytesIO(data)), limit)
    except EOFError:
        raise InputError(f"{name}: the {packing.name} file is truncated; copy or download it again") from None
    except (OSError, zlib.error, lzma.LZMAError, ValueError):
        raise InputError(
            f"{name}: not a {packing.name} file, or damaged; remove {packing.suffix} from its name, or copy it again"
        ) from None
    if content is None:
        raise InputError(
            f"{name}: {too_large(len(data), limit)}; if the file is genuine, decompress it with {packing.command}"
        )
    return content


def allowed(packed: int) -> int:
    """How many bytes may come out of so many packed ones."""
    return min(LARGEST, max(UNSUSPICIOUS, RATIO * packed))


def too_large(packed: int, limit: int) -> str:
    """Why a file is not unpacked, in words."""
    why = "" if limit == LARGEST else f", over {limit // max(packed, 1)} times its size"
    return f"unpacks to more than {mebibytes(limit)}{why}"


def mebibytes(size: int) -> str:
    """A size in words."""
    return f"{size / 2**20:,.0f} MiB"


def read_up_to(stream: IO[bytes], limit: int) -> bytes | None:
    """All that a stream gives, or None as soon as that is more than the limit."""
    content = io.BytesIO()
    while chunk := stream.read(CHUNK):
        content.write(chunk)
        if content.tell() > limit:
            return None
    return content.getvalue()


def zip_archive(data: bytes, name: str) -> Any:
    """A zip archive; raises where it is damaged, or declares more than the limits.

    It is opened by the zipfile of Python 3.14, which reads zstd, or by its backport where there is one.
    """
    module: Any = zipfile
    with suppress(ImportError):
        from backports.zstd import zipfile as module
    try:
        archive = module.ZipFile(io.BytesIO(data))
    except Exception:  # zipfile raises a dozen kinds on damaged bytes
        raise InputError(f"{name}: a damaged or truncated zip file; copy or download it again") from None
    limit = allowed(len(data))
    if sum(member.file_size for member in archive.infolist()) > limit:
        raise InputError(f"{name}: {too_large(len(data), limit)}; if the file is genuine, unzip it")
    return archive


def zip_member(archive: Any, member: str, name: str) -> bytes:
    """The bytes of one file in a zip archive, no more than the archive declares."""
    entry = archive.getinfo(member)
    if entry.flag_bits & 1:
        raise InputError(f"{name}: encrypted; unzip it first")
    try:
        with archive.open(entry) as stream:
            return b"".join(iter(lambda: stream.read(STEP), b""))
    except Exception as error:  # zipfile and the decompressors below it raise a dozen kinds on damaged bytes
        if isinstance(error, NotImplementedError) and entry.compress_type == ZSTD:
            raise MissingExtraError(
                f"{name}: compressed with zstd; install pip install 'custodes[logs]', use Python 3.14, or "
                "write the log uncompressed (Inspect: inspect log convert --to json)"
            ) from error
        raise InputError(f"{name}: damaged, or compressed with an unsupported method ({error})") from None
