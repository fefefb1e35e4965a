"""Workers with published weights (`make test-hub`), which takes gigabytes of downloads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.scoring.metric import Place
from custodes.scoring.metrics.worker import WORKER
from tests.scoring.made import texts
from tests.scoring.worker_contract import keeps_the_contract
from tests.scoring.workers import COMET, ORACLES, python

pytestmark = pytest.mark.hub

GERMAN = [  # source, good, bad
    ("The police arrested fifteen people.", "Die Polizei nahm fünfzehn Menschen fest.", "Der Hund schläft im Garten."),
    ("It will rain until Sunday.", "Es regnet bis Sonntag.", "Es regnete seit Sonntag, und niemand aß Käse."),
]


def values(command: str, outputs: list[str], **more: list[str] | list[list[str]]) -> list[float]:
    """Scores of outputs, each of a separate item."""
    references = more.pop("references", None)
    scorer = WORKER.load(Place(batch=16), command=command)
    try:
        return scorer.score(texts(outputs, references, **more)).values[:, 0].tolist()  # type: ignore[arg-type]
    finally:
        scorer.close()


@pytest.mark.parametrize(
    ("interpreter", "worker", "column"),
    [
        (COMET, "comet --model Unbabel/wmt22-comet-da", "COMET-refA"),
        (COMET, "comet --model Unbabel/XCOMET-XL --references", "XCOMET-XL-refA"),
    ],
)
def test_published_scores_of_wmt23(shared_data: Path, interpreter: Path, worker: str, column: str) -> None:
    """English to German, segments 1 to 40 of three systems, compared with mt-metrics-eval."""
    python(interpreter, worker.split()[0])
    wmt = shared_data / "wmt23-en-de" / "mt-metrics-eval-v2.wmt23.en-de.tar.gz"
    study = cu.read(f"{wmt}::wmt23/en-de")
    assert study.outputs is not None
    rows = study.outputs.texts.join(study.outputs.sources, on="item", how="inner")
    rows = rows.join(study.ratings.frame.filter(rater=column), on=["item", "system"], how="inner").filter(
        pl.col("system").is_in(["NLLB_Greedy", "GPT4-5shot", "ONLINE-B"]), pl.col("item").cast(pl.Int64) <= 40
    )
    assert rows.height == 120
    ours = values(
        f"run={interpreter} {worker}",
        rows["text"].to_list(),
        sources=rows["source"].to_list(),
        references=rows["references"].to_list(),
    )
    assert np.corrcoef(ours, rows["score"])[0, 1] >= 0.999


@pytest.mark.parametrize("form", ["", " --qe"])
def test_metricx_tells_right_from_wrong(form: str) -> None:
    """Lower is better: an error score of 25 is the worst."""
    python(ORACLES, "torch")
    command = f"run={ORACLES} metricx --model google/metricx-24-hybrid-large-v2p6{form}"
    sources = [source for source, *_ in GERMAN]
    results = {"sources": sources, "references": [[good] for _, good, _ in GERMAN]}
    right = values(command, [good for _, good, _ in GERMAN], **results)
    wrong = values(command, [bad for *_, bad in GERMAN], **results)
    assert all(0 <= right_score < wrong_score <= 25 for right_score, wrong_score in zip(right, wrong, strict=True))
    assert max(right) < 5 < min(wrong)


@pytest.mark.parametrize("references", ["", " --references"])
def test_clipscore_tells_colours(tmp_path: Path, references: str) -> None:
    """With the model of the paper, texts with the colour of the image score higher."""
    python(ORACLES, "PIL")
    paths = []
    for name, colour in {"red": (220, 30, 30), "green": (30, 180, 60)}.items():
        paths.append(tmp_path / f"{name}.ppm")
        paths[-1].write_bytes(b"P6 96 96 255\n" + bytes(colour) * 96 * 96)
    command = f"run={ORACLES} clipscore --model openai/clip-vit-base-patch32{references}"
    keeps_the_contract(command, images=paths)
    results = ["a plain red square", "a plain green square"] * 2
    images = [[str(paths[number // 2])] for number in range(4)]
    scores = values(command, results, images=images, references=[["a square in one colour"]] * 4)
    assert scores[0] > scores[1]
    assert scores[3] > scores[2]


def test_a_reward_model_tells_an_answer_from_none() -> None:
    python(ORACLES, "torch")
    command = f"run={ORACLES} reward --model OpenAssistant/reward-model-deberta-v3-large-v2"
    prompts = ["How do I boil an egg?", "What is seven times eight?"] * 2
    answers = [
        "Put it into boiling water for eight minutes.",
        "Seven times eight is 56.",
        "Eggs are blue.",
        "Who cares?",
    ]
    scores = values(command, answers, sources=prompts)
    assert scores[0] > scores[2]
    assert scores[1] > scores[3]
