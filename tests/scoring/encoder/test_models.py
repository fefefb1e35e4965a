"""Models: required inputs and outputs, and devices."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from custodes.errors import InputError, OptionError
from custodes.scoring.encoder.files import Device
from custodes.scoring.encoder.with_onnx import OnnxModel, providers
from custodes.scoring.encoder.with_transformers import _device
from custodes.scoring.metric import Place
from custodes.scoring.metrics.bertscore import BERTSCORE
from tests.scoring.encoders import onnx_model, scorer

EVERY = ["CUDAExecutionProvider", "CoreMLExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("cpu", [("CPUExecutionProvider", {})]),
        ("cuda", [("CUDAExecutionProvider", {"device_id": 0}), ("CPUExecutionProvider", {})]),
        ("cuda:1", [("CUDAExecutionProvider", {"device_id": 1}), ("CPUExecutionProvider", {})]),
        ("mps", [("CoreMLExecutionProvider", {}), ("CPUExecutionProvider", {})]),
    ],
)
def test_what_onnxruntime_runs_with(name: str, chosen: list[tuple[str, dict[str, int]]]) -> None:
    assert providers(Device.from_name(name), EVERY) == chosen


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cpu:1", "cuda:-1", ""])
def test_a_device_that_is_none(name: str) -> None:
    with pytest.raises(OptionError, match="give cpu, cuda, cuda:N"):
        Device.from_name(name)
    with pytest.raises(OptionError, match="device=cuda: the installed onnxruntime has no CUDAExecutionProvider"):
        providers(Device.from_name("cuda:3"), ["CPUExecutionProvider"])


def test_a_device_is_given_to_the_session(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that silently use another device give an error."""
    requests: list[Any] = []
    session = onnxruntime.InferenceSession

    def made(path: str, options: Any, providers: Any) -> Any:
        requests.append(providers)
        return session(path, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: EVERY)
    monkeypatch.setattr(onnxruntime, "InferenceSession", made)
    with pytest.raises(
        OptionError, match="onnxruntime cannot use this device and selected CPUE.*; install onnxruntime-"
    ):
        scorer(BERTSCORE, encoder, Place(device="cuda:2"))
    assert requests == [[("CUDAExecutionProvider", {"device_id": 2}), ("CPUExecutionProvider", {})]]


def test_of_several_devices_it_takes_the_first(encoder: Path) -> None:
    single, several = (scorer(BERTSCORE, encoder, Place(device=name)) for name in ("cpu", "cpu,cuda:1"))
    assert several.signature == single.signature
    with pytest.raises(OptionError, match=r"device='gpu' is not allowed; give cpu"):
        scorer(BERTSCORE, encoder, Place(device="gpu,cpu"))
    with pytest.raises(OptionError, match="half=true: an ONNX model has a fixed precision; use backend=transformers"):
        scorer(BERTSCORE, encoder, half=True)


def test_a_device_of_pytorch() -> None:
    torch = SimpleNamespace(
        cuda=SimpleNamespace(device_count=lambda: 2),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False)),
        device=lambda *devices: devices,
    )
    assert [_device(torch, Device.from_name(name)) for name in ("cpu", "cuda", "cuda:1")] == [
        ("cpu",),
        ("cuda", 0),
        ("cuda", 1),
    ]
    for name, available in (("cuda:2", "2"), ("mps", "0")):
        with pytest.raises(OptionError, match=rf"device={name}: PyTorch finds {available} devices? of this kind"):
            _device(torch, Device.from_name(name))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"input_ids": "pixels"}, "'it': the model has the inputs pixels, attention_mask, but an encoder of texts has"),
        ({"attention_mask": "mask_of_mine"}, "the model has the inputs input_ids, mask_of_mine"),
        ({"tokens": 24}, "'it': the model accepts only inputs of shape texts x 24; export the model with dynamic"),
    ],
)
def test_inputs_that_are_not_known(tmp_path: Path, model: dict[str, Any], message: str) -> None:
    onnx_model(tmp_path / "model.onnx", **model)
    with pytest.raises(InputError, match=message):
        OnnxModel(tmp_path / "model.onnx", "it", Device.from_name("cpu"), -1)


def test_an_output_by_any_name_and_none(tmp_path: Path) -> None:
    place = tmp_path / "model.onnx"
    onnx_model(place, last_hidden_state="mine")
    assert OnnxModel(place, "it", Device.from_name("cpu"), -1)._output == "mine"
    onnx_model(place, outputs=("hidden_states.0",), last_hidden_state="mine")
    with pytest.raises(
        InputError, match=r"the model has no output with one vector per token for layer=-1 \(outputs: hidden_states.0"
    ):
        OnnxModel(place, "it", Device.from_name("cpu"), -1)


def test_an_onnx_model_is_loaded_without_pytorch(encoder: Path) -> None:
    code = (
        "import sys; from custodes.scoring.metric import Place;"
        "from custodes.scoring.metrics.bertscore import BERTSCORE;"
        "assert not {'onnxruntime', 'tokenizers', 'huggingface_hub'} & set(sys.modules);"
        "BERTSCORE.load(Place(), **{**BERTSCORE.parameters, 'model': sys.argv[1]});"
        "print({'torch', 'transformers', 'huggingface_hub'} & set(sys.modules))"
    )
    process = subprocess.run([sys.executable, "-c", code, str(encoder)], capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"
