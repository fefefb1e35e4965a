"""`doctor`: which packages are installed, and whether they work."""

from __future__ import annotations

import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module, metadata
from math import isclose
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl

import custodes as cu
from custodes.answers.question import Rng, resolve_seed, versions
from custodes.answers.result import Provenance, Result, result
from custodes.answers.tables import flag, label, labels, table

NAME = "custodes"


class Extra(NamedTuple):
    """What an extra adds to custodes, and the modules that the extra needs."""

    gives: str
    modules: tuple[str, ...]


EXTRAS: Mapping[str, Extra] = {
    "learn": Extra("boosted trees in the questions ceiling and combine", ("xgboost",)),
    "duckdb": Extra("DuckDB files, and counting in tables larger than memory", ("duckdb", "pyarrow")),
    "arrow": Extra("Arrow files, folders of HF datasets", ("pyarrow",)),
    "excel": Extra("spreadsheets (.xlsx and others)", ("fastexcel", "pyarrow")),
    "logs": Extra("logs of Inspect with zstd compression (needed only before Python 3.14)", ("backports.zstd",)),
    "score": Extra(
        "metrics of texts: BLEU, chrF, TER, ROUGE, edit distance", ("sacrebleu", "rouge_score_rs", "rapidfuzz")
    ),
    "encode": Extra("BERTScore and the cosine similarity of encoders, without PyTorch", ("onnxruntime", "tokenizers")),
    "judge": Extra("LLM judges over HTTP, and the cost of their requests", ("httpx2", "genai_prices")),
    "vendors": Extra("LLM judges of vendors whose protocol differs from OpenAI's", ("pydantic_ai",)),
    "annotate": Extra(
        "the site of annotation studies",
        (
            *("starlette", "uvicorn", "nh3", "markdown_it", "mdit_py_plugins", "pygments", "latex2mathml"),
            *("itsdangerous", "PIL"),
        ),
    ),
}
"""Every extra of the package; the most common extra is first."""


@result
class Doctor(Result):
    """Result of `doctor`. The exit status `status` is 1 if a required package is not supported or a test failed."""

    BY: ClassVar[str] = ""

    place: pl.DataFrame = table(
        "Environment.",
        label(
            "what", "custodes, Python, machine, arithmetic (numerical libraries) or text (encoding, temporary folder)"
        ),
        label("found", "version and location of the component; the home folder is written as ~"),
    )
    packages: pl.DataFrame = table(
        "One row per required package.",
        label("package", "name on the package index"),
        label("needed", "required versions"),
        label("version", "installed version; null: not installed"),
        flag("fits", "whether a version that custodes supports is installed"),
    )
    extras: pl.DataFrame = table(
        "One row per extra.",
        label("extra", "name of the extra"),
        labels(
            "missing",
            "packages of the extra that are not installed, or installed in an unsupported version; an empty list "
            "means that the extra is installed",
        ),
        label("gives", "what the extra adds"),
    )
    tests: pl.DataFrame = table(
        "One row per test of this installation.",
        label("test", "name of the test"),
        flag("passed", "whether the result was as expected"),
        label("found", "result"),
    )

    @property
    def status(self) -> int:
        """Exit status: 0 if all required packages are supported and all tests passed, otherwise 1."""
        return 0 if self.packages["fits"].all() and self.tests["passed"].all() else 1


def doctor(*, rng: Rng = 0) -> Doctor:
    """List the installed packages and extras, and test whether they work (about 5 seconds).

    Parameters
    ----------
    rng : int or Generator
        Random seed or generator of the tests.

    Returns
    -------
    Doctor
        Tables of packages, extras and tests. `status` is 1 if the version of a required package is not supported, or if
        a test failed.

    Notes
    -----
    The function writes only to a temporary folder and uses no network. The home folder is shown as ~.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.doctor()
    >>> result.tests["test"].to_list()[:3]
    ['numbers', 'picture', 'files']
    >>> result.status
    0
    """
    seed_or_generator, recorded_seed = resolve_seed(rng)
    package_rows, extra_rows = _requirements(), list(_extras())
    demo = cu.read("demo")
    test_rows = [
        _run_test(test_name, partial(test_function, demo, seed_or_generator))
        for test_name, test_function in TESTS.items()
    ]
    # Packages that a newer Python includes are not required.
    test_rows += [
        _run_test(f"extra {extra_row['extra']}", partial(_import_extra, extra_row["extra"]))
        for extra_row in extra_rows
        if not extra_row["missing"] and _requirements(extra_row["extra"])
    ]
    return Doctor.from_parts(
        [Doctor.part(place=_place(), packages=package_rows, extras=extra_rows, tests=test_rows)],
        notes=(),
        provenance=Provenance(
            question=doctor.__name__,
            study="this installation",
            digest="",
            options={},
            seed=recorded_seed,
            versions=versions(),
        ),
    )


def _abbreviate_home(text: str) -> str:
    home = str(Path.home())
    return re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text) if len(home) > 1 else text


def _place() -> list[dict[str, str]]:
    from threadpoolctl import threadpool_info

    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    blas_texts = [
        f"{library['internal_api']} {library['version']} for {library.get('architecture', 'all')},"
        f" threads: {library['num_threads']}"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]
    text_of_fact = {
        NAME: f"{metadata.version(NAME)} in {Path(cu.__file__).parent}",
        "Python": f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}",
        "machine": f"{platform.platform()}, cores: {n_cores}",
        "arithmetic": "; ".join(dict.fromkeys(blas_texts)) or "BLAS of unknown name",
        "text": f"{sys.stdout.encoding if sys.stdout else 'no output'}; files: {tempfile.gettempdir()}",
    }
    return [{"what": fact, "found": _abbreviate_home(fact_text)} for fact, fact_text in text_of_fact.items()]


def _requirements(extra: str = "") -> list[dict[str, Any]]:
    """The required packages of every installation, or those of an extra, with the installed versions."""
    from packaging.requirements import Requirement

    package_rows = []
    for requirement in map(Requirement, metadata.requires(NAME) or ()):
        is_required_without_extra, is_required_with_extra = (
            requirement.marker is None or requirement.marker.evaluate({"extra": extra_name})
            for extra_name in ("", extra)
        )
        if requirement.name == NAME or not is_required_with_extra or (is_required_without_extra and extra):
            continue
        installed_version = next(
            (distribution.version for distribution in metadata.distributions(name=requirement.name)), None
        )
        package_rows.append(
            {
                "package": requirement.name,
                "needed": str(requirement.specifier) or "any",
                "version": installed_version,
                "fits": installed_version is not None
                and requirement.specifier.contains(installed_version, prereleases=True),
            }
        )
    return package_rows


def _extras() -> Iterator[dict[str, Any]]:
    declared_extra_names = metadata.metadata(NAME).get_all("Provides-Extra") or []
    for extra_name, extra in EXTRAS.items():
        if extra_name in declared_extra_names:  # an older installation with newer sources has other requirements
            yield {
                "extra": extra_name,
                "missing": (
                    [package_row["package"] for package_row in _requirements(extra_name) if not package_row["fits"]]
                ),
                "gives": extra.gives,
            }


def _import_extra(name: str) -> str:
    """Import the modules of an extra and return their versions. An installed package may fail to import."""
    modules = [import_module(module_name) for module_name in EXTRAS[name].modules]
    # Some packages warn when asked for an undeclared version.
    return ", ".join(f"{module.__name__} {vars(module).get('__version__', '')}".strip() for module in modules)


def _run_test(name: str, test: Callable[[], str]) -> dict[str, Any]:
    """The table row of a test. If the test raises an exception, the row contains the exception as the result."""
    try:
        has_passed, result_text = True, test()
    except Exception as problem:
        has_passed, result_text = False, f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    return {
        "test": name,
        "passed": has_passed,
        "found": _abbreviate_home(result_text),
    }


KNOWN = {
    "sample_accuracy": 0.615,
    "kendall_item": 0.5716002339883014,
    "pearson_global": 0.7405549873213673,
}
"Agreement of the metric `judge` with the annotators of the demo on coherence, as computed by this version."


def _test_numbers(study: Any, rng: int | np.random.Generator) -> str:
    result = cu.agreement(study, aspect="coherence", metrics="judge", compare_by=(), resamples=0, rng=rng)
    (metric_row,) = result.metrics.to_dicts()
    difference_texts = [
        f"{statistic_name}={metric_row[statistic_name]!r}, not {expected_value!r}"
        for statistic_name, expected_value in KNOWN.items()
        if not isclose(metric_row[statistic_name], expected_value)
    ]
    if difference_texts:
        raise ArithmeticError("; ".join(difference_texts))
    return ", ".join(f"{statistic_name} {metric_row[statistic_name]:.4f}" for statistic_name in KNOWN)


def _test_picture(study: Any, rng: int | np.random.Generator) -> str:
    chart = cu.plots.leaderboard_strengths(
        cu.leaderboard(study, aspect="coherence", metrics="judge", resamples=20, rng=rng)
    )
    with tempfile.TemporaryDirectory() as folder:
        svg_bytes, png_bytes = (
            cu.plots.save(chart, Path(folder) / f"picture.{suffix}").read_bytes() for suffix in ("svg", "png")
        )
    if b"Aster" not in svg_bytes or not png_bytes.startswith(b"\x89PNG"):
        raise ValueError("the picture does not show the systems of the demo")
    return f"svg of {len(svg_bytes)} bytes, png of {len(png_bytes)} bytes"


def _test_files(study: Any, rng: int | np.random.Generator) -> str:
    from custodes.data.writing import long_tables, write_table

    rating_table = long_tables(study)["ratings"]
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("csv", "jsonl.gz", "parquet"):
            if not cu.read(write_table(rating_table, Path(folder) / f"ratings.{suffix}")).ratings.frame.equals(
                study.ratings.frame
            ):
                raise ValueError(f"ratings that were written to .{suffix} and read again have different rows")
    return f"{rating_table.height} rows through csv, jsonl.gz, parquet"


TESTS = {"numbers": _test_numbers, "picture": _test_picture, "files": _test_files}
"""Tests of the installation by name. A test takes the demo and a seed, and returns a description of its result."""
