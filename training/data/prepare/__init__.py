"""Preparation of a data set: vocabularies are learned, texts and images are written as arrays."""
