"""Writing a picture to a file, without a browser and without a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from custodes.errors import OptionError, suggestion
from custodes.files import write_atomically

if TYPE_CHECKING:
    import altair as alt

FORMATS = ("svg", "pdf", "png", "html", "json")
PNG_SCALE = 3


def save(chart: alt.TopLevelMixin, path: str | Path) -> Path:
    """Write a chart as .svg, .pdf, .png, .html (self-contained) or .json (Vega-Lite), whole or not at all.

    Raises `OptionError` for another suffix and where the path cannot be written.

    >>> import tempfile, custodes as cu
    >>> from custodes import plots
    >>> chart = plots.error_types(cu.ranking(cu.read("demo"), resamples=0), aspect="fluency")
    >>> plots.save(chart, Path(tempfile.mkdtemp()) / "errors.svg").suffix
    '.svg'
    """
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise OptionError(
            f"cannot write {target}: format {kind or 'none'!r}; formats: {', '.join(FORMATS)}"
            f"{suggestion(kind, FORMATS)}"
        )
    return write_atomically(target, rendered(chart, kind))


def rendered(chart: alt.TopLevelMixin, kind: str) -> str | bytes:
    """The content of a file of one of `FORMATS`."""
    import vl_convert

    if kind == "json":
        return str(chart.to_json(indent=1))
    spec = chart.to_dict()
    content: str | bytes
    if kind == "svg":
        content = vl_convert.vegalite_to_svg(spec)
    elif kind == "pdf":
        content = vl_convert.vegalite_to_pdf(spec)
    elif kind == "png":
        content = vl_convert.vegalite_to_png(spec, scale=PNG_SCALE)
    else:
        content = vl_convert.vegalite_to_html(spec, bundle=True)
    return content
