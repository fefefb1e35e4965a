"""Simulated studies with judges that have known biases in addition to quality."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from custodes.data.items import Items
from custodes.data.outputs import SCHEMA, SOURCES, Outputs
from custodes.data.preferences import MISSING, Preferences
from custodes.data.preferences import SCHEMA as VERDICTS
from custodes.data.raters import SCHEMA as RATERS
from custodes.data.raters import Raters
from custodes.data.ratings import SCHEMA as SCORES
from custodes.data.ratings import Ratings
from custodes.data.study import Study

OWN = 2
"""The system that judges may prefer as their own; neither the best nor the worst."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Effects of a judge in addition to the difference of quality: for the first slot, per unit of log length, for its
    own system.

    `steep` is the weight of quality; `scores`: the judge rates outputs; `fails` is the failure rate, multiplied by
    exp(`more`) for comparisons with its own system.
    """

    name: str
    slot: float = 0.0
    length: float = 0.0
    own: float = 0.0
    steep: float = 1.0
    scores: bool = False
    fails: float = 0.03
    more: float = 0.0


@dataclass(frozen=True, kw_only=True)
class World:
    """Design of a study.

    `rho`: correlation of quality and log length within systems; `gap`: spread of systems; `longer`: better systems are
    longer (otherwise length is independent of quality); `noise` of humans; `ties`: differences up to this value tie;
    `document`: items per document; `both` orders, or one at random.
    """

    items: int = 60
    systems: int = 6
    people: int = 3
    noise: float = 1.0
    rho: float = 0.5
    gap: float = 0.3
    longer: bool = False
    ties: float = 0.3
    document: int = 1
    both: bool = True
    verdicts: bool = False


PLANTED = (
    Judge(name="fair"),
    Judge(name="position", slot=0.5),
    Judge(name="length", length=0.8),
    Judge(name="own", own=1.2),
    Judge(name="failing", more=1.8),
)
FAIR = (Judge(name="a"), Judge(name="b", steep=3.0), Judge(name="c", steep=0.4), Judge(name="d", scores=True))


UNKNOWN = pl.lit(None, dtype=pl.Float64)


def planted(judges: tuple[Judge, ...], world: World, seed: int) -> Study:
    """Study in which all effects of judges beyond quality are planted."""
    rng = np.random.default_rng(seed)
    n, k = world.items, world.systems
    document = np.repeat(np.arange(n), world.document)[:n]
    shared = rng.normal(size=(2, n, k))[:, document] * (0.6 if world.document > 1 else 0.0)
    system_quality = np.linspace(-1, 1, k) * world.gap
    inner = rng.normal(size=(n, k)) + shared[0]
    quality = system_quality + inner
    length = world.rho * inner + np.sqrt(1 - world.rho**2) * (rng.normal(size=(n, k)) + shared[1])
    length += world.rho * (system_quality if world.longer else rng.permutation(system_quality))
    names = np.array([f"s{s}" for s in range(k)])
    items = np.array([f"i{i}" for i in range(n)])
    pairs = np.array(list(combinations(range(k), 2)))
    item, pair = np.divmod(np.arange(n * len(pairs)), len(pairs))
    a, b = pairs[pair].T
    base = {"item": items[item], "system_a": names[a], "system_b": names[b], "aspect": "", "repeat": "0"}
    results: list[pl.DataFrame] = []
    lost: list[pl.DataFrame] = []
    scored: list[pl.DataFrame] = []

    def score(rater: str, values: np.ndarray) -> None:
        columns = {
            "item": np.repeat(items, k),
            "system": np.tile(names, n),
            "rater": rater,
            "aspect": "",
            "repeat": "0",
        }
        scored.append(pl.DataFrame({**columns, "score": values.ravel()}, schema=SCORES))

    def tell(rater: str, view: np.ndarray, order: np.ndarray, kept: np.ndarray) -> None:
        sign = (np.sign(view) * (np.abs(view) > world.ties)).astype(np.int8)
        rows = {**base, "rater": rater, "order": np.select([order > 0, order < 0], ["ab", "ba"], "")}
        frame = pl.DataFrame({**rows, "preference": sign, "kept": kept, "why": "unreadable"})
        typed = pl.concat([pl.DataFrame(schema=VERDICTS), frame.cast({"preference": pl.Int8})], how="diagonal")
        results.append(typed.filter("kept").select(list(VERDICTS)))
        lost.append(frame.filter(~pl.col("kept")).select(list(MISSING)))

    for p in range(world.people):
        seen = quality + world.noise * rng.normal(size=(n, k))
        if world.verdicts:
            noise = world.noise * rng.normal(size=item.size)
            tell(f"p{p}", quality[item, a] - quality[item, b] + noise, np.zeros(item.size), np.ones(item.size, bool))
        else:
            score(f"p{p}", np.clip(np.round(2 * seen), -5, 5))
    mine = np.eye(k)[OWN]
    for judge in judges:
        seen = judge.steep * (quality + judge.own * mine + judge.length * length) + 0.7 * rng.normal(size=(n, k))
        if judge.scores:
            score(judge.name, np.round(3 * seen))
            continue
        chance = judge.fails * np.exp(judge.more * (mine[a] + mine[b]))
        first = rng.choice([1, -1], size=item.size)
        for order in (np.ones(item.size), -np.ones(item.size)) if world.both else (first,):
            view = seen[item, a] - seen[item, b] + order * judge.slot + 0.7 * rng.normal(size=item.size)
            tell(judge.name, view, order, rng.random(item.size) > chance)
    annotators = [f"p{p}" for p in range(world.people)]
    rows = [{"rater": name, "kind": "human", "higher_is_better": True, "person": True} for name in annotators]
    rows += [
        {"rater": value.name, "kind": "metric", "higher_is_better": True, "person": False, "own_system": names[OWN]}
        for value in judges
    ]
    words = np.maximum(1, np.round(np.exp(4 + 0.4 * length))).astype(int)
    texts = pl.DataFrame(
        {"item": np.repeat(items, k), "system": np.tile(names, n), "text": ["w " * value for value in words.ravel()]},
        schema=SCHEMA,
    )
    columns = {"item": items, "cluster": [f"d{value}" for value in document], "group": "", "dataset": ""}
    return Study(
        ratings=Ratings(frame=pl.concat(scored)) if scored else Ratings(),
        preferences=Preferences(frame=pl.concat(results), missing=pl.concat(lost)) if results else Preferences(),
        raters=Raters(frame=pl.DataFrame(rows, schema=RATERS)),
        items=Items(frame=pl.DataFrame(columns).with_columns(weight=UNKNOWN, probability=UNKNOWN, n_outputs=UNKNOWN)),
        outputs=Outputs(texts=texts, sources=pl.DataFrame(schema=SOURCES)),
    )
