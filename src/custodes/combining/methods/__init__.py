"""The ways of combining metrics, each a value in a file of its own or of its family."""

from custodes.combining.methods.auto import automatic
from custodes.combining.methods.gaussian_process import GP
from custodes.combining.methods.linear import BEST, EQUAL, PAIRWISE, RIDGE
from custodes.combining.methods.method import Formula, Lesson, Method
from custodes.combining.methods.trees import BLEND, XGBOOST, XGBOOST_PRUNED

_LEARNERS = (
    BEST,
    EQUAL,
    RIDGE,
    PAIRWISE,
    XGBOOST,
    BLEND,
    XGBOOST_PRUNED,
    GP,
)
_AUTO = automatic(_LEARNERS)

METHODS: dict[str, Method] = {own.name: own for own in (*_LEARNERS, _AUTO)}
"""Every way of combining by its name."""

# The first one is kept and judged.
DEFAULT = tuple(own.name for own in (_AUTO, *_LEARNERS) if own.by_default)
QUICK = tuple(own.name for own in sorted(_LEARNERS, key=lambda own: own is not RIDGE) if own.quick)
"""Ways that take seconds; boosted trees take minutes."""

__all__ = ["BEST", "DEFAULT", "METHODS", "QUICK", "Formula", "Lesson", "Method"]
