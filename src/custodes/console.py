"""Results as tables for a terminal: the columns that matter, an estimate with its interval, as wide as the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from custodes.evaluate.result import Result

COLUMNS: dict[tuple[str, str], tuple[str, ...]] = {
    ("agreement", "metrics"): (
        "metric",
        "sample_accuracy",
        "pairwise_accuracy",
        "kendall_item",
        "pearson_global",
        "acc_eq",
        "spa",
    ),
    ("favoritism", "metrics"): (
        "metric",
        "mean_abs_favi",
        "mean_abs_favi_chance",
        "std_abs_favi",
        "sample_accuracy",
        "system_accuracy",
    ),
    ("ranking", "errors"): ("metric", "correct", "inversion", "omission", "insertion", "kld"),
    ("protocol", "protocol"): (
        "metric",
        "estimator",
        "stop",
        "share",
        "correct",
        "inversion",
        "omission",
        "insertion",
        "kld",
        "null_error",
    ),
    ("plan", "plan"): (
        "estimator",
        "metric",
        "stop",
        "looks",
        "batch",
        "budget",
        "annotations",
        "decided",
        "correct",
        "inversion",
        "omission",
        "insertion",
        "interval_width",
        "saving",
    ),
    ("plan", "saving"): ("metric", "margin", "correlation", "saving_most", "saving"),
    ("complementarity", "raters"): ("metric", "kind", "with_humans", "with_metrics"),
    ("complementarity", "summary"): (
        "level",
        "raters",
        "dimension",
        "dimension_null",
        "clusters",
        "clusters_agreement",
    ),
    ("combine_fit", "comparison"): (
        "target",
        "method",
        "kendall",
        "accuracy",
        "spread",
        "seconds",
        "metrics_used",
    ),
    ("ceiling", "people"): ("target", "annotators", "split_half", "attainable"),
    ("ceiling", "backward"): ("target", "step", "metric", "kendall", "loss"),
    ("check", "summary"): (
        "items",
        "clusters",
        "systems",
        "people",
        "metrics",
        "ratings",
        "verdicts",
        "coverage",
        "ties",
    ),
    ("check", "problems"): ("severity", "rule", "message"),
}
"""What a terminal shows of a result unless a table is named; every column is in --format csv and json."""

FIRST_TABLES = {
    "agreement": ("metrics",),
    "favoritism": ("metrics", "systems"),
    "ranking": ("errors", "edges"),
    "correction": ("pairs",),
    "protocol": ("protocol", "reference"),
    "plan": ("plan", "power", "saving"),
    "complementarity": ("averages", "gaps", "raters", "summary", "clusters", "left_out"),
    "ceiling": (
        "prediction",
        "gaps",
        "people",
        "halo",
        "forward",
        "next",
        "backward",
        "history",
        "left_out",
    ),
    "combine_fit": ("comparison", "differences", "favoritism", "weights"),
    "check": ("summary", "problems"),
}
FIRST_ROWS = {("ceiling", "next"): 5, ("ceiling", "backward"): 3}
"""Rows of each target that a terminal shows of a table sorted by what matters."""
MANY, CLOSEST = 30, 15
"""With more rows than many, a table of raters shows people and so many metrics, those closest to people."""
OPTIONAL = ("null_error", "batch", "looks", "budget", "saving", "spread", "seconds")
"""Columns that a terminal leaves out where they were not asked for."""
SORTED_BY = {("agreement", "metrics"): "sample_accuracy", ("ranking", "errors"): "correct"}
SYSTEMS_ACROSS = 16
EVEN_HANDED = (
    "note: errors of any noisy metric favour the weaker system; favi_even (--table systems) is what an even-handed"
    " metric of the same accuracy would have"
)
CORRECTED = "margin: share of wins minus share of losses of the first system; n: annotations; theta: P(margin > 0)"
SIGNS = {"+": ">", "=": "=", "-": "<"}
LONG_HEADER = 10
TINY, NARROW, HUGE = 0.001, 0.1, 1e6
EXACT = ("p_value", "alpha")
"""Numbers whose order of magnitude matters, however small."""
GAP = 2


def rendered(result: Result, *, table: str | None = None, width: int = 80) -> RenderableType:
    """The tables of a result (or the one that is named, with all its columns) in lines of at most `width`."""
    question = result.provenance.question
    names = (table,) if table else FIRST_TABLES.get(question, tuple(result.tables()))
    parts: list[RenderableType] = []
    for name in names:
        frame = result.to_frame(name)
        if question == "favoritism" and name == "systems" and not table:
            parts += _favi_matrices(frame, width)
        elif question == "ranking" and name == "edges" and not table:
            parts += _rankings(frame)
        elif question == "correction" and name == "pairs" and not table:
            parts += _corrections(frame, width)
        elif question == "plan" and name == "power" and not table:
            parts += _powers(frame, width)
        elif question != "check" and not table and frame.is_empty():
            continue  # nothing to say: no metric, nobody left out
        else:
            every = _without_bounds(frame)
            columns = every if table else COLUMNS.get((question, name), every)
            order = None if table else SORTED_BY.get((question, name))
            shown = frame if table else _excerpt(result, name)
            parts += _by_aspect(shown, name.replace("_", " "), columns, order, width)
            if left := frame.height - shown.height:
                parts[-1] = Text(f"{left} of {frame.height} rows not shown (--table {name})\n", style="dim")
    parts += [Text(f"note: {note.message}", style="dim") for note in result.notes if question != "check"]
    parts.append(Text(str(result.provenance), style="dim"))
    return Group(*parts)


def print_result(result: Result, console: Console, *, table: str | None = None) -> None:
    """Print a result on a console."""
    console.print(rendered(result, table=table, width=console.width))


def _excerpt(result: Result, name: str) -> pl.DataFrame:
    """The rows of a table that matter most, where it is long."""
    question, frame = result.provenance.question, result.to_frame(name)
    if rows := FIRST_ROWS.get((question, name)):
        return frame.filter(pl.int_range(pl.len()).over("target") < rows)
    if (question, name) == ("combine_fit", "differences"):
        return frame.filter(pl.col("method_a") == pl.col("method_a").first())
    if question == "complementarity" and name in ("raters", "clusters") and frame.height > MANY:
        metrics = result.to_frame("raters").filter(kind="metric")
        near = metrics.sort("with_humans", nulls_last=True, maintain_order=True)["metric"].head(CLOSEST)
        return frame.filter((pl.col("kind") != "metric") | pl.col("metric").is_in(near.to_list()))
    return frame


def _without_bounds(frame: pl.DataFrame) -> tuple[str, ...]:
    """The columns, less the bounds and deviations that stand beside their estimate."""
    bounds = {f"{name}_{end}" for name in frame.columns for end in ("low", "high", "sd")}
    if _owner(frame.columns):
        bounds |= {"low", "high"}
    return tuple(name for name in frame.columns if name not in bounds)


def _owner(names: Sequence[str]) -> str | None:
    """The estimate whose bounds are called just low and high: the column before them."""
    return names[names.index("low") - 1] if "low" in names[1:] else None


def _by_aspect(
    frame: pl.DataFrame, name: str, columns: tuple[str, ...], order: str | None, width: int
) -> list[RenderableType]:
    parts: list[RenderableType] = []
    aspects = frame["aspect"].unique(maintain_order=True) if "aspect" in frame.columns else [""]
    for aspect in aspects:
        rows = frame.filter(pl.col("aspect") == aspect) if "aspect" in frame.columns else frame
        if order:
            rows = rows.sort(order, descending=True, nulls_last=True, maintain_order=True)
        shown = [
            column for column in columns if column != "aspect" and (column not in OPTIONAL or rows[column].count())
        ]
        cells = {column: [_cell(row, column) for row in rows.iter_rows(named=True)] for column in shown}
        numeric = {column for column in shown if rows[column].dtype.is_numeric()}
        parts += _blocks(name + (f" ({aspect})" if aspect else ""), cells, numeric, width)
    return parts


def _blocks(title: str, cells: dict[str, list[str]], numeric: set[str], width: int) -> list[RenderableType]:
    """One table, or several below each other that repeat the leading columns of labels, where one is too wide."""
    first = next((i for i, column in enumerate(cells) if column in numeric), len(cells))
    keys, values = list(cells)[:first], list(cells)[first:]
    wide = {column: max(map(len, [*_header(column).split("\n"), *texts])) + GAP for column, texts in cells.items()}
    room = width + GAP - sum(wide[column] for column in keys)
    blocks: list[list[str]] = [[]]
    for column in values:
        if blocks[-1] and sum(wide[name] for name in [*blocks[-1], column]) > room:
            blocks.append([])
        blocks[-1].append(column)
    parts: list[RenderableType] = [Text(title, style="italic")]
    for block in blocks:
        grid = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for column in [*keys, *block]:
            grid.add_column(_header(column), justify="right" if column in numeric else "left", overflow="fold")
        for row in zip(*(cells[column] for column in [*keys, *block]), strict=True):
            grid.add_row(*map(Text, row))
        parts += [grid, Text("")]
    return parts


def _header(column: str) -> str:
    """A long name on lines of its own words."""
    return column.replace("_", "\n") if len(column) > LONG_HEADER else column


def _cell(row: dict[str, Any], column: str) -> str:
    value = row[column]
    prefix = "" if column == _owner(list(row)) else f"{column}_"
    low, high = row.get(f"{prefix}low"), row.get(f"{prefix}high")
    text = f"{value:.4g}" if column in EXACT and value is not None and 0 < value < TINY else _shown(value)
    if value is not None and low is not None and high is not None:
        digits = 3 if high - low < NARROW else 2
        text += f" [{_number(low, digits)}, {_number(high, digits)}]"
    if value is not None and (sd := row.get(f"{column}_sd")) is not None:
        text = f"{_number(value, 2)} ± {_number(sd, 2)}"
    return text


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return _number(value, 3)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _number(value: float, digits: int) -> str:
    """In fixed notation, as long as that can be read; a whole number as such."""
    if abs(value) >= HUGE:
        return f"{value:.4g}"
    if abs(value) >= 1000 or value % 1 == 0:
        return f"{value:.0f}"
    return f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no minus before a zero


def _favi_matrices(frame: pl.DataFrame, width: int) -> list[RenderableType]:
    """Metric x system: the mean Favi-Score of each system against all others."""
    parts: list[RenderableType] = []
    for (aspect,), rows in frame.group_by("aspect", maintain_order=True):
        systems = list(rows["system"].unique(maintain_order=True))
        if len(systems) > SYSTEMS_ACROSS:
            parts += _by_aspect(rows, "systems", ("metric", "system", "favi", "favi_min", "favi_max"), None, width)
            continue
        title = "favi of each system, mean against all others" + (f" ({aspect})" if aspect else "")
        favi = {(metric, system): score for metric, system, score in rows.select("metric", "system", "favi").rows()}
        metrics = list(rows["metric"].unique(maintain_order=True))
        cells = {"metric": metrics} | {
            system: ["–" if (score := favi[metric, system]) is None else f"{score:+.2f}" for metric in metrics]
            for system in systems
        }
        parts += _blocks(title, cells, set(systems), width)
    parts.append(Text(EVEN_HANDED, style="dim"))
    return parts


def _corrections(frame: pl.DataFrame, width: int) -> list[RenderableType]:
    """For each metric and estimator: a pair's decision and corrected margin beside the naive and the human one."""
    parts: list[RenderableType] = []
    for (aspect, metric), rows in frame.group_by("aspect", "metric", maintain_order=True):
        asked = rows["estimator"].unique(maintain_order=True).to_list()
        by_name = {name: list(rows.filter(pl.col("estimator") == name).iter_rows(named=True)) for name in asked}
        for name in [name for name in asked if name not in ("naive", "human")] or ["human"]:
            answer = by_name[name]
            cells = {
                "decision": [f"{row['system_a']} {SIGNS[row['decision']]} {row['system_b']}" for row in answer],
                "n": [str(row["n_paired"] + row["n_human_only"]) for row in answer],
                "naive": [_short(row["margin"]) for row in by_name["naive"]],
                "human": [_short_interval(row) for row in by_name["human"]],
                **({name: [_short_interval(row) for row in answer]} if name != "human" else {}),
                "theta": [_short(row["theta"]) for row in answer],
            }
            title = f"margins by {metric}, {name}" + (f" ({aspect})" if aspect else "")
            parts += _blocks(title, cells, set(cells) - {"decision"}, width)
    parts.append(Text(CORRECTED, style="dim"))
    return parts


def _powers(frame: pl.DataFrame, width: int) -> list[RenderableType]:
    """Margin x annotations: the chance that people alone find the better system."""
    parts: list[RenderableType] = []
    for (aspect,), rows in frame.group_by("aspect", maintain_order=True):
        title = "chance that people alone find the better system, by annotations of a pair"
        places = rows["annotations"].unique(maintain_order=True).to_list()
        chances = [rows.filter(pl.col("annotations") == n)["power"].to_list() for n in places]
        margins = rows.filter(pl.col("annotations") == places[0])["margin"].to_list()
        cells = {"margin": [_short(margin) for margin in margins]}
        cells |= {str(n): [_short(value) for value in own] for n, own in zip(places, chances, strict=True)}
        parts += _blocks(title + (f" ({aspect})" if aspect else ""), cells, set(cells) - {"margin"}, width)
    return parts


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _short_interval(row: dict[str, Any]) -> str:
    return f"{_short(row['margin'])} [{_number(row['margin_low'], 2)}, {_number(row['margin_high'], 2)}]"


def _rankings(frame: pl.DataFrame) -> list[RenderableType]:
    """The ranking graph of people, as winner > losers lines."""
    parts: list[RenderableType] = []
    for (aspect,), rows in frame.filter(pl.col("rater") == "human").group_by("aspect", maintain_order=True):
        title = "people's ranking graph: who significantly beats whom" + (f" ({aspect})" if aspect else "")
        parts.append(Text(title, style="italic"))
        for (winner,), losers in rows.group_by("winner", maintain_order=True):
            parts.append(Text(f"  {winner} > {', '.join(losers['loser'])}"))
        parts.append(Text(""))
    return parts
