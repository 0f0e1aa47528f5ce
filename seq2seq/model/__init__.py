"""The sequence-to-sequence model, its decoder, and ensembles of models."""
