"""Minimum risk training, and sampling of outputs from a model."""
