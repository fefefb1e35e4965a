"""The page as text: whole, escaped, small; and what a report writes."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes.errors import OptionError
from custodes.reporting import Report
from custodes.reporting.sections import SECTIONS
from custodes.reporting.tables import columnar

EVIL = "<script>alert('x')</script>"


def embedded(html: str) -> dict[str, object]:
    found = re.search(r'<script type="text/plain" id="data">(.*?)</script>', html)
    assert found
    loaded: dict[str, object] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    return loaded


def test_page_has_every_section_and_its_tables(made: Report) -> None:
    for identity in (
        "verdict",
        "glance",
        "agreement",
        "favoritism",
        "ranking",
        "confusion",
        "complementarity",
        "ceiling",
        "combination",
        "correction",
        "protocol",
        "method",
    ):
        assert f'<section id="{identity}"' in made.html
    assert len(SECTIONS) == 11
    tables = embedded(made.html)["tables"]
    assert isinstance(tables, dict)
    assert set(made.tables()) <= set(tables)
    for line in made.verdict.aspects["fluency"]:
        assert line.text.replace("'", "&#39;") in made.html


def test_page_is_one_file(made: Report) -> None:
    # the script bundle names the addresses of schemas; only links that load something count
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', made.html.split('<script type="text/plain"')[0])
    assert made.html.count("vegaEmbed=") == 1
    assert len(made.html.encode()) < 2_000_000


def test_names_of_the_user_are_escaped() -> None:
    rows = [
        {"item": str(i), "system": system, "rater": rater, "kind": kind, "score": (i * 7 + j * 3 + k) % 5}
        for i in range(6)
        for j, system in enumerate((EVIL, "B", "C"))
        for k, (rater, kind) in enumerate((("ann", "human"), (EVIL + "m", "metric"), ("x", "metric")))
    ]
    made = cu.report(cu.read(pl.DataFrame(rows)), resamples=20)
    assert EVIL not in made.html
    assert "&lt;script&gt;alert" in made.html
    assert EVIL in str(embedded(made.html)["tables"])


def test_same_seed_same_bytes() -> None:
    study = cu.read("demo")
    options = {"resamples": 20, "aspect": "fluency", "metrics": "judge,overlap"}
    first, second = (cu.report(study, rng=3, **options) for _ in range(2))  # type: ignore[arg-type]
    assert first.html == second.html


def test_save_writes_the_page_and_refuses_a_folder(made: Report, tmp_path: Path) -> None:
    assert made.save(tmp_path / "r.html").read_text(encoding="utf-8") == made.html
    with pytest.raises(OptionError, match="is a folder"):
        made.save(tmp_path)
    with pytest.raises(OptionError, match="cannot write"):
        made.save(tmp_path / "nowhere" / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_save_figures_writes_every_picture_of_every_aspect(made: Report, tmp_path: Path) -> None:
    written = made.save_figures(tmp_path / "figures", format="json")
    assert len(written) == len(set(written)) == 38  # sixteen pictures of two aspects, six of both together
    assert all(path.stat().st_size > 500 for path in written)
    with pytest.raises(OptionError, match="did you mean 'svg'"):
        made.save_figures(tmp_path, format="svgz")


def test_columns_are_compact_and_whole() -> None:
    frame = pl.DataFrame({"name": ["a", None, "a"], "x": [1 / 3, float("nan"), 2.0], "n": [1, 2, 3]})
    assert columnar(frame) == {
        "rows": 3,
        "columns": {"name": {"labels": ["a"], "codes": [0, -1, 0]}, "x": [0.33333, None, 2], "n": [1, 2, 3]},
    }


def test_a_study_of_two_systems_says_so(made: Report) -> None:
    result = cu.report(cu.read("demo"), systems="Aster,Fir", aspect="fluency", metrics="judge", resamples=20)
    assert result.verdict.overall == ()
    assert "same choice as people" in " ".join(result.verdict.lines())


def test_one_sided_people_are_warned_of_in_the_sections() -> None:
    # as in RewardBench: the person always prefers `chosen`
    rows = [
        {"item": str(i), "system": system, "rater": rater, "kind": kind, "score": score}
        for i in range(8)
        for system in ("chosen", "rejected")
        for rater, kind, score in (
            ("gold", "human", int(system == "chosen")),
            ("m", "metric", (i + 2 * (system == "chosen")) % 5),
        )
    ]
    made = cu.report(cu.read(pl.DataFrame(rows)), resamples=20)
    assert made.html.count('<p class="warning"') == 2
    assert "Who favours whom" not in " ".join(made.verdict.lines())
