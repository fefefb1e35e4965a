from __future__ import annotations

from tests.combining.methods.training_sets import fitted, tau, training


def test_gp_weights_are_in_the_unit_interval_and_better_than_equal_ones() -> None:
    of = training()
    formula = fitted("gp", of)
    assert (formula.weights >= 0).all()
    assert tau(formula.predict(of.x), of.y) >= tau(fitted("equal", of).predict(of.x), of.y)
