"""Combined metrics: existing metrics that are scaled, selected and weighted to agree with human judgments."""
