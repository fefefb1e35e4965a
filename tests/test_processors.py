"""Numbers and sentences do not depend on the processor or the number of threads.

`OPENBLAS_CORETYPE` selects the kernels of another processor. OpenBLAS silently replaces types that the processor does
not support, so threadpoolctl reports the kernels in use.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

CORE_TYPES = ("SkylakeX", "Haswell", "Sandybridge", "Nehalem", "NEOVERSEN1", "ARMV8")
ARCHITECTURES = """
import json, numpy, scipy.linalg, threadpoolctl
square = numpy.eye(300) + numpy.arange(300.0)
scipy.linalg.svd(square @ square)
print(json.dumps([p["architecture"] for p in threadpoolctl.threadpool_info() if p["internal_api"] == "openblas"]))
"""
ZERO = 1e-9
"""Differences up to this value are rounding errors."""


def output(arguments: list[str], core_type: str, threads: int) -> Any:
    environment = os.environ | {"OPENBLAS_CORETYPE": core_type, "OPENBLAS_NUM_THREADS": str(threads)}
    environment |= {"OMP_NUM_THREADS": str(threads)}
    run = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@cache
def core_types() -> tuple[str, str]:
    """Two core types with different kernels, or one type twice if the processor supports only one."""
    first: tuple[str, Any] | None = None
    for name in CORE_TYPES:
        kernels = kernels_of(name)
        if first is None:
            first = (name, kernels) if kernels else None
        elif kernels and kernels != first[1]:
            return first[0], name
    assert first is not None
    return first[0], first[0]


def kernels_of(core_type: str) -> Any:
    """Kernels of a core type; empty if the processor lacks their instructions, which ends the process."""
    try:
        return output(["-c", ARCHITECTURES], core_type, 1)
    except AssertionError:
        return None


def differences(left: Any, right: Any, place: str, tolerance: float) -> list[str]:
    """List the places where two answers differ."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return [text for key in left for text in differences(left[key], right[key], f"{place}.{key}", tolerance)]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = zip(left, right, strict=True)
        return [text for i, pair in enumerate(pairs) for text in differences(*pair, f"{place}[{i}]", tolerance)]
    if isinstance(left, float) and isinstance(right, float):
        equal = abs(left - right) <= max(ZERO, tolerance * max(abs(left), abs(right)))
        return [] if equal or (left != left and right != right) else [f"{place}: {left} and {right}"]
    return [] if left == right else [f"{place}: {left} and {right}"]


def compare(path: str | Path, *more: str, **tolerance: float) -> None:
    """Assert that answers of both core types agree within the relative tolerance for each kind."""
    first, second = core_types()
    arguments = ["-m", "tests.answers_as_json", str(path), "coherence", *more]
    first_answer, second_answer = output(arguments, first, 1), output(arguments, second, 2)
    for kind, relative in tolerance.items():
        texts = differences(first_answer[kind], second_answer[kind], kind, relative)
        assert not texts, f"{first_answer['architectures']} and {second_answer['architectures']}:\n" + "\n".join(
            texts[:20]
        )


def test_a_difference_is_seen() -> None:
    left = {"a": [{"x": 1.0, "text": "B is best"}], "b": [{"n": 3}]}
    assert not differences(left, {"a": [{"x": 1.0 + 1e-8, "text": "B is best"}], "b": [{"n": 3}]}, "", 1e-6)
    right = {"a": [{"x": 1.0 + 1e-5, "text": "A is best"}], "b": [{"n": 4}]}
    assert len(differences(left, right, "", 1e-6)) == 3


def test_every_question_on_the_demo() -> None:
    compare("demo", exact=1e-6, iterative=1e-3)


@pytest.mark.slow
def test_every_question_on_summeval(shared_data: Path) -> None:
    compare(shared_data / "summeval" / "ratings.csv.gz", "expert*", exact=1e-6)
