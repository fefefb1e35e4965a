"""The live engine: a study's answers, added one by one, give the results of the replay; files, orders, bad input."""

from collections import Counter

import numpy as np
import pytest

from custodes.data.comparisons import Comparisons, pairs_of
from custodes.errors import InputError, OptionError
from custodes.evaluate.protocol import live
from custodes.evaluate.protocol.annotations import order_answers
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats import ABSENT
from custodes.stats.stopping.replay import replay
from tests.evaluate.protocol.scores import preferences_of, rated_pairs_of
from tests.messages import exactly

SYSTEMS = ("A", "B", "C", "D")
ITEMS = tuple(f"i{k}" for k in range(30))


def driven(state: live.State, signs: np.ndarray, *, swap: bool = False) -> live.State:
    """Answer all requests from the preferences, through a file between any two rounds."""
    place = {pair: k for k, pair in enumerate(zip(*pairs_of(SYSTEMS), strict=True))}
    while requests := live.next_annotations(state):
        verdicts = []
        for item, a, b in requests:
            sign = int(signs[place[SYSTEMS.index(a), SYSTEMS.index(b)], ITEMS.index(item)])
            verdicts.append((item, b, a, -sign) if swap else (item, a, b, sign))
        state = live.State.from_json(live.record(state, verdicts).to_json())
    return state


@pytest.mark.parametrize(
    ("estimator", "options"),
    [(None, {"looks": [5, 12, 20], "boundary": "pocock", "stop": "futility", "budget": 47}), ("ppi", {"batch": 10})],
)
def test_replay_is_the_live_engine_fed_with_known_answers(estimator: str | None, options: dict) -> None:
    signs, seed = preferences_of(1), 7
    views = preferences_of(2) if estimator == "ppi" else None
    metric = None
    if views is not None:
        metric = Comparisons.from_signs(views[:, None], raters=("m",), items=ITEMS, systems=SYSTEMS)
    stopping = Stopping(**options)
    state = live.start(SYSTEMS, ITEMS, metric=metric, estimator=estimator, stopping=stopping, seed=seed)
    rated_answers = rated_pairs_of(signs, metric=views)
    end = replay(
        order_answers([rated_answers], [seed]),
        state.rule,
        reference_decisions=rated_answers.reference(0.05),
        reference_proportions=rated_answers.truth,
    )
    final = driven(state, signs)
    assert final.live_annotation.decision == end.decision[0].tolist()
    assert [d.annotations for d in live.decisions(final)] == end.n[0].tolist()
    assert not any(d.is_open for d in live.decisions(final))
    assert end.n.sum() <= options.get("budget", np.inf)
    assert driven(state, signs, swap=True) == final


def test_answers_in_parts_and_resumed_from_a_file(tmp_path) -> None:
    signs = preferences_of(4)
    state = live.start(SYSTEMS, ITEMS, stopping=Stopping(batch=4))
    requests = live.next_annotations(state)
    assert len(requests) == 24
    assert len(set(requests)) == 24
    part_answers = [(*request, 0) for request in requests[:10]]
    state = live.record(state, part_answers)
    # Two pairs have completed their first interim analysis and go on without waiting for the others.
    remaining = live.next_annotations(state)
    assert set(requests[10:]) < set(remaining)
    assert Counter((request.system_a, request.system_b) for request in remaining) == dict.fromkeys(state.pairs, 4) | {
        ("A", "D"): 2
    }
    (tmp_path / "state.json").write_bytes(state.to_json())
    assert live.State.read(tmp_path / "state.json") == state
    # A repeated answer is no second annotation.
    assert live.record(state, part_answers) == state
    assert max(driven(state, signs).live_annotation.look) > 0


def test_a_skipped_item_is_replaced_by_another() -> None:
    state = live.start(SYSTEMS[:2], ITEMS[:5], stopping=Stopping(batch=2))
    (first, second) = live.next_annotations(state)
    state = live.record(state, [(*first, None), (*second, 1)])
    (third,) = live.next_annotations(state)
    assert third.item not in (first.item, second.item)
    state = live.record(state, [(*third, 1)])
    while requests := live.next_annotations(state):
        state = live.record(state, [(*request, None) for request in requests])
    assert live.decisions(state)[0].annotations == 2
    nothing = live.record(live.start(["A", "B"], ["i"]), [("i", "A", "B", None)])
    assert live.decisions(nothing) == [live.Decision("A", "B", "=", 0, False)]


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        (("i99", "A", "B", 1), "this protocol has no item 'i99' (did you mean 'i9'?)"),
        (("i0", "A", "X", 1), "this protocol has no system 'X'"),
        (("i0", "A", "A", 1), "'i0': 'A' is compared with itself; give two different systems"),
    ],
)
def test_bad_answers(verdict: tuple, message: str) -> None:
    with pytest.raises(InputError, match=exactly(message)):
        live.record(live.start(SYSTEMS, ITEMS, stopping=Stopping(batch=30)), [verdict])


def test_answers_not_asked_or_changed() -> None:
    state = live.start(SYSTEMS, ITEMS, stopping=Stopping(batch=4))
    requests = live.next_annotations(state)
    unrequested = next(item for item in ITEMS if live.Annotation(item, "A", "B") not in requests)
    with pytest.raises(
        InputError,
        match=exactly("'A' against 'B' on 'i0' is not requested now; answer only questions of next_annotations"),
    ):
        live.record(state, [(unrequested, "A", "B", 1)])
    state = live.record(state, [(*requests[0], 1)])
    with pytest.raises(
        InputError, match=exactly("'A' against 'B' on 'i11' already has a different answer; omit this answer")
    ):
        live.record(state, [(*requests[0], 0)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"estimator": "mixture"},
            "estimator='mixture' needs a metric, but metrics='none'; select metrics, or use human or pooled",
        ),
        ({"clusters": ["d"]}, "clusters: 1 labels for 30 items; give one label per item"),
        (
            {"seed": -1},
            "rng=-1: must be a seed (a whole number from 0 to 18446744073709551615), a NumPy generator or None",
        ),
        ({"seed": None}, "seed=None cannot be saved in a state file; give a whole number"),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        live.start(SYSTEMS, ITEMS, **options)


def test_the_metric_is_read_by_names_of_systems_and_items() -> None:
    views = preferences_of(2)
    views[1, ::3] = ABSENT
    systems, items = ("A", "B", "C", "D"), tuple(reversed(ITEMS))
    metric = Comparisons.from_signs(views[:, None], raters=("m",), items=ITEMS, systems=SYSTEMS)
    state = live.start(systems, items, metric=metric, estimator="ppi")
    assert np.array(state.metric).tolist() == views[:, ::-1].tolist()
    some = live.start(systems[1:3], ITEMS[:4], metric=metric, estimator="ppi")
    assert np.array(some.metric).tolist() == views[3:4, :4].tolist()
    with pytest.raises(
        InputError,
        match=exactly(
            "metric: no comparison has a pair and an item of this protocol (items x, y); use the names of "
            "systems and items from the protocol"
        ),
    ):
        live.start(systems, ["x", "y"], metric=metric, estimator="ppi")
    two = Comparisons.from_signs(np.stack([views, views], axis=1), raters=("m", "n"), items=ITEMS, systems=SYSTEMS)
    with pytest.raises(OptionError, match=r"metric: preferences of 2 raters \(m, n\); give preferences of one rater"):
        live.start(systems, ITEMS, metric=two, estimator="ppi")


def test_clusters_are_numbered_by_first_appearance() -> None:
    state = live.start(SYSTEMS[:2], ITEMS[:5], clusters=["y", "x", "y", "z", "x"])
    assert state.units == (0, 1, 0, 2, 1)
    assert live.start(SYSTEMS[:2], ITEMS[:3]).units == (0, 1, 2)
    asked = live.next_annotations(live.start(SYSTEMS[:2], ITEMS[:4], clusters=list("aabb"), stopping=Stopping(batch=2)))
    assert len({ITEMS.index(question.item) // 2 for question in asked}) == 2  # each cluster gives one item first


def test_decisions_have_signs_counts_and_bounds() -> None:
    state = live.start(SYSTEMS[:3], ITEMS[:8], stopping=Stopping(looks=[4, 8]))
    winner = {("A", "B"): 1, ("A", "C"): -1, ("B", "C"): 0}
    while questions := live.next_annotations(state):
        state = live.record(
            state, [(q.item, q.system_b, q.system_a, -winner[q.system_a, q.system_b]) for q in questions]
        )
    rows = {(row.system_a, row.system_b): row for row in live.decisions(state)}
    # theta of eight wins is 1 - 2^-9; of four wins 1 - 2^-5 = .969, below .975
    assert {pair: row.decision for pair, row in rows.items()} == {("A", "B"): "+", ("A", "C"): "-", ("B", "C"): "="}
    assert {row.annotations for row in rows.values()} == {8}
    assert not any(row.is_open for row in rows.values())
    first, second, tied = rows.values()
    assert (first.low, first.margin, first.high) == pytest.approx((-second.high, -second.margin, -second.low))
    assert first.low < first.margin
    assert tied.margin == 0
    fresh = live.decisions(live.start(SYSTEMS[:2], ITEMS[:3]))
    assert fresh == [live.Decision("A", "B", "=", 0, True, None, None, None)]
