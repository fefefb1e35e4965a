"""Edited model files are refused in one line or give a model that scores, without other exceptions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import custodes as cu
from custodes.combining.combined_metric import CombinedMetric
from custodes.errors import CustodesError, InputError
from tests.combining.models import model_of, scores
from tests.edits import as_json, edited, torn
from tests.evaluate.judged_studies import judged

WHOLE = [msgspec.json.encode(model_of(name)) for name in ("ridge", "xgboost", "blend", "best")]
FILES = [json.loads(content) for content in WHOLE]
STUDY = judged(scores())
SINGLE = {"metric": "a", "aspect": "", "higher_is_better": True}


def signed(content: Any) -> Any:
    """Return the content with a valid digest if it is a model, as after a deliberate edit."""
    try:
        model = msgspec.convert(content, CombinedMetric)
        return {**content, "digest": model._computed_digest()}
    except (ValueError, TypeError):
        return content


def loaded(content: bytes) -> CombinedMetric | None:
    """Return the model, or None if it is refused in one line."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        file.write_bytes(content)
        message = ""
        try:
            return CombinedMetric.load(file)
        except InputError as problem:
            message = str(problem)
    assert message.startswith("model.json: not a valid combined metric: ")
    assert message.endswith("; fit it again")
    assert "\n" not in message
    assert len(message) < 600
    return None


def examined(content: Any) -> None:
    model = loaded(as_json(content))
    if model is None:
        return
    rows = np.array([[-1e300] * len(model.columns), [np.nan] * len(model.columns), [1e300] * len(model.columns)])
    assert np.isfinite(model.predict(rows)).all()
    with TemporaryDirectory() as folder:
        file = model.save(Path(folder) / "model.json")
        for ask in (lambda: model.score(STUDY)[0], lambda: cu.validate(STUDY, model=file).to_dict()):
            message = ""
            try:
                ask()
            except CustodesError as problem:
                message = str(problem)
            assert "\n" not in message


@given(st.sampled_from(FILES).flatmap(edited))
@settings(max_examples=80)
def test_some_edits_of_a_model(content: Any) -> None:
    examined(content)


@given(st.sampled_from(WHOLE).flatmap(torn))
@settings(max_examples=40)
def test_some_torn_models(content: bytes) -> None:
    loaded(content)


@pytest.mark.slow
@given(st.sampled_from(FILES).flatmap(edited))
@settings(max_examples=7000)
def test_many_edits_of_a_model(content: Any) -> None:
    examined(content)


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_bytes(WHOLE[0].replace(b'"intercept":', b'"intercept":0.0,"intercept":'))
    with pytest.raises(InputError, match="key 'intercept' occurs twice"):
        CombinedMetric.load(file)


def test_a_model_that_tells_of_its_single_metric_is_read(tmp_path: Path) -> None:
    content = signed(FILES[0] | {"validation": {"single": SINGLE}})
    file = tmp_path / "model.json"
    file.write_bytes(as_json(content))
    assert CombinedMetric.load(file).validation["single"] == SINGLE
    assert all(math.isfinite(value) for value in CombinedMetric.load(file).predict(np.zeros((3, 3))))
