"""How strong systems are by the battles between them: Bradley-Terry with ties, ranks, people corrected by a metric."""
