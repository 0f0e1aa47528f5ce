"""Word alignments: links from attention weights, symmetrization, gold alignments, doubtful words, and the
projection of tags."""

from interlinear.alignment.doubts import THRESHOLDS, DoubtThresholds, find_doubts, with_doubts
from interlinear.alignment.links import (
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
from interlinear.alignment.projection import TagEdge, TagSpan, project, tag_edges
from interlinear.explanation import WeightedLink

__all__ = [
    "THRESHOLDS",
    "Alignment",
    "DoubtThresholds",
    "GoldAlignment",
    "Link",
    "Symmetrization",
    "TagEdge",
    "TagSpan",
    "WeightedLink",
    "alignment_from",
    "bidirectional_alignment",
    "find_doubts",
    "project",
    "read_gold_alignment",
    "symmetrize",
    "symmetrized_explanation",
    "tag_edges",
    "with_doubts",
]
