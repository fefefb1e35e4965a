"""Pass or fail rules on the agreement of a metric with human ratings."""
