"""Text metrics: ours without and with cached scores, compared with loops, and CIDEr with pycocoevalcap.

`python benchmarks/text_metrics.py` uses ../shared/data/summeval if available (1,600 outputs, 11 references each),
otherwise random texts of equal size. Times are CPU seconds of one run. pycocoevalcap runs in `.venv-oracles` if
available.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF

import custodes as cu
from custodes.data.study import Study

ROOT = Path(__file__).parents[1]
SUMMEVAL = ROOT.parent / "shared" / "data" / "summeval" / "outputs.jsonl.gz"
ORACLE = ROOT / ".venv-oracles" / "bin" / "python"
ITEMS, SYSTEMS, REFERENCES, WORDS = 100, 16, 11, 60
METRICS = ["bleu", "chrf", "chrf++", *(f"{kind}:stemmer=true" for kind in ("rouge1", "rouge2", "rougeL"))]
TARGETS = {"cold": ">= 4 times", "warm": ">= 60 times", "cider": ">= 3 times"}

ASK = """
import json, sys, time
from pycocoevalcap.cider.cider_scorer import CiderScorer

given = json.load(sys.stdin)
began = time.process_time()
for outputs in given["outputs"]:
    scorer = CiderScorer(n=4, sigma=6.0)
    for output, references in zip(outputs, given["references"]):
        scorer += (output, references)
    scorer.compute_score()
print(time.process_time() - began)
"""


def texts() -> tuple[Study, str]:
    """Real outputs, or as many random ones."""
    if SUMMEVAL.exists():
        return cu.read(SUMMEVAL), "SummEval"
    rng = np.random.default_rng(0)
    words = np.array([f"word{n}" for n in range(5000)])
    share = 1 / np.arange(1, 5001)

    def line() -> str:
        return " ".join(rng.choice(words, size=WORDS, p=share / share.sum())) + "."

    rows = [
        {
            "item": f"i{i}",
            "references": [line() for _ in range(REFERENCES)],
            "outputs": {f"s{s}": line() for s in range(SYSTEMS)},
        }
        for i in range(ITEMS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        return cu.read(path), "random texts"


def pairs(study: Study) -> list[tuple[str, list[str]]]:
    """Each output with its references."""
    assert study.outputs is not None
    rows = study.outputs.texts.join(study.outputs.sources, on="item", maintain_order="left")
    return list(rows.select("text", "references").rows())


def loops(rows: list[tuple[str, list[str]]]) -> None:
    """One call per output, as in the examples of both packages; for ROUGE one per reference."""
    metrics: list[Any] = [BLEU(effective_order=True), CHRF(), CHRF(word_order=2)]
    for metric in metrics:
        for output, references in rows:
            metric.sentence_score(output, references)
    rouge = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    for output, references in rows:
        for reference in references:
            rouge.score(reference, output)


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def pycocoevalcap(study: Study) -> float | None:
    """CPU seconds of the scores of all systems, in the interpreter with pycocoevalcap."""
    if not ORACLE.exists():
        return None
    assert study.outputs is not None
    wide = study.outputs.texts.pivot("system", index="item", values="text", maintain_order=True)
    references = wide.select("item").join(study.outputs.sources, on="item", maintain_order="left")["references"]
    options = {"outputs": [wide[name].to_list() for name in wide.columns[1:]], "references": references.to_list()}
    process = subprocess.run([ORACLE, "-c", ASK], input=json.dumps(options), capture_output=True, text=True, check=True)
    return float(process.stdout)


def main() -> None:
    """Print the table."""
    study, name = texts()
    inputs = pairs(study)
    n = sum(len(references) for _, references in inputs)
    cu.score(study, ["length"])  # one-time loading is not timed
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "kept.db"
        cold, warm = (seconds(lambda: cu.score(study, METRICS, cache=cache)) for _ in range(2))
    peer = seconds(lambda: loops(inputs))
    cider, theirs = seconds(lambda: cu.score(study, ["cider:tokenize=space"])), pycocoevalcap(study)
    print("| what | measured | target |")
    print("|---|---|---|")
    print(f"| {name}, {n:,} pairs: BLEU, chrF, chrF++, ROUGE-1/2/L by loops | {peer:.1f} CPU s |  |")
    print(f"| ours, cold | {cold:.1f} CPU s |  |")
    print(f"| ours, all scores kept | {warm:.2f} CPU s |  |")
    print(f"| ratio, cold | {peer / cold:.1f} times | {TARGETS['cold']} |")
    print(f"| ratio, all kept | {peer / warm:.0f} times | {TARGETS['warm']} |")
    print(f"| CIDEr-D of {len(inputs):,} outputs: ours | {cider:.2f} CPU s |  |")
    if theirs is not None:
        print(f"| pycocoevalcap | {theirs:.1f} CPU s |  |")
        print(f"| ratio | {theirs / cider:.0f} times | {TARGETS['cider']} |")


if __name__ == "__main__":
    main()
