"""Encoders by transformers and PyTorch, from any folder or repository that AutoModel supports."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from custodes.answers.wording import plural
from custodes.errors import InputError, MissingExtraError, OptionError, short_repr
from custodes.scoring.encoder.files import Device, ModelFiles, Vectors, log_only_errors, one_line_message
from custodes.scoring.encoder.tokens import TextTokenizer, tokenizer_of
from custodes.stats.arrays import Ints


def _libraries(model_name: str) -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            f"{short_repr(model_name)} needs transformers and PyTorch: pip install torch transformers; or export the "
            "model to ONNX (docs: score with an encoder)"
        ) from error
    return torch, transformers


@contextmanager
def _hide_progress_bars(logging: Any) -> Iterator[None]:
    """Context without progress bars and without warnings about unused head weights."""
    had_progress_bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with log_only_errors(logging):
            yield
    finally:
        if had_progress_bars:
            logging.enable_progress_bar()


class TransformersModel:
    """Encoder of a model, truncated after a layer; as in bert-score, later layers are not computed."""

    alone = False

    def __init__(self, files: ModelFiles, device: Device, layer: int, *, half: bool) -> None:
        self.name = files.name
        self._torch, transformers = _libraries(files.name)
        if half and device.kind == "cpu":
            raise OptionError("half=true needs a GPU; choose another device, or leave out half")
        self._device = _device(self._torch, device)
        folder = str(files.folder)
        try:
            model_config = transformers.AutoConfig.from_pretrained(folder)
            _truncate_model(model_config, layer)
            dtype = self._torch.float16 if half else self._torch.float32
            with _hide_progress_bars(transformers.utils.logging):
                model = transformers.AutoModel.from_pretrained(folder, config=model_config, dtype=dtype)
            model = model.get_encoder() if model_config.is_encoder_decoder else model
            self._model = model.to(self._device).eval()
        except OptionError:
            raise
        except Exception as problem:  # many types: unknown model type, wrong shapes, damaged files
            raise InputError(
                f"{short_repr(files.name)}: transformers cannot load the model: {one_line_message(problem)}"
            ) from None
        self._kinds = "token_type_ids" in inspect.signature(model.forward).parameters
        self.signature = f"transformers {transformers.__version__}+torch {self._torch.__version__}{'+half' * half}"

    def __call__(self, token_ids: Ints, attention_mask: Ints, token_type_ids: Ints) -> Vectors:
        def to_device(token_array: Ints) -> Any:
            return self._torch.from_numpy(np.ascontiguousarray(token_array, dtype=np.int64)).to(self._device)

        model_inputs = {"input_ids": to_device(token_ids), "attention_mask": to_device(attention_mask)}
        if self._kinds:
            model_inputs["token_type_ids"] = to_device(token_type_ids)
        try:
            with self._torch.inference_mode():
                return np.asarray(self._model(**model_inputs).last_hidden_state.float().cpu().numpy())
        except Exception as problem:  # out of memory, more tokens than the model has positions
            raise InputError(
                f"{short_repr(self.name)}: transformers cannot run the model on {token_ids.shape[0]} texts of "
                f"{token_ids.shape[1]} tokens: {one_line_message(problem)}"
            ) from None


def _truncate_model(config: Any, layer: int) -> None:
    """Reduce a model to its first `layer` layers."""
    if layer < 0:
        return
    if layer > config.num_hidden_layers:
        raise OptionError(f"layer={layer} is not allowed; the model has {config.num_hidden_layers} layers")
    config.num_hidden_layers = layer
    if isinstance(layer_types := getattr(config, "layer_types", None), list):
        config.layer_types = layer_types[:layer]


def _device(torch: Any, device: Device) -> Any:
    n_devices_of_kind = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    n_devices = n_devices_of_kind[device.kind]
    if device.number >= n_devices:
        device_name = f"{device.kind}:{device.number}" if device.number else device.kind
        raise OptionError(
            f"device={device_name}: PyTorch finds {plural(n_devices, 'device')} of this kind; choose another device"
        )
    return torch.device(device.kind, device.number) if device.kind == "cuda" else torch.device(device.kind)


def tokenizer_by_transformers(files: ModelFiles) -> TextTokenizer:
    """Return the tokenizer of a model, from its tokenizer.json or from older files that transformers converts."""
    if (files.folder / "tokenizer.json").is_file():
        return tokenizer_of(files)
    if not files.has_words:  # transformers 5 would make a tokenizer without vocabulary
        raise InputError(
            f"{short_repr(files.name)}: the folder has no tokenizer.json and no vocabulary of a tokenizer; add the "
            f"tokenizer of the model"
        )
    _, transformers = _libraries(files.name)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(files.folder)).backend_tokenizer
    except Exception as problem:  # no tokenizer, no fast one, or a library is missing
        raise InputError(
            f"{short_repr(files.name)}: there is no tokenizer.json, and transformers cannot create one: "
            f"{one_line_message(problem)}"
        ) from None
    return TextTokenizer(files, tokenizer)
