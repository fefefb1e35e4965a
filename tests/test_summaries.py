"""Messages of `score` and `judge` on the files that they write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from custodes.commands.output_files import MOST_LINES, summary_lines

RNG = np.random.default_rng(20_260_250)


def summary_of(frame: pl.DataFrame, folder: Path) -> list[str]:
    path = folder / "out.csv"
    frame.write_csv(path)
    return [line.replace(str(path), "out.csv") for line in summary_lines(path)]


def test_scores_of_whole_systems_are_not_averaged_over_runs(tmp_path: Path) -> None:
    rows = [("", "a", "0", 1.0), ("", "a", "1", 3.0), ("x", "a", "0", 2.0), ("x", "a", "1", 5.0), ("", "b", "0", 4.0)]
    frame = pl.DataFrame(rows, ["item", "system", "repeat", "score"], orient="row").with_columns(rater=pl.lit("bleu"))
    texts = ["bleu (a): 3.50", "bleu (a): 1.00", "bleu (a): 3.00", "bleu (b): 4.00"]
    assert summary_of(frame, tmp_path)[:-1] == texts


def test_means_of_scores(tmp_path: Path) -> None:
    score = 1 + RNG.normal(size=40)
    rows = {"item": list(range(20)) * 2, "system": ["a"] * 20 + ["b"] * 20, "rater": "bleu", "kind": "metric"}
    lines = summary_of(pl.DataFrame(rows | {"score": score}), tmp_path)
    mean, error = score[:20].mean(), score[:20].std(ddof=1) / np.sqrt(20)
    low, high = (f"{mean + sign * 2.093 * error:.2f}".replace("-", "−") for sign in (-1, 1))
    assert lines[0] == f"bleu (a): {f'{mean:.2f}'.replace('-', '−')} [{low}, {high}], mean of 20 items"
    command, advice = lines[-1].split(", ")
    assert command == "next: custodes report out.csv"
    assert advice == "with a file of human ratings if you have one (custodes annotate new collects them)"


def test_an_interval_stays_in_the_range_of_the_metric(tmp_path: Path) -> None:
    rows = {"item": list(range(20)), "system": "a", "rater": "length", "kind": "metric", "score": [1000] + [10] * 19}
    raters = pl.DataFrame({"rater": ["length"], "low": [0.0], "high": [None]}, schema_overrides={"high": pl.Float64})
    raters.write_csv(tmp_path / "out.raters.csv")
    assert summary_of(pl.DataFrame(rows), tmp_path)[0].startswith("length (a): 59.50 [0.00, 163")


def test_win_rates_and_flips_of_verdicts(tmp_path: Path) -> None:
    rows = [
        (f"i{k}", "a", "b", "judge", "metric", order, sign)
        for k in range(40)
        for order, sign in (("ab", 1), ("ba", 1 if k % 4 else -1))
    ]
    names = ["item", "system_a", "system_b", "rater", "kind", "order", "preference"]
    lines = summary_of(pl.DataFrame(rows, schema=names, orient="row"), tmp_path)
    assert lines[0].startswith("judge (a): win rate 88 % [")
    assert lines[0].endswith("], averaged over opponents, 40 comparisons")
    assert lines[2].startswith("judge reverses its preference in 25 % [")
    assert lines[2].endswith(
        "of 40 comparisons if the presentation order is reversed (a change from or to a tie is not counted)"
    )


def test_rates_of_labels(tmp_path: Path) -> None:
    labels = ["pass"] * 30 + ["fail"] * 10
    lines = summary_of(pl.DataFrame({"id": range(40), "judge_label": labels}), tmp_path)
    assert lines[0].startswith("judge_label (out): 75 % [")
    assert lines[0].endswith("of 40 outputs are pass")
    assert lines[1].startswith("next: custodes rates out.csv")


def test_many_lines_are_cut(tmp_path: Path) -> None:
    rows = [(i, f"s{k:02}", "m", "metric", float(i * k)) for i in range(12) for k in range(40)]
    frame = pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row")
    lines = summary_of(frame, tmp_path)
    assert len(lines) == MOST_LINES + 2
    assert lines[MOST_LINES] == "and 16 more lines"
