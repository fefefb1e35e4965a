# ruff: noqa: I001, F401
"""Every estimator, in the order of the options; a new one is a file here and a line below."""

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
"""Name to estimator; the first is the default, the first that uses no metric where there is none."""
