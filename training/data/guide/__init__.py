"""Word alignments of the training pairs for guided attention: their sources, and their storage."""
