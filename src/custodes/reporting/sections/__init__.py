# ruff: noqa: I001, F401
"""Sections of the report, in order. To add a section, add a file here and a line below."""

from custodes.plugins import members
from custodes.reporting.section import Section

from custodes.reporting.sections.check import CHECK
from custodes.reporting.sections.rates import RATES
from custodes.reporting.sections.leaderboard import LEADERBOARD
from custodes.reporting.sections.annotators import ANNOTATORS
from custodes.reporting.sections.agreement import AGREEMENT
from custodes.reporting.sections.favoritism import FAVORITISM
from custodes.reporting.sections.consistency import CONSISTENCY
from custodes.reporting.sections.ranking import RANKING
from custodes.reporting.sections.complementarity import COMPLEMENTARITY
from custodes.reporting.sections.ceiling import CEILING
from custodes.reporting.sections.combine import COMBINE
from custodes.reporting.sections.correction import CORRECTION
from custodes.reporting.sections.protocol import PROTOCOL
from custodes.reporting.sections.plan import PLAN
from custodes.reporting.sections.method import METHOD

SECTIONS = tuple(members(globals(), Section))
