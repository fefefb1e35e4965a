"""What a section looks like."""

from __future__ import annotations

from custodes.reporting.section import Context, Section


def html_of(section: Section, context: Context) -> str:
    """A section with its own pictures and tables, as the page makes it."""
    return section.html(context, *section.drawn(context))
