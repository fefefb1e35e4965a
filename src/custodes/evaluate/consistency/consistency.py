"""Can this judge be trusted: does it stay with its verdict, and what else than quality does it look at?"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.setting import Setting, selection_of, settings
from custodes.answers.tables import count, difference, label, labels, p_value, points, score, share, table
from custodes.data.notes import Note, noted
from custodes.data.preferences import HALF
from custodes.data.study import Study
from custodes.errors import listed
from custodes.evaluate.consistency.committee import committee_columns
from custodes.evaluate.consistency.confidence import confidence_columns
from custodes.evaluate.consistency.findings import CONFIDENCE, FAILURES, LENGTH, OWN, POSITION, Finding, finding_columns
from custodes.evaluate.consistency.length import length_columns
from custodes.evaluate.consistency.material import Material, materials
from custodes.evaluate.consistency.missing import ALL, REASON, failure_findings, missing_columns
from custodes.evaluate.consistency.orders import order_columns
from custodes.evaluate.consistency.own import own_columns, own_systems
from custodes.evaluate.consistency.repeats import repeat_columns
from custodes.evaluate.edges import CELLS
from custodes.evaluate.judges import few_clusters_notes
from custodes.evaluate.parallel import each
from custodes.evaluate.partiality_table import INCONCLUSIVE
from custodes.progress import Progress, silent

RATER = label("rater", "who judged: a judge, a metric or a person")


@result
class Consistency(Result):
    """What is wrong with each judge. See `consistency`."""

    PICTURE = "judge_faults"

    findings: pl.DataFrame = table(
        "One row per rater and kind of fault that was tested.",
        RATER,
        label("kind", f"`{POSITION}`, `{LENGTH}`, `{OWN}`, `{FAILURES}` or `{CONFIDENCE}`"),
        label("about", "which own system; what failures go with (`system`, `order`, `length`)"),
        points(
            "estimate",
            "points: margin of the first slot; margin of the longer output beyond people's preference; win rate of an"
            " own system beyond its quality; mean chance beyond the share that people confirm; null for failures",
            interval=True,
        ),
        p_value("p_value", "of this test alone", "p", essential=False),
        p_value("p_adjusted", "for all raters, kinds and aspects of the study (Holm)", "p, all tested"),
        label(
            "finding",
            f"the claim, where `p_adjusted` is at most alpha; `{INCONCLUSIVE}` where nothing is tested; else empty",
        ),
        label("reason", "why it is inconclusive", essential=False),
    )
    orders: pl.DataFrame = table(
        "One row per rater who gave verdicts: does it stay with them when the order is turned?",
        RATER,
        count("both", "comparisons that it saw in both orders", "Both orders"),
        count("one_order", "comparisons that it judged in one order", essential=False),
        count(
            "half",
            "of these: asked in the other order, too, and not answered; left out where one verdict is made of both"
            " orders",
            essential=False,
        ),
        share("same", "of these with the same verdict in both orders", "Same verdict", interval=True, best="high"),
        share("flip", "of these where the winner changed", "Flips", interval=True, best="low"),
        score(
            "alpha",
            "Krippendorff's alpha between the orders, nominal: 1 always the same, 0 as by chance",
            "Alpha",
            interval=True,
            best="high",
        ),
        share("first", "share of its decided verdicts for what was shown first", "First wins", interval=True),
        points(
            "margin",
            "points by which what is shown first is preferred to the same output shown second",
            "First-slot margin",
            interval=True,
        ),
        difference(
            "to_first",
            "flips to the first slot minus flips to the second, over all flips: the least part of the flips that is"
            " no noise",
            "Flips to first",
            interval=True,
            essential=False,
        ),
        label("reason", "why the margin cannot be told", essential=False),
    )
    confusion: pl.DataFrame = table(
        "The nine counts of a rater: what the first system got when shown first, by what it got when shown second.",
        RATER,
        *(count(cell, "{} when shown first, {} when shown second".format(*cell.split("_"))) for cell in CELLS),
        essential=False,
    )
    repeats: pl.DataFrame = table(
        "One row per rater who judged the same thing several times: noise beside what the order does.",
        RATER,
        count("comparisons", "judged several times in one order"),
        score("runs", "verdicts on each of them, mean"),
        share("same", "two runs in one order agree", "Same in one order", interval=True, best="high"),
        share("same_orders", "two runs in different orders agree", "Same in both orders", interval=True),
        score(
            "bias_share",
            "part of the disagreement between orders that is not there within one order; null without both orders",
            "Due to the order",
            interval=True,
        ),
    )
    missing: pl.DataFrame = table(
        "Ties, empty and unreadable verdicts of a rater, in all and by what might matter.",
        RATER,
        label("by", "`all`, `reason`, `system`, `order` or `length` (tenths of the words of both outputs)"),
        label("value", "which reason, system, order or tenth"),
        count("asked", "verdicts asked for"),
        share("ties", "of these"),
        share("empty", "of these: no verdict at all"),
        share("unreadable", "of these: a verdict that could not be read, or that the file calls invalid"),
        share("failed", "empty or unreadable; for this reason", interval=True),
        p_value(
            "p_value", "of failures being spread at random over systems, orders or lengths; null with fewer than five"
        ),
        rows=lambda made: made.missing.filter(pl.col("by").is_in([ALL, REASON])),
    )
    length: pl.DataFrame = table(
        "One row per rater who judged outputs with texts: does it prefer length?",
        RATER,
        count("comparisons", "with both texts, without the rater's own systems"),
        share("longer", "share of the longer output's wins, ties half", "Longer wins"),
        score("plain", "logit slope of its verdicts on the log ratio of words", "Slope", interval=True),
        score("given_people", "the same with people's mean verdict held fixed; describes, see the page", interval=True),
        score("people", "the same slope of people", interval=True, essential=False),
        points(
            "beyond",
            "points of margin of the longer output that people's preference does not explain, their noise taken"
            " account of; within pairs of systems",
            "Beyond people",
            interval=True,
        ),
        label("reason", "why that cannot be told", essential=False),
    )
    own: pl.DataFrame = table(
        "One row per rater and one of its own systems (column `own_system` of the raters table).",
        RATER,
        label("system", "one of its own"),
        points(
            "partiality",
            "points of the system's win rate by this rater that its quality does not explain",
            "Win rate beyond quality",
            interval=True,
        ),
        label("reason", "why it is inconclusive"),
    )
    confidence: pl.DataFrame = table(
        "One row per judge that gave chances (`p_a`, `p_tie`, `p_b`) of verdicts that people gave, too.",
        RATER,
        count("comparisons", "with its chances and a verdict of people"),
        count("verdicts", "on these, of both orders and all repeats, each a forecast by itself", essential=False),
        score(
            "brier",
            "Brier score of its chances, the mean of a comparison's verdicts, what people together say being the"
            " outcome: 0 best, 2 worst",
            "Brier score",
            interval=True,
            best="low",
        ),
        score(
            "constant",
            "the same of a constant forecast: people's share of ties, and half of the rest for either system",
            "Of a constant",
        ),
        score("skill", "1 - brier / constant: 0 or less tells nothing", interval=True, best="high"),
        share("sure", "mean chance of what a verdict of it holds most likely", "Sure"),
        share("confirmed", "how often people say that", "Confirmed"),
        points("overconfidence", "points by which `sure` is above `confirmed`", interval=True),
        share(
            "calibration_error",
            "expected calibration error: mean distance of `confirmed` from `sure`, in bins of like chances",
            "Calibration error",
            best="low",
        ),
        share("by_chance", "what that would be about if its chances were right", "By chance"),
        label("reason", "why it is not tested", essential=False),
    )
    reliability: pl.DataFrame = table(
        "One row per judge and bin of its chances: the curve behind `confidence`.",
        RATER,
        count("bin", "from the least sure, of like numbers of verdicts"),
        count("verdicts", "in it"),
        share("sure", "mean chance of what it thinks most likely"),
        share("confirmed", "how often people say that", interval=True),
        essential=False,
    )
    committee: pl.DataFrame = table(
        "How many judges the judges are.",
        count("judges", "with enough of the comparisons that people decided"),
        count("comparisons", "that people and all these judges decided or tied"),
        score(
            "correlation",
            "mean correlation of two judges' errors; an error of people counts as one of all judges, so noisy people"
            " make it higher",
            "Errors correlate",
            interval=True,
        ),
        score(
            "effective",
            "how many judges with independent errors they amount to; too few where people err; more than there are if"
            " errors make up for each other, and no upper end where the data set none",
            "Effective number",
            interval=True,
        ),
        labels("left_out", "judges with too few comparisons", essential=False),
    )
    panels: pl.DataFrame = table(
        "How often one judge, and a majority of several, says what people say.",
        label("panel", "`all`, `best majority` and `best single judge` (chosen on other items), or one judge"),
        count("size", "judges in it"),
        share(
            "accuracy",
            "share of comparisons decided as people do, a tie against a decision half; of what was chosen, on items it"
            " was not chosen on",
            interval=True,
            best="high",
        ),
        difference("gain", "accuracy minus that of the best single judge", interval=True),
        share("one_verdict", "accuracy of one verdict alone, in one order", "One verdict", essential=False),
        score(
            "cost_per_correct",
            "cost of a comparison over its accuracy; null where no cost is said, or in unlike units",
            essential=False,
        ),
        score("one_cost_per_correct", "the same of one verdict alone", essential=False),
        labels("judges", "who is in it, chosen on all items"),
        essential=False,
    )


@question("custodes consistency battles.csv --invalid drop --format csv --table orders")
def consistency(
    study: Study,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Consistency:
    """Test LLM judges: position bias, repeatability, length bias, self-preference, failures, calibration, committees.

    Whoever gave verdicts or scores is examined, people too; people are needed for length (beyond what they prefer),
    own systems, confidence and committees only. `findings` holds what is claimed, all tests of the study together
    (Holm at `alpha`). Intervals: Student's over resampled clusters of items; of findings, those of their tests. All
    tables and columns: `help(cu.Consistency)`. setting: see `Setting`. Raises `OptionError` for unknown names,
    `InputError` where nobody prefers anything.

    >>> import custodes as cu
    >>> made = cu.consistency(cu.read("demo"), aspect="fluency", resamples=50)
    >>> made.committee["judges"].item() > made.committee["effective"].item()
    True

    Source: the issue of presentation order: Zheng et al. 2023; alpha between orders: von Däniken et al. 2024, figure 7;
    tests of length, failures and committees are ours.
    """
    full = settings(setting)
    chosen = study.select(**selection_of(full), one_side=True)
    generator = np.random.default_rng(rng)
    owned = own_systems(study, chosen, full, alpha=alpha, confidence=confidence)
    answer = partial(_answer, chosen, owned, setting=full, confidence=confidence, resamples=resamples)
    parts = materials(chosen, full)
    answers = list(each(answer, parts, rng=generator, progress=progress, desc="consistency"))
    findings = [finding for part in answers for finding in part.found]
    columns = finding_columns(findings, alpha=alpha)
    aspects = columns.pop("aspect", np.zeros(0, dtype=str))
    tables = [
        Consistency.part(
            part.aspect,
            **part.tables,
            findings={name: values[aspects == part.aspect] for name, values in columns.items()} if part.found else {},
        )
        for part in answers
    ]
    same = chosen.preferences.frame.height - chosen.preferences.asked.frame.height
    message = f"{same} ties of outputs that are the same to the letter left out: the judge was not asked for them"
    notes = [*chosen.notes, *(note for part in answers for note in part.notes), *noted(("not-asked", same, message))]
    outcome = Consistency.of(tables, notes)
    return Consistency.of(tables, [*notes, *_notes(outcome, study)])


class _Part(NamedTuple):
    aspect: str
    tables: dict[str, dict[str, Any]]
    found: list[Finding]
    notes: list[Note]


def _answer(
    study: Study,
    owned: dict[str, list[Finding]],
    part: Material,
    rng: np.random.Generator,
    *,
    setting: Setting,
    confidence: float,
    resamples: int,
) -> _Part:
    times = part.design.resampled(resamples, rng)
    orders, confusion, by_position = order_columns(study, part, times, confidence)
    of_missing, of_length = rng.spawn(2)  # estimates do not depend on the number of resamples
    missing = missing_columns(part, times, confidence, of_missing)
    of_own_systems = owned.get(part.aspect, [])
    length, by_length = length_columns(part, of_own_systems, confidence, of_length)
    committee, panels = committee_columns(study, part, times, confidence)
    sure, reliability, by_confidence = confidence_columns(study, part, setting, times, confidence)
    findings = [*by_position, *by_length, *of_own_systems, *failure_findings(part.aspect, missing), *by_confidence]
    cells = confusion.pop("cells", np.zeros((0, 9)))
    tables = {
        "orders": orders,
        "confusion": confusion | {cell: cells[:, k] for k, cell in enumerate(CELLS)} if confusion else {},
        "repeats": repeat_columns(part, times, confidence),
        "missing": missing,
        "length": length,
        "own": own_columns(of_own_systems),
        "confidence": sure,
        "reliability": reliability,
        "committee": committee,
        "panels": panels,
    }
    notes = few_clusters_notes(part.n_units, resamples, aspect=part.aspect)
    notes += noted(
        ("item-weights", part.design.item_weights is not None, "item weights do not act here: every item counts once")
    )
    return _Part(part.aspect, tables, findings, notes)


def _notes(answer: Consistency, study: Study) -> list[Note]:
    """What the tables do not say."""
    alone = answer.orders.filter(pl.col("both") == 0)["rater"].unique(maintain_order=True)
    rest = pl.col("one_order") - pl.col("half")
    half, single = answer.orders.filter(pl.col("half") > 0), answer.orders.filter((pl.col("both") > 0) & (rest > 0))
    inconclusive = answer.findings.filter(pl.col("finding") == INCONCLUSIVE)
    nothing = all(frame.is_empty() for frame in answer.tables().values())
    return noted(
        (
            "nothing-examined",
            nothing,
            "nothing to examine: scores given once, and neither texts nor two judges beside people; give verdicts with"
            " their order, repeats, texts of outputs, or people",
        ),
        (
            "one-order",
            alone.len(),
            f"no comparison in both orders, so there is no rate of flips: {listed(alone)}; show some of them in both",
        ),
        (
            HALF,
            int(half["half"].sum()),
            f"{half['half'].sum()} comparisons were asked in both orders and answered in one, by"
            f" {listed(half['rater'].unique(maintain_order=True))};"
            " left out where one verdict is made of both orders",
        ),
        (
            "one-of-two-orders",
            int(single.select(rest.sum()).item() or 0),
            f"{single.select(rest.sum()).item()} comparisons were judged in one order by raters who saw others in both:"
            f" {listed(single['rater'].unique(maintain_order=True))}",
        ),
        (
            "no-texts",
            study.outputs is None and not nothing,
            "no texts of outputs, so nothing is said of length; join a file of outputs",
        ),
        (
            "inconclusive",
            inconclusive.height,
            f"{inconclusive.height} of {answer.findings.height} tests are inconclusive:"
            f" {listed(inconclusive['reason'].unique(maintain_order=True), limit=3)}",
        ),
    )
