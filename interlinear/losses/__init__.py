"""The losses of training, one file a term; losses over a vocabulary compute logits in chunks."""
