# ruff: noqa: I001
"""Every question with its result, in the order of the story; a new one is a file with both, and a line below.

The line is all that Python, the command line, its help, and the reference pages need to know of it.
"""

from collections.abc import Callable
from typing import Any

from custodes.evaluate.check.check import Check as Check, check as check
from custodes.evaluate.leaderboard.leaderboard import Leaderboard as Leaderboard, leaderboard as leaderboard
from custodes.evaluate.agreement.agreement import Agreement as Agreement, agreement as agreement
from custodes.evaluate.annotators.annotators import Annotators as Annotators, annotators as annotators
from custodes.evaluate.favoritism import Favoritism as Favoritism, favoritism as favoritism
from custodes.evaluate.consistency.consistency import Consistency as Consistency, consistency as consistency
from custodes.evaluate.ranking import Ranking as Ranking, ranking as ranking
from custodes.evaluate.verdict.verdict import Verdict as Verdict, verdict as verdict
from custodes.evaluate.correction import Correction as Correction, correction as correction
from custodes.evaluate.protocol.protocol import Protocol as Protocol, protocol as protocol
from custodes.evaluate.protocol.plan import Plan as Plan, plan as plan
from custodes.evaluate.complementarity.complementarity import (
    Complementarity as Complementarity,
    complementarity as complementarity,
)
from custodes.evaluate.ceiling.ceiling import Ceiling as Ceiling, ceiling as ceiling
from custodes.combining.combine import Combine as Combine, combine as combine
from custodes.combining.validate import Validate as Validate, validate as validate
from custodes.evaluate.gate.gate import Gate as Gate, gate as gate

QUESTIONS: dict[str, Callable[..., Any]] = {
    name: asked for name, asked in list(globals().items()) if hasattr(asked, "example")
}
"""Name to function."""
RESULTS: dict[str, type[Any]] = {name: globals()[name.capitalize()] for name in QUESTIONS}
"""Name to the class of its answers."""
