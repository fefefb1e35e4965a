"""Altair, imported when the first figure is drawn. Import this module as `alt`, in place of `altair`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        import altair

        return getattr(altair, name)
