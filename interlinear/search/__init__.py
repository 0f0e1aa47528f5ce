"""Beam search."""

from interlinear.search.options import (
    LONGEST,
    Constraint,
    Hypothesis,
    SearchOptions,
    SearchRequest,
    SearchResult,
    TargetPrefix,
)
from interlinear.search.slots import SlotTable

__all__ = [
    "LONGEST",
    "Constraint",
    "Hypothesis",
    "SearchOptions",
    "SearchRequest",
    "SearchResult",
    "SlotTable",
    "TargetPrefix",
]
