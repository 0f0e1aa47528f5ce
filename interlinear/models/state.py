"""The decoder's state of hypotheses, as search reorders, pads and trims it for any kind of model.

Axes: B sentences, K hypotheses of each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from interlinear.models.memory import pad_or_trim

WRITTEN = "written"  # the axis of target positions: of a cache that grows with the output


@dataclass(frozen=True)
class State:
    """Named tensors ("leaves"), each (B, K, ...).

    axes: for a leaf whose third axis varies: the source whose positions that axis has, or WRITTEN. A leaf of WRITTEN
    has at least as many positions as the output will have; the decoder knows which of them are filled.
    """

    leaves: dict[str, Tensor]
    axes: dict[str, str] = field(default_factory=dict)

    def map(self, change: Callable[[Tensor], Tensor]) -> "State":
        """Applies a function to every tensor."""
        return replace(self, leaves={name: change(leaf) for name, leaf in self.leaves.items()})

    def repeat(self, hypotheses: int) -> "State":
        """The same state, of one hypothesis a sentence, for several."""
        return self.map(lambda leaf: leaf.expand(-1, hypotheses, *leaf.shape[2:]))

    def reorder(self, rows_N: Tensor, hypotheses: int) -> "State":
        """Selects hypotheses: `rows_N` indexes the flattened (B, K) axes; the result is (N / K, K, ...)."""
        return self.map(lambda leaf: leaf.flatten(0, 1).index_select(0, rows_N).unflatten(0, (-1, hypotheses)))

    def resize(self, capacity: Mapping[str, int]) -> "State":
        """Pads or trims every axis to a `capacity`, at the end."""
        leaves = {
            name: pad_or_trim(leaf, 2, capacity[self.axes[name]], 0.0) if name in self.axes else leaf
            for name, leaf in self.leaves.items()
        }
        return replace(self, leaves=leaves)
