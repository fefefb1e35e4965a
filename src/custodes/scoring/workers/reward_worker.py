# /// script
# requires-python = ">=3.9"
# dependencies = ["torch", "transformers>=4.44"]
# ///
"""Reward model (a classifier with one label); the source is the prompt, and the output is the answer."""

import sys

from worker_protocol import DEVICE, parse_options, serve  # imported first, to keep output of libraries out of answers

import torch
import transformers

options = parse_options(
    __doc__,
    model={"required": True, "help": "a name on the hub, or a folder"},
    dtype={"default": "float32", "help": "bfloat16 for large models on GPUs"},
)

tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
model = transformers.AutoModelForSequenceClassification.from_pretrained(options.model)
model = model.to(getattr(torch, options.dtype)).eval().to(DEVICE)
if model.config.num_labels != 1:
    sys.exit(f"{options.model} has {model.config.num_labels} labels; a reward model has one label")
# Decoder models use the last token that is not padding, so the padding token must be set.
padded = tokenizer.pad_token is not None and model.config.pad_token_id is not None
longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 1 << 30))


def tokens(row):
    if not tokenizer.chat_template:
        return tokenizer(row["source"], row["output"])
    chat_messages = [{"role": "user", "content": row["source"]}, {"role": "assistant", "content": row["output"]}]
    return tokenizer(tokenizer.apply_chat_template(chat_messages, tokenize=False), add_special_tokens=False)


@torch.inference_mode()
def score(rows):
    scores, row_encodings = [], [tokens(row) for row in rows]
    is_truncated = [len(encoding["input_ids"]) > longest for encoding in row_encodings]
    truncated_encodings = [
        {input_name: input_values[:longest] for input_name, input_values in encoding.items()}
        for encoding in row_encodings
    ]
    for batch_encodings in [truncated_encodings] if padded else [[encoding] for encoding in truncated_encodings]:
        model_inputs = (
            tokenizer.pad(batch_encodings, return_tensors="pt")
            if padded
            else transformers.BatchEncoding(
                {input_name: [input_values] for input_name, input_values in batch_encodings[0].items()},
                tensor_type="pt",
            )
        )
        scores += model(**model_inputs.to(DEVICE)).logits[:, 0].float().tolist()
    return {"scores": scores, "truncated": is_truncated}


version = f"transformers {transformers.__version__} {options.dtype}"
serve(score, metric="reward", version=version, needs=["source"])
