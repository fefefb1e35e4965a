"""What would fool the people who are asked, or the reader of their answers, before anybody is asked."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import ClassVar

import polars as pl

from custodes.annotate import store
from custodes.annotate.adding import Held
from custodes.annotate.checks import looks, people, shown_texts
from custodes.annotate.overview import snapshot_of_file
from custodes.annotate.rules import LOOKS_CUT
from custodes.answers.question import versions
from custodes.answers.result import Provenance, result
from custodes.answers.tables import count, label, table
from custodes.arguments import checked
from custodes.evaluate.check.problems import OfProblems, Problem, columns_of, problem_table
from custodes.evaluate.check.refusals import ASKED, refusals

SERIOUS = (
    "outputs-plain",
    "contexts-plain",
    "no-boundary",
    "nothing-to-ask",
    "outputs-not-added",
    "metric-not-added",
    "level-grew",
)
"""Notes of a study's making that are warnings; others are for information."""


@result
class StudyCheck(OfProblems):
    """What a study of people's answers holds, and what would fool somebody. See `check`."""

    BY: ClassVar[str] = ""

    summary: pl.DataFrame = table(
        "One row: the study.",
        label("name", "of the plan"),
        count("items", "whose outputs are shown"),
        count("systems", "that are compared or rated"),
        count("pairs", "of systems that are compared, or systems that are rated"),
        count("questions", "that can be asked: items of each pair"),
        count("known", "questions with a known answer that people meet: gold, qualification, attention"),
        count("images", "of items and outputs", essential=False),
        count("answers", "that are there already", essential=False),
    )
    problems: pl.DataFrame = problem_table("What would fool somebody.", page="planning a study")


@checked
def check(path: str | Path) -> StudyCheck:
    """What would fool people or the reader of a study, before anybody is asked; it is only read.

    `problems`: severity (error, warning, info), rule, message with the way out, and examples. Outputs that say who
    wrote them, systems that are formatted or cut unlike others (sign tests over items that keep .05 for all pairs
    together), looks and budgets that cannot be reached, also by the people who are there, too few of these, a plan
    that decides nothing, strangers without known comparisons, pay below the wage, consent without contact or pay,
    what was noted when the study was made, and of a study that runs what people could not judge, also in looks that are
    not complete (it does not tell who is ahead). Raises InputError for what is no study.

    >>> import polars as pl, tempfile
    >>> from custodes.annotate.making import new
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["As an AI, I agree.", "Yes."]})
    >>> found = check(new(texts, Path(tempfile.mkdtemp()) / "study.db"))
    >>> "names-itself" in found.problems["rule"].to_list()
    True
    """
    place = store.check(path)
    with tempfile.TemporaryDirectory(prefix="custodes-check-") as folder, ExitStack() as opened:
        copy = store.copy(place, Path(folder, "study.db"))  # which an earlier version may have made
        opened.enter_context(store.told(place))
        base = opened.enter_context(closing(store.connect(copy, durable=False)))
        store.migrate(base, copy)
        held = Held.read(base)
        known = [kind for (kind,) in base.execute("SELECT kind FROM gold ORDER BY gold")]
        seconds = [own for (own,) in base.execute(_SECONDS) if own is not None]
        asked = pl.DataFrame(base.execute(_ASKED).fetchall(), schema=ASKED, orient="row", strict=False)
        notes = held.notes
        (images,) = base.execute("SELECT count(*) FROM media").fetchone()
        (answers,) = base.execute("SELECT count(*) FROM judgment").fetchone()
        (came,) = base.execute("SELECT count(*) FROM worker").fetchone()
    now = snapshot_of_file(place) if came else None
    noted = [
        Problem("warning" if note.rule in SERIOUS else "info", note.rule, note.message)
        for note in dict.fromkeys(notes)
        if note.rule != LOOKS_CUT  # the rules tell of every pair, as it is now
    ]
    found = chain(
        shown_texts.problems(held.material, list(held.pairs.values())),
        looks.problems(held),
        people.problems(
            held.plan,
            known=known,
            seconds=seconds,
            links=now.reach.there if now and held.plan.people.recruit == "links" else 0,
            notes=now.notes if now else (),
        ),
        refusals(asked),
        noted,
    )
    order = {"error": 0, "warning": 1, "info": 2}
    problems = sorted(found, key=lambda problem: order[problem.severity])
    summary = {
        "name": [held.plan.name],
        "items": [len(held.material.items)],
        "systems": [len(held.material.systems)],
        "pairs": [len(held.pairs)],
        "questions": [sum(map(len, held.asked.values()))],
        "known": [sum(kind != "example" for kind in known)],
        "images": [images],
        "answers": [answers],
    }
    provenance = Provenance(
        question="annotate check", study=place.name, digest="", options={}, seed=None, versions=versions()
    )
    parts = [StudyCheck.part(summary=summary, problems=columns_of(problems))]
    return StudyCheck.of(parts, (), provenance=provenance)


_SECONDS = """
SELECT coalesce(visible_seconds, server_seconds) FROM judgment j JOIN assignment a ON a.assignment = j.assignment
WHERE a.unit IS NOT NULL
"""

_ASKED = """
SELECT rater, item, system_a, system_b, max(answer IS NULL) FROM answers
WHERE unit IS NOT NULL AND NOT taken_back AND NOT excluded GROUP BY rater, item, system_a, system_b
"""
"""As `ASKED`, also of looks that are not complete."""
