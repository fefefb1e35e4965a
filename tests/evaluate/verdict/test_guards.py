"""How often the verdict names a winner, or says that a system is behind, where all systems are equal."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu


def compared(seed: int, *, selected: bool, effect: float = 0.0, items: int = 300, systems: int = 4) -> cu.Study:
    """A judge compares one pair of systems on each item, people a sixth of these: drawn at random, or those where the
    judge prefers S0 to the other system. People and judge see the same quality with noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(items):
        a, b = np.sort(rng.choice(systems, 2, replace=False))
        quality = rng.normal(0, 1) + effect * (int(a == 0) - int(b == 0))
        judge, human = (int(np.sign(quality + rng.normal(0, 0.7))) for _ in range(2))
        asked = rng.random() < 1 / 6 if not selected else a == 0 and judge > 0 and rng.random() < 2 / 3
        asked = asked or (selected and a > 0 and rng.random() < 0.1)
        said = [("judge", "metric", judge)] + ([("ann", "human", human)] if asked else [])
        rows += [(f"i{item}", f"S{a}", f"S{b}", rater, kind, sign) for rater, kind, sign in said]
    schema = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    return cu.read(pl.DataFrame(rows, schema=schema, orient="row"))


def winner(study: cu.Study) -> list[str]:
    found = cu.verdict(study, resamples=200).verdict.filter(kind="best")
    return [name for name in found["system"].to_list() if name]


@pytest.mark.parametrize("seed", range(4))
def test_selected_comparisons_name_no_winner(seed: int) -> None:
    study = compared(seed, selected=True)
    assert winner(study) == []
    assert "not a random part" in " ".join(cu.verdict(study, resamples=200).verdict["text"])
    board = cu.leaderboard(study, resamples=200)
    assert board.systems.filter(rater="human", system="S0")["win_rate_low"][0] > 0.5  # what used to be reported
    assert any("holds for the battles that they judged and no others" in note.message for note in board.notes)


def test_random_comparisons_name_the_better_system() -> None:
    assert winner(compared(0, selected=False, effect=1.5)) == ["S0"]
