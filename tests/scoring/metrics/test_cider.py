"""CIDEr-D agrees with golden numbers of pycocoevalcap, and with pycocoevalcap itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from custodes.scoring.metrics.cider import ONE_ITEM
from tests.scoring.metrics.given import random_inputs, scored, texts

ORACLE = Path(__file__).parents[3] / ".venv-oracles" / "bin" / "python"
ASK = """
import json, sys
from pycocoevalcap.cider.cider_scorer import CiderScorer

given = json.load(sys.stdin)
scores = []
for outputs in given["outputs"]:
    scorer = CiderScorer(n=4, sigma=6.0)
    for output, references in zip(outputs, given["references"]):
        scorer += (output, references)
    scores.append(list(scorer.compute_score()[1]))
print(json.dumps(scores))
"""

REFERENCES = [
    ["a man rides a brown horse", "a man on a horse", "someone rides a horse"],
    ["two dogs play in the snow", "dogs run in the snow"],
    ["a red bus in the street", "the bus is red", "a bus on a street"],
]
OUTPUTS = [
    ["a man rides a horse", "dogs in the snow", "a red bus on a street"],
    ["a horse", "a man rides a horse", "snow"],
]


GOLDEN = [  # pycocoevalcap 1.2
    [4.582133019665605, 3.8040952120827054, 3.8119386302605025],
    [2.2546559709935003, 0.0, 0.0],
]


def test_golden_numbers() -> None:
    result = scored("cider", texts(list(zip(*OUTPUTS, strict=True)), REFERENCES)).values.reshape(3, 2).T
    np.testing.assert_allclose(result, GOLDEN, rtol=1e-12, atol=1e-15)


def test_one_item_has_no_rare_words() -> None:
    result = scored("cider", texts([["a", "b"]], [["a"]]))
    assert result.why == {0: ONE_ITEM, 1: ONE_ITEM}
    assert np.isnan(result.values).all()


def test_a_score_depends_on_the_other_items_and_not_on_their_order() -> None:
    inputs = random_inputs(5, 2, 3)
    all_items = scored("cider", inputs).values[:, 0]
    few = texts([inputs.outputs[:2], inputs.outputs[2:4]], inputs.references[:2])
    assert not np.allclose(scored("cider", few).values[:, 0], all_items[:4])
    turned = texts(
        [inputs.outputs[2 * number : 2 * number + 2] for number in reversed(range(5))], inputs.references[::-1]
    )
    np.testing.assert_allclose(scored("cider", turned).values.reshape(5, 2)[::-1].ravel(), all_items, rtol=1e-12)


@pytest.mark.slow
def test_pycocoevalcap() -> None:
    if not ORACLE.exists():
        pytest.skip("the environment .venv-oracles is not there")
    inputs = random_inputs(40, 4, 5)
    outputs = [inputs.outputs[system::4] for system in range(4)]
    data = json.dumps({"outputs": outputs, "references": inputs.references})
    process = subprocess.run([ORACLE, "-c", ASK], input=data, capture_output=True, text=True, check=True).stdout
    result = scored("cider", inputs, tokenize="space").values.reshape(40, 4).T
    np.testing.assert_allclose(result, json.loads(process), rtol=1e-10, atol=1e-12)
