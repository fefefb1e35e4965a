# ruff: noqa: I001, F401
"""All methods of combining metrics, in the order of the tables. To add a method, add a file here and an import line
below."""

from custodes.combining.methods.auto import automatic
from custodes.combining.methods.method import Formula, TrainingData, Method, with_means
from custodes.plugins import members

from custodes.combining.methods.linear import BEST, EQUAL, RIDGE, PAIRWISE
from custodes.combining.methods.trees import XGBOOST, BLEND, HALF_BLEND, XGBOOST_PRUNED
from custodes.combining.methods.gaussian_process import GP
from custodes.combining.methods.even_handed import EVEN_HANDED

_LEARNERS = members(globals(), Method)
_AUTO = automatic(_LEARNERS)

METHODS = {method.name: method for method in (*_LEARNERS, _AUTO)}

# The model of the first method is saved.
DEFAULT = tuple(method.name for method in (_AUTO, *_LEARNERS) if method.by_default)
FAST = tuple(method.name for method in sorted(_LEARNERS, key=lambda method: method is not RIDGE) if method.fast)
"""Names of the methods that the report fits. Each fit takes milliseconds."""

__all__ = ["BEST", "DEFAULT", "EVEN_HANDED", "FAST", "METHODS", "Formula", "Method", "TrainingData", "with_means"]
