"""Origin of counts: the file and the options of counting."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The options of counting (`how`, the same as the options of `custodes count`), and the `name` and `digest` of the
    file of counts, if there is a file."""

    how: Mapping[str, Any] = field(default_factory=dict)
    name: str = "counts"
    digest: str = ""


def counted_by(
    *,
    human: str | Sequence[str] | None,
    metrics: str | Sequence[str] | None,
    systems: Sequence[str] | None,
    **settings: Any,
) -> Origin:
    """The origin of counts with these options. Options that are None are omitted.

    >>> counted_by(human="ann", metrics=None, systems=None, aspect="", ties=0.0).how
    {'human': ['ann'], 'ties': 0.0}
    """
    names = {"human": human, "metrics": metrics, "systems": systems}
    listed = {name: [pattern] if isinstance(pattern, str) else [*pattern] for name, pattern in names.items() if pattern}
    return Origin(how=listed | {name: value for name, value in settings.items() if value not in (None, "", [])})


def digest_of(*texts: str) -> str:
    """Digest of texts, 16 hexadecimal digits."""
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]
