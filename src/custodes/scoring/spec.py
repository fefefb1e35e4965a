"""Specification of metrics in the syntax of the command line: `[NAME=]METRIC[:key=value,...][@rule,...]`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from custodes.arguments import assignment_list, value_list
from custodes.errors import OptionError, join_labels, reject, short_repr, suggestion
from custodes.scoring.metric import Metric, Rule
from custodes.scoring.scripts import split_command

RULES: tuple[Rule, ...] = get_args(Rule)

NAMED = re.compile(r"([^=:@]+)=(.*)", re.DOTALL)
RULED = re.compile(r"(.*)@([A-Za-z]+(?:,[A-Za-z]+)*)", re.DOTALL)
"""Pattern of a specification that ends in rules; an @ in any other place is part of a value."""
FOLDERS = re.compile(r"[^=,]*/(?=[^=,/])|/+(?=,|$)")
"""Pattern of the folders in a path; the folders are left out of names."""

WHOLE = "command"
"""Name of the parameter whose value is the whole remaining text, including commas and other separators."""


@dataclass(frozen=True, kw_only=True)
class RaterSpec:
    """Specification of a rater: its name, the metric with all parameters, and the rule.

    The rule is '' for the default of the metric.
    """

    name: str
    metric: Metric
    parameters: Mapping[str, Any]
    rule: Rule | str

    @property
    def computation(self) -> str:
        """Key of the computation; raters that differ only in the rule have the same key."""
        return f"{self.metric.name}:{dict(self.parameters)!r}"


def spec_list(specs: str | Iterable[str], metrics: Collection[str]) -> list[str]:
    """Return one text per metric, given a repeatable argument. In a comma list, each rule stays with its metric.

    >>> spec_list(["rouge1,bleu@first,mean", "chrf:beta=2,case=false"], ["rouge1", "bleu", "chrf"])
    ['rouge1', 'bleu@first,mean', 'chrf:beta=2,case=false']
    """
    spec_texts: list[str] = []
    for spec_text in [specs] if isinstance(specs, str) else specs:
        n_specs_before = len(spec_texts)
        for spec_or_rule in value_list("metrics", spec_text, allow_descriptions=True):
            if (
                len(spec_texts) > n_specs_before
                and "@" in spec_texts[-1]
                and spec_or_rule.isalpha()
                and spec_or_rule not in metrics
            ):
                spec_texts[-1] += f",{spec_or_rule}"  # another rule
            else:
                spec_texts.append(spec_or_rule)
    return spec_texts


def parse(specs: str | Iterable[str], metrics: Mapping[str, Metric]) -> list[RaterSpec]:
    """Return the specified raters, in order; a metric with several rules gives several raters.

    Raises `OptionError` for an unknown metric, parameter or rule, a value of the wrong type, or a repeated name.
    """
    rater_specs = [rater_spec for spec in spec_list(specs, metrics) for rater_spec in _raters(spec, metrics)]
    if not rater_specs:
        raise OptionError(f"no metric is given; give one or more of {join_labels(metrics, limit=99)}")
    rater_name, n_specs = Counter(rater_spec.name for rater_spec in rater_specs).most_common(1)[0]
    if n_specs > 1:
        raise OptionError(
            f"metric {short_repr(rater_name)} is requested twice; give one of them another name, as in NAME=METRIC"
        )
    return rater_specs


def _raters(spec: str, metrics: Mapping[str, Metric]) -> Iterator[RaterSpec]:
    stripped_spec = spec.strip()
    name_match = NAMED.fullmatch(stripped_spec)
    explicit_name, metric_text = (name_match[1].strip(), name_match[2].strip()) if name_match else ("", stripped_spec)
    rule_match = RULED.fullmatch(metric_text)
    metric_text, rule_names = (rule_match[1], rule_match[2].split(",")) if rule_match else (metric_text, [])
    metric_name, colon, parameter_text = metric_text.partition(":")
    metric_name = metric_name.strip()
    if metric_name not in metrics:
        raise OptionError(
            f"metric {short_repr(spec)}: unknown metric {short_repr(metric_name)}"
            + (suggestion(metric_name, metrics) or f"; metrics: {join_labels(metrics, limit=99)}")
        )
    metric = metrics[metric_name]
    if WHOLE in metric.parameters and not set(rule_names) <= set(RULES):  # an @ within the command
        parameter_text, rule_names = (name_match[2] if name_match else stripped_spec).strip().partition(":")[2], []
    unknown_rule = next((rule for rule in rule_names if rule not in RULES), None)
    reject(
        (
            unknown_rule is not None,
            f"metric {short_repr(spec)}: unknown rule {short_repr(unknown_rule)}{suggestion(unknown_rule or '', RULES)}"
            f"; rules of {metric_name}: {join_labels(metric.traits.rules or RULES)}; if a value contains @, add @ and "
            "a rule after the value",
        ),
        (
            len(set(rule_names)) < len(rule_names),
            f"metric {short_repr(spec)}: a rule occurs twice; give each rule once",
        ),
    )
    value_of_parameter = {**metric.parameters, **_parameters(parameter_text if colon else "", metric, spec)}
    parameter_words = (
        split_command(parameter_text) if WHOLE in metric.parameters and not explicit_name else [parameter_text]
    )
    rater_name = explicit_name or metric_name + colon + " ".join(
        FOLDERS.sub("", parameter_word) for parameter_word in parameter_words
    )
    for rule in rule_names or [""]:
        rule_suffix = f"@{rule}" if rule and (not explicit_name or len(rule_names) > 1) else ""
        yield RaterSpec(name=rater_name + rule_suffix, metric=metric, parameters=value_of_parameter, rule=rule)


def _parameters(parameter_text: str, metric: Metric, spec: str) -> dict[str, Any]:
    if WHOLE in metric.parameters:
        if not parameter_text.strip():
            raise OptionError(f"metric {short_repr(spec)}: give the command, as in {metric.name}:COMMAND")
        return {WHOLE: parameter_text.strip()}
    value_of_parameter: dict[str, Any] = {}
    for assignment_text in assignment_list(parameter_text) if parameter_text.strip() else []:
        parameter_name, equals_sign, value_text = assignment_text.partition("=")
        parameter_name = parameter_name.strip()
        defaults_text = (
            ", ".join(f"{declared_name}={default_value}" for declared_name, default_value in metric.parameters.items())
            or "none"
        )
        reject(
            (
                parameter_name not in metric.parameters or not equals_sign,
                f"metric {short_repr(spec)}: {metric.name} has no parameter {short_repr(parameter_name)}"
                f"{suggestion(parameter_name, metric.parameters)}; parameters: {defaults_text}",
            ),
            (
                parameter_name in value_of_parameter,
                f"metric {short_repr(spec)}: {parameter_name} occurs twice; give {parameter_name} once",
            ),
        )
        value_of_parameter[parameter_name] = _value(
            value_text.strip(),
            metric.parameters[parameter_name],
            f"metric {short_repr(spec)}: {parameter_name}={short_repr(value_text)}",
        )
    return value_of_parameter


def _value(value_text: str, default: Any, message_start: str) -> Any:
    """Return a value converted to the type of the default."""
    try:
        return msgspec.convert(value_text, type(default), strict=False)
    except msgspec.ValidationError:
        allowed_text = {bool: "true or false", int: "a whole number"}.get(type(default), "a number")
        raise OptionError(f"{message_start} is not {allowed_text}; the default is {default}") from None
