"""The tests of the site need the extra."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("starlette") is None:
    collect_ignore_glob = ["test_*.py"]
