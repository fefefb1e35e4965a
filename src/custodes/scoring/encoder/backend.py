"""What a back end of encoders is: a model that turns rows of tokens into vectors; the devices it may run on."""

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
    """A model that is loaded. `signature`: its library and version, and what of the options changes a vector.
    `alone`: what else is in a batch would change a vector, so every text runs by itself."""

    signature: str
    alone: bool

    def __call__(self, ids: Ints, mask: Ints, kinds: Ints) -> Vectors:
        """The vectors (texts, tokens, width) of rows of tokens (texts, tokens), of which `mask` 0 is padding."""
        ...


class Device(NamedTuple):
    """A kind of device, and which one of several."""

    kind: str
    number: int

    @classmethod
    def of(cls, name: str) -> Device:
        """The device that a name means: 'cpu', 'cuda', 'cuda:1', 'mps'."""
        matched = DEVICE.fullmatch(name)
        if not matched or (matched[2] and matched[1] != "cuda"):
            raise OptionError(f"device={shown(name)}; allowed: cpu, cuda, cuda:N (the N-th of several), mps")
        return cls(matched[1], int(matched[2] or 0))


def threads() -> int:
    """How many threads a model may use: as many as NumPy's products do, which heed OMP_NUM_THREADS, the limits that
    the caller sets by threadpoolctl, and the processors that the process may use."""
    from threadpoolctl import threadpool_info

    products = [int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(products, default=os.cpu_count() or 1)
