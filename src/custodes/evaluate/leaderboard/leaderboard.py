"""Who is best, and how sure is that? Strengths, ranks and groups by people, by metrics, and by people corrected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.setting import DEFAULTS, Setting, selection_of, settings
from custodes.answers.tables import AT_THRESHOLD, count, flag, label, p_value, score, share, table
from custodes.arguments import value_list
from custodes.data.cells import OutcomeCounts
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, noted
from custodes.data.study import Study
from custodes.errors import OptionError, listed
from custodes.evaluate.comparison import Comparison, compared_by_any, label_of
from custodes.evaluate.edges import PAIR
from custodes.evaluate.judges import few_clusters_notes
from custodes.evaluate.leaderboard.contest import (
    NOT_RANDOM,
    Contest,
    CorrectedStanding,
    Rules,
    Standing,
    TieModel,
    decided,
    looked_up,
)
from custodes.evaluate.leaderboard.counted import refuse_more, standing_of, tallies
from custodes.evaluate.leaderboard.covariates import SHOWN_FIRST, check_names, covariate
from custodes.evaluate.parallel import each
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, chunks, up_to_rounding
from custodes.stats.graphs import letters
from custodes.stats.information_gain import MOST
from custodes.stats.strength.more_battles import MOST_PAIRS
from custodes.stats.strength.strengths import interval
from custodes.stats.strength.strengths import p_value as p_of

CORRECTED = "corrected:"
"""Before the name of a metric: people's battles, corrected by it."""

TIES = "ties"
"""The name of Davidson's parameter among the effects."""

ELO, ELO_MEAN = 400 / np.log(10), 1000
"""Points that a strength of 1 is worth, and what a strength of 0 is called, on the scale that chess players know."""

FEWEST = 12
"""Clusters below which intervals are said to be unreliable."""

FEW_RATERS = 3
"""So many raters are all shown where no table is named; of more only people and what corrects them."""


def best_corrected(made: Leaderboard) -> pl.DataFrame:
    """The row of `corrected` with the largest saving of each aspect, where anything was corrected."""
    rows = made.corrected.filter(reason="").sort("saving", descending=True, nulls_last=True, maintain_order=True)
    return rows.unique("aspect", keep="first", maintain_order=True)


def main_rows(made: Leaderboard, table: pl.DataFrame) -> pl.DataFrame:
    """The rows of people, by themselves and corrected by the metric that saves most; all where few raters are there or
    no people."""
    raters = made.systems["rater"]
    if raters.n_unique() <= FEW_RATERS or HUMAN not in raters:
        return table
    best = best_corrected(made).select("aspect", rater=CORRECTED + pl.col("metric"))
    people = made.systems.filter(rater=HUMAN).select("aspect", "rater").unique()
    return table.join(pl.concat([people, best]), on=["aspect", "rater"], how="semi", maintain_order="left")


@result
class Leaderboard(Result):
    """Which system is best, and how sure that is. See `leaderboard`."""

    PICTURE = "leaderboard_strengths"

    systems: pl.DataFrame = table(
        "One row per rater and system, the strongest first.",
        label("rater", f"`{HUMAN}` (people taken together), a metric, or `{CORRECTED}METRIC` (people corrected by it)"),
        label("system", "its name"),
        count("battles", "that it fought: comparisons with another system on one item"),
        count("opponents", "systems that it met", essential=False),
        share(
            "win_rate",
            "share of the points against an opponent, a tie half a point, mean over the opponents it met",
            interval=True,
        ),
        score(
            "strength",
            "log odds of winning against a system of strength 0; the mean of all is 0. An end is null where no battle"
            " says how far it goes",
            interval=True,
        ),
        count("rank", "place by strength, from 1; the interval holds for all systems together", interval=True),
        label("group", "letters: two systems of one rater that share one cannot be told apart; null without a test"),
        flag("may_be_first", "whether no other system (of its part) is clearly stronger", "May be first"),
        score("elo", "strength on the Elo scale: 1000 is the mean, 400 points are odds of 10 to 1", essential=False),
        count("part", "1 the largest; systems of different parts never met, not even through others", essential=False),
        rows=lambda made: main_rows(made, made.systems),
    )
    pairs: pl.DataFrame = table(
        "One row per rater and pair of systems that met.",
        label("rater", "as in `systems`"),
        *PAIR,
        count("battles", "between the two"),
        count("wins", "of system_a", "A better"),
        count("ties", "of the two"),
        count("losses", "of system_a", "B better"),
        share("win_rate", "of system_a: its share of the points, a tie half a point", interval=True),
        share("expected", "the same as strengths expect it, covariates equal"),
        score("difference", "strength of system_a less that of system_b", interval=True, essential=False),
        p_value("p_adjusted", "that the strengths differ, all pairs of the rater tested together", "p, all tested"),
        label("decision", "`+` system_a is clearly stronger, `-` system_b, `=` not told apart; null without a test"),
        label(
            "note",
            f"empty, or `{AT_THRESHOLD}`: the Monte Carlo error of `p_adjusted` leaves the decision open, so it is `=`",
        ),
        count(
            "more_comparisons",
            "further comparisons of an undecided pair, ties included, that would give this joint test 50 % power to"
            f" decide it; null where it is decided, where {MOST:.0f} times the present information does not suffice,"
            f" and for more than {MOST_PAIRS:,} pairs",
            essential=False,
        ),
        essential=False,
    )
    effects: pl.DataFrame = table(
        "One row per rater and what else counts in a battle.",
        label("rater", "as in `systems`"),
        label(
            "effect",
            f"`ties`: Davidson's parameter, where anything tied; `{SHOWN_FIRST}`: of standing in the first place; and"
            " the covariates",
        ),
        score("value", "log odds that it adds (of a length: for an e-fold one); of ties the parameter", interval=True),
        p_value("p_value", "that a covariate counts", "p"),
        rows=lambda made: main_rows(made, made.effects),
    )
    corrected: pl.DataFrame = table(
        "One row per metric that judged more battles than people.",
        label("metric", "its name"),
        count("labels", "battles that people judged, too"),
        count("battles", "that the metric judged, between systems that people judged at all"),
        score("power", "how far the metric is followed where people are silent: 0 not at all, 1 fully"),
        share(
            "saving",
            "of people's battles that the metric makes up for: 1 - variance corrected / people alone; null"
            " where by people somebody won or lost everything",
        ),
        p_value("p_random", "that people's battles are a random part of all, as correction needs", "p, random part"),
        label("reason", "why nothing is corrected; empty where it is"),
    )


@question(
    "custodes leaderboard demo --metrics judge --aspect fluency",
    covariates="Hold equal: length (of texts), or a rater with scores; comma list or repeated.",
    tie_model="A tie is an outcome of its own, or half a win each.",
)
def leaderboard(
    study: Study | OutcomeCounts,
    *,
    covariates: Sequence[str] = (),
    tie_model: TieModel = "davidson",
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Leaderboard:
    """Which system is best and how sure that is: by people, by every metric, and by people corrected with a metric.

    Every two outputs of one item that a rater scored or compared are a battle; scores are compared by the rule for
    ties. `strength` is Bradley-Terry's, with ties by Davidson; two strengths d apart win against each other with odds
    of exp(d). Where the presentation order is known and varies it is held equal, and so is each of `covariates`:
    'length', the log of the ratio of words of two texts, or a rater, by its scores in standard deviations. Then
    strengths are those at equal length, order and so on. Intervals are by clusters of items; those of ranks hold for
    all systems of a rater together, and so do groups and decisions.

    People are 'human'. A row 'corrected:METRIC' stands where the metric judged more battles than people did: people's
    strengths on all battles, estimated from both. It takes for granted that people judged a random part of them (or
    items whose `probability` the items table says); where a test says that this is not so, where people and the metric
    hardly ever differ, or where the order is known but is not the same for both, its values are null.

    People alone and metrics alone are enough. Takes a study, or counts (`count_battles`, `count_pairs`), which know no
    clusters: of them intervals are null, unless every battle is of an item of its own. Raises `OptionError` for unknown
    names and for covariates that do not vary, `InputError` for fewer than two systems or no battle. setting: see
    `Setting`.
    Source: Bradley and Terry 1952; Davidson 1970; Mogstad et al. 2024 (ranks); Angelopoulos et al. 2023 (correction).

    >>> import custodes as cu
    >>> board = cu.leaderboard(cu.read("demo"), aspect="fluency", metrics="judge", resamples=200)
    >>> board.systems.filter(rater="human")["system"][0]
    'Birch'
    """
    labels = tuple(study.raters.direction) if isinstance(study, Study) else ()
    names = tuple(dict.fromkeys(value_list("covariates", covariates, labels=labels)))
    if not isinstance(study, Study):
        refuse_more(names, dict(setting), dict(DEFAULTS))
        return _of_counts(study, tie_model, confidence, resamples, np.random.default_rng(rng), progress)
    check_names(names, study)
    full = settings(setting)
    chosen = study.select(**selection_of(setting), one_side=True)
    comparisons = compared_by_any(chosen, full)
    rules = Rules(
        covariates={
            aspect: [covariate(name, study, aspect=aspect) for name in names] for aspect in {"", *chosen.aspects}
        },
        tie_model=tie_model,
        confidence=confidence,
        resamples=resamples,
    )
    contests = _contests(comparisons, shared=full["ties"] != "calibrated" and not names, not_asked=names)
    distinct = list(dict.fromkeys(contests.values()))
    answer = partial(decided, rules=rules)
    generator = np.random.default_rng(rng)
    made = each(answer, distinct, rng=generator, progress=progress, desc="leaderboard", label=lambda own: own.label)
    of = dict(zip(distinct, made, strict=True))
    standings = {place: of[contest] for place, contest in contests.items()}
    _check_covariates(names, standings)
    notes = [*chosen.notes, *(note for own in comparisons for note in own.notes)]
    told = _Telling(
        systems=chosen.systems, rules=[note.rule for note in notes], confidence=confidence, resamples=resamples
    )
    parts = [
        told.tables(own.aspect, {rater: found for (aspect, rater), found in standings.items() if aspect == own.aspect})
        for own in comparisons
    ]
    held = [name for name in names if any(name in own.compared for own in comparisons)]
    equal = noted(("rater-held-equal", len(held), f"held equal, and so not ranked by: {listed(held)}"))
    return Leaderboard.of(
        [tables for tables, _ in parts], [*notes, *equal, *(note for _, more in parts for note in more)]
    )


def _of_counts(
    counts: OutcomeCounts,
    tie_model: TieModel,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
    progress: Progress,
) -> Leaderboard:
    """The leaderboard of counts, which are of one aspect and hold all that is said."""
    systems, raters, notes = tallies(counts)
    answer = partial(
        standing_of, n_systems=len(systems), tie_model=tie_model, confidence=confidence, resamples=resamples
    )
    made = each(answer, raters, rng=rng, progress=progress, desc="leaderboard", label=lambda own: own.label)
    told = _Telling(systems=systems, rules=[], confidence=confidence, resamples=resamples)
    standings = {own.rater: standing for own, standing in zip(raters, made, strict=True)}
    tables, more = told.tables("", standings)
    return Leaderboard.of([tables], [*notes, *more])


def _contests(
    comparisons: Sequence[Comparison], *, shared: bool, not_asked: Sequence[str]
) -> dict[tuple[str, str], Contest]:
    """By aspect and name, people first; a metric that rates outputs as a whole is asked once for all aspects where its
    battles are `shared`. A rater that is held equal is not asked."""
    found, wholes = dict[tuple[str, str], Contest](), dict[str, Contest]()
    for own in comparisons:
        aspect, table = own.aspect, own.preferences
        battles = {name: table.of_rater(table.raters.index(name)) for name in own.compared if name not in not_asked}
        contest = partial(Contest, design=own.design)
        people = battles.pop(HUMAN, None)
        if people is not None:
            found[aspect, HUMAN] = contest(rater=HUMAN, aspect=aspect, battles=people)
            for name, theirs in battles.items():
                if (looked_up(people, theirs) == ABSENT).any():
                    corrected = contest(rater=CORRECTED + name, aspect=aspect, battles=theirs, people=people)
                    found[aspect, corrected.rater] = corrected
        for name, theirs in battles.items():
            of = "" if shared and name in own.overall else aspect
            made = contest(rater=name, aspect=of, battles=theirs)
            found[aspect, name] = wholes.setdefault(name, made) if not of else made
    return found


def _check_covariates(names: Sequence[str], standings: Mapping[tuple[str, str], Standing | CorrectedStanding]) -> None:
    """Raise `OptionError` for a covariate that tells nothing of any rater's battles."""
    told = [own.standing if isinstance(own, CorrectedStanding) else own for own in standings.values()]
    for name in names:
        if all(name in own.unvaried for own in told if own is not None):
            raise OptionError(
                f"covariates={name!r}: it does not vary beyond the systems, so nobody can tell it from their strengths;"
                " leave it out"
            )


@dataclass(frozen=True, kw_only=True)
class _Telling:
    """Standings as tables and notes, one aspect at a time."""

    systems: tuple[str, ...]
    rules: Sequence[str]
    confidence: float
    resamples: int

    def tables(
        self, aspect: str, standings: Mapping[str, Standing | CorrectedStanding]
    ) -> tuple[dict[str, pl.DataFrame], list[Note]]:
        """The tables of an aspect, and what a reader must know of them."""
        single = {name: own for name, own in standings.items() if isinstance(own, Standing)}
        corrected = {name: own for name, own in standings.items() if isinstance(own, CorrectedStanding)}
        told = {name: own.standing if isinstance(own, CorrectedStanding) else own for name, own in standings.items()}
        shown = {name: own for name, own in told.items() if own is not None}
        tables = Leaderboard.part(
            aspect,
            systems=_below(self._systems(name, own) for name, own in shown.items()),
            pairs=_below(self._pairs(name, own) for name, own in single.items()),
            effects=_below(self._effects(name, own) for name, own in shown.items()),
            corrected={
                "metric": [name.removeprefix(CORRECTED) for name in corrected],
                **{
                    name: np.array([getattr(own, name) for own in corrected.values()], dtype=np.float64)
                    for name in ("labels", "battles", "power", "saving", "p_random")
                },
                "reason": [own.reason for own in corrected.values()],
            },
        )
        return tables, self._notes(aspect, shown, corrected)

    def _systems(self, rater: str, own: Standing) -> dict[str, Any]:
        """The rows of a rater, the strongest of the largest part first."""
        made, ranked = own.made, own.ranks
        names = np.array(self.systems, dtype=object)
        part = _parts(made.component, own.fought)
        alone = own.unknown
        columns = self._with_ends("strength", made.draws, own)
        # Only a penalty keeps a system that won everything from running away.
        open_ = ~made.bounded
        columns["strength_high"] = np.where(open_ & (made.draws[0] > 0), np.nan, columns["strength_high"])
        columns["strength_low"] = np.where(open_ & (made.draws[0] <= 0), np.nan, columns["strength_low"])
        order = np.lexsort((names, np.where(alone, 0, -up_to_rounding(made.draws[0])), alone, part))
        tested = self._tested(own)
        ends = np.where(alone | ~np.array(tested), np.nan, np.stack([ranked.low, ranked.high]))
        first = np.where(np.isnan(ends[0]), None, ends[0] == 1)
        data = {
            "rater": np.full(len(names), rater),
            "system": names,
            "battles": own.fought,
            "opponents": own.opponents,
            "win_rate": own.rates[0],
            "win_rate_low": own.rates_low,
            "win_rate_high": own.rates_high,
            **columns,
            "rank": np.where(alone, np.nan, ranked.rank),
            "rank_low": ends[0],
            "rank_high": ends[1],
            "group": self._groups(own, part, order) if tested else np.full(len(names), None),
            "may_be_first": first,
            "elo": ELO_MEAN + ELO * made.draws[0],
            "part": np.where(alone, np.nan, part),
        }
        return {name: np.asarray(values)[order] for name, values in data.items()}

    def _with_ends(self, name: str, draws: Floats, own: Standing) -> dict[str, Floats]:
        """An estimate as a column, with the ends of its interval from the draws of a standing."""
        low, high = interval(draws, confidence=self.confidence, n_units=own.made.n_units)
        return {name: draws[0], f"{name}_low": low, f"{name}_high": high}

    def _tested(self, own: Standing) -> bool:
        """Whether there is anything to tell systems apart by."""
        return len(own.made.draws) > 1 and own.made.n_units > 1

    def _groups(self, own: Standing, part: Ints, order: Ints) -> np.ndarray:
        """Letters of every part, behind its number where there are several; none for a system without a battle."""
        found = np.full(len(part), None, dtype=object)
        numbers = np.unique(part[~own.unknown])
        for number in numbers:
            inside = [i for i in order if part[i] == number and not own.unknown[i]]
            words = letters(own.ranks.apart[np.ix_(inside, inside)], range(len(inside)))
            found[inside] = [f"{number}{word}" if len(numbers) > 1 else word for word in words]
        return found

    def _pairs(self, rater: str, own: Standing) -> dict[str, Any]:
        met, made, names = own.met, own.made, np.array(self.systems, dtype=object)
        assert met is not None
        difference, low, high = (np.empty(len(met.first)) for _ in range(3))
        for block in chunks(len(met.first), len(made.draws)):
            draws = made.draws[:, met.first[block]] - made.draws[:, met.second[block]]
            difference[block], low[block], high[block] = self._with_ends("difference", draws, own).values()
        p_value, apart = own.ranks.p_adjusted[met.first, met.second], own.ranks.apart[met.first, met.second]
        # What a draw of a system without bounds is worth is not known.
        open_ = ~(made.bounded[met.first] & made.bounded[met.second])
        decided = np.where(~apart, "=", np.where(difference > 0, "+", "-"))
        return {
            "rater": [rater] * len(met.first),
            "system_a": names[met.first],
            "system_b": names[met.second],
            "battles": met.outcomes.sum(axis=1),
            **{name: met.outcomes[:, i] for i, name in enumerate(("wins", "ties", "losses"))},
            "win_rate": met.rate,
            "win_rate_low": met.low,
            "win_rate_high": met.high,
            "expected": _expected(difference, float(np.nan_to_num(made.ties[0]))),
            "difference": difference,
            "difference_low": np.where(open_ & (difference <= 0), np.nan, low),
            "difference_high": np.where(open_ & (difference > 0), np.nan, high),
            "p_adjusted": p_value,
            "decision": decided if self._tested(own) else np.full(len(decided), None),
            "note": np.where(own.ranks.at_threshold[met.first, met.second], AT_THRESHOLD, ""),
            "more_comparisons": own.more_battles,
        }

    def _effects(self, rater: str, own: Standing) -> dict[str, Any]:
        made, names = own.made, list(own.effects)
        columns = self._with_ends("value", made.effects, own) | {"p_value": p_of(made.effects, n_units=made.n_units)}
        if made.ties[0] > 0:  # something tied, and a tie is not half a win
            logs = self._with_ends("value", np.log(made.ties), own)
            of_ties = {name: np.exp(value) for name, value in logs.items()} | {"p_value": np.nan}
            names = [TIES, *names]
            columns = {name: np.append(of_ties[name], values) for name, values in columns.items()}
        return {"rater": [rater] * len(names), "effect": names, **columns}

    def _notes(
        self, aspect: str, shown: Mapping[str, Standing], corrected: Mapping[str, CorrectedStanding]
    ) -> list[Note]:
        systems, label = self.systems, label_of(aspect)
        said = defaultdict[tuple[str, str], list[str]](list)  # rule and message, and whom it is about
        for rater, own in shown.items():
            part, alone = _parts(own.made.component, own.fought), own.unknown
            if alone.any() and rater not in corrected:
                said["no-battle", f"no battle of {_some(systems, alone)}, so nothing is known of them"].append(rater)
            parts = [_some(systems, (part == p) & ~alone) for p in np.unique(part[~alone])]
            if len(parts) > 1:
                apart = f"systems that never met, not even through others, cannot be compared: {' | '.join(parts)}"
                said["split", f"{apart}. Ranks and groups hold within each part"].append(rater)
            if own.met is not None and not own.met.outcomes[:, [0, 2]].any():
                said["all-ties", "every battle is a tie, so nothing tells systems apart"].append(rater)
            elif message := _unbounded(systems, own):
                said["unbeaten", message].append(rater)
            unmet = (own.opponents < (~alone).sum() - 1) & ~alone
            if unmet.any() and own.met is not None:
                message = (
                    "not every two systems met, so win rates are against different opponents; strengths allow for it"
                )
                said["not-all-met", message].append(rater)
            for name in own.unvaried:
                said["unvaried", f"{name} does not vary beyond the systems, so it is not held equal"].append(rater)
            if own.missing:
                said["no-covariate", f"{own.missing} battles without a covariate are left out"].append(rater)
        for name, mine in corrected.items():
            if mine.reason:
                message = f"not corrected, as {mine.reason}"
                if mine.p_random < NOT_RANDOM:
                    message += (
                        "; the standing of systems by people holds for the battles that they judged and no others"
                    )
                said["not-corrected", message].append(name.removeprefix(CORRECTED))
        notes = [
            Note(rule=rule, message=f"{listed(raters, limit=4)}{label}: {message}", aspect=aspect)
            for (rule, message), raters in said.items()
        ]
        if HUMAN in shown and "sides" not in self.rules and len(systems) == 2 and (shown[HUMAN].rates[0] == 1).any():
            message = (
                f"people always prefer {_some(systems, shown[HUMAN].rates[0] == 1)}{label}: if these are sides (chosen,"
                " rejected) and not systems, a leaderboard says nothing"
            )
            notes += noted(("one-sided-people", True, message), aspect=aspect)
        fewest = min((own.made.clusters for own in shown.values()), default=FEWEST)
        notes += few_clusters_notes(fewest, self.resamples, fewest=FEWEST, aspect=aspect)
        one = f"one item or cluster only{label}: nothing to resample, so no intervals"
        return [*notes, *noted(("one-item", fewest < 2, one), aspect=aspect)]


def _below(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of several raters below each other: numbers as arrays, the rest as lists."""
    made = list(rows)
    whole = {name: np.concatenate([np.asarray(own[name]) for own in made]) for name in (made[0] if made else ())}
    return {name: own if own.dtype.kind in "fi" else own.tolist() for name, own in whole.items()}


def _parts(component: Ints, fought: Ints) -> Ints:
    """(systems,): the number of each one's component, 1 that with the most battles."""
    size = np.bincount(component, weights=fought)
    return np.asarray(np.argsort(np.argsort(-size, kind="stable"))[component] + 1)


def _unbounded(systems: Sequence[str], own: Standing) -> str:
    """What to say of systems that only a penalty keeps from running away; nothing where there is none."""
    open_ = ~own.made.bounded & ~own.unknown
    if not open_.any():
        return ""
    kinds = (
        (own.rates[0] == 1, "won every battle"),
        (own.rates[0] == 0, "lost every battle"),
        (~np.isin(own.rates[0], [0, 1]), "won or lost everything against others, alone or as a group"),
    )
    told = [f"{_some(systems, open_ & which)} {what}" for which, what in kinds if (open_ & which).any()]
    return f"{', '.join(told)}: how far away that puts them is not known, so one end of their interval is left open"


def _some(systems: Sequence[str], chosen: Bools) -> str:
    return listed(list(compress(systems, chosen)), limit=6)


def _expected(difference: Floats, ties: float) -> Floats:
    """The share of the points that Davidson's model expects at a difference of strengths."""
    up, down = np.exp(difference / 2), np.exp(-difference / 2)
    return np.asarray((up + ties / 2) / (up + down + ties))
