from __future__ import annotations

import ast
import re
from pathlib import Path

import custodes

SOURCE = Path(custodes.__file__).parent
HOMES = {
    r"kendall|tau_b|concordan|discordan": {"stats/correlation.py", "stats/pooled_correlation.py"},
    r"spearman|pearson": {"stats/correlation.py", "stats/pooled_correlation.py"},
    r"mid_?rank|ranks_within|lower_before|inversions|tie_runs": {"stats/ranks.py"},
    r"sample_accuracy": {"stats/favi_score.py"},
    # Probabilities of labels, verdicts of judges, and the mode of one task's answers.
    r"majority": {"stats/annotator_models.py", "stats/judging/committee.py"},
    r"(merge|settle)\w*_orders|average\w*_orders": {"data/ties_and_orders.py"},
    r"mean_of_defined|mean_over_(people|annotators)": {"stats/ratios.py"},
}
ELSEWHERE = r"kendalltau|spearmanr|pearsonr|weightedtau|rankdata|corrcoef|corr|somersd|multimode"
NAMED = re.compile(
    "|".join([rf"(?:def|class) \w*(?:{name})" for name in HOMES] + [rf"\b(?:{ELSEWHERE})\b"]), re.IGNORECASE
)


def test_no_statistic_is_defined_a_second_time() -> None:
    places, homes = [], {name: set() for name in HOMES}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if NAMED.search(text) else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                for name in filter(lambda name, node=node: re.search(name, node.name.lower()), HOMES):
                    homes[name].add(place)
                    if place not in HOMES[name]:
                        places.append(f"{place}:{node.lineno} {node.name}")
            elif isinstance(node, ast.Attribute | ast.alias):
                called = node.attr if isinstance(node, ast.Attribute) else node.name
                if re.fullmatch(ELSEWHERE, called):
                    places.append(f"{place}: {called}")
    assert places == []
    assert homes == HOMES  # A path without a definition is outdated.
