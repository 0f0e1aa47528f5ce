"""Word alignments: links from attention weights, symmetrization, gold alignments, and the projection of tags."""

from seq2seq.alignment.links import (
    Alignment,
    GoldAlignment,
    Link,
    Symmetrization,
    alignment_from,
    bidirectional_alignment,
    read_gold_alignment,
    symmetrize,
    symmetrized_explanation,
)
from seq2seq.alignment.projection import TagEdge, TagSpan, project, tag_edges
from seq2seq.explain import WeightedLink

__all__ = [
    "Alignment",
    "GoldAlignment",
    "Link",
    "Symmetrization",
    "TagEdge",
    "TagSpan",
    "WeightedLink",
    "alignment_from",
    "bidirectional_alignment",
    "project",
    "read_gold_alignment",
    "symmetrize",
    "symmetrized_explanation",
    "tag_edges",
]
