"""Report of a study: one self-contained HTML page; see `report`."""

from custodes.reporting.assembly import Report, report

__all__ = ["Report", "report"]
