"""The answer in plain words, made from results; it never says more than the intervals allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from custodes.evaluate.agreement import Agreement
from custodes.evaluate.check import Check
from custodes.evaluate.comparison import HUMAN
from custodes.evaluate.favoritism import FEW_ERRORS, Favoritism
from custodes.evaluate.ranking import Ranking
from custodes.reporting.wording import interval, names, number, percent, plural

Kind = Literal["design", "trust", "chance", "favours", "flips", "uncertain"]
HEADINGS: dict[Kind, str] = {
    "design": "Read this first",
    "trust": "Whom to trust",
    "chance": "No better than chance",
    "favours": "Who favours whom",
    "flips": "Decisions that flip",
    "uncertain": "Too uncertain to say",
}

ORDERING = "kendall_item"
CHOOSING = "sample_accuracy"
MOST_NAMED = 3
"""Below this part of people's ranking a system has little to lose by a metric's errors."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One sentence or two under a heading."""

    kind: Kind
    text: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`overall` over all aspects, and one list an aspect ('' where the study has none)."""

    overall: tuple[Statement, ...]
    aspects: dict[str, tuple[Statement, ...]]
    best: dict[str, str]

    def lines(self) -> list[str]:
        """Plain text, one statement a line."""
        rows = [f"{HEADINGS[s.kind]}: {s.text}" for s in self.overall]
        for aspect, statements in self.aspects.items():
            rows += [f"{aspect + ': ' if aspect else ''}{HEADINGS[s.kind]}: {s.text}" for s in statements]
        return rows


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How the metrics of one aspect stand to each other: by `statistic`, best first."""

    statistic: str
    ranked: tuple[dict[str, Any], ...]
    level: tuple[str, ...]
    tested: bool
    above: tuple[str, ...]
    unclear: tuple[str, ...]
    below: tuple[str, ...]

    @property
    def leaders(self) -> tuple[str, ...]:
        """The best metric and those that cannot be told apart from it, if it is better than chance at all."""
        return (self.ranked[0]["metric"], *self.level) if self.ranked and self.above else ()


def verdict(
    *, check: Check, agreement: Agreement, favoritism: Favoritism, ranking: Ranking, alpha: float = 0.05
) -> Verdict:
    """Plain sentences per aspect, and one set over all of them."""
    aspects: list[str] = agreement.metrics["aspect"].unique(maintain_order=True).to_list()
    told: dict[str, tuple[Statement, ...]] = {}
    standings: dict[str, Standing] = {}
    sided: list[str] = []
    for aspect in aspects:
        standing = standing_of(agreement, favoritism, aspect, alpha=alpha)
        standings[aspect] = standing
        one_sided = _problems(check, aspect).filter(pl.col("rule") == "one-sided-people").height > 0
        sided += [aspect] if one_sided else []
        statements = [*_design(check, aspect), *_trust(standing, agreement, aspect), *_chance(standing)]
        if not one_sided:
            statements += [*_favours(favoritism, ranking, standing, aspect), *_flips(ranking, standing, aspect)]
        statements += _uncertain(standing, favoritism, ranking, check, aspect, one_sided)
        told[aspect] = tuple(statements)
    best = {aspect: s.ranked[0]["metric"] for aspect, s in standings.items() if s.ranked}
    overall = () if len(aspects) == 1 else tuple(_overall(standings, favoritism, sided))
    return Verdict(overall=overall, aspects=told, best=best)


def standing_of(agreement: Agreement, favoritism: Favoritism, aspect: str, *, alpha: float) -> Standing:
    """Ranks the metrics of an aspect by Kendall's tau within items; by sample accuracy where that is undefined.

    Two systems leave one pair an item, where tau is a sign: sample accuracy says it better.
    """
    metrics = agreement.metrics.filter(pl.col("aspect") == aspect)
    n_systems = favoritism.systems.filter(pl.col("aspect") == aspect)["system"].n_unique()
    comparable = metrics.filter(pl.col(CHOOSING).is_not_null())
    usable = n_systems > 2 and comparable.height > 0 and comparable[ORDERING].is_not_null().all()
    statistic = ORDERING if usable else CHOOSING
    chance = chance_accuracy(favoritism, aspect)
    rows = metrics.filter(pl.col(statistic).is_not_null()).sort(statistic, descending=True, maintain_order=True)
    ranked = []
    groups: dict[str, list[str]] = {"above": [], "unclear": [], "below": []}
    for row in rows.iter_rows(named=True):
        at_chance = 0.0 if usable else chance.get(row["metric"], float("nan"))
        low, high = row[f"{statistic}_low"], row[f"{statistic}_high"]
        ranked.append(
            {
                "metric": row["metric"],
                "value": row[statistic],
                "low": low,
                "high": high,
                "at_chance": at_chance,
                "accuracy": row[CHOOSING],
                "chance_accuracy": chance.get(row["metric"]),
            }
        )
        side = "unclear" if low is None else "above" if low > at_chance else "below" if high < at_chance else "unclear"
        groups[side].append(row["metric"])
    level, tested = _level_with_best(agreement, aspect, statistic, [r["metric"] for r in ranked], alpha)
    level = tuple(name for name in level if name in groups["above"])
    return Standing(
        statistic=statistic,
        ranked=tuple(ranked),
        level=level,
        tested=tested,
        **{name: tuple(group) for name, group in groups.items()},
    )


def chance_accuracy(favoritism: Favoritism, aspect: str) -> dict[str, float]:
    """Sample accuracy a metric would have if its choices had nothing to do with people's, at the tie rates of both.

    With people's tie rate t and the metric's u over all comparisons: t u + (1 - t)(1 - u) / 2.
    """
    counts = favoritism.confusion.filter(pl.col("aspect") == aspect)
    ties_people = pl.col("tie_win") + pl.col("tie_tie") + pl.col("tie_loss")
    ties_metric = pl.col("win_tie") + pl.col("tie_tie") + pl.col("loss_tie")
    n = pl.sum_horizontal(pl.col("^(win|tie|loss)_(win|tie|loss)$"))
    rates = (
        counts.group_by("metric", maintain_order=True)
        .agg(n.sum().alias("n"), ties_people.sum().alias("t"), ties_metric.sum().alias("u"))
        .filter(pl.col("n") > 0)
        .with_columns(pl.col("t", "u") / pl.col("n"))
    )
    chance = rates.select("metric", chance=pl.col("t") * pl.col("u") + (1 - pl.col("t")) * (1 - pl.col("u")) / 2)
    return dict(chance.iter_rows())


def _level_with_best(
    agreement: Agreement, aspect: str, statistic: str, ranked: Sequence[str], alpha: float
) -> tuple[tuple[str, ...], bool]:
    """The metrics that the best one is not clearly better than (Benjamini and Hochberg); whether any was tested."""
    if len(ranked) < 2:
        return (), True
    best = ranked[0]
    rows = agreement.comparisons.filter(
        (pl.col("aspect") == aspect)
        & (pl.col("statistic") == statistic)
        & ((pl.col("metric_a") == best) | (pl.col("metric_b") == best))
        & pl.col("p_value").is_not_null()
    ).sort("p_value", maintain_order=True)
    # Step-up: with many metrics a permutation p-value is too coarse for a bound on any single false claim.
    found = [i + 1 for i, p in enumerate(rows["p_value"]) if p <= alpha * (i + 1) / rows.height]
    clear = rows.head(max(found, default=0))
    worse = {*clear["metric_a"], *clear["metric_b"]}
    return tuple(name for name in ranked[1:] if name not in worse), rows.height > 0


def _problems(check: Check, aspect: str) -> pl.DataFrame:
    return check.problems.filter(pl.col("aspect") == aspect)


def _design(check: Check, aspect: str) -> list[Statement]:
    serious = _problems(check, aspect).filter(pl.col("severity") != "info")
    return [
        Statement(kind="design", text=_sentence(message))
        for message in serious.filter(pl.col("rule") != "against-people")["message"]
    ]


def _trust(standing: Standing, agreement: Agreement, aspect: str) -> list[Statement]:
    if not standing.ranked:
        return [Statement(kind="trust", text="No metric can be compared with people here: agreement is undefined.")]
    best = standing.ranked[0]
    if not standing.above:
        if all(row["low"] is None for row in standing.ranked):
            text = f"{best['metric']} has the highest agreement ({_score(standing, best)}), but without intervals"
            return [Statement(kind="trust", text=f"{text} nobody can say whether that is more than chance.")]
        return [Statement(kind="trust", text="No metric agrees with people clearly better than chance.")]
    text = f"{best['metric']} agrees best with people: {_score(standing, best)}"
    if standing.statistic == ORDERING:
        text += f"; it decides {percent(best['accuracy'])} of comparisons as people do"
    if best["chance_accuracy"] is not None:
        text += f" (guessing, with as many ties: {percent(best['chance_accuracy'])})"
    text += "."
    if not standing.tested:
        text += " Whether it is better than the next ones was not tested."
    elif standing.level:
        text += f" It cannot be told apart from {names(standing.level)}."
    elif len(standing.ranked) > 1:
        text += f" It is clearly better than {'the other one' if len(standing.ranked) == 2 else 'all others'}."
    return [Statement(kind="trust", text=text)]


def _score(standing: Standing, row: dict[str, Any]) -> str:
    if standing.statistic == ORDERING:
        return f"Kendall's τ within items {interval(row['value'], row['low'], row['high'])}"
    shown = percent(row["value"])
    if row["low"] is not None:
        shown += f" [{percent(row['low'])}, {percent(row['high'])}]"
    return f"same choice as people in {shown} of comparisons"


def _chance(standing: Standing) -> list[Statement]:
    said = []
    if standing.unclear and any(row["low"] is not None for row in standing.ranked):
        it, one = (
            ("its interval includes", "a metric") if len(standing.unclear) == 1 else ("their intervals include", "one")
        )
        text = f"{names(standing.unclear)}: {it} what {one} that knows nothing would get."
        said.append(Statement(kind="chance", text=text))
    if standing.below:
        single = len(standing.below) == 1
        text = f"{names(standing.below)} {'runs' if single else 'run'} against people more than guessing would."
        if standing.statistic == ORDERING:
            text += (
                f" {'Is it a distance' if single else 'Are they distances'}, where lower is better? Then say so in a"
            )
            text += " raters file."
        said.append(Statement(kind="chance", text=text))
    return said


def favoured(favoritism: Favoritism, aspect: str) -> list[dict[str, Any]]:
    """Metric and system where errors favour the system against most others, and clearly against none; largest first.

    Clear: the interval of the pair's Favi-Score excludes 0 and there are at least five errors. Left out: what an
    even-handed metric of the same accuracy would show too (`favi_even`), the favour of noise for the weaker system.
    """
    pairs = favoritism.pairs.filter((pl.col("aspect") == aspect) & pl.col("favi").is_not_null())
    solid = pl.col("errors") >= FEW_ERRORS
    first = pairs.select(
        "metric",
        system="system_a",
        favi="favi",
        even="favi_even",
        up=solid & (pl.col("favi_low") > 0),
        down=solid & (pl.col("favi_high") < 0),
    )
    second = pairs.select(
        "metric",
        system="system_b",
        favi=-pl.col("favi"),
        even=-pl.col("favi_even"),
        up=solid & (pl.col("favi_high") < 0),
        down=solid & (pl.col("favi_low") > 0),
    )
    rows = (
        pl.concat([first, second])
        .group_by("metric", "system", maintain_order=True)
        .agg(
            pl.col("favi").mean().alias("favi"),
            pl.col("even").mean().alias("even"),
            pl.col("favi").min().alias("least"),
            pl.col("favi").max().alias("most"),
            pl.col("up").sum(),
            pl.col("down").sum(),
            pl.len().alias("opponents"),
        )
    )
    clear = (pl.col("up") * 2 > pl.col("opponents")) & (pl.col("down") == 0)
    partial = pl.col("favi") > pl.col("even")
    beyond = pl.col("favi") - pl.col("even").clip(lower_bound=0)
    return rows.filter(clear & partial).sort(beyond, descending=True, maintain_order=True).to_dicts()


def _favours(favoritism: Favoritism, ranking: Ranking, standing: Standing, aspect: str) -> list[Statement]:
    found = favoured(favoritism, aspect)
    places = {
        row["system"]: row["position"]
        for row in ranking.consensus.filter(
            (pl.col("aspect") == aspect) & (pl.col("rater") == HUMAN) & pl.col("position").is_not_null()
        ).iter_rows(named=True)
    }
    informed = [row for row in found if row["metric"] not in (*standing.unclear, *standing.below)]
    said = []
    shown: list[dict[str, Any]] = []
    for row in informed:
        if row["metric"] not in [other["metric"] for other in shown]:
            shown.append(row)
    # Leaders first, whom a reader would otherwise trust.
    shown.sort(key=lambda row: row["metric"] not in standing.leaders)
    for row in shown[:MOST_NAMED]:
        place = places.get(row["system"])
        where = f", number {place} of {len(places)} by people" if place else ""
        against = "its only opponent" if row["opponents"] == 1 else f"{row['up']} of {row['opponents']} others"
        text = (
            f"When {row['metric']} errs, it errs for {row['system']}{where}: Favi-Score {number(row['favi'])} on"
            f" average ({number(row['least'])} to {number(row['most'])} over opponents), clearly above 0 against"
            f" {against}; an even-handed metric of its accuracy would have {number(row['even'])}."
        )
        said.append(Statement(kind="favours", text=text))
    metrics = favoritism.metrics.filter(pl.col("aspect") == aspect)
    beyond = metrics.filter(pl.col("mean_abs_favi_low") > pl.col("mean_abs_favi_chance"))["metric"].to_list()
    rated = metrics.filter(pl.col("mean_abs_favi_low").is_not_null())["metric"].to_list()
    if rated:
        text = f"{len(beyond)} of {plural(len(rated), 'metric')} err more one-sidedly than by a coin"
        fair = [name for name in rated if name not in beyond]
        text += f"; not so for {names(fair)}." if fair and beyond else "."
        if len(shown) > MOST_NAMED:
            text += f" {plural(len(shown), 'metric')} clearly favour some system, beyond what noise explains."
        said.append(Statement(kind="favours", text=text))
    elif not said:
        said.append(Statement(kind="favours", text="No metric clearly favours one system beyond what noise explains."))
    return said


def inversions(ranking: Ranking, aspect: str) -> pl.DataFrame:
    """Pairs that people and metrics decide in opposite directions: better, worse (by people), metrics, most first."""
    rows = ranking.decisions.filter(pl.col("aspect") == aspect)
    people = rows.filter((pl.col("rater") == HUMAN) & pl.col("decision").is_in(["+", "-"]))
    both = rows.filter(pl.col("rater") != HUMAN).join(
        people.select("system_a", "system_b", human="decision"), on=["system_a", "system_b"], maintain_order="left"
    )
    opposite = both.filter(pl.col("decision").is_in(["+", "-"]) & (pl.col("decision") != pl.col("human")))
    plus = pl.col("human") == "+"
    return (
        opposite.select(
            better=pl.when(plus).then("system_a").otherwise("system_b"),
            worse=pl.when(plus).then("system_b").otherwise("system_a"),
            metric="rater",
        )
        .group_by("better", "worse", maintain_order=True)
        .agg("metric")
        .sort(pl.col("metric").list.len(), descending=True, maintain_order=True)
    )


def _flips(ranking: Ranking, standing: Standing, aspect: str) -> list[Statement]:
    errors = ranking.errors.filter((pl.col("aspect") == aspect) & pl.col("correct").is_not_null())
    decided = ranking.decisions.filter(
        (pl.col("aspect") == aspect) & (pl.col("rater") == HUMAN) & pl.col("decision").is_not_null()
    )
    if not errors.height or not decided.height:
        return []
    said = []
    for row in errors.filter(pl.col("metric") == standing.ranked[0]["metric"] if standing.ranked else False).to_dicts():
        text = (
            f"{row['metric']} decides {interval_percent(row, 'correct')} of {plural(decided.height, 'system pair')} as"
            f" people do, reverses {percent(row['inversion'])}, misses a difference that people see in"
            f" {percent(row['omission'])} and sees one that people do not in {percent(row['insertion'])}."
        )
        said.append(Statement(kind="flips", text=text))
    flips = inversions(ranking, aspect)
    if not flips.height:
        return [*said, Statement(kind="flips", text="No metric significantly reverses a decision of people.")]
    for row in flips.head(MOST_NAMED).to_dicts():
        text = (
            f"People find {row['better']} better than {row['worse']}; {names(row['metric'])}"
            f" {'says' if len(row['metric']) == 1 else 'say'} the opposite."
        )
        said.append(Statement(kind="flips", text=text))
    if flips.height > MOST_NAMED:
        said.append(
            Statement(kind="flips", text=f"In all, {plural(flips.height, 'pair')} are reversed by some metric.")
        )
    return said


def interval_percent(row: dict[str, Any], name: str) -> str:
    """A share with its interval, in per cent."""
    if row[f"{name}_low"] is None:
        return percent(row[name])
    return f"{percent(row[name])} [{percent(row[f'{name}_low'])}, {percent(row[f'{name}_high'])}]"


def _uncertain(
    standing: Standing, favoritism: Favoritism, ranking: Ranking, check: Check, aspect: str, one_sided: bool
) -> list[Statement]:
    texts = []
    people = ranking.decisions.filter(
        (pl.col("aspect") == aspect) & (pl.col("rater") == HUMAN) & pl.col("decision").is_not_null()
    )
    open_pairs = people.filter(pl.col("decision") == "=").height
    if open_pairs and not one_sided:
        texts.append(f"People themselves do not decide {open_pairs} of {plural(people.height, 'system pair')}.")
    tables = favoritism.pairs.filter((pl.col("aspect") == aspect) & (pl.col("n") > 0))
    few = tables.filter(pl.col("errors") < FEW_ERRORS).height
    if few and not one_sided:
        texts.append(
            f"{few} of {tables.height} Favi-Scores rest on fewer than {FEW_ERRORS} errors, too few to say who is"
            " favoured."
        )
    if standing.ranked and all(row["low"] is None for row in standing.ranked):
        texts.append("There are no intervals, so no difference here is known to be more than chance.")
    elif standing.level:
        texts.append(f"Which of {names(standing.leaders)} is best.")
    for note in (*ranking.notes, *favoritism.notes):
        about = f"aspect {aspect!r}" in note.message if aspect else True
        if note.rule == "self-agreement" and about and not one_sided:
            texts.append(_sentence(note.message))
    return [Statement(kind="uncertain", text=text) for text in dict.fromkeys(texts)]


def _overall(standings: dict[str, Standing], favoritism: Favoritism, sided: Sequence[str]) -> list[Statement]:
    aspects = list(standings)
    said = []
    leading = [set(s.leaders) for s in standings.values()]
    order = [row["metric"] for row in standings[aspects[0]].ranked]
    everywhere = [name for name in order if all(name in group for group in leading)]
    if everywhere:
        verb = "is" if len(everywhere) == 1 else "are"
        text = f"{names(everywhere)} {verb} best, or not told apart from the best, on {_all(aspects)}."
    else:
        each = [f"{s.leaders[0]} on {aspect}" for aspect, s in standings.items() if s.leaders]
        text = "No metric is among the best on every aspect" + (f": best are {names(each)}." if each else ".")
    said.append(Statement(kind="trust", text=text))
    nowhere = [name for name in order if not any(name in s.above for s in standings.values())]
    tested = any(s.above or s.below for s in standings.values())
    if nowhere and tested:
        text = f"{names(nowhere)}: on no aspect clearly better than knowing nothing."
        said.append(Statement(kind="chance", text=text))
    clear = {aspect: favoured(favoritism, aspect) for aspect in aspects if aspect not in sided}
    pairs = [{(row["metric"], row["system"]) for row in found} for found in clear.values()]
    weights = {(row["metric"], row["system"]): row["favi"] for found in clear.values() for row in found}
    informed = {name for s in standings.values() for name in s.above}
    constant = sorted(
        (pair for pair in set.intersection(*pairs) if pair[0] in informed) if pairs else (),
        key=lambda pair: (-weights[pair], pair),
    )
    for metric, system in constant[:MOST_NAMED]:
        text = f"{metric} favours {system} on {_all(clear)}: its errors go that way against most others."
        said.append(Statement(kind="favours", text=text))
    if len(constant) > MOST_NAMED:
        more = (
            f"{plural(len(constant) - MOST_NAMED, 'more pair')} of metric and system stand like this on every aspect."
        )
        said.append(Statement(kind="favours", text=more))
    return said


def _all(aspects: Sequence[str] | dict[str, Any]) -> str:
    return "both aspects" if len(aspects) == 2 else f"all {len(aspects)} aspects"


def _sentence(message: str) -> str:
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."
