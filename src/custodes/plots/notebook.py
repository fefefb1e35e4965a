"""Altair charts that are displayed in notebooks without a network: as SVG, rendered locally.

Altair's default display is a page that loads Vega from a server. Each class here is the class of Altair of the same
name with another display. The classes are created on first use, because Altair is imported with the first figure.

"""

from __future__ import annotations

from functools import cache
from typing import Any

import custodes.plots.alt as alt
from custodes.plots.saving import rendered


def offline(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """The same chart with a display that needs no network, which its copies keep."""
    if not isinstance(chart, _Offline):
        object.__setattr__(chart, "__class__", _class(type(chart).__name__))  # Altair stores attributes in its schema
    return chart


class _Offline:
    """Notebook display of a chart."""

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> Any:
        """SVG, unless the user has selected a renderer of Altair."""
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*args, **options)  # type: ignore[misc]
        return {"image/svg+xml": rendered(self, "svg")}  # type: ignore[arg-type]


@cache
def _class(name: str) -> type:
    return type(name, (_Offline, getattr(alt, name)), {"__module__": __name__, "__doc__": getattr(alt, name).__doc__})


def __getattr__(name: str) -> Any:
    """A class by its name, as needed by pickle."""
    if not name.endswith("Chart"):
        raise AttributeError(name)
    return _class(name)
