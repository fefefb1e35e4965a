"""BERTScore compared with bert-score 0.3.13, in the interpreter that has it (.venv-oracles)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-oracles" / "bin" / "python"
SCRIPT = Path(__file__).with_name("beside_bert_score.py")
KINDS = ["minilm", "onnx", "bert", "roberta", "distilbert", "t5"]
CASES = [*KINDS, "precision", "recall", "layer", "empty", "idf", "baseline"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="the environment of oracles is not made (.venv-oracles)"),
]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """`scores`: case to our scores and those of bert-score; `errors`: messages for invalid cases."""
    places = ":".join(place for place in sys.path if place and (Path(place) / "msgspec").is_dir())
    folder = tmp_path_factory.mktemp("models")
    call = [str(PYTHON), str(SCRIPT), str(folder), f"{places}:{ROOT / 'src'}"]
    process = subprocess.run(call, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    data: dict[str, Any] = json.loads(process.stdout)
    assert set(data["scores"]) == set(CASES)
    return data


@pytest.mark.parametrize("case", CASES)
def test_it_is_that_of_bert_score(comparison: dict[str, Any], case: str) -> None:
    ours, theirs = np.array(comparison["scores"][case])
    assert ours.shape == (96,)
    assert ours.std() > 0.04
    if case == "onnx":  # 8-bit weights compared with 32-bit ones
        assert np.corrcoef(ours, theirs)[0, 1] > 0.9999
        assert np.abs(ours - theirs).max() < 0.01
    else:
        assert np.abs(ours - theirs).max() < 1e-5


SAID = {
    **dict.fromkeys(("weights", "kind", "config"), "transformers cannot load the model: "),
    "tokenizer": "the folder has no tokenizer.json and no vocabulary of a tokenizer; add",
    "layer": "layer=4 is not allowed; the model has 3 layers",
    "half": "half=true needs a GPU",
    "device": "device=cuda:1: PyTorch finds 0 devices of this kind",
}


def test_what_transformers_cannot_do_is_one_line(comparison: dict[str, Any]) -> None:
    assert comparison["errors"].keys() == SAID.keys()
    for case, message in SAID.items():
        assert message in comparison["errors"][case]
        assert "\n" not in comparison["errors"][case]
