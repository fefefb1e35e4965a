"""Files that `score`, `judge` and `convert` write: tables, their sidecar files, and summary lines.

Sidecar files are written next to a file of scores or verdicts and are read together with this file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf, sqrt
from pathlib import Path

import polars as pl

import custodes as cu
from custodes.answers.wording import estimate_with_interval, number, percent
from custodes.console import print_diagnostic
from custodes.data.loading import PROBES, RATERS, files_of_sidecar, load_table, sidecar_tables
from custodes.data.raters import Raters
from custodes.data.reading import read, takes_raters
from custodes.data.study import Study
from custodes.data.writing import check_suffix, write_table
from custodes.errors import CustodesError, InputError, OptionError, join_labels
from custodes.files import check_distinct_files, check_writable, is_stream
from custodes.options import print_output_path
from custodes.process import NOTHING_KEPT

NO_CACHE = "none"
"""Value of `--cache` that disables the cache."""

STREAMED = "a stream has no raters table, so give --raters to the command that reads the stream"

CONFIDENCE = 0.95
RESAMPLES = 200
MOST_LINES = 24
FEWEST_ITEMS = 10
"""Minimum number of items for an interval of a mean."""


def sidecar_path(output: str | Path, ending: str) -> Path:
    """Path of a sidecar file. For example, the raters table of scores.csv.gz is scores.raters.csv."""
    path = Path(output)
    return path.with_name(Path(path.name.removesuffix(".gz")).stem + ending)


@dataclass(frozen=True, kw_only=True)
class OutputFiles:
    """Output files of scores or verdicts: the table (key ''), the tables next to this file by name, and the cache."""

    tables: Mapping[str, Path]
    cache: Path | None

    @classmethod
    def make(cls, output: str | None, cache: str | None, **endings: str) -> OutputFiles:
        """The paths for an output, if there is one. `endings`: the suffixes of sidecar tables, by name of the table.

        A stream has no sidecar files."""
        path_of_table = {} if output is None else {"": Path(output)}
        cache_path = None if cache in (None, NO_CACHE) else Path(cache)
        if output is not None and not is_stream(output):
            path_of_table |= {name: sidecar_path(output, ending) for name, ending in endings.items()}
            cache_path = sidecar_path(output, ".cache.db") if cache is None else cache_path
        return cls(tables=path_of_table, cache=cache_path)

    @property
    def follows(self) -> str:
        """A statement of what happens if the same command runs again after an interruption."""
        return f"results are stored in {self.cache}; repeat the command to continue" if self.cache else NOTHING_KEPT

    def check(self, inputs: Iterable[str | Path], *further_outputs: Path) -> None:
        """Raise an error before the work starts if an output cannot be written or would overwrite an input."""
        paths = [*self.tables.values(), *further_outputs, *([self.cache] if self.cache else [])]
        if self.tables:
            check_suffix(self.tables[""])
        for path in paths:
            check_writable(path)
        check_distinct_files(paths, inputs)
        if self.tables:
            check_raters(paths, self.tables[""])

    def write(self, tables: Mapping[str, pl.DataFrame], *, quote_formulas: bool = False) -> None:
        """Write the tables and print their paths. If a table is absent, an earlier file of this table is removed."""
        for name, path in self.tables.items():
            if name in tables:
                print_output_path(write_table(tables[name], path, quote_formulas=quote_formulas))
            else:
                path.unlink(missing_ok=True)


def check_raters(paths: Iterable[str | Path], output: str | Path) -> None:
    """Raise `OptionError` if a path would be read as the table of raters or probes of a file other than the output."""
    for path in map(Path, paths):
        table_kind = "probes" if PROBES in path.name else "raters table"
        for data_file in files_of_sidecar(path):
            if os.path.realpath(data_file) != os.path.realpath(output) and takes_raters(data_file):
                raise OptionError(
                    f"cannot write {path}: it would be read as the {table_kind} of {data_file.name} in the same "
                    f"folder; give another output, or move {data_file.name}"
                )


def raters_sidecar(output: str, raters: Raters) -> Path | None:
    """Path of the raters table of an output.

    The path is None if the reader infers the same raters without a table, or from an existing table in the folder.
    """
    inferred_raters = Raters.infer(raters.kind)
    sidecars, path = sidecar_tables(Path(output), RATERS), sidecar_path(output, ".raters.csv")
    with suppress(InputError):  # a table in the folder contradicts the raters
        for sidecar in sidecars:
            inferred_raters, _ = inferred_raters.merge_side_table(load_table(sidecar).frame, where=sidecar.name)
        if len(sidecars) < 2 and inferred_raters.frame.equals(raters.frame):
            return None
    other_sidecars = [sidecar for sidecar in sidecars if sidecar != path]
    if other_sidecars:
        raise OptionError(
            f"cannot write {output}: {join_labels(sidecar.name for sidecar in other_sidecars)} in the same folder "
            "would be read with the output, but describes the raters differently; give another output, or remove the "
            "existing file"
        )
    check_raters([path], output)
    return path


def print_lower_is_better(raters: pl.DataFrame, reason: str) -> None:
    """Print a note on raters for which lower is better, with the reason why no raters table is written (`reason`)."""
    reversed_raters = raters.filter(~pl.col("higher_is_better"))["rater"]
    if reversed_raters.len():
        print_diagnostic(f"note: lower scores are better for {join_labels(reversed_raters)}; {reason}")


def summary_lines(file: Path) -> Iterator[str]:
    """The summary lines for a new file. There are no lines if reading the file needs further files."""
    with suppress(CustodesError):
        study = read(file)
        result_lines = [*_labels(study), *_means(study), *_win_rates(study)]
        yield from result_lines[:MOST_LINES]
        if len(result_lines) > MOST_LINES:
            yield f"and {len(result_lines) - MOST_LINES} more lines"
        if study.labels:
            yield (
                f"next: custodes rates {file}, with a file of human labels of some outputs (custodes labelling {file} "
                "selects the outputs)"
            )
        else:
            yield (
                f"next: custodes report {file}, with a file of human ratings if "
                "you have one (custodes annotate new collects them)"
            )


def _labels(study: Study) -> Iterator[str]:
    """Lines with the rate at which each judge gives a label to the outputs of each system."""
    if study.labels:
        for row in cu.rates(study).rates.to_dicts():
            aspect_text = f"{row['aspect']}, " if row["aspect"] else ""
            rate_text = estimate_with_interval(row, "judge_rate", write=percent)
            yield (
                f"{row['metric']} ({aspect_text}{row['system']}): {rate_text} of {row['n']} outputs are {row['label']}"
            )


def _means(study: Study) -> Iterator[str]:
    """Lines with the mean score of each metric and system, and Student's interval over items, cut at the rater's range.

    Corpus scores have no interval and are not averaged.
    """
    if study.labels:
        return
    from scipy.special import stdtrit

    key_columns = ["rater", "aspect", "system"]
    rating_rows = study.ratings.frame
    item_scores = (
        rating_rows.filter(pl.col("item") != "")
        .group_by(*key_columns, "item", maintain_order=True)
        .agg(pl.col("score").mean())
    )
    mean_scores = item_scores.group_by(key_columns, maintain_order=True).agg(
        pl.col("score").mean(), sd=pl.col("score").std(), n=pl.len()
    )
    corpus_scores = rating_rows.filter(pl.col("item") == "").select(
        *key_columns, "score", sd=pl.lit(None, pl.Float64), n=pl.lit(0)
    )
    range_of_rater = {
        name: (low, high) for name, low, high in study.raters.frame.select("rater", "low", "high").iter_rows()
    }
    for row in pl.concat([mean_scores, corpus_scores], how="vertical_relaxed").iter_rows(named=True):
        aspect_text = f"{row['aspect']}, " if row["aspect"] else ""
        value_text = number(row["score"])
        if row["sd"] is not None and row["n"] >= FEWEST_ITEMS:
            half_width = float(stdtrit(row["n"] - 1, (1 + CONFIDENCE) / 2)) * row["sd"] / sqrt(row["n"])
            least, most = range_of_rater.get(row["rater"], (None, None))
            low = max(row["score"] - half_width, -inf if least is None else least)
            high = min(row["score"] + half_width, inf if most is None else most)
            value_text += f" [{number(low)}, {number(high)}], mean of {row['n']} items"
        yield f"{row['rater']} ({aspect_text}{row['system']}): {value_text}"


def _win_rates(study: Study) -> Iterator[str]:
    """Lines with the win rate of each system by each judge, and with the flip rate of each judge."""
    if study.preferences.frame.is_empty():
        return
    for row in cu.leaderboard(study, resamples=RESAMPLES).systems.to_dicts():
        aspect_text = f"{row['aspect']}, " if row["aspect"] else ""
        rate_text = estimate_with_interval(row, "win_rate", write=percent)
        yield (
            f"{row['rater']} ({aspect_text}{row['system']}): win rate {rate_text}, averaged over opponents, "
            f"{row['battles']} comparisons"
        )
    for row in cu.consistency(study, resamples=RESAMPLES).orders.drop_nulls("flip_rate").to_dicts():
        flip_rate_text, n_both_orders = estimate_with_interval(row, "flip_rate", write=percent), row["n_both_orders"]
        yield (
            f"{row['rater']} reverses its preference in {flip_rate_text} of {n_both_orders} comparisons if the order "
            "is reversed (a change from or to a tie is not counted)"
        )
