from __future__ import annotations

import numpy as np

from custodes.evaluate.parallel import map_parts
from custodes.progress import silent


def draws_of(labels: list[str], seed: int = 0) -> dict[str, list[float]]:
    """Return a random number of each part."""

    def answer(label: str, rng: np.random.Generator) -> tuple[str, list[float]]:
        return label, rng.random(4).tolist()

    rng = np.random.default_rng(seed)
    return dict(map_parts(answer, labels, rng=rng, progress=silent, desc="draw", label=str))


def test_a_part_draws_the_same_whatever_the_others_are() -> None:
    whole = draws_of(["style", "truth", "length"])
    assert list(whole) == ["style", "truth", "length"]
    for labels in (["style"], ["truth"], ["length", "style", "truth"]):
        for label, values in draws_of(labels).items():
            assert values == whole[label]
