"""Packages that provide entry points, for tests of plugins."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def install(folder: Path, code: str, *, name: str, points: str, version: str = "1.2") -> None:
    """Install a one-module package into a folder on the path, replacing an older version."""
    for old in folder.glob(f"custodes_{name}-*.dist-info"):
        shutil.rmtree(old)
    about = folder / f"custodes_{name}-{version}.dist-info"
    about.mkdir()
    (folder / f"{name}.py").write_text(code)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: custodes-{name}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(points)
    sys.modules.pop(name, None)
