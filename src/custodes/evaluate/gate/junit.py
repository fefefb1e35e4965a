"""JUnit XML, the format in which continuous integration reads test results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, even escaped."""
Outcome = Literal["failure", "skipped", "system-out"]
"""XML element of a test case that failed, was skipped or passed."""


def junit(
    name: str, cases: Sequence[tuple[str, str, Outcome, str]], *, properties: Mapping[str, str], seconds: float
) -> str:
    """Return a document with one suite of test cases; each case is a tuple of group, name, outcome and message.

    >>> case = ("judge", "spa>=0.9", "failure", "0.7 < 0.9")
    >>> junit("gate", [case], properties={}, seconds=0.0).splitlines()[2]
    '  <testsuite name="gate" tests="1" failures="1" errors="0" skipped="0" time="0.000">'
    """
    outcomes = [outcome for _, _, outcome, _ in cases]
    failures, skipped = str(outcomes.count("failure")), str(outcomes.count("skipped"))
    counts = {"name": name, "tests": str(len(cases)), "failures": failures, "errors": "0", "skipped": skipped}
    root = Element("testsuites", counts | {"time": f"{seconds:.3f}"})
    suite = SubElement(root, "testsuite", root.attrib)
    about = SubElement(suite, "properties") if properties else suite
    for key, value in properties.items():
        SubElement(about, "property", {"name": key, "value": value})
    for group, rule, outcome, message in cases:
        case = SubElement(suite, "testcase", {"classname": group, "name": rule, "time": "0.000"})
        attributes = {"message": message} | ({"type": "rule"} if outcome == "failure" else {})
        detail = SubElement(case, outcome, {} if outcome == "system-out" else attributes)
        detail.text = None if outcome == "skipped" else message
    indent(root)
    text = f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'
    return FORBIDDEN.sub("\ufffd", text)
