"""Every estimator, in the order of the options; a new one is a file here and a line below."""

from custodes.stats.correction.human import HUMAN
from custodes.stats.correction.inversion import INVERSION
from custodes.stats.correction.mixture.mixture import MIXTURE
from custodes.stats.correction.naive import NAIVE
from custodes.stats.correction.pooled import POOLED
from custodes.stats.correction.poststratified import POSTSTRATIFIED
from custodes.stats.correction.ppi import PPI

ESTIMATORS = {
    own.name: own
    for own in (
        MIXTURE,
        HUMAN,
        PPI,
        INVERSION,
        POSTSTRATIFIED,
        NAIVE,
        POOLED,
    )
}
"""Name to estimator; the first is the default, the first that uses no metric where there is none."""
