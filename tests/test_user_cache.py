"""Cached texts in the user's folder: written once, and built again if damaged or in an unsafe folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from custodes import cache
from custodes.plots import saving

posix = pytest.mark.skipif(sys.platform == "win32", reason="no modes of that kind")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect the cache to a temporary folder."""
    place = tmp_path / "caches" / "custodes"
    monkeypatch.setattr(cache, "cache_folder", lambda: place)
    return place


def build_text(times: list[int], text: str = "const α = 1;\r\n\nend") -> str:
    times.append(1)
    return text


def test_a_text_is_made_once_and_comes_back_letter_by_letter(home: Path) -> None:
    times: list[int] = []
    first, again = (cache.cached_text("one-1.js", lambda: build_text(times)) for _ in range(2))
    assert first == again == "const α = 1;\r\n\nend"
    assert len(times) == 1
    assert cache.cached_text("one-2.js", lambda: build_text(times, "other")) == "other"
    assert len(times) == 2
    assert sorted(file.name for file in home.iterdir()) == ["one-1.js", "one-2.js"]


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"const a = 2;", b"0" * 64 + b"\nconst a = 2;"])
def test_a_damaged_file_is_made_anew(home: Path, damage: bytes) -> None:
    times: list[int] = []
    cache.cached_text("one.js", lambda: build_text(times))
    (home / "one.js").write_bytes(damage)
    assert cache.cached_text("one.js", lambda: build_text(times)) == build_text([])
    assert cache.cached_text("one.js", lambda: build_text(times)) == build_text([])
    assert len(times) == 2


@posix
def test_a_folder_that_others_may_write_to_is_not_read(home: Path) -> None:
    times: list[int] = []
    cache.cached_text("one.js", lambda: build_text(times))
    home.chmod(0o777)
    assert cache.cached_text("one.js", lambda: build_text(times, "ours")) == "ours"
    assert len(times) == 2


def test_without_a_folder_it_is_made_every_time(home: Path) -> None:
    home.parent.write_text("a file, where the folder should be")
    times: list[int] = []
    for _ in range(2):
        assert cache.cached_text("one.js", lambda: build_text(times, "ours")) == "ours"
    assert len(times) == 2


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="of other systems")
def test_the_folder_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "custodes"
    for unusable in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert cache.cache_folder() == Path(os.path.expanduser("~")) / ".cache" / "custodes"


def test_the_library_of_pages_is_kept_under_its_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda: "draw('</script>');")
    assert saving.vega_script() == "draw('<\\/script>');"
    (stored,) = home.iterdir()
    monkeypatch.setattr(saving, "version", lambda name: "another")
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda: "newer")
    assert saving.vega_script() == "newer"
    stored.unlink()
    assert len([*home.iterdir()]) == 1
