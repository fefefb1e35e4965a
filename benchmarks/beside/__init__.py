"""What others compute too: the same data, both sides, the same numbers. One file a subject; `peers.py` runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Numbers = list[float]
Work = Callable[[], Numbers | tuple[Numbers, float]]
"""Gives numbers; or numbers and seconds, where only a share of the work was done and its time alone was scaled up."""
Side = Callable[[Path], Work]
"""Loads what it needs from a folder (not timed), and returns the work, which is done twice: the second is timed."""


@dataclass(frozen=True)
class Beside:
    """One comparison: `data` writes files into a folder, `ours` and `theirs` read them and give as many numbers each.

    `module` is what the peer's interpreter must be able to import, `home` where it is looked for: the environment of
    peers, that of oracles, or only ours. Numbers must agree within `tolerance`; `because` says why that is not
    rounding. Of `labels`, which are no numbers, the share that differs must be below it.
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
