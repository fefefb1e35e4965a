"""Functions and classes of results of all questions, by the name of the question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import custodes as cu
from custodes import questions

QUESTIONS: dict[str, Callable[..., Any]] = {name: getattr(cu, name) for name in questions.QUESTIONS}
RESULTS: dict[str, type[Any]] = {name: getattr(cu, name.capitalize()) for name in QUESTIONS}
