from __future__ import annotations

import numpy as np
import polars as pl

from custodes.evaluate.design import Design
from tests.evaluate.studies import scores_of, study_of

STUDY = study_of(scores_of(0, items=5)).describe(
    items=pl.DataFrame(
        {
            "item": ["i3", "i0", "i1", "i2"],
            "cluster": ["doc", "doc", None, "other"],
            "weight": [2.0, 1.0, None, 1.0],
            "group": ["news", "news", "talk", None],
        }
    )
)
ITEMS = ("i2", "i0", "i4", "i3", "i1")


def design_of(items: tuple[str, ...] = ITEMS) -> Design:
    return Design.from_study(STUDY, items=items, systems=("B", "A", "C"))


def test_items_in_their_order_with_cluster_weight_and_group() -> None:
    design = design_of()
    assert design.items == ITEMS
    # An item without a cluster is a cluster of one.
    assert design.clusters == ("doc", "i1", "i4", "other")
    assert design.units.tolist() == [3, 0, 2, 0, 1]
    assert design.n_units == 4
    assert design.weights.tolist() == [1, 1, 1, 2, 1]
    assert design.group == ("", "news", "", "news", "talk")
    assert design.dataset == ("",) * 5


def test_resamples_draw_clusters_after_the_data_themselves() -> None:
    times = design_of().draw_weights(50, np.random.default_rng(0))
    assert times.shape == (51, 4)
    assert times[0].tolist() == [1, 1, 1, 1]
    np.testing.assert_array_equal(times.sum(axis=1), 4)
    assert (times[1:] != 1).any()
    # the same numbers from the same generator
    np.testing.assert_array_equal(times, design_of().draw_weights(50, np.random.default_rng(0)))


def test_one_cluster_is_never_resampled() -> None:
    design = design_of(("i0", "i3"))
    assert (design.clusters, design.n_units) == (("doc",), 1)
    assert design.draw_weights(50, np.random.default_rng(0)).tolist() == [[1]]
