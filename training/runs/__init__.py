"""Training runs: planning, run folders and locks, settings for small data, and runs on a storage."""
