"""Progress of long computations: a callable that wraps an iterable, such as tqdm. The default displays nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Callable that wraps an iterable and may display its progress."""

    def __call__(self, iterable: Iterable[T], /, *, total: int | None = None, desc: str | None = None) -> Iterable[T]:
        """Return an iterable with the same elements."""
        ...


def silent(iterable: Iterable[T], /, *, total: int | None = None, desc: str | None = None) -> Iterable[T]:
    """Return the iterable unchanged. This is the default callable, which displays no progress."""
    return iterable
