"""Answer one case of the golden run with the version of the package that is on the path.

    python golden_answer.py CASE.json FOLDER    # writes each table to a Parquet file, and the rest to answer.json
    python golden_answer.py study.db            # writes an annotation study, and study.csv with scores of two metrics

Both sides of a golden run execute this file, so it uses public names only. The annotation study is an exception: it is
written once, by the start.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import polars as pl

import custodes as cu

NOTE = ("rule", "aspect", "message", "count")


def main() -> None:
    if len(sys.argv) == 2:
        write_annotation_study(Path(sys.argv[1]))
        return
    case, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    warnings.simplefilter("ignore")
    try:
        result = answer(case, folder)
    except cu.CustodesError as problem:
        document: dict[str, Any] = {"refusal": f"{type(problem).__name__}: {problem}", "tables": []}
    else:
        tables = dict(result.tables())
        if hasattr(result, "held_out"):  # the predictions of a combined metric
            tables["held_out"] = result.held_out.frame
        for name, frame in tables.items():
            frame.write_parquet(folder / f"{name}.parquet")
        notes = [{name: str(getattr(note, name)) for name in NOTE} for note in result.notes]
        pl.DataFrame(notes, schema=dict.fromkeys(NOTE, pl.String)).write_parquet(folder / "notes.parquet")
        document = {"status": result.status, "tables": [*tables, "notes"]}
    (folder / "answer.json").write_text(json.dumps(document, indent=1))


def answer(case: dict[str, Any], folder: Path) -> Any:
    """The result of a case."""
    question, options = getattr(cu, case["question"]), dict(case["options"])
    if "stopping" in options:
        options["stopping"] = [cu.Stopping(**rule) for rule in options["stopping"]]
    if not case["paths"]:
        return question(**options)
    if case["count"]:
        count = dict(case["count"])
        (path,) = map(Path, case["paths"])
        rows = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
        return question(getattr(cu, count.pop("function"))(rows, **count), **options)
    study = cu.read(*case["paths"], **case["read"])
    if case["question"] == "validate":
        model = folder / "model.json"
        fit = {name: options[name] for name in ("human", "rng") if name in options}
        cu.combine(study, target=options.pop("target", None), method="ridge", repeats=1, resamples=0, **fit).model.save(
            model
        )
        options["model"] = str(model)
    return question(study, **options)


def write_annotation_study(path: Path) -> None:
    """Comparisons of three systems on 160 items by simulated annotators, half of them by two, with gold questions."""
    import numpy as np

    from custodes.annotate import plan, rehearsal
    from custodes.annotate.simulated_crowd import Habits

    texts = cu.annotate.demo_texts(items=160)
    looks = plan.StoppingRule(looks=(80, 160), boundary="obrien-fleming", stop="decided")
    design = plan.StudyPlan(annotators=plan.AnnotatorPlan(overlap=0.5), stopping=looks)
    cu.annotate.new(texts, path, plan=design)
    habits = Habits(careless=0.15, sided=0.1, leaving=0.02, seconds=40.0, reliability=0.8)
    rehearsal._run_rehearsal(path, design, 15, 0.15, habits, np.random.default_rng(0))
    scores = {
        "length": pl.col("text").str.len_chars(),
        "words": pl.col("text").str.count_matches(r"\w+"),
    }
    parts = [texts.select("item", "system", score.alias("score"), rater=pl.lit(name)) for name, score in scores.items()]
    pl.concat(parts).with_columns(kind=pl.lit("metric")).write_csv(path.with_suffix(".csv"))


if __name__ == "__main__":
    main()
