"""Outcomes of a gate: exit status, JUnit XML for continuous integration, and printed lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np
import polars as pl

from custodes.answers.tables import View
from custodes.answers.views import number
from custodes.answers.wording import interval, plural
from custodes.evaluate.gate.reuse import CLOSED, OPEN, UNTESTED
from custodes.evaluate.gate.rules import FAILS, HOLDS, INCONCLUSIVE

STATUS = {FAILS: 1, CLOSED: 1, INCONCLUSIVE: 3, HOLDS: 0, OPEN: 0, UNTESTED: 0}
"""Exit status for each outcome of a rule (2 means invalid input). The first listed outcome that occurs is the joint
outcome."""

IN_JUNIT = {
    HOLDS: "system-out",
    OPEN: "system-out",
    FAILS: "failure",
    CLOSED: "failure",
    INCONCLUSIVE: "skipped",
    UNTESTED: "skipped",
}
"""XML element of a test case that passed, failed or was skipped, by outcome."""

MOST_TIMES = 20.0
"""Largest reported factor by which the number of items would have to grow."""

DIGITS = 3
"""Number of digits of interval bounds. With two digits, a rounded bound would often equal the threshold."""


FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, even escaped."""


def rule_lines(rule_table: pl.DataFrame) -> Iterator[View]:
    """Yield a view with one line per rule, below the joint outcome."""
    yield View(
        title=summary_of(rule_table),
        header=("outcome", "rule"),
        labels=("Outcome", "Rule"),
        rows=tuple((rule_row["outcome"], line_of(rule_row)) for rule_row in rule_table.to_dicts()),
    )


def outcome_of(rule_table: pl.DataFrame) -> str:
    """Return the joint outcome of all rules: `fails` if a rule fails, else `inconclusive` if a rule is inconclusive."""
    return next(outcome for outcome in STATUS if outcome in rule_table["outcome"])


def summary_of(rule_table: pl.DataFrame) -> str:
    """Return a line with the joint outcome and the numbers of rules by outcome."""
    count_of_outcome, joint_outcome = Counter(rule_table["outcome"]), outcome_of(rule_table)
    if joint_outcome in (OPEN, CLOSED, UNTESTED):
        return f"gate: {joint_outcome} ({plural(rule_table.height, 'rule')})"
    return (
        f"gate: {joint_outcome} ({plural(rule_table.height, 'rule')}: {count_of_outcome[HOLDS]} hold, "
        f"{count_of_outcome[FAILS]} fail, {count_of_outcome[INCONCLUSIVE]} inconclusive)"
    )


def line_of(rule_row: Mapping[str, Any]) -> str:
    """Return the result of a rule as a line, without the outcome.

    >>> row = {"statistic": "kendall_item", "metric": "new", "against": None, "aspect": "coherence", "reason": None}
    >>> row |= {"system": None, "label": None, "value": 0.41, "value_low": 0.35, "value_high": 0.47, "threshold": 0.3}
    >>> line_of(row | {"relation": ">=", "outcome": "holds"})
    'kendall_item of new on coherence: 0.410 [0.350, 0.470] >= 0.3'
    """
    subject_text = f"{rule_row['statistic']} of {rule_row['metric']}"
    scope_text = f" for {rule_row['system']}" if rule_row["system"] else ""
    if rule_row["against"] is not None and rule_row["system"]:
        scope_text += f" minus {rule_row['against']}"
    elif rule_row["against"] is not None:
        subject_text = f"{rule_row['metric']} not worse than {rule_row['against']} by {rule_row['statistic']}"
    scope_text += f" on {rule_row['aspect']}" if rule_row["aspect"] else ""
    scope_text += f" (positive: {rule_row['label']})" if rule_row["label"] else ""
    reason_text = f" ({rule_row['reason']})" if rule_row["reason"] else ""
    if rule_row["value"] is None and rule_row["outcome"] in (OPEN, CLOSED, UNTESTED):
        return f"{subject_text}{scope_text} {rule_row['relation']} {rule_row['threshold']:g}{reason_text}"
    interval_text = interval(
        *(rule_row[f"value{bound_suffix}"] for bound_suffix in ("", "_low", "_high")), digits=DIGITS, write=number
    )
    return f"{subject_text}{scope_text}: {interval_text} {rule_row['relation']} {rule_row['threshold']:g}{reason_text}"


def more_data(value: float, low: float, high: float, threshold: float, unit_name: str) -> str:
    """Return a phrase that says how many times as much data would decide a rule; empty if the factor is too large.

    The width of the interval is assumed to shrink with 1 / sqrt(n).
    """
    distance_to_threshold = value - threshold
    half_width = value - low if distance_to_threshold > 0 else high - value
    if not np.isfinite(half_width) or abs(distance_to_threshold) * MOST_TIMES**0.5 < half_width:
        return ""
    return (
        f"; if the value stays the same, about {max((half_width / distance_to_threshold) ** 2, 1.1):.1f} times as many "
        f"{unit_name} would decide the rule"
    )


def junit(rule_rows: Sequence[Mapping[str, Any]], *, seconds: float) -> str:
    """Return a document with one suite, which has a test case for each row of the table `rules`."""
    element_names = [IN_JUNIT[rule_row["outcome"]] for rule_row in rule_rows]
    suite_attributes = {
        "name": "custodes gate",
        "tests": str(len(rule_rows)),
        "failures": str(element_names.count("failure")),
        "errors": "0",
        "skipped": str(element_names.count("skipped")),
        "time": f"{seconds:.3f}",
    }
    root_element = Element("testsuites", suite_attributes)
    suite_element = SubElement(root_element, "testsuite", suite_attributes)
    for rule_row, element_name in zip(rule_rows, element_names, strict=True):
        case_attributes = {
            "classname": rule_row["metric"] + (f" ({rule_row['aspect']})" if rule_row["aspect"] else ""),
            "name": rule_row["rule"] + (f" for {rule_row['system']}" if rule_row["system"] else ""),
            "time": "0.000",
        }
        message = f"{rule_row['outcome']}: {line_of(rule_row)}"
        detail_attributes = {"message": message} | ({"type": "rule"} if element_name == "failure" else {})
        detail_element = SubElement(
            SubElement(suite_element, "testcase", case_attributes),
            element_name,
            {} if element_name == "system-out" else detail_attributes,
        )
        detail_element.text = None if element_name == "skipped" else message
    indent(root_element)
    document_text = f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root_element, encoding="unicode")}\n'
    return FORBIDDEN.sub("\ufffd", document_text)
