"""One aspect a thread: NumPy works outside the interpreter's lock, so the cores share a study of several aspects."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np

from custodes.progress import Progress


class OfAspect(Protocol):
    """Anything that belongs to one aspect."""

    @property
    def aspect(self) -> str:
        """Its name."""
        ...


Part = TypeVar("Part", bound=OfAspect)
Answer = TypeVar("Answer")


def each(
    answer: Callable[[Part, np.random.Generator], Answer],
    parts: Sequence[Part],
    *,
    rng: np.random.Generator,
    progress: Progress,
    desc: str,
) -> Iterator[Answer]:
    """The answer to each part in order.

    Every part has its own generator, made from the given one and the name of the aspect: neither threads nor the other
    aspects that are asked about change an answer.
    """
    root = int(rng.integers(2**63))
    generators = [np.random.default_rng([root, zlib.crc32(part.aspect.encode())]) for part in parts]
    from threadpoolctl import threadpool_limits

    cores = os.cpu_count() or 1
    workers = max(1, min(len(parts), cores))
    # Matrix products would start threads of their own in every thread, and the cores be fought for.
    limits = threadpool_limits(max(1, cores // workers), user_api="blas")
    with limits, ThreadPoolExecutor(max_workers=workers) as pool:
        answers = pool.map(answer, parts, generators)
        yield from progress(answers, total=len(parts), desc=desc)
