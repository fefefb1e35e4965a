"""The sections of the report, in the order a reader meets them; a new one is a file here and a line below."""

from custodes.reporting.section import SectionMaker
from custodes.reporting.sections.agreement import agreement_section
from custodes.reporting.sections.ceiling import ceiling_section
from custodes.reporting.sections.combination import combination_section
from custodes.reporting.sections.complementarity import complementarity_section
from custodes.reporting.sections.confusion import confusion_section
from custodes.reporting.sections.correction import correction_section
from custodes.reporting.sections.favoritism import favoritism_section
from custodes.reporting.sections.glance import glance_section
from custodes.reporting.sections.method import method_section
from custodes.reporting.sections.protocol import protocol_section
from custodes.reporting.sections.ranking import ranking_section

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
