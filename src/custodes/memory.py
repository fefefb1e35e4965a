"""Check of memory requirements before a computation, because the system would kill the process without a message."""

from __future__ import annotations

import os

from custodes.errors import OptionError

_NUMBERS = 1000
"""Number of values in memory per resample: the statistics of all raters for several aspects. Cluster weights are
counted separately. On the demo (seven metrics, three aspects), agreement needs 3000 values, and all other questions
need fewer."""

SHARE = 0.8
"""Proportion of the memory of the machine that a computation may use."""


def machine_memory() -> float:
    """Memory of the machine in bytes; infinite if unknown."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on every system
        return float("inf")


def fits_in_memory(n_bytes: float) -> bool:
    """Whether a computation may use this number of bytes."""
    return n_bytes <= SHARE * machine_memory()


def count_resample_values(resamples: int, n_values_per_resample: float = 0.0) -> float:
    """Number of eight-byte numbers that the resamples need.

    Each resample needs its statistics and `n_values_per_resample` further numbers, such as the cluster weights.
    """
    return (1 + resamples) * (n_values_per_resample + _NUMBERS)


def check_memory(option_name: str, option_value: int, n_numbers: float) -> None:
    """Raise OptionError if `option_name`=`option_value` needs `n_numbers` eight-byte numbers that do not fit into
    memory.

    >>> check_memory("resamples", 1000, 1e6)
    """
    n_bytes, n_machine_bytes = 8 * n_numbers, machine_memory()
    if not fits_in_memory(n_bytes):
        raise OptionError(
            f"{option_name}={option_value}: needs about {n_bytes / 1e9:.0f} GB of memory, more than {SHARE:.0%} of the "
            f"{n_machine_bytes / 1e9:.0f} GB of this machine; give a smaller number"
        )
