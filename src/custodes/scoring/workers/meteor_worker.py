# /// script
# requires-python = ">=3.9"
# dependencies = ["pycocoevalcap"]
# ///
"""METEOR 1.5 (Denkowski and Lavie 2014) by its Java program from pycocoevalcap; all references are used together."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from worker_protocol import parse_options, serve  # imported first, to keep output of libraries out of answers

options = parse_options(
    __doc__,
    jar={"help": "path of meteor-1.5.jar, next to its folder data (default: the file of pycocoevalcap)"},
    language={"default": "en"},
    memory={"default": "2G", "help": "maximum memory of Java"},
)

package = importlib.util.find_spec("pycocoevalcap")
folder = Path(next(iter(package.submodule_search_locations))) / "meteor" if package else Path()
jar = Path(options.jar or folder / "meteor-1.5.jar")
if not jar.is_file():
    sys.exit(f"{jar} does not exist: install pycocoevalcap, or give the path of meteor-1.5.jar with --jar")
if not shutil.which("java"):
    sys.exit("Java is not installed; METEOR 1.5 needs it")
words = ["java", f"-Xmx{options.memory}", "-jar", str(jar), "-", "-", "-stdio", "-l", options.language, "-norm"]
java = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", errors="replace")


def plain(text):
    return " ".join(text.replace("|||", " ").split())


def read_java_line():
    line = java.stdout.readline()
    if not line:
        sys.exit(f"Java ended with exit status {java.wait()}")
    return line.strip()


def send_to_java(*fields):
    java.stdin.write(" ||| ".join(fields) + "\n")
    java.stdin.flush()


def java_seconds():
    """Return the CPU seconds of Java, or elapsed seconds if the system does not report CPU seconds."""
    try:
        cpu_ticks = Path(f"/proc/{java.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, cpu_ticks)) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return time.monotonic()


def score(rows):
    start_java_seconds = java_seconds()
    statistics_lines = []
    for row in rows:
        send_to_java("SCORE", *map(plain, row["references"]), plain(row["output"]))
        statistics_lines.append(read_java_line())
    send_to_java("EVAL", *statistics_lines)
    scores = [float(read_java_line()) for _ in rows]
    read_java_line()  # the score over all rows, which is not used
    return {"scores": scores, "seconds": java_seconds() - start_java_seconds}


score([{"output": "a", "references": ["a"]}])  # Java loads its data before the worker reports ready
code = hashlib.sha256(jar.read_bytes()).hexdigest()[:16]
serve(score, metric="METEOR 1.5", version=f"{code} {options.language}", needs=["references"], low=0, high=1)
