"""HTML of report sections."""

from __future__ import annotations

import re

from custodes.reporting.section import Context, Section


def html_of(section: Section, context: Context) -> str:
    """Render a section with its figures and tables, as on the page."""
    return section.html(context, *section.build_content(context))


def section_of(page: str, question: str) -> str:
    """Return the HTML within the fold of one section of a page."""
    start = page.index(f'<details class="section" id="{question}">')
    ends = [match.start() for match in re.finditer(r'<details class="section" id=|</main>', page)]
    return page[start : next(end for end in ends if end > start)]


def sections_of(page: str) -> list[str]:
    """Return the questions of a page's sections in order."""
    return re.findall(r'<details class="section" id="(\w+)"', page)
