# /// script
# requires-python = ">=3.9"
# dependencies = ["torch", "transformers>=4.44", "sentencepiece", "protobuf"]
# ///
"""MetricX-23 and MetricX-24 (Juraska et al.): an error score of a translation from 0 to 25; lower is better."""

from worker_protocol import DEVICE, parse_options, serve  # imported first, to keep output of libraries out of answers

import torch
import transformers

options = parse_options(
    __doc__,
    model={"default": "google/metricx-24-hybrid-large-v2p6", "help": "a name on the hub, or a folder"},
    tokenizer={"default": "google/mt5-xl", "help": "a name on the hub, or a folder"},
    year={"choices": ["23", "24"], "default": "24", "help": "input format of the model"},
    qe={"action": "store_true", "help": "score without a reference (quality estimation)"},
    longest={"type": int, "default": 1536, "help": "maximum number of tokens; 1024 for MetricX-23"},
)

REWARD = 250089  # the token <extra_id_10> of mT5, whose logit at the first step is the score
tokenizer = transformers.AutoTokenizer.from_pretrained(options.tokenizer)
model = transformers.MT5ForConditionalGeneration.from_pretrained(options.model).eval().to(DEVICE)
source = options.qe or options.year == "24"


def format_input(row):
    labelled_source_at_start = f"source: {row['source']} " if options.year == "24" else ""
    labelled_source_at_end = f" source: {row['source']}" if options.qe and options.year == "23" else ""
    labelled_reference = "" if options.qe else f" reference: {row['references'][0]}"
    return f"{labelled_source_at_start}candidate: {row['output']}{labelled_reference}{labelled_source_at_end}"


@torch.inference_mode()
def score(rows):
    token_ids_of_rows = tokenizer([format_input(row) for row in rows])["input_ids"]
    # The end-of-sequence token is removed, as in training.
    padded_batch = tokenizer.pad(
        {"input_ids": [row_token_ids[:-1][: options.longest - 1] for row_token_ids in token_ids_of_rows]},
        return_tensors="pt",
    ).to(DEVICE)
    decoder_start_ids = torch.zeros((len(rows), 1), dtype=torch.long, device=DEVICE)
    logits = model(**padded_batch, decoder_input_ids=decoder_start_ids).logits[:, 0, REWARD]
    return {
        "scores": logits.float().clamp(0, 25).tolist(),
        "truncated": [len(row_token_ids) > options.longest for row_token_ids in token_ids_of_rows],
    }


needs = ["source"] * source + ["references"] * (not options.qe)
version = f"transformers {transformers.__version__}"
serve(
    score,
    metric="metricx",
    version=version,
    needs=needs,
    each_reference=not options.qe,
    higher_is_better=False,
    low=0,
    high=25,
)
