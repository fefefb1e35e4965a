"""File names from labels, unique on any operating system."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Sequence

LONGEST = 150
"""Maximum length of a name in bytes: file systems allow 255, and some programs append to it."""


def file_names(labels: Sequence[str]) -> list[str]:
    """A file name for each label that is valid on any system: letters, digits, `-`, `_` and `.`, of limited length.

    A truncated name, or one equal to another on a file system that ignores case, ends in a digest of the label.

    >>> file_names(["fluency", "a/b", "a:b"])
    ['fluency', 'a_b-c14cddc0', 'a_b-6783a31e']
    """
    plain = [
        "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in label).strip("._")
        for label in labels
    ]
    keys = Counter(unicodedata.normalize("NFKC", name).casefold() for name in plain)
    names = []
    for label, name in zip(labels, plain, strict=True):
        short = name.encode()[:LONGEST].decode(errors="ignore")
        alone = keys[unicodedata.normalize("NFKC", name).casefold()] == 1
        digest = hashlib.sha256(label.encode(errors="surrogatepass")).hexdigest()[:8]
        names.append(name if name and alone and short == name else f"{short or 'figure'}-{digest}")
    return names
