from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.statistics.correlations import KINDS
from tests.evaluate.studies import scores_of, study_of

REFERENCES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def two_way(scores: np.ndarray, rated: np.ndarray) -> np.ndarray:
    """Return the effects of systems from a regression on dummies of items and systems."""
    item, system = np.nonzero(rated)
    dummies = np.zeros((len(item), rated.shape[0] + rated.shape[1]))
    dummies[np.arange(len(item)), item] = dummies[np.arange(len(item)), rated.shape[0] + system] = 1
    return np.linalg.lstsq(dummies, scores[rated], rcond=None)[0][rated.shape[0] :]


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_that_one_did_not_rate_do_not_count(kind: str) -> None:
    scores = scores_of(5)
    rng = np.random.default_rng(0)
    scores[rng.random(scores.shape) < 0.15] = np.nan
    row = agreement(study_of(scores), resamples=0).metrics.row(0, named=True)
    human, metric = scores[0], scores[1]
    both = np.isfinite(human) & np.isfinite(metric)
    reference = REFERENCES[kind]
    assert row[f"{kind}_global"] == pytest.approx(reference(human[both], metric[both]).statistic)
    # The score of a system is its least-squares effect, adjusted for items, over the outputs that both raters scored.
    fits = [two_way(values, both) for values in (human, metric)]
    assert row[f"{kind}_system"] == pytest.approx(reference(*fits).statistic)
    within = [
        reference(h[values], m[values]).statistic
        for h, m, values in zip(human, metric, both, strict=True)
        if len(set(h[values])) > 1 and len(set(m[values])) > 1
    ]
    assert row[f"{kind}_item"] == pytest.approx(np.mean(within))


def test_p_values_of_means_over_items_by_brute_force() -> None:
    # Seven items give 128 ways to exchange the two metrics.
    scores = scores_of(11, items=7)
    result = agreement(study_of(scores), resamples=4000, compare_by=("kendall_item",)).comparisons
    tau = np.array(
        [[stats.kendalltau(h, m).statistic for h, m in zip(scores[0], values, strict=True)] for values in scores[1:]]
    )
    assert np.isfinite(tau).all()
    difference = tau[0] - tau[1]
    assert result["difference"].item() == pytest.approx(difference.mean())
    ways = np.array(np.meshgrid(*[[1, -1]] * 7)).reshape(7, -1).T
    exact = (np.abs(ways @ difference) >= abs(difference.sum()) - 1e-9).mean()
    assert result["p_value"].item() == pytest.approx(exact, abs=0.03)
