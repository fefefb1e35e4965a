"""Verbs that are questions, each made where it is asked: who asks one loads no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import get_type_hints

import custodes as cu
from custodes.options import Model, Telling, Tested
from custodes.questions import QUESTIONS
from custodes.verbs import OUTPUT, verb

OUTPUTS: Mapping[str, Telling] = {"combine": Model()}
"""Where answers go, unless to standard output or into a file."""
FIRST = {"validate": "model"}
"""Options that are a word before the inputs."""


def __getattr__(name: str) -> Callable[..., int]:
    """The verb of a question."""
    if name not in QUESTIONS:
        raise AttributeError(name=name)
    asked = getattr(cu, name)
    tested = hasattr(get_type_hints(asked)["return"], "to_junit")
    told = OUTPUTS.get(name) or (Tested() if tested else OUTPUT)
    return verb(asked, told, first=FIRST.get(name, ""))
