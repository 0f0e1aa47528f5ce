"""The losses of training, a term each; those over a vocabulary compute logits in chunks."""
