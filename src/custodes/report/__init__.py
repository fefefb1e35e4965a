"""One self-contained HTML page that tells what a study says; see `report`."""

from custodes.report.making import Report, report
from custodes.report.section import Figure, Section
from custodes.report.verdict import Statement, Verdict

__all__ = ["Figure", "Report", "Section", "Statement", "Verdict", "report"]
