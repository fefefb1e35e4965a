"""The site: pages for those who answer and for the owner."""
