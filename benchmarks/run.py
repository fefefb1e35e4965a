"""Every benchmark in turn: `make bench`."""

import subprocess
import sys
from pathlib import Path

NONE = (Path(__file__).name, "tables.py", "measuring.py", "studies.py", "growth.py", "waits.py")
"""Scripts beside them that measure nothing by themselves, or take hours, or want another version to compare with."""

for script in sorted(Path(__file__).parent.glob("*.py")):
    if script.name not in NONE:
        print(f"\n## {script.stem}\n", flush=True)
        subprocess.run([sys.executable, script], check=True)
