"""Computation of the parts of a question in threads.

NumPy releases the lock of the interpreter, so threads can use several cores.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import TypeVar

import numpy as np
import polars as pl

from custodes.answers.question import Rng
from custodes.answers.result import Result
from custodes.data.notes import Note
from custodes.progress import Progress

Part = TypeVar("Part")
Answer = TypeVar("Answer")
Kind = TypeVar("Kind", bound=Result)


def limit_blas_threads() -> AbstractContextManager[object]:
    """Limit matrix products to one thread while the context is open, and restore the previous limit.

    Most matrix products in this package are small. Small products are several times slower on all cores than on one
    core, and even slower if each thread of a pool starts more threads. Without the limit, `agreement` on SummEval takes
    five times as long.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


def map_parts(
    answer: Callable[[Part, np.random.Generator], Answer],
    parts: Sequence[Part],
    *,
    rng: np.random.Generator,
    progress: Progress,
    desc: str,
    label: Callable[[Part], str] = attrgetter("aspect"),
    threads: bool = True,
) -> list[Answer]:
    """Return the answer for each part, in the order of the parts.

    If `threads` is False, parts are computed one after another. This is better for operations on small arrays, in which
    threads mostly wait for the lock of the interpreter. On two cores, threads make `ceiling` on SummEval take a third
    more CPU time and no less wall time.

    Each part has a random generator that is derived from `rng` and the label of the part (by default, the aspect).
    Results therefore do not depend on threads or on which other parts are computed.
    """
    with (
        limit_blas_threads(),
        ThreadPoolExecutor(max_workers=max(1, min(len(parts), os.cpu_count() or 1)) if threads else 1) as thread_pool,
    ):
        return list(
            progress(
                thread_pool.map(answer, parts, labelled_generators(map(label, parts), rng)), total=len(parts), desc=desc
            )
        )


def merge_parts(
    kind: type[Kind],
    answer: Callable[[Part, np.random.Generator], tuple[Mapping[str, pl.DataFrame], Iterable[Note]]],
    parts: Sequence[Part],
    *,
    rng: Rng,
    notes: Iterable[Note] = (),
    progress: Progress,
    desc: str,
) -> Kind:
    """Return a result: `notes`, and the tables and notes that `answer` gives for each part (see `map_parts`)."""
    tables_and_notes = map_parts(answer, parts, rng=np.random.default_rng(rng), progress=progress, desc=desc)
    return kind.from_parts(
        [part_tables for part_tables, _ in tables_and_notes],
        [*notes, *(note for _, part_notes in tables_and_notes for note in part_notes)],
    )


def labelled_generators(labels: Iterable[str], rng: np.random.Generator) -> list[np.random.Generator]:
    """Return a random generator for each label, derived only from `rng` and the label; the order has no effect.

    >>> one, other = labelled_generators(["a", "b"], np.random.default_rng(0))
    >>> labelled_generators(["b"], np.random.default_rng(0))[0].random() == other.random()
    True
    """
    root_seed = int(rng.integers(2**63))
    return [np.random.default_rng([root_seed, zlib.crc32(label.encode())]) for label in labels]
