"""Snapshots of studies for tests of the owner's pages."""

from __future__ import annotations

from typing import Any

from custodes.annotate.plan import StudyPlan
from custodes.annotate.snapshot import PairNow, PersonNow, Reach, Snapshot


def pair(first: str = "Aster", second: str = "Birch", **fields: Any) -> PairNow:
    """Return an undecided pair before its first interim analysis; `fields` overrides values."""
    defaults = {"answered": 0, "wanted": 10, "looks": 3, "is_open": True, "impossible": 0, "annotators": 0}
    return PairNow(first=first, second=second, **defaults | fields)


def person(number: int = 1, **fields: Any) -> PersonNow:
    """Return an annotator without answers; `fields` overrides values."""
    defaults = {
        "label": f"w{number:03}",
        "source": "links",
        "external_id": "",
        "began": True,
        "batch": 0,
        "seconds": None,
        "agreed": 0,
        "doubled": 0,
        "standing": "ok",
        "flags": (),
        "codes": (),
    }
    return PersonNow(**defaults | fields)


def snapshot(*pairs: PairNow, annotators: tuple[PersonNow, ...] = (), **fields: Any) -> Snapshot:
    """Return the snapshot of a study with these pairs; `fields` overrides values."""
    defaults = {
        "plan": StudyPlan(),
        "state": "open",
        "failing": "",
        "primary": sum(p.answered for p in pairs),
        "control_kinds": frozenset({"gold", "attention"}),
        "recent": 0,
        "last_answer": None,
        "quiet": None,
        "reach": Reach(),
        "excluded": (0, 0),
    }
    return Snapshot(pairs=pairs, annotators=annotators, **defaults | fields)
