"""Check of a JUnit file against the schema that Jenkins reads."""

from __future__ import annotations

from xml.etree import ElementTree


def check_junit(text: str) -> list[tuple[str, str, str]]:
    """Check that a document has the structure that CI systems read; return (classname, name, outcome) of its cases."""
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>\n')
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    cases = []
    for suite in root:
        assert suite.tag == "testsuite"
        assert suite.get("name")
        assert {child.tag for child in suite} <= {"testcase"}
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for case in suite.iter("testcase"):
            assert case.get("name")
            assert case.get("classname")
            assert float(case.get("time", "")) >= 0
            tags = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
            assert len(tags) <= 1
            assert all(child.get("message") for child in case if child.tag in tags)
            counts["tests"] += 1
            for tag in tags:
                counts[{"failure": "failures", "error": "errors"}.get(tag, tag)] += 1
            cases.append((case.get("classname", ""), case.get("name", ""), *(tags or ["passed"])))
        for name, number in counts.items():
            assert suite.get(name) == root.get(name) == str(number)
        assert float(suite.get("time", "")) >= 0
    assert len(set(cases)) == len(cases)
    return cases
