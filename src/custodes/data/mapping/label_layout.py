"""Layout of a table of labels: the columns of labels and raters, and of items, systems, clusters and repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product

import polars as pl

from custodes.data.labels import label_words
from custodes.data.mapping.cell_types import MOST_SYSTEMS, is_prose
from custodes.data.mapping.column_vocabulary import (
    PERSONS,
    find_columns,
    is_model_name,
    looks_like_person,
    normalise_name,
    split_name,
    word_list,
)
from custodes.data.mapping.columns import Columns
from custodes.data.mapping.guess import format_options
from custodes.data.mapping.pattern import escape_braces

VERSIONS = (
    *("prompt_version", "app_version", "application_version", "service_version", "assistant_version", "bot_version"),
    *("agent_version", "version", "release", "variant", "branch", "revision", "experiment", "run_name"),
)
"""Names of columns that distinguish versions of one application. Names of two words may have a prefix, as in
`attributes.app.version`."""

CLUSTERS = frozenset(word_list("cluster conversation session thread dialogue dialog user customer"))
"""First words in the names of columns of clusters, or last words before `id`, as in `attributes.session.id`. Rows with
the same value form a cluster."""

MIN_CLUSTERS = 30
"""Minimum number of users whose outputs form clusters, if there is also a column of sessions."""

JUDGE = frozenset(
    word_list(
        "judge grader grade autograder autograde llm evaluator eval scorer classifier guardrail auto predicted"
        " prediction pred richter juge juez juiz giudice rechter"
    )
)
"""Words in names of columns with labels of a judge."""

REVIEWS = ("review", "annotation", "label", "labelling", "labeling", "rating", "verdict")
"""Words in the names of columns that number reviews instead of outputs, such as `review_id`."""

OF_RATERS = PERSONS.union(
    REVIEWS, word_list("human judge grader grading autograder evaluator eval evaluation scorer rubric user")
)
"""Words at the beginning of a column name which show that the column is not about the application, as in
`judge_prompt_version` and `reviewer_session_id`."""


@dataclass(frozen=True, kw_only=True)
class LabelLayout:
    """Columns of a table of labels.

    Attributes
    ----------
    item : str
        Column of the item; '' for the row number.
    systems : tuple of str
        Columns that together name the system; empty if there is one system without a name.
    human, metrics : tuple of str
        Columns of labels in a wide table.
    criteria : mapping of str to tuple of str
        Rater and aspect of each column, if the names of columns contain criteria (`human_tone`, `judge_tone`).
    label, kind, aspect : str
        Columns of a table with one row per label; `label` is '' in a wide table.
    rater : str
        Column of raters. In a wide table with one row per review, this column names the rater of the human labels. In a
        table with one row per output and version of a judge, it has the versions.
    cluster, probability, n_outputs, repeat, invalid : str
        Columns of clusters, inclusion probabilities, counts of equal outputs, repeats, and causes of missing labels. A
        missing column is ''.
    """

    item: str = ""
    systems: tuple[str, ...] = ()
    human: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    criteria: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    label: str = ""
    rater: str = ""
    kind: str = ""
    aspect: str = ""
    cluster: str = ""
    probability: str = ""
    n_outputs: str = ""
    repeat: str = ""
    invalid: str = ""

    @property
    def assigned_columns(self) -> set[str]:
        """The columns with a role. The column of clusters is left out, because it may also define slices."""
        return {
            *(self.item, self.label, self.rater, self.kind, self.aspect, *self.human, *self.metrics),
            *(self.probability, self.n_outputs, self.repeat, self.invalid),
        } - {""}

    def is_labelled(self, frame: pl.DataFrame) -> pl.Series:
        """Whether each row has a label."""
        label_columns = [self.label] if self.label else [*self.human, *self.metrics]
        return frame.select(
            pl.any_horizontal(label_words(frame[name]).is_not_null() for name in label_columns)
        ).to_series()

    @property
    def columns(self) -> Columns:
        """The equivalent column mapping."""
        column_of_role = {
            "item": self.item,
            "cluster": self.cluster,
            "probability": self.probability,
            "n_outputs": self.n_outputs,
            "repeat": self.repeat,
            "system": self.systems[0] if len(self.systems) == 1 else "",
            "rater": self.rater,
            "score": self.label,
            "kind": self.kind,
            "aspect": self.aspect,
        }
        patterns = self._patterns("human", self.human) + self._patterns("metric", self.metrics)
        return Columns(roles={role: name for role, name in column_of_role.items() if name}, patterns=tuple(patterns))

    def _patterns(self, rater_kind: str, column_names: Sequence[str]) -> list[str]:
        """The patterns of the columns with labels of raters of one kind."""
        if self.criteria:
            return list(dict.fromkeys(f"{rater_kind}:{self._criterion_pattern(name)}" for name in column_names))
        escaped_names = [escape_braces(name) for name in column_names]
        if self.rater and rater_kind == "human":
            return [f"{rater_kind}:{name}" for name in escaped_names]
        return [f"{rater_kind}:{{rater:{','.join(escaped_names)}}}"] if escaped_names else []

    def _criterion_pattern(self, column_name: str) -> str:
        """The name of a column with its criterion as a placeholder."""
        aspects_text = ",".join(dict.fromkeys(aspect for _, aspect in self.criteria.values()))
        text_before, _, text_after = column_name.rpartition(self.criteria[column_name][1])
        return f"{escape_braces(text_before)}{{aspect:{aspects_text}}}{escape_braces(text_after)}"

    def __str__(self) -> str:
        return format_options(self.columns)


OWN_LAYOUT = LabelLayout(
    item="item",
    systems=("system",),
    rater="rater",
    kind="kind",
    aspect="aspect",
    repeat="repeat",
    label="label",
    invalid="invalid",
)
"""The layout of the labels that `custodes judge` and `custodes count` write."""


def add_key_columns(frame: pl.DataFrame, layout: LabelLayout, declared_mapping: Columns) -> LabelLayout:
    """The layout, with the columns of items, systems, clusters, reviewers and inclusion probabilities added.

    If no single column identifies the rows, but item and reviewer together do, each row of a wide table is a review.
    Rows may look like reviews although a reviewer reviewed an output twice. In this case the layout also has the
    reviewer, so that reading the table raises an error.
    """
    column_of_role, assigned_columns = declared_mapping.roles, layout.assigned_columns
    free_columns = [
        name for name in frame.columns if name not in assigned_columns and not frame[name].dtype.is_nested()
    ]
    undeclared_columns = [name for name in free_columns if name not in column_of_role.values()]
    system_columns = (
        (column_of_role["system"],)
        if "system" in column_of_role
        else _system_columns(frame.filter(layout.is_labelled(frame)), undeclared_columns)
    )
    undeclared_columns = [name for name in undeclared_columns if name not in system_columns]
    declared_repeat_column = column_of_role.get("repeat", "")
    fixed_key_columns = list(
        filter(
            None,
            dict.fromkeys([*system_columns, layout.rater, layout.kind, layout.aspect, declared_repeat_column]),
        )
    )
    repeat_columns = [""] if declared_repeat_column else ["", *find_columns("repeat", undeclared_columns)[:1]]
    item_column = column_of_role.get("item") or layout.item
    id_columns = (
        name
        for name in undeclared_columns
        if split_name(name)[-1] == "id" and not set(split_name(name)) & {*CLUSTERS, *REVIEWS}
    )
    likely_item_columns = (
        [item_column] if item_column else list(dict.fromkeys([*find_columns("item", undeclared_columns), *id_columns]))
    )

    def is_text_of_one_system(name: str) -> bool:
        """Whether a column has texts, and most texts occur with only one system."""
        if not system_columns or not is_prose(frame[name]):
            return is_prose(frame[name])
        n_systems_of_text = frame.group_by(name).agg(pl.struct(system_columns).n_unique().alias("n"))["n"]
        return 2 * int((n_systems_of_text > 1).sum()) < n_systems_of_text.len()

    likely_item_columns.sort(key=is_text_of_one_system)  # ids before texts
    may_have_reviewers = (
        layout.human
        and len({layout.criteria.get(name, ("", ""))[1] for name in layout.human}) == len(layout.human)
        and not layout.rater
    )
    reviewer_columns = [name for name in undeclared_columns if may_have_reviewers and has_reviewers(frame[name])]
    # A file of human labels by one reviewer names this reviewer in each row.
    names_of_one_reviewer = [name for name in reviewer_columns if not layout.metrics and frame[name].n_unique() == 1]
    judge_version_columns = [
        name for name in undeclared_columns if layout.metrics and not layout.rater and names_judge_version(name)
    ]

    def identify_rows(*names: str) -> bool:
        key_rows = frame.select(name for name in {*names, *fixed_key_columns} if name)
        return key_rows[names[-1]].null_count() == 0 and not bool(key_rows.is_duplicated().any())

    def find_cluster_column(item_column: str) -> str:
        """The declared column or the first column of clusters; users instead of the sessions of users."""
        cluster_columns = [
            name
            for name in sorted(free_columns, key=lambda name: split_name(name)[0] != "cluster")
            if name not in (item_column, *system_columns)
            and _is_cluster_name(split_name(name))
            and 1 < frame[name].n_unique() < frame.height
        ]
        first_cluster_column = column_of_role.get("cluster") or next(iter(cluster_columns), "")
        if "cluster" in column_of_role or "cluster" in split_name(first_cluster_column):
            return first_cluster_column
        coarser_columns = [
            name
            for name in cluster_columns[1:]
            if frame[name].null_count() == 0
            and MIN_CLUSTERS <= frame[name].n_unique() < frame[first_cluster_column].n_unique()
            and frame.select(first_cluster_column, name).n_unique() == frame[first_cluster_column].n_unique()
        ]
        return min(coarser_columns, key=lambda name: frame[name].n_unique(), default=first_cluster_column)

    def has_one_cluster(item_column: str) -> bool:
        """Whether each item has one cluster. The result is false for prompts that occur in several conversations."""
        return (
            not frame.select(name for name in {item_column, find_cluster_column(item_column)} if name)
            .unique()[item_column]
            .is_duplicated()
            .any()
        )

    output_columns = [*layout.metrics, *find_columns("text", undeclared_columns)]
    candidate_keys = chain(
        (
            key_columns
            for must_have_one_cluster in (True, False)
            for key_columns in product(
                [*names_of_one_reviewer, "", *reviewer_columns, *judge_version_columns],
                repeat_columns,
                likely_item_columns,
            )
            if identify_rows(*key_columns) and (not must_have_one_cluster or has_one_cluster(key_columns[-1]))
        ),
        (
            (reviewer_column, "", likely_item_column)
            for reviewer_column, likely_item_column in product(reviewer_columns, likely_item_columns)
            if _are_reviews(frame, reviewer_column, [likely_item_column, *fixed_key_columns], output_columns)
        ),
        [("", "", item_column)],
    )
    reviewer_column, repeat_column, item_column = next(candidate_keys)
    return replace(
        layout,
        item=item_column,
        systems=system_columns,
        cluster=find_cluster_column(item_column),
        probability=column_of_role.get("probability", ""),
        n_outputs=column_of_role.get("n_outputs", ""),
        rater=layout.rater or reviewer_column,
        repeat=declared_repeat_column or repeat_column,
    )


def has_reviewers(column: pl.Series) -> bool:
    """Whether the name of a column denotes a person, and not all cells are names of models; false for nested cells."""
    if column.dtype.is_nested() or not looks_like_person(column.name):
        return False
    return not all(map(is_model_name, column.drop_nulls().unique().cast(pl.String)))


def names_judge_version(column_name: str) -> bool:
    """Whether the name of a column says that it holds the version of a judge.

    >>> names_judge_version("judge_version"), names_judge_version("evaluator.model"), names_judge_version("model")
    (True, True, False)
    """
    name_words = split_name(column_name)
    return name_words[0] in JUDGE and name_words[-1] in ("version", "model", "revision", "release")


def _is_cluster_name(name_words: Sequence[str]) -> bool:
    cluster_words = (*CLUSTERS, "trace")  # the steps of a trace, if the trace is not the item
    if name_words[0] in cluster_words:
        return "id" in name_words or len(name_words) == 1
    return len(name_words) > 2 and _ends_in(name_words, [f"{word}_id" for word in cluster_words])


def _ends_in(name_words: Sequence[str], two_word_names: Sequence[str]) -> bool:
    """Whether the last two words are one of `two_word_names`, and whether no word before is about raters."""
    return "_".join(name_words[-2:]) in two_word_names and OF_RATERS.isdisjoint(name_words[:-2])


def _are_reviews(
    frame: pl.DataFrame, reviewer_column: str, output_key_columns: Sequence[str], output_columns: Sequence[str]
) -> bool:
    """Whether rows are reviews: an output has several reviewers, and all rows of an output have the same text and the
    same labels of judges."""
    output_value_columns = [name for name in output_columns if name not in output_key_columns]
    has_several_reviewers, *column_variation_flags = (
        frame.drop_nulls([reviewer_column])
        .group_by(output_key_columns)
        .agg(pl.col(reviewer_column, *output_value_columns).n_unique() > 1)
        .select(reviewer_column, *output_value_columns)
        .max()
        .row(0)
    )
    return (
        bool(has_several_reviewers)
        and not any(column_variation_flags)
        and frame[output_key_columns[0]].null_count() == 0
    )


def _system_columns(frame: pl.DataFrame, free_columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of model and version that have several values; both columns if both are constant."""
    version_columns = [
        name
        for version_name in VERSIONS
        for name in free_columns
        if normalise_name(name) == version_name or ("_" in version_name and _ends_in(split_name(name), [version_name]))
    ]
    model_columns = [name for name in find_columns("system", free_columns) if name not in version_columns]
    varying_column_lists = [
        [name for name in column_names if 1 < frame[name].n_unique() <= MOST_SYSTEMS][:1]
        for column_names in (model_columns, version_columns)
    ]
    constant_model_columns = [
        name
        for name in model_columns
        if frame[name].n_unique() == 1 and not frame[name].null_count() and split_name(name)[-1] != "version"
    ]
    constant_version_columns = [
        name for name in version_columns if frame[name].n_unique() == 1 and not frame[name].null_count()
    ]
    return tuple(chain(*varying_column_lists)) or (*constant_model_columns[:1], *constant_version_columns[:1])
