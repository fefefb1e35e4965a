"""Figures of distances between raters show the numbers of their result, with humans distinguished from metrics."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import custodes as cu
from custodes import plots
from custodes.errors import InputError
from custodes.evaluate.complementarity.complementarity import Complementarity
from custodes.plots import labels, theme
from custodes.plots.complementarity import CELL_MAX, CELL_MIN, CELL_NAMED, GAP, NAMED, NEAREST
from tests.evaluate.judged_studies import judged
from tests.plots.drawn import matches_in


@pytest.fixture(scope="module")
def distances() -> Complementarity:
    return cu.complementarity(cu.read("demo"), resamples=50)


def many(result: Complementarity, copies: int) -> Complementarity:
    """Repeat the raters under new names."""
    tables = {}
    for name in ("pairs", "raters", "coordinates"):
        frame = pl.concat([getattr(result, name).with_columns(copy=pl.lit(k)) for k in range(copies)])
        columns = [column for column in ("rater", "rater_a", "rater_b") if column in frame.columns]
        tables[name] = frame.with_columns(pl.format("{}-{}", column, "copy").alias(column) for column in columns)
    return replace(result, **tables)


def test_the_map_has_every_pair_once_below_the_diagonal(distances: Complementarity, tmp_path: Path) -> None:
    chart = plots.complementarity_map(distances)
    assert chart.to_dict()["data"]["values"] == distances.pairs.to_dicts()
    cells = matches_in(chart, tmp_path, r"column: (\S+); row: (\S+); [^:]*: [^:]*: ?([\d.]+)")
    encoding = chart.to_dict()["encoding"]
    ordered = [encoding["x"]["scale"]["domain"][0], *encoding["y"]["scale"]["domain"]]
    place = {rater: position for position, rater in enumerate(ordered)}
    assert all(place[column] < place[row] for column, row, _ in cells)
    expected = {
        frozenset((a, b)): value
        for a, b, value in distances.pairs.select("rater_a", "rater_b", "complementarity").iter_rows()
    }
    assert len(cells) == len(expected) == 45  # ten raters
    for column, row, value in cells:
        assert float(value) == pytest.approx(expected[frozenset((column, row))], abs=1e-5)


def test_people_stand_first_and_apart(distances: Complementarity) -> None:
    encoding = plots.complementarity_map(distances).to_dict()["encoding"]
    across, up = encoding["x"]["scale"]["domain"], encoding["y"]["scale"]["domain"]
    assert [across[0], up[0], up[1]] == ["human:coherence", "human:fluency", GAP]
    assert set(up[2:]) == set(distances.raters.filter(kind="metric")["rater"])
    assert across[1:] == up[:-1]


def test_similar_raters_are_adjacent() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(30, 6))
    scores: dict[Any, Any] = {("ann", "style"): base + 0.2 * rng.normal(size=base.shape)}
    for k in range(3):
        scores[f"like{k}", ""] = base + 0.2 * rng.normal(size=base.shape)
        scores[f"unlike{k}", ""] = -base + 0.2 * rng.normal(size=base.shape)
    encoding = plots.complementarity_map(cu.complementarity(judged(scores), resamples=0)).to_dict()["encoding"]
    families = [rater[:4] for rater in encoding["y"]["scale"]["domain"][1:]]
    assert len(set(families[:3])) == len(set(families[3:])) == 1


def test_raters_without_a_ranking_have_no_row(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "item": [str(i) for i in range(6) for _ in range(3)],
            "system": ["A", "B", "C"] * 6,
            "ann": [float((i * 7 + j * j) % 5) for i in range(6) for j in range(3)],
            "bleu": [float((i * 3 + j) % 4) for i in range(6) for j in range(3)],
            "rouge": [float((i + 2 * j) % 7) for i in range(6) for j in range(3)],
            "stuck": [1.0] * 18,
        }
    )
    result = cu.complementarity(cu.read(rows), human="ann", resamples=0)
    assert "stuck" in result.raters["rater"].to_list()
    text = plots.save(plots.complementarity_map(result), tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "rouge" in text
    assert "stuck" not in text


def test_cells_shrink_with_the_number_of_raters_and_the_width(distances: Complementarity) -> None:
    steps = [
        plots.complementarity_map(result, width=width).to_dict()["width"]["step"]
        for result, width in (
            (distances, 455),
            (many(distances, 4), 455),
            (many(distances, 4), 219),
            (many(distances, 12), 455),
        )
    ]
    assert steps == [CELL_MAX, CELL_NAMED, CELL_NAMED, CELL_MIN]
    assert plots.complementarity_map(many(distances, 4), width=760).to_dict()["width"]["step"] == pytest.approx(
        760 / 40
    )
    drop = [
        plots.complementarity_map(many(distances, n)).to_dict()["encoding"]["y"]["axis"]["labelOverlap"]
        for n in (4, 12)
    ]
    assert drop == [False, "greedy"]  # of 120 raters only those that fit are labelled
    assert theme.TEXT < CELL_NAMED


def test_the_curve_shows_components_and_the_rule(distances: Complementarity, tmp_path: Path) -> None:
    chart = plots.explained_variance(distances)
    assert chart.to_dict()["data"]["values"] == distances.components.to_dicts()
    marks = [float(value) for value in matches_in(chart, tmp_path, r"cumulative: ([\d.]+)%; cumulative")]
    expected = (100 * distances.components["cumulative"]).round(1).to_list()
    assert set(marks) <= set(expected)
    assert marks[0] == expected[0]
    rules = [layer for layer in chart.to_dict()["layer"] if layer["encoding"]["y"].get("datum") == 0.8]
    assert len(rules) == 1  # one rule: the proportion that defines the effective dimension


def test_the_map_of_places_has_one_unit_for_both_axes(distances: Complementarity) -> None:
    chart = plots.judges_map(distances, width=400).to_dict()
    points = chart["layer"][0]["encoding"]
    across, up = (np.ptp(points[axis]["scale"]["domain"]) for axis in ("x", "y"))
    assert across / chart["width"] == pytest.approx(up / chart["height"])
    low, high = points["y"]["scale"]["domain"]
    assert distances.coordinates["y"].is_between(low, high).all()
    rows = [{name: row[name] for name in distances.coordinates.columns} for row in chart["data"]["values"]]
    assert rows == distances.coordinates.to_dicts()


def named(chart: Any) -> set[str]:
    """Return the raters that the map labels."""
    return {row["rater"] for row in chart.to_dict()["data"]["values"] if row["named"]}


def test_few_raters_are_all_named_of_many_people_those_like_them_and_the_ends(distances: Complementarity) -> None:
    assert named(plots.judges_map(distances)) == set(distances.coordinates["rater"])
    result = many(distances, 3)
    assert result.coordinates.height > NAMED
    names = named(plots.judges_map(result))
    metrics = result.coordinates.filter(kind="metric")
    ends = {metrics.sort(axis)["rater"][end] for axis in "xy" for end in (0, -1)}
    assert set(result.coordinates.filter(kind="human")["rater"]) | ends <= names
    assert len(names) <= 6 + 4 + NEAREST


def test_two_raters_have_components_but_no_map() -> None:
    two = cu.complementarity(cu.read("demo"), metrics="learned", aspect="fluency", resamples=0)
    assert plots.explained_variance(two).to_dict()["layer"]
    with pytest.raises(InputError, match="fewer than four raters"):
        plots.judges_map(two)


def test_without_components_two_figures_say_why(distances: Complementarity) -> None:
    none = replace(distances, components=distances.components.head(0), coordinates=distances.coordinates.head(0))
    for figure in (plots.explained_variance, plots.judges_map):
        with pytest.raises(InputError, match="left_out"):
            figure(none)


def test_names_hide_neither_each_other_nor_points() -> None:
    points = np.array([[100.0, 100], [110, 100], [100, 112], [390, 100]])
    texts = ["abcdef", "abcdef", "abcdef", "abcdef"]
    centres = points + labels.place_labels(points / (400, 200), texts, range(4), widths=[400], height=200)
    half = np.array([labels.LETTER * 6, labels.LINE]) / 2
    for (one, a), (j, b) in combinations(enumerate(centres), 2):
        assert (np.abs(a - b) >= 2 * half - 1e-9).any(), (one, j)
    for i, point in enumerate(points):
        assert all((np.abs(centre - point) >= half).any() for k, centre in enumerate(centres) if k != i)
    assert centres[3, 0] + half[0] <= 400  # at the right edge the label stands to the left


@pytest.mark.parametrize("kind", labels.WIDTHS)
def test_places_of_names_hold_on_a_phone_and_on_a_screen_and_are_always_the_same(kind: str) -> None:
    places, texts = np.random.default_rng(0).random((90, 2)), [f"metric-{i}" for i in range(90)]
    widths = labels.WIDTHS[kind]
    result = labels.place_labels(places, texts, range(8), widths=widths, height=300, pad=24)
    assert (result == labels.place_labels(places, texts, range(8), widths=widths, height=300, pad=24)).all()
    half = np.array([labels.LETTER * len(texts[0]), labels.LINE]) / 2
    for width in widths:
        middles = (places * (width - 48, 300) + (24, 0) + result)[:8]
        assert all((np.abs(a - b) >= 2 * half - 1e-9).any() for a, b in combinations(middles, 2))
        assert (middles - half >= 0).all()
        assert (middles + half <= (width, 300)).all()


@given(st.lists(st.floats(-100, 100), max_size=12), st.floats(0.1, 20))
def test_names_of_lines_are_moved_as_little_as_need_be(values: list[float], gap: float) -> None:
    given_values = np.array(values, dtype=float)
    result = labels.separate_positions(given_values, gap=gap)
    order = np.argsort(given_values, kind="stable")
    assert (np.diff(result[order]) >= gap - 1e-9).all()
    if len(values):
        # after subtracting the gaps, isotonic regression gives the least-squares solution
        shift = gap * np.arange(len(values))
        expected = isotonic_regression(given_values[order] - shift).x + shift
        np.testing.assert_allclose(result[order], expected, atol=1e-9)
