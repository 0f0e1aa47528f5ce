"""Word alignments: links from attention weights, symmetrization of two directions, and gold alignments."""

from seq2seq.alignment.links import (
    Alignment,
    GoldAlignment,
    Link,
    Symmetrization,
    alignment_from,
    bidirectional_alignment,
    read_gold_alignment,
    symmetrize,
)

__all__ = [
    "Alignment",
    "GoldAlignment",
    "Link",
    "Symmetrization",
    "alignment_from",
    "bidirectional_alignment",
    "read_gold_alignment",
    "symmetrize",
]
