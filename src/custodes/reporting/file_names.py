"""Names of files that are made of labels: each its own on any system."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Sequence

LONGEST = 150
"""Bytes of a name: systems take 255, and some add to it."""


def file_names(labels: Sequence[str]) -> list[str]:
    """A name for each label that any system takes as a file's: letters, digits, `-`, `_` and `.`, not too long.

    Where it would be cut, or would be that of another label on a system that takes small and capital letters for the
    same, it ends in a digest of the label.

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
