"""The annotation protocol: replayed on paper, planned before anybody is paid, run with people."""
