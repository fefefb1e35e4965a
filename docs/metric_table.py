"""Write docs/metrics-partiality.md: agreement, partiality and added value of metrics of published data sets.

`python docs/metric_table.py [--data ../shared/data] [--date YEAR-MONTH-DAY] [--resamples 200]` writes the page and its
figures. The page has aggregated numbers only.
"""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

import custodes as cu
from custodes import plots

DOCS = Path(__file__).parent
PAGE = "metrics-partiality.md"
MOST_DRAWN = 8
"""Number of metrics in a figure: those with the highest agreement."""

MARKS = {"favoured": r"\*", "disfavoured": r"\*", "inconclusive": "?"}
KEY = ["item", "system", "rater"]
WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de"
DISTANCES = pl.DataFrame({"rater": ["BaryScore*", "DepthScore*", "InfoLM*"], "higher_is_better": ["false"] * 3})

INTRODUCTION = """# Partiality and worth of published metrics

This page reports three properties of each metric in four public data sets: how well the metric agrees with annotators,
which system it over-rates or under-rates most, and what it adds to the best other metric. The page was made on
{date} with custodes {version} by `python docs/metric_table.py`.

- **agreement**: Kendall's τ-b of the metric and the mean human rating, computed within items, and its 95 % interval
  over items. On RewardBench, agreement is the proportion of pairs that the metric orders as the annotators do.
- **largest partiality**: the [partiality](favoritism.md#partiality) of largest absolute value over all systems, in
  percentage points of win rate. A positive value means that the metric over-rates the system. The interval is not
  adjusted for the selection of the largest value. A star marks a significant partiality (Holm correction over all
  metrics and systems of the data set). A question mark marks an inconclusive result.
- **to**: the system that has this largest partiality.
- **adds to the best other**: a [ridge regression](combine.md) combines the metric with the other metric of the highest
  agreement. The number is the agreement of this combination on held-out items minus the agreement of the better one of
  the two metrics. For this number, agreement is τ-b over all outputs (on RewardBench, the proportion of pairs). A
  number is bold if its interval lies above 0.
- **consistency**: mean τ-b within items over all pairs of the four runs of an LLM judge (HANNA only).
"""
CONCLUSIONS = """## What may not be concluded
- A metric without a significant partiality may still be partial: the interval shows how partial it may be.
- Partiality is relative to the other systems of a data set, so it may differ in a data set with other systems.
- On SummEval and HANNA, human ratings are means over several aspects. A metric that measures only one of the aspects is
  therefore partial to systems that are good at this aspect.
- Agreement cannot be compared between data sets. Within a data set, metrics with different ranks may not differ
  significantly. The best of many metrics is selected by its agreement, so this agreement is an overestimate.
- The scores are those that the authors of the data sets published. Another version of a metric may behave differently.
- RewardBench has a chosen and a rejected answer instead of systems, so partiality is undefined.
"""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set: reading, arguments of the questions, statistic of agreement, and licence."""

    title: str
    about: str
    licence: str
    read: Callable[[Path], cu.Study]
    selection: Mapping[str, Any] = field(default_factory=dict)
    statistic: str = "kendall_item"
    objective: str = "kendall"
    systems: bool = True


def mean_over(study: cu.Study, raters: Mapping[str, str], drop: str = "") -> cu.Study:
    """Return the study with the mean over the aspects of each annotator and over the raters of each judge."""
    frame = study.ratings.frame.filter(pl.col("score").is_not_null())
    human = frame.filter(pl.col("rater").is_in(list(study.humans))).group_by(KEY, maintain_order=True)
    metric = frame.filter(~pl.col("rater").is_in(list(study.humans)), pl.col("aspect") == "")
    judges = [
        frame.filter(pl.col("rater").str.contains(pattern))
        .with_columns(rater=pl.lit(name))
        .group_by(KEY, maintain_order=True)
        .agg(pl.col("score").mean())
        for name, pattern in raters.items()
    ]
    parts = [human.agg(pl.col("score").mean()), metric.select(*KEY, "score"), *judges]
    rows = pl.concat(parts).filter(pl.col("system") != drop)
    kinds = {name: "human" if name in study.humans else "metric" for name in rows["rater"].unique(maintain_order=True)}
    directions = study.raters.direction
    table = pl.DataFrame(
        {
            "rater": list(kinds),
            "kind": list(kinds.values()),
            "higher_is_better": [str(directions.get(name, 1) > 0).lower() for name in kinds],
        }
    )
    return cu.read(rows, raters=table)


JUDGES = ("Beluga-13B", "ChatGPT", "Llama-13B", "Mistral-7B", "OrcaPlatypus")


def summeval(data: Path) -> cu.Study:
    """Three experts, mean of four aspects."""
    return mean_over(cu.read(data / "summeval" / "ratings.csv.gz").select(human="expert*"), {})


def hanna(data: Path) -> cu.Study:
    """Three annotators, mean of six aspects; each LLM judge is the mean of four runs."""
    study = cu.read(data / "hanna" / "ratings.csv.gz", raters=DISTANCES)
    return mean_over(study, {judge: rf"^{judge} AVG \d$" for judge in JUDGES}, drop="Human")


SOURCES = (
    Source(
        title="SummEval",
        about="summaries: 100 articles, 16 systems, three experts, mean of four aspects",
        licence="Apache-2.0 (article texts belong to their publishers)",
        read=summeval,
    ),
    Source(
        title="HANNA",
        about="stories: 96 prompts, ten systems, three annotators, mean of six aspects. Scores of judges are means of "
        "four runs. Symbols such as Ξ§ belong to the metrics' names",
        licence="MIT",
        read=hanna,
    ),
    Source(
        title="WMT23 en-de",
        about="translations: 460 segments, twelve systems, MQM",
        licence="Apache-2.0",
        read=lambda data: cu.read(f"{data / WMT}"),
        selection={"human": "mqm", "systems": "!refA"},
    ),
    Source(
        title="RewardBench",
        about="reward models: 2,985 pairs of a chosen and a rejected answer",
        licence="Apache-2.0",
        read=lambda data: cu.read(data / "rewardbench" / "scores.tsv.gz", reader="rewardbench"),
        selection={"metrics": "!metametrics_pred"},
        statistic="sample_accuracy",
        objective="accuracy",
        systems=False,
    ),
)


def metric_rows(study: cu.Study, source: Source, favoritism: cu.Favoritism | None, resamples: int) -> pl.DataFrame:
    """One row per metric, the best first: agreement, largest partiality, and gain for the best other metric."""
    chosen = dict(source.selection)
    agreement = cu.agreement(study, resamples=resamples, compare_by=(), **chosen).metrics
    ends = {f"agreement{end}": f"{source.statistic}{end}" for end in ("", "_low", "_high")}
    rows = agreement.select("metric", **ends).drop_nulls("agreement").sort("agreement", descending=True)
    adds = [added(study, source, name, next(n for n in rows["metric"] if n != name)) for name in rows["metric"]]
    rows = rows.with_columns(pl.DataFrame(adds))
    if favoritism is None:
        return rows
    return rows.join(largest_partiality(favoritism), on="metric", how="left", maintain_order="left")


def largest_partiality(favoritism: cu.Favoritism) -> pl.DataFrame:
    """The system with the largest absolute partiality, for each metric."""
    table = favoritism.partiality.drop_nulls("partiality")
    ordered = table.sort(pl.col("partiality").abs(), descending=True, maintain_order=True)
    return ordered.unique("metric", keep="first", maintain_order=True).select(
        "metric", "partiality", "partiality_low", "partiality_high", "system", "finding"
    )


def added(study: cu.Study, source: Source, metric: str, other: str) -> dict[str, float | None]:
    """Held-out gain of the combination of a metric and the best other metric over the better of the two."""
    options: dict[str, Any] = {**source.selection, "metrics": [metric, other], "objective": source.objective}
    result = cu.combine(study, method="ridge", repeats=1, resamples=0, unseen="none", **options)
    row = result.generalisation.row(0, named=True)
    return {name.replace("gain", "adds"): row[name] for name in ("gain", "gain_low", "gain_high")}


def consistency(data: Path) -> dict[str, float]:
    """Mean τ-b within items between the runs of each LLM judge of HANNA."""
    study = cu.read(data / "hanna" / "ratings.csv.gz")
    frame = study.ratings.frame.filter(pl.col("rater").str.contains(r" AVG \d$"), pl.col("system") != "Human")
    agreement = {}
    for judge in JUDGES:
        runs = frame.filter(pl.col("rater").str.starts_with(judge)).select(*KEY, "score")
        kinds = pl.DataFrame({"rater": runs["rater"].unique().sort()}).with_columns(kind=pl.lit("metric"))
        pairs = cu.complementarity(cu.read(runs, raters=kinds), resamples=0).pairs
        agreement[judge] = 1 - 2 * float(pairs["complementarity"].mean())  # type: ignore[arg-type]
    return agreement


def number(value: float | None, digits: int) -> str:
    """A number without the leading zero, or – if undefined."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}".replace("-", "−")
    return text.replace("0.", ".", 1) if digits > 1 and abs(value) < 1 else text


def estimate(row: Mapping[str, Any], name: str, digits: int) -> str:
    """An estimate with its interval."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    interval = "" if low is None else f" [{number(low, digits)}, {number(high, digits)}]"
    return number(row[name], digits) + interval


def markdown(rows: pl.DataFrame, runs: Mapping[str, float]) -> list[str]:
    """The table of one data set."""
    partial, judged = "partiality" in rows.columns, any(name in runs for name in rows["metric"])
    header = ["metric", "agreement", *(["largest partiality", "to"] if partial else []), "adds to the best other"]
    header += ["consistency"] if judged else []
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for row in rows.iter_rows(named=True):
        gain = estimate(row, "adds", 3)
        cells = [row["metric"].replace("|", r"\|").replace("*", r"\*"), estimate(row, "agreement", 3)]
        if partial:
            cells += [estimate(row, "partiality", 0) + MARKS.get(row["finding"], ""), row["system"] or "–"]
        cells.append(f"**{gain}**" if (row["adds_low"] or 0.0) > 0 else gain)
        cells += [number(runs.get(row["metric"]), 2)] if judged else []
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def section(
    source: Source, favoritism: cu.Favoritism | None, rows: pl.DataFrame, runs: Mapping[str, float], images: Path
) -> list[str]:
    """The section of one data set. Its figure is written to `images`."""
    lines = [
        f"## {source.title}",
        f"{source.about[0].upper()}{source.about[1:]}. Licence: {source.licence}.",
        "",
    ]
    if favoritism is not None:
        best = rows["metric"].head(MOST_DRAWN)
        drawn = replace(favoritism, partiality=favoritism.partiality.filter(pl.col("metric").is_in(best.to_list())))
        name = f"partiality-{source.title.lower().replace(' ', '-')}.svg"
        plots.save(plots.partiality_map(drawn), images / name)
        alt = f"Partiality to each system, for the {len(best)} metrics with the highest agreement"
        lines += [f"![{alt}]({images.name}/{name})", ""]
    return [*lines, *markdown(rows, runs), ""]


def page(data: Path, date: str, resamples: int, folder: Path = DOCS) -> Path:
    """Write the page and its figures."""
    (folder / "images").mkdir(exist_ok=True)
    lines = [INTRODUCTION.format(date=date, version=version("custodes"))]
    runs = consistency(data)
    for source in SOURCES:
        study = source.read(data)
        favoritism = cu.favoritism(study, resamples=0, **source.selection) if source.systems else None
        rows = metric_rows(study, source, favoritism, resamples)
        lines += section(source, favoritism, rows, runs, folder / "images")
    path = folder / PAGE
    path.write_text("\n".join([*lines, CONCLUSIONS]), encoding="utf-8")
    return path


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DOCS.parents[1] / "shared" / "data")
    parser.add_argument("--date", default=f"{datetime.date.today():%Y-%m-%d}")
    parser.add_argument("--resamples", type=int, default=200)
    arguments = parser.parse_args()
    print(page(arguments.data, arguments.date, arguments.resamples))


if __name__ == "__main__":
    main()
