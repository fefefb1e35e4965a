"""How alike raters are: distances of rankings, the space they span, groups."""
