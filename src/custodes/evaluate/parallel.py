"""One part of the work a thread: NumPy works outside the interpreter's lock, so the cores share the parts."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from custodes.progress import Progress

Part = TypeVar("Part")
Answer = TypeVar("Answer")


def each(
    answer: Callable[[Part, np.random.Generator], Answer],
    parts: Sequence[Part],
    *,
    rng: np.random.Generator,
    progress: Progress,
    desc: str,
    label: Callable[[Part], str] = attrgetter("aspect"),
) -> Iterator[Answer]:
    """The answer to each part in order.

    Every part has its own generator, made from the given one and the label of the part (its aspect): neither threads
    nor the other parts that are asked about change an answer.
    """
    generators = labelled_generators(map(label, parts), rng)
    from threadpoolctl import threadpool_limits

    cores = os.cpu_count() or 1
    workers = max(1, min(len(parts), cores))
    # Matrix products would start threads of their own in every thread, and the cores be fought for: small products,
    # which are most here, are several times slower on two.
    limits = threadpool_limits(1, user_api="blas")
    with limits, ThreadPoolExecutor(max_workers=workers) as pool:
        answers = pool.map(answer, parts, generators)
        yield from progress(answers, total=len(parts), desc=desc)


def labelled_generators(labels: Iterable[str], rng: np.random.Generator) -> list[np.random.Generator]:
    """A generator for each label, from the given one and the label alone: the order of the labels does not matter.

    >>> one, other = labelled_generators(["a", "b"], np.random.default_rng(0))
    >>> labelled_generators(["b"], np.random.default_rng(0))[0].random() == other.random()
    True
    """
    root = int(rng.integers(2**63))
    return [np.random.default_rng([root, zlib.crc32(label.encode())]) for label in labels]


def one_core() -> AbstractContextManager[Any]:
    """Matrix products on one core for a while: small ones are several times slower on two that others use too."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits
