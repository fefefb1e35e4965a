"""JUnit XML, the form in which systems for continuous integration take the outcome of tests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A test case: its name within a group, what is told of it where it did not pass, and in which words."""

    group: str
    name: str
    told: Literal["failure", "skipped"] | None
    message: str


def junit(name: str, cases: Sequence[Case], *, properties: Mapping[str, str], seconds: float) -> str:
    """A document with one suite of test cases.

    >>> case = Case(group="judge", name="spa>=0.9", told="failure", message="0.7 < 0.9")
    >>> junit("gate", [case], properties={}, seconds=0.0).splitlines()[2]
    '  <testsuite name="gate" tests="1" failures="1" errors="0" skipped="0" time="0.000">'
    """
    counts = {
        "name": name,
        "tests": str(len(cases)),
        "failures": str(sum(case.told == "failure" for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.told == "skipped" for case in cases)),
        "time": f"{seconds:.3f}",
    }
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", counts)
    if properties:
        about = SubElement(suite, "properties")
        for key, value in properties.items():
            SubElement(about, "property", {"name": key, "value": _allowed(value)})
    for case in cases:
        own = SubElement(
            suite, "testcase", {"classname": _allowed(case.group), "name": _allowed(case.name), "time": "0.000"}
        )
        if case.told == "failure":
            failure = SubElement(own, "failure", {"message": _allowed(case.message), "type": "rule"})
            failure.text = _allowed(case.message)
        elif case.told == "skipped":
            SubElement(own, "skipped", {"message": _allowed(case.message)})
        else:
            SubElement(own, "system-out").text = _allowed(case.message)
    indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'


def _allowed(text: str) -> str:
    return FORBIDDEN.sub("\ufffd", text)
