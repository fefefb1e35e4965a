"""What users wait for: verbs on real and simulated studies, and what was aimed at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FORMER = {"correction": "correct", "ranking": "rank"}
UNKNOWN = ("check", "leaderboard", "consistency", "annotators", "verdict", "plan")
"""Verbs that 0.1.0 lacked, or that said something else there."""
SECTIONS = "agreement,favoritism,ranking,confusion,complementarity,ceiling,combine,correction,protocol,method,check"
WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de"
REAL: dict[str, tuple[str, tuple[str, ...], str]] = {
    "SummEval": ("summeval/ratings.csv.gz", (), "coherence"),
    "WMT23": (WMT, ("--human", "mqm"), ""),
    "HANNA": ("hanna/ratings.csv.gz", (), "Coherence"),
    "PandaLM": ("pandalm/battles.csv.gz", ("--invalid", "drop"), ""),
}
"""Name of a study to its file, options, and the target of a combined metric."""
BATTLES_ONLY = ("PandaLM",)
MADE: dict[str, tuple[str, str]] = {
    "1,000 rows": ("small.csv", "scores items=50 systems=5 metrics=3 people=1 seed=9"),
    "100,000 items": ("items.csv", "scores items=100000 systems=3 metrics=3 people=1 seed=0"),
    "arena, 2 M battles": ("arena.parquet", "battles battles=2000000 models=150 seed=0"),
    "arena, 2 M battles and a judge": ("arena_judge.parquet", "battles battles=2000000 models=150 judges=1 seed=0"),
    "59,400 battles of 100": ("systems.csv", "battles battles=59400 models=100 judges=1 seed=3"),
    "2,000 metrics": ("metrics.parquet", "scores items=20 systems=10 metrics=2000 people=2 seed=2"),
    "500 systems": ("systems.parquet", "scores items=20 systems=500 metrics=3 people=2 seed=3"),
}
"""Name of a simulated study to its file, and what `studies.py` makes it from."""
WAITS = (
    "report",
    "correction",
    "agreement",
    "combine fit",
    "ceiling",
    "complementarity",
    "protocol",
    "check",
    "verdict",
)
QUESTIONS = (
    "check",
    "leaderboard",
    "agreement",
    "favoritism",
    "ranking",
    "correction",
    "consistency",
    "complementarity",
)
LARGE = (*QUESTIONS, "ceiling", "annotators", "verdict", "combine fit", "report")
ARENA = ("check", "leaderboard", "favoritism", "ranking", "correction", "report")
TARGETS: dict[str, float] = {
    "SummEval report, the sections that 0.1.0 had": 1 / 4,
    "SummEval correction": 1 / 10,
    "SummEval agreement": 1 / 3,
    "SummEval combine fit": 1 / 3,
    **{f"{name} {verb}": 1 / 3 for name in ("WMT23", "HANNA") for verb in ("correction", "agreement", "combine fit")},
    **{f"{name} report, the sections that 0.1.0 had": 1 / 3 for name in ("WMT23", "HANNA")},
}
"""The largest share of what the start took, or 0.1.0."""
LIMITS: dict[str, tuple[float, float]] = {
    "first answer: *": (0.3, 400),
    "1,000 rows *": (1.5, 400),
    "SummEval *": (600, 400),
    "100,000 items check": (5, 2_000),
    "100,000 items agreement": (60, 2_000),
    "100,000 items *": (120, 2_000),
    "arena*": (600, 3_000),
    "2,000 metrics *": (600, 4_000),
    "500 systems *": (600, 4_000),
}
"""Globs of names to most CPU seconds and MB; the first that fits counts."""


@dataclass(frozen=True)
class Wait:
    """Words of the command line after and in 0.1.0 (None: nothing to compare with); `study` stands for a file. A case
    that is `alone` is of this version only."""

    name: str
    study: str
    words: tuple[str, ...]
    before: tuple[str, ...] | None
    some_sections: bool = False
    alone: bool = False

    def sides(self, checkouts: Mapping[str, Path | None]) -> dict[str, Path | None]:
        """The versions that are run, in turn."""
        known = {"before": self.before is not None, "start": not self.alone, "after": True}
        return {side: checkouts.get(side) for side in known if known[side] and (checkouts.get(side) or side == "after")}


def waits() -> list[Wait]:
    """Every case, in the order of the table."""
    made = [
        Wait("first answer: --help", "", ("--help",), ("--help",)),
        Wait("first answer: --version", "", ("--version",), ("--version",)),
    ]
    made.append(verb("favoritism", "1,000 rows"))
    for study in REAL:
        _, options, target = REAL[study]
        for name in WAITS if study not in BATTLES_ONLY else ("report", "correction", "agreement", "check", "verdict"):
            made.append(verb(name, study, *options, target=target))
            if name == "report":
                own = made[-1]
                told = f"{own.name}, the sections that 0.1.0 had"
                made.append(Wait(told, study, own.words, own.words, some_sections=True))
                made[-2] = Wait(f"{own.name}, whole", study, own.words, None)
    made += [verb(name, "100,000 items", alone=True) for name in LARGE]
    made += [verb(name, "arena, 2 M battles", alone=True) for name in ("check", "leaderboard", "report")]
    made += [verb(name, "arena, 2 M battles and a judge", alone=True) for name in ARENA]
    made += [verb(name, "59,400 battles of 100", alone=True) for name in ("favoritism", "ranking", "report")]
    made += [verb(name, "2,000 metrics", alone=True) for name in LARGE]
    return [
        *made,
        *(verb(name, "500 systems", alone=True) for name in ("agreement", "favoritism", "ranking", "protocol")),
    ]


def verb(name: str, study: str, *options: str, target: str = "", alone: bool = False) -> Wait:
    """A verb on a study, and its name in 0.1.0."""
    kept = options
    if name == "combine fit":
        kept = (*kept, *(("--target", target) if target else ()))
    words = (*name.split(), "STUDY", *kept, "--quiet", *(("--format", "json") if name != "report" else ()))
    old = tuple(FORMER.get(word, word) for word in words)
    return Wait(f"{study} {name}", study, words, None if alone or name in UNKNOWN else old, alone=alone)
