"""A Transformer's encoder, and its decoders with self-attention or a simple recurrence in its place."""
