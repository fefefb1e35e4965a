"""Images in requests."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from custodes.errors import InputError
from custodes.judging.prompt import image_part


def sent(path: Path) -> bytes:
    """The bytes that a part shows."""
    kind, _, content = image_part(str(path))["image_url"]["url"].partition(",")
    assert kind == "data:image/png;base64"
    return base64.b64decode(content)


def test_an_image_that_was_changed_is_sent_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"one")
    os.utime(path, ns=(1, 1))
    assert sent(path) == b"one"
    path.write_bytes(b"two")  # of the same size
    os.utime(path, ns=(2, 2))
    assert sent(path) == b"two"
    path.unlink()
    with pytest.raises(InputError):
        image_part(str(path))
