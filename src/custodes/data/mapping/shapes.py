"""The shape that names of people's columns share, as a pattern: `human_{aspect}_{rater}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from custodes.data.mapping.pattern import matches
from custodes.data.mapping.words import ASPECTS, GENERIC, SHORT_ASPECTS, looks_human, looks_like_rater, parts, stem

HUMAN = "human"
WITH_WORD = (
    "{kind}{word}{gap}{{aspect}}{gap}{{rater}}",
    "{kind}{word}{gap}{{rater}}{gap}{{aspect}}",
    "{kind}{word}{gap}{{aspect}}{gap}{{rater:{globs}}}",
    "{kind}{word}{gap}{{rater:{globs}}}{gap}{{aspect}}",
    "{kind}{{aspect}}{gap}{word}{gap}{{rater}}",
    "{kind}{{rater}}{gap}{word}{gap}{{aspect}}",
    "{alone}",
    "{kind}{word}{gap}{{aspect}}",
    "{kind}{{aspect}}{gap}{word}",
)
"""Shapes of names that share a word for people."""
WITHOUT_WORD = ("human:{{aspect}}{gap}{{rater:{globs}}}", "human:{{rater:{globs}}}{gap}{{aspect}}")
"""Shapes of names that share none."""


def people_pattern(people: Sequence[str], columns: Sequence[str]) -> str:
    """A pattern of these columns and of no other ones among `columns`.

    Where their names share no shape, the pattern lists them: each is a rater then.

    >>> people_pattern(["human_style_ann1", "human_depth_ann1"], ["human_style_ann1", "human_depth_ann1", "bleu"])
    'human_{aspect}_{rater}'
    """
    for written in _templates(people):
        labels = matches(written, columns)
        if labels.keys() == set(people) and _plausible(written, list(labels.values())):
            return written
    return f"human:{{rater:{','.join(people)}}}"


def pooled_aspects(people: Sequence[str]) -> list[str]:
    """The aspects that names of people hold, where these are several: `human_coherence` beside `human_fluency`.

    A part of the names is an aspect if it is a known one, or if it is crossed with a part that numbers people.

    >>> pooled_aspects(["human_coherence", "human_fluency"]), pooled_aspects(["expert_1", "turker_1"])
    (['coherence', 'fluency'], [])
    """
    named = [parts(name) for name in people]
    known = [stem(part) for own in named for part in own if stem(part) in ASPECTS | SHORT_ASPECTS]
    if len(set(known)) > 1:
        return list(dict.fromkeys(known))
    if len({len(own) for own in named}) != 1:
        return []
    varying = [labels for labels in map(dict.fromkeys, zip(*named, strict=True)) if len(labels) > 1]
    if len(varying) != 2 or len(varying[0]) * len(varying[1]) != len(named):
        return []
    aspects = [labels for labels in varying if not any(map(looks_like_rater, labels))]
    return list(aspects[0]) if len(aspects) == 1 and any(all(map(looks_like_rater, own)) for own in varying) else []


def _templates(people: Sequence[str]) -> Iterator[str]:
    """Shapes that names may have, those that say most first."""
    everywhere = set.intersection(*(set(re.split(r"[\W_]", name)) for name in people))
    fixed = [part for part in everywhere if looks_human(part) and part == stem(part)]
    for gap in sorted({sign for name in people for sign in re.findall(r"[\W_]", name)}):
        if gap in "{}":
            continue
        globs = ",".join(sorted({glob for name in people for glob in _globs(name.split(gap), gap, fixed)}))
        for word in sorted(fixed, key=lambda word: word != HUMAN):
            kind = "" if word.lower() == HUMAN else "human:"
            alone = f"human:{{rater:{word}{gap}*}}" if kind else f"{word}{gap}{{rater}}"
            texts = {"kind": kind, "word": word, "gap": gap, "globs": globs, "alone": alone}
            yield from (shape.format(**texts) for shape in WITH_WORD if globs or "{globs}" not in shape)
        yield from (shape.format(gap=gap, globs=globs) for shape in WITHOUT_WORD if globs)
    globs = ",".join(sorted({glob for name in people for glob in _globs([name], "", [])}))
    if globs:
        yield f"human:{{rater:{globs}}}"


def _globs(names: Sequence[str], gap: str, fixed: Sequence[str]) -> Iterator[str]:
    """Globs of the parts of a name that are a rater: `ann*` for `ann1`, `expert_*` for `expert_1`."""
    for place, part in enumerate(names):
        if looks_human(part) and place + 1 < len(names) and names[place + 1].isdigit():
            yield f"{part}{gap}*"
        elif looks_human(part) and part not in fixed:
            yield part if part == stem(part) else f"{stem(part)}*"


def _plausible(written: str, labels: Sequence[Mapping[str, str]]) -> bool:
    """Whether what is taken for raters and aspects looks like them."""
    raters = {row["rater"] for row in labels if "rater" in row}
    aspects = {row["aspect"] for row in labels if "aspect" in row}
    any_known = any(set(parts(aspect)) & ASPECTS for aspect in aspects)
    for label in (*raters, *aspects):  # one that begins or ends with a separator, or holds one of two brackets
        if re.search(r"^[-_.:;,/|]|[-_.:;,/|]$", label.strip()) or label.count("(") != label.count(")"):
            return False
    if any(looks_like_rater(aspect) or not GENERIC.isdisjoint(parts(aspect)) for aspect in aspects):
        return False
    if raters and not aspects:
        return all(map(looks_like_rater, raters))
    # A full cross of known aspects and of names that say nothing may be people's names.
    return all(map(looks_like_rater, raters)) or (any_known and len(raters) * len(aspects) == len(labels))
