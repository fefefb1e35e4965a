"""Progress of long work: a callable that wraps an iterable; silent unless the caller hands one in (tqdm fits)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Wraps an iterable and may show how far it is."""

    def __call__(self, iterable: Iterable[T], /, *, total: int | None = None, desc: str | None = None) -> Iterable[T]:
        """Return an iterable with the same elements."""
        ...


def silent(iterable: Iterable[T], /, *, total: int | None = None, desc: str | None = None) -> Iterable[T]:
    """The default: shows nothing."""
    return iterable
