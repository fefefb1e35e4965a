"""The script that pages carry to draw their pictures."""

from __future__ import annotations

import gzip
import re

import altair
import pytest
import vl_convert

from custodes.plots.saving import LIBRARY, library

NOTICE = LIBRARY.with_name("LICENSES.txt").read_text(encoding="utf-8")
CARRIED = dict(re.findall(r"(Vega[\w-]*|vl-convert-python) (\d+[.\d]*\d)", NOTICE))


def test_it_is_what_vl_convert_makes() -> None:
    """To renew it: write the bundle here, the versions and the licences of its packages beside it."""
    if vl_convert.__version__ != CARRIED["vl-convert-python"]:
        pytest.skip("another version of vl-convert-python is installed")
    assert gzip.decompress(LIBRARY.read_bytes()).decode() == vl_convert.javascript_bundle()  # type: ignore[call-arg]
    assert CARRIED["Vega"] == vl_convert.get_vega_version()
    assert CARRIED["Vega-Lite"] == vl_convert.get_vegalite_versions()[-1]
    assert CARRIED["Vega-Embed"] == vl_convert.get_vega_embed_version()


def test_it_knows_the_pictures_that_altair_writes() -> None:
    written = int(re.findall(r"\d+", altair.SCHEMA_VERSION)[0])
    assert int(CARRIED["Vega-Lite"].split(".")[0]) >= written


def test_nothing_in_it_ends_the_element_it_stands_in() -> None:
    assert "</script" not in library()
