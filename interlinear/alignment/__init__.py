"""Word alignments: links from attention weights, symmetrization, gold alignments, doubtful words, and the
projection of tags, which processes that read and write documents use without torch."""
