"""Every benchmark in turn: `make bench`."""

import subprocess
import sys
from pathlib import Path

NONE = (Path(__file__).name, "tables.py")
"""Scripts beside them that measure nothing by themselves."""

for script in sorted(Path(__file__).parent.glob("*.py")):
    if script.name not in NONE:
        print(f"\n## {script.stem}\n", flush=True)
        subprocess.run([sys.executable, script], check=True)
