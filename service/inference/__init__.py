"""Input and output processing around the engine: languages, segmentation, markup and images."""
