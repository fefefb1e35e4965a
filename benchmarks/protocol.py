"""Cost of decisions by estimator and stopping rule, replayed on SummEval and HANNA, and the time of the replay.

    python benchmarks/protocol.py [--data FOLDER] [--replications N] [--metrics] [-o protocol.md]

Needs the real data (../shared/data beside the project). Every number is the mean over the replications of all aspects;
`_sd` is the standard deviation over replications, averaged over aspects. `null_error` is the proportion of pairs that
are decided falsely when systems are permuted within every item. "10,20,40" are the numbers of annotations of a pair at
which the pair is analysed. The rules in the tables were chosen on these data. On other data, the boundary controls the
rate of false decisions, but `share` and `correct` may differ. `--metrics` adds rows with one metric, and the errors of
each metric alone.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import polars as pl

import custodes as cu
from custodes.data.study import Study
from custodes.evaluate.protocol.protocol import Protocol, protocol

DATA = Path(__file__).parents[2] / "shared" / "data"
STUDIES = {"SummEval": ("summeval/ratings.csv.gz", "expert*"), "HANNA": ("hanna/ratings.csv.gz", None)}
METRICS = {"SummEval": "rouge-l-f1,bertscore-f1", "HANNA": "ROUGE-1 F-Score*,BERTScore F1*"}
PAPER = {"coherence": (0.42, 0.97), "consistency": (0.53, 0.93), "fluency": (0.60, 0.95), "relevance": (0.43, 0.96)}
"""Annotation rate and accuracy, human ratings only (Deriu et al. 2023, Table 5)."""

RULES = (
    # label, stopping rule
    ("paper, N = 10", cu.Stopping(batch=10)),
    ("paper, N = 5", cu.Stopping(batch=5)),
    ("N = 10, Pocock", cu.Stopping(batch=10, boundary="pocock")),
    ("10,20,40, Pocock", cu.Stopping(looks=(10, 20, 40), boundary="pocock")),
    ("10,20,40, z 2.289", cu.Stopping(looks=(10, 20, 40), boundary=2.289)),
    ("10,20,40, O'Brien-Fleming", cu.Stopping(looks=(10, 20, 40), boundary="obrien-fleming")),
    ("10,15,25,40, O'Brien-Fleming", cu.Stopping(looks=(10, 15, 25, 40), boundary="obrien-fleming")),
    ("10 to 40 by 5, O'Brien-Fleming", cu.Stopping(looks=tuple(range(10, 41, 5)), boundary="obrien-fleming")),
)
STOPS = ("decided", "futility")
FIGURES = ("share", "correct", "inversion", "omission", "insertion", "kld", "null_error")


def averaged(result: Protocol, rule: str) -> pl.DataFrame:
    """Means over aspects, also of the standard deviation over replications."""
    spread = [pl.col(f"{name}_sd").mean().alias(f"{name}_sd") for name in ("share", "correct")]
    means = [pl.col(name).mean() for name in FIGURES]
    rows = result.protocol.group_by("metric", "estimator", "stopping", maintain_order=True).agg(*means, *spread)
    return rows.select(
        pl.lit(rule).alias("rule"), "metric", "estimator", "stopping", *FIGURES, "share_sd", "correct_sd"
    )


def markdown(table: pl.DataFrame) -> str:
    """Format a Markdown table."""
    names = table.columns
    rows = [[f"{v:.3f}" if isinstance(v, float) else "" if v is None else str(v) for v in row] for row in table.rows()]
    lines = [" | ".join(row) for row in [names, ["---"] * len(names), *rows]]
    return "\n".join(f"| {line} |" for line in lines)


def rules_table(study: Study, human: str | None, replications: int) -> pl.DataFrame:
    """Human ratings only: every estimator with every rule."""
    frames = []
    for name, stopping in RULES:
        result = protocol(
            study,
            human=human,
            estimator=["human", "pooled"],
            stopping=[replace(stopping, stop=stop) for stop in STOPS],
            null=True,
            replications=replications,
            resamples=0,
        )
        frames.append(averaged(result, name))
    return pl.concat(frames).sort("estimator", "rule", "stopping", maintain_order=True)


def metric_table(study: Study, name: str, human: str | None, replications: int) -> pl.DataFrame:
    """With one metric: the closed-form estimators with the paper's rule and a boundary."""
    frames = []
    for rule, stopping in (RULES[0], RULES[3]):
        result = protocol(
            study,
            human=human,
            metrics=METRICS[name],
            estimator=["ppi", "poststratified"],
            stopping=[replace(stopping, stop=stop) for stop in STOPS],
            ideal=10_000,
            null=True,
            replications=replications,
            resamples=0,
        )
        frames.append(averaged(result, rule))
    return pl.concat(frames)


def main() -> None:
    """Print the page, or write it to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    page = ["# The annotation protocol, replayed", "", __doc__.split("\n\n")[2].strip()]
    for name, (file, human) in STUDIES.items():
        if not (arguments.data / file).exists():
            page += ["", f"## {name}", "", "not found"]
            continue
        study = cu.read(arguments.data / file)
        began = time.perf_counter()
        result = protocol(study, human=human, null=True, replications=arguments.replications)
        took = time.perf_counter() - began
        rows = result.protocol.select("aspect", "share", "share_sd", "correct", "correct_sd", "insertion", "null_error")
        rows = rows.join(result.reference.select("aspect", "self_agreement"), on="aspect", maintain_order="left")
        if name == "SummEval":
            paper = [PAPER[aspect] for aspect in rows["aspect"]]
            rows = rows.with_columns(
                paper_share=pl.Series([share for share, _ in paper]), paper_correct=pl.Series([c for _, c in paper])
            )
        page += ["", f"## {name}", ""]
        page += [f"Human ratings alone, the paper's rule, batches of 10 ({took:.1f} s with null_error):", ""]
        page.append(markdown(rows))
        began = time.perf_counter()
        protocol(study, human=human, stopping=cu.Stopping(batch=5), replications=arguments.replications, resamples=0)
        page += [
            "",
            f"Replay with batch 5: {time.perf_counter() - began:.1f} s.",
            "",
            "Human ratings alone, mean of aspects:",
            "",
        ]
        table = rules_table(study, human, arguments.replications)
        page.append(markdown(table))
        target = table.filter(
            (pl.col("share") <= 0.25)
            & (pl.col("correct") >= 0.885)
            & (pl.col("inversion") < 0.005)
            & (pl.col("null_error") <= 0.07)
        )
        reached = [f"{row['estimator']}, {row['rule']}, {row['stop']}" for row in target.iter_rows(named=True)]
        page += [
            "",
            "Share <= .25, correct >= .885, inversion < .005 and null <= .07: " + ("; ".join(reached) or "none"),
        ]
        if arguments.metrics:
            page += ["", "With one metric, mean of aspects:", ""]
            page.append(markdown(metric_table(study, name, human, arguments.replications)))
            naive = protocol(study, human=human, metrics="*", estimator="naive", replications=1, resamples=0).protocol
            errors = pl.col("correct", "inversion", "omission", "insertion", "kld").mean()
            means = naive.filter(pl.col("metric") != "none").group_by("metric", maintain_order=True).agg(errors)
            page += ["", "Metrics alone, mean of aspects:", "", markdown(means)]
        print("\n".join(page[-200:]) if not arguments.output else f"{name} done", flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(page) + "\n")


if __name__ == "__main__":
    main()
