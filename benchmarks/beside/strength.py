"""Strengths of systems from battles: one fit of the Bradley-Terry model, with ties as half wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beside import Beside, Work

BATTLES, SYSTEMS, FEWER = 1_000_000, 130, 100_000


def data(folder: Path, *, n: int = BATTLES) -> None:
    """Battles of systems with unequal frequencies; a quarter are ties."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    first = rng.choice(SYSTEMS, size=n, p=rng.dirichlet(np.full(SYSTEMS, 2.0)))
    second = (first + rng.integers(1, SYSTEMS, size=n)) % SYSTEMS
    strength = rng.normal(size=SYSTEMS) / 2
    ahead = strength[first] - strength[second] + rng.logistic(size=n)
    names = np.array([f"system{k:03}" for k in range(SYSTEMS)])
    winner = np.where(np.abs(ahead) < 0.5, "tie", np.where(ahead > 0, "model_a", "model_b"))
    frame = pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner})
    frame.to_parquet(folder / "battles.parquet")


def fewer(folder: Path) -> None:
    data(folder, n=FEWER)


def by_custodes(folder: Path) -> Work:
    """From names to strengths and 200 draws of them, as standard errors."""
    import numpy as np
    import polars as pl

    from custodes.stats.strength.battles import Battles
    from custodes.stats.strength.strengths import strengths

    frame = pl.read_parquet(folder / "battles.parquet")

    def work() -> list[float]:
        order = pl.Enum(pl.concat([frame["model_a"], frame["model_b"]]).unique().sort())
        first, second = (
            frame[name].cast(order).to_physical().to_numpy().astype(np.int64) for name in ("model_a", "model_b")
        )
        sign = frame["winner"].replace_strict({"model_a": 1, "tie": 0, "model_b": -1}, return_dtype=pl.Int8).to_numpy()
        n = frame.height
        battles = Battles(
            first=first, second=second, sign=sign, unit=np.arange(n), weight=np.ones(n), covariates=np.empty((n, 0))
        )
        result = strengths(battles, n_systems=SYSTEMS, ties="half", resamples=200, rng=np.random.default_rng(0))
        return centred(result.draws[0])

    return work


def centred(strengths: Any) -> list[float]:
    return [float(value) for value in strengths - strengths.mean()]


def by_evalica(folder: Path) -> Work:
    """Fit without standard errors."""
    import evalica
    import numpy as np
    import pandas as pd

    frame = pd.read_parquet(folder / "battles.parquet")

    def work() -> list[float]:
        words = {"model_a": evalica.Winner.X, "tie": evalica.Winner.Draw, "model_b": evalica.Winner.Y}
        sides = frame["model_a"].tolist(), frame["model_b"].tolist(), [words[value] for value in frame["winner"]]
        return centred(np.log(evalica.bradley_terry(*sides, tolerance=1e-10).scores.sort_index()).to_numpy())

    return work


def by_choix(folder: Path) -> Work:
    """Choix has no ties: every battle counts twice, a tie once for each side."""
    import choix
    import numpy as np
    import pandas as pd

    frame = pd.read_parquet(folder / "battles.parquet")

    def work() -> list[float]:
        names = np.unique(frame[["model_a", "model_b"]].to_numpy())
        first, second = (np.searchsorted(names, frame[name]) for name in ("model_a", "model_b"))
        winner = frame["winner"].to_numpy()
        once, back = np.stack([first, second], axis=1), np.stack([second, first], axis=1)
        wins = [
            once[winner != "model_b"],
            once[winner == "model_a"],
            back[winner != "model_a"],
            back[winner == "model_b"],
        ]
        return centred(choix.ilsr_pairwise(SYSTEMS, np.concatenate(wins).tolist(), tol=1e-10))

    return work


def by_arena_rank(folder: Path) -> Work:
    """Fit with sandwich standard errors, compiled in the first run."""
    import numpy as np
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    frame = pd.read_parquet(folder / "battles.parquet")

    def work() -> list[float]:
        model, pairs = BradleyTerry(SYSTEMS), PairDataset.from_pandas(frame)
        result = model.compute_ratings_and_cis(pairs, ci_method="sandwich")
        order = np.argsort(np.array(pairs.competitors))
        return centred(((np.asarray(result["ratings"]) - model.init_rating) / model.alpha)[order])

    return work


FIT = "strengths of 130 systems from a million battles, from names on, {}"
COMPARISONS = (
    Beside(
        "evalica",
        FIT.format("its fit alone (ours: with 200 draws for errors)"),
        "evalica",
        data,
        by_custodes,
        by_evalica,
        1e-5,
        because="both stop before rounding",
    ),
    Beside(
        "arena-rank",
        FIT.format("with errors of the sandwich (ours: with 200 draws)"),
        "arena_rank",
        data,
        by_custodes,
        by_arena_rank,
        1e-3,
        because="arena-rank stops earlier",
    ),
    Beside(
        "choix",
        "strengths of 130 systems from 100,000 battles, its fit alone (ours: with 200 draws for errors)",
        "choix",
        fewer,
        by_custodes,
        by_choix,
        1e-5,
        because="both stop before rounding",
    ),
)
