"""What a section looks like."""

from __future__ import annotations

import re

from custodes.reporting.section import Context, Section


def html_of(section: Section, context: Context) -> str:
    """A section with its own pictures and tables, as the page makes it."""
    return section.html(context, *section.drawn(context))


def section_of(page: str, question: str) -> str:
    """What stands in the fold of a section of a page."""
    start = page.index(f'<details class="section" id="{question}">')
    ends = [found.start() for found in re.finditer(r'<details class="section" id=|</main>', page)]
    return page[start : next(end for end in ends if end > start)]


def sections_of(page: str) -> list[str]:
    """The questions of the folds of a page, in their order."""
    return re.findall(r'<details class="section" id="(\w+)"', page)
