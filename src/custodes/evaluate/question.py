"""Asking: what every question of a study does with its arguments, and how its answer tells how it was made."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable
from functools import cache, wraps
from importlib.metadata import version
from pathlib import PurePath
from typing import Any, ParamSpec, TypeVar

import numpy as np
import polars as pl

from custodes.data.study import Study
from custodes.errors import suggestion
from custodes.evaluate.result import Provenance, Result
from custodes.evaluate.setting import DEFAULTS

Rng = int | np.random.Generator | None
"""A seed, a generator, or None for a fresh seed that is recorded; 0 is a seed like any other."""

UNRECORDED = ("rng", "progress", "workers")
"""Arguments that change no number of an answer, or that its provenance has a field for."""

P = ParamSpec("P")
R = TypeVar("R", bound=Result)


def question(ask: Callable[P, R]) -> Callable[P, R]:
    """Make a function that returns a result a question: all its options show in `help`, and the answer keeps them.

    Arguments of `**options: Unpack[...]` become arguments of their own, with their `DEFAULTS`. `rng` reaches the
    function as a generator. The first argument is what is asked about: a study, counts, or nothing.
    """
    signature = _explicit(ask)

    @wraps(ask)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in signature.parameters:
                known = [own for own in signature.parameters if own != next(iter(signature.parameters))]
                raise TypeError(f"unknown argument {name!r}{suggestion(name, known)}; arguments: {', '.join(known)}")
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        generator, given_seed = seeded(given["rng"])
        about, *names = given
        options = {name: _recorded(given[name]) for name in names if name not in UNRECORDED}
        made = ask(*bound.args, **{**bound.kwargs, "rng": generator})
        study = given[about]
        return made.signed(
            Provenance(
                question=ask.__name__,
                study=study.name if isinstance(study, Study) else "assumptions" if study is None else "counts",
                digest=study.fingerprint() if isinstance(study, Study) else "",
                options=options,
                seed=given_seed,
                versions=_versions(),
                dropped=tuple(note for note in made.notes if note.count),
            )
        )

    asked.__signature__ = signature  # type: ignore[attr-defined]
    return asked


def _recorded(value: Any) -> Any:
    """A value as a provenance keeps it: a path is text."""
    return str(value) if isinstance(value, PurePath) else value


def _explicit(ask: Callable[..., Any]) -> inspect.Signature:
    """The signature with the options of `**options: Unpack[T]` written out."""
    own, made, defaults = inspect.signature(ask), [], dict[str, Any](DEFAULTS)
    for parameter in own.parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            made.append(parameter)
            continue
        (options,) = inspect.get_annotations(ask, eval_str=True)[parameter.name].__args__
        made += [
            inspect.Parameter(name, parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind.__forward_arg__)
            for name, kind in options.__annotations__.items()
        ]
    return own.replace(parameters=sorted(made, key=lambda parameter: parameter.name in UNRECORDED))


def seeded(rng: Rng) -> tuple[np.random.Generator, int | None]:
    """A generator and the seed to record (None where the caller's own generator cannot be replayed)."""
    if isinstance(rng, np.random.Generator):
        return rng, None
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rng is None else int(rng)
    return np.random.default_rng(seed), seed


@cache
def _versions() -> dict[str, str]:
    return {
        "custodes": version("custodes"),
        "numpy": np.__version__,
        "polars": pl.__version__,
        "python": platform.python_version(),
    }
