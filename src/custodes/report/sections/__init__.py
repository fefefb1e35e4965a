"""The sections of the report, in the order a reader meets them; a new one is a file here and a line below."""

from custodes.report.section import SectionMaker
from custodes.report.sections.agreement import agreement_section
from custodes.report.sections.ceiling import ceiling_section
from custodes.report.sections.combination import combination_section
from custodes.report.sections.complementarity import complementarity_section
from custodes.report.sections.confusion import confusion_section
from custodes.report.sections.correction import correction_section
from custodes.report.sections.favoritism import favoritism_section
from custodes.report.sections.glance import glance_section
from custodes.report.sections.method import method_section
from custodes.report.sections.protocol import protocol_section
from custodes.report.sections.ranking import ranking_section

SECTIONS: tuple[SectionMaker, ...] = (
    glance_section,
    agreement_section,
    favoritism_section,
    ranking_section,
    confusion_section,
    complementarity_section,
    ceiling_section,
    combination_section,
    correction_section,
    protocol_section,
    method_section,
)
