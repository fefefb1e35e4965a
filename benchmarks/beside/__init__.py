"""Comparisons with other packages on the same data, which must give the same numbers.

Each subject has one file; `peers.py` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Numbers = list[float]
Work = Callable[[], Numbers | tuple[Numbers, float]]
"""Returns numbers, or numbers and seconds if only a part of the work was done and its time scaled up."""
Side = Callable[[Path], Work]
"""Loads data from a folder (not timed), and returns the work, which runs twice: the second run is timed."""


@dataclass(frozen=True)
class Beside:
    """One comparison: `data` writes files into a folder; `ours` and `theirs` read them and return as many numbers each.

    `module` is what the peer's interpreter must be able to import, and `home` where that is: the environment of peers,
    that of oracles, or only this one. Numbers must agree within `tolerance`; `because` is the reason if that is more
    than rounding. Of `labels`, which are not numbers, the proportion that differs must be below it.
    """

    peer: str
    what: str
    module: str
    data: Callable[[Path], None]
    ours: Side
    theirs: Side
    tolerance: float
    because: str = ""
    labels: bool = False
    home: str = "peers"
    needs: tuple[str, ...] = ()
