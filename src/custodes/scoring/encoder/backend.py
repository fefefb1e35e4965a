"""Interface of encoder back ends: models that return embeddings for token ids, and the devices of models."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from custodes.errors import OptionError, short_repr
from custodes.stats.arrays import Ints

Vectors = NDArray[np.float32]

DEVICE = re.compile(r"(cpu|mps|cuda)(?::(\d+))?")


class EncoderModel(Protocol):
    """A loaded model.

    `signature` names the library, its version, and options that change an embedding. `alone` is true if each text must
    be encoded alone, because in a batch its embedding would depend on the remaining texts.
    """

    signature: str
    alone: bool

    def __call__(self, ids: Ints, mask: Ints, kinds: Ints) -> Vectors:
        """Return the embeddings (texts, tokens, width) of token ids (texts, tokens); `mask` is 0 for padding."""
        ...


class Device(NamedTuple):
    """A device: its type, and its index among devices of this type."""

    kind: str
    number: int

    @classmethod
    def from_name(cls, name: str) -> Device:
        """Return the device with a name such as 'cpu', 'cuda', 'cuda:1' or 'mps'."""
        name_match = DEVICE.fullmatch(name)
        if not name_match or (name_match[2] and name_match[1] != "cuda"):
            raise OptionError(
                f"device={short_repr(name)} is not allowed; give cpu, cuda, cuda:N (GPU number N, from 0) or mps"
            )
        return cls(name_match[1], int(name_match[2] or 0))


def threads() -> int:
    """Return the number of threads of a model.

    It is the number of threads of NumPy's linear algebra, which respects OMP_NUM_THREADS, limits that threadpoolctl
    sets, and the CPUs that are available to the process.
    """
    from threadpoolctl import threadpool_info

    thread_counts = [int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"]
    return max(thread_counts, default=os.cpu_count() or 1)
