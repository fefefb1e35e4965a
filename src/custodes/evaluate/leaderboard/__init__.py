"""Who is best: strengths, ranks and groups by people, by every metric, and by people corrected with a metric."""
