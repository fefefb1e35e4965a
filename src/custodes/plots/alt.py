"""Altair, imported when the first figure is drawn. Import this module as `alt`, in place of `altair`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        load()
        import altair

        return getattr(altair, name)


def load() -> None:
    """Import Altair. `OptionError` is raised under `python -OO`, which strips the docstrings that Altair reads."""
    import sys

    from custodes.errors import OptionError

    try:
        import altair  # noqa: F401
    except AttributeError:
        if sys.flags.optimize < 2:
            raise
        raise OptionError(
            "figures need Altair, and Altair needs docstrings, which python -OO removes; run python with -O"
        ) from None
