"""Documentation: code blocks run, numbers are current, and links are valid."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from docstring_parser import DocstringStyle, parse

import custodes as cu
from custodes.answers.result import Result
from custodes.cli import VERBS
from tests.pages import FENCE, blocks, run, steps, try_out

ROOT = Path(__file__).parents[1]
BESIDE = [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "RELEASING")]
PAGES = [*BESIDE, *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)]
GENERATED = {"api.md"}
"""Its examples come from docstrings, where they run as doctests."""
TEXTS = ROOT / "docs" / "howto" / "score-summaries.md"
"""Other pages use its texts."""
DRAWN = {"gallery.md"}
"""Its code runs when the site is built."""
SERVED = {"ask-people.md"}
"""Its commands need a server: tests/annotate/test_tutorial.py."""
STARTS = {"tutorial.md": set(), "README.md": {"texts.jsonl", "people.csv"}}
"""Files that exist before a page starts. The default is all files of the demo."""


def ident(value: object) -> str | None:
    return value.relative_to(ROOT).as_posix() if isinstance(value, Path) else None


@pytest.fixture(scope="session")
def demo_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo as files with the names of the documentation, and the texts that a page uses."""
    folder = tmp_path_factory.mktemp("demo")
    assert run(f"custodes convert demo -o {folder}/")[0] == 0
    _, texts = next(blocks(TEXTS, "python"))
    with contextlib.chdir(folder):
        exec(texts, {})
    return folder


@pytest.fixture
def start(demo_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Return a function that creates the initial files of a page in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def make(page: Path) -> None:
        for file in demo_files.iterdir():
            if file.name in STARTS.get(page.name, {file.name}):
                (tmp_path / file.name).write_bytes(file.read_bytes())

    return make


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in GENERATED | DRAWN | SERVED and not steps(page)], ids=ident
)
def test_code_of_a_page_runs_in_order(page: Path, start: Callable[[Path], None]) -> None:
    start(page)
    try_out(page)


@pytest.mark.parametrize("page", PAGES, ids=ident)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, target


def test_the_files_that_explain_the_annotation_service_exist() -> None:
    page = (ROOT / "docs" / "explanation" / "annotation-service.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "custodes"
    missing = [name for name in re.findall(r"`([\w/]+\.py)`", page) if not any(package.rglob(name))]
    assert not missing


def test_links_of_the_site_lead_to_its_pages_or_to_the_repository() -> None:
    site = script("site")
    guide, changelog = ROOT / "docs" / "howto" / "a.md", ROOT / "CHANGELOG.md"
    places = {guide: Path("howto/a.md"), changelog: Path("CHANGELOG.md"), ROOT / "docs" / "data.md": Path("data.md")}

    def linked(target: str, page: Path) -> str:
        return site.with_links(f"[text]({target})", page, places)

    assert linked("docs/data.md#readers", changelog) == "[text](data.md#readers)"
    assert linked("../../CHANGELOG.md", guide) == "[text](../CHANGELOG.md)"
    assert linked("../data.md", guide) == "[text](../data.md)"
    for page, up in ((changelog, ""), (guide, "../../")):
        assert linked(f"{up}benchmarks/README.md#more", page) == f"[text]({site.BLOB}/benchmarks/README.md#more)"
        assert linked(f"{up}pyproject.toml", page) == f"[text]({site.BLOB}/pyproject.toml)"
        for same in ("https://example.org/docs/data.md", "#part", f"{up}no/such.md"):
            assert linked(same, page) == f"[text]({same})"


def slug(heading: str) -> str:
    """Anchor of a heading on code hosting sites."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=ident)
def test_pages_name_no_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(work|home|root|tmp|mnt|Users)/", text)
    assert "localhost" not in text
    assert max(map(len, text.splitlines())) < 400


def test_every_page_is_reached_from_the_index() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        todo += [(page.parent / link).resolve() for link in links if not link.startswith("http")]
    assert set(PAGES) <= seen


def script(name: str) -> ModuleType:
    """Import a script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_fresh() -> None:
    for path, content in script("generate").pages().items():
        assert path.read_text(encoding="utf-8") == content, f"{path.name} is stale: run `make docs`"


def test_the_picture_of_the_readme_is_fresh(tmp_path: Path) -> None:
    """Texts and numbers are compared exactly, positions of marks up to rounding."""
    result = script("generate")

    def words(path: Path) -> list[str]:
        return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))

    assert words(result.picture(tmp_path / "picture.svg")) == words(result.PICTURE), "run `make docs`"
    assert result.PICTURE.stat().st_size < 60_000


def test_the_reference_has_every_verb_name_and_public_method() -> None:
    command_line, page = ((ROOT / "docs" / "reference" / name).read_text("utf-8") for name in ("cli.md", "api.md"))
    assert all(f"## `{verb}" in command_line for verb in VERBS)
    assert all(f"`{option}`" in command_line for option in ("--human", "--seed", "--correction", "--figures", "-o"))
    assert all(f"## `cu.{name}`" in page for name in cu.__all__)
    sections = dict(re.findall(r"^##+ `(?:cu\.)?([\w.]+)`\n(.*?)(?=^#|\Z)", page, flags=re.MULTILINE | re.DOTALL))
    of_results = set(dir(Result))
    for name, value in {"Result": Result, **public()}.items():
        if not inspect.isclass(value):
            continue
        members = (
            {member for member in dir(value) if not member.startswith("_")} - set(dir(Exception)) - set(dir(tuple))
        )
        if issubclass(value, Result) and value is not Result:
            members -= of_results
        for member in members:
            attribute = inspect.getattr_static(value, member)
            if isinstance(attribute, property) or callable(getattr(value, member)):
                assert f"- `{member}" in sections[name], f"{name}.{member}"


def test_the_gallery_has_every_picture() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    names = [name for name in cu.plots.__all__ if inspect.isfunction(getattr(cu.plots, name)) and name != "save"]
    assert sorted(re.findall(r"^### (\w+)$", page, flags=re.MULTILINE)) == sorted(names)
    for name in names:
        assert f"plots.save(plots.{name}(" in page
        assert f'"{name}.svg")' in page


def modules() -> list[str]:
    result = pkgutil.walk_packages(cu.__path__, "custodes.")
    return sorted(module.name for module in result if not module.name.endswith("__main__"))


@pytest.mark.parametrize("name", ["custodes", *modules()])
def test_examples_of_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # examples must not write to the user's cache
    output = io.StringIO()
    module = importlib.import_module(name)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module):
        failed, _ = doctest.DocTestRunner().run(example, out=output.write)
        assert not failed, output.getvalue()


def public() -> dict[str, object]:
    names = {name: getattr(cu, name) for name in cu.__all__}
    for name, value in list(names.items()):
        if inspect.ismodule(value):
            names |= {f"{name}.{member}": getattr(value, member) for member in value.__all__}
    return {name: value for name, value in names.items() if callable(value)}


@pytest.mark.parametrize(("name", "value"), public().items(), ids=list(public()))
def test_every_public_name_is_explained(name: str, value: object) -> None:
    doc = inspect.getdoc(value) or ""
    assert len(doc) > 20, f"{name} is not explained"
    if inspect.isfunction(value):
        assert ">>>" in doc, f"{name} has no example"


@pytest.mark.parametrize("name", [name for name, value in public().items() if name.startswith("plots.")])
def test_help_of_a_picture_describes_every_argument(name: str) -> None:
    function = public()[name]
    sections = parse(inspect.getdoc(function) or "", DocstringStyle.NUMPYDOC)
    described = [part.arg_name for part in sections.params if part.type_name]
    assert described == list(inspect.signature(function).parameters)
    assert sections.returns is not None
