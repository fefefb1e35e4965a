"""Files are written whole or not at all, and a device stays a device."""

import os
import stat
from pathlib import Path

from custodes.files import write_atomically


def test_a_device_is_written_to_and_not_replaced() -> None:
    before = os.stat(os.devnull)
    write_atomically(os.devnull, "gone")
    after = os.stat(os.devnull)
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    write_atomically(target, b"new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "new")]
