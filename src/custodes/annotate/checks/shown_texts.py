"""Outputs that give away who wrote them, or that differ between systems in what should not be judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from custodes.annotate.material import Material, Pair
from custodes.evaluate.check.problems import Problem
from custodes.stats import ABSENT

MODELS = r"chat ?gpt|gpt-?\d[\w.]*|claude|gemini|llama|mistral|deepseek|qwen|grok|copilot|bard"
MAKERS = r"openai|anthropic|google|meta ai|microsoft|alibaba|mistral ai|xai|deepseek"
ITSELF = re.compile(
    rf"\bas an? (?:large |artificial intelligence )?(?:ai|language)(?: language)? (?:model|assistant)\b"
    rf"|\bas an (?:ai|artificial intelligence)\b|\bi(?:'m| am|’m) an? (?:large )?(?:ai|language model)\b"
    rf"|\b(?:i(?:'m| am|’m)|my name is|this is) (?:{MODELS})\b|\b(?:made|trained|developed|created) by (?:{MAKERS})\b"
    rf"|\bchatgpt\b|\bgpt-\d",
    re.IGNORECASE,
)
"""Words by which models say that they are models, or which one."""
FORMAT = re.compile(r"^(?:#{1,6} |\s*[-*+] |\s*\d{1,3}[.)] |```|\|.*\|\s*$)|\*\*\S", re.MULTILINE)
"""Signs of Markdown: headings, lists, code, tables, bold words."""
CUT = re.compile(r"[^\W_][*_]*$|[,(\[{&/–—-]$")
"""How a text ends within a sentence: with a word, or with what asks for one. Marks, quotes and emoji do not."""
APART = re.compile(r"\s*(?:#{1,6} |[-*+] |\d{1,3}[.)] |\||```|~~~| {4}|\t)|\w+$|.*https?://\S+$")
"""Last lines that need no mark at their end: headings, items of lists, rows, code, one word alone, an address."""
LEAST = 0.25
"""Shares that differ by less are not worth a word."""
LEVEL = 0.05
SHORTEST = 3
"""Letters of a label that can be looked for in texts."""


def problems(material: Material, pairs: Sequence[Pair]) -> Iterator[Problem]:
    """All that is wrong with the texts."""
    yield from names_itself(material)
    yield from names_system(material)
    compared = [(first, second) for first, second in pairs if first is not None and second is not None]
    yield from _unlike(
        material,
        compared,
        "unlike-format",
        lambda text: bool(FORMAT.search(text)),
        "have signs of Markdown",
        "people may judge form; bring all into one form, or say in the instructions that form does not count",
    )
    yield from _unlike(
        material,
        compared,
        "unlike-ending",
        _is_cut,
        "end within a sentence",
        "were outputs cut? Make them again with a higher limit",
    )


def _is_cut(text: str) -> bool:
    """Whether it ends within a sentence."""
    last = text.rstrip().rpartition("\n")[2]
    return bool(CUT.search(last)) and not APART.match(last)


def names_itself(material: Material) -> Iterator[Problem]:
    """Outputs that say that a model wrote them, or which one."""
    found = [(key, match) for key, own in material.outputs.items() if (match := ITSELF.search(own.text))]
    if found:
        systems = sorted({system for (_, system), _ in found})
        words = sorted({match[0].lower() for _, match in found})
        yield Problem(
            "warning",
            "names-itself",
            f"{len(found)} outputs of {len(systems)} systems say who wrote them ({', '.join(words[:3])}): people judge"
            " the name; leave these items out, or take the words out of all systems' outputs",
            [item for (item, _), _ in found[:5]],
        )


def names_system(material: Material) -> Iterator[Problem]:
    """Outputs that hold the label of a system, which what stands above them does not."""
    above = {item.label: f"{item.context} {item.source}".lower() for item in material.items}
    lowered = {key: own.text.lower() for key, own in material.outputs.items()}
    for system in material.systems:
        if len(system) < SHORTEST:
            continue
        name = system.lower()
        word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        items = [
            item
            for (item, _), text in lowered.items()
            if name in text and word.search(text) and name not in above[item]
        ]
        if items:
            yield Problem(
                "warning",
                "names-system",
                f"{len(items)} outputs hold the name of the system {system!r}: who reads it may know what wrote it;"
                " leave these items out, or take the name out",
                items[:5],
            )


def _unlike(
    material: Material,
    pairs: Sequence[tuple[str, str]],
    rule: str,
    has: Callable[[str], bool],
    what: str,
    way_out: str,
) -> Iterator[Problem]:
    """Pairs of systems of which one has something much more often, by exact sign tests over the items of both.

    The level is shared by all pairs and both rules, so that among systems that are alike a word is said in at most one
    of twenty studies.
    """
    from scipy.stats import binomtest

    rows = {system: row for row, system in enumerate(material.systems)}
    columns = {item.label: column for column, item in enumerate(material.items)}
    found = np.full((len(rows), len(columns)), ABSENT, dtype=np.int8)
    for (item, system), own in material.outputs.items():
        if own.text.strip():
            found[rows[system], columns[item]] = has(own.text)
    unlike = list[tuple[float, str, str, float, float]]()
    for first, second in pairs:
        both = found[[rows[first], rows[second]]]
        both = both[:, (both != ABSENT).all(axis=0)]
        n = both.shape[1]
        more, less = int((both[0] > both[1]).sum()), int((both[0] < both[1]).sum())
        if not n or abs(more - less) < LEAST * n:
            continue
        if binomtest(more, more + less).pvalue <= LEVEL / (2 * len(pairs)):
            a, b = both.mean(axis=1).tolist()
            unlike.append((abs(a - b), *((first, second, a, b) if a > b else (second, first, b, a))))
    if unlike:
        _, first, second, a, b = max(unlike)
        others = f"; so it is in {len(unlike)} of {len(pairs)} pairs" if len(unlike) > 1 else ""
        yield Problem(
            "warning",
            rule,
            f"{a:.0%} of the outputs of {first} {what}, and {b:.0%} of those of {second}{others}: {way_out}",
            list(dict.fromkeys(name for _, name, *_ in sorted(unlike, reverse=True)))[:5],
        )
