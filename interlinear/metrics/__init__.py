"""Evaluation metrics with signatures, and significance tests of differences between systems."""
