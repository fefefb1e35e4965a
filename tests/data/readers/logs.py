"""Small synthetic logs in the layouts of the log readers."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

MODELS = ("org/aster", "org/birch")


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def inspect_sample(
    number: float, value: Any = "C", *, epoch: int = 1, scorer: str = "match", **more: Any
) -> dict[str, Any]:
    """Return a sample of an inspect_ai log with one score."""
    return {
        "id": number,
        "epoch": epoch,
        "input": f"question {number}",
        "target": "yes",
        "messages": [],
        "output": {"model": "m", "choices": [{"message": {"role": "assistant", "content": f"answer {number}"}}]},
        "scores": {scorer: {"value": value, "answer": "yes", "explanation": "as asked"}},
        **more,
    }


def inspect_log(
    samples: list[dict[str, Any]] | None, *, model: str = MODELS[0], task: str = "qa", **more: Any
) -> dict[str, Any]:
    """Return an inspect_ai log in its JSON format."""
    run = {"task": task, "model": model, "dataset": {"name": "d"}, "created": "2025-01-01T00:00:00+00:00", "config": {}}
    log = {"version": 2, "status": "success", "eval": run, "plan": {"name": "plan", "steps": []}, "results": {}, **more}
    return log if samples is None else log | {"samples": samples}


def write_eval(path: Path, log: dict[str, Any], *, header: str = "header.json") -> Path:
    """Write the log as a .eval file: a zip archive of the header and one member per sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": log["eval"], "plan": {}}))
        for sample in log["samples"]:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        archive.writestr("summaries.json", "[]")
        archive.writestr(header, json.dumps({name: value for name, value in log.items() if name != "samples"}))
    return path


def lm_eval_sample(number: int, *, filter: str = "none", **metrics: Any) -> dict[str, Any]:
    """Return a line of a sample file of lm-evaluation-harness."""
    return {
        "doc_id": number,
        "doc": {"question": f"question {number}"},
        "target": "42",
        "arguments": {"gen_args_0": {"arg_0": f"Q: {number}", "arg_1": {"until": ["\n"]}}},
        "resps": [[f"answer {number}"]],
        "filtered_resps": ["42"],
        "filter": filter,
        "metrics": list(metrics),
        "doc_hash": "0",
        "prompt_hash": "0",
        "target_hash": "0",
        **metrics,
    }


def write_lm_eval(
    folder: Path,
    lines: list[dict[str, Any]],
    *,
    task: str = "gsm8k",
    date: str = "2025-01-02T03-04-05.678901",
    model: str | None = MODELS[0],
    higher: dict[str, bool] | None = None,
) -> Path:
    """Write a sample file, and the results of the run next to it if `model` is not None."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    if model is not None:
        results = {"results": {}, "higher_is_better": {task: higher or {}}, "config": {}, "model_name": model}
        write_json(folder / f"results_{date}.json", results)
    return path


def helm_stat(name: str, mean: float | None, split: str = "test") -> dict[str, Any]:
    return {"name": {"name": name, "split": split}, "count": 1, "sum": mean, "mean": mean}


def write_helm(
    suite: Path, instances: list[dict[str, Any]], *, model: str = MODELS[0], scenario: str = "mmlu:subject=law"
) -> Path:
    """Write the folder of a HELM run of one model."""
    name = f"{scenario}{',' if ':' in scenario else ':'}model={model.replace('/', '_')}"
    folder = suite / name.replace(":", "-")
    write_json(folder / "run_spec.json", {"name": name, "scenario_spec": {}, "adapter_spec": {"model": model}})
    write_json(folder / "per_instance_stats.json", instances)
    states = [
        {
            "instance": {
                "input": {"text": f"question {instance['instance_id']}"},
                "references": [
                    {"output": {"text": "yes"}, "tags": ["correct"]},
                    {"output": {"text": "no"}, "tags": []},
                ],
                "split": "test",
                "id": instance["instance_id"],
                **({"perturbation": instance["perturbation"]} if "perturbation" in instance else {}),
            },
            "request_mode": "original",
            "train_trial_index": instance["train_trial_index"],
            "result": {"success": True, "completions": [{"text": f"answer of {model}", "logprob": 0.0}]},
        }
        for instance in instances
    ]
    write_json(folder / "scenario_state.json", {"adapter_spec": {"model": model}, "request_states": states})
    return folder


def helm_instance(number: str, *stats: dict[str, Any], trial: int = 0, **more: Any) -> dict[str, Any]:
    return {"instance_id": number, "train_trial_index": trial, "stats": list(stats), **more}


def rewardbench2(**changes: Any) -> dict[str, Any]:
    """Return scores of RewardBench 2: two prompts with one correct completion and one with two (ties)."""
    table = {
        "chat_template": "tokenizer",
        "id": ["1", "2", "7"],
        "model": "org/reward",
        "model_type": "Seq. Classifier",
        "num_correct": [1, 1, 2],
        "results": [1, 0, 1],
        "scores": [[3.5, 1.0, 0.5, -2.0], [0.1, 0.4, 0.0, 0.0], [[2.0], [1.5], [0.5]]],
        "subset": ["Factuality", "Math", "Ties"],
        "text": [["a", "b", "c", "d"], ["e", "f", "g", "h"], ["i", "j", "k"]],
    }
    return table | changes


def rewardbench(**changes: Any) -> dict[str, Any]:
    """Return scores of RewardBench in the format of its package."""
    table = {
        "chat_template": "tokenizer",
        "id": [30, 31],
        "model": "org/reward",
        "results": [1, 0],
        "scores_chosen": [1.5, [0.5]],
        "scores_rejected": [0.5, [0.75]],
        "text_chosen": ["a", "c"],
        "text_rejected": ["b", "d"],
        "subset": ["alpacaeval-easy", "alpacaeval-easy"],
    }
    return table | changes
