"""A better metric: existing ones scaled, weighted and chosen by what people said."""
