"""What combinations reach on real data: HANNA, SummEval and RewardBench, held out.

`python benchmarks/combined.py [hanna|summeval|rewardbench] [--repeats 10]` needs ../shared/data. Kendall's tau-b over
each held-out fold of items (HANNA, SummEval; mean over repeats), accuracy on RewardBench, `metametrics_pred` beside it.
"""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from pathlib import Path

import polars as pl

import custodes as cu

DATA = Path(__file__).parents[2] / "shared" / "data"
METHODS = ("auto", "best", "equal", "ridge", "pairwise", "xgboost", "blend", "gp")
DISTANCES = pl.DataFrame({"rater": ["BaryScore*", "DepthScore*", "InfoLM*"], "higher_is_better": ["false"] * 3})
SECTIONS = {
    "Chat": ("alpacaeval-*", "mt-bench-easy", "mt-bench-med"),
    "Chat Hard": ("mt-bench-hard", "llmbar-*"),
    "Safety": ("refusals-*", "xstest-*", "donotanswer"),
    "Reasoning": ("math-prm", "hep-*"),
}
MATH_WEIGHT = 984
"""RewardBench counts math-prm as much as the code subsets together."""


def summaries(name: str, repeats: int) -> None:
    """Every aspect by every method, and how long one fit takes."""
    if name == "hanna":
        study = cu.read(DATA / "hanna" / "ratings.csv.gz", raters=DISTANCES)
        chosen = {"systems": "!Human", "metrics": "@noaspect"}
    else:
        study, chosen = cu.read(DATA / "summeval" / "ratings.csv.gz"), {"human": "expert*"}
    print(f"| {name} | " + " | ".join(METHODS) + " |\n|---|" + "---|" * len(METHODS))
    seconds = []
    for target in study.select(**chosen).aspects:
        made = cu.combine(study, target=target, method=METHODS, repeats=repeats, resamples=0, **chosen).comparison
        cells = [f"{tau:.3f} ± {sd or 0:.3f}" for tau, sd in made.select("kendall", "spread").iter_rows()]
        seconds.append(made["seconds"])
        print(f"| {target} | " + " | ".join(cells) + " |", flush=True)
    mean = sum(seconds[1:], seconds[0]) / len(seconds)
    print("| seconds a fit | " + " | ".join(f"{s:.2f}" for s in mean) + " |")


def section_scores(ratings: pl.DataFrame, groups: pl.DataFrame) -> dict[str, float]:
    """Accuracy by section of one rater's scores of chosen and rejected outputs, their mean, and over all pairs."""
    wide = ratings.pivot(on="system", index="item", values="score").join(groups, on="item")
    right = wide.with_columns(right=pl.col("chosen") > pl.col("rejected"))
    made = {}
    for section, patterns in SECTIONS.items():
        inside = [any(fnmatchcase(group, pattern) for pattern in patterns) for group in right["group"]]
        subsets = right.filter(pl.Series(inside)).group_by("group").agg(pl.len(), pl.col("right").mean())
        weight = pl.when(pl.col("group") == "math-prm").then(MATH_WEIGHT).otherwise(pl.col("len"))
        made[section] = subsets.select((pl.col("right") * weight).sum() / weight.sum()).item()
    return made | {"mean": sum(made.values()) / len(made), "all pairs": right["right"].mean()}


def rewardbench() -> None:
    """Nine reward models: grouped folds and leaving each subset out, beside the single models and MetaMetrics."""
    study = cu.read(DATA / "rewardbench" / "scores.tsv.gz", reader="rewardbench")
    groups = study.items.frame.select("item", "group")
    scores = study.ratings.frame
    names = [*SECTIONS, "mean", "all pairs"]
    print("| RewardBench | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))

    def row(label: str, ratings: pl.DataFrame) -> None:
        made = section_scores(ratings, groups)
        print(f"| {label} | " + " | ".join(f"{made[name]:.4f}" for name in names) + " |", flush=True)

    for model in scores["rater"].unique(maintain_order=True):
        row(model, scores.filter(rater=model))
    for folds, label in (("item", "five folds of pairs"), ("group", "each subset left out")):
        made = cu.combine(
            study,
            method=METHODS,
            objective="accuracy",
            folds=folds,
            repeats=1,
            resamples=0,
            metrics="!metametrics_pred",
        )
        for method in METHODS:
            row(f"{method}, {label}", made.held_out.frame.filter(rater=method))


def main() -> None:
    """Run what is asked for, by default everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="*", default=["hanna", "summeval", "rewardbench"])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print(f"the real data is not there: {DATA}")
        return
    for name in arguments.data:
        rewardbench() if name == "rewardbench" else summaries(name, arguments.repeats)


if __name__ == "__main__":
    main()
