# ruff: noqa: I001, F401
"""Every way of combining metrics, in the order of the tables; a new one is a file here and a line below."""

from custodes.combining.methods.auto import automatic
from custodes.combining.methods.method import Formula, TrainingData, Method, with_means
from custodes.registry import members

from custodes.combining.methods.linear import BEST, EQUAL, RIDGE, PAIRWISE
from custodes.combining.methods.trees import XGBOOST, BLEND, XGBOOST_PRUNED
from custodes.combining.methods.gaussian_process import GP

_LEARNERS = members(globals(), Method)
_AUTO = automatic(_LEARNERS)

METHODS = {own.name: own for own in (*_LEARNERS, _AUTO)}
"""Every way of combining by its name."""

# The first one is kept and judged.
DEFAULT = tuple(own.name for own in (_AUTO, *_LEARNERS) if own.by_default)
FAST = tuple(method.name for method in sorted(_LEARNERS, key=lambda method: method is not RIDGE) if method.fast)
"""Methods of the report: a fit takes milliseconds."""

__all__ = ["BEST", "DEFAULT", "FAST", "METHODS", "Formula", "Method", "TrainingData", "with_means"]
