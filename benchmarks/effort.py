"""How far estimates of `--dry-run` are from what is measured, and the figures fitted anew to what was measured.

python benchmarks/effort.py [--only QUESTION ...] [--rows FILE]
python benchmarks/effort.py --fit --rows FILE

Each question is asked of simulated studies and of those that are there beside the project, each time in a process of
its own (`measuring.py`); what it took is compared with the estimate, and kept as a line of FILE. `--fit` reads these
lines and prints `COSTS` of `answers/effort.py`: for each question the terms that its rows need (`fitted`), how far each
row is from them, and how far each is from those that are fitted to the other rows. Questions that were not measured
keep their figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import ROOT, SHARED, custodes, run

QUESTIONS = (
    *("check", "favoritism", "ranking", "correction", "consistency", "leaderboard"),
    *("complementarity", "annotators", "agreement", "ceiling", "verdict", "report"),
    *("protocol", "plan", "gate", "combine", "validate"),
)
VERBS = {"combine": ["combine", "fit"], "validate": ["combine", "validate"]}
"""Of questions that are called otherwise on the command line."""
OPTIONS = {"gate": ["--require", "spa>=0"]}
TARGETS = {"demo": "fluency", "summeval": "coherence", "hanna": "Coherence", "wmt23": ""}
"""Of a combined metric, where people rated several aspects."""
SIMULATED = {
    "items20k": ["scores", "items=20000", "systems=3", "metrics=3"],
    "items2k": ["scores", "items=2000", "systems=5", "metrics=10", "people=3"],
    "systems40": ["scores", "items=50", "systems=40", "metrics=5", "people=2"],
    "metrics200": ["scores", "items=20", "systems=10", "metrics=200", "people=2"],
    "systems100_battles": ["battles", "battles=59400", "models=100", "judges=1"],
    "arena100k_judge": ["battles", "battles=100000", "models=130", "judges=1"],
}
REAL = {
    "summeval": ["summeval/ratings.csv.gz"],
    "pandalm": ["pandalm/battles.csv.gz", "--invalid", "drop"],
    "hanna": ["hanna/ratings.csv.gz"],
    "wmt23": ["wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de", "--human", "mqm"],
}
SECONDS = 30
"""CPU that a case may take; one that takes more is left out."""
PARTS, GAIN = 4, 0.8
"""Terms of a fit at most, and what the sum of squares must fall to for one more."""


def made(folder: Path) -> dict[str, list[str]]:
    """Studies by name, as the words of a command that asks about them."""
    found = {"demo": ["demo"]}
    for name, (kind, *sizes) in SIMULATED.items():
        file = folder / f"{name}.parquet"
        # In a process of its own: the memory of a case starts at that of its parent.
        subprocess.run([sys.executable, ROOT / "benchmarks" / "studies.py", kind, file, *sizes], check=True)
        found[name] = [str(file)]
    for name, (file, *options) in REAL.items():
        if (SHARED / file.partition("::")[0]).exists():
            found[name] = [str(SHARED / file), *options]
    return found


def sizes(words: Sequence[str]) -> None:
    """Print the terms of a study and its estimate, by question; a process of its own, since it reads the study."""
    import custodes as cu
    from custodes.answers.effort import COSTS, effort, given
    from custodes.questions import QUESTIONS as ASKED

    source, *options = words
    reading = {"invalid": "drop"} if "--invalid" in options else {}
    selection = {"human": options[1]} if "--human" in options else {}
    study, told = cu.read(source, **reading), {}
    for name in COSTS:
        own = {"resamples": 1000} if name == "report" else given(ASKED[name], {})
        try:
            estimate = effort(name, study, own | selection)
        except cu.CustodesError:
            continue  # a question that this study has no answer to
        told[name] = {"terms": estimate.size.terms, "estimated": [estimate.seconds, estimate.megabytes]}
    print(json.dumps(told))


def compared(names: Sequence[str], kept: Path | None) -> None:
    """Print a row for each question and study that has an answer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = made(folder)
        told = {
            study: json.loads(
                subprocess.run([sys.executable, __file__, "--sizes", *words], stdout=-1, check=True).stdout
            )
            for study, words in found.items()
        }
        print("| question | study | estimated | measured | ratio of seconds | of memory |\n|---|---|---|---|---|---|")
        for question in names:
            for study, words in found.items():
                measured = run(command(question, study, words, folder), seconds=SECONDS)
                if measured.why or question not in told[study]:
                    print(f"{question} of {study}: {measured.why or 'no estimate'}", file=sys.stderr)
                    continue
                own = told[study][question]
                seconds, megabytes = own["estimated"]
                print(
                    f"| {question} | {study} | {seconds:.1f} s, {megabytes:.0f} MB | {measured.told()}"
                    f" | {seconds / measured.cpu:.2f} | {megabytes / measured.mb:.2f} |",
                    flush=True,
                )
                if kept is not None:
                    line = {"question": question, "study": study, "took": [measured.cpu, measured.mb], **own}
                    with kept.open("a") as file:
                        file.write(json.dumps(line) + "\n")


def command(question: str, study: str, words: Sequence[str], folder: Path) -> list[str | Path]:
    """A question of a study on the command line; a combined metric is validated on what it was fitted to."""
    source, *options = words
    model = folder / f"{study}.model.json"
    target = ["--target", TARGETS[study]] if question == "combine" and TARGETS.get(study) else []
    inputs = {"plan": ["--pilot", source], "validate": [model, source]}.get(question, [source])
    written = ["-o", model if question == "combine" else folder / "answer.json", "--format", "json"]
    verb = VERBS.get(question, [question])
    return custodes(*verb, *inputs, *options, *target, *OPTIONS.get(question, []), *written, "--quiet")


def fit(kept: Path) -> None:
    """Print the figures of every question that was measured, and how far each row is from them."""
    from custodes.answers.effort import total

    rows: list[dict[str, Any]] = [json.loads(line) for line in kept.read_text().splitlines()]
    for question in dict.fromkeys(row["question"] for row in rows):
        last = {row["study"]: row for row in rows if row["question"] == question}  # measured anew counts
        own, costs = list(last.values()), []
        for k, unit in enumerate(("s", "MB")):
            terms, took = [row["terms"] for row in own], [row["took"][k] for row in own]
            cost, ratios = fitted(terms, took)
            costs.append(cost)
            print(f"# {unit}:", ", ".join(f"{row['study']} {r:.2f}" for row, r in zip(own, ratios, strict=True)))
            others = [fitted(terms[:i] + terms[i + 1 :], took[:i] + took[i + 1 :])[0] for i in range(len(own))]
            out = [total(cost, one) / real for cost, one, real in zip(others, terms, took, strict=True)]
            print("# held out:", ", ".join(f"{row['study']} {r:.2f}" for row, r in zip(own, out, strict=True)))
        print(f'"{question}": ({costs[0]}, {costs[1]}),')


def fitted(terms: Sequence[dict[str, float]], took: Sequence[float]) -> tuple[dict[str, float], list[float]]:
    """What a million of each term takes, none less than nothing, and estimate to measured by row.

    Least squares of logarithms. One term after the other is taken, that which leaves least, until none is worth it:
    few rows would otherwise be met by terms that mean nothing for a study of other proportions.
    """
    import numpy as np
    from scipy.optimize import least_squares

    from custodes.answers.effort import total

    y = np.log(took)
    table = {"start": np.ones(len(y))} | {name: np.array([own[name] for own in terms]) for name in terms[0]}

    def solved(names: Sequence[str]) -> tuple[float, Any]:
        x = np.stack([table[name] for name in names], axis=1)
        share = np.exp(y).mean() / np.maximum(x.mean(axis=0), 1e-12) / len(names)
        got = least_squares(lambda p: np.log(x @ np.exp(p)) - y, np.log(share))
        return float(got.cost), np.exp(got.x)

    names = ["start"]
    cost, weights = solved(names)
    while len(names) < min(PARTS, len(y) - 1):
        more = {name: solved([*names, name]) for name in table if name not in names and table[name].any()}
        best = min(more, key=lambda name: more[name][0])
        if more[best][0] > GAIN * cost:
            break
        names.append(best)
        cost, weights = more[best]
    figures = {name: float(f"{weight:.2g}") for name, weight in zip(names, weights, strict=True)}
    return figures, [total(figures, own) / real for own, real in zip(terms, took, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=QUESTIONS, nargs="+", default=QUESTIONS)
    parser.add_argument("--rows", type=Path, help="a line of JSON for each case; `--fit` reads them")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--sizes", nargs="+", help=argparse.SUPPRESS)
    given, options = parser.parse_known_args()
    if given.sizes:
        sizes([*given.sizes, *options])
    elif options:
        parser.error(f"unknown: {options}")
    elif given.fit:
        if given.rows is None:
            parser.error("--fit: say which --rows")
        fit(given.rows)
    else:
        compared(given.only, given.rows)


if __name__ == "__main__":
    main()
