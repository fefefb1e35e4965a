"""Combined metrics: existing metrics scaled, selected and weighted to agree with human judgments."""
