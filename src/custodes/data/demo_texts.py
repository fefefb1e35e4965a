"""Texts for trying out the package: short answers with deliberate errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from custodes.arguments import at_least, checked

MISTAKES: Mapping[str, float] = {"Aster": 0.04, "Birch": 0.06, "Cedar": 0.35}
"""Probability that a system gets a fact of a message wrong: Aster and Birch are practically equal."""

FACTS: Mapping[str, Sequence[str]] = {
    "name": ("Ana Brodsky", "Idris Cole", "Mei Tanaka", "Pablo Ruiz", "Lena Vogt", "Omar Haddad", "Ruth Okafor"),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "time": ("noon", "two o'clock", "half past four", "six o'clock", "half past nine in the evening", "midnight"),
    "nights": ("one night", "two nights", "three nights", "five nights", "a week"),
    "room": ("a single room", "a double room", "a room with three beds", "a room with a view of the lake"),
    "wish": ("a parking space", "a cot for the baby", "an early breakfast", "a taxi from the station", "a quiet room"),
}
"""Facts in a message, with their values."""

MESSAGES = (
    "Hello, this is {name}. We arrive on {day} at about {time} and stay {nights}. We booked {room}."
    " Could we also have {wish}?",
    "Good morning! My name is {name}, I have booked {room} for {nights} from {day} on. I shall be there around {time}."
    " I would need {wish}, if that is possible.",
    "Just to be sure: {room}, {nights}, arriving {day}, {time}. And please think of {wish}. Thank you, {name}",
)
ANSWERS = (
    "Dear {name}, we look forward to seeing you on {day} at about {time}. {room} is kept for {nights}, and so is"
    " {wish}.",
    "Thank you, {name}. You are booked for {nights} from {day} on, in {room}; we expect you around {time}. We have"
    " noted {wish}.",
    "{name}, all is well: {day}, {time}, {nights}, {room}. We have seen to {wish}.",
)


@checked
def demo_texts(*, items: int = 60, rng: int | np.random.Generator = 0) -> pl.DataFrame:
    """Texts of three systems in the columns of the reader `outputs`: item, system, text, context.

    Each system answers a guest's message and gets each fact wrong with the probability in `MISTAKES`. Raises
    `OptionError` if `items` is 0.

    >>> texts = demo_texts(items=2)
    >>> texts.columns, texts["system"].to_list()[:3]
    (['item', 'system', 'text', 'context'], ['Aster', 'Birch', 'Cedar'])
    """
    at_least("items", items, 1)
    draw = np.random.default_rng(rng)
    width, rows = len(str(items)), list[dict[str, str]]()
    for number in range(1, items + 1):
        facts = {fact: _one(words, draw) for fact, words in FACTS.items()}
        context = _one(MESSAGES, draw).format(**facts)
        ways = draw.permutation(len(ANSWERS)).tolist()  # no two systems answer with the same words
        for way, (system, chance) in zip(ways, MISTAKES.items(), strict=True):
            wrong = [fact for fact in FACTS if draw.random() < chance]
            wrong_facts = facts | {
                fact: _one([word for word in FACTS[fact] if word != facts[fact]], draw) for fact in wrong
            }
            text = ANSWERS[way].format(**wrong_facts)
            sentences = ". ".join(part[:1].upper() + part[1:] for part in text.split(". "))
            rows.append({"item": f"message{number:0{width}}", "system": system, "text": sentences, "context": context})
    return pl.DataFrame(rows)


def _one(words: Sequence[str], draw: np.random.Generator) -> str:
    return words[int(draw.integers(len(words)))]
