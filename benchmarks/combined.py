"""Held-out quality of combined metrics on HANNA, SummEval and RewardBench, and on unseen systems, groups and data sets.

`python benchmarks/combined.py [PART] [--repeats 10]` needs ../shared/data; PART is hanna, summeval, rewardbench, unseen
or elsewhere. The measure is Kendall's tau-b in each held-out fold of items (HANNA, SummEval; mean over repeats), and
accuracy on RewardBench, compared with `metametrics_pred`. `unseen`: gain of ridge regression over the best single
metric on unseen items, systems and groups, also on WMT23 en-de. `elsewhere`: trained on SummEval and validated on
HANNA, and the reverse, with the metrics that both have.
"""

from __future__ import annotations

import argparse
import tempfile
import time
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
SIDES = {"Recall": "recall", "Precision": "precision", "F-Score": "f1"}
MATH_WEIGHT = 984
"""RewardBench weights math-prm as much as all code subsets."""


def summaries(name: str, repeats: int) -> None:
    """Every aspect by every method, with the time of one fit."""
    if name == "hanna":
        study = cu.read(DATA / "hanna" / "ratings.csv.gz", raters=DISTANCES)
        chosen = {"systems": "!Human", "metrics": "@noaspect"}
    else:
        study, chosen = cu.read(DATA / "summeval" / "ratings.csv.gz"), {"human": "expert*"}
    print(f"| {name} | " + " | ".join(METHODS) + " |\n|---|" + "---|" * len(METHODS))
    seconds = []
    for target in study.select(**chosen).aspects:
        result = cu.combine(study, target=target, method=METHODS, repeats=repeats, resamples=0, **chosen).comparison
        cells = [f"{tau:.3f} ± {sd or 0:.3f}" for tau, sd in result.select("kendall", "spread").iter_rows()]
        seconds.append(result["seconds"])
        print(f"| {target} | " + " | ".join(cells) + " |", flush=True)
    mean = sum(seconds[1:], seconds[0]) / len(seconds)
    print("| seconds a fit | " + " | ".join(f"{s:.2f}" for s in mean) + " |")


def studies() -> dict[str, tuple[cu.Study, dict[str, str]]]:
    """Studies with the options of their questions."""
    wmt = "mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de"
    return {
        "SummEval": (cu.read(DATA / "summeval" / "ratings.csv.gz"), {"human": "expert*"}),
        "HANNA": (
            cu.read(DATA / "hanna" / "ratings.csv.gz", raters=DISTANCES),
            {"systems": "!Human", "metrics": "@noaspect"},
        ),
        "WMT23 en-de": (cu.read(f"{DATA / 'wmt23-en-de' / wmt}"), {"human": "mqm", "systems": "!refA"}),
        "RewardBench": (
            cu.read(DATA / "rewardbench" / "scores.tsv.gz", reader="rewardbench"),
            {"metrics": "!metametrics_pred"},
        ),
    }


def formatted(row: dict[str, object], name: str) -> str:
    """Format an estimate with its interval."""
    return f"{row[name]:+.3f} [{row[f'{name}_low']:+.3f}, {row[f'{name}_high']:+.3f}]"


def unseen(repeats: int) -> None:
    """Gain of ridge regression on unseen items, systems and groups."""
    print("| data | aspect | unseen | n | ridge | seen | best single | gain | |\n|" + "---|" * 9)
    for name, (study, chosen) in studies().items():
        for target in study.select(**chosen).aspects:
            objective = "accuracy" if name == "RewardBench" else "kendall"
            start = time.perf_counter()
            options = {"method": "ridge", "repeats": repeats, "resamples": 0, "objective": objective, **chosen}
            result = cu.combine(study, target=target or None, **options).generalisation
            for row in result.iter_rows(named=True):
                seen = "" if row["seen"] is None else f"{row['seen']:.3f}"
                cells = [
                    name,
                    target,
                    row["unseen"],
                    str(row["n"]),
                    f"{row['score']:.3f}",
                    seen,
                    f"{row['single']:.3f}",
                ]
                print("| " + " | ".join([*cells, formatted(row, "gain"), row["conclusion"]]) + " |", flush=True)
            print(f"<!-- {time.perf_counter() - start:.1f} s -->", flush=True)


SAME = {
    **{f"ROUGE-{n} {long} Ξ§": f"rouge-{n.lower()}-{short}" for n in "1234L" for long, short in SIDES.items()},
    **{f"BERTScore {long} Ξε": f"bertscore-{long.lower()}" for long in ("Precision", "Recall", "F1")},
    "METEOR Ξ§": "METEOR",
    "MoverScore Ξε": "MoverScore",
    "S3-Pyramid ΞΔ": "s3-pyr",
    "S3-Responsiveness ΞΔ": "s3-resp",
}
"""Names of SummEval's metrics to HANNA's."""


def elsewhere() -> None:
    """Train on one data set, and validate on the other."""
    data_sets = studies()
    back = {new: old for old, new in SAME.items()}
    print("| learnt on | asked of | combined | best single | gain | | best in hindsight |\n|" + "---|" * 7)
    for learnt, validated, rename, value in (
        ("SummEval", "HANNA", SAME, {"human": "expert*", "metrics": list(back)}),
        ("HANNA", "SummEval", back, {"systems": "!Human", "metrics": list(SAME)}),
    ):
        study, _ = data_sets[learnt]
        validation_study, chosen = data_sets[validated]
        for aspect in ("coherence", "relevance"):
            target, validation_target = (aspect.title() if name == "HANNA" else aspect for name in (learnt, validated))
            outcome = cu.combine(study, target=target, method="ridge", repeats=1, resamples=0, unseen="none", **value)
            with tempfile.TemporaryDirectory() as folder:
                path = outcome.model.save(Path(folder) / "model.json")
                options = chosen | {"metrics": list(rename.values())}
                result = cu.validate(
                    validation_study, model=path, rename=rename, aspect=validation_target, scales="data", **options
                )
            rows = {row["rater"]: row for row in result.comparison.iter_rows(named=True)}
            gain = result.gains.filter(rater="best single", unseen="items").row(0, named=True)
            single, best = (
                f"{rows[k]['metric']} {rows[k]['kendall']:.3f}" for k in ("best single", "best in hindsight")
            )
            cells = [
                f"{learnt} {target}",
                validated,
                f"{rows['combined']['kendall']:.3f}",
                single,
                formatted(gain, "gain"),
            ]
            print("| " + " | ".join([*cells, gain["conclusion"], best]) + " |", flush=True)


def section_scores(ratings: pl.DataFrame, groups: pl.DataFrame) -> dict[str, float]:
    """Accuracy of one rater by section for pairs of chosen and rejected outputs, their mean, and over all pairs."""
    wide = ratings.pivot(on="system", index="item", values="score").join(groups, on="item")
    right = wide.with_columns(right=pl.col("chosen") > pl.col("rejected"))
    results = {}
    for section, patterns in SECTIONS.items():
        inside = [any(fnmatchcase(group, pattern) for pattern in patterns) for group in right["group"]]
        subsets = right.filter(pl.Series(inside)).group_by("group").agg(pl.len(), pl.col("right").mean())
        weight = pl.when(pl.col("group") == "math-prm").then(MATH_WEIGHT).otherwise(pl.col("len"))
        results[section] = subsets.select((pl.col("right") * weight).sum() / weight.sum()).item()
    return results | {"mean": sum(results.values()) / len(results), "all pairs": right["right"].mean()}


def rewardbench() -> None:
    """Nine reward models by grouped folds and leave-one-subset-out, compared with single models and MetaMetrics."""
    study = cu.read(DATA / "rewardbench" / "scores.tsv.gz", reader="rewardbench")
    groups = study.items.frame.select("item", "group")
    scores = study.ratings.frame
    names = [*SECTIONS, "mean", "all pairs"]
    print("| RewardBench | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))

    def row(label: str, ratings: pl.DataFrame) -> None:
        result = section_scores(ratings, groups)
        print(f"| {label} | " + " | ".join(f"{result[name]:.4f}" for name in names) + " |", flush=True)

    for model in scores["rater"].unique(maintain_order=True):
        row(model, scores.filter(rater=model))
    for folds, label in (("item", "five folds of pairs"), ("group", "each subset left out")):
        result = cu.combine(
            study,
            method=METHODS,
            objective="accuracy",
            folds=folds,
            repeats=1,
            resamples=0,
            metrics="!metametrics_pred",
        )
        for method in METHODS:
            row(f"{method}, {label}", result.held_out.frame.filter(rater=method))


def main() -> None:
    """Run the selected parts, by default all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="*", default=["hanna", "summeval", "rewardbench", "unseen", "elsewhere"])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print(f"the real data is not there: {DATA}")
        return
    others = {"rewardbench": rewardbench, "elsewhere": elsewhere, "unseen": lambda: unseen(arguments.repeats)}
    for name in arguments.data:
        others[name]() if name in others else summaries(name, arguments.repeats)


if __name__ == "__main__":
    main()
