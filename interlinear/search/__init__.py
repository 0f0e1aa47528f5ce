"""Beam search."""

from interlinear.search.constraints import Constraint
from interlinear.search.options import LONGEST, Hypothesis, SearchOptions, SearchRequest, SearchResult
from interlinear.search.prefix import TargetPrefix
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
