"""The inference engine: request queue, admission control, continuous batching, and the workers that search."""
