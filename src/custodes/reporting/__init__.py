"""One self-contained HTML page that tells what a study says; see `report`."""

from custodes.reporting.assembly import Report, report

__all__ = ["Report", "report"]
