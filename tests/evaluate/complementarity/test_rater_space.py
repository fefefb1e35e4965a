from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from custodes.evaluate.complementarity.complementarity import complementarity
from tests.evaluate.complementarity.definitions import LEVELS, small, texts_of, values_of
from tests.evaluate.judged_studies import drawn, judged


@pytest.mark.parametrize("fewest", [False, True])
@pytest.mark.parametrize("level", LEVELS)
def test_the_space_is_that_of_what_every_rater_ranked(level: Any, fewest: bool) -> None:
    scores = small(9, missing=False)
    n = 5 if level == "system" else 7
    gone = np.arange(3, n) if fewest else np.array([2])
    lost = np.isin(np.arange(n), gone)[(slice(None),) if level == "system" else (slice(None), np.newaxis)]
    copied = {**scores, ("partial", ""): np.where(lost, np.nan, scores["bleu", ""])}
    result = complementarity(judged(copied), level=level, resamples=20)
    assert values_of(result)["bleu", "partial"] == pytest.approx(0)
    assert result.left_out.is_empty()
    units_text = "systems" if level == "system" else "items"
    phrase = f"{n - len(gone)} of {n} {units_text}"
    assert texts_of(result, "partial-representation") == [
        f"components use {phrase}, because at least one rater did not rank the other {units_text}"
    ]
    # The space equals that of a study of these outputs alone.
    common = {key: np.delete(values, gone, axis=level == "system") for key, values in copied.items()}
    alone = complementarity(judged(common), level=level, resamples=0)
    for name in ("explained_variance", "cumulative"):
        np.testing.assert_allclose(result.components[name], alone.components[name])
    assert not texts_of(alone, "partial-representation")


@pytest.mark.parametrize("level", LEVELS)
def test_where_too_little_is_shared_raters_with_gaps_have_no_place(level: Any) -> None:
    scores = small(9, missing=False)
    without = complementarity(judged(scores), level=level, resamples=0).components
    missed = np.arange(5) > 1 if level == "system" else np.arange(7)[:, None] > 1
    scores["partial", ""] = np.where(missed, np.nan, drawn(1, 7, 5))
    result = complementarity(judged(scores), level=level, resamples=20)
    phrase = "system" if level == "system" else "item"
    assert dict(result.left_out.rows()) == {"partial": f"did not rate every {phrase}, so components exclude this rater"}
    np.testing.assert_allclose(result.components["explained_variance"], without["explained_variance"])
    assert not texts_of(result, "partial-representation")


def test_no_components_without_two_complete_raters() -> None:
    # Each of four raters lacks another three of five systems, so no three systems were ranked by all raters.
    scores: dict[Any, Any] = {}
    for k, name in enumerate(("ann", "m1", "m2", "m3")):
        seen = np.isin(np.arange(5), [k, (k + 1) % 5, (k + 2) % 5])
        scores[name, ""] = np.where(seen, drawn(k, 20, 5), np.nan)
    result = complementarity(judged(scores), resamples=20)
    assert result.components.is_empty()
    assert result.left_out.height == 4


def test_two_families_have_one_dimension() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(30, 6))
    scores: dict[Any, Any] = {("ann", "style"): base + 0.2 * rng.normal(size=base.shape)}
    for k in range(3):
        scores[f"like{k}", ""] = base + 0.2 * rng.normal(size=base.shape)
        scores[f"unlike{k}", ""] = -base + 0.2 * rng.normal(size=base.shape)
    result = complementarity(judged(scores), resamples=20)
    first = result.components.row(0, named=True)
    assert first["cumulative"] > 0.8 > first["null_cumulative"]
    assert result.components["explained_variance"].sum() == pytest.approx(1)
    assert result.components["null_cumulative"][-1] == pytest.approx(1)
