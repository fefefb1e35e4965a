"""What does it all mean? The answer in plain words; it never says more than the intervals allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, Unpack

import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.setting import Setting
from custodes.answers.tables import label, p_value, score, table
from custodes.answers.wording import names, number, percent, plural, sentence, with_ends
from custodes.data.study import Study
from custodes.evaluate.agreement.agreement import Agreement, agreement
from custodes.evaluate.agreement.standing import ORDERING
from custodes.evaluate.check import Check, check
from custodes.evaluate.comparison import HUMAN
from custodes.evaluate.favoritism import Favoritism, favoritism
from custodes.evaluate.partiality import DISFAVOURED, FAVOURED, UNTOLD
from custodes.evaluate.ranking import Ranking, ranking
from custodes.progress import Progress, silent

Kind = Literal["design", "trust", "chance", "favours", "flips", "uncertain"]
HEADINGS: Mapping[Kind, str] = {
    "design": "Read this first",
    "trust": "Whom to trust",
    "chance": "Not clearly better than chance",
    "favours": "Who favours whom",
    "flips": "Decisions that flip",
    "uncertain": "Too uncertain to say",
}
MOST_NAMED = 3
MARKED_EFFECT = 1.5
"""The design effect from which clusters of items are named first."""
LETTER = re.compile(r"[a-z]\d*")
Row = dict[str, Any]


@result
class Verdict(Result):
    """What check, agreement, favoritism and ranking say together, in plain words. See `verdict`."""

    verdict: pl.DataFrame = table(
        "One row a sentence or two; without aspect where it is about all of them.",
        label("kind", "what it is about: design, trust, chance, favours, flips or uncertain"),
        label("text", "the sentence", ""),
        label("rater", "the metric that it is about, empty for none or several", essential=False),
        label("system", "the system that it is about", essential=False),
        score(
            "value",
            "the number behind it: agreement, points of win rate, or share of decisions",
            interval=True,
            essential=False,
        ),
        p_value("p_value", "the largest of the tests behind it; null where intervals decide", essential=False),
    )

    def lines(self) -> Iterator[str]:
        """Plain text, one statement a line."""
        for aspect, kind, text in self.verdict.select("aspect", "kind", "text").iter_rows():
            yield f"{aspect}{': ' if aspect else ''}{HEADINGS[kind]}: {text}"


@question("custodes verdict ratings.csv --aspect coherence")
def verdict(
    study: Study,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Verdict:
    """The answer in plain words: whom to trust, who is no better than chance, who favours whom, which decisions flip.

    Made from `check`, `agreement`, `favoritism` and `ranking`, asked with the same arguments; see there for what the
    numbers mean and which errors are raised. What is told of metrics and of chance holds for all metrics of an aspect
    together, at level `alpha`; the aspects are not corrected for each other.

    >>> import custodes as cu
    >>> told = cu.verdict(cu.read("demo"), resamples=50, aspect="coherence")
    >>> told.verdict["kind"].unique(maintain_order=True).to_list()[0]
    'trust'
    """
    asked: dict[str, Any] = {"rng": rng, "progress": progress, **setting}
    bounds: dict[str, Any] = {"confidence": confidence, "resamples": resamples, **asked}
    return told_by(
        check(study, **asked),
        agreement(study, alpha=alpha, **bounds),
        favoritism(study, alpha=alpha, **bounds),
        ranking(study, alpha=alpha, **bounds),
    )


def told_by(check: Check, agreement: Agreement, favoritism: Favoritism, ranking: Ranking) -> Verdict:
    """The verdict of results of one study, without a provenance."""
    views = [
        _View(check, agreement, favoritism, ranking, str(aspect))
        for aspect in agreement.metrics["aspect"].unique(maintain_order=True)
    ]
    parts = [] if len(views) == 1 else [_part("", _overall(views))]
    return Verdict.of([*parts, *(_part(view.aspect, _told(view)) for view in views)], ())


@dataclass(frozen=True, kw_only=True)
class _Statement:
    """One sentence or two, and the number behind it."""

    kind: Kind
    text: str
    rater: str = ""
    system: str = ""
    value: float | None = None
    value_low: float | None = None
    value_high: float | None = None
    p_value: float | None = None


def _part(aspect: str, statements: Iterable[_Statement]) -> dict[str, pl.DataFrame]:
    rows = [asdict(statement) for statement in statements]
    return Verdict.part(aspect, verdict={name: [row[name] for row in rows] for name in rows[0]} if rows else {})


class _View:
    """What the results say of one aspect: rows of their tables, and how the metrics stand (`standing`, best first)."""

    def __init__(
        self, check: Check, agreement: Agreement, favoritism: Favoritism, ranking: Ranking, aspect: str
    ) -> None:
        self.aspect = aspect
        self.problems = check.problems.filter(aspect=aspect)
        self.sided = "one-sided-people" in self.problems["rule"]
        self.standing: list[Row] = (
            agreement.standing.filter(aspect=aspect)
            .join(
                agreement.metrics.select("aspect", "metric", "sample_accuracy", "sample_accuracy_chance"),
                on=["aspect", "metric"],
                maintain_order="left",
            )
            .to_dicts()
        )
        self.ordered = bool(self.standing) and self.standing[0]["statistic"] == ORDERING
        self.tested = len(self.standing) < 2 or any(row["may_be_best"] is not None for row in self.standing)
        self.tests = agreement.comparisons.filter(aspect=aspect)
        self.leaders = leaders(agreement).get(aspect, [])
        self.favi = {name: frame.filter(aspect=aspect) for name, frame in favoritism.tables().items()}
        self.decided = {name: frame.filter(aspect=aspect) for name, frame in ranking.tables().items()}
        self.people = self.decided["decisions"].filter(pl.col("decision").is_not_null(), rater=HUMAN)
        self.again = [note for note in ranking.notes if note.rule == "self-agreement" and note.aspect == aspect]

    def side(self, name: str) -> list[str]:
        """The metrics on one side of chance."""
        return [row["metric"] for row in self.standing if row["side"] == name]

    @property
    def bounded(self) -> bool:
        """Whether there are intervals."""
        return any(row["value_low"] is not None for row in self.standing)

    @property
    def partial(self) -> list[Row]:
        """Metric and system that it is partial to (or against), the clearest first."""
        found = self.favi["partiality"].filter(pl.col("finding").is_in([FAVOURED, DISFAVOURED]))
        return found.sort("p_adjusted", "p_value", maintain_order=True).to_dicts()


def leaders(agreement: Agreement) -> dict[str, list[str]]:
    """Aspect to the metrics that may be best, the highest first; empty where none is above chance.

    Where metrics were not compared, those above chance.
    """
    found: dict[str, list[str]] = {}
    for (aspect,), rows in agreement.standing.group_by("aspect", maintain_order=True):
        above = pl.col("side") == "above"
        some = rows.filter(pl.col("may_be_best").fill_null(above))["metric"].to_list()
        found[str(aspect)] = some if rows.filter(above).height else []
    return found


def _told(view: _View) -> list[_Statement]:
    said = [*_design(view), *_trust(view), *_chance(view)]
    return [*said, *([] if view.sided else [*_favours(view), *_flips(view)]), *_uncertain(view)]


def _design(view: _View) -> Iterator[_Statement]:
    serious = view.problems.filter(pl.col("severity") != "info", pl.col("rule") != "against-people")
    for message in serious["message"]:
        yield _Statement(kind="design", text=sentence(message))
    effects = view.decided["decisions"].filter(rater=HUMAN)["design_effect"].drop_nulls()
    if len(effects) and (mean := float(effects.mean() or 0.0)) >= MARKED_EFFECT:  # type: ignore[arg-type]
        text = (
            f"Items of one document are alike: people's margins vary {number(mean, digits=1)} times as much as with"
            " independent items. Tests and intervals allow for it."
        )
        yield _Statement(kind="design", text=text, value=mean)


def _trust(view: _View) -> Iterator[_Statement]:
    if not view.standing:
        yield _Statement(kind="trust", text="No metric can be compared with people here: agreement is undefined.")
        return
    best, *others = view.standing
    numbers = {name: best[name] for name in ("value", "value_low", "value_high")}
    if not view.side("above"):
        text = "No metric agrees with people clearly better than chance."
        if not view.bounded:
            text = (
                f"{best['metric']} has the highest agreement ({_score(view, best)}), but without intervals nobody can"
                " say whether that is more than chance."
            )
        yield _Statement(kind="trust", text=text, **numbers)
        return
    level = [row["metric"] for row in others if _share_a_letter(best, row)]
    clear = bool(others) and view.tested and not level
    text = f"{best['metric']} {'agrees best' if clear else 'has the highest agreement'} with people: "
    text += _score(view, best)
    if view.ordered:
        text += f"; it decides {percent(best['sample_accuracy'])} of comparisons as people do"
    if best["sample_accuracy_chance"] is not None:
        text += f" (guessing, with as many ties: {percent(best['sample_accuracy_chance'])})"
    text += "."
    if not view.tested:
        text += " Whether it is better than the next ones was not tested."
    elif level:
        text += f" It cannot be told apart from {names(level)}."
    elif clear:
        text += f" It is clearly better than {'the other one' if len(others) == 1 else 'all others'}."
    tested = pl.any_horizontal(pl.col("metric_a", "metric_b") == best["metric"])
    p_value = _largest_p(view.tests.filter(tested, statistic=best["statistic"]), "p_adjusted")
    yield _Statement(kind="trust", text=text, rater=best["metric"], p_value=p_value, **numbers)


def _share_a_letter(one: Row, other: Row) -> bool:
    """Whether two metrics cannot be told apart."""
    return not {*LETTER.findall(one["group"] or "")}.isdisjoint(LETTER.findall(other["group"] or ""))


def _largest_p(tests: pl.DataFrame, name: str = "p_value") -> float | None:
    found: float | None = tests.select(pl.max(name)).item()
    return found


def _score(view: _View, row: Row) -> str:
    if view.ordered:
        return f"Kendall's τ within items {with_ends(row, 'value')}"
    return f"same choice as people in {with_ends(row, 'value', shown=percent)} of comparisons"


def _chance(view: _View) -> Iterator[_Statement]:
    unclear, below = view.side("unclear"), view.side("below")
    if unclear and view.bounded:
        verb = "is" if len(unclear) == 1 else "are"
        yield _Statement(
            kind="chance",
            text=f"{names(unclear)} {verb} not clearly better than guessing (all metrics tested together).",
            rater=_only(unclear),
        )
    if below:
        single = len(below) == 1
        text = f"{names(below)} {'runs' if single else 'run'} against people more than guessing would."
        if view.ordered:
            what = "Is it a distance" if single else "Are they distances"
            text += f" {what}, where lower is better? Then say so in a raters file."
        yield _Statement(kind="chance", text=text, rater=_only(below))


def _only(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else ""


def _favours(view: _View) -> Iterator[_Statement]:
    uninformed = {*view.side("unclear"), *view.side("below")}
    # One system a metric; leaders first, whom a reader would otherwise trust.
    shown: dict[str, Row] = {}
    for row in sorted(view.partial, key=lambda row: row["metric"] not in view.leaders):
        if row["metric"] not in uninformed:
            shown.setdefault(row["metric"], row)
    for row in [*shown.values()][:MOST_NAMED]:
        favoured = row["finding"] == FAVOURED
        size = with_ends(row, "partiality", shown=partial(number, digits=1))
        text = (
            f"{row['metric']} {'favours' if favoured else 'is against'} {row['system']}, number {row['rank_human']} by"
            f" people, beyond what {view.aspect or 'quality'} and noise explain: {size} points of win rate. It ranks it"
            f" {row['rank']}{_without(row)}."
        )
        ends = {f"value{end}": row[f"partiality{end}"] for end in ("", "_low", "_high")}
        yield _Statement(
            kind="favours", text=text, rater=row["metric"], system=row["system"], p_value=row["p_adjusted"], **ends
        )
    told = view.favi["partiality"].filter(pl.col("partiality").is_not_null())
    if not told.height:
        reasons = names(view.favi["partiality"]["reason"].unique(maintain_order=True).to_list())
        yield _Statement(
            kind="favours",
            text=f"Whether a metric is partial to a system cannot be told{': ' if reasons else ''}{reasons}.",
        )
    elif not view.partial:
        text = "No metric is found to be partial to a system"
        never = (pl.col("finding") == UNTOLD).all().over("system")
        if untold := view.favi["partiality"].filter(never)["system"].unique(maintain_order=True).to_list():
            text += f"; of {names(untold)} it cannot be told"
        yield _Statement(kind="favours", text=f"{text}.")
    elif len(shown) > MOST_NAMED or len(view.partial) > len(shown):
        metrics = {row["metric"] for row in view.partial}
        of_all = plural(told["metric"].n_unique(), "metric")
        text = f"In all, {len(metrics)} of {of_all} favour or are against some system."
        yield _Statement(kind="favours", text=text)


def _without(row: Row) -> str:
    if row["rank_without"] == row["rank"]:
        return ", and would without that too"
    return f"; without that it would be {row['rank_without']}"


def _flips(view: _View) -> Iterator[_Statement]:
    errors = view.decided["errors"].filter(pl.col("correct").is_not_null())
    if not errors.height or not view.people.height:
        return
    for row in errors.filter(metric=view.standing[0]["metric"] if view.standing else "").to_dicts():
        correct = with_ends(row, "correct", shown=percent)
        text = (
            f"{row['metric']} decides {correct} of {plural(view.people.height, 'system pair')} as people do, reverses"
            f" {percent(row['inversion'])}, misses a difference that people see in {percent(row['omission'])} and sees"
            f" one that people do not in {percent(row['insertion'])}."
        )
        ends = {f"value{end}": row[f"correct{end}"] for end in ("", "_low", "_high")}
        yield _Statement(kind="flips", text=text, rater=row["metric"], **ends)
    flips = view.decided["reversals"]
    if not flips.height:
        yield _Statement(kind="flips", text="No metric clearly reverses a decision of people.")
    for row in flips.head(MOST_NAMED).to_dicts():
        text = (
            f"People find {row['better']} better than {row['worse']}; {names(row['metrics'])}"
            f" {'says' if len(row['metrics']) == 1 else 'say'} the opposite."
        )
        rater, system = _only(row["metrics"]), row["better"]
        yield _Statement(kind="flips", text=text, rater=rater, system=system, p_value=row["p_adjusted"])
    if flips.height > MOST_NAMED:
        yield _Statement(
            kind="flips", text=f"In all, {plural(flips.height, 'pair')} are clearly reversed by some metric."
        )


def _uncertain(view: _View) -> Iterator[_Statement]:
    texts = []
    undecided = view.people.filter(decision="=").height
    if undecided and not view.sided:
        texts.append(f"People themselves do not decide {undecided} of {plural(view.people.height, 'system pair')}.")
    if view.standing and not view.bounded:
        texts.append("There are no intervals, so no difference here is known to be more than chance.")
    elif view.leaders[1:]:
        texts.append(f"Which of {names(view.leaders)} is best.")
    texts += [sentence(note.message) for note in view.again if not view.sided]
    return (_Statement(kind="uncertain", text=text) for text in texts)


def _overall(views: Sequence[_View]) -> Iterator[_Statement]:
    order = [row["metric"] for row in views[0].standing]
    everywhere = [name for name in order if all(name in view.leaders for view in views)]
    if everywhere:
        verb = "is" if len(everywhere) == 1 else "are"
        text = f"{names(everywhere)} {verb} among those that may be best on {_all(len(views))}."
    else:
        best = [f"{view.leaders[0]} on {view.aspect}" for view in views if view.leaders]
        text = "No metric may be best on every aspect"
        text += f": the highest agreement have {names(best)}." if best else "."
    yield _Statement(kind="trust", text=text, rater=_only(everywhere))
    informed = {name for view in views for name in view.side("above")}
    nowhere = [name for name in order if name not in informed]
    if nowhere and any(view.side("above") or view.side("below") for view in views):
        yield _Statement(
            kind="chance",
            text=f"{names(nowhere)}: on no aspect clearly better than knowing nothing.",
            rater=_only(nowhere),
        )
    favour = [
        {(row["metric"], row["system"], row["finding"]): abs(row["partiality"]) for row in view.partial}
        for view in views
        if not view.sided
    ]
    last = {found: size for own in favour for found, size in own.items()}
    constant = sorted(
        (found for found in last if found[0] in informed and all(found in own for own in favour)),
        key=lambda found: (-last[found], found),
    )
    for metric, system, finding in constant[:MOST_NAMED]:
        verb = "favours" if finding == FAVOURED else "is against"
        text = f"{metric} {verb} {system} on {_all(len(favour))}."
        yield _Statement(kind="favours", text=text, rater=metric, system=system)
    if len(constant) > MOST_NAMED:
        more = plural(len(constant) - MOST_NAMED, "more pair")
        yield _Statement(kind="favours", text=f"{more} of metric and system stand like this on every aspect.")


def _all(aspects: int) -> str:
    return "both aspects" if aspects == 2 else f"all {aspects} aspects"
