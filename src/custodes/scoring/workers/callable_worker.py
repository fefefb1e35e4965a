# /// script
# requires-python = ">=3.9"
# ///
"""Any Python function that gets a list of rows and returns a list of scores, with None for a missing score."""

import argparse
import hashlib
import importlib
import os
import sys
from pathlib import Path

from worker_protocol import serve  # imported first, to keep output of libraries out of answers

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("function", help="MODULE:FUNCTION of an installed package, or of a file in the current folder")
parser.add_argument("--needs", default="", help="inputs of a row besides the output: references,source,image,context")
parser.add_argument("--each-reference", action="store_true", help="one reference per row")
parser.add_argument("--lower-is-better", action="store_true")
parser.add_argument("--low", type=float)
parser.add_argument("--high", type=float)
options = parser.parse_args()

sys.path.insert(0, os.getcwd())
name, _, function = options.function.partition(":")
module = importlib.import_module(name)
score = getattr(module, function)
python = Path(os.__file__).parent


def can_change_score(dotted_name, path):
    """Return whether the code of a module can change a score.

    The code of a module of the package of the function can change a score. The code of another module can change a
    score if the module is not part of Python, of an installed package or of the worker.
    """
    is_library_file = {"site-packages", "dist-packages"} & set(path.parts) or python in path.parents
    return dotted_name.partition(".")[0] == name.partition(".")[0] or not (
        is_library_file or dotted_name in ("__main__", "worker_protocol")
    )


code = hashlib.sha256()
for module_name, loaded_module in sorted(sys.modules.items()):
    path = Path(getattr(loaded_module, "__dict__", {}).get("__file__") or "")
    if path.is_file() and can_change_score(module_name, path):
        code.update(f"{module_name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
serve(
    lambda rows: {"scores": [None if value is None else float(value) for value in score(rows)]},
    metric=options.function,
    version=f"{getattr(module, '__version__', '')} {code.hexdigest()[:16]}".strip(),
    needs=[need for need in options.needs.split(",") if need],
    each_reference=options.each_reference,
    higher_is_better=not options.lower_is_better,
    low=options.low,
    high=options.high,
)
