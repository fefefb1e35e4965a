"""Skips the tests of the site where its dependencies are not installed."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("starlette") is None:
    collect_ignore_glob = ["test_*.py"]
