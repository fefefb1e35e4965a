"""One self-contained HTML page that tells what a study says; see `report`."""

from custodes.reporting.assembly import Report, report
from custodes.reporting.section import Figure, Section
from custodes.reporting.verdict import Statement, Verdict

__all__ = ["Figure", "Report", "Section", "Statement", "Verdict", "report"]
