# ruff: noqa: I001
"""Public names: each is imported from its module on its first use. In the order of the documentation."""

from . import annotate as annotate, plots as plots
from .data.readers import READERS as READERS
from .data.reading import read as read
from .data.study import Study as Study
from .data.simulate import SimulatedMetric as SimulatedMetric, demo_study as demo_study, simulate as simulate
from .scoring.run import score as score
from .scoring.scores import Scores as Scores
from .evaluate.check.check import Check as Check, check as check
from .evaluate.leaderboard.leaderboard import Leaderboard as Leaderboard, leaderboard as leaderboard
from .evaluate.agreement.agreement import Agreement as Agreement, agreement as agreement
from .evaluate.annotators.annotators import Annotators as Annotators, annotators as annotators
from .evaluate.favoritism import Favoritism as Favoritism, favoritism as favoritism
from .evaluate.consistency.consistency import Consistency as Consistency, consistency as consistency
from .evaluate.rates.labelling import Labelling as Labelling, labelling as labelling
from .evaluate.rates.rates import Rates as Rates, rates as rates
from .evaluate.rates.route import Route as Route, route as route
from .evaluate.ranking import Ranking as Ranking, ranking as ranking
from .evaluate.verdict.verdict import Verdict as Verdict, verdict as verdict
from .evaluate.correction import Correction as Correction, correction as correction
from .evaluate.protocol.protocol import Protocol as Protocol, protocol as protocol
from .evaluate.protocol.plan import Plan as Plan, plan as plan
from .evaluate.protocol.stopping import Stopping as Stopping
from .evaluate.protocol import live as live
from .evaluate.complementarity.complementarity import (
    Complementarity as Complementarity,
    complementarity as complementarity,
)
from .evaluate.ceiling.ceiling import Ceiling as Ceiling, ceiling as ceiling
from .combining.combine import Combine as Combine, combine as combine
from .combining.validate import Validate as Validate, validate as validate
from .combining.combined_metric import CombinedMetric as CombinedMetric
from .evaluate.gate.gate import Gate as Gate, gate as gate
from .judging.run import judge as judge
from .judging.judge import Judge as Judge
from .judging.tables import Judgements as Judgements
from .judging.client import http_client as http_client
from .data.counting import count_pairs as count_pairs
from .data.battle_counting import count_battles as count_battles
from .data.label_counting import count_labels as count_labels
from .data.outcome_counts import OutcomeCounts as OutcomeCounts
from .data.counts import read_counts as read_counts, write_counts as write_counts
from .answers.effort import effort as effort
from .reporting import Report as Report, report as report
from .diagnosis import Doctor as Doctor, doctor as doctor
from .errors import (
    CustodesError as CustodesError,
    CustodesWarning as CustodesWarning,
    InputError as InputError,
    MissingExtraError as MissingExtraError,
    OptionError as OptionError,
)
