"""Ask people: a study in one file, a site that asks, decisions of completed looks."""
