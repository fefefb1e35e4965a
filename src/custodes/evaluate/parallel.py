"""One aspect a thread: NumPy works outside the interpreter's lock, so the cores share a study of several aspects."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

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
) -> Iterator[Answer]:
    """The answer to each part in order; every part has its own spawned generator, so threads change nothing."""
    with ThreadPoolExecutor(max_workers=max(1, min(len(parts), os.cpu_count() or 1))) as pool:
        answers = pool.map(answer, parts, rng.spawn(len(parts)))
        yield from progress(answers, total=len(parts), desc=desc)
