"""Columns of the tables that have a row a `Stopping`."""

from __future__ import annotations

from custodes.answers.tables import count, label

STOPPING = (
    label("stopping", "when a pair is closed and nobody is asked any more; not said: as by default", "Stopping"),
    label("stop", "what closes a pair", essential=False),
    label("boundary", "of repeated looks", essential=False),
    count("batch", "annotations per round; null with looks", essential=False),
    label("looks", "annotations of a pair at each look; null with a batch", essential=False),
    count("budget", "annotations in all; null where there is none", essential=False),
)
"""Their values: `Stopping.columns`."""
