"""Export of figures to files, without a browser and without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import custodes.plots.alt as alt
from custodes.cache import cached_text
from custodes.errors import OptionError, suggestion
from custodes.files import write_atomically
from custodes.plots.drawable import drawable

FORMATS = ("svg", "pdf", "png", "html", "json")
PNG_SCALE = 3

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:">
<title>Picture</title>
</head>
<body>
<div id="picture"></div>
<script type="application/json" id="specification">{specification}</script>
<script>{library}</script>
<script>
const specification = JSON.parse(document.getElementById("specification").textContent);
vegaEmbed("#picture", specification, {{ ast: false, renderer: "svg" }});
</script>
</body>
</html>
"""


def save(chart: alt.TopLevelMixin | Mapping[str, Any], path: str | Path) -> Path:
    """Write a chart, or its Vega-Lite specification, atomically as .svg, .pdf, .png, .html (self-contained) or .json.

    Parameters
    ----------
    chart : altair.TopLevelMixin or mapping
        Chart, or its Vega-Lite specification.
    path : str or Path
        File to write; the suffix is the format.

    Returns
    -------
    pathlib.Path
        The file written.

    Raises
    ------
    OptionError
        If the suffix is not one of these formats, or if the path cannot be written.

    Examples
    --------
    >>> import tempfile, custodes as cu
    >>> from custodes import plots
    >>> chart = plots.error_types(cu.ranking(cu.read("demo"), resamples=0), aspect="fluency")
    >>> plots.save(chart, Path(tempfile.mkdtemp()) / "errors.svg").suffix
    '.svg'
    """
    target_path = Path(path)
    suffix = target_path.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise OptionError(
            f"cannot write {target_path}: the suffix names no format of figures; give one of "
            f"{', '.join(FORMATS)}{suggestion(suffix, FORMATS)}"
        )
    return write_atomically(target_path, render_chart(chart, suffix))


def render_chart(chart: alt.TopLevelMixin | Mapping[str, Any], format_name: str) -> str | bytes:
    """The content of a file with this chart. `format_name` is one of the `FORMATS`."""
    import vl_convert

    spec: Any = drawable(chart if isinstance(chart, Mapping) else chart.to_dict())
    renderer_of_format: Mapping[str, Callable[[], Any]] = {
        "json": lambda: json.dumps(spec, indent=1),
        "svg": lambda: vl_convert.vegalite_to_svg(spec),
        "pdf": lambda: vl_convert.vegalite_to_pdf(spec),
        "png": lambda: vl_convert.vegalite_to_png(spec, scale=PNG_SCALE),
        # No label can close the script element that contains it: JSON writes < as an escape.
        "html": lambda: _PAGE.format(specification=json.dumps(spec).replace("<", "\\u003c"), library=vega_script()),
    }
    return renderer_of_format[format_name]()  # type: ignore[no-any-return]


def vega_script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    return cached_text(f"vega-of-vl-convert-{version('vl-convert-python')}.js", _bundle).replace(
        "</script", "<\\/script"
    )


def _bundle() -> str:
    import vl_convert

    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]


def offline(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """The same chart, with a display that needs no network. Copies of the chart have the same display."""
    if not isinstance(chart, _Offline):
        object.__setattr__(chart, "__class__", _class(type(chart).__name__))  # Altair overrides assignment
    return chart


class _Offline:
    """Display of a chart in a notebook, without a network connection."""

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> Any:
        """The chart as SVG, or the display of Altair's renderer if the user has selected a renderer."""
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*args, **options)  # type: ignore[misc]
        return {"image/svg+xml": render_chart(self, "svg")}  # type: ignore[arg-type]


@cache
def _class(class_name: str) -> type:
    return type(
        class_name,
        (_Offline, getattr(alt, class_name)),
        {"__module__": __name__, "__doc__": getattr(alt, class_name).__doc__},
    )


def __getattr__(name: str) -> Any:
    """Return a class of this module by its name, as pickle requires."""
    if not name.endswith("Chart"):
        raise AttributeError(name)
    return _class(name)
