<<<<<<< HEAD
"""Design: what is resampled together and what weighs how much, as the study describes its items."""
=======
"""Design: what is resampled together, and what weighs how much."""
>>>>>>> hm

from __future__ import annotations

import numpy as np
import polars as pl

<<<<<<< HEAD
from custodes.evaluate.design import Design
from tests.evaluate.agreement.test_agreement import scores_of
from tests.evaluate.test_favoritism import study_of

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


def made(items: tuple[str, ...] = ITEMS) -> Design:
    return Design.of(STUDY, items=items, systems=("B", "A", "C"))


def test_items_in_their_order_with_cluster_weight_and_group() -> None:
    design = made()
    assert design.items == ITEMS
    # an item without a cluster is one of its own
    assert design.clusters == ("other", "doc", "i4", "i1")
    assert design.units.tolist() == [0, 1, 2, 1, 3]
    assert design.n_units == 4
    assert design.weights.tolist() == [1, 1, 1, 2, 1]
    assert design.group == ("", "news", "", "news", "talk")
    assert design.dataset == ("",) * 5


def test_weights_that_are_all_one_need_no_arithmetic() -> None:
    assert made(("i0", "i1")).item_weights is None
    weights = made().item_weights
    assert weights is not None
    assert weights.tolist() == [1, 1, 1, 2, 1]


def test_pairs_of_systems_by_place() -> None:
    assert made().pairs.tolist() == [[0, 1], [0, 2], [1, 2]]


def test_resamples_draw_clusters_after_the_data_themselves() -> None:
    times = made().resampled(50, np.random.default_rng(0))
    assert times.shape == (51, 4)
    assert times[0].tolist() == [1, 1, 1, 1]
    np.testing.assert_array_equal(times.sum(axis=1), 4)
    assert (times[1:] != 1).any()
    # the same numbers from the same generator
    np.testing.assert_array_equal(times, made().resampled(50, np.random.default_rng(0)))


def test_one_cluster_is_never_resampled() -> None:
    design = made(("i0", "i3"))
    assert (design.clusters, design.n_units) == (("doc",), 1)
    assert design.resampled(50, np.random.default_rng(0)).tolist() == [[1]]
=======
from custodes.data.items import Items
from custodes.evaluate.design import Design
from tests.evaluate.test_favoritism import study_of

ITEMS, SYSTEMS = ("i0", "i1", "i2", "i3"), ("A", "B", "C")


def design_of(**columns: list) -> Design:
    study = study_of(np.arange(24.0).reshape(2, 4, 3), list(SYSTEMS))
    table = pl.DataFrame({"item": list(ITEMS), **columns})
    return Design.of(study.describe(items=table) if columns else study, items=ITEMS, systems=SYSTEMS)


def test_items_without_a_cluster_are_clusters_of_their_own() -> None:
    plain = design_of()
    assert (plain.clusters, plain.units.tolist(), plain.n_units) == (ITEMS, [0, 1, 2, 3], 4)
    assert plain.item_weights is None
    assert (plain.group, plain.dataset) == (("",) * 4, ("",) * 4)
    some = design_of(cluster=["d", "", "e", "d"])
    assert (some.clusters, some.units.tolist(), some.n_units) == (("d", "i1", "e"), [0, 1, 2, 0], 3)


def test_weights_are_one_unless_they_are_said() -> None:
    weighted = design_of(weight=[2.0, None, 1.0, 0.5])
    assert weighted.weights.tolist() == [2, 1, 1, 0.5]
    assert weighted.item_weights is weighted.weights
    assert design_of(weight=[1.0, 1.0, None, 1.0]).item_weights is None


def test_groups_and_data_sets_stand_at_their_items() -> None:
    made = design_of(group=["x", "", "y", "x"], dataset=["p", "p", "q", ""])
    assert (made.group, made.dataset) == (("x", "", "y", "x"), ("p", "p", "q", ""))


def test_pairs_are_those_of_the_systems_in_order() -> None:
    assert design_of().pairs.tolist() == [[0, 1], [0, 2], [1, 2]]


def test_clusters_are_drawn_as_often_as_there_are_and_the_data_come_first() -> None:
    made = design_of(cluster=["d", "", "e", "d"]).resampled(200, np.random.default_rng(0))
    assert made.shape == (201, 3)
    assert (made[0] == 1).all()
    assert (made.sum(axis=1) == 3).all()
    assert (made[1:] != 1).any(axis=1).mean() > 0.5
    one = design_of(cluster=["d"] * 4).resampled(200, np.random.default_rng(0))
    assert one.tolist() == [[1]]  # never resampled


def test_an_empty_items_table_is_fine() -> None:
    assert Items.empty().for_items(pl.Series("item", ["a"])).row(0) == ("a", "", "", "", None)
>>>>>>> hm
