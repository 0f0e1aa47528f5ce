"""Evaluation: test sets, scoring, comparison of systems, and promotion."""
