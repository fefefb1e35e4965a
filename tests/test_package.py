"""The built package: metadata, links, contents of the wheel, and installations in empty environments.

Tests that install are slow and need uv and a package index; without them they are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import textwrap
import tomllib
import zipfile
from email import message_from_bytes
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

import custodes as cu
from tests.pages import blocks

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = ["", *PROJECT["project"]["optional-dependencies"]]
VERSIONS = [text.rpartition(" ")[2] for text in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", text)]
HOME = PROJECT["project"]["urls"]["Homepage"]
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def links(text: str) -> list[tuple[str, str]]:
    """Whether it is an image, and the target, of every link outside code."""
    return LINK.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def check_absolute(text: str) -> None:
    """Assert that every link to this repository leads to an existing file at the tag of this version."""
    version = PROJECT["project"]["version"]
    raw = HOME.replace("https://github.com", "https://raw.githubusercontent.com")
    result = links(text)
    assert len(result) == len(links((ROOT / "README.md").read_text(encoding="utf-8"))) > 20
    for picture, target in result:
        base = f"{raw}/v{version}/" if picture else f"{HOME}/blob/v{version}/"
        assert target.startswith(base), target
        assert (ROOT / target.removeprefix(base).partition("#")[0]).is_file(), target


def test_links_of_the_readme_hold_on_the_package_index() -> None:
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join((ROOT / part["path"]).read_text(encoding="utf-8") for part in hook["fragments"])
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    check_absolute(text.replace("$HFPR_VERSION", PROJECT["project"]["version"]))


def test_version_and_address_are_the_same_everywhere() -> None:
    citation = dict(re.findall(r'^([\w-]+): "?([^"\n]+)"?$', (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE))
    assert {"cff-version", "message", "title", "type", "license"} <= citation.keys()
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["repository-code"] == HOME
    assert citation["license"] == PROJECT["project"]["license"]
    assert all(url.startswith(HOME) for url in PROJECT["project"]["urls"].values())


def test_supported_versions_of_python_are_named() -> None:
    assert VERSIONS[0] == PROJECT["project"]["requires-python"].removeprefix(">=")
    assert [int(version.partition(".")[2]) for version in VERSIONS] == [11, 12, 13, 14]
    assert (ROOT / "src" / "custodes" / "py.typed").is_file()


def test_workflow_and_citation_follow_their_schemas() -> None:
    workflow = ROOT / ".github" / "workflows" / "tests.yml"
    files = {
        "github-workflows": workflow,
        "github-actions": ROOT / "actions" / "gate" / "action.yml",
        "citation-file-format": ROOT / "CITATION.cff",
    }
    for schema, path in files.items():
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
        checked = subprocess.run(command, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
    steps = re.findall(r"^ *- run: (.+)$", workflow.read_text(encoding="utf-8"), re.MULTILINE)
    assert "make test" in steps
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {step.removeprefix("make ") for step in steps} <= set(targets)
    (pythons,) = re.findall(r"python: \[(.+)\]", workflow.read_text(encoding="utf-8"))
    assert re.findall(r"[\d.]+", pythons) == VERSIONS


@pytest.mark.parametrize(
    ("metric", "require", "inconclusive", "status"),
    [("judge", "kendall_item>=0.3", "fail", 0), ("noise", "kendall_item>=0.3\nspa>=0.9", "warn", 1)],
)
def test_the_lines_of_the_action_run(metric: str, require: str, inconclusive: str, status: int, tmp_path: Path) -> None:
    text = (ROOT / "actions" / "gate" / "action.yml").read_text(encoding="utf-8")
    lines = textwrap.dedent(text.rpartition("run: |\n")[2])
    summary = tmp_path / "summary"
    inputs = {"FILES": "demo", "METRIC": metric, "REQUIRE": require, "OPTIONS": "--resamples 100 --aspect fluency"}
    more = {"INCONCLUSIVE": inconclusive, "GITHUB_STEP_SUMMARY": str(summary)}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", lines], cwd=tmp_path, env={**os.environ, **inputs, **more, "PATH": path}
    )
    assert process.returncode == status
    assert metric in summary.read_text(encoding="utf-8")
    assert (tmp_path / "gate.xml").exists()


def test_hooks_before_a_commit_run_what_make_lint_runs() -> None:
    lint = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    commands = re.findall(r"entry: \.venv/bin/(\w+(?: check| format --check)?)", hooks)
    assert commands == re.findall(r"\$\(BIN\)/(\w+(?: check| format --check)?)", lint)


def extras_of_make_report() -> list[str]:
    """Extras that `make report` installs, available to the examples of the README."""
    (extras,) = re.findall(r"^EXAMPLES := (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return extras.split(",")


# The following tests install packages.

WITHOUT = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}


def output_of(*command: object, cwd: Path, status: int = 0) -> str:
    """Output of a command (or its error lines), in an environment without this checkout."""
    own = {name: value for name, value in os.environ.items() if name not in WITHOUT} | {"UV_PYTHON_DOWNLOADS": "never"}
    process = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=own, capture_output=True, encoding="utf-8", check=False
    )
    assert process.returncode == status, process.stdout + process.stderr
    return process.stdout or process.stderr


@pytest.fixture(scope="session")
def uv(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Command of uv; skips tests if uv or a package index is missing."""
    result = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if result is None or importlib.util.find_spec("build") is None:
        pytest.skip("uv and build are not installed (pip install --group package)")
    folder = tmp_path_factory.mktemp("index")
    tried = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder), "packaging"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"no package index is reached: {tried.stderr.strip().splitlines()[-1]}")
    return result


class Built(NamedTuple):
    """Files of a release: sdist and wheel."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def built(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wheel is built from the sdist, so the sdist must be complete."""
    folder = tmp_path_factory.mktemp("dist")
    output_of(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(sdist, wheel)


class Environment(NamedTuple):
    """Virtual environment with installed packages only."""

    folder: Path

    def says(self, command: str, *words: object, status: int = 0) -> str:
        place = self.folder / ("Scripts" if os.name == "nt" else "bin")
        return output_of(place / command, *words, cwd=self.folder, status=status)


def environment(uv: str, folder: Path, *what: object, python: str = sys.executable) -> Environment:
    output_of(uv, "venv", "--quiet", "--no-project", "--python", python, folder, cwd=folder.parent)
    output_of(uv, "pip", "install", "--quiet", "--python", folder, *what, cwd=folder)
    return Environment(folder)


def needs(extra: str, version: str) -> set[str]:
    """Requirements of an extra for a Python version."""
    lines = map(Requirement, PROJECT["project"]["optional-dependencies"][extra])
    markers = {"python_version": version}
    return {line.name for line in lines if line.marker is None or line.marker.evaluate(markers)}


def check_works(installed: Environment, *extras: str) -> None:
    """Assert that the doctor finds no problems and the expected extras, and that the demo report is written."""
    data = json.loads(installed.says("custodes", "doctor", "--format", "json"))
    assert all(row["fits"] for row in data["packages"])
    assert all(row["passed"] for row in data["tests"])
    version = data["provenance"]["versions"]["python"].rpartition(".")[0]
    expected = {package for extra in extras for package in needs(extra, version)}
    present = {row["extra"] for row in data["extras"] if not row["missing"]}
    assert (
        present == {row["extra"] for row in data["extras"] if needs(row["extra"], version) <= expected} >= set(extras)
    )
    installed.says("custodes", "report", "demo", "--resamples", "20", "-o", "report.html")
    page = (installed.folder / "report.html").read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert "Dogwood" in page


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
        about = message_from_bytes(wheel.read(next(name for name in names if name.endswith("METADATA"))))
    package = {name for name in names if ".dist-info/" not in name}
    source = ROOT / "src"
    sources = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and ".egg-info" not in str(path)
    }
    assert package == sources
    assert {"custodes/py.typed", "custodes/reporting/templates/page.html"} <= package
    assert built.wheel.stat().st_size < 2**20
    check_absolute(about.get_payload())
    assert set(about.get_all("Provides-Extra")) == set(EXTRAS) - {""}


@pytest.mark.slow
def test_the_sdist_holds_what_tests_and_docs_need(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    tracked = [
        *("pyproject.toml", "Makefile", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "RELEASING.md")
    ]
    assert {*tracked, "docs/index.md", "docs/site.py", "tests/test_package.py", "src/custodes/py.typed"} <= names
    folders = ("src", "tests", "docs", "benchmarks")
    assert not {name for name in names if "/" in name and name.split("/")[0] not in folders}
    assert not {
        name for name in names if "_build" in name or ".venv" in name or name.endswith((".pyc", ".csv", ".parquet"))
    }


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS, ids=[extra or "none" for extra in EXTRAS])
def test_an_empty_environment_with_each_extra(extra: str, uv: str, built: Built, tmp_path: Path) -> None:
    everything = [name for name in EXTRAS if name not in ("", "all")]
    what = f"{built.wheel}[{extra}]" if extra else built.wheel
    installed = environment(uv, tmp_path / "empty", what)
    check_works(installed, *(everything if extra == "all" else [extra] if extra else []))
    about = installed.says("custodes", "--version")
    assert about.split() == ["custodes", PROJECT["project"]["version"]]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_examples_work_in_the_environment_of_make_report(page: str, uv: str, built: Built, tmp_path: Path) -> None:
    extras = ",".join(extras_of_make_report())
    installed = environment(uv, tmp_path / "environment", f"custodes[{extras}] @ {built.wheel.as_uri()}")
    (tmp_path / "tests").mkdir()
    for name in ("__init__.py", "pages.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    folder = tmp_path / "empty"
    folder.mkdir()
    python = installed.folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if page == "README.md":
        _, texts = next(blocks(ROOT / "docs" / "howto" / "score-summaries.md", "python"))
        output_of(python, "-c", texts, cwd=folder)
    run = "import sys; sys.path.insert(0, '..'); from pathlib import Path; from tests.pages import try_out"
    output_of(python, "-c", f"{run}; try_out(Path({str(ROOT / page)!r}))", cwd=folder)


def interpreter(uv: str, version: str) -> str | None:
    """Path of a Python interpreter, from uv or from inactive versions of pyenv."""
    process = subprocess.run(
        [uv, "python", "find", "--no-python-downloads", "--no-project", version],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if process.returncode == 0:
        return process.stdout.strip()
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(python) for python in sorted(versions.glob(f"{version}.*/bin/python"))), None)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_supported_python(version: str, uv: str, built: Built, tmp_path: Path) -> None:
    python = interpreter(uv, version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    check_works(environment(uv, tmp_path / "own", built.wheel, python=python))


@pytest.mark.slow
def test_the_lowest_versions_that_are_allowed(uv: str, built: Built, tmp_path: Path) -> None:
    lowest = tmp_path / "lowest.txt"
    options = ["--quiet", "--resolution", "lowest-direct", "--extra", "learn", "--extra", "duckdb", "--python"]
    output_of(uv, "pip", "compile", *options, sys.executable, ROOT / "pyproject.toml", "-o", lowest, cwd=tmp_path)
    installed = environment(uv, tmp_path / "lowest", "-r", lowest, f"{built.wheel}[learn,duckdb]")
    numpy = next(line for line in PROJECT["project"]["dependencies"] if line.startswith("numpy"))
    assert metadata.version("numpy") not in numpy  # otherwise the test has no effect
    check_works(installed, "learn", "duckdb")
    packages = json.loads(installed.says("custodes", "doctor", "--format", "json"))["packages"]
    for row in packages:
        assert row["version"].startswith(row["needed"].removeprefix(">=").removesuffix(".0")), row


USER = """
import custodes as cu
from custodes import Study, agreement, live

study: Study = cu.read("demo")
result: cu.Agreement = agreement(study, aspect="coherence", resamples=20)
kept: float = result.metrics["kendall_item"].mean()  # type: ignore[assignment]
cu.plots.save(cu.plots.agreement_intervals(result), "agreement.svg")
model: cu.CombinedMetric = cu.combine(study, target="fluency", method="ridge").model
found: cu.Doctor = cu.doctor()
state: live.State = cu.live.start(["A", "B"], ["i1"])
page: cu.Report = cu.report(study)
try:
    cu.read("nothing.csv")
except cu.CustodesError as problem:
    print(problem)
"""
WRONG = """
import custodes as cu

study = cu.read("demo")
cu.agreement(study, resample=20)
cu.favouritism(study)
cu.ranking(study).metrics
"""


@pytest.mark.slow
def test_a_checker_of_types_knows_every_name(uv: str, built: Built, tmp_path: Path) -> None:
    installed = environment(uv, tmp_path / "typed", built.wheel)
    every = "\n".join(["import custodes as cu", *(f"cu.{name}" for name in cu.__all__), ""])
    files = {"user.py": USER, "every.py": every, "wrong.py": WRONG}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    checker = (sys.executable, "-m", "mypy", "--strict", "--python-executable", installed.folder / "bin" / "python")
    output_of(*checker, "user.py", "every.py", cwd=tmp_path)
    mistakes = output_of(*checker, "wrong.py", cwd=tmp_path, status=1)
    assert 'Unexpected keyword argument "resample"' in mistakes
    assert '"favouritism"' in mistakes
    assert '"Ranking" has no attribute "metrics"' in mistakes
    assert "Found 3 errors" in mistakes


@pytest.mark.slow
def test_the_site() -> None:
    """The build gives no warnings, so links are valid; the site loads no external resources."""
    pytest.importorskip("furo", reason="the tools of the docs are not installed (pip install --group docs)")
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.run(
        [sys.executable, "docs/site.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    site = ROOT / "docs" / "_build" / "html"
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    for page, text in pages.items():
        assert not re.search(r'<(?:script|img|link)[^>]*(?:src|href)="(?:https?:)?//', text), page
    listed = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert {"rates.md", "agreement.md", "howto/install.md", "explanation/statistics/agreement.md"} <= set(listed)
    assert all((site / name).exists() for name in listed)
    gallery = pages[site / "gallery.html"]
    names = [name for name in cu.plots.__all__ if name.islower() and name != "save"]
    for name in names:
        assert f"{name}.svg" in gallery
        assert (site / "_images" / f"{name}.svg").stat().st_size < 100_000
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "partial" in index
    assert '"reference/api"' in index
