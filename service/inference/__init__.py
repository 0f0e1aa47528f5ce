"""Input and output processing around the engine: languages, segmentation, HTML and images."""
