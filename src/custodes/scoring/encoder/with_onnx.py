"""Encoders by onnxruntime, without PyTorch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from custodes.errors import InputError, OptionError, join_labels, reject, requires_extra, short_repr
from custodes.scoring.encoder.files import Device, Vectors, one_line_message
from custodes.stats.arrays import Ints

INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
LAST = ("last_hidden_state", "token_embeddings", "hidden_states")
TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}

SCALED = b"DynamicQuantizeLinear"
"""Name of an operation that quantises with one scale for the whole batch, so that an embedding depends on all texts of
the batch."""

NEEDED = {
    "cpu": ("CPUExecutionProvider", "pip install 'custodes[encode]'"),
    "cuda": (
        "CUDAExecutionProvider",
        "install onnxruntime-gpu in place of onnxruntime, and the version of CUDA that it needs",
    ),
    "mps": ("CoreMLExecutionProvider", "use the onnxruntime of macOS"),
}


def providers(device: Device, available_names: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the execution providers of onnxruntime: the provider of the device, and the CPU for all operations that
    this provider lacks."""
    provider_name, installation_advice = NEEDED[device.kind]
    if provider_name not in available_names:
        raise OptionError(
            f"device={device.kind}: the installed onnxruntime has no {provider_name} (it has "
            f"{join_labels(available_names)}); {installation_advice}, or use backend=transformers"
        )
    options_of_requested_provider: dict[str, dict[str, Any]] = {provider_name: {}, NEEDED["cpu"][0]: {}}
    if device.kind == "cuda":
        options_of_requested_provider[provider_name] = {"device_id": device.number}
    return list(options_of_requested_provider.items())


def threads() -> int:
    """Return the number of threads of a model.

    The number of threads is that of NumPy's linear algebra. NumPy's number depends on OMP_NUM_THREADS, on limits that
    threadpoolctl sets, and on the CPUs that are available to the process.
    """
    from threadpoolctl import threadpool_info

    return max(
        [int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"],
        default=os.cpu_count() or 1,
    )


class OnnxModel:
    """ONNX model with one output vector per token."""

    def __init__(self, path: Path, name: str, device: Device, layer: int) -> None:
        with requires_extra("ONNX models need onnxruntime", "encode"):
            import onnxruntime
        self.name = name
        self.signature = f"onnxruntime {onnxruntime.__version__}"
        session_options = onnxruntime.SessionOptions()
        session_options.intra_op_num_threads = threads()
        # Otherwise, waiting threads would use a CPU core.
        session_options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session_options.log_severity_level = 4  # failures raise exceptions
        requested_providers = providers(device, onnxruntime.get_available_providers())
        try:
            self._session = onnxruntime.InferenceSession(str(path), session_options, providers=requested_providers)
        except Exception as problem:  # onnxruntime's exceptions have no other common base
            raise InputError(
                f"{short_repr(name)}: onnxruntime cannot load the model: {one_line_message(problem)}"
            ) from None
        active_provider_name = self._session.get_providers()[0]
        if active_provider_name != requested_providers[0][0]:  # onnxruntime falls back silently
            raise OptionError(
                f"device={device.kind}: onnxruntime cannot use this device and selected {active_provider_name}; "
                f"{NEEDED[device.kind][1]}"
            )
        self._inputs = self._validate_inputs()
        self._output = self._select_output(layer)
        self.alone = "attention_mask" not in self._inputs or SCALED in path.read_bytes()

    def _validate_inputs(self) -> dict[str, Any]:
        node_of_input = {input_node.name: input_node for input_node in self._session.get_inputs()}
        has_unsupported_input = any(
            input_name not in INPUTS or input_node.type not in TYPES for input_name, input_node in node_of_input.items()
        )
        fixed_shape_texts = [
            " x ".join(map(str, input_node.shape))
            for input_node in node_of_input.values()
            if any(isinstance(dimension, int) for dimension in input_node.shape)
        ]
        reject(
            (
                has_unsupported_input or "input_ids" not in node_of_input,
                f"{short_repr(self.name)}: the model has the inputs {join_labels(node_of_input)}, but an encoder of "
                f"texts has input_ids and optionally {', '.join(INPUTS[1:])}",
            ),
            (
                fixed_shape_texts,
                f"{short_repr(self.name)}: the model accepts only inputs of shape "
                f"{join_labels(fixed_shape_texts[:1])}; export the model with dynamic axes",
            ),
            error=InputError,
        )
        return {input_name: TYPES[input_node.type] for input_name, input_node in node_of_input.items()}

    def _select_output(self, layer: int) -> str:
        """Return the name of the output of a layer; -1 is the last layer."""
        n_dimensions_of_output: dict[str, int] = {
            output_node.name: len(output_node.shape)
            for output_node in self._session.get_outputs()
            if output_node.shape is not None
        }
        candidate_output_names = (
            [*LAST, *(name for name in n_dimensions_of_output if not name.startswith("hidden_states"))]
            if layer < 0
            else [f"hidden_states.{layer}", f"hidden_states_{layer}"]
        )
        for output_name in candidate_output_names:
            if n_dimensions_of_output.get(output_name) == 3:
                return output_name
        raise InputError(
            f"{short_repr(self.name)}: the model has no output with one vector per token for layer={layer} (outputs: "
            f"{join_labels(n_dimensions_of_output)}); export the model for the task feature-extraction, or use "
            "backend=transformers"
        )

    def __call__(self, token_ids: Ints, attention_mask: Ints, token_type_ids: Ints) -> Vectors:
        array_of_input = dict(
            zip(
                INPUTS,
                (
                    token_ids,
                    attention_mask,
                    token_type_ids,
                    np.broadcast_to(np.arange(token_ids.shape[1]), token_ids.shape),
                ),
                strict=True,
            )
        )
        model_inputs = {
            input_name: np.ascontiguousarray(array_of_input[input_name], dtype)
            for input_name, dtype in self._inputs.items()
        }
        try:
            return np.asarray(self._session.run([self._output], model_inputs)[0], dtype=np.float32)
        except Exception as problem:
            raise InputError(
                f"{short_repr(self.name)}: onnxruntime cannot run the model on {token_ids.shape[0]} texts of "
                f"{token_ids.shape[1]} tokens: {one_line_message(problem)}"
            ) from None
