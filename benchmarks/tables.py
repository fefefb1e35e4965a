"""Write every table of every question on four studies, and compare two versions of them.

    python benchmarks/tables.py write before/        # with the code before
    python benchmarks/tables.py write after/         # with the code after
    python benchmarks/tables.py compare before/ after/ --renamed renamed.txt

Lines of `renamed.txt` are `question.table.old=new`. Computation times and the order of rows are ignored.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import polars as pl

import custodes as cu

DATA = Path(__file__).parents[2] / "shared" / "data"
TURNED = pl.DataFrame({"rater": ["BaryScore*", "DepthScore*", "InfoLM*"], "higher_is_better": ["false"] * 3})
WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de"
LOOKS = [cu.Stopping(stop=stop, looks=(10, 20, 40), boundary="pocock") for stop in ("decided", "futility")]
PLANS = [cu.Stopping(batch=batch, budget=budget) for batch in (10, 20) for budget in (None, 200)]
TOLERANCE = 1e-9

STUDIES: dict[str, tuple[Callable[[], cu.Study], dict[str, Any], str | None]] = {
    "demo": (lambda: cu.read("demo"), {"metrics": "!overlap-stem"}, "fluency"),
    "summeval": (
        lambda: cu.read(DATA / "summeval" / "ratings.csv.gz"),
        {"human": "expert*", "metrics": "bertscore*,BEwTE*,Me*"},
        "coherence",
    ),
    "wmt23": (
        lambda: cu.read(f"{DATA}/{WMT}"),
        {"human": "mqm", "systems": "!refA", "metrics": "*COMET*,BLEU*,chrF*,GEMBA*"},
        None,
    ),
    "hanna": (
        lambda: cu.read(DATA / "hanna" / "ratings.csv.gz").describe(raters=TURNED),
        {"systems": "!Human", "metrics": "BERT*,chrF*,BLEU*,ROUGE-*", "aspect": "Coherence,Empathy"},
        "Coherence",
    ),
}
"""Name of a study to the function that reads it, its options, and the target of combinations."""


def answers(name: str) -> Iterator[tuple[str, Any]]:
    """Every question on a study with few resamples, and its answer."""
    read, chosen, target = STUDIES[name]
    study = read()
    human_options = {option: value for option, value in chosen.items() if option != "metrics"}
    untargeted = {option: value for option, value in chosen.items() if option != "aspect"}
    estimators = ["ppi", "poststratified", "pooled", *(["mixture"] if name == "demo" else [])]
    methods = ["ridge", "best", "equal", "pairwise", "xgboost", "blend"]
    few = {"resamples": 20}
    yield "check", cu.check(study, **human_options)
    yield "agreement", cu.agreement(study, **few, **chosen)
    yield "agreement-calibrated", cu.agreement(study, ties="calibrated", aggregate="vote", **few, **chosen)
    yield "favoritism", cu.favoritism(study, **few, **human_options)
    yield "ranking", cu.ranking(study, **few, **human_options)
    yield "verdict", cu.verdict(study, **few, **chosen)
    yield "correction", cu.correction(study, estimator=estimators, **chosen)
    options = {"estimator": ["human", "pooled"], "stopping": LOOKS, "replications": 4, "null": True}
    yield "protocol", cu.protocol(study, **options, **few, **human_options)
    yield "plan", cu.plan(study, estimator="ppi", replications=5, items=60, **chosen)
    yield "plan-assumed", cu.plan(channel="ideal", estimator="ppi", replications=10, stopping=PLANS)
    yield "complementarity", cu.complementarity(study, **few, **human_options)
    yield "ceiling", cu.ceiling(study, model="ridge", steps=3, **few, **chosen)
    yield "combine", cu.combine(study, target=target, method=methods, repeats=1, **few, **untargeted)


def write(folder: Path, names: list[str]) -> None:
    """A Parquet file per table, and the notes of each answer."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for question, result in answers(name):
            for table, frame in result.tables().items():
                frame.write_parquet(folder / f"{name}.{question}.{table}.parquet")
            notes = sorted({(note.rule, note.message) for note in result.notes})
            (folder / f"{name}.{question}.notes.json").write_text(json.dumps(notes, indent=1))
            print(name, question, flush=True)


def compare(before: Path, after: Path, renamed: list[tuple[str, str]]) -> int:
    """Print the differences, and return the number of tables that differ."""
    differing = 0
    for path in sorted(before.iterdir()):
        name = path.name.removesuffix(path.suffix)
        path_after = after / path.name
        if not path_after.exists():
            results = ["is gone"]
        elif path.suffix == ".json":
            results = ["other notes"] if path.read_text() != path_after.read_text() else []
        else:
            _, question, table = name.split(".")
            names_here = ((*old.rsplit(".", 1), new) for old, new in renamed)
            names = {old: new for where, old, new in names_here if fnmatch(f"{question}.{table}", where)}
            results = list(_differences(pl.read_parquet(path).rename(names, strict=False), pl.read_parquet(path_after)))
        differing += bool(results)
        for difference in results:
            print(f"{name}: {difference}")
    print(f"{differing} tables differ")
    return int(differing > 0)


def _differences(old: pl.DataFrame, new: pl.DataFrame) -> Iterator[str]:
    if lost := [name for name in old.columns if name not in new.columns]:
        yield f"columns lost: {', '.join(lost)}"
    if old.height != new.height:
        yield f"{old.height} rows before, {new.height} after"
        return
    common = [name for name in old.columns if name in new.columns and name != "seconds"]
    keys = [name for name in common if old[name].dtype == pl.String]
    old, new = (frame.sort(keys, maintain_order=True) if keys else frame for frame in (old, new))
    for name in common:
        numeric = old[name].dtype.is_numeric() and new[name].dtype.is_numeric()
        x, y = old[name], new[name]
        if numeric:
            x, y = x.cast(pl.Float64), y.cast(pl.Float64)
            differs = ((x - y).abs() > TOLERANCE * (1 + x.abs())).fill_null(False) | (x.is_null() != y.is_null())
        else:
            differs = pl.Series([a != b for a, b in zip(x.to_list(), y.to_list(), strict=True)], dtype=pl.Boolean)
        if differs.any():
            places = f"{differs.sum()} of {old.height} rows"
            yield f"{name} differs in {places}: {x.filter(differs)[0]} before, {y.filter(differs)[0]} after"


def main() -> int:
    """Write tables, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing, comparing = verbs.add_parser("write"), verbs.add_parser("compare")
    writing.add_argument("folder", type=Path)
    writing.add_argument("studies", nargs="*", default=list(STUDIES), help=f"of {', '.join(STUDIES)}")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--renamed", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "write":
        write(arguments.folder, arguments.studies)
        return 0
    lines = arguments.renamed.read_text().splitlines() if arguments.renamed else []
    return compare(
        arguments.before,
        arguments.after,
        [(old, new) for old, _, new in (line.partition("=") for line in lines if line)],
    )


if __name__ == "__main__":
    raise SystemExit(main())
