"""Checkpoints of a training: state, saving, retention, upload to a storage, and resuming."""
