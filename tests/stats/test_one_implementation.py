"""Each statistic of agreement is implemented once: a second implementation has a name, a call or a form that is found
here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import custodes

SOURCE = Path(custodes.__file__).parent
HOMES = {
    r"kendall|tau_b|concordan|discordan": {"stats/correlation.py", "stats/pooled_correlation.py"},
    r"spearman|pearson": {"stats/correlation.py", "stats/pooled_correlation.py"},
    r"mid_?rank|lower_before|inversions|tie_runs": {"stats/ranks.py"},
    # Of tables of counts, and of comparisons in resamples.
    r"sample_accuracy": {"stats/favi_score.py", "evaluate/agreement/choices.py"},
    # Of probabilities of labels, of verdicts of judges, and of the mode of one task's answers.
    r"majority": {"stats/annotator_models.py", "stats/judging/committee.py"},
    r"(merge|settle)\w*_orders|average\w*_orders": {"data/comparisons.py"},
    r"mean_of_defined|mean_over_(people|annotators)": {"stats/ratios.py"},
}
ELSEWHERE = {
    "kendalltau",
    "spearmanr",
    "pearsonr",
    "weightedtau",
    "rankdata",
    "corrcoef",
    "corr",
    "somersd",
    "multimode",
}

FORMS = {
    # Kendall, sample accuracy, majority vote and merged orders are made of signs of differences or of sums.
    "sign": {
        "annotate/simulated_crowd.py",
        "data/readers/alpacaeval.py",
        "evaluate/agreement/choices.py",
        "evaluate/consistency/length.py",
        "evaluate/favoritism.py",
        "evaluate/protocol/plan.py",
        "evaluate/ranking.py",
        "stats/calibrated_accuracy.py",
        "stats/judging/committee.py",
        "stats/learning/heldout.py",
        "stats/learning/lasso.py",
        "stats/learning/pair_sums.py",
        "stats/ordination.py",
        "stats/pooled_correlation.py",
        "stats/sign_test.py",
        "stats/split_half.py",
        "stats/stopping/rules.py",
    },
    # Kendall without signs: every value before or minus every other.
    "all with all": {
        "evaluate/partiality_table.py",
        "evaluate/ranking.py",
        "plots/ranking.py",
        "stats/favi_score.py",
        "stats/kemeny.py",
        "stats/learning/heldout.py",
        "stats/learning/pair_sums.py",
        "stats/partiality/partiality.py",
        "stats/pooled_correlation.py",
        "stats/reliability.py",
        "stats/strength/ranks.py",
    },
    "ranks": {
        "data/annotator_tastes.py",
        "evaluate/annotators/annotators.py",
        "evaluate/annotators/material.py",
        "evaluate/leaderboard/tables.py",
        "plots/paths.py",
        "stats/communities.py",
        "stats/kemeny.py",
        "stats/strength/battles.py",
    },
    "most frequent": {"annotate/assignments.py", "reporting/sections/agreement.py", "stats/partiality/placement.py"},
    "more than half": {"evaluate/gate/gate.py", "evaluate/partiality_table.py"},
    # Scores become preferences in `comparisons.preference`; calibration searches for the threshold itself. The others
    # are about rounding, and about the direction of a metric.
    "tie": {
        "combining/normalise.py",
        "data/comparisons.py",
        "stats/calibrated_accuracy.py",
        "stats/correlation.py",
        "stats/learning/objective.py",
    },
}


def forms_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The forms of `FORMS` in a module, and the lines where they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name, of = _name(node.func), node.func.value if isinstance(node.func, ast.Attribute) else None
            if name == "sign" and not (isinstance(of, ast.Name) and of.id == "self"):
                yield "sign", node.lineno
            elif name == "rank" or (name == "argsort" and any(_calls(part, "argsort") for part in (of, *node.args))):
                yield "ranks", node.lineno
            elif name in ("mode", "most_common") or (
                name == "argmax" and any(_calls(part, "bincount") for part in (of, *node.args))
            ):
                yield "most frequent", node.lineno
            elif name == "outer" and of is not None and _name(of) in ("subtract", "less", "greater", "equal"):
                yield "all with all", node.lineno
            elif name in ("isclose", "is_between", "between") and any(_is_variable(part) for part in _bounds(node)):
                yield "tie", node.lineno
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            if _all_with_all(node.left, node.right):
                yield "all with all", node.lineno
        elif isinstance(node, ast.Compare):
            left, right, sided = node.left, node.comparators[0], isinstance(node.ops[0], ast.Lt | ast.LtE)
            if not isinstance(node.ops[0], ast.Eq | ast.NotEq) and _all_with_all(left, right):
                yield "all with all", node.lineno
            if (_calls(left, "abs", "absolute", "fabs") and _is_variable(right)) or (
                sided and isinstance(right, ast.UnaryOp) and isinstance(right.op, ast.USub) and _is_variable(right)
            ):
                yield "tie", node.lineno
            if (_is_half(right) and _calls(left, "sum", "mean", "count_nonzero")) or (
                isinstance(left, ast.BinOp) and ast.unparse(left.left) == "2" and _calls(left.right, "sum", "mean")
            ):
                yield "more than half", node.lineno


def _name(function: ast.AST) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _calls(node: ast.AST | None, *names: str) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) in names


def _bounds(node: ast.Call) -> list[ast.expr]:
    """The tolerance of `isclose`, and the lower bound of `is_between` where it is negative."""
    if _name(node.func) == "isclose":
        return [keyword.value for keyword in node.keywords if keyword.arg in ("atol", "abs_tol")]
    return [own for own in node.args if isinstance(own, ast.UnaryOp) and isinstance(own.op, ast.USub)]


def _is_variable(node: ast.AST) -> bool:
    """Whether a bound is given by names alone; with a number or a constant in it, it is about rounding."""
    if any(isinstance(own, ast.Constant | ast.Call) for own in ast.walk(node)):
        return False
    names = [_name(own) for own in ast.walk(node) if isinstance(own, ast.Name | ast.Attribute)]
    return bool(names) and not any(name.isupper() for name in names)


def _is_half(node: ast.AST) -> bool:
    text = ast.unparse(node)
    return text == "0.5" or text.endswith("/ 2")


def _all_with_all(left: ast.AST, right: ast.AST) -> bool:
    """Whether both sides are the same values, one of them with a new axis."""
    sides = [own.left if isinstance(own, ast.BinOp) else own for own in (left, right)]
    parts = [own.slice for own in sides if isinstance(own, ast.Subscript)]
    values = {ast.unparse(own.value if isinstance(own, ast.Subscript) else own) for own in sides}
    return len(values) == 1 and any(re.search(r"newaxis|\bNone\b", ast.unparse(part)) for part in parts)


def modules() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_no_statistic_is_defined_a_second_time() -> None:
    found, homes = [], {name: set() for name in HOMES}
    for place, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                for name in filter(lambda name, node=node: re.search(name, node.name.lower()), HOMES):
                    homes[name].add(place)
                    if place not in HOMES[name]:
                        found.append(f"{place}:{node.lineno} {node.name}")
            elif isinstance(node, ast.Attribute | ast.alias):
                called = node.attr if isinstance(node, ast.Attribute) else node.name
                if called in ELSEWHERE:
                    found.append(f"{place}: {called}")
    assert found == []
    assert homes == HOMES  # a home without a definition is out of date


def test_no_form_of_a_statistic_is_written_a_second_time() -> None:
    found = [
        f"{place}:{line} {form}"
        for place, tree in modules()
        for form, line in forms_of(tree)
        if place not in FORMS[form]
    ]
    assert found == []


@pytest.mark.parametrize(
    "second",
    [
        "np.vdot(np.sign(x[:, None] - x), np.sign(y[:, None] - y))",
        "((x[:, None] < x) & (y[:, None] < y)).sum()",
        "np.less.outer(x, x)",
        "np.dot(x.argsort().argsort(), y.argsort().argsort())",
        "frame.select(pl.corr(pl.col('a').rank(), pl.col('b').rank()))",
        "(np.sign(human) == np.sign(metric)).mean()",
        "np.sign(votes.sum(axis=0))",
        "pl.col('preference').mean().sign()",
        "Counter(answers).most_common(1)",
        "np.bincount(answers).argmax()",
        "votes.sum(axis=0) > len(votes) / 2",
        "(votes == 1).mean() > 0.5",
        "np.where(np.abs(gap) <= width, 0, gap)",
        "np.where(gap > width, 1, np.where(gap < -width, -1, 0))",
        "np.isclose(a, b, atol=width)",
        "pl.when(pl.col('gap').is_between(-width, width)).then(0)",
    ],
)
def test_second_implementations_are_found(second: str) -> None:
    assert [*forms_of(ast.parse(second))]
