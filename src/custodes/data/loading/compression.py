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
from dataclasses import dataclass
from typing import IO

from custodes.errors import InputError

LARGEST = 2 * 2**30
"""Bytes that come out of a compressed file or an archive, or through a pipe, at most."""

LARGEST_MEMBER = 512 * 2**20
"""Bytes of one log, or of one file of an archive, at most."""

UNSUSPICIOUS = 256 * 2**20
"""Up to so many bytes the ratio is not looked at: short tables of few labels pack well."""

RATIO = 200
"""How many times its packed size a larger table may be."""

CHUNK = 2**20


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
            f"{name}: not {packing.name}, or damaged; take {packing.suffix} off its name, or copy it again"
        ) from None
    if content is None:
        raise InputError(f"{name}: {too_large(len(data), limit)}; if it is what it should be, {packing.command} it")
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


def zip_members(data: bytes, name: str) -> list[zipfile.ZipInfo]:
    """The files in a zip archive; raises where it is damaged, or declares more than the limits."""
    try:
        members = [member for member in zipfile.ZipFile(io.BytesIO(data)).infolist() if not member.is_dir()]
    except Exception:  # zipfile raises a dozen kinds on damaged bytes
        raise InputError(f"{name}: a damaged or truncated zip file; copy or download it again") from None
    limit = allowed(len(data))
    if sum(member.file_size for member in members) > limit:
        raise InputError(f"{name}: {too_large(len(data), limit)}; if it is what it should be, unzip it")
    return members


def zip_member(data: bytes, member: zipfile.ZipInfo, name: str) -> bytes:
    """The bytes of one file in a zip archive."""
    if member.flag_bits & 1:
        raise InputError(f"{name}: encrypted; unzip it first")
    try:
        with zipfile.ZipFile(io.BytesIO(data)).open(member) as stream:
            content = read_up_to(stream, allowed(len(data)))
    except Exception:  # zipfile and the decompressors below it raise a dozen kinds on damaged bytes
        raise InputError(f"{name}: damaged, or packed in a way that is not known here; unzip it first") from None
    if content is None:
        raise InputError(f"{name}: {too_large(len(data), allowed(len(data)))}; if it is what it should be, unzip it")
    return content
