"""Every benchmark in turn: `make bench`."""

import subprocess
import sys
from pathlib import Path

for script in sorted(Path(__file__).parent.glob("*.py")):
    if script.name != Path(__file__).name:
        print(f"\n## {script.stem}\n", flush=True)
        subprocess.run([sys.executable, script], check=True)
