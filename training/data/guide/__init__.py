"""Word alignments of the training pairs for guided attention: where they come from, and how they are stored."""
