"""Beam search."""

from seq2seq.search.slots import (
    Hypothesis,
    SearchOptions,
    SearchRequest,
    SearchResult,
    SlotTable,
)

__all__ = [
    "Hypothesis",
    "SearchOptions",
    "SearchRequest",
    "SearchResult",
    "SlotTable",
]
