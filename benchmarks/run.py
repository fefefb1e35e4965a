"""Run every benchmark, peers first (`make bench`). The exit status is 1 if one failed or gave other numbers."""

import subprocess
import sys
from pathlib import Path

FIRST = "peers.py"
NONE = (
    Path(__file__).name,
    FIRST,
    "tables.py",
    "measuring.py",
    "studies.py",
    "cases.py",
    "grids.py",
    "growth.py",
    "waits.py",
)
"""Scripts that measure nothing by themselves, take hours, or need another version for comparison."""

folder = Path(__file__).parent
scripts = [folder / FIRST, *(script for script in sorted(folder.glob("*.py")) if script.name not in NONE)]
failed = []
for script in scripts:
    print(f"\n## {script.stem}\n", flush=True)
    if subprocess.run([sys.executable, script]).returncode:
        failed.append(script.stem)
sys.exit(f"failed, or other numbers: {', '.join(failed)}" if failed else 0)
