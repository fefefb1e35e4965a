"""Interface of encoder back ends: a model from token ids to embeddings; devices."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from custodes.errors import OptionError, shown
from custodes.stats.arrays import Ints

Vectors = NDArray[np.float32]

DEVICE = re.compile(r"(cpu|mps|cuda)(?::(\d+))?")


class EncoderModel(Protocol):
    """A loaded model. `signature`: library, version, and options that change an embedding. `alone`: each text is
    encoded alone, because an embedding would depend on the other texts of the batch.
    """

    signature: str
    alone: bool

    def __call__(self, ids: Ints, mask: Ints, kinds: Ints) -> Vectors:
        """Embeddings (texts, tokens, width) of token ids (texts, tokens); `mask` is 0 for padding."""
        ...


class Device(NamedTuple):
    """Type of a device, and its index."""

    kind: str
    number: int

    @classmethod
    def of(cls, name: str) -> Device:
        """Device by name: 'cpu', 'cuda', 'cuda:1', 'mps'."""
        matched = DEVICE.fullmatch(name)
        if not matched or (matched[2] and matched[1] != "cuda"):
            raise OptionError(f"device={shown(name)}; allowed: cpu, cuda, cuda:N (the N-th of several), mps")
        return cls(matched[1], int(matched[2] or 0))


def threads() -> int:
    """Number of threads of a model. The number is that of NumPy's linear algebra, which respects OMP_NUM_THREADS,
    limits set by threadpoolctl, and the CPUs available to the process.
    """
    from threadpoolctl import threadpool_info

    products = [int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(products, default=os.cpu_count() or 1)
