"""The command `score`: input and output files, exit statuses, lists of metrics and dry runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes import cli
from custodes.scoring.metric import MetricResult, Traits
from custodes.scoring.metrics import METRICS
from tests.scoring.made import OUTPUTS, OVERLAP, REFERENCES, Recorded, constant, overlap, recorded, register


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Text file in the working folder."""
    monkeypatch.chdir(tmp_path)
    rows = [{"item": item, "outputs": output, "references": REFERENCES[item]} for item, output in OUTPUTS.items()]
    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "texts.jsonl"


def files() -> set[str]:
    return {path.name for path in Path().iterdir()}


def people(path: str, scores: Mapping[tuple[str, str], float]) -> None:
    rows = [
        {"item": i, "system": s, "rater": "ann", "kind": "human", "score": value} for (i, s), value in scores.items()
    ]
    pl.DataFrame(rows).write_csv(path)


def test_texts_to_a_file_that_every_verb_takes(
    monkeypatch: pytest.MonkeyPatch, texts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(monkeypatch, overlap, OVERLAP)
    line = ["score", texts, "--metric", "made@first,best", "--metric", "length", "-o", "scores.csv"]
    assert cli.run(line) == 0
    captured = capsys.readouterr()
    assert captured.out.split() == ["scores.csv", "scores.raters.csv"]
    lines = captured.err.splitlines()
    assert lines[-1].startswith("custodes: next: custodes report scores.csv")
    assert files() == {"texts.jsonl", "scores.csv", "scores.raters.csv", "scores.cache.db"}
    people(
        "people.csv", {(item, system): score for item in "12" for system, score in zip("ABC", (3, 2, 1), strict=True)}
    )
    study = cu.read("scores.csv", "people.csv", raters="scores.raters.csv")
    assert study.metrics == ("made@first", "made@best", "length")
    assert study.raters.bounds == {"made@first": (0, 1), "made@best": (0, 1)}
    before = Path("scores.csv").read_bytes(), Path("scores.raters.csv").read_bytes()
    assert cli.run([*line, "--batch", "1", "--quiet"]) == 0
    assert before == (Path("scores.csv").read_bytes(), Path("scores.raters.csv").read_bytes())


def test_the_costs_are_what_combine_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    slow = Recorded(lambda texts: MetricResult(values=overlap(texts).values, seconds=9.0), OVERLAP, "slow")
    register(monkeypatch, slow.metric)
    rows = [
        {"item": str(i), "outputs": {s: f"a {s} fox {'ran ' * ((i * k) % 5)}" for k, s in enumerate("ABCD")}}
        for i in range(12)
    ]
    Path("texts.jsonl").write_text("".join(json.dumps(row | {"references": ["a fox ran"]}) + "\n" for row in rows))
    assert cli.run(["score", "texts.jsonl", "--metric", "slow", "--metric", "length", "-o", "scores.csv"]) == 0
    people("people.csv", {(str(i), s): (i * k) % 5 + k for i in range(12) for k, s in enumerate("ABCD")})
    expected = dict(pl.read_csv("scores.raters.csv").select("rater", "cost").rows())
    assert expected["slow"] == pytest.approx(9 / 16, rel=0.1)  # 16 distinct texts
    options = {"method": ["best"], "repeats": 1, "resamples": 20}
    by_study = cu.combine(cu.read("scores.csv", "people.csv", raters="scores.raters.csv"), **options)
    by_file = cu.combine(cu.read("scores.csv", "people.csv"), costs="scores.raters.csv", **options)
    for result in (by_study, by_file):
        assert dict(result.path.select("metric", "cost").rows()) == expected


def test_a_metric_that_fails_is_exit_1_with_the_others_written(
    monkeypatch: pytest.MonkeyPatch, texts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(monkeypatch, constant(float("inf")), Traits())
    assert cli.run(["score", texts, "--metric", "made", "--metric", "length", "-o", "scores.csv"]) == 1
    errors = capsys.readouterr().err
    assert re.match(r"custodes: note: made: the metric failed: the metric returned an infinite score; [^\n]*\n", errors)
    assert pl.read_csv("scores.csv")["rater"].unique().to_list() == ["length"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--metric lenght -o s.csv", r"metric 'lenght': unknown metric 'lenght' \(did you mean 'length'"),
        ("--metric made -o s.csv", "texts.jsonl: metric made needs source, and 2 of 2 items have no source"),
        ("-o s.csv", "score: no metric is given; give --metric NAME"),
        ("--metric length", "score: no output file is given; give one, as in -o scores.csv"),
        ("--metric length -o s.xyz", "cannot write s.xyz: unknown suffix '.xyz'; allowed:"),
        ("--metric length -o s.csv --cache texts.jsonl", "cannot write texts.jsonl: it is the input"),
        ("--metric length -o s.csv --cache s.csv", "cannot write s.csv: two outputs have this path"),
        ("--metric length -o s.csv --batch 0", "--batch 0: must be a whole number of at least 1"),
        ("--metric length -o s.csv --missing skip", "Invalid value"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, texts: str, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    recorded(monkeypatch, constant(1.0), Traits(needs=("source",)))
    before = Path(texts).read_bytes()
    assert cli.run(["score", texts, *options.split()]) == 2
    captured = capsys.readouterr()
    assert re.match(f"custodes: {message}", captured.err), captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert files() == {"texts.jsonl"}
    assert Path(texts).read_bytes() == before


def test_dropped_outputs_are_told_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text(
        '{"item": "1", "outputs": {"A": "a", "B": ""}}\n{"item": "2", "outputs": {"A": "a"}}'
    )
    line = ["score", "texts.jsonl", "--metric", "length", "-o", "s.csv"]
    assert cli.run(line) == 2
    assert "1 of 4 outputs are missing (B of 2); add them, or score the remaining outputs" in capsys.readouterr().err
    line += ["--missing", "drop"]
    assert cli.run([*line, "--dry-run"]) == 0
    notes = capsys.readouterr().err
    assert notes.startswith("custodes: note: texts.jsonl: the text of 1 of 3 outputs is empty (B of 1)")
    assert cli.run(line) == 0
    assert capsys.readouterr().err.startswith(f"{notes}custodes: note: 1 of 4 outputs are missing\n")


@pytest.mark.parametrize("words", [("-o", "-"), ("--output=-",)])
def test_a_dash_is_standard_output(
    words: tuple[str, ...], texts: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert cli.run(["score", texts, "--metric", "length", *words]) == 0
    captured = capfdbinary.readouterr()
    assert captured.out.startswith(b"item,system,rater,score,kind\n1,A,length,3.0,metric\n")
    assert (captured.err, files()) == (b"", {"texts.jsonl"})


def test_nothing_is_kept_on_request_nor_beside_a_stream(texts: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.run(["score", texts, "--metric", "length", "-o", "s.csv", "--cache", "none"]) == 0
    assert files() == {"texts.jsonl", "s.csv", "s.raters.csv"}
    assert cli.run(["score", texts, "--metric", "length", "-o", "/dev/stdout"]) == 0
    assert files() == {"texts.jsonl", "s.csv", "s.raters.csv"}
    assert b"1,A,length,3.0,metric" in capfdbinary.readouterr().out
    assert cli.run(["score", texts, "--metric", "length", "-o", "t.tsv.gz", "--cache", "own.db"]) == 0
    assert files() == {"texts.jsonl", "s.csv", "s.raters.csv", "t.tsv.gz", "t.raters.csv", "own.db"}


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, texts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = recorded(monkeypatch, lambda texts: MetricResult(values=overlap(texts).values, seconds=60.0), OVERLAP)
    line = ["score", texts, "--metric", "made@best", "-o", "s.csv"]
    assert cli.run([*line, "--dry-run"]) == 0
    assert files() == {"texts.jsonl"}
    assert not recorder.calls
    assert re.search(r"made@best +6 +0 +6\n", capsys.readouterr().out)
    assert cli.run([*line[:-2], "--dry-run"]) == 0
    assert cli.run(line) == 0
    changed = Path(texts).read_text().replace("the big dog", "the dog ran")
    Path(texts).write_text(changed)
    capsys.readouterr()
    assert cli.run([*line, "--dry-run"]) == 0
    assert len(recorder.calls) == 1
    assert re.search(r"made@best +6 +5 +1 +10", capsys.readouterr().out)


def test_the_list_names_every_metric(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["score", "--list"]) == 0
    out = capsys.readouterr().out
    for name, metric in METRICS.items():
        assert re.search(rf"^{re.escape(name)}\b|^{re.escape(name)} ", out, re.MULTILINE), name
        for need in metric.traits.needs:
            assert need in out
