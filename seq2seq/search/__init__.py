"""TODO"""

from seq2seq.search.slots import (
    Finished,
    Hypothesis,
    SearchOptions,
    SlotTable,
    Waiting,
)

__all__ = [
    "Finished",
    "Hypothesis",
    "SearchOptions",
    "SlotTable",
    "Waiting",
]
