"""Beam search."""

from seq2seq.search.constraints import Constraint
from seq2seq.search.options import LONGEST, Hypothesis, SearchOptions, SearchRequest, SearchResult
from seq2seq.search.prefix import TargetPrefix
from seq2seq.search.slots import SlotTable

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
