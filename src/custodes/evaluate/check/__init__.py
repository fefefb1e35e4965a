"""Data quality checks of a study."""
