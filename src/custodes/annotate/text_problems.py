"""Problems of the texts of a study: outputs that reveal their author, and systems that differ in form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from custodes.annotate.study_material import Pair, StudyMaterial
from custodes.evaluate.check.rules import Problem

MODELS = r"chat ?gpt|gpt-?\d[\w.]*|claude|gemini|llama|mistral|deepseek|qwen|grok|copilot|bard"
MAKERS = r"openai|anthropic|google|meta ai|microsoft|alibaba|mistral ai|xai|deepseek"
ITSELF = re.compile(
    rf"\bas an? (?:large |artificial intelligence )?(?:ai|language)(?: language)? (?:model|assistant)\b"
    rf"|\bas an (?:ai|artificial intelligence)\b|\bi(?:'m| am|’m) an? (?:large )?(?:ai|language model)\b"
    rf"|\b(?:i(?:'m| am|’m)|my name is|this is) (?:{MODELS})\b|\b(?:made|trained|developed|created) by (?:{MAKERS})\b"
    rf"|\bchatgpt\b|\bgpt-\d",
    re.IGNORECASE,
)
"""Phrases in which a model reveals that it is a model, or which model it is."""
FORMAT = re.compile(r"^(?:#{1,6} |\s*[-*+] |\s*\d{1,3}[.)] |```|\|.*\|\s*$)|\*\*\S", re.MULTILINE)
"""Markdown syntax: headings, lists, code, tables, bold words."""
CUT = re.compile(r"[^\W_][*_]*$|[,(\[{&/–—-]$")
"""Pattern of the end of a truncated text: a word without a final punctuation mark, or punctuation such as a comma."""
APART = re.compile(r"\s*(?:#{1,6} |[-*+] |\d{1,3}[.)] |\||```|~~~| {4}|\t)|\w+$|.*https?://\S+$")
"""Pattern of last lines that need no final punctuation: heading, list item, table row, code, single word, address."""
LEAST = 0.25
"""Minimum difference between two proportions that is reported."""
LEVEL = 0.05
SHORTEST = 3
"""Minimum number of letters of a label that is searched for in texts."""


def text_problems(material: StudyMaterial, pairs: Sequence[Pair]) -> Iterator[Problem]:
    """Problems of the texts."""
    yield from self_naming_problems(material)
    yield from system_naming_problems(material)
    two_system_pairs = [
        (first_system, second_system)
        for first_system, second_system in pairs
        if first_system is not None and second_system is not None
    ]
    yield from _imbalance_problems(
        material,
        two_system_pairs,
        "unlike-format",
        lambda text: bool(FORMAT.search(text)),
        "contain Markdown syntax",
        "annotators may judge the format instead of the content; convert all outputs to one format, or state in the "
        "instructions that the format does not matter",
    )
    yield from _imbalance_problems(
        material,
        two_system_pairs,
        "unlike-ending",
        _is_cut,
        "end in mid-sentence",
        "if outputs were truncated, generate these outputs again with a higher limit",
    )


def _is_cut(text: str) -> bool:
    """Whether a text ends in mid-sentence."""
    last_line = text.rstrip().rpartition("\n")[2]
    return bool(CUT.search(last_line)) and not APART.match(last_line)


def self_naming_problems(material: StudyMaterial) -> Iterator[Problem]:
    """Problem if outputs reveal that a model wrote them, or which model it was."""
    items_systems_and_matches = [
        (item_and_system, phrase_match)
        for item_and_system, output in material.outputs.items()
        if (phrase_match := ITSELF.search(output.text))
    ]
    if items_systems_and_matches:
        affected_systems = sorted({system for (_, system), _ in items_systems_and_matches})
        matched_phrases = sorted({phrase_match[0].lower() for _, phrase_match in items_systems_and_matches})
        yield Problem(
            "warning",
            "names-itself",
            f"{len(items_systems_and_matches)} outputs of {len(affected_systems)} systems reveal their author "
            f"({', '.join(matched_phrases[:3])}), which may bias annotators; exclude these items, or remove the "
            "words from the outputs of all systems",
            [item_label for (item_label, _), _ in items_systems_and_matches[:5]],
        )


def system_naming_problems(material: StudyMaterial) -> Iterator[Problem]:
    """Problems if outputs contain the label of a system, and the displayed context does not contain this label."""
    lower_context_of_item = {item.label: f"{item.context} {item.source}".lower() for item in material.items}
    lower_text_of_item_and_system = {
        item_and_system: output.text.lower() for item_and_system, output in material.outputs.items()
    }
    for system in material.systems:
        if len(system) < SHORTEST:
            continue
        lower_system_name = system.lower()
        name_pattern = re.compile(rf"(?<!\w){re.escape(lower_system_name)}(?!\w)")
        affected_item_labels = [
            item_label
            for (item_label, _), lower_text in lower_text_of_item_and_system.items()
            if lower_system_name in lower_text
            and name_pattern.search(lower_text)
            and lower_system_name not in lower_context_of_item[item_label]
        ]
        if affected_item_labels:
            yield Problem(
                "warning",
                "names-system",
                f"{len(affected_item_labels)} outputs contain the name of the system {system!r}, which may bias "
                "annotators; exclude these items, or remove the name",
                affected_item_labels[:5],
            )


def _imbalance_problems(
    material: StudyMaterial,
    pairs: Sequence[tuple[str, str]],
    rule_name: str,
    has_property: Callable[[str], bool],
    predicate_text: str,
    advice_text: str,
) -> Iterator[Problem]:
    """Problem if one system of a pair has a property significantly more often than the other (exact sign test over
    common items).

    The level is divided by the number of pairs and by 2, the number of rules. If no systems differ, a problem is
    therefore reported in at most one of twenty studies.
    """
    from scipy.stats import binomtest

    has_property_of_item_and_system = {
        item_and_system: has_property(output.text)
        for item_and_system, output in material.outputs.items()
        if output.text.strip()
    }
    differences_systems_and_rates = list[tuple[float, str, str, float, float]]()
    for first_system, second_system in pairs:
        common_items = [
            item_label
            for item_label in material.labels()
            if {(item_label, first_system), (item_label, second_system)} <= has_property_of_item_and_system.keys()
        ]
        has_property_by_system = np.array(
            [
                [has_property_of_item_and_system[item_label, system] for item_label in common_items]
                for system in (first_system, second_system)
            ],
            dtype=bool,
        )
        n_only_first = int((has_property_by_system[0] > has_property_by_system[1]).sum())
        n_only_second = int((has_property_by_system[0] < has_property_by_system[1]).sum())
        if not common_items or abs(n_only_first - n_only_second) < LEAST * len(common_items):
            continue
        if binomtest(n_only_first, n_only_first + n_only_second).pvalue <= LEVEL / (2 * len(pairs)):
            rates_and_systems = zip(
                has_property_by_system.mean(axis=1).tolist(), (first_system, second_system), strict=True
            )
            (low_rate, low_system), (high_rate, high_system) = sorted(rates_and_systems)
            differences_systems_and_rates.append((high_rate - low_rate, high_system, low_system, high_rate, low_rate))
    if differences_systems_and_rates:
        _, high_system, low_system, high_rate, low_rate = max(differences_systems_and_rates)
        affected_pairs_text = f"; this affects {len(differences_systems_and_rates)} of {len(pairs)} pairs" * (
            len(differences_systems_and_rates) > 1
        )
        yield Problem(
            "warning",
            rule_name,
            f"{high_rate:.0%} of outputs of {high_system} {predicate_text}, but {low_rate:.0%} of outputs of "
            f"{low_system}{affected_pairs_text}: {advice_text}",
            list(dict.fromkeys(system for _, system, *_ in sorted(differences_systems_and_rates, reverse=True)))[:5],
        )
