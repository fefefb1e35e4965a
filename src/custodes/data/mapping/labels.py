"""Layouts of labels: columns with labels of annotators and of judges, guessed or declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

import polars as pl

from custodes.data.labels import MOST_LABELS, POLARITY, is_binary, label_words
from custodes.data.mapping.annotator_columns import numbers_of
from custodes.data.mapping.column_vocabulary import (
    JUDGE_WORDS,
    KINDS,
    NAMES,
    forms,
    looks_human,
    named,
    normalised,
    parts,
    sides,
    word_list,
)
from custodes.data.mapping.columns import Columns
from custodes.data.mapping.guess import flags
from custodes.data.mapping.guess_texts import MOST_SYSTEMS, is_number, is_prose, looks_like_score
from custodes.data.mapping.pattern import literal
from custodes.data.table import counted_cells

HUMAN = frozenset(
    word_list(
        "gold golden truth reference sme reviewer auditor manual annotation annotated label_truth groundtruth user"
        " customer client feedback qa"
    )
)
"""Words in names of columns with human labels, in addition to those of human ratings."""

JUDGE = JUDGE_WORDS | frozenset(
    word_list(
        "judge grader grade autograder autograde llm evaluator eval scorer classifier guardrail auto predicted"
        " prediction pred"
    )
)
"""Words in names of columns with labels of a judge."""

NOT_LABELS = frozenset(
    word_list(
        "latency ms seconds sec time duration cost usd price token tokens reason reasoning comment explanation"
        " rationale critique model version name prompt id timestamp date created updated"
    )
)
"""Words in names of columns that describe a judgement but are not labels."""

LABEL_WORDS = frozenset(word_list("label verdict result passed pass score rating annotation value"))
"""Words in column names that name no rater and no criterion."""

SCORE = frozenset(word_list("score scores prob probability logit confidence rating value"))
"""Words in names of columns that hold scores of a judge, in addition to its labels."""

VERSIONS = ("prompt_version", "version", "release", "variant", "branch", "revision", "experiment", "run_name")
"""Names of columns with versions of one application."""

CLUSTERS = ("conversation", "session", "thread", "dialogue", "dialog", "user", "customer")
"""First words in the names of columns of clusters. Rows with the same value form a cluster."""

LONG_LABEL = ("label", "string_value", "verdict", "passed", "result", "score", "value", "rating", "annotation")
LONG_ASPECT = word_list(
    "aspect criterion criteria name metric metric_name score_name assessment_name evaluation_name dimension"
)
ROLES_OF_LABELS = word_list("item system cluster probability n_outputs repeat rater kind score aspect")
MOST_WORDS = 200
"""Maximum number of distinct texts of a column of labels or of rater names."""

LONGEST_KEY = 64
"""Maximum number of characters of an item label."""

LOOKED_AT = 20_000
"""Number of rows from which a layout is guessed."""


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
    label, rater, kind, aspect : str
        Columns of a table with one row per label; `label` is '' in a wide table.
    cluster, probability, n_outputs, repeat, invalid : str
        Columns of clusters of outputs, inclusion probabilities, numbers of equal outputs, repeats and reasons for
        missing labels; '' if there are none.
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
    def used(self) -> set[str]:
        """The columns with a role. The column of clusters is left out, because it may also define slices."""
        rater = (self.rater, self.kind, self.aspect)
        single = (self.item, self.label, *rater, self.probability, self.n_outputs, self.repeat, self.invalid)
        return {name for name in (*single, *self.human, *self.metrics) if name}

    @property
    def columns(self) -> Columns:
        """The equivalent column mapping."""
        roles = {name: getattr(self, name) for name in ("item", "cluster", "probability", "n_outputs", "repeat")}
        if len(self.systems) == 1:
            roles["system"] = self.systems[0]
        if self.label:
            roles |= {"score": self.label, "rater": self.rater, "kind": self.kind, "aspect": self.aspect}
        patterns = [
            pattern
            for kind, names in (("human", self.human), ("metric", self.metrics))
            if names
            for pattern in (
                dict.fromkeys(f"{kind}:{self._template(name)}" for name in names)
                if self.criteria
                else [f"{kind}:{{rater:{','.join(map(literal, names))}}}"]
            )
        ]
        return Columns(roles={role: name for role, name in roles.items() if name}, patterns=tuple(patterns))

    def _template(self, name: str) -> str:
        """The name of a column with its criterion as a placeholder."""
        aspects = ",".join(dict.fromkeys(aspect for _, aspect in self.criteria.values()))
        before, _, after = name.rpartition(self.criteria[name][1])
        return f"{literal(before)}{{aspect:{aspects}}}{literal(after)}"

    def __str__(self) -> str:
        return flags(self.columns)


JUDGED = LabelLayout(
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


def label_layout(frame: pl.DataFrame, declared: Columns) -> LabelLayout | None:
    """The layout of a table of labels; None for other tables.

    Without patterns, the cells must be words or numbers of a known pair of labels, so that a table of ratings is not
    mistaken for labels.

    Parameters
    ----------
    frame : DataFrame
    declared : Columns
        Roles and patterns of the caller, which take precedence over guesses.
    """
    if not set(declared.roles) <= set(ROLES_OF_LABELS):
        return None
    if any(set(NAMES["system"]) & set(parts(name)) for name, _ in sides(frame.columns)):
        return None  # verdicts on two systems
    if not declared and {*JUDGED.used, *JUDGED.systems} <= set(frame.columns):
        facts: dict[str, Any] = {
            name: name for name in ("cluster", "probability", "n_outputs") if name in frame.columns
        }
        return replace(JUDGED, **facts)
    head = frame.head(LOOKED_AT) if frame.height <= LOOKED_AT else frame.sample(LOOKED_AT, seed=0)
    words = {name: label_words(head[name]) for name in frame.columns if _may_hold_labels(head[name])}
    layout = _long(head, words, declared) or _wide(head, words, declared)
    return None if layout is None else _with_places(frame, layout, declared)


def _may_hold_labels(column: pl.Series) -> bool:
    if column.dtype == pl.String:
        return column.n_unique() <= MOST_WORDS or is_number(column)
    return column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Categorical, pl.Enum)


def _wide(frame: pl.DataFrame, words: dict[str, pl.Series], declared: Columns) -> LabelLayout | None:
    if "rater" in declared.roles or "score" in declared.roles:
        return None
    patterns = declared.split(frame.columns)
    split = {name: pattern.kind or labels.get("kind", "") for name, (pattern, labels) in patterns.items()}
    if split and not set(split.values()) <= {"human", "metric"}:
        return None
    if split:
        human = [name for name, kind in split.items() if kind == "human"]
        metrics = [name for name, kind in split.items() if kind == "metric"]
        of_systems = "system" in declared.roles or "system" in frame.columns
        in_words = all(name in words for name in human) and _all_words(frame[name] for name in human or metrics)
        placeholders = {placeholder for _, labels in patterns.values() for placeholder in labels}
        by_criterion = "aspect" in placeholders
        if placeholders - {"rater", "kind", "aspect"} or ((of_systems or by_criterion) and not in_words):
            return None  # ratings
        binary_judges = [name for name in metrics if name in words and is_binary(words[name].drop_nulls().unique())]
        if not all(name in words and _labels(words[name]) for name in human) or (not human and not binary_judges):
            return None  # scores or texts
        if any((numbers_of(frame[name]) % 1 > 0).any() for name in human):
            return None  # scores
        criteria = {
            name: (labels.get("rater") or pattern.fixed or split[name], labels["aspect"])
            for name, (pattern, labels) in patterns.items()
            if by_criterion
        }
        return LabelLayout(human=tuple(human), metrics=tuple(metrics), criteria=criteria)
    taken = set(declared.roles.values())
    free = [name for name in words if name not in taken and not NOT_LABELS & set(parts(name))]
    human = [name for name in free if _human(name) and _labels(words[name]) and not is_prose(frame[name])]
    judges = [
        name
        for name in free
        if name not in human and JUDGE & set(parts(name)) and (parts(name)[0] in JUDGE or not looks_human(name))
    ]
    if not judges and (human or not named("text", frame.columns)):
        judges = _flags(frame, [name for name in words if name not in (*taken, *human)], words)
    binary = {name for name in (*human, *judges) if is_binary(words[name].drop_nulls().unique())}
    if any(name in binary for name in human):
        human = [name for name in human if name in binary]
    elif human and not _all_words(words[name] for name in human):
        return None
    if any(name in binary for name in judges):
        judges = [name for name in judges if name in binary or SCORE & set(parts(name))]
    judges = [name for name in judges if _labels(words[name]) or is_number(frame[name])]
    if not judges and (named("text", frame.columns) or not human):
        return None  # texts
    # Without a judge, the words or the name of a column must show that the column holds human labels.
    alone = all(_all_words([frame[name]]) and (name in binary or LABEL_WORDS & set(parts(name))) for name in human)
    if not judges and not alone and not _same_words([words[name] for name in human]):
        return None
    if not human:
        judges = [name for name in judges if name in binary]
        if not judges:
            return None
    criteria = _criteria(human, judges)
    if criteria:
        judges = [name for name in judges if name in criteria]
    return LabelLayout(human=tuple(human), metrics=tuple(judges), criteria=criteria)


def _flags(frame: pl.DataFrame, names: Sequence[str], words: Mapping[str, pl.Series]) -> list[str]:
    """Columns with known binary labels and names such as `is_correct` or `passed`; empty if the table has scores."""
    if any(is_number(frame[name]) and looks_like_score(name) for name in frame.columns):
        return []
    last = {*LABEL_WORDS, *POLARITY}
    called_so = [name for name in names if parts(name)[0] in ("is", "has") or parts(name)[-1] in last]
    flags_of = [name for name in called_so if is_binary(words[name].drop_nulls().unique())]
    return [name for name in flags_of if frame[name].dtype == pl.Boolean or not is_number(frame[name])]


def _criteria(human: Sequence[str], judges: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The rater and the criterion of each column whose name contains a rater and a criterion. Annotators and judges
    must have common criteria.

    >>> _criteria(["human_tone", "human_facts"], ["judge_tone", "judge_facts"])["judge_facts"]
    ('judge', 'facts')
    """
    names: dict[str, tuple[str, str]] = {}
    for name in (*human, *judges):
        words = [word for word in re.split(r"[\W_]+", name) if word]
        raters = [word for word in words if word.lower() in JUDGE | HUMAN or looks_human(word)]
        rest = [word for word in words if word not in raters and word.lower() not in LABEL_WORDS]
        criterion = "_".join(rest)
        if not criterion or criterion not in name:
            return {}
        names[name] = ("_".join(raters), criterion)
    shared = {names[name][1] for name in human} & {names[name][1] for name in judges}
    if len(shared) < 2 or {names[name][1] for name in human} - shared or len(set(names.values())) < len(names):
        return {}
    return names


def _human(name: str) -> bool:
    return (looks_human(name) or bool(HUMAN & set(parts(name)))) and not JUDGE & set(parts(name)[:1])


def _same_words(columns: Sequence[pl.Series]) -> bool:
    """Whether at least two columns have most words in common."""
    vocabularies = [set(column.drop_nulls()) for column in columns]
    shared = set.intersection(*vocabularies) if len(vocabularies) > 1 and _all_words(columns) else set()
    return bool(shared) and all(2 * len(shared) > len(one) for one in vocabularies)


def _labels(column: pl.Series) -> bool:
    """Whether a column has few distinct words, or no values."""
    return column.drop_nulls().n_unique() <= MOST_LABELS


def _all_words(columns: Iterable[pl.Series]) -> bool:
    return all(counted_cells(column)[1] == 0 for column in columns)


def _long(frame: pl.DataFrame, words: dict[str, pl.Series], declared: Columns) -> LabelLayout | None:
    """Layout with one row per label, and a column for the rater or the kind."""
    if declared.patterns:
        return None
    roles = declared.roles

    def called(candidates: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(name for word in candidates for name in words if word in forms(name)))

    kinds = [roles["kind"]] if "kind" in roles else called(NAMES["kind"])
    kinds = [name for name in kinds if name in words and set(words[name].unique()) <= KINDS.keys()]
    if not kinds:
        return None
    taken, kind = {*roles.values(), kinds[0]}, words[kinds[0]]
    labels = [roles["score"]] if "score" in roles else [name for name in called(LONG_LABEL) if name not in taken]
    labels = [name for name in labels if name in words and words[name].drop_nulls().len()]
    binary = [name for name in labels if is_binary(words[name].drop_nulls().unique())]
    unnamed = "system" not in roles and not named("system", frame.columns)  # no table of ratings
    nominal = [
        name for name in labels if "score" in roles or (_labels(words[name]) and (unnamed or _all_words([frame[name]])))
    ]
    chosen = sorted(binary, key=lambda name: is_number(frame[name])) or nominal
    if not chosen:
        return None
    taken.add(chosen[0])
    raters = [name for name in named("rater", list(words)) if name not in taken and not _of_both(words[name], kind)]
    raters = [roles.get("rater", ""), *(name for name in raters if normalised(name) not in LONG_ASPECT)]
    rater = next(filter(None, raters), "")
    aspects = [roles["aspect"]] if "aspect" in roles else called(LONG_ASPECT)
    aspects = [
        name
        for name in aspects
        if name in roles.values() or (name not in {*taken, rater} and not words[name].null_count())
    ]
    aspects = [name for name in aspects if kind.n_unique() < 2 or _of_both(words.get(name, frame[name]), kind)]
    aspects.sort(key=lambda name: name.rpartition(".")[0] != chosen[0].rpartition(".")[0])
    return LabelLayout(
        label=chosen[0],
        kind=kinds[0],
        rater=rater,
        aspect=aspects[0] if aspects else "",
        item=roles.get("item") or _shared_item(frame, kind, taken),
    )


def _of_both(column: pl.Series, kind: pl.Series) -> bool:
    """Whether at least one value of a column occurs with both kinds."""
    return bool(pl.DataFrame({"value": column, "kind": kind}).drop_nulls().unique()["value"].is_duplicated().any())


def _shared_item(frame: pl.DataFrame, kind: pl.Series, taken: Iterable[str]) -> str:
    """The column of the item: the column with the most values that occur with both kinds."""
    best, most = "", 0
    candidates = [name for name in frame.columns if name not in set(taken)]
    likely = [*named("item", candidates), *(name for name in candidates if "id" in parts(name))]
    for name in dict.fromkeys([*likely, *candidates]):
        if frame[name].dtype.is_nested() or frame[name].dtype.is_float():
            continue
        rows = pl.DataFrame({"value": frame[name].cast(pl.String), "kind": kind.replace_strict(KINDS)}).drop_nulls()
        both = int(rows.unique()["value"].is_duplicated().sum()) // 2
        if both > most and rows["value"].n_unique() > most:
            best, most = name, both
    return best or next(iter(likely), "")


def _with_places(frame: pl.DataFrame, layout: LabelLayout, declared: Columns) -> LabelLayout:
    """The layout, completed by the columns of items, systems, clusters and inclusion probabilities."""
    roles, used = declared.roles, layout.used
    free = [name for name in frame.columns if name not in used and not frame[name].dtype.is_nested()]
    others = [name for name in free if name not in roles.values()]
    systems = (roles["system"],) if "system" in roles else _systems(frame, others)
    others = [name for name in others if name not in systems]
    rows = [layout.rater or layout.kind, layout.aspect] if layout.label else []
    repeat = roles.get("repeat", "")
    key = [name for name in (*systems, *rows, repeat) if name]
    runs = [""] if repeat else ["", *named("repeat", others)[:1]]
    item = roles.get("item") or layout.item
    ids = (name for name in others if parts(name)[-1] == "id" and not set(parts(name)) & set(CLUSTERS))
    likely = [item] if item else [*named("item", others), *ids]
    spare = [] if item else [name for name in others if _may_be_key(frame[name])]
    keys = [*product(runs, dict.fromkeys(likely)), *product([""], spare)]
    run, item = next((pair for pair in keys if _unique(frame, list(filter(None, [*pair, *key])))), ("", item))
    cluster = roles.get("cluster") or next(
        (
            name
            for name in free
            if name not in (item, *systems)
            and parts(name)[0] in CLUSTERS
            and ("id" in parts(name) or len(parts(name)) == 1)
            and 1 < frame[name].n_unique() < frame.height
        ),
        "",
    )
    return replace(
        layout,
        item=item,
        systems=systems,
        cluster=cluster,
        probability=roles.get("probability", ""),
        n_outputs=roles.get("n_outputs", ""),
        repeat=repeat or run,
    )


def _may_be_key(column: pl.Series) -> bool:
    """Whether cells may be item labels: integers, or short texts."""
    short = column.dtype == pl.String and (column.str.len_chars() <= LONGEST_KEY).all()
    return column.dtype.is_integer() or bool(short)


def _unique(frame: pl.DataFrame, key: Sequence[str]) -> bool:
    rows = frame.select(key)
    return rows.null_count().row(0)[0] == 0 and not bool(rows.is_duplicated().any())


def _systems(frame: pl.DataFrame, free: Sequence[str]) -> tuple[str, ...]:
    """The columns of model and version that have several values. If both columns are constant, the result is the column
    of the model."""
    versions = [name for version in VERSIONS for name in free if normalised(name) == version]
    models = [name for name in named("system", free) if name not in versions]
    varying = [
        [name for name in names if 1 < frame[name].n_unique() <= MOST_SYSTEMS][:1] for names in (models, versions)
    ]
    constant = [name for name in models if frame[name].n_unique() == 1 and parts(name)[-1] != "version"]
    return tuple(chain(*varying)) or tuple(constant[:1])
