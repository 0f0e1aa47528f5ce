"""Data sets: descriptions, file formats, downloads, cleaning, and preparation for training."""
