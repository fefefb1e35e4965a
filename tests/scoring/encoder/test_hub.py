"""Encoders with published weights from the hub (make test-hub)."""

from typing import Any

import numpy as np
import pytest

from custodes.scoring.metric import Metric, Place, Scorer
from custodes.scoring.metrics.bertscore import BERTSCORE
from custodes.scoring.metrics.cosine import COSINES
from tests.scoring.made import texts

pytestmark = pytest.mark.hub

MINILM = "sentence-transformers/all-MiniLM-L6-v2"  # 91 MB
ROBERTA = "FacebookAI/roberta-large"  # 1.4 GB
OUTPUT = "The ferries stay in the port until the storm is over."
REFERENCES = ["Ferries remain in harbour until the storm has passed.", "The recipe asks for two eggs and some butter."]


def loaded(metric: Metric, **parameters: Any) -> Scorer:
    return metric.load(Place(), **{**metric.parameters, **parameters})


def test_a_paraphrase_is_nearer_than_a_recipe() -> None:
    """Both back ends for one repository, which has an ONNX model and PyTorch weights."""
    pytest.importorskip("onnxruntime")
    inputs = texts([OUTPUT], [REFERENCES])
    results = [loaded(value, model=MINILM, backend="onnx").score(inputs).values for value in (BERTSCORE, COSINES[0])]
    for values in results:
        assert values[0, 0] > values[0, 1] + 0.2
    pytest.importorskip("transformers")
    pytorch_scores = loaded(BERTSCORE, model=MINILM, backend="transformers").score(inputs).values
    np.testing.assert_allclose(pytorch_scores, results[0], atol=1e-4)


def test_bertscore_as_its_authors_have_it() -> None:
    """Roberta-large with the layer that the authors selected."""
    pytest.importorskip("transformers")
    values = loaded(BERTSCORE, model=ROBERTA, layer=17).score(texts([OUTPUT], [REFERENCES])).values
    assert 1 > values[0, 0] > values[0, 1] > 0.7  # cosines of this model are high
