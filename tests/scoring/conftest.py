"""Fixtures for tests of scoring: a generated encoder, without downloads."""

from pathlib import Path

import pytest

from custodes.data.study import Study
from tests.scoring import made
from tests.scoring.encoders import onnx_model, tokenizer


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small random encoder in ONNX with its tokenizer; at most 24 tokens, vectors of length 8."""
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer(folder, limit=24)
    onnx_model(folder / "model.onnx", limit=24)
    return folder


@pytest.fixture
def study() -> Study:
    """Two items with references and outputs of three systems."""
    return made.study(made.OUTPUTS, references=made.REFERENCES)
