"""Columns whose names are a known aspect crossed with a rest that several aspects share: `coherence_alice`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix

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


@dataclass(frozen=True, kw_only=True)
class Cross:
    """Columns of people by aspect and rater, and the pattern that says so."""

    columns: tuple[str, ...]
    pattern: str


@dataclass(frozen=True, kw_only=True)
class _Split:
    name: str
    fixed: str
    aspect: str
    gap: str
    rater: str
    end: str


def people_cross(columns: Sequence[str]) -> Cross | None:
    """The columns that are crossed by two or more known aspects and two or more rests that name no machine.

    >>> people_cross(["style_al", "style_bo", "depth_al", "depth_bo", "bleu", "depth_gpt4"]).columns
    ('style_al', 'style_bo', 'depth_al', 'depth_bo')
    """
    spans = {name: span for name in columns if (span := _aspect(name))}
    for rater_last in (True, False):
        splits = _splits(spans, rater_last=rater_last)
        for form in dict.fromkeys((group.fixed, group.gap, group.end) for group in splits):
            group = [split for split in splits if (split.fixed, split.gap, split.end) == form]
            crossed = _crossed(group)
            if crossed:
                cross = _cross(crossed, columns, rater_last=rater_last)
                if cross:
                    return cross
    return None


def beside_people(judges: Sequence[str], people: Sequence[str]) -> set[str]:
    """The judges whose names are of one cross with names of people.

    >>> sorted(beside_people(["depth_al", "depth_bo", "bleu"], ["style_al", "style_bo"]))
    ['depth_al', 'depth_bo']
    """
    cross = people_cross([*people, *judges])
    return set(judges) & set(cross.columns) if cross and set(people) & set(cross.columns) else set()


def _aspect(name: str) -> tuple[int, int] | None:
    """Where the known aspects of a name begin and end."""
    words = [word for word in WORD.finditer(name) if word[0].lower() in ASPECTS | SHORT_ASPECTS]
    return (words[0].start(), words[-1].end()) if words else None


def _splits(spans: dict[str, tuple[int, int]], *, rater_last: bool) -> list[_Split]:
    """Names parted into fixed text, aspect, gap and rater, where the rest behind (or before) the aspect is a rater."""
    leads = [name[:start] for name, (start, _) in spans.items()]
    # What all names begin with before the aspect, up to the end of a word (they are no paths).
    lead = leads[0] if len(set(leads)) == 1 else re.sub(r"[^\W_]*$", "", commonprefix(leads))  # noqa: RUF071
    splits = []
    for name, (start, end) in spans.items():
        if rater_last:
            match = re.fullmatch(r"([\W_]+)(.*?[^\W_])([\W_]*)", name[end:])
            if match:
                gap, rater, close = match.groups()
                splits.append(
                    _Split(name=name, fixed=lead, aspect=name[len(lead) : end], gap=gap, rater=rater, end=close)
                )
        else:
            match = re.fullmatch(r"([\W_]*)([^\W_].*?)([\W_]+)", name[:start])
            if match:
                fixed, rater, gap = match.groups()
                splits.append(
                    _Split(name=name, fixed=fixed, aspect=name[start:end], gap=gap, rater=rater, end=name[end:])
                )
    return [split for split in splits if CLEAN.fullmatch(split.aspect) and _may_be_a_person(split.rater)]


def _may_be_a_person(label: str) -> bool:
    """Whether a label is neither a machine's nor what is computed from others."""
    words = set(parts(label))
    plain = bool(words & (AVERAGES | GENERIC)) and not {stem(word) for word in words} & HUMAN
    return not looks_like_machine(label) and not plain and not set(label) & set(",{}[]*?!")


def _crossed(splits: Sequence[_Split]) -> list[_Split]:
    """The splits of raters who share two or more aspects, and of others who have some of these."""
    aspects: dict[str, set[str]] = {}
    for own in splits:
        aspects.setdefault(own.rater, set()).add(own.aspect)
    sets = list(aspects.values())
    full = [own for own in sets if len(own) > 1 and sets.count(own) > 1]
    if not full:
        return []
    core = max(full, key=len)
    return [own for own in splits if own.aspect in core and aspects[own.rater] <= core]


def _cross(splits: Sequence[_Split], columns: Sequence[str], *, rater_last: bool) -> Cross | None:
    """The cross with a pattern that matches its columns and no other ones."""
    names = tuple(split.name for split in splits)
    aspects = ",".join(dict.fromkeys(split.aspect for split in splits))
    raters = ",".join(dict.fromkeys(split.rater for split in splits))
    fixed, gap, end = (literal(text) for text in (splits[0].fixed, splits[0].gap, splits[0].end))
    kind = "" if "human" in parts(f"{fixed} {end}") else "human:"
    for rater in ("{rater}", f"{{rater:{raters}}}"):
        first, second = (f"{{aspect:{aspects}}}", rater) if rater_last else (rater, f"{{aspect:{aspects}}}")
        pattern = f"{kind}{fixed}{first}{gap}{second}{end}"
        if set(matches(pattern, columns)) == set(names):
            return Cross(columns=names, pattern=pattern)
    return None
