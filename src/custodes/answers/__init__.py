"""Results: declared tables, provenance, and their conversion to text, JSON, Markdown, LaTeX and HTML."""
