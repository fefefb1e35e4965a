"""Build the site from the pages, without a network: `docs/_build/html/index.html`. Run by `make docs`.

The pages are plain Markdown. This script adds the parts that only the site has: the table of contents, the changelog
and the guides of the repository, and each figure of the gallery below its code.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from custodes.cli import QUESTIONS

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SOURCE, SITE = DOCS / "_build" / "source", DOCS / "_build" / "html"

CONTENTS = {
    "Start": ("howto/install", "tutorial", "data", "score", "gallery"),
    "Questions": tuple(QUESTIONS),
    "How to": ("howto/*",),
    "Reference": ("reference/*",),
    "Background": ("explanation/*", "CHANGELOG", "CONTRIBUTING", "RELEASING", "*"),
    "Statistics": ("explanation/statistics/index", "explanation/statistics/*"),
}
"""Captions to pages, in the order of the table of contents. A page is listed at its first match only."""

REPOSITORY_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md")
"""Pages of the repository that the site includes."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BLOB = f"{PROJECT['urls']['Homepage']}/blob/v{PROJECT['version']}"
"""Address of the files of this version."""

LINK = re.compile(r"\]\((?!https?://|#)([^)\s]+)\)")
CODE = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def collect_pages() -> None:
    """Write the source of every page of the site to `SOURCE`."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(DOCS, SOURCE, ignore=shutil.ignore_patterns("_build", "*.py", "__pycache__"))
    copied = [path.relative_to(SOURCE) for path in SOURCE.rglob("*")]
    places = {DOCS / place: place for place in copied} | {ROOT / name: Path(name) for name in REPOSITORY_PAGES}
    for page, place in places.items():
        if page.suffix == ".md":
            text = with_links(page.read_text(encoding="utf-8"), page, places)
            (SOURCE / place).write_text(text, encoding="utf-8")
    gallery = SOURCE / "gallery.md"
    gallery.write_text(with_pictures(gallery.read_text(encoding="utf-8"), SOURCE / "images"), encoding="utf-8")
    index = SOURCE / "index.md"
    index.write_text("\n".join([index.read_text(encoding="utf-8"), *contents()]), encoding="utf-8")


def write_markdown() -> None:
    """Write each page as `PAGE.md` to the site, and `llms.txt`, which lists these files (llmstxt.org)."""
    lines = [f"# {PROJECT['name']}", "", f"> {PROJECT['description']}", ""]
    seen: set[str] = set()
    for caption, patterns in CONTENTS.items():
        paths = [path for pattern in patterns for path in sorted(SOURCE.glob(f"{pattern}.md"))]
        entries = []
        for path in dict.fromkeys(paths):
            name = path.relative_to(SOURCE).as_posix()
            if name in seen:
                continue
            seen.add(name)
            text = path.read_text(encoding="utf-8")
            (SITE / name).parent.mkdir(parents=True, exist_ok=True)
            (SITE / name).write_text(text, encoding="utf-8")
            title = re.search(r"^# (.+)$", text, flags=re.MULTILINE)
            entries.append(f"- [{title[1] if title else name}]({name})")
        lines += [f"## {caption}", "", *entries, ""]
    (SITE / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def with_links(text: str, page: Path, places: Mapping[Path, Path]) -> str:
    """Return the text of a page with the links of the site.

    A link to a file of the site becomes its path in the site. A link to another file of the repository becomes the
    address of that file. A broken link does not change, so Sphinx reports it.

    Parameters
    ----------
    text
        Text of the page in the repository.
    page
        Path of the page.
    places
        Paths of files to their paths in the site, relative to its root.
    """

    def resolved(link: re.Match[str]) -> str:
        path, mark, anchor = link[1].partition("#")
        target = (page.parent / path).resolve()
        if target in places:
            path = Path(os.path.relpath(places[target], places[page].parent)).as_posix()
        elif target.is_relative_to(ROOT) and target.exists():
            path = f"{BLOB}/{target.relative_to(ROOT).as_posix()}"
        return f"]({path}{mark}{anchor})"

    return LINK.sub(resolved, text)


def contents() -> list[str]:
    """Return the table of contents as directives of Sphinx."""
    lines: list[str] = []
    seen: set[str] = {"index"}
    for caption, patterns in CONTENTS.items():
        paths = [path for pattern in patterns for path in sorted(SOURCE.glob(f"{pattern}.md"))]
        names = [path.relative_to(SOURCE).with_suffix("").as_posix() for path in paths]
        lines += ["```{toctree}", ":hidden:", f":caption: {caption}", ""]
        lines += [name for name in dict.fromkeys(names) if name not in seen] + ["```", ""]
        seen |= set(names)
    return lines


def with_pictures(text: str, folder: Path) -> str:
    """Return the page with each figure below the code block that saves it. The blocks run in order, in `folder`."""
    names: dict[str, Any] = {}

    def with_figure(code: re.Match[str]) -> str:
        before = set(folder.iterdir())
        exec(compile(code[1], "gallery.md", "exec"), names)
        files = sorted(set(folder.iterdir()) - before)
        return "\n".join([code[0], *(f"![{file.stem}]({folder.name}/{file.name})\n" for file in files)])

    with contextlib.chdir(folder):
        return CODE.sub(with_figure, text)


def build() -> int:
    """Build the site. A warning of Sphinx, such as a broken link, is an error."""
    from sphinx.cmd.build import main

    collect_pages()
    shutil.rmtree(SITE, ignore_errors=True)
    options = [
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "--fresh-env",
        "-c",
        str(DOCS),
        "-d",
        str(SITE.parent / "doctrees"),
    ]
    status = int(main([*options, str(SOURCE), str(SITE)]))
    if status == 0:
        write_markdown()
    return status


if __name__ == "__main__":
    status = build()
    print(f"{(SITE / 'index.html').relative_to(ROOT)}" if status == 0 else "the site has mistakes: see above")
    sys.exit(status)
