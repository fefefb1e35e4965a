# ruff: noqa: I001, F401
"""Every statistic of agreement, in the order of the tables. A new statistic needs a file here and an import below."""

from custodes.evaluate.agreement.statistic import Statistic
from custodes.plugins import members

from custodes.evaluate.agreement.statistics.accuracies import ACCURACIES
from custodes.evaluate.agreement.statistics.correlations import CORRELATIONS
from custodes.evaluate.agreement.statistics.accuracies import ACC_EQ, SPA

STATISTICS = {statistic.name: statistic for statistic in members(globals(), Statistic)}
"""Name to statistic."""
