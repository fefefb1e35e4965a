"""Selection of the next question of an annotator. The probability of the selection is stored.

The random order of the items of a pair is drawn when the study is created. A primary comparison uses the first free
position of its pair whose item is new to the annotator. If the annotator has seen all these items, the comparison uses
the first free position that the annotator never got. The first positions of an order are therefore a simple random
sample of the items, whichever annotators answer. Only the pair and the role of a question are drawn here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil
from random import Random
from typing import NamedTuple

from custodes.annotate.participants import Annotator, Unit
from custodes.annotate.plan import AnnotatorPlan
from custodes.annotate.state import StudyState

LEAST_CAP = 2
BEYOND = 3
"""Largest number of second opinions that a study may get in addition to the planned ones."""
ACTIVE = 3
"""Maximum number of begun items: items of which the annotator has rated some outputs and can still rate others. An
annotator with this number of begun items gets no output of a new item."""


class NextQuestion(NamedTuple):
    """A question, with the probability of its role and the probability of its pair. For ratings, the second probability
    is the probability of the output. A question that is assigned again for a correction has no probabilities."""

    role: str
    unit: Unit | None
    gold: int | None
    flip: int
    look: int | None
    p_role: float | None
    p_pair: float | None


def schedule(state: StudyState, batch_number: int, rng: Random) -> dict[int, str]:
    """Draw the positions of the control questions in a batch. Return the kind of control question at each position."""
    annotator_plan = state.plan.annotators
    batch_control_kinds = control_kinds(
        annotator_plan, {control_kind for control_kind, _ in state.gold.values()}, is_first_batch=batch_number == 1
    )
    control_positions = sorted(rng.sample(range(1, annotator_plan.batch + 1), len(batch_control_kinds)))
    return dict(zip(control_positions, rng.sample(batch_control_kinds, len(batch_control_kinds)), strict=True))


def control_kinds(
    annotator_plan: AnnotatorPlan, available_control_kinds: Collection[str], *, is_first_batch: bool
) -> list[str]:
    """Return the kinds of the control questions of a batch. The first batch of an annotator has one more gold
    question."""
    n_gold_questions = round(annotator_plan.batch / annotator_plan.gold_every) if annotator_plan.gold_every else 0
    n_gold_questions += n_gold_questions > 0 and is_first_batch
    batch_control_kinds = ["gold"] * (n_gold_questions if "gold" in available_control_kinds else 0)
    batch_control_kinds += ["attention"] * (annotator_plan.attention if "attention" in available_control_kinds else 0)
    return batch_control_kinds[: annotator_plan.batch - 1]


def next_control_question(state: StudyState, worker: Annotator, kind: str, rng: Random) -> NextQuestion | None:
    """Return a random control question that this annotator has not seen, or None if no such question exists."""
    unseen_question_ids = [
        question_id
        for question_id, (question_kind, _) in state.gold.items()
        if question_kind == kind and question_id not in worker.seen_control_questions
    ]
    if not unseen_question_ids:
        return None
    flip = 0 if state.plan.question.mode == "rate" else rng.getrandbits(1)
    return NextQuestion(kind, None, rng.choice(unseen_question_ids), flip, None, 1.0, None)


def next_real_question(state: StudyState, worker: Annotator, rng: Random) -> NextQuestion | None:
    """Return a comparison or a rating, or None if no question is free for this annotator."""
    choose_primary_question = next_rating_question if state.plan.question.mode == "rate" else _next_primary_comparison
    primary_question = choose_primary_question(state, worker, rng)
    overlap_rate = state.plan.annotators.overlap
    second_opinion_pair_indices = single_answer_pairs(state, worker) if may_add_second_opinion(state) else []
    if not second_opinion_pair_indices:
        return primary_question
    if primary_question is None:
        return _draw_second_opinion(state, worker, second_opinion_pair_indices, 1.0, rng)
    if rng.random() < overlap_rate:
        return _draw_second_opinion(state, worker, second_opinion_pair_indices, overlap_rate, rng)
    return primary_question._replace(p_role=1 - overlap_rate)


def may_add_second_opinion(state: StudyState) -> bool:
    """Whether one more second opinion is allowed. The planned number of second opinions is a proportion of all answers.
    At most `BEYOND` further second opinions are allowed."""
    overlap_rate = state.plan.annotators.overlap
    n_opinions_if_added = state.count("second") + state.assignments.n_open_second_opinions + 1
    return (
        overlap_rate > 0
        and n_opinions_if_added <= overlap_rate * (state.count("primary") + n_opinions_if_added) + BEYOND
    )


def cap(annotator_plan: AnnotatorPlan, target_answers: int, n_annotators: int | None) -> int:
    """Return the maximum number of answers that one annotator may give to a pair that needs `target_answers` answers.
    `n_annotators` is None if the number of annotators is unknown. The maximum is the proportion `cap` of these answers,
    but at least `LEAST_CAP`. The maximum is also at least an equal share of the answers, so that a small number of
    annotators can complete the study.

    >>> cap(AnnotatorPlan(), 10, None), cap(AnnotatorPlan(), 10, 4), cap(AnnotatorPlan(), 10, 1)
    (2, 3, 10)
    """
    even_share = ceil(target_answers * annotator_plan.per_item / n_annotators) if n_annotators else 0
    return max(LEAST_CAP, int(annotator_plan.cap * target_answers), even_share)


def count_able_annotators(state: StudyState) -> int | None:
    """Return the number of annotators who may answer. If annotators arrive by an open link, the number is unknown, and
    None is returned."""
    if state.plan.annotators.recruit == "open":
        return None
    return sum(worker.is_able for worker in state.workers.values())


def pairs_below_cap(state: StudyState, worker: Annotator) -> list[int]:
    """Return the open pairs for which this annotator has not reached the cap."""
    annotator_plan, n_annotators = state.plan.annotators, count_able_annotators(state)
    engine = state.assignments.engine
    return [
        pair_index
        for pair_index, (is_open, target_answers) in enumerate(zip(engine.is_open, engine.target, strict=True))
        if is_open and worker.load[pair_index] < cap(annotator_plan, target_answers, n_annotators)
    ]


def _next_primary_comparison(state: StudyState, worker: Annotator, rng: Random) -> NextQuestion | None:
    """Return a comparison of a random pair. It is the first free unit whose item this annotator has not seen, otherwise
    the first free unit that this annotator never got. Return None if no pair has such a unit."""
    first_unit_of_pair = {
        pair_index: unit
        for pair_index in pairs_below_cap(state, worker)
        if (unit := next(_iterate_new_units(state, worker, pair_index), None)) is not None
    }
    if not first_unit_of_pair:
        return None
    pair_index = list(first_unit_of_pair)[rng.randrange(len(first_unit_of_pair))]
    new_item_units = (
        unit for unit in _iterate_new_units(state, worker, pair_index) if unit.item not in worker.seen_items
    )
    unit = next(new_item_units, first_unit_of_pair[pair_index])
    analysis_index = state.assignments.engine.look[pair_index]
    return NextQuestion("primary", unit, None, flip_of(state, unit), analysis_index, 1.0, 1 / len(first_unit_of_pair))


def _iterate_new_units(state: StudyState, worker: Annotator, pair_index: int) -> Iterator[Unit]:
    """Iterate over the free units of a pair that this annotator never got, in order."""
    return (unit for unit in state.assignments.iterate_free_units(pair_index) if unit.id not in worker.assigned_units)


def single_answer_pairs(state: StudyState, worker: Annotator) -> list[int]:
    """Return the pairs that have at least one unit without a second opinion that this annotator never got."""
    return [
        pair_index
        for pair_index, unit_of_id in enumerate(state.assignments.single_units_of_pair)
        if unit_of_id and any(unit_id not in worker.assigned_units for unit_id in unit_of_id)
    ]


def _draw_second_opinion(
    state: StudyState, worker: Annotator, pair_indices: Sequence[int], p_role: float, rng: Random
) -> NextQuestion:
    pair_index = pair_indices[rng.randrange(len(pair_indices))]
    candidate_units = [
        unit
        for unit_id, unit in state.assignments.single_units_of_pair[pair_index].items()
        if unit_id not in worker.assigned_units
    ]
    candidate_units = [unit for unit in candidate_units if unit.item not in worker.seen_items] or candidate_units
    unit = candidate_units[rng.randrange(len(candidate_units))]
    flip = (
        0
        if state.plan.question.mode == "rate"
        else _balanced_side(state, f"second {pair_index}", state.assignments.n_second_opinions_of_pair[pair_index])
    )
    return NextQuestion(
        "second", unit, None, flip, state.assignments.engine.look[pair_index], p_role, 1 / len(pair_indices)
    )


def flip_of(state: StudyState, unit: Unit) -> int:
    """Whether the second system is shown first. The sides are drawn with the seed of the plan and balanced in blocks of
    two positions, so any beginning of an order is balanced, whichever annotators answer. Several answers to one unit
    alternate between the sides."""
    n_earlier_assignments = len(unit.votes) + unit.n_holders
    return _balanced_side(state, str(unit.pair), unit.place) ^ (n_earlier_assignments & 1)


def _balanced_side(state: StudyState, sequence_name: str, index: int) -> int:
    return Random(f"{state.plan.seed} {sequence_name} {index // 2}").getrandbits(1) ^ (index & 1)


def next_rating_question(state: StudyState, worker: Annotator, rng: Random) -> NextQuestion | None:
    """Return an output to rate, or None if no output is free. An annotator with fewer than `ACTIVE` begun items gets an
    output of a new item, if there is one. Otherwise, the annotator gets an output of a begun item, if possible of
    another item than the latest one. If the begun items have no free output, the annotator gets an output of an item
    whose annotators became inactive."""
    free_units_of_item: dict[int, list[Unit]] = {}
    for pair_index in range(len(state.assignments.units_of_pair)):
        for unit in state.assignments.iterate_free_units(pair_index):
            if unit.id not in worker.assigned_units:
                free_units_of_item.setdefault(unit.item, []).append(unit)
    pair_indices_within_cap = set(pairs_below_cap(state, worker))
    allowed_units_of_new_item = {
        item: [unit for unit in units if unit.pair in pair_indices_within_cap]
        for item, units in free_units_of_item.items()
        if item not in worker.seen_items
    }
    begun_item_units = [
        unit for item, units in free_units_of_item.items() if item in worker.seen_items for unit in units
    ]
    may_begin_item = len(free_units_of_item) - len(allowed_units_of_new_item) < ACTIVE
    items_to_begin = [
        item
        for item in allowed_units_of_new_item
        if may_begin_item and len(state.began.get(item, ())) < state.plan.annotators.per_item
    ]
    candidate_units = (
        _units_of_first_item(allowed_units_of_new_item, items_to_begin)
        or [unit for unit in begun_item_units if unit.item != worker.last_item]
        or begun_item_units
        or _units_of_first_item(
            allowed_units_of_new_item, [item for item in allowed_units_of_new_item if _is_abandoned(state, item)]
        )
    )
    if not candidate_units:
        return None
    unit = candidate_units[rng.randrange(len(candidate_units))]
    return NextQuestion("primary", unit, None, 0, 0, 1.0, 1 / len(candidate_units))


def _is_abandoned(state: StudyState, item: int) -> bool:
    """Whether all annotators who began the item are inactive."""
    return not any(
        not issued_question.expired for worker in state.began.get(item, ()) for issued_question in worker.open
    )


def _units_of_first_item(units_of_item: Mapping[int, list[Unit]], items: Iterable[int]) -> list[Unit]:
    """Return the units of one of the `items`: the item that comes first in the orders."""
    unit_lists = (units_of_item[item] for item in items if units_of_item[item])
    return min(unit_lists, key=lambda units: (min(unit.place for unit in units), units[0].item), default=[])
