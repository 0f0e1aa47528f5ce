"""Sequence-to-sequence models, and ensembles of them."""
