"""Status, owner's page, leaderboard, verdict, export and report agree on answers, annotators, decisions and margins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.annotate.event_log import Clock
from custodes.annotate.export_study import export
from custodes.annotate.rehearsal import START
from custodes.annotate.service import Service
from custodes.annotate.simulated_crowd import Crowd, Drive, Habits, StudyFileReader
from custodes.annotate.views import Skip
from custodes.data.notes import Note
from custodes.reporting.sections.annotators import last_interim_analyses
from tests.annotate import studies
from tests.annotate.studies import current_question, new_annotator, plan_of

pytest.importorskip("starlette")

from tests.annotate.requests import signed_in

PAIR = ["system_a", "system_b"]
FATES = ("finished", "unfinished", "stopped", "excluded")


@pytest.fixture(scope="module", params=FATES)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of three systems with second ratings, known questions and careless annotators."""
    path, time = tmp_path_factory.mktemp(request.param) / "study.db", [0.0]
    plan = plan_of(stopping={"looks": (10, 20, 40)}, annotators={"overlap": 0.2, "most": 14})
    studies.study(path, plan=plan, systems=3, items=60)
    clock = Clock(wall=lambda: START + time[0], steady=lambda: time[0])
    with (
        closing(StudyFileReader(path)) as answering,
        closing(Service.open(path, clock=clock, threaded=False, durable=False)) as service,
    ):
        annotators = Crowd(
            systems=answering.systems(),
            items=answering.items(),
            aspects=("",),
            margin=0.4,
            # annotators who leave keep a question, so an interim analysis stays incomplete
            habits=Habits(careless=0.3, leaving=0.0 if request.param in ("finished", "excluded") else 0.08),
            rng=np.random.default_rng(2),
        )
        if request.param == "unfinished":
            token = new_annotator(service)
            service.act(token, Skip(assignment=current_question(service, token).assignment, reason="other")).result()
        Drive(service, annotators, answering, plan, time).run(12 if request.param != "unfinished" else 5)
        if request.param == "stopped":
            service.control("stop").result()
        if request.param == "excluded":
            service.exclude("w003", "careless").result()
    return path


@pytest.fixture
def service(study: Path) -> Iterator[Service]:
    with closing(Service.open(study, threaded=False)) as service:
        yield service


def number(notes: tuple[Note, ...], rule: str) -> int:
    """Return the sum of the counts at the start of the notes of a rule."""
    messages = [note.message for note in notes if note.rule == rule]
    return sum(int(re.findall(r"\d+", message.partition(": ")[2])[0]) for message in messages)


def test_every_answer_is_counted_once(study: Path) -> None:
    """The answers of `status` are the primary ratings, the second ratings, and those that notes report as left out."""
    read, row = cu.read(study), cu.annotate.status(study).study.row(0, named=True)
    n_left_out = sum(number(read.notes, rule) for rule in ("excluded-annotators", "incomplete-looks"))
    assert row["answers"] == read.preferences.frame.height + read.second.frame.height + n_left_out


def test_decisions_and_margins_are_the_same_everywhere(study: Path, service: Service, tmp_path: Path) -> None:
    status = cu.annotate.status(study).pairs.filter(pl.col("looks_done") > 0).sort(PAIR)
    read = cu.read(study)
    board = cu.leaderboard(read, resamples=100)
    interim = board.interim.sort(PAIR)
    is_open = status["is_open"]
    assert status["n"].to_list() == interim["n"].to_list()
    for name in ("margin", "margin_low", "margin_high"):
        assert status.filter(~is_open)[name].to_list() == interim.filter(~is_open)[name].to_list(), name
        assert status.filter(is_open)[name].is_null().all(), "an undecided pair shows no margin"
    better = pl.when(pl.col("decision") == "+").then("system_a").when(pl.col("decision") == "-").then("system_b")
    assert status["better"].to_list() == interim.select(better.otherwise(pl.lit("")))[:, 0].to_list()
    assert (status.filter("is_open")["better"] == "").all(), "an open pair is undecided"
    report_looks = last_interim_analyses(read).sort(PAIR)  # of the report
    assert report_looks["at_look"].to_list() == interim["margin"].to_list()
    folder = export(study, tmp_path / "out")
    exported = cu.read(folder / "battles.csv", folder / "looks.csv", raters=folder / "raters.csv")
    assert cu.leaderboard(exported, resamples=100).interim.sort(PAIR).equals(interim)
    page = signed_in(service).get("/admin/study").text
    cells = {
        row[0]: row[1:]
        for row in (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.S) for line in page.split("<tr>"))
        if row and " – " in row[0]
    }
    for row in status.iter_rows(named=True):
        cell = " ".join(cells[f"{row['system_a']} – {row['system_b']}"])
        assert row["is_open"] or (f"{abs(row['margin']):.2f}" in cell and str(row["n"]) in cell), cell
        assert not row["better"] or f"{row['better']} better" in cell or row["better"] in cell
    verdict_text = " ".join(cu.verdict(read, resamples=100).verdict["text"])
    for row in interim.filter(pl.col("decision") != "=").iter_rows(named=True):
        first, second = (row["system_a"], row["system_b"])[:: 1 if row["decision"] == "+" else -1]
        assert f"{first} better than {second}" in verdict_text


def test_only_excluded_answers_are_left_out_of_the_leaderboard(study: Path) -> None:
    """No other answers are left out, and the margin of human ratings is (wins - losses) / battles."""
    status, read = cu.annotate.status(study), cu.read(study)
    board = cu.leaderboard(read, resamples=0)
    pairs = board.pairs.filter(rater="human").join(status.pairs, on=PAIR)
    excluded = sum(
        int(re.findall(r"\d+", note.message)[0]) for note in status.notes if note.rule == "excluded-annotators"
    )
    stopped = status.study["state"][0] == "stopped"
    n_battles = pl.sum_horizontal("wins", "ties", "losses")
    assert stopped or pairs.select((pl.col("n") - n_battles).sum()).item() == excluded
    if not excluded and not stopped:
        ahead = (pl.col("wins") - pl.col("losses")) / n_battles
        # Margins of closed pairs are adjusted for the interim analyses.
        still = pairs.filter("is_open").join(board.interim, on=PAIR, suffix="_interim")
        assert still["margin_interim"].to_list() == pytest.approx(still.select(ahead)[:, 0].to_list())


def test_the_owner_sees_the_agreement_and_what_may_still_be_done(study: Path, service: Service) -> None:
    page, now = signed_in(service).get("/admin/study").text, service.snapshot().result()
    over = now.state in ("finished", "stopped")
    assert ("Stop the study" in page) is not over
    assert ("Create links" in page) is not over
    n_agreed, n_doubled = (
        sum(getattr(annotator, name) for annotator in now.annotators) for name in ("agreed", "doubled")
    )
    assert f"<dd>{100 * n_agreed / n_doubled:.0f} %<small>of pairs of answers" in page
    assert len(re.findall('class="problem"', page)) == len(now.notes)
