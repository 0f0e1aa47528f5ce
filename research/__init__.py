"""Reproduction of papers: the systems of their tables, stored results, and tables beside the published figures."""
