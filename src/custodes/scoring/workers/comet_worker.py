# /// script
# requires-python = ">=3.9"
# dependencies = ["unbabel-comet>=2.2", "setuptools<81"]
# ///
"""COMET, CometKiwi and xCOMET; needs the source, and references if the model was trained with references."""

import os

from worker_protocol import DEVICE, parse_options, serve  # imported first, to keep output of libraries out of answers

import comet
import torch

options = parse_options(
    __doc__,
    model={"default": "Unbabel/wmt22-comet-da", "help": "a name on the hub, or the path of a checkpoint"},
    references={"action": "store_true", "help": "use references (for a model with optional references)"},
)

path = options.model if os.path.exists(options.model) else comet.download_model(options.model)
model = comet.load_from_checkpoint(path).eval().to(DEVICE)
references = options.references or model.requires_references()
longest = model.encoder.max_positions - 2
tokenize = model.encoder.tokenizer


@torch.inference_mode()
def score(rows):
    field_name_pairs = [("source", "src"), ("output", "mt"), ("references", "ref")][: 2 + references]
    samples = [
        {
            comet_name: row[field_name][0] if comet_name == "ref" else row[field_name]
            for field_name, comet_name in field_name_pairs
        }
        for row in rows
    ]
    model_batch = model.transfer_batch_to_device(
        model.prepare_sample(samples, stage="predict"), torch.device(DEVICE), 0
    )
    is_truncated = [any(len(tokenize(text)["input_ids"]) > longest for text in sample.values()) for sample in samples]
    return {"scores": model.predict_step(model_batch).scores.tolist(), "truncated": is_truncated}


needs = ["source", "references"] if references else ["source"]
version = f"unbabel-comet {comet.__version__}"
serve(score, metric="comet", version=version, needs=needs, each_reference=references)
