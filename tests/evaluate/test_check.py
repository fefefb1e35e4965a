import numpy as np
import polars as pl

from custodes.evaluate.check.check import check
from tests.evaluate.studies import scores_of, study_of, verdicts


def rules(result: object) -> dict[str, str]:
    return dict(result.problems.select("rule", "severity").rows())  # type: ignore[attr-defined]


def test_a_clean_study_has_no_problem() -> None:
    result = check(study_of(scores_of(0, items=50)))
    assert result.problems.height == 0
    summary = result.summary.row(0, named=True)
    assert (summary["items"], summary["systems"], summary["humans"], summary["metrics"]) == (50, 4, 1, 2)
    assert (summary["coverage"], summary["missing"], summary["ratings"]) == (1.0, 0, 600)


def test_missing_cells_and_ties_are_counted() -> None:
    scores = scores_of(1, items=50)
    scores[1, :10, 0] = np.nan
    result = check(study_of(scores))
    row = result.raters.row(1, named=True)
    assert (row["rater"], row["missing"], round(row["coverage"], 12)) == ("m1", 10, 0.95)
    a, b = np.triu_indices(4, 1)
    ties = (scores[0][:, a] == scores[0][:, b]).mean()
    assert result.summary["ties"][0] == result.raters["ties"][0] == ties


def test_a_reversed_metric_a_constant_and_a_twin_are_found() -> None:
    scores = scores_of(2, raters=5, items=50)
    scores[2] = -scores[1]
    scores[3] = 4.0
    scores[4] = 3 * scores[1]
    result = check(study_of(scores))
    problems = rules(result)
    assert problems["negative-agreement"] == problems["constant-metric"] == "warning"
    assert problems["near-duplicates"] == "info"
    against = result.problems.filter(pl.col("rule") == "negative-agreement").row(0, named=True)
    assert against["examples"] == ["m2"]
    assert "higher_is_better" in against["message"]


def test_a_metric_that_is_declared_a_distance_is_not_told_to_be_declared_one() -> None:
    scores = scores_of(2, raters=4, items=50)
    scores[3] = scores[2]
    scores[2] = -scores[1]
    down = pl.DataFrame({"rater": ["m3"], "higher_is_better": [False]})
    problems = check(study_of(scores).describe(raters=down)).problems.filter(rule="negative-agreement")
    assert problems["examples"].to_list() == [["m2"], ["m3"]]
    assert problems["message"].str.contains(
        "if lower values of these metrics are better, declare", literal=True
    ).to_list() == [True, False]
    assert (
        "). The raters file declares higher_is_better = false for these metrics; if higher is better"
        in problems["message"][1]
    )


def test_a_verdict_covers_two_outputs() -> None:
    rows = [("x", "A", "B", "h", "", 1), ("x", "A", "C", "h", "", 1), ("x", "A", "B", "j", "", 1)]
    result = check(verdicts(rows))
    assert result.raters.select("rater", "coverage", "missing").rows() == [("h", 1.0, 0), ("j", 2 / 3, 1)]


def test_few_items_and_one_sided_people() -> None:
    rows = [(f"x{i}", "A", "B", rater, "", 1) for i in range(10) for rater in ("h", "j")]
    assert {"few-items", "one-sided-annotators"} <= set(rules(check(verdicts(rows))))


def test_scores_beyond_declared_bounds_are_found() -> None:
    study = study_of(scores_of(3, items=50))
    wide = study.describe(raters=pl.DataFrame({"rater": ["m1"], "low": [-100.0], "high": [100.0]}))
    assert "beyond-declared" not in rules(check(wide))
    narrow = study.describe(raters=pl.DataFrame({"rater": ["m1"], "low": [0.0], "high": [0.1]}))
    problems = check(narrow).problems.filter(rule="beyond-declared").row(0, named=True)
    assert (problems["severity"], problems["examples"]) == ("warning", ["m1"])


def test_rounding_is_not_beyond_declared_bounds() -> None:
    scores = scores_of(3, items=50)
    scores[1], scores[2] = 100.00000000000004, 100.001  # the first is sacrebleu's score of a text compared with itself
    bounds = pl.DataFrame({"rater": ["m1", "m2"], "low": [0.0] * 2, "high": [100.0] * 2})
    problems = check(study_of(scores).describe(raters=bounds)).problems.filter(rule="beyond-declared")
    assert problems["examples"].to_list() == [["m2"]]
