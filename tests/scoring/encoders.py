"""Small random encoders for tests: a tokenizer with a few words, and an ONNX model that mixes all words of a text."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from custodes.scoring.metric import Metric, Place, Scorer

WORDS = ["a", "the", "cat", "dog", "fish", "sat", "ran", "on", "in", "mat", "tree", "river", "big", "red", "and", "."]
PIECES = [*"abcdefghijklmnopqrstuvwxyz0123456789", *(f"##{value}" for value in "abcdefghijklmnopqrstuvwxyz0123456789")]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES]
WIDTH = 8


def tokenizer(folder: Path, *, limit: int | None) -> None:
    """Save a WordPiece tokenizer with a few words, like BERT's, with its settings unless `limit` is None."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    numbers = {word: at for at, word in enumerate(VOCABULARY)}
    result = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    result.normalizer = normalizers.BertNormalizer()
    result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    result.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    result.add_special_tokens(VOCABULARY[:5])
    result.save(str(folder / "tokenizer.json"))
    if limit is not None:
        settings = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
        settings |= {"tokenizer_class": "BertTokenizer", "model_max_length": limit}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def onnx_model(
    path: Path,
    *,
    limit: int = 24,
    seed: int = 0,
    scaled: bool = False,
    tokens: str | int = "tokens",
    outputs: Sequence[str] = ("last_hidden_state", "hidden_states.0", "hidden_states.1"),
    **renamed: str,
) -> None:
    """Save word and position embeddings with two layers that mix each token with the mean of all unpadded tokens.

    `scaled` computes the integer scale over the batch, like dynamically quantised models. `tokens` is a fixed text
    length, for models without dynamic sizes. `renamed` maps inputs and outputs to other names.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(seed)
    constants: dict[str, Any] = {
        "words": rng.normal(size=(len(VOCABULARY), WIDTH)).astype(np.float32),
        "places": rng.normal(size=(limit, WIDTH)).astype(np.float32) / 2,
        "first": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 4,
        "second": rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 4,
        "lean": np.linspace(0.8, 1.2, WIDTH).astype(np.float32),  # positive cosines, as in trained models
        "zero": np.array([0]),
        "one": np.array([1]),
        "two": np.array([2]),
    }
    nodes = [
        ("Shape", ["input_ids"], "shape", {}),
        ("Slice", ["shape", "one", "two"], "length", {}),
        ("Slice", ["places", "zero", "length"], "used", {}),
        ("Gather", ["words", "input_ids"], "looked_up", {}),
        ("Add", ["looked_up", "used"], "hidden_states.0", {}),
        ("Cast", ["attention_mask"], "flat", {"to": TensorProto.FLOAT}),
        ("Unsqueeze", ["flat", "two"], "mask", {}),
        ("ReduceSum", ["mask", "one"], "count", {}),
    ]
    for layer, weights in ((1, "first"), (2, "second")):
        before, after = f"hidden_states.{layer - 1}", f"hidden_states.{layer}" if layer == 1 else "last_hidden_state"
        source = before
        if scaled:
            quantised = [f"whole{layer}", f"scale{layer}", f"zero{layer}"]
            nodes.append(("DynamicQuantizeLinear", [before], quantised, {}))
            nodes.append(("DequantizeLinear", quantised, f"rough{layer}", {}))
            source = f"rough{layer}"
        nodes += [
            ("Mul", [source, "mask"], f"seen{layer}", {}),
            ("ReduceSum", [f"seen{layer}", "one"], f"sum{layer}", {}),
            ("Div", [f"sum{layer}", "count"], f"mean{layer}", {}),
            ("Add", [source, f"mean{layer}"], f"mixed{layer}", {}),
            ("MatMul", [f"mixed{layer}", weights], f"turned{layer}", {}),
            ("Add", [f"turned{layer}", "lean"], f"leaning{layer}", {}),
            ("Tanh", [f"leaning{layer}"], after, {}),
        ]
    name = lambda own: renamed.get(own, own)  # noqa: E731
    results = [
        helper.make_node(
            kind,
            [name(value) for value in source],
            [name(value) for value in ([out] if isinstance(out, str) else out)],
            **more,
        )
        for kind, source, out, more in nodes
    ]
    inputs = [
        helper.make_tensor_value_info(name(text), TensorProto.INT64, ["texts", tokens])
        for text in ("input_ids", "attention_mask")
    ]
    given_back = [
        helper.make_tensor_value_info(name(output), TensorProto.FLOAT, ["texts", tokens, WIDTH]) for output in outputs
    ]
    held = [numpy_helper.from_array(values, key) for key, values in constants.items()]
    graph = helper.make_graph(results, "encoder", inputs, given_back, held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))


def sentences(n: int, *, seed: int = 0, longest: int = 20) -> list[str]:
    """Texts of different lengths in random order."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice([*WORDS, "xyz"], size=rng.integers(1, longest))) for _ in range(n)]


def scorer(metric: Metric, model: Path, place: Place | None = None, **parameters: Any) -> Scorer:
    """Scorer of an encoder metric with a loaded model."""
    return metric.load(place or Place(), **{**metric.parameters, "model": str(model), **parameters})
