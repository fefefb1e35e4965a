"""Study: ratings, verdicts, raters, items and texts. A study is the result of `read` and the input of questions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import polars as pl

from custodes.arguments import check_arguments, value_list
from custodes.control_characters import escape_controls
from custodes.data.comparisons import HUMAN
from custodes.data.dependent_items import dependent_items, merge_clusters
from custodes.data.interim_analyses import SCHEMA as INTERIM_ANALYSES
from custodes.data.interim_analyses import sequential_notes
from custodes.data.items import Items
from custodes.data.labels import LabelScale
from custodes.data.mapping.annotator_columns import aspect_variants, mapping_advice, pooled_aspects
from custodes.data.mapping.column_vocabulary import KINDS, looks_human, looks_like_machine, split_name
from custodes.data.notes import NO_ANSWERS, Note, build_notes
from custodes.data.outputs import Outputs
from custodes.data.patterns import Patterns, select_labels
from custodes.data.preferences import Preferences
from custodes.data.probes import SCHEMA as PROBES
from custodes.data.raters import DIRECTION_RULE, Raters
from custodes.data.ratings import Ratings
from custodes.data.table import digest_of, filter_rows
from custodes.errors import InputError, OptionError, join_labels

T = TypeVar("T")
JOIN_KEY = ["item", "system"]
OUTPUT_ASPECT = {"item": pl.String, "system": pl.String, "aspect": pl.String}
SELECTION = ("human", "metrics", "systems", "aspect", "group")
NO_METRIC = "no metric, as every rater is human; add scores of a metric (leaderboard and consistency need no metric)"
POOLED_RULE = "pooled-aspects"
"""The note on annotators that are named after aspects."""
UNKNOWN_KIND_RULE = "unknown-kind"
"""The note on metrics that may be human."""
SYSTEM_SCORE_RULE = "whole-systems-of-all-groups"
"""The note on system-level scores, which are excluded if groups are selected."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Study:
    """Ratings, raters, items and texts of one study, with notes on excluded rows.

    Every row names a rater, and `raters` has the kind of each rater. `name` and `digest` identify the input.
    `selection` is the default selection of questions (see `select`). `sides` is true if the systems are sides of a pair
    (chosen and rejected, first and second output), which cannot be compared as systems. `second` and `second_ratings`
    are second opinions, that is, answers to a question after the first answer. Second opinions only measure annotators;
    questions on systems ignore them. `probes` are outcomes of outputs in two forms (see `data.probes`), which only
    `consistency` uses. `looks` are interim analyses, if answers determined the number of annotations (see
    `data.interim_analyses`). `labels` has, by aspect, the words for the codes of labels. `attributes` has item, system
    and further columns of outputs, for slices. `unlabelled` has item, system and aspect of all outputs in a table of
    labels, including outputs without a label. `unnamed_system` is true if the input names no system, so that the only
    system is named after the file. `cache` has the results that several questions share, if the study was made by
    `with_cache`.
    """

    ratings: Ratings = field(default_factory=Ratings)
    preferences: Preferences = field(default_factory=Preferences)
    second: Preferences = field(default_factory=Preferences)
    second_ratings: Ratings = field(default_factory=Ratings)
    probes: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=PROBES))
    looks: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=INTERIM_ANALYSES))
    raters: Raters
    items: Items = field(default_factory=Items)
    outputs: Outputs | None = None
    notes: tuple[Note, ...] = ()
    name: str = "study"
    digest: str = ""
    selection: Mapping[str, Patterns] = field(default_factory=dict)
    sides: bool = False
    labels: Mapping[str, LabelScale] = field(default_factory=dict)
    attributes: pl.DataFrame | None = None
    unlabelled: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=OUTPUT_ASPECT))
    unnamed_system: bool = False
    cache: dict[Hashable, Any] | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        size_of_noun = {
            "items": len(self.item_labels()),
            "systems": len(self.systems),
            "annotators": len(self.humans),
            "metrics": len(self.metrics),
            "ratings": self.ratings.frame.height,
            "verdicts": self.preferences.frame.height,
            "second opinions": self.second.frame.height + self.second_ratings.frame.height,
        }
        sizes_text = ", ".join(f"{size} {noun}" for noun, size in size_of_noun.items() if size)
        aspects_text = join_labels(filter(None, self.aspects))
        return escape_controls(
            f"<Study {self.name}: {sizes_text}{f'; aspects {aspects_text}' if aspects_text else ''}>"
        )

    @property
    def humans(self) -> tuple[str, ...]:
        """The annotators, in file order."""
        return self.raters.select_kind("human")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics and judges, in file order."""
        return self.raters.select_kind("metric")

    @cached_property
    def systems(self) -> tuple[str, ...]:
        """All systems, sorted."""
        verdict_rows = self.preferences.frame
        system_columns = [self.ratings.frame["system"], verdict_rows["system_a"], verdict_rows["system_b"]]
        return tuple(pl.concat(system_columns).unique().sort())

    @cached_property
    def aspects(self) -> tuple[str, ...]:
        """The aspects that annotators rated ('' for ratings without an aspect). If there are no annotators, these are
        the aspects that metrics rated."""
        return _unique_labels(self._rater_rows(self.humans or self.metrics), "aspect")

    def item_labels(self) -> pl.Series:
        """All rated items, sorted."""
        scored_items = self.ratings.frame["item"]
        return pl.concat([scored_items.filter(scored_items != ""), self.preferences.frame["item"]]).unique().sort()

    def _items_to_describe(self) -> pl.Series:
        """All rated items; in a study with texts alone, all items with texts."""
        item_labels = self.item_labels()
        if item_labels.is_empty() and self.outputs is not None:
            return self.outputs.texts["item"].unique(maintain_order=True)
        return item_labels

    def _rater_rows(self, raters: Sequence[str]) -> pl.DataFrame:
        """The rater, the aspect and the item of each rating and verdict of these raters."""
        return pl.concat(
            [
                filter_rows(frame.select("rater", "aspect", "item"), pl.col("rater").is_in(list(raters)))
                for frame in (self.ratings.frame, self.preferences.frame)
            ]
        )

    def with_notes(self, *entries: tuple[str, int, str]) -> Study:
        """The study with further notes, see `build_notes`."""
        return replace(self, notes=(*self.notes, *build_notes(*entries)))

    def with_cache(self) -> Study:
        """The study with a cache for several questions, which keeps shared results as long as the study exists."""
        study = replace(self)
        object.__setattr__(study, "cache", {})
        return study

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of `compute`, from the cache if there is a cache. The result must depend only on this study and
        `key`."""
        if self.cache is None:
            return compute()
        if key not in self.cache:
            self.cache[key] = compute()
        result: T = self.cache[key]
        return result

    @check_arguments
    def describe(
        self, *, raters: Any = None, items: Any = None, raters_name: str = "raters", items_name: str = "items"
    ) -> Study:
        """Add columns of side tables on raters and items (see `Raters.merge_side_table`, `Items.make`).

        `raters_name` and `items_name` are the names of the tables in messages.
        """
        study = self
        if raters is not None:
            described_raters, notes = study.raters.merge_side_table(raters, where=raters_name)
            other_notes = [note for note in study.notes if note.rule != DIRECTION_RULE]
            if len(other_notes) < len(study.notes):
                other_notes += described_raters.undeclared_directions()
            study = replace(study, raters=described_raters, notes=(*other_notes, *notes))
            _check_own_systems(study, where=raters_name)
        if items is not None:
            described_items, notes = Items.make(items, where=items_name)
            notes += described_items.coverage_notes(study._items_to_describe(), where=items_name)
            study = replace(study, items=described_items, notes=(*study.notes, *notes))
        csv_texts = (study.raters.frame.write_csv(), study.items.frame.write_csv())
        return replace(study, digest=digest_of(study.digest, *csv_texts)) if study.digest else study

    @check_arguments
    def select(
        self,
        *,
        human: Patterns = None,
        metrics: Patterns = None,
        systems: Patterns = None,
        aspect: Patterns = None,
        group: Patterns = None,
        one_side: bool = False,
    ) -> Study:
        """The selected part of the study, in which every rater is either human or metric.

        Patterns are comma lists of globs; a glob after `!` excludes labels. `metrics` also accepts `@aspect` (metrics
        with an aspect) and `@noaspect` (metrics without an aspect). By default, all raters of kind human are the
        annotators. Exclusions are noted. Unknown names raise `OptionError` with a suggestion. If `one_side` is false, a
        study without annotators or without metrics also raises `OptionError`.
        """
        pattern_of_option = {"human": human, "metrics": metrics, "systems": systems, "aspect": aspect, "group": group}
        selected_study = self.once(
            ("selected", *(p if isinstance(p, str | None) else tuple(p) for p in pattern_of_option.values())),
            lambda: self._apply_selection(**pattern_of_option, one_side=one_side),
        )
        if one_side or (selected_study.humans and selected_study.metrics):
            return selected_study
        # This call raises an error, or its selection differs from the selection with `one_side`.
        return self._apply_selection(**pattern_of_option, one_side=False)

    def _apply_selection(
        self,
        *,
        human: Patterns,
        metrics: Patterns,
        systems: Patterns,
        aspect: Patterns,
        group: Patterns,
        one_side: bool,
    ) -> Study:
        annotators, annotator_notes = self._chosen_annotators(human, is_required=not one_side)
        if annotators and self._rater_rows(annotators).is_empty():
            no_ratings_text = f"annotators have no score or verdict yet ({join_labels(annotators, limit=3)})"
            if not one_side:
                raise InputError(
                    f"{self.name}: {no_ratings_text}; add human ratings, or use leaderboard or consistency, which work "
                    "without human ratings"
                )
            annotator_notes += build_notes(
                ("annotators-without-ratings", len(annotators), f"{no_ratings_text}; only metrics are used")
            )
            annotators = ()
        study_with_kinds = replace(self, raters=self.raters.with_kinds(dict.fromkeys(annotators, "human")))
        candidate_metrics = tuple(
            rater for rater, kind in study_with_kinds.raters.kind.items() if kind != "human" and rater not in annotators
        )
        rated_aspects = _unique_labels(study_with_kinds._rater_rows(annotators or candidate_metrics), "aspect")
        chosen_aspects = select_labels(aspect, rated_aspects, option="aspect", what="aspect")
        chosen_metrics = (
            study_with_kinds._chosen_metrics(metrics, candidate_metrics)
            if candidate_metrics or metrics or not one_side
            else ()
        )
        if HUMAN in chosen_metrics:
            raise InputError(
                f"{self.name}: a metric is named {HUMAN!r}, the name reserved for the combined annotators; select it "
                "with the option human, or rename it"
            )
        chosen_systems = list(select_labels(systems, self.systems, option="systems", what="system"))
        notes = [
            *self.notes,
            *annotator_notes,
            *study_with_kinds._rater_notes(
                annotators,
                chosen_metrics,
                aspects=chosen_aspects,
                rated_aspects=rated_aspects,
                has_default_raters=human is None and metrics is None,
            ),
        ]
        is_selected_expression = pl.col("rater").is_in(list(annotators)) & pl.col("aspect").is_in(
            list(chosen_aspects)
        ) | pl.col("rater").is_in(list(chosen_metrics)) & pl.col("aspect").is_in([*chosen_aspects, ""])
        is_in_chosen_groups = pl.lit(True)
        if group is not None:
            notes += self._system_score_notes(is_selected_expression, group)
            is_in_chosen_groups = pl.col("item").is_in(self._group_items(group).implode())
            is_selected_expression &= is_in_chosen_groups
        is_selected_rating_expression = is_selected_expression & pl.col("system").is_in(chosen_systems)
        # Without a selection, a system is kept even if all its verdicts are missing.
        is_selected_pair_expression = (
            pl.lit(True)
            if systems is None
            else pl.col("system_a").is_in(chosen_systems) & pl.col("system_b").is_in(chosen_systems)
        )
        excluded_systems = [system for system in self.systems if system not in chosen_systems]
        interim_analyses = self.looks.filter(is_selected_pair_expression)
        notes += sequential_notes(interim_analyses) if annotators else []
        item_groups, cluster_notes = self.once(
            ("dependent items", annotators), lambda: dependent_items(self, annotators)
        )
        notes += build_notes(
            ("systems-not-selected", len(excluded_systems), f"systems not selected: {join_labels(excluded_systems)}"),
            (
                "sides",
                self.sides,
                f"the names of systems ({join_labels(self.systems, limit=4)}) are the sides of a pair, so favoritism, "
                "rankings and leaderboards have no meaning; use the sample accuracy (agreement) instead",
            ),
        )
        selected_study = replace(
            study_with_kinds,
            ratings=Ratings(frame=filter_rows(self.ratings.frame, is_selected_rating_expression)),
            preferences=self.preferences.select_rows(is_selected_expression & is_selected_pair_expression),
            second=self.second.select_rows(is_selected_expression & is_selected_pair_expression),
            second_ratings=Ratings(frame=self.second_ratings.frame.filter(is_selected_rating_expression)),
            probes=self.probes.filter(is_selected_rating_expression, pl.col("against").is_in([*chosen_systems, ""])),
            looks=interim_analyses,
            raters=study_with_kinds.raters.with_kinds(dict.fromkeys(chosen_metrics, "metric")).select_raters(
                [*annotators, *chosen_metrics]
            ),
            # An output still belongs to the population if only unselected raters have labelled it.
            unlabelled=pl.concat([self.unlabelled, self.ratings.frame.select(*OUTPUT_ASPECT)])
            .filter(is_in_chosen_groups, pl.col("system").is_in(chosen_systems), pl.col("aspect").is_in([*self.labels]))
            .unique(maintain_order=True),
            items=replace(self.items, frame=merge_clusters(self.items, item_groups)) if item_groups else self.items,
            notes=(*notes, *cluster_notes),
        )
        return selected_study if self.cache is None else selected_study.with_cache()

    def _chosen_annotators(self, human: Patterns, *, is_required: bool = True) -> tuple[tuple[str, ...], list[Note]]:
        kind_of_rater = self.raters.kind
        if human is None:
            if is_required and not self.humans:
                raise OptionError(self.advice_on_annotators())
            return self.humans, []
        candidate_annotators = [rater for rater, kind in kind_of_rater.items() if kind != "metric"]
        if not candidate_annotators:
            raise OptionError(f"human={human!r}: every rater is a metric; add human ratings")
        metrics_in_human = [
            pattern
            for pattern in value_list("human", human, labels=kind_of_rater)
            if kind_of_rater.get(pattern) == "metric"
        ]
        if metrics_in_human:
            raise OptionError(
                f"human={human!r}: {metrics_in_human[0]!r} is a metric; annotators: {join_labels(candidate_annotators)}"
            )
        annotators = select_labels(human, candidate_annotators, option="human", what="rater")
        excluded_annotators = [rater for rater in self.humans if rater not in annotators]
        return annotators, build_notes(
            (
                "annotators-not-selected",
                len(excluded_annotators),
                f"annotators not selected: {join_labels(excluded_annotators)}",
            )
        )

    def advice_on_annotators(self) -> str:
        """Advice on declaring annotators, for a study without annotators."""
        kind_of_rater = self.raters.kind
        if not kind_of_rater:
            return NO_ANSWERS
        if set(kind_of_rater.values()) == {"metric"}:
            return (
                f"no human ratings, as every rater is a metric ({join_labels(kind_of_rater)}); add a file of human "
                "ratings, or collect human ratings with custodes annotate new (leaderboard and consistency need no "
                "annotators)"
            )
        human_like_raters = [rater for rater, kind in kind_of_rater.items() if not kind and looks_human(rater)]
        hint_text = f"; these look human: {join_labels(human_like_raters)}" if human_like_raters else ""
        return (
            "no rater is known to be human; name the annotators with human='PATTERN' (or give a "
            f"column or raters file with 'kind'). Raters: {join_labels(kind_of_rater)} (leaderboard and "
            f"consistency need no annotators){hint_text}{mapping_advice(human_like_raters, list(kind_of_rater))}"
        )

    def _chosen_metrics(self, metrics: Patterns, candidate_metrics: tuple[str, ...]) -> tuple[str, ...]:
        if not candidate_metrics:
            raise OptionError(NO_METRIC)
        metric_patterns = None if metrics is None else value_list("metrics", metrics, labels=candidate_metrics)
        aspect_keywords = [pattern for pattern in metric_patterns or [] if pattern in ("@aspect", "@noaspect")]
        if aspect_keywords:
            metrics_with_aspect = set(self._rater_rows(candidate_metrics).filter(pl.col("aspect") != "")["rater"])
            candidate_metrics = tuple(
                metric
                for metric in candidate_metrics
                if ("@aspect" if metric in metrics_with_aspect else "@noaspect") in aspect_keywords
            )
            if not candidate_metrics:
                raise OptionError(
                    f"metrics={metrics!r} excludes every metric; @aspect selects metrics with an aspect, and @noaspect "
                    "metrics without an aspect"
                )
            metric_patterns = [pattern for pattern in metric_patterns or [] if pattern not in aspect_keywords] or None
        return select_labels(metric_patterns, candidate_metrics, option="metrics", what="metric")

    def _rater_notes(
        self,
        annotators: tuple[str, ...],
        metric_names: tuple[str, ...],
        *,
        aspects: tuple[str, ...],
        rated_aspects: Sequence[str],
        has_default_raters: bool,
    ) -> list[Note]:
        """Notes on four kinds of raters that may be read wrongly: metrics without a declared kind that look human, or
        that are named like an annotator except for the aspect; metrics whose kind is neither declared nor visible in
        the label (only if `has_default_raters`; next to annotators, labels such as `alpha-judge` show the kind);
        annotators named after several aspects; metrics of an aspect that no annotator rated."""
        metrics_without_kind = [rater for rater, kind in self.raters.kind.items() if not kind and rater in metric_names]
        annotator_like_metrics = aspect_variants(metrics_without_kind, annotators)
        human_like_metrics = [
            metric for metric in metrics_without_kind if looks_human(metric) or metric in annotator_like_metrics
        ]
        unknown_kind_metrics = [
            metric
            for metric in metrics_without_kind
            if not (looks_human(metric) or looks_like_machine(metric))
            and not (annotators and "metric" in map(KINDS.get, split_name(metric)))
        ]
        pooled_aspect_names = pooled_aspects(annotators) if "" in aspects else []
        return build_notes(
            (
                "annotators-as-metrics",
                len(human_like_metrics),
                f"raters that look human are read as metrics: {join_labels(human_like_metrics)}; name them in human, "
                "or exclude them",
            ),
            (
                UNKNOWN_KIND_RULE,
                len(unknown_kind_metrics) if has_default_raters else 0,
                "nothing shows whether these raters are human, so they are read as metrics: "
                f"{join_labels(unknown_kind_metrics)}; name annotators in human",
            ),
            (
                POOLED_RULE,
                len(pooled_aspect_names),
                f"ratings of several aspects ({join_labels(pooled_aspect_names)}) are combined as if each aspect "
                f"were an annotator ({join_labels(annotators)}). Name the aspect in the columns, as in --columns "
                "'human_{aspect}_{rater}', or select one aspect with human",
            ),
            *(
                (
                    "aspect-without-annotators",
                    aspect_rows.height,
                    f"metrics of the aspect {aspect!r} are excluded ({join_labels(aspect_rows['rater'])}), because no "
                    "selected annotator rated this aspect",
                )
                for (aspect,), aspect_rows in self._rater_rows(metric_names)
                .select("rater", "aspect")
                .unique(maintain_order=True)
                .filter(~pl.col("aspect").is_in([*rated_aspects, ""]).any().over("rater"))
                .group_by("aspect", maintain_order=True)
            ),
        )

    def _group_items(self, group: Patterns) -> pl.Series:
        group_labels = _unique_labels(self.items.frame, "group")
        if not any(group_labels):
            raise OptionError(f"group={group!r}: the items have no groups; give an items file with a column 'group'")
        chosen_groups = list(select_labels(group, group_labels, option="group", what="group"))
        return self.items.frame.filter(pl.col("group").is_in(chosen_groups))["item"]

    def _system_score_notes(self, is_selected_expression: pl.Expr, group: Patterns) -> list[Note]:
        """A note on system-level scores, which are excluded if groups are selected."""
        raters_with_system_scores = self.ratings.frame.filter(is_selected_expression & (pl.col("item") == ""))[
            "rater"
        ].unique(maintain_order=True)
        return build_notes(
            (
                SYSTEM_SCORE_RULE,
                raters_with_system_scores.len(),
                f"group={group!r} leaves out the scores of whole systems by "
                f"{join_labels(raters_with_system_scores)}, because these scores describe all items",
            )
        )

    def fingerprint(self) -> str:
        """The digest of the input, computed from the rows if there is no file digest."""
        return self.digest or self._digest_of_rows

    @cached_property
    def _digest_of_rows(self) -> str:
        verdict_frames = (self.preferences.frame, self.preferences.missing, self.second.frame, self.second.missing)
        frames = (self.ratings.frame, self.raters.frame, self.items.frame, self.second_ratings.frame, *verdict_frames)
        text_frames = () if self.outputs is None else (self.outputs.texts, self.outputs.sources, self.outputs.images)
        return digest_of(
            *(frame.write_csv() for frame in (*frames, self.probes, self.looks)),
            *(frame.write_ndjson() for frame in text_frames),
        )


def select_aspect_rows(rows: pl.DataFrame, aspect: str) -> pl.DataFrame:
    """The rows of each rater for this aspect. If a rater has no rows for this aspect, its rows without an aspect are
    returned."""
    is_aspect_row = pl.col("aspect") == aspect
    if rows.select(is_aspect_row.all()).item():
        return rows
    rows = rows.filter(pl.col("aspect").is_in([aspect, ""]))
    return rows.filter(is_aspect_row == is_aspect_row.any().over("rater"))


def _check_own_systems(study: Study, *, where: str) -> None:
    """Raise `InputError` if a system that belongs to a rater is not a system of the study."""
    for rater, system_patterns in study.raters.own_systems.items():
        try:
            select_labels(system_patterns, study.systems, option="own_system", what="system")
        except OptionError as error:
            raise InputError(f"{where}: {rater!r}: {error}") from None


def _unique_labels(frame: pl.DataFrame, column_name: str) -> tuple[str, ...]:
    return tuple(frame[column_name].unique(maintain_order=True))
