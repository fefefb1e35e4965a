"""Every benchmark in turn, peers first: `make bench`. Exit status 1 where one failed or other numbers came out."""

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
"""Scripts beside them that measure nothing by themselves, or take hours, or want another version to compare with."""

here = Path(__file__).parent
scripts = [here / FIRST, *(script for script in sorted(here.glob("*.py")) if script.name not in NONE)]
failed = []
for script in scripts:
    print(f"\n## {script.stem}\n", flush=True)
    if subprocess.run([sys.executable, script]).returncode:
        failed.append(script.stem)
sys.exit(f"failed, or other numbers: {', '.join(failed)}" if failed else 0)
