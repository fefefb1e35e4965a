"""Counting battles inside a table engine: from a long table of verdicts to BattleCounts, without its rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from custodes.arguments import checked
from custodes.data.battle_counts import HUMAN, SCHEMA, BattleCounts
from custodes.data.cells import SILENT, TIE, cells_of, summed
from custodes.data.engines import check_known, collected, in_engine, lazy_rows, names_of
from custodes.data.notes import Note, noted
from custodes.data.origin import counted_by
from custodes.data.pairs import PairCounts
from custodes.data.readers.battles import WRITTEN
from custodes.data.readers.orders import FLAGS, MARKS, NAMED, UNKNOWN
from custodes.data.readers.words import ALLOWED, EMPTY, what_is_said
from custodes.errors import InputError, OptionError, listed

WHERE = "count_battles"
SIDES = (("model_a", "model_b"), ("system_a", "system_b"))
SAID = ("winner", "preference")
LABELS = ("item", "low", "high", "rater")

Settling = Literal["mean", "consistent"]
"""How verdicts of both presentation orders (and repeats) become one, as in a study."""


@checked
@in_engine(WHERE)
def count_battles(
    table: Any,
    *,
    human: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    aspect: str = "",
    systems: Sequence[str] | None = None,
    orders: Settling = "mean",
) -> BattleCounts:
    """Count the wins, ties and losses of every pair of systems, by people and by every metric, in the engine that holds
    the table, and what people and a metric said of the same item (`pairs`).

    `table` is a long table of verdicts: `item`, two systems (`model_a, model_b` or `system_a, system_b`), `winner` or
    `preference`, and optional `rater` (or `judge`), `kind`, `aspect`, `order` (ab, ba), `repeat`, in any dataframe that
    Narwhals understands. Words of verdicts are those that `read` takes, but for those that speak of the place shown.
    Only what differs leaves the engine: a row for each pair, rater, order and word.

    `human` are the people (default: those whose `kind` is human; without a column of raters all verdicts are of one
    person), who vote together; `metrics` the others (default: all). A rater without verdicts of the `aspect` is taken
    by those without one. `orders` settles several verdicts of a rater on one comparison as `leaderboard` does.

    Raises `InputError` for a table that is none and for verdicts that cannot be read, `OptionError` for unknown names.

    >>> rows = [("1", "A", "B", "model_a"), ("2", "B", "A", "tie"), ("3", "A", "B", "B")]
    >>> table = pl.LazyFrame(rows, schema=["item", "model_a", "model_b", "winner"], orient="row")
    >>> count_battles(table).frame.row(0)
    ('human', 'A', 'B', 0.0, 1, 1, 1)
    """
    rows, kinds, written = _rows(table)
    survey = _survey(rows)
    known = sorted(survey["rater"].unique())
    people = _people(survey, human, known, kinds)
    judges = tuple(name for name in known if name not in people) if metrics is None else names_of(metrics)
    check_known(people, known, where=WHERE, option="human", what="rater")
    check_known(judges, known, where=WHERE, option="metrics", what="rater")
    if both := [name for name in judges if name in people]:
        raise OptionError(f"{WHERE}: {listed(both)} cannot be both human and metric")
    survey = _of_aspect(survey, people=people, judges=judges, aspect=aspect)
    if systems is not None:
        chosen = names_of(systems)
        check_known(chosen, sorted({*survey["a"], *survey["b"]}), where=WHERE, option="systems", what="system")
        survey = survey.filter(pl.col("a").is_in(list(chosen)), pl.col("b").is_in(list(chosen)))
    said = _read(survey, written=written)
    plan = _Plan(said=said, people=people, orders=orders)
    rows = plan.chosen(rows)
    spread = collected(_of_items(rows))
    if len(people) > 1 or (spread["most"] > 1).any():
        frame, items, notes, outcomes = _settled(plan, rows)
    else:
        outcomes = plan.named(rows.with_columns(plan.sign().alias("sign")))
        frame = said.drop_nulls("sign").with_columns(rater=plan.name_of(pl.col("rater")))
        items = dict(frame.group_by("rater").agg(pl.col("n").sum()).iter_rows())  # each is of an item of its own
        frame, notes = frame.with_columns(order=pl.col("order").cast(pl.Float64)), []
    missing = int(said.filter(pl.col("sign").is_null())["n"].sum())
    turned = said.filter("turned")
    words = ", ".join(turned["said"].unique().sort().head(2))
    place = f"{words} is taken for the column, whatever was shown first; write left, right for the place shown"
    notes += noted(
        ("missing-verdict", missing, f"{missing} verdicts are empty and count as not rated"),
        ("place-or-column", int(turned["n"].sum()), place),
    )
    there = set(frame["rater"])
    pairs = _paired(outcomes, said, metrics=[name for name in judges if name in there]) if HUMAN in there else None
    origin = counted_by(human=human, metrics=metrics, systems=systems, aspect=aspect, orders=orders)
    return BattleCounts(frame=_counted(frame), items=items, notes=tuple(notes), pairs=pairs, origin=origin)


def _rows(table: Any) -> tuple[nw.LazyFrame[Any], bool, bool]:
    """item, a, b, said, rater, kind, aspect, shown, repeat, all but the item as text; whether kinds are told, and
    whether the columns are those that we write."""
    rows = lazy_rows(table, where=WHERE)
    schema = rows.collect_schema()
    sides = next((own for own in SIDES if set(own) <= set(schema)), None)
    said = next((name for name in SAID if name in schema), None)
    if "item" not in schema or sides is None or said is None:
        raise InputError(
            f"{WHERE}: columns are {listed(schema)}; needed are item, model_a, model_b (or system_a, system_b) and"
            " winner (or preference)"
        )
    rater = next((name for name in ("rater", "judge") if name in schema), None)

    def text(name: str | None, otherwise: str = "") -> nw.Expr:
        if name is None or name not in schema:
            return nw.lit(otherwise)
        number = schema[name].is_float()  # engines write 1.0 in ways of their own
        return (nw.col(name).cast(nw.Int64) if number else nw.col(name)).cast(nw.String).fill_null(otherwise)

    if schema[said].is_float():
        odd = collected(rows.filter(nw.col(said) != nw.col(said).cast(nw.Int64)).select(nw.len())).item()
        if odd:
            raise InputError(f"{WHERE}: {odd} values of {said!r} are no whole numbers; allowed: 1, 0, -1")
    item = nw.col("item") if schema["item"].is_numeric() else nw.col("item").cast(nw.String)
    empty = nw.col("item").is_null() if schema["item"].is_numeric() else item.is_null() | (item == "")
    made = rows.select(
        item.alias("item"),
        text(sides[0]).alias("a"),
        text(sides[1]).alias("b"),
        text(said).alias("said"),
        text(rater, "" if rater else HUMAN).alias("rater"),
        text("kind").alias("kind"),
        text("aspect").alias("aspect"),
        text("order").alias("shown"),
        text("repeat").alias("repeat"),
        empty.alias("empty"),
    )
    return made, "kind" in schema or rater is None, set(schema) >= WRITTEN


def _survey(rows: nw.LazyFrame[Any]) -> pl.DataFrame:
    """How often each rater said each word of each pair, in one pass; refuses labels that are missing."""
    keys = ("rater", "kind", "aspect", "a", "b", "said", "shown")
    made = collected(rows.group_by(*keys, "empty").agg(nw.len().alias("n")))
    made = made.with_columns(pl.col("n").cast(pl.Int64))
    if not made.height:
        raise InputError(f"{WHERE}: no rows; a verdict is needed at least")
    for wrong, what in (
        (pl.col("empty"), "have no item"),
        ((pl.col("a") == "") | (pl.col("b") == ""), "name no system"),
        (pl.col("rater") == "", "name no rater"),
        (pl.col("a") == pl.col("b"), "compare a system with itself"),
    ):
        if n := int(made.filter(wrong)["n"].sum()):
            raise InputError(f"{WHERE}: {n} rows {what}; mend them, or take them out of the table")
    return made.drop("empty")


def _people(
    survey: pl.DataFrame, human: str | Sequence[str] | None, known: Sequence[str], kinds: bool
) -> tuple[str, ...]:
    if human is not None:
        return names_of(human)
    if not kinds:
        raise OptionError(
            f"{WHERE}: say who are people, as in human='ann'; raters: {listed(known)} (or give a column 'kind')"
        )
    if survey["kind"].unique().to_list() == [""]:
        return tuple(known)
    return tuple(sorted(survey.filter(pl.col("kind").str.to_lowercase() == "human")["rater"].unique()))


def _of_aspect(survey: pl.DataFrame, *, people: Sequence[str], judges: Sequence[str], aspect: str) -> pl.DataFrame:
    """The rows that are counted: of the aspect, or of a metric without any of these those without an aspect."""
    own = set(survey.filter(pl.col("aspect") == aspect)["rater"])
    taken = {name: aspect if name in own or name in people else "" for name in (*people, *judges)}
    table = pl.DataFrame(
        {"rater": list(taken), "aspect": list(taken.values())}, schema=dict.fromkeys(["rater", "aspect"], pl.String)
    )
    chosen = survey.join(table, on=["rater", "aspect"], how="semi")
    if not chosen.height:
        known = sorted(survey["aspect"].unique())
        raise OptionError(f"{WHERE}: aspect={aspect!r} has no verdict; aspects: {listed(map(repr, known))}")
    return chosen


def _read(survey: pl.DataFrame, *, written: bool) -> pl.DataFrame:
    """The survey with `system_a` < `system_b`, the `sign` of system_a (null: no verdict) and the `order`."""
    words = survey["said"].set(survey["said"].str.to_lowercase().is_in(EMPTY), "").alias("winner")
    try:
        said = what_is_said(words, survey["a"], survey["b"], where=WHERE, written=written)
    except InputError as problem:
        raise InputError(f"{problem} (rows are those of the words that differ, not of the table)") from None
    wrong = (words != "") & (said.preference.is_null() | said.place.is_not_null())
    if wrong.any():
        bad = survey.filter(wrong).group_by("said").agg(pl.col("n").sum()).sort("n", "said", descending=[True, False])
        examples = listed((f"{word[:40]!r} {n:,} times" for word, n in bad.iter_rows()), limit=3)
        place = ", but for words of the place shown" if said.place.drop_nulls().len() else ""
        raise InputError(
            f"{WHERE}: {bad['n'].sum():,} of {survey['n'].sum():,} verdicts cannot be read ({examples}); allowed:"
            f" {ALLOWED}, or nothing{place}; mend them, or take them out of the table"
        )
    shown = survey["shown"].str.to_lowercase().str.replace_all(MARKS, "")
    order = shown.replace_strict(NAMED | FLAGS | dict.fromkeys(UNKNOWN, 0.0), default=None, return_dtype=pl.Float64)
    if order.is_null().any():
        odd = survey.filter(order.is_null())["shown"].unique().sort()
        raise InputError(
            f"{WHERE}: column 'order' holds {listed(map(repr, odd), limit=3)}; allowed: ab, ba, or nothing"
        )
    forward = np.where(survey["a"] < survey["b"], 1, -1)
    return survey.with_columns(
        pl.Series("sign", said.preference * forward).cast(pl.Int64),
        pl.Series("order", order * forward + 0.0).cast(pl.Int64),
        (said.unsure & (order < 0)).alias("turned"),
        system_a=pl.min_horizontal("a", "b"),
        system_b=pl.max_horizontal("a", "b"),
    )


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is counted: `said`, the survey as it was read; `people`, and how several verdicts are settled."""

    said: pl.DataFrame
    people: tuple[str, ...]
    orders: Settling

    def name_of(self, rater: Any) -> Any:
        """People together are one rater."""
        kind = nw if isinstance(rater, nw.Expr) else pl
        return kind.when(rater.is_in(list(self.people))).then(kind.lit(HUMAN)).otherwise(rater)

    def chosen(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows that count, with `low` < `high`."""
        pairs = self.said.select("rater", "aspect").unique().sort("rater", "aspect")
        ours = _any([(nw.col("rater") == rater) & (nw.col("aspect") == aspect) for rater, aspect in pairs.iter_rows()])
        systems = sorted({*self.said["a"], *self.said["b"]})
        inside = nw.col("a").is_in(systems) & nw.col("b").is_in(systems)
        turned = nw.col("a") > nw.col("b")
        return rows.filter(ours, inside).with_columns(
            nw.when(turned).then(nw.col("b")).otherwise(nw.col("a")).alias("low"),
            nw.when(turned).then(nw.col("a")).otherwise(nw.col("b")).alias("high"),
        )

    def comparisons(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """One row a comparison and rater: its `sign`, and twice its `order`; those that are left out have no sign."""
        signed = rows.with_columns(self.sign().alias("sign"), self._order().alias("order"))
        sums = dict[str, nw.Expr]()
        for name, order in (("ab", 1), ("ba", -1), ("un", 0)):
            own = nw.col("order") == order
            sums |= {
                f"n_{name}": _one(own & ~nw.col("sign").is_null()),
                f"s_{name}": nw.when(own & ~nw.col("sign").is_null()).then(nw.col("sign")).otherwise(nw.lit(0)),
                f"x_{name}": _one(own & nw.col("sign").is_null()),
            }
        sums["decided"] = nw.when(~nw.col("sign").is_null()).then(nw.col("sign") * nw.col("sign")).otherwise(nw.lit(0))
        added = (
            signed.select(*LABELS, **sums)
            .group_by(*LABELS)
            .agg(*(nw.col(name).sum() for name in sums))
            .with_columns(*(nw.col(name).cast(nw.Int64) for name in sums))
        )
        n, s = ({o: nw.col(f"{kind}_{o}") for o in ("ab", "ba", "un")} for kind in "ns")
        least = {o: nw.when(own > 0).then(own).otherwise(nw.lit(1)) for o, own in n.items()}
        # The sign of the sum over orders of the mean of each, in whole numbers.
        balance = (
            s["ab"] * least["ba"] * least["un"]
            + s["ba"] * least["ab"] * least["un"]
            + s["un"] * least["ab"] * least["ba"]
        )
        total, alike = n["ab"] + n["ba"] + n["un"], s["ab"] + s["ba"] + s["un"]
        torn = ~((nw.col("decided") == 0) | (alike == total) | (alike == -total))
        half = ((n["ab"] > 0) & (n["ba"] == 0) & (nw.col("x_ba") > 0)) | (
            (n["ba"] > 0) & (n["ab"] == 0) & (nw.col("x_ab") > 0)
        )
        present = _one(n["ab"] > 0) + _one(n["ba"] > 0) + _one(n["un"] > 0)
        shown = _one(n["ab"] > 0) - _one(n["ba"] > 0)
        left = half | torn if self.orders == "consistent" else half
        sign = nw.when(balance > 0).then(nw.lit(1)).otherwise(_otherwise(balance < 0, -1, 0))
        return added.filter(total > 0).select(
            *LABELS,
            nw.when(~left).then(sign).alias("sign"),
            # Of one order it is 1 or -1, of both 0, of one and an unknown one a half.
            nw.when(present == 2).then(shown).otherwise(2 * shown).alias("order2"),
            _one(half).alias("half"),
            _one(torn & ~half).alias("torn"),
        )

    def outcomes(self, settled: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Comparisons with a sign, people together: one row an item, pair and rater, with how many voted."""
        named = self.named(settled)
        if len(self.people) < 2:
            return named.with_columns(nw.lit(1).alias("votes"))
        added = named.group_by(*LABELS).agg(
            nw.col("sign").sum().alias("balance"), nw.col("order2").sum().alias("order2"), nw.len().alias("votes")
        )
        added = added.with_columns(*(nw.col(name).cast(nw.Int64) for name in ("balance", "order2", "votes")))
        balance = nw.col("balance")
        sign = nw.when(balance > 0).then(nw.lit(1)).otherwise(_otherwise(balance < 0, -1, 0))
        return added.with_columns(sign.alias("sign"))

    def named(self, settled: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Comparisons with a sign, people by the name that they have together."""
        return settled.filter(~nw.col("sign").is_null()).with_columns(self.name_of(nw.col("rater")).alias("rater"))

    def sign(self) -> nw.Expr:
        """The sign of `low`, from the words of a row; null without a verdict."""
        first = nw.when(nw.col("a") == nw.col("low")).then(nw.lit(1)).otherwise(nw.lit(-1))
        words = self._meanings("sign", self.said["a"] < self.said["b"])
        made = nw.when(self._by_name("a")).then(first).otherwise(nw.when(self._by_name("b")).then(-1 * first))
        for value in (1, 0, -1):
            if own := [word for word, meant in words.items() if meant == value]:
                made = nw.when(nw.col("said").is_in(own)).then(value * first).otherwise(made)
        return made

    def _by_name(self, side: str) -> nw.Expr:
        return nw.col("said") == nw.col(side)

    def _order(self) -> nw.Expr:
        """1 where `low` was shown first, -1 where `high` was, 0 unknown."""
        first = nw.when(nw.col("a") == nw.col("low")).then(nw.lit(1)).otherwise(nw.lit(-1))
        forward = np.where(self.said["a"] < self.said["b"], 1, -1)
        own = dict(zip(self.said["shown"], (self.said["order"] * forward).to_list(), strict=True))
        made: nw.Expr = nw.lit(0)
        for value in (1, -1):
            if words := [word for word, meant in own.items() if meant == value]:
                made = nw.when(nw.col("shown").is_in(words)).then(value * first).otherwise(made)
        return made

    def _meanings(self, column: str, forward: pl.Series) -> dict[str, int | None]:
        """Words that mean the same in every row, of the first column; the rest must name a system to the letter."""
        turn = np.where(forward, 1, -1)
        table = (
            self.said.with_columns(meant=pl.col(column) * turn)
            .group_by("said")
            .agg(
                pl.col("meant").n_unique().alias("ways"),
                pl.col("meant").first(),
                ((pl.col("said") == pl.col("a")) | (pl.col("said") == pl.col("b"))).all().alias("names"),
            )
        )
        loose = table.filter((pl.col("ways") > 1) & ~pl.col("names"))
        if loose.height:
            raise InputError(
                f"{WHERE}: verdicts {listed(map(repr, loose['said'].sort()), limit=3)} name systems, but not to the"
                " letter; write model_a, model_b or tie"
            )
        plain = table.filter(~pl.col("names"))
        return dict(zip(plain["said"], plain["meant"], strict=True))


def _of_items(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """By rater: on how many `items` it said something, and the `most` rows of one."""
    of_item = rows.group_by("rater", "item").agg(nw.len().alias("rows"))
    return of_item.group_by("rater").agg(nw.len().alias("items"), nw.col("rows").max().alias("most"))


def _settled(
    plan: _Plan, rows: nw.LazyFrame[Any]
) -> tuple[pl.DataFrame, dict[str, int], list[Note], nw.LazyFrame[Any]]:
    """Signs counted where comparisons stand more than once or several people vote; items by rater; notes; and the
    outcomes that were counted."""
    keys = (*LABELS, "repeat", "shown")
    twice = rows.group_by(*keys).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    if doubled := int(collected(twice.select(nw.len())).item()):
        raise InputError(
            f"{WHERE}: {doubled} verdicts stand twice (same item, systems, rater, repeat and order); if they were asked"
            " in both presentation orders, say which in 'order' (ab, ba); if again, number the runs in 'repeat'"
        )
    settled = plan.comparisons(rows)
    told = collected(settled.group_by("rater").agg(nw.col("half").sum(), nw.col("torn").sum()))
    half, torn = int(told["half"].sum()), int(told["torn"].sum())
    outcomes = plan.outcomes(settled)
    keys = ("rater", "low", "high", "order2", "votes", "sign")
    counts = collected(outcomes.group_by(*keys).agg(nw.len().alias("n")))
    of_items = collected(_of_items(outcomes))
    frame = counts.select(
        "rater",
        pl.min_horizontal("low", "high").alias("system_a"),
        pl.max_horizontal("low", "high").alias("system_b"),
        (pl.col("order2").cast(pl.Float64) / (2 * pl.col("votes"))).alias("order"),
        pl.col("sign").cast(pl.Int64),
        pl.col("n").cast(pl.Int64),
    )
    items = {str(rater): int(n) for rater, n in of_items.select("rater", "items").iter_rows()}
    left = "left out" if plan.orders == "consistent" else "taken as the sign of the mean"
    return (
        frame,
        items,
        noted(
            ("half-judged", half, f"{half} comparisons left out: asked in both orders and answered in one"),
            ("torn-verdicts", torn, f"{torn} comparisons where a rater's verdicts differ by order or repeat: {left}"),
        ),
        outcomes,
    )


def _paired(outcomes: nw.LazyFrame[Any], said: pl.DataFrame, *, metrics: Sequence[str]) -> PairCounts | None:
    """What people and each metric said of the same item, counted; None where there is no metric."""
    if not metrics:
        return None
    columns = {"human": HUMAN} | {f"metric{k}": name for k, name in enumerate(metrics)}
    # A rater has one outcome of a comparison, so its largest is that, and null where it said nothing.
    beside = (
        outcomes.select(
            "item",
            nw.col("low").alias("system"),
            nw.col("high").alias("system_b"),
            **{column: nw.when(nw.col("rater") == name).then(TIE - nw.col("sign")) for column, name in columns.items()},
        )
        .group_by("item", "system", "system_b")
        .agg(*(nw.col(column).max() for column in columns))
        .with_columns(*(nw.col(column).fill_null(SILENT).cast(nw.Int64) for column in columns))
    )
    _, *own = columns
    counted = collected(cells_of(beside, own))
    systems = tuple(sorted({*said["a"], *said["b"]}))
    return summed([counted], systems=systems, metrics=tuple(metrics))


def _counted(frame: pl.DataFrame) -> pl.DataFrame:
    """Signs with how often (`n`) as wins, ties and losses."""
    keys = ("rater", "system_a", "system_b", "order")
    cells = {
        name: pl.col("n").filter(pl.col("sign") == sign).sum()
        for name, sign in (("wins", 1), ("ties", 0), ("losses", -1))
    }
    return frame.group_by(keys).agg(**cells).sort(keys).select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())


def _one(condition: nw.Expr) -> nw.Expr:
    return nw.when(condition).then(nw.lit(1)).otherwise(nw.lit(0))


def _otherwise(condition: nw.Expr, value: int, other: int) -> nw.Expr:
    return nw.when(condition).then(nw.lit(value)).otherwise(nw.lit(other))


def _any(conditions: Sequence[nw.Expr]) -> nw.Expr:
    return reduce(lambda one, other: one | other, conditions)
