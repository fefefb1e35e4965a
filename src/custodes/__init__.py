"""custodes judges the judges.

Given people's ratings and automatic ratings of the same outputs, it says which automatic metric or LLM judge to trust,
whom it favours, and what the ranking of the systems really is.

    import custodes as cu

    study = cu.read("ratings.csv")          # or any dataframe, or "demo"
    cu.check(study).problems                # what would fool you
    cu.agreement(study).metrics             # who agrees with people, with intervals
    cu.favoritism(study).systems            # whom each metric favours
    cu.ranking(study).errors                # which decisions it gets wrong
    cu.correction(study).pairs              # who is better, corrected by some human annotations
    cu.protocol(study).protocol             # how few annotations would have done
    cu.plan(margins=[0.0, 0.2]).plan        # and how many it will take
    cu.complementarity(study).averages      # how alike metrics are, and people
    cu.ceiling(study).prediction            # how much of people's judgement all metrics predict
    cu.combine(study, target="fluency")     # a better metric from those you have, honestly validated
    cu.report(study).save("report.html")    # all of it, in one page
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from custodes import plots
    from custodes.combining.combine import combine
    from custodes.combining.combined_metric import CombinedMetric
    from custodes.data.counting import count_pairs
    from custodes.data.pairs import PairCounts
    from custodes.data.readers import READERS, read
    from custodes.data.simulate import SimulatedMetric, demo_study, simulate
    from custodes.data.study import Study
    from custodes.errors import CustodesError, CustodesWarning, InputError, MissingExtraError, OptionError
    from custodes.evaluate.agreement import agreement
    from custodes.evaluate.ceiling.ceiling import ceiling
    from custodes.evaluate.check import check
    from custodes.evaluate.complementarity.complementarity import complementarity
    from custodes.evaluate.correction import correction
    from custodes.evaluate.favoritism import favoritism
    from custodes.evaluate.protocol.plan import plan
    from custodes.evaluate.protocol.protocol import protocol
    from custodes.evaluate.ranking import ranking
    from custodes.reporting import report

__all__ = [  # noqa: RUF022 - in the order of the story
    "read",
    "READERS",
    "Study",
    "simulate",
    "SimulatedMetric",
    "demo_study",
    "check",
    "agreement",
    "favoritism",
    "ranking",
    "correction",
    "protocol",
    "plan",
    "complementarity",
    "ceiling",
    "combine",
    "CombinedMetric",
    "count_pairs",
    "PairCounts",
    "report",
    "plots",
    "CustodesError",
    "CustodesWarning",
    "InputError",
    "MissingExtraError",
    "OptionError",
]

_HOMES = {
    "custodes.combining.combine": ("combine",),
    "custodes.combining.combined_metric": ("CombinedMetric",),
    "custodes.data.counting": ("count_pairs",),
    "custodes.data.pairs": ("PairCounts",),
    "custodes.data.readers": ("READERS", "read"),
    "custodes.data.simulate": ("SimulatedMetric", "demo_study", "simulate"),
    "custodes.data.study": ("Study",),
    "custodes.errors": ("CustodesError", "CustodesWarning", "InputError", "MissingExtraError", "OptionError"),
    **{f"custodes.evaluate.{name}": (name,) for name in ("check", "correction", "favoritism", "ranking")},
    **{f"custodes.evaluate.{name}.{name}": (name,) for name in ("agreement", "ceiling", "complementarity", "protocol")},
    "custodes.evaluate.protocol.plan": ("plan",),
    "custodes.reporting": ("report",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name is loaded on its first use, so that importing custodes stays light."""
    if name == "plots":
        return import_module("custodes.plots")
    if name not in _HOME:
        raise AttributeError(f"module 'custodes' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
