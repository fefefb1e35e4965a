"""The how-to pages on extensions work as written: one new file and one line in a list."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.pages import FENCE, Step, steps

ROOT = Path(__file__).parents[1]
HOWTO = ROOT / "docs" / "howto"
READER = HOWTO / "add-a-reader.md"
METRIC = HOWTO / "add-a-text-metric.md"
PAGES = sorted(page for page in HOWTO.glob("add-*.md") if steps(page))


def follow(step: Step, tree: Path) -> None:
    file = tree / step.path
    if step.after is None:
        assert not file.exists()
        file.write_text(step.text, encoding="utf-8")
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines.count(step.after) == 1, f"{step.path}: after which line? {step.after}"
    lines.insert(lines.index(step.after) + 1, step.text.removesuffix("\n"))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def lines_of(tree: Path) -> dict[Path, list[str]]:
    """Map each source file to its lines."""
    files = [path for path in (tree / "src").rglob("*") if path.suffix in (".py", ".pyi", ".html", ".css", ".js")]
    return {path: path.read_text(encoding="utf-8").splitlines() for path in files}


def try_out(pages: list[Path], *sources: Path) -> None:
    """Run the code of pages in a new process, which compares output with the page."""
    elsewhere = sources[0] / "elsewhere"
    elsewhere.mkdir()
    path = os.pathsep.join(map(str, (*sources, ROOT)))
    process = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.pages", *map(str, pages)],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "80"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr


def test_every_kind_of_part_has_a_page() -> None:
    parts = ("question", "reader", "section", "statistic", "method", "estimator", "metric")
    assert {page.stem.split("-")[-1] for page in PAGES} == set(parts)


def test_one_file_and_a_line_in_a_list_are_enough(tmp_path: Path) -> None:
    """The pages run one after the other in one copy of the package, as a page may continue another."""
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src" / "custodes", source / "custodes")  # with compiled files
    for page in PAGES:
        before = lines_of(tmp_path)
        for step in steps(page):
            follow(step, tmp_path)
        after = lines_of(tmp_path)
        assert len(after.keys() - before.keys()) == 1
        added = [len(after[path]) - len(lines) for path, lines in before.items()]
        assert sum(added) <= (2 if page.stem == "add-a-question" else 1)  # the public name and its help line
        assert max(added) <= 1
    config = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", str(source)]
    for task in (["check"], ["format", "--check"]):
        subprocess.run([sys.executable, "-m", "ruff", *task, *config], check=True)
    try_out(PAGES, source)


def test_pages_work_in_separate_packages(tmp_path: Path) -> None:
    for page in (READER, METRIC):
        install(page, tmp_path)
    try_out([READER, METRIC], tmp_path, ROOT / "src")


def install(page: Path, place: Path) -> None:
    """Install the file and metadata of a page as a package in a folder."""
    (file,) = [step for step in steps(page) if step.after is None]
    (project,) = [tomllib.loads(fence[3]) for fence in FENCE.finditer(page.read_text()) if fence[2] == "toml"]
    metadata = project["project"]
    ((group, points),) = metadata["entry-points"].items()
    ((name, value),) = points.items()
    module = value.partition(":")[0]
    (place / f"{module}.py").write_text(file.text, encoding="utf-8")
    about = place / f"{module}-{metadata['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {metadata['name']}\nVersion: {metadata['version']}\n"
    )
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
