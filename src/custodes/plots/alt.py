"""Altair, imported when the first figure is drawn. Other modules import this module as `alt` instead of importing
`altair`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        import altair

        return getattr(altair, name)
