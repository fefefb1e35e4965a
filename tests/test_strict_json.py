"""Files read as strict JSON: types are prepared before threads start, and duplicate keys are rejected."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import custodes
from custodes.errors import InputError
from custodes.strict_json import decode, is_lossless

NUMBERS = msgspec.json.Decoder(dict[str, int])


def test_types_are_looked_up_at_import_only() -> None:
    # msgspec (0.20) prepares a type on first use, and concurrent first uses crash the process.
    late = re.compile(r"^ +(?![ >]).*msgspec\.(convert\(|json\.Decoder\(|json\.decode\(.*type=)", re.MULTILINE)
    assert late.search("    made = msgspec.json.decode(text, type=cls)")
    for path in Path(custodes.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        # Some calls convert to layouts prepared by `strict_json` at their declaration. Options of plans and parameters
        # of metrics are parsed to strings, numbers and booleans before threads start.
        converts = path.name in ("logs.py", "traces.py", "worker.py", "strict_json.py", "spec.py")
        if not converts and path.parts[-2:] not in (("annotate", "plan.py"), ("commands", "annotate.py")):
            assert not late.search(text), path
        if "readers" in path.parts or path.name == "worker.py":
            assert text.count("(msgspec.Struct") == len(
                re.findall(r"^@prepare_decoder\nclass \w+\(msgspec\.Struct", text, re.MULTILINE)
            )


THREADS = """
import sys, threading
from custodes.combining.combined_metric import CombinedMetric
gate = threading.Barrier(8)
def read():
    gate.wait()
    CombinedMetric.load(sys.argv[1])
threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.slow
def test_threads_that_read_trees_first_never_crash(tmp_path: Path) -> None:
    # When types were prepared on first use, 7 of 150 such processes crashed with a segmentation fault.
    model = custodes.combine(custodes.read("demo"), target="fluency", method="xgboost", repeats=1, resamples=0).model
    file = model.save(tmp_path / "trees.json")
    for _ in range(120):
        subprocess.run([sys.executable, "-c", THREADS, str(file)], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": 1, "a": 1}', "not the JSON that custodes writes: key 'a' occurs twice"),
        (b'{"a": "b"}', "invalid content: Expected `int`, got `str`"),
        *((b"{", "not the JSON that custodes writes"), (b'{"a": ' * 100_000, "invalid content")),
        (b"\xff", "not the JSON that custodes writes"),
        (b'{"\x1b": 1}', "not the JSON that custodes writes"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(content: bytes, reason: str) -> None:
    with pytest.raises(InputError) as raised:
        decode(content, NUMBERS)
    assert str(raised.value).startswith(reason)
    assert str(raised.value).isprintable()


def test_whether_all_of_a_text_was_read() -> None:
    assert is_lossless(b'{"a": 1}', {"a": 1})
    assert not is_lossless(b'{"a": 1, "b": 2}', {"a": 1})
