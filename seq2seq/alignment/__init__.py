"""TODO"""

from seq2seq.alignment.links import (
    Alignment,
    Gold,
    Link,
    Symmetrization,
    aligned,
    aligned_both_ways,
    read_gold,
    symmetrized,
)

__all__ = [
    "Alignment",
    "Gold",
    "Link",
    "Symmetrization",
    "aligned",
    "aligned_both_ways",
    "read_gold",
    "symmetrized",
]
