"""Commands that are not questions of a study, one file each."""
