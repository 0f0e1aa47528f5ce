"""The generated world: a small bilingual corpus with gold word alignments."""
