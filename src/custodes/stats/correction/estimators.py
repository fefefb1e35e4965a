# ruff: noqa: I001, F401
"""All estimators, in the order in which options and tables list them. To add an estimator, add a file and an import
line here."""

from custodes.plugins import members
from custodes.stats.correction.estimator import Estimator

from custodes.stats.correction.mixture import MIXTURE
from custodes.stats.correction.dirichlet import HUMAN
from custodes.stats.correction.ppi import PPI
from custodes.stats.correction.poststratified import POSTSTRATIFIED
from custodes.stats.correction.dirichlet import NAIVE
from custodes.stats.correction.pooled import POOLED

ESTIMATORS = {estimator.name: estimator for estimator in members(globals(), Estimator)}
"""Estimators by name.

The default is the first estimator. If there is no metric, the default is the first estimator that uses no metric.
"""
