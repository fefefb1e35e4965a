"""Columns whose names are a known aspect crossed with a rest that several aspects share: `coherence_alice`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os.path import commonprefix
from typing import NamedTuple

from custodes.data.mapping.pattern import literal, matches
from custodes.data.mapping.words import (
    ASPECTS,
    AVERAGES,
    GENERIC,
    HUMAN,
    SHORT_ASPECTS,
    looks_like_machine,
    parts,
    stem,
)

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
CLEAN = re.compile(r"[A-Za-z]+(?:[-_. ][A-Za-z]+)*")
"""Aspects as they may stand in a comma list of globs."""
AFTER = re.compile(r"(?P<gap>[\W_]+)(?P<rater>.*?[^\W_])(?P<end>[\W_]*)")
BEFORE = re.compile(r"(?P<fixed>[\W_]*)(?P<rater>[^\W_].*?)(?P<gap>[\W_]+)")
"""What stands after an aspect, or before it, where that is a rater."""


class _Split(NamedTuple):
    """A column, the fixed texts in its name (before, between and after the labels), and the labels."""

    name: str
    fixed: tuple[str, str, str]
    aspect: str
    rater: str


def people_cross(columns: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The columns that are crossed by two or more known aspects and two or more rests that name no machine, and the
    pattern of these columns alone; nothing where there are none.

    >>> people_cross(["style_al", "style_bo", "depth_al", "depth_bo", "bleu", "depth_gpt4"])
    (('style_al', 'style_bo', 'depth_al', 'depth_bo'), 'human:{aspect:style,depth}_{rater:al,bo}')
    """
    for rater_last in (True, False):
        splits = _splits(columns, rater_last=rater_last)
        for fixed in dict.fromkeys(split.fixed for split in splits):
            crossed = _crossed([split for split in splits if split.fixed == fixed])
            pattern = _pattern(crossed, columns, rater_last=rater_last) if crossed else ""
            if pattern:
                return tuple(split.name for split in crossed), pattern
    return (), ""


def beside_people(judges: Sequence[str], people: Sequence[str]) -> set[str]:
    """The judges whose names are of one cross with names of people.

    >>> sorted(beside_people(["depth_al", "depth_bo", "bleu"], ["style_al", "style_bo"]))
    ['depth_al', 'depth_bo']
    """
    crossed, _ = people_cross([*people, *judges])
    return set(judges) & set(crossed) if set(people) & set(crossed) else set()


def _splits(columns: Sequence[str], *, rater_last: bool) -> list[_Split]:
    """Names with a known aspect, where the rest behind it (or before it) is a rater that may be a person."""
    spans: dict[str, tuple[int, int]] = {}
    for name in columns:
        words = [word for word in WORD.finditer(name) if word[0].lower() in ASPECTS | SHORT_ASPECTS]
        if words:
            spans[name] = (words[0].start(), words[-1].end())
    leads = [name[:start] for name, (start, _) in spans.items()]
    # What all names begin with before the aspect, up to the end of a word (they are no paths).
    lead = leads[0] if len(set(leads)) == 1 else re.sub(r"[^\W_]*$", "", commonprefix(leads))  # noqa: RUF071
    splits = []
    for name, (start, end) in spans.items():
        match = AFTER.fullmatch(name[end:]) if rater_last else BEFORE.fullmatch(name[:start])
        if match:
            text = {"fixed": lead, "end": name[end:], **match.groupdict()}
            aspect = name[len(lead) if rater_last else start : end]
            splits.append(_Split(name, (text["fixed"], text["gap"], text["end"]), aspect, text["rater"]))
    return [split for split in splits if CLEAN.fullmatch(split.aspect) and _may_be_a_person(split.rater)]


def _may_be_a_person(label: str) -> bool:
    """Whether a label is neither a machine's nor what is computed from others."""
    words = set(parts(label))
    plain = bool(words & (AVERAGES | GENERIC)) and not {stem(word) for word in words} & HUMAN
    return not looks_like_machine(label) and not plain and not set(label) & set(",{}[]*?!")


def _crossed(splits: Sequence[_Split]) -> list[_Split]:
    """The splits of raters who share two or more aspects, and of others who have some of these."""
    aspects: dict[str, set[str]] = {}
    for split in splits:
        aspects.setdefault(split.rater, set()).add(split.aspect)
    sets = list(aspects.values())
    core = max((names for names in sets if len(names) > 1 and sets.count(names) > 1), key=len, default=set())
    return [split for split in splits if split.aspect in core and aspects[split.rater] <= core]


def _pattern(splits: Sequence[_Split], columns: Sequence[str], *, rater_last: bool) -> str:
    """A pattern that matches these columns and no other ones."""
    aspects = ",".join(dict.fromkeys(split.aspect for split in splits))
    raters = ",".join(dict.fromkeys(split.rater for split in splits))
    fixed, gap, end = map(literal, splits[0].fixed)
    kind = "" if "human" in parts(f"{fixed} {end}") else "human:"
    for rater in ("{rater}", f"{{rater:{raters}}}"):
        first, second = (f"{{aspect:{aspects}}}", rater) if rater_last else (rater, f"{{aspect:{aspects}}}")
        pattern = f"{kind}{fixed}{first}{gap}{second}{end}"
        if set(matches(pattern, columns)) == {split.name for split in splits}:
            return pattern
    return ""
