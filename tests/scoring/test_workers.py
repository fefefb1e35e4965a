"""Worker scripts with their libraries and small random models.

Random weights do not test the metrics, but batches, padding, order, truncation and the protocol. Tests with published
numbers and real weights are at the end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.errors import InputError
from custodes.scoring.metric import Place
from custodes.scoring.metrics.worker import WORKER
from tests.pages import blocks, run
from tests.scoring.made import texts
from tests.scoring.worker_contract import OUTPUTS, keeps_the_contract, twelve
from tests.scoring.workers import COMET, ORACLES, ROOT, python

HERE = Path(__file__).parent

Made = Callable[[str], Path]


@pytest.fixture
def save_model(tmp_path: Path) -> Made:
    """Function that saves a small random model in a folder."""

    def make(kind: str) -> Path:
        interpreter = python(COMET, "comet") if kind in ("comet", "kiwi", "unified") else python(ORACLES, "torch")
        subprocess.run([interpreter, HERE / "random_models.py", kind, tmp_path / kind], check=True, capture_output=True)
        return tmp_path / kind

    return make


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """Three images of noise."""
    python(ORACLES, "PIL")
    paths = [tmp_path / f"{number}.ppm" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(b"P6 50 40 255\n" + np.random.default_rng(number).bytes(40 * 50 * 3))
    return paths


def library_scores(interpreter: Path, code: str, *words: str | Path) -> list[float]:
    """Numbers that a library returns without a worker."""
    process = subprocess.run([interpreter, "-c", code, *words], check=True, capture_output=True, text=True)
    return [float(word) for word in process.stdout.splitlines()[-1].split()]


def test_a_function_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import os\n"
        "def score(rows):\n"
        "    print('noise'), os.write(1, b'noise'), os.system('echo noise')\n"
        "    return [len(row['output']) / len(row['references'][0]) or None for row in rows]\n"
    )
    result = keeps_the_contract("callable mine:score --needs references --each-reference", counts_cuts=False)
    assert result.why == {3: "the worker returned no score"}


@pytest.mark.slow
def test_uv_makes_the_environment_that_a_script_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script has no requirements; the test ends uv with all its child processes."""
    if not (uv := shutil.which("uv") or shutil.which(Path(sys.executable).with_name("uv"))):
        pytest.skip("uv is not there")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def score(rows):\n    return [len(row['output']) or None for row in rows]\n")
    result = keeps_the_contract(f"run='{uv} run --offline' callable mine:score", counts_cuts=False)
    assert result.values[1] == len("two dogs")


@pytest.mark.parametrize(
    ("name", "lacks", "needs"),
    [
        ("comet --model x", "comet", "unbabel-comet>=2.2, setuptools<81"),
        ("clipscore", "torch", "torch, .*pillow.*"),
        ("reward --model x", "torch", "torch, transformers>=4.44"),
    ],
)
def test_a_library_that_is_not_there_is_named_with_the_way_out(name: str, lacks: str, needs: str) -> None:
    result = (
        f"the worker ended with .* \"ModuleNotFoundError: No module named '{lacks}'\"; install {needs}, or "
        "give an interpreter"
    )
    with pytest.raises(InputError, match=f"^worker '.*': {result} that has them with run=PYTHON"):
        WORKER.load(Place(), command=name)


@pytest.mark.slow
@pytest.mark.parametrize("references", ["", " --references"])
def test_clipscore(save_model: Made, images: list[Path], references: str) -> None:
    model = save_model("clip")
    result = keeps_the_contract(f"run={ORACLES} clipscore --model {model}{references}", images=images)
    assert result.why == {}
    if references:
        return
    code = """
import sys, torch, PIL.Image
from transformers import CLIPModel, AutoTokenizer, AutoImageProcessor
model = CLIPModel.from_pretrained(sys.argv[1])
tokens = AutoTokenizer.from_pretrained(sys.argv[1])("A photo depicts " + sys.argv[3], return_tensors="pt")
pixels = AutoImageProcessor.from_pretrained(sys.argv[1], use_fast=False)
pixels = pixels(PIL.Image.open(sys.argv[2]), return_tensors="pt")
with torch.inference_mode():
    out = model(**tokens, **pixels)
print(2.5 * max(0, torch.cosine_similarity(out.image_embeds, out.text_embeds).item()))
"""
    for number in (0, 9):
        path = twelve(images).images[number][0]
        assert result.values[number] == pytest.approx(
            library_scores(ORACLES, code, model, path, OUTPUTS[number]), abs=1e-6
        )
    broken = images[0].with_name("broken.ppm")
    broken.write_bytes(images[0].read_bytes()[:90])
    rows = texts(["a"] * 4, images=[[str(images[0])], [], [str(broken)], [str(broken.with_name("none.ppm"))]])
    scorer = WORKER.load(Place(), command=f"run={ORACLES} clipscore --model {model}")
    bad = scorer.score(rows)
    scorer.close()
    assert np.isfinite(bad.values[:, 0]).tolist() == [True, False, False, False]
    assert bad.why[1] == "0 images, not 1"
    assert "cannot identify" in bad.why[2] or "truncated" in bad.why[2]
    assert "No such file" in bad.why[3]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["reward", "chat"])
def test_reward_models(save_model: Made, kind: str) -> None:
    """One model with padding, and one with a chat template and without padding, which gets single rows."""
    model = save_model(kind)
    result = keeps_the_contract(f"run={ORACLES} reward --model {model}")
    code = """
import sys, torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.AutoModelForSequenceClassification.from_pretrained(sys.argv[1])
source, output = sys.argv[2:]
if tokenizer.chat_template:
    chat = [{"role": "user", "content": source}, {"role": "assistant", "content": output}]
    tokens = tokenizer.apply_chat_template(chat, return_tensors="pt", return_dict=True)
else:
    tokens = tokenizer(source, output, return_tensors="pt")
with torch.inference_mode():
    print(model(**tokens).logits.item())
"""
    for number in (0, 6):
        whole = library_scores(ORACLES, code, model, twelve().sources[number], OUTPUTS[number])
        assert result.values[number] == pytest.approx(whole, abs=1e-6)


@pytest.mark.slow
def test_a_classifier_is_no_reward_model(save_model: Made) -> None:
    with pytest.raises(InputError, match="has 2 labels; a reward model has one"):
        WORKER.load(Place(), command=f"run={ORACLES} reward --model {save_model('labels')}")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["--year 24", "--year 24 --qe", "--year 23", "--year 23 --qe"])
def test_metricx(save_model: Made, form: str) -> None:
    """MetricX is an mT5 model; a random one tests the inputs, while published numbers need the weights."""
    model = save_model("mt5")
    result = keeps_the_contract(f"run={ORACLES} metricx --model {model} --tokenizer {model} --longest 300 {form}")
    code = """
import sys, torch, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.MT5ForConditionalGeneration.from_pretrained(sys.argv[1])
ids = torch.tensor([tokenizer(sys.argv[2])["input_ids"][:-1]])
with torch.inference_mode():
    print(model(input_ids=ids, decoder_input_ids=torch.zeros((1, 1), dtype=torch.long)).logits[0, 0, 250089].item())
"""
    source, reference = twelve().sources[0], twelve().references[0][0]
    text = {
        "--year 24": f"source: {source} candidate: {OUTPUTS[0]} reference: {reference}",
        "--year 24 --qe": f"source: {source} candidate: {OUTPUTS[0]}",
        "--year 23": f"candidate: {OUTPUTS[0]} reference: {reference}",
        "--year 23 --qe": f"candidate: {OUTPUTS[0]} source: {source}",
    }[form]
    (whole,) = library_scores(ORACLES, code, model, text)
    assert result.values[0, 0] == pytest.approx(min(max(whole, 0), 25), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["comet", "kiwi", "unified", "unified --references"])
def test_comet(save_model: Made, kind: str) -> None:
    """Scores equal those of `predict`, in an interpreter with another NumPy."""
    kind, _, option = kind.partition(" ")
    checkpoint = save_model(kind) / "checkpoints" / "model.ckpt"
    result = keeps_the_contract(f"run={COMET} comet --model {checkpoint} {option}")
    code = """
import json, sys, comet
model = comet.load_from_checkpoint(sys.argv[1])
print(*model.predict(json.loads(sys.argv[2]), gpus=0, progress_bar=False, num_workers=0).scores)
"""
    rows = twelve()
    whole = [
        {"src": rows.sources[number], "mt": OUTPUTS[number], "ref": rows.references[number][0]} for number in range(12)
    ]
    if kind != "comet" and not option:
        whole = [{name: row[name] for name in ("src", "mt")} for row in whole]
    theirs = library_scores(COMET, code, checkpoint, json.dumps(whole))
    np.testing.assert_allclose(result.values[:, 0], theirs, atol=1e-5)
    if kind != "comet":
        return
    with pytest.raises(InputError, match="not supported by COMET"):
        WORKER.load(Place(), command=f"run={COMET} comet --model {checkpoint.with_name('no.ckpt')}")


@pytest.mark.slow
def test_meteor_is_the_published_column(shared_data: Path) -> None:
    """SummEval, first reference: Pearson's r of the published column with our scores is .9957."""
    python(ORACLES, "pycocoevalcap")
    study = cu.read(shared_data / "summeval" / "outputs.jsonl.gz", shared_data / "summeval" / "ratings.csv.gz")
    assert study.outputs is not None
    rows = study.outputs.texts.join(study.outputs.sources, on="item").join(
        study.ratings.frame.filter(pl.col("rater").str.to_lowercase() == "meteor"), on=["item", "system"]
    )
    assert rows.height == 1600
    inputs = texts(rows["text"].to_list(), [references[:1] for references in rows["references"].to_list()])
    result = keeps_the_contract(f"run={ORACLES} meteor", counts_cuts=False)
    assert result.values[3] == 0
    scorer = WORKER.load(Place(batch=100), command=f"run={ORACLES} meteor")
    ours = scorer.score(inputs)
    scorer.close()
    assert ours.why == {}
    assert ours.seconds > 1
    assert np.corrcoef(ours.values[:, 0], rows["score"])[0, 1] >= 0.995


PAGES = {"score-captions": ("clip", "clipscore"), "score-with-reward-models": ("reward", "reward")}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_pages_on_models_run(page: str, save_model: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run as documented, with a random model in the environment of its library."""
    kind, worker = PAGES[page]
    model = save_model(kind)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    ran = 0
    for language, code in blocks(ROOT / "docs" / "howto" / f"{page}.md", "python", "bash"):
        if language == "python":
            exec(compile(code, page, "exec"), names)
            continue
        for line in (
            code.replace("MODEL", str(model)).replace(f"worker:{worker}", f"worker:run={ORACLES} {worker}").splitlines()
        ):
            status, out, err = run(line)
            assert status == 0, (line, out, err)
            ran += 1
    assert ran >= 2
    scores = pl.read_csv(tmp_path / "scores.csv")
    assert scores["score"].is_finite().all()
    assert scores["rater"].n_unique() >= 2
    assert all(name in (tmp_path / "report.html").read_text(encoding="utf-8") for name in scores["rater"].unique())
