"""Loss functions over a large vocabulary, computed in chunks."""
