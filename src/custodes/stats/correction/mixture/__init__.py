"""The mixture model of people's and a metric's preferences, and the samplers of its posterior."""
