"""Conversion of bytes to text, from UTF-8 or from UTF-16 with a byte order mark."""

from __future__ import annotations

import codecs

from custodes.data.loading.compression import packing_of
from custodes.errors import InputError

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


def utf8_text(data: bytes, name: str) -> str:
    """The text in bytes, without a byte order mark. The message for invalid UTF-8 gives the position of the byte."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        at = error.start
    where = f"{name}: not UTF-8 at byte {at} (line {data.count(10, 0, at) + 1})"
    packing = packing_of(data)
    if packing:
        raise InputError(f"{where}: the file is compressed with {packing.name}; rename it to end in {packing.suffix}")
    encoding = "UTF-16" if data.startswith(UTF16) else "ENCODING"
    raise InputError(f"{where}; save the file as UTF-8, for example with: iconv -f {encoding} -t UTF-8")


def table_text(data: bytes, name: str) -> tuple[str, str]:
    """The text of a table, and the name of the encoding if the encoding is not UTF-8. Excel's 'Unicode text' is UTF-16
    with a byte order mark."""
    if not data.startswith(UTF16) or data.startswith(UTF32):
        return _without_nul(utf8_text(data, name), name), ""
    try:
        return _without_nul(data.decode("utf-16"), name), "UTF-16"
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: damaged UTF-16 at byte {error.start}; save it again, as UTF-8") from None


MOST_NUL = 0.1
"""Proportion of NUL characters above which the bytes are not UTF-8."""


def _without_nul(text: str, name: str) -> str:
    """The text, checked for NUL characters. A label may contain NUL, but a file in which every second character is NUL
    is UTF-16."""
    if text.count("\0") > len(text) * MOST_NUL:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{name}: a NUL character in line {line}; the file is binary, or UTF-16 without a byte order mark"
        )
    return text
