"""Parts of a question in threads: NumPy releases the interpreter's lock, so several cores can be used."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import TypeVar

import numpy as np

from custodes.progress import Progress

Part = TypeVar("Part")
Answer = TypeVar("Answer")


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit matrix products to one thread while the context is open, and restore the former limit.

    Most products here are small. They are several times slower on all cores than on one, and even slower if each thread
    of a pool starts its own threads: on SummEval, `agreement` takes five times as long without the limit.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


def each(
    answer: Callable[[Part, np.random.Generator], Answer],
    parts: Sequence[Part],
    *,
    rng: np.random.Generator,
    progress: Progress,
    desc: str,
    label: Callable[[Part], str] = attrgetter("aspect"),
    threads: bool = True,
) -> list[Answer]:
    """The results of the parts, in order.

    Without `threads`, parts run one after the other: operations on small arrays mostly wait for the interpreter's lock.
    On two cores, threads make `ceiling` on SummEval take a third more CPU time and no less wall time.

    Every part has its own generator, derived from `rng` and the label of the part (its aspect), so results depend
    neither on threads nor on the other parts.
    """
    generators = labelled_generators(map(label, parts), rng)
    workers = max(1, min(len(parts), os.cpu_count() or 1)) if threads else 1
    with one_blas_thread(), ThreadPoolExecutor(max_workers=workers) as pool:
        return list(progress(pool.map(answer, parts, generators), total=len(parts), desc=desc))


def labelled_generators(labels: Iterable[str], rng: np.random.Generator) -> list[np.random.Generator]:
    """A generator for each label, derived from `rng` and the label alone; the order of the labels does not matter.

    >>> one, other = labelled_generators(["a", "b"], np.random.default_rng(0))
    >>> labelled_generators(["b"], np.random.default_rng(0))[0].random() == other.random()
    True
    """
    root = int(rng.integers(2**63))
    return [np.random.default_rng([root, zlib.crc32(label.encode())]) for label in labels]
