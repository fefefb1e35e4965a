"""Altair, which the first picture loads and no import: `from custodes.plots import alt` instead of `import altair`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        import altair

        return getattr(altair, name)
