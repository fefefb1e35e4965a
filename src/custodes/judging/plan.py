"""Judging plan: a question for each combination of item, output (or pair), order, aspect and repeat, and the request
for each question."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, Literal

import msgspec
import polars as pl

from custodes.data.loading import load_table
from custodes.data.notes import Note, build_notes
from custodes.data.outputs import Outputs
from custodes.data.preferences import REPEAT_WITHOUT_QUERY
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, label_column, refuse, to_polars
from custodes.errors import InputError, OptionError, join_labels, short_repr, suggestion
from custodes.judging.judge import Judge
from custodes.judging.probes import Probes
from custodes.judging.prompt import ItemTexts, Prompt, image_part
from custodes.judging.requests import Request

Pair = tuple[str, str, str]
"""Item, and two systems in alphabetical order."""

Shown = Literal["both", "random", "ab"]
"""Both orders, a random order, or always the alphabetical order."""

ALL, AGAINST, SAMPLE = "all", "vs:", "sample:"
ORDERS: Mapping[Shown, tuple[str, ...]] = {"both": ("ab", "ba"), "random": ("",), "ab": ("ab",)}

NOTHING_SENT = Request(key="", body={})


@dataclass(frozen=True, kw_only=True)
class JudgeQuestion:
    """One question about an output, or about two outputs that are shown in `order`. `systems` has the systems in
    alphabetical order, and `texts` has the outputs in presentation order.

    Two identical outputs are a tie in every repeat and order, and are not queried. `probe` is the probe that changed
    the output of the system `changed` ('' for the original outputs). For `reverse` see `Form`.
    """

    item: str
    systems: tuple[str, ...]
    aspect: str
    repeat: str = REPEAT_WITHOUT_QUERY
    order: str = ""
    texts: tuple[str, ...] = ()
    probe: str = ""
    changed: str = ""
    reverse: bool = False
    request: Request = NOTHING_SENT


@dataclass(frozen=True, kw_only=True)
class JudgingPlan:
    """All questions about the texts of a study. `examples` has the number and the hash of the examples in the
    prompt."""

    study: Study
    prompt: Prompt
    address: str
    asked: Sequence[JudgeQuestion]
    same: Sequence[JudgeQuestion]
    examples: str
    notes: tuple[Note, ...]
    options: Mapping[str, Any]
    seed: int | None

    @property
    def judge(self) -> Judge:
        """The judge of the plan."""
        return self.prompt.judge

    @property
    def requests(self) -> list[Request]:
        """The distinct requests of the questions, without second requests (see `querying`)."""
        return list({question.request.key: question.request for question in self.asked}.values())


@dataclass(frozen=True, kw_only=True)
class JudgedTexts:
    """The outputs of each item by system, and the remaining texts of the item."""

    outputs: Mapping[str, Mapping[str, str]]
    materials: Mapping[str, ItemTexts]

    @classmethod
    def make(cls, tables: Outputs) -> JudgedTexts:
        """The texts in the tables of outputs."""
        text_of_system_of_item: dict[str, dict[str, str]] = {}
        for text_row in tables.texts.iter_rows(named=True):
            text_of_system_of_item.setdefault(text_row["item"], {})[text_row["system"]] = text_row["text"]
        item_texts_of_item = {
            source_row["item"]: ItemTexts(
                source=source_row["source"],
                references=tuple(source_row["references"]),
                context=source_row["context"],
                images=tuple(source_row["images"]),
                meta=msgspec.json.decode(source_row["meta"]) if source_row["meta"] else None,
            )
            for source_row in tables.sources.iter_rows(named=True)
        }
        return cls(outputs=text_of_system_of_item, materials=item_texts_of_item)

    @property
    def systems(self) -> tuple[str, ...]:
        """All systems, sorted."""
        return tuple(sorted({system for text_of_system in self.outputs.values() for system in text_of_system}))

    def select_systems(self, systems: Sequence[str]) -> JudgedTexts:
        """The outputs of these systems, for all items with such an output."""
        text_of_system_of_item = {
            item: {system: text for system, text in text_of_system.items() if system in systems}
            for item, text_of_system in self.outputs.items()
        }
        return replace(
            self,
            outputs={item: text_of_system for item, text_of_system in text_of_system_of_item.items() if text_of_system},
        )

    def exclude_items(self, excluded_items: Sequence[str]) -> JudgedTexts:
        """The outputs of all other items. Raises InputError if there are no other items."""
        text_of_system_of_item = {
            item: text_of_system for item, text_of_system in self.outputs.items() if item not in excluded_items
        }
        if excluded_items and not text_of_system_of_item:
            raise InputError(
                f"examples use all {len(excluded_items)} items ({join_labels(excluded_items)}), so no item is left "
                "to judge; use fewer examples"
            )
        return replace(self, outputs=text_of_system_of_item)

    def merge_texts(self, other: JudgedTexts) -> JudgedTexts:
        """These texts and the texts of `other`. If both have a text, the text of `other` is used."""
        all_items = (*self.outputs, *other.outputs)
        return JudgedTexts(
            outputs={item: {**self.outputs.get(item, {}), **other.outputs.get(item, {})} for item in all_items},
            materials={**self.materials, **other.materials},
        )

    def material(self, item: str) -> ItemTexts:
        """Texts and images of an item."""
        return self.materials.get(item, ItemTexts())


def plan_questions(
    texts: JudgedTexts,
    prompt: Prompt,
    address: str,
    *,
    pairs: Any,
    orders: Shown,
    repeats: int,
    seed: int,
    examples_of_aspect: Mapping[str, Sequence[Mapping[str, Any]]],
    probes: Probes,
) -> tuple[list[JudgeQuestion], list[JudgeQuestion], list[Note]]:
    """All questions to send, the questions on identical outputs, and notes. The examples are messages."""
    judge = prompt.judge
    questions, identical_questions = list[JudgeQuestion](), list[JudgeQuestion]()
    n_identical_comparisons, n_unchanged_of_probe = 0, Counter[str]()

    def with_request(question: JudgeQuestion, systems: Sequence[str] = ("", "")) -> JudgeQuestion:
        item_texts = texts.material(question.item)
        question_messages = messages(prompt, question.aspect, item_texts, question.texts, systems)
        request_body = judge.body([*examples_of_aspect.get(question.aspect, ()), *question_messages])
        return replace(question, request=Request.make(address, request_body, question.repeat))

    notes: list[Note] = []
    item_and_system_tuples: Sequence[tuple[str, ...]]
    if judge.mode == "pointwise":
        item_and_system_tuples = [
            (item, system) for item, text_of_system in texts.outputs.items() for system in text_of_system
        ]
    else:
        item_and_system_tuples, notes = pairs_of(texts.outputs, pairs, seed)
    for item, *systems in item_and_system_tuples:
        output_texts, source_text = (
            tuple(texts.outputs[item][system] for system in systems),
            texts.material(item).source,
        )
        queried_orders = ORDERS[orders] if len(systems) > 1 else ("",)
        if output_texts[1:] == output_texts[:1]:
            n_identical_comparisons += 1
            identical_questions += [
                JudgeQuestion(item=item, systems=tuple(systems), aspect=aspect) for aspect in judge.meanings
            ]
            continue
        for aspect, repeat_index, presentation_order in product(judge.meanings, range(repeats), queried_orders):
            if len(systems) > 1 and not presentation_order:
                presentation_order = _draw_order(seed, source_text, output_texts, aspect, repeat_index)
            plain_question = with_request(
                JudgeQuestion(
                    item=item,
                    systems=tuple(systems),
                    aspect=aspect,
                    repeat=str(repeat_index),
                    order=presentation_order,
                    texts=output_texts[::-1] if presentation_order == "ba" else output_texts,
                )
            )
            questions.append(plain_question)
            for probe in probes.forms if repeat_index == 0 else ():
                is_second_output = _coin(seed, source_text, *sorted(output_texts), aspect, probe)
                question = with_request(*_apply_probe(plain_question, probes, probe, is_second_output=is_second_output))
                if question.request.key == plain_question.request.key:
                    n_unchanged_of_probe[probe] += 1
                else:
                    questions.append(question)
    unchanged_counts_text = ", ".join(
        f"{probe} {n_unchanged_questions}" for probe, n_unchanged_questions in n_unchanged_of_probe.items()
    )
    notes += build_notes(
        (
            "identical-outputs",
            n_identical_comparisons,
            f"{n_identical_comparisons} comparisons have identical outputs; "
            "these comparisons count as ties and are not queried",
        ),
        (
            "unchanged-by-probe",
            n_unchanged_of_probe.total(),
            f"{n_unchanged_of_probe.total()} probes are not queried, "
            f"because they would not change the request: {unchanged_counts_text}",
        ),
    )
    return questions, identical_questions, notes


def _apply_probe(
    plain_question: JudgeQuestion, probes: Probes, probe: str, *, is_second_output: bool
) -> tuple[JudgeQuestion, tuple[str, ...]]:
    """`plain_question` with one output in the form of a probe, and the names to display. If there are two outputs and
    `is_second_output` is true, the output that is displayed second is changed."""
    displayed_systems = plain_question.systems[::-1] if plain_question.order == "ba" else plain_question.systems
    changed_index = int(is_second_output and len(displayed_systems) > 1)
    probe_form = probes.form(
        probe, plain_question.item, displayed_systems[changed_index], plain_question.texts[changed_index]
    )
    displayed_texts = tuple(
        probe_form.text if text_index == changed_index else displayed_text
        for text_index, displayed_text in enumerate(plain_question.texts)
    )
    changed_question = replace(
        plain_question,
        texts=displayed_texts,
        probe=probe,
        changed=displayed_systems[changed_index],
        reverse=probe_form.reverse,
    )
    return changed_question, tuple(
        probe_form.system if text_index == changed_index else "" for text_index in range(len(displayed_systems))
    )


def messages(
    prompt: Prompt, aspect: str, material: ItemTexts, outputs: Sequence[str], systems: Sequence[str] = ("", "")
) -> list[dict[str, Any]]:
    """The messages of a request: one user message, with the images of the item if there are any."""
    content: Any = prompt.fill_template(aspect, material, *outputs, systems=systems)
    if material.images:
        content = [*map(image_part, material.images), {"type": "text", "text": content}]
    return [{"role": "user", "content": content}]


def _draw_order(seed: int, source: str, outputs: tuple[str, ...], aspect: str, repeat: int) -> str:
    """Random presentation order of two outputs. The order depends on the texts, but not on names or on the rows of a
    file."""
    is_sorted_order = _coin(seed, source, *sorted(outputs), aspect, repeat)
    return "ab" if (outputs == tuple(sorted(outputs))) == is_sorted_order else "ba"


def _coin(*parts: object) -> bool:
    """A random draw with two equally likely outcomes, which depends only on `parts`."""
    return int(lot(*parts)[0], 16) < 8


def pairs_of(systems_of_item: Mapping[str, Collection[str]], pairs: Any, seed: int) -> tuple[list[Pair], list[Note]]:
    """The comparisons selected by `pairs` among the systems of each item.

    `pairs` is 'all', 'vs:SYSTEM' (all comparisons with this system), 'sample:N' (N items of each pair of systems), or a
    table `item, system_a, system_b` or its path. Items are drawn without replacement, by a hash of the seed, the item
    and the pair, so the order of a file does not matter.
    """
    system_names = sorted({system for item_systems in systems_of_item.values() for system in item_systems})
    if len(system_names) < 2:
        raise InputError(
            f"the texts have outputs of only one system ({', '.join(system_names)}), but a pairwise judge compares "
            "two; use mode pointwise"
        )
    if not isinstance(pairs, str) or not (pairs == ALL or pairs.startswith((AGAINST, SAMPLE))):
        return _read_pairs(systems_of_item, pairs), []
    n_single_output_items = sum(len(item_systems) < 2 for item_systems in systems_of_item.values())
    comparisons = [
        (item, *system_pair)
        for item, item_systems in systems_of_item.items()
        for system_pair in combinations(sorted(item_systems), 2)
    ]
    notes = build_notes(
        (
            "one-output",
            n_single_output_items,
            f"{n_single_output_items} items have only one output, so no comparison is possible",
        )
    )
    if pairs.startswith(AGAINST):
        reference_system = pairs.removeprefix(AGAINST)
        if reference_system not in system_names:
            raise OptionError(
                f"pairs={pairs!r}: there is no system "
                f"{short_repr(reference_system)}{suggestion(reference_system, system_names)}"
            )
        comparisons = [comparison for comparison in comparisons if reference_system in comparison[1:]]
    elif pairs.startswith(SAMPLE):
        comparisons, sample_notes = _sample(comparisons, pairs, seed)
        notes += sample_notes
    if not comparisons:
        raise InputError(f"pairs={pairs!r}: no item has outputs of two systems to compare")
    return comparisons, notes


def lot(*parts: object) -> str:
    """A hash for random draws, which depends only on `parts`.

    >>> lot(0, "a") == lot(0, "a"), lot(0, "a") == lot(1, "a")
    (True, False)
    """
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def _sample(all_comparisons: list[Pair], pairs_option: str, seed: int) -> tuple[list[Pair], list[Note]]:
    number_text = pairs_option.removeprefix(SAMPLE)
    if not (number_text.isascii() and number_text.isdigit() and 0 < int(number_text[:10]) < 10**9):
        raise OptionError(
            f"pairs={pairs_option!r} is not allowed; give sample:N, where N is the number of items for each pair of "
            "systems"
        )
    n_items_per_pair = int(number_text)
    comparisons_of_pair: dict[tuple[str, str], list[Pair]] = {}
    for comparison in all_comparisons:
        comparisons_of_pair.setdefault(comparison[1:], []).append(comparison)
    sampled_comparisons = {
        comparison
        for pair_comparisons in comparisons_of_pair.values()
        for comparison in sorted(pair_comparisons, key=lambda comparison: lot(seed, *comparison))[:n_items_per_pair]
    }
    item_counts_of_pairs = [len(pair_comparisons) for pair_comparisons in comparisons_of_pair.values()]
    n_short_pairs = sum(n_items < n_items_per_pair for n_items in item_counts_of_pairs)
    available_text = f"{'up to ' * (len(set(item_counts_of_pairs)) > 1)}{max(item_counts_of_pairs, default=0)}"
    return [comparison for comparison in all_comparisons if comparison in sampled_comparisons], build_notes(
        (
            "sampled-pairs",
            len(sampled_comparisons) < len(all_comparisons) and len(sampled_comparisons),
            f"{n_items_per_pair} of {available_text} items are judged for each pair of systems",
        ),
        (
            "short-sample",
            n_short_pairs,
            f"{n_short_pairs} pairs of systems have fewer than {n_items_per_pair} common items; all common items of "
            "these pairs are judged",
        ),
    )


def _read_pairs(systems_of_item: Mapping[str, Collection[str]], pairs: Any) -> list[Pair]:
    """The comparisons of a table."""
    if isinstance(pairs, str) and "/" not in pairs and "." not in pairs:
        raise OptionError(
            f"pairs={pairs!r} is unknown{suggestion(pairs, (ALL,))}; give all, vs:SYSTEM, sample:N or a file"
        )
    loaded_table = load_table(pairs) if isinstance(pairs, str) or hasattr(pairs, "__fspath__") else None
    table_name = loaded_table.name if loaded_table else "pairs"
    pairs_frame = loaded_table.frame if loaded_table else to_polars(pairs, where=table_name)
    required_column_names = ("item", "system_a", "system_b")
    check_columns(pairs_frame, where=table_name, required=required_column_names)
    comparison_rows = pl.DataFrame(
        [label_column(pairs_frame, column_name, where=table_name) for column_name in required_column_names]
    )
    if not comparison_rows.height:
        raise InputError(f"{table_name}: the table has no rows; give at least one comparison")
    missing_systems = [
        [system for system in systems if system not in systems_of_item.get(item, ())]
        for item, *systems in comparison_rows.iter_rows()
    ]
    refuse(
        pl.Series(map(bool, missing_systems)),
        lambda rows, at: (
            f"{table_name}: row {rows} needs an output of {missing_systems[at][0]!r} for item "
            f"{comparison_rows['item'][at]!r}, and there is none; add the text or remove the row"
        ),
    )
    refuse(
        comparison_rows["system_a"] == comparison_rows["system_b"],
        lambda rows, at: (
            f"{table_name}: row {rows} compares {comparison_rows['system_a'][at]!r} with itself; give two different "
            "systems"
        ),
    )
    sorted_pair_rows = comparison_rows.select(
        "item",
        system_a=pl.min_horizontal("system_a", "system_b"),
        system_b=pl.max_horizontal("system_a", "system_b"),
    )
    check_unique(
        sorted_pair_rows,
        required_column_names,
        where=table_name,
        what="comparison",
        hint="remove the duplicate; for more verdicts set orders or repeats",
    )
    return sorted_pair_rows.rows()
