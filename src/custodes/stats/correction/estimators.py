# ruff: noqa: I001, F401
"""All estimators, in the order of the options; to add one, add a file and a line here."""

from custodes.registry import members
from custodes.stats.correction.estimator import Estimator

from custodes.stats.correction.mixture import MIXTURE
from custodes.stats.correction.human import HUMAN
from custodes.stats.correction.ppi import PPI
from custodes.stats.correction.inversion import INVERSION
from custodes.stats.correction.poststratified import POSTSTRATIFIED
from custodes.stats.correction.naive import NAIVE
from custodes.stats.correction.pooled import POOLED

ESTIMATORS = {own.name: own for own in members(globals(), Estimator)}
"""Name to estimator; the first is the default, and without a metric the first that uses none."""
