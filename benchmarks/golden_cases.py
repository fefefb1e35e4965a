"""The cases of the golden run: every question on the demo, on real studies, on counts and on an annotation study.

Questions, options and values have the names of the start checkout; `renamed.csv` (empty if no name changed)
translates them.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import studies
from measuring import SHARED
from waits import WMT

QUESTIONS = (
    "check",
    "leaderboard",
    "agreement",
    "annotators",
    "rates",
    "favoritism",
    "consistency",
    "ranking",
    "verdict",
    "correction",
    "protocol",
    "plan",
    "complementarity",
    "ceiling",
    "combine",
    "validate",
    "gate",
)
OF_COUNTS = ("leaderboard", "favoritism", "ranking", "correction")
OF_ANNOTATORS = ("check", "annotators")
WITHOUT_RESAMPLES = ("check", "correction", "labelling", "plan", "rates", "route", "validate")
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "ceiling": {"model": "ridge", "steps": 2},
    "combine": {"method": ["ridge", "pairwise", "equal", "best"], "repeats": 1},
    "plan": {"replications": 10, "items": 60},
    "protocol": {"replications": 10},
}
"""Options that shorten the expensive questions."""


Variant = tuple[str, str, Mapping[str, Any]]


@dataclass(frozen=True)
class Source:
    """A study: its files, how to read them, and the questions on it.

    `paths` are relative to the folder of real data, or are `GENERATED`. `count`: the function that counts the rows, and
    its options. `setting`: options of every question. `gate`: a metric, another one, and a requirement. `target`: the
    aspect that a combined metric predicts. `variants`: a question, a name, and additional options.
    """

    paths: tuple[str, ...]
    read: Mapping[str, Any] = field(default_factory=dict)
    count: Mapping[str, Any] = field(default_factory=dict)
    questions: tuple[str, ...] = QUESTIONS
    setting: Mapping[str, Any] = field(default_factory=dict)
    target: str | None = None
    gate: tuple[str, str, str] | None = None
    variants: Sequence[Variant] = ()


ESTIMATORS = ["mixture", "human", "ppi", "poststratified", "naive", "pooled"]
LOOKS = {"looks": [10, 20, 40], "boundary": "pocock"}
STOPPING = [
    {"stop": "futility", **LOOKS},
    {"batch": 5, "budget": 400},
]
DEMO_VARIANTS: Sequence[Variant] = (
    ("agreement", "vote", {"aggregate": "vote"}),
    ("agreement", "calibrated ties", {"ties": "calibrated", "human_ties": 0.5}),
    ("agreement", "one annotator", {"human": "ann1", "metrics": "!noise", "confidence": 0.9}),
    (
        "agreement",
        "every statistic",
        {"compare_by": ["system_accuracy", "pearson_item", "spearman_global", "kendall_global", "spa"]},
    ),
    ("annotators", "mace", {"method": "mace", "annotator_type": "persons"}),
    ("annotators", "majority", {"method": "majority", "annotator_type": "slots"}),
    ("favoritism", "vote", {"aggregate": "vote", "ties": 0.1, "human_ties": 0.5}),
    ("ranking", "exact", {"test": "exact", "correction": "holm"}),
    ("ranking", "bh", {"correction": "bh", "ties": "calibrated", "aggregate": "vote"}),
    ("leaderboard", "covariate", {"covariates": ["overlap"], "metrics": "judge,learned"}),
    ("leaderboard", "half", {"tie_model": "half", "aggregate": "vote"}),
    ("correction", "estimators", {"estimator": ESTIMATORS, "gamma": 0.1}),
    ("correction", "subset", {"systems": "!Aster", "ties": "calibrated"}),
    ("protocol", "rules", {"stopping": STOPPING, "null": True, "estimator": "human"}),
    ("protocol", "ideal", {"stopping": [LOOKS], "ideal": 40}),
    ("protocol", "estimators", {"metrics": "judge", "estimator": ["mixture", "human", "ppi"], "stopping": [LOOKS]}),
    ("plan", "with a metric", {"metrics": "judge", "metric_items": 100, "stopping": [LOOKS, {}]}),
    ("labelling", "of ratings", {"positive": ">=4", "metric": "judge"}),
    (
        "route",
        "of ratings",
        {"positive": ">=4", "metric": "judge", "signal": "learned", "disagreement": 0.3, "systems": "Birch"},
    ),
    ("complementarity", "utterance", {"level": "utterance", "distance": "half"}),
    ("complementarity", "annotators", {"distance": "strict", "human_raters": "annotators"}),
    ("ceiling", "in use", {"in_use": "judge,overlap", "folds": "plain"}),
    ("ceiling", "trees", {"model": "xgboost", "resamples": 50, "steps": 1, "metrics": "judge,overlap,noise"}),
    ("combine", "accuracy", {"objective": "accuracy", "target": "mean:coherence,fluency"}),
    (
        "combine",
        "trees and search",
        {"method": ["xgboost", "gp", "blend"], "resamples": 50, "metrics": "judge,overlap"},
    ),
    ("gate", "two", {"metric": "judge", "require": "spa>=0.8,kendall_item>=0.2", "aggregate": "vote"}),
)
ORDERS: Sequence[Variant] = (
    ("favoritism", "consistent orders", {"orders": "consistent"}),
    ("ranking", "first orders", {"orders": "first"}),
    ("leaderboard", "consistent orders", {"orders": "consistent"}),
)
GLASS = {"columns": {"item": "System", "system": "Utterance"}}  # these files have the two columns swapped
GLASS_GATE = ("BLEU", "BERTScore", "kendall_item>=0.1")
MACE = ("rte", "temporal", "wsd")
SOURCES: Mapping[str, Source] = {
    "demo": Source(("demo",), target="fluency", gate=("judge", "learned", "kendall_item>=0.2"), variants=DEMO_VARIANTS),
    "study.db": Source(
        ("study.db", "study.csv"),
        gate=("length", "words", "sample_accuracy>=0.4"),
    ),
    "study.db alone": Source(("study.db",), questions=("leaderboard", "consistency", "verdict")),
    "SummEval": Source(
        ("summeval/ratings.csv.gz",),
        setting={"human": "expert*"},
        target="coherence",
        gate=("rouge-1-f1", "bertscore-f1", "kendall_item>=0.1"),
        variants=[
            ("favoritism", "vote of all", {"human": None, "aggregate": "vote"}),
            ("ranking", "calibrated", {"ties": "calibrated", "aspect": "fluency"}),
            ("correction", "ppi", {"estimator": ["ppi", "poststratified"], "aspect": "relevance"}),
            ("combine", "mean", {"target": "mean:coherence,fluency", "metrics": "rouge*,bert*", "unseen": "none"}),
        ],
    ),
    "HANNA": Source(
        ("hanna/ratings.csv.gz",), target="Coherence", gate=("METEOR*", "BERTScore F1*", "pearson_global>=0.2")
    ),
    "WMT23": Source((WMT,), setting={"human": "mqm"}, gate=("BLEU-refA", "COMET-refA", "acc_eq>=0.5")),
    "PandaLM": Source(
        ("pandalm/battles.csv.gz",),
        read={"invalid": "drop"},
        gate=("pandalm-7b", "gpt-3.5-turbo", "sample_accuracy>=0.6"),
        variants=[("annotators", "persons", {"annotator_type": "persons", "method": "dawid-skene"}), *ORDERS],
    ),
    "LLMBar": Source(
        ("llmbar/judgments.csv.gz",),
        read={"invalid": "drop"},
        gate=("GPT-4/Vanilla", "ChatGPT/Vanilla", "sample_accuracy>=0.6"),
        variants=ORDERS,
    ),
    "DialSummEval": Source(
        ("dialsummeval/ratings.csv.gz",), target="relevance", gate=("rouge-1", "bertscore_f1", "spa>=0.6")
    ),
    "AlpacaEval": Source(("alpacaeval/results",), questions=("check", "leaderboard", "consistency", "agreement")),
    "SUM_EVAL": Source(
        ("glass-ceiling/SUM_EVAL.csv.gz",), read=GLASS, setting={"human": "H:coherence"}, gate=GLASS_GATE
    ),
    "TAC_11": Source(("glass-ceiling/TAC_11.csv.gz",), read=GLASS, setting={"human": "H:pyr"}, gate=GLASS_GATE),
    "DIALOG_pc": Source(
        ("glass-ceiling/DIALOG_pc.csv.gz",),
        read=GLASS,
        setting={"human": "H:engaging,H:context,H:natural"},
        gate=GLASS_GATE,
    ),
    **{f"MACE {name}": Source((f"{name}.csv",), questions=OF_ANNOTATORS) for name in MACE},
    "arena, counted": Source(("arena.parquet",), count={"function": "count_battles"}, questions=OF_COUNTS),
    "SummEval, counted": Source(
        ("summeval/ratings.csv.gz",),
        count={"function": "count_pairs", "human": ["expert1", "expert2", "expert3"], "aspect": "coherence"},
        questions=OF_COUNTS,
    ),
}
GENERATED = ("study.db", "study.csv", "arena.parquet", *(f"{name}.csv" for name in MACE))


@dataclass(frozen=True)
class Case:
    """One question on one study; `paths` are absolute, or the word 'demo', or empty for no study."""

    name: str
    question: str
    paths: tuple[str, ...]
    options: Mapping[str, Any]
    read: Mapping[str, Any] = field(default_factory=dict)
    count: Mapping[str, Any] = field(default_factory=dict)


def cases(inputs: Path, resamples: int) -> Iterator[Case]:
    """Every case; `inputs` is the folder of the generated files."""
    for study, source in SOURCES.items():
        paths = tuple(
            path if path == "demo" else str((inputs if path in GENERATED else SHARED) / path) for path in source.paths
        )
        for question, name, more in (*((question, "", {}) for question in source.questions), *source.variants):
            options = {**source.setting, **OPTIONS.get(question, {}), "rng": 0}
            if question not in WITHOUT_RESAMPLES:
                options["resamples"] = resamples
            if question in ("combine", "validate") and source.target:
                options["target"] = source.target
            if question == "gate" and source.gate:
                options |= dict(zip(("metric", "not_worse_than", "require"), source.gate, strict=True))
            title = f"{study} {question}" + (f", {name}" if name else "")
            yield Case(title, question, paths, {**options, **more}, source.read, source.count)
    assumed = {**OPTIONS["plan"], "margins": [0.0, 0.2, 0.5], "rng": 0}
    yield Case("assumptions plan", "plan", (), assumed)
    yield Case("assumptions plan, ideal", "plan", (), {**assumed, "channel": "ideal", "stopping": [LOOKS, STOPPING[0]]})


def generate(path: Path) -> None:
    """Write a simulated file, or labels of the three MACE data sets as ratings."""
    if path.name == "arena.parquet":
        studies.write(studies.battles(battles=200_000, models=40, judges=1), path)
        return
    with gzip.open(SHARED / "mace" / f"{path.name}.gz", "rt") as file, path.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["item", "system", "rater", "kind", "score"])
        for task, answers in enumerate(csv.reader(file)):
            rows.writerows(
                [f"t{task}", "text", f"A{n:03d}X", "human", label] for n, label in enumerate(answers) if label
            )
