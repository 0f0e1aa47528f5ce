"""Features of a search, each a class with its own tensors; a table has the processors that at least one of its
sentences wants."""

from collections.abc import Sequence

from interlinear.components import PROCESSORS
from interlinear.search.options import SearchRequest
from interlinear.search.processors.constraints import Constraints
from interlinear.search.processors.coverage import CoveragePenalty
from interlinear.search.processors.post_editing import PostEditingPenalty
from interlinear.search.processors.prefix import Prefixes
from interlinear.search.processors.processor import NewRows, Processor, Step, Written
from interlinear.search.processors.repetition import RepetitionLimits

__all__ = ["NewRows", "Processor", "Step", "Written", "processors_of"]

# In the order in which they act; processors of other packages follow.
OURS: list[type[Processor]] = [PostEditingPenalty, RepetitionLimits, CoveragePenalty, Prefixes, Constraints]


def processors_of(requests: Sequence[SearchRequest]) -> list[type[Processor]]:
    """The processors that at least one of these sentences wants, in their order."""
    named = sorted({name for request in requests for name in request.options.processors})
    every = [*OURS, *(PROCESSORS[name] for name in named)]
    return [processor for processor in every if any(map(processor.wanted, requests))]
