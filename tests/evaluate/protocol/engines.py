"""State of a live protocol for comparisons, and its pairs with free positions."""

import msgspec

from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation


def open_pairs(annotation: ConcurrentAnnotation) -> list[int]:
    """Return the pairs with at least one free position in the current analysis."""
    return [pair for pair in range(len(annotation.n)) if annotation.free_slots(pair)]


def state_bytes(annotation: ConcurrentAnnotation) -> bytes:
    """Return the state as bytes; equal states have equal bytes."""
    answers = [pair_state.places.tolist() for pair_state in annotation._pairs]
    fields = [annotation.n, annotation.look, annotation.target, annotation.is_open, annotation.decision, annotation.why]
    # The order in which pairs were closed is excluded, because it depends on time.
    rulings = sorted(annotation.rulings, key=lambda ruling: ruling[:2])
    return msgspec.json.encode([answers, *fields, rulings], order="sorted")
