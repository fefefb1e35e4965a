"""custodes judges the judges.

Given people's ratings and automatic ratings of the same outputs, it says which automatic metric or LLM judge to trust,
whom it favours, and what the ranking of the systems really is.

    import custodes as cu

    cu.score("texts.jsonl", ["rouge1"])     # metrics of texts, where there are no scores yet
    study = cu.read("ratings.csv")          # or any dataframe, or "demo"
    cu.check(study).problems                # what would fool you
    cu.agreement(study).metrics             # who agrees with people, with intervals
    cu.favoritism(study).systems            # whom each metric favours
    cu.consistency(study).findings          # what a judge looks at beside quality
    cu.ranking(study).errors                # which decisions it gets wrong
    cu.verdict(study)                       # all of that in plain words
    cu.correction(study).pairs              # who is better, corrected by some human annotations
    cu.protocol(study).protocol             # how few annotations would have done
    cu.plan(margins=[0.0, 0.2]).plan        # and how many it will take
    cu.complementarity(study).averages      # how alike metrics are, and people
    cu.ceiling(study).prediction            # how much of people's judgement all metrics predict
    cu.combine(study, target="fluency")     # a better metric from those you have, honestly validated
    cu.validate(other, model="model.json")  # does it hold on another data set?
    cu.gate(study, require="spa>=0.8")      # does a judge still agree with people? for continuous integration
    cu.report(study).save("report.html")    # all of it, in one page
    cu.annotate.new("texts.jsonl", "study.db")  # ask people; study.db is an input of all of these
"""

from __future__ import annotations

import sys
from importlib import import_module

from custodes import lazily

TYPE_CHECKING = False  # the module typing takes time in which Ctrl-C would be a traceback
if TYPE_CHECKING:
    from typing import Any

    from custodes import annotate as annotate
    from custodes import plots as plots
    from custodes.answers.effort import effort as effort
    from custodes.combining.combined_metric import CombinedMetric as CombinedMetric
    from custodes.data.battle_counting import count_battles as count_battles
    from custodes.data.cells import OutcomeCounts as OutcomeCounts
    from custodes.data.counting import count_pairs as count_pairs
    from custodes.data.counts import read_counts as read_counts
    from custodes.data.counts import write_counts as write_counts
    from custodes.data.readers import READERS as READERS
    from custodes.data.reading import read as read
    from custodes.data.simulate import SimulatedMetric as SimulatedMetric
    from custodes.data.simulate import demo_study as demo_study
    from custodes.data.simulate import simulate as simulate
    from custodes.data.study import Study as Study
    from custodes.diagnosis import Doctor as Doctor
    from custodes.diagnosis import doctor as doctor
    from custodes.errors import CustodesError as CustodesError
    from custodes.errors import CustodesWarning as CustodesWarning
    from custodes.errors import InputError as InputError
    from custodes.errors import MissingExtraError as MissingExtraError
    from custodes.errors import OptionError as OptionError
    from custodes.evaluate.protocol import live as live
    from custodes.evaluate.protocol.stopping import Stopping as Stopping
    from custodes.judging.client import http_client as http_client
    from custodes.judging.judge import Judge as Judge
    from custodes.judging.run import judge as judge
    from custodes.judging.tables import Judgements as Judgements
    from custodes.questions import *  # noqa: F403
    from custodes.reporting import Report as Report
    from custodes.reporting import report as report
    from custodes.scoring.run import score as score
    from custodes.scoring.scores import Scores as Scores

_HOMES = {
    "custodes.data.readers": ("READERS",),
    "custodes.data.reading": ("read",),
    "custodes.data.study": ("Study",),
    "custodes.data.simulate": ("simulate", "SimulatedMetric", "demo_study"),
    "custodes.scoring.run": ("score",),
    "custodes.scoring.scores": ("Scores",),
    "custodes.questions": (),
    "custodes.evaluate.protocol.stopping": ("Stopping",),
    "custodes.judging.run": ("judge",),
    "custodes.judging.judge": ("Judge",),
    "custodes.judging.tables": ("Judgements",),
    "custodes.judging.client": ("http_client",),
    "custodes.combining.combined_metric": ("CombinedMetric",),
    "custodes.data.counting": ("count_pairs",),
    "custodes.data.battle_counting": ("count_battles",),
    "custodes.data.cells": ("OutcomeCounts",),
    "custodes.data.counts": ("write_counts", "read_counts"),
    "custodes.answers.effort": ("effort",),
    "custodes.reporting": ("report", "Report"),
    "custodes.diagnosis": ("doctor", "Doctor"),
    "custodes.errors": ("CustodesError", "CustodesWarning", "InputError", "MissingExtraError", "OptionError"),
}
"""Where public names live, in the order of the story; the questions name their own."""
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_RENAMED = {
    "combine_fit": "combine",
    "CombineFit": "Combine",
    "Combination": "CombinedMetric",
    "rank": "ranking",
    "correct": "correction",
}
"""What is called otherwise now, and verbs whose question has another name."""
_MODULES = {
    "plots": "custodes.plots",
    "live": "custodes.evaluate.protocol.live",
    "annotate": "custodes.annotate",
}


def _unknown(name: str) -> AttributeError:
    """Named in a way that lets Python suggest what is close."""
    instead = f"; write custodes.{_RENAMED[name]}" if name in _RENAMED else ""
    message = f"module 'custodes' has no attribute {name!r}{instead}"
    return AttributeError(message, name=name, obj=None if instead else sys.modules[__name__])


if not TYPE_CHECKING:  # a checker of types must not take every name for one that is there

    def __getattr__(name: str) -> Any:
        """A public name is loaded on its first use, so that importing custodes stays light."""
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name.startswith("__") and name != "__all__":
            raise _unknown(name)
        if name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
        else:
            from custodes.homes import asked, homes

            if name == "__all__":
                told = [own for home, names in _HOMES.items() for own in (names if names else asked())]
                value = [*told, *(own for own in homes() if own not in asked()), *_MODULES]
            elif name in homes():
                value = getattr(import_module(homes()[name]), name)
            else:
                raise _unknown(name)
        globals()[name] = value
        return value

    lazily.public = __getattr__

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
