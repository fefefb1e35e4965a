"""Judging plan: a question for each combination of item, output (or pair), order, aspect and repeat, and the request
for each question."""

from __future__ import annotations

import hashlib
import re
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
from custodes.errors import InputError, OptionError, short_repr, suggestion
from custodes.judging.judge import Judge
from custodes.judging.probes import Probes
from custodes.judging.prompt import ItemTexts, Prompt, image_part
from custodes.judging.requests import Request

Pair = tuple[str, str, str]
"""Item, and two systems in alphabetical order."""

Shown = Literal["both", "random", "ab"]
"""How two outputs are presented: in both orders, in a random order, or always in alphabetical order of the systems."""

ALL, AGAINST, SAMPLE = "all", "vs:", "sample:"
ORDERS: Mapping[Shown, tuple[str, ...]] = {"both": ("ab", "ba"), "random": ("",), "ab": ("ab",)}

NOTHING_SENT = Request(key="", body={})


@dataclass(frozen=True, kw_only=True)
class JudgeQuestion:
    """One question about an output, or about two outputs that are shown in `order`. `systems` has the systems in
    alphabetical order, and `texts` has the outputs in presentation order.

    Two identical outputs are a tie in every repeat and order, and are not queried. `probe` is the probe that changed
    the output of the system `changed` ('' for the original outputs). `reverse` is explained in `Form`.
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
    questions: Sequence[JudgeQuestion]
    identical_output_questions: Sequence[JudgeQuestion]
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
        return list({question.request.key: question.request for question in self.questions}.values())


@dataclass(frozen=True, kw_only=True)
class JudgedTexts:
    """The outputs of each item by system, and the remaining texts of the item."""

    outputs: Mapping[str, Mapping[str, str]]
    materials: Mapping[str, ItemTexts]

    @classmethod
    def make(cls, tables: Outputs) -> JudgedTexts:
        """The texts in the tables of outputs."""
        text_of_system_of_item: dict[str, dict[str, str]] = {}
        for item, system, text in tables.texts.select("item", "system", "text").iter_rows():
            text_of_system_of_item.setdefault(item, {})[system] = text
        item_texts_of_item = {
            row["item"]: ItemTexts(
                source=row["source"],
                references=row["references"],
                context=row["context"],
                images=row["images"],
                meta=msgspec.json.decode(row["meta"]) if row["meta"] else None,
            )
            for row in tables.sources.iter_rows(named=True)
        }
        return cls(outputs=text_of_system_of_item, materials=item_texts_of_item)

    def merge_texts(self, other: JudgedTexts) -> JudgedTexts:
        """These texts and the texts of `other`. If both have a text for an output, the text of `other` is used."""
        items_with_duplicates = (*self.outputs, *other.outputs)
        return JudgedTexts(
            outputs={
                item: {**self.outputs.get(item, {}), **other.outputs.get(item, {})} for item in items_with_duplicates
            },
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
    example_messages_of_aspect: Mapping[str, Sequence[Mapping[str, Any]]],
    probes: Probes,
) -> tuple[list[JudgeQuestion], list[JudgeQuestion], list[Note]]:
    """All questions to send, the questions on identical outputs, and notes. The examples are messages."""
    judge = prompt.judge
    questions, identical_output_questions = list[JudgeQuestion](), list[JudgeQuestion]()
    n_identical_comparisons, n_unchanged_of_probe = 0, Counter[str]()

    def with_request(question: JudgeQuestion, displayed_names: Sequence[str] = ("", "")) -> JudgeQuestion:
        request_body = judge.body(
            [
                *example_messages_of_aspect.get(question.aspect, ()),
                *messages(prompt, question.aspect, texts.material(question.item), question.texts, displayed_names),
            ]
        )
        return replace(question, request=Request.make(address, request_body, question.repeat))

    notes: list[Note] = []
    items_and_systems: Sequence[tuple[str, ...]]
    if judge.mode == "pairwise":
        items_and_systems, notes = pairs_of(texts.outputs, pairs, seed)
    else:
        items_and_systems = [
            (item, system) for item, text_of_system in texts.outputs.items() for system in text_of_system
        ]
    displayed_orders = ORDERS[orders] if judge.mode == "pairwise" else ("",)
    for item, *systems in items_and_systems:
        source_text = texts.material(item).source
        output_texts = tuple(texts.outputs[item][system] for system in systems)
        if output_texts[1:] == output_texts[:1]:
            n_identical_comparisons += 1
            identical_output_questions += [
                JudgeQuestion(item=item, systems=tuple(systems), aspect=aspect) for aspect in judge.meanings
            ]
            continue
        for aspect, repeat_index, presentation_order in product(judge.meanings, range(repeats), displayed_orders):
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
            for probe_name in probes.forms if repeat_index == 0 else ():
                changes_second_output = _coin(seed, source_text, *sorted(output_texts), aspect, probe_name)
                probe_question = with_request(
                    *_apply_probe(plain_question, probes, probe_name, changes_second_output=changes_second_output)
                )
                if probe_question.request.key == plain_question.request.key:
                    n_unchanged_of_probe[probe_name] += 1
                else:
                    questions.append(probe_question)
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
            f"{n_unchanged_of_probe.total()} probes are not queried, because they would not change the request: "
            f"{', '.join(f'{probe_name} {n_unchanged}' for probe_name, n_unchanged in n_unchanged_of_probe.items())}",
        ),
    )
    return questions, identical_output_questions, notes


def _apply_probe(
    plain_question: JudgeQuestion, probes: Probes, probe: str, *, changes_second_output: bool
) -> tuple[JudgeQuestion, tuple[str, ...]]:
    """`plain_question` with one output in the form of a probe, and the names to display. If there are two outputs and
    `changes_second_output` is true, the output that is displayed second is changed."""
    systems_by_position = plain_question.systems[::-1] if plain_question.order == "ba" else plain_question.systems
    changed_index = int(changes_second_output and len(systems_by_position) > 1)
    changed_system = systems_by_position[changed_index]
    output_texts, displayed_names = list(plain_question.texts), [""] * len(systems_by_position)
    form = probes.form(probe, plain_question.item, changed_system, output_texts[changed_index])
    output_texts[changed_index], displayed_names[changed_index] = form.text, form.system
    changed_question = replace(
        plain_question, texts=tuple(output_texts), probe=probe, changed=changed_system, reverse=form.reverse
    )
    return changed_question, tuple(displayed_names)


def messages(
    prompt: Prompt, aspect: str, material: ItemTexts, outputs: Sequence[str], displayed_names: Sequence[str] = ("", "")
) -> list[dict[str, Any]]:
    """The messages of a request: one user message, with the images of the item if there are any."""
    message_content: Any = prompt.fill_template(aspect, material, *outputs, displayed_names=displayed_names)
    if material.images:
        message_content = [*map(image_part, material.images), {"type": "text", "text": message_content}]
    return [{"role": "user", "content": message_content}]


def _draw_order(seed: int, source_text: str, outputs: tuple[str, ...], aspect: str, repeat: int) -> str:
    """Random presentation order of two outputs. The order depends on the texts, but not on names or on the rows of a
    file."""
    is_alphabetical = outputs == tuple(sorted(outputs))
    return "ab" if is_alphabetical == _coin(seed, source_text, *sorted(outputs), aspect, repeat) else "ba"


def _coin(*parts: object) -> bool:
    """A random draw with two equally likely outcomes, which depends only on `parts`."""
    return int(lot(*parts)[0], 16) < 8


def pairs_of(systems_of_item: Mapping[str, Collection[str]], pairs: Any, seed: int) -> tuple[list[Pair], list[Note]]:
    """The comparisons selected by `pairs` among the systems of each item.

    `pairs` is 'all', 'vs:SYSTEM' (all comparisons with this system), 'sample:N' (N items of each pair of systems), or a
    table `item, system_a, system_b` or its path. Items are drawn without replacement, by a hash of the seed, the item
    and the pair, so the order of a file does not matter.
    """
    systems = sorted({system for item_systems in systems_of_item.values() for system in item_systems})
    if len(systems) < 2:
        raise InputError(
            f"the texts have outputs of only one system ({', '.join(systems)}), but a pairwise judge compares "
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
        if reference_system not in systems:
            raise OptionError(
                f"pairs={pairs!r}: there is no system "
                f"{short_repr(reference_system)}{suggestion(reference_system, systems)}"
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
    number_match = re.fullmatch("0*([1-9][0-9]{0,8})", pairs_option.removeprefix(SAMPLE))
    if number_match is None:
        raise OptionError(
            f"pairs={pairs_option!r} is not allowed; give sample:N, where N is the number of items for each pair of "
            "systems"
        )
    n_items_per_pair = int(number_match[1])
    n_items_of_pair = Counter(comparison[1:] for comparison in all_comparisons)
    n_sampled_of_pair = Counter[tuple[str, str]]()
    sampled_comparisons = set()
    for comparison in sorted(all_comparisons, key=lambda comparison: lot(seed, *comparison)):
        if n_sampled_of_pair[comparison[1:]] < n_items_per_pair:
            n_sampled_of_pair[comparison[1:]] += 1
            sampled_comparisons.add(comparison)
    n_short_pairs = sum(n_items < n_items_per_pair for n_items in n_items_of_pair.values())
    up_to_text = "up to " if len(set(n_items_of_pair.values())) > 1 else ""
    return [comparison for comparison in all_comparisons if comparison in sampled_comparisons], build_notes(
        (
            "sampled-pairs",
            len(sampled_comparisons) < len(all_comparisons) and len(sampled_comparisons),
            f"{n_items_per_pair} of {up_to_text}{max(n_items_of_pair.values(), default=0)} items are judged for each "
            "pair of systems",
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
    if isinstance(pairs, str) or hasattr(pairs, "__fspath__"):
        loaded_table = load_table(pairs)
        table_name, pairs_frame = loaded_table.name, loaded_table.frame
    else:
        table_name, pairs_frame = "pairs", to_polars(pairs, where="pairs")
    column_names = ("item", "system_a", "system_b")
    check_columns(pairs_frame, where=table_name, required=column_names)
    comparison_rows = pl.DataFrame(
        [label_column(pairs_frame, column_name, where=table_name) for column_name in column_names]
    )
    if not comparison_rows.height:
        raise InputError(f"{table_name}: the table has no rows; give at least one comparison")
    missing_systems_by_row = [
        [system for system in systems if system not in systems_of_item.get(item, ())]
        for item, *systems in comparison_rows.iter_rows()
    ]
    refuse(
        pl.Series(map(bool, missing_systems_by_row)),
        lambda rows, at: (
            f"{table_name}: row {rows} needs an output of {missing_systems_by_row[at][0]!r} for item "
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
    alphabetical_pair_rows = comparison_rows.select(
        "item",
        system_a=pl.min_horizontal("system_a", "system_b"),
        system_b=pl.max_horizontal("system_a", "system_b"),
    )
    check_unique(
        alphabetical_pair_rows,
        column_names,
        where=table_name,
        what="comparison",
        hint="remove the duplicate; for more verdicts set orders or repeats",
    )
    return alphabetical_pair_rows.rows()
