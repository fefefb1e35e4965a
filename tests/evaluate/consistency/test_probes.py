"""Probes in `consistency`: the effect by hand, joint tests, and the results that probes must not change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import norm

import custodes as cu
from custodes.data.joining import join
from custodes.data.preferences import Preferences
from custodes.data.probes import SCHEMA, read_probes
from custodes.data.study import Study
from custodes.errors import InputError
from tests.messages import exactly
from tests.simulation.probed_judges import probed

PLANTED = {"order": 0.1, "length": 0.1, "format": 0.1, "name": 0.1}
FEW = probed(PLANTED, contradicts=0.2, seed=0, items=40)


def length_only(*outcomes: tuple[float | None, float | None]) -> Study:
    """Return a study with one probe for each of the first items."""
    rows = [
        {"item": f"i{i}", "system": "A", "against": "B", "rater": "judge", "probe": "length", "order": "ab"}
        | {"aspect": "", "plain": plain, "changed": changed}
        for i, (plain, changed) in enumerate(outcomes)
    ]
    return replace(FEW, probes=read_probes(pl.DataFrame(rows), where="rows"))


def test_the_effect_by_hand() -> None:
    # 20 questions: 9 are won in the changed form alone, 1 in the plain form alone, 4 in both, 5 in neither, and one is
    # a tie.
    outcomes = [(0.0, 1.0)] * 9 + [(1.0, 0.0)] + [(1.0, 1.0)] * 4 + [(0.0, 0.0)] * 5 + [(0.5, 1.0)]
    result = cu.consistency(length_only(*outcomes, (None, 1.0), (1.0, None)), resamples=0)
    (row,) = result.probes.filter(probe="length").to_dicts()
    assert row["n"] == 20
    assert row["change_rate"] == pytest.approx(11 / 20)
    (finding,) = result.findings.filter(kind="probe").to_dicts()
    assert finding["estimate"] == pytest.approx(100 * 8.5 / 20)
    # The sum of the differences divided by the root of the sum of their squares; 11 clusters differ, so z is at most
    # the quantile of 2^-11 for z = sqrt(11).
    z = 8.5 / 10.25**0.5 / max(1.0, 11**0.5 / -norm.ppf(2.0**-11))
    assert finding["p_value"] == pytest.approx(2 * norm.cdf(-z), rel=1e-6)
    assert finding["estimate_low"] < finding["estimate"] < finding["estimate_high"]


def test_no_answer_is_inconclusive() -> None:
    result = cu.consistency(length_only((None, 1.0), (0.0, None)), resamples=0)
    (row,) = result.findings.filter(kind="probe").to_dicts()
    assert (row["finding"], row["reason"]) == ("inconclusive", "there is no question that was answered in both forms")
    assert (row["estimate"], result.probes["change_rate"].item()) == (None, None)


def test_items_of_a_cluster_count_as_one_cluster() -> None:
    study = length_only(*[(0.0, 1.0)] * 30)
    pairs = pl.DataFrame({"item": study.item_labels(), "cluster": study.item_labels().str.slice(0, 2)})
    alone, together = (cu.consistency(part, resamples=0).findings for part in (study, study.describe(items=pairs)))
    few, many = (part.filter(kind="probe")["p_value"].item() for part in (together, alone))
    assert many < 1e-6 < few


def test_other_questions_and_tables_do_not_use_probes() -> None:
    without = replace(FEW, probes=pl.DataFrame(schema=SCHEMA))
    for name in ("orders", "missing", "length"):
        assert getattr(cu.consistency(FEW, resamples=0), name).equals(
            getattr(cu.consistency(without, resamples=0), name)
        )
    assert cu.leaderboard(FEW, resamples=0).systems.equals(cu.leaderboard(without, resamples=0).systems)
    assert FEW.fingerprint() != without.fingerprint()


def test_probes_are_selected_and_joined() -> None:
    assert FEW.select(metrics="judge", one_side=True).probes.height == FEW.probes.height
    aspect = FEW.probes.with_columns(aspect=pl.lit("tone"))
    assert replace(FEW, probes=aspect).select(one_side=True).probes.is_empty()
    unrelated = replace(length_only((0.0, 1.0)), raters=FEW.raters, preferences=Preferences(), outputs=None)
    assert join([FEW, unrelated]).probes.height == FEW.probes.height + 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("i0,A,B,judge,,length,ab,0,2", "v.probes.csv: changed 2.0 in row 1; allowed: a number from 0 to 1, or empty"),
        ("i0,A,B,judge,,,ab,0,1", "v.probes.csv: column 'probe' is empty in row 1; fill in a label"),
        (
            "i0,A,B,judge,,length,ab,0,1\ni0,A,B,judge,,length,ab,1,1",
            "v.probes.csv: the same probe occurs twice, in rows 1, 2 (item 'i0', system 'A', against 'B', rater "
            "'judge', probe 'length', order 'ab'); one row per output, probe and order",
        ),
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "v.csv").write_text("item,system_a,system_b,rater,order,preference\ni0,A,B,judge,ab,1\n")
    (tmp_path / "v.probes.csv").write_text(f"item,system,against,rater,aspect,probe,order,plain,changed\n{row}\n")
    with pytest.raises(InputError, match=exactly(message)):
        cu.read(tmp_path / "v.csv")


def test_planted_effects_are_named_and_no_others() -> None:
    result = cu.consistency(probed(PLANTED, contradicts=0.05, seed=1), resamples=0)
    claimed = result.findings.filter(finding="prefers the changed form")["factor"].to_list()
    assert claimed == ["format", "length", "name: A"]
    assert result.findings.filter(kind="position")["finding"].item() == "prefers what is shown first"
    fair = cu.consistency(probed({}, contradicts=0.05, seed=1), resamples=0)
    assert set(fair.findings["finding"]) <= {"", "inconclusive"}
