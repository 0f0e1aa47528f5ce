"""What the encoders produced (`Memory`) and what a hypothesis carries (`State`).

Axes: B sentences, K hypotheses of each, T source positions, A attention size, D value size.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from torch import Tensor
from torch.nn import functional as F

from seq2seq.text import PAD


@dataclass(frozen=True)
class View:
    """One thing that the decoder attends to: a source's states, its embeddings (later: its regions).

    `keys_BTA` is the keys' projection, made once a sentence (A = 0 where the decoder writes to the values, and makes
    keys at every step); `covered_BTC` what coverage takes of each value, C = 0 where there is none; `padding_BT` is
    True where there is nothing to see.
    """

    source: str
    keys_BTA: Tensor
    values_BTD: Tensor
    covered_BTC: Tensor
    padding_BT: Tensor

    @cached_property
    def absent_B1(self) -> Tensor:
        """True for a row that has nothing here. Kept, since every step asks."""
        return self.padding_BT.all(-1, keepdim=True)

    @cached_property
    def masked_BT(self) -> Tensor:
        """What a softmax leaves out: padding, but nothing of an absent row, whose energies so stay finite and have no
        gradient that is NaN."""
        return self.padding_BT & ~self.absent_B1

    def map(self, change: Callable[[Tensor], Tensor]) -> "View":
        """The same change to every tensor's rows."""
        return View(
            self.source,
            change(self.keys_BTA),
            change(self.values_BTD),
            change(self.covered_BTC),
            change(self.padding_BT),
        )

    def resize(self, width: int) -> "View":
        """Room for so many positions."""
        return View(
            self.source,
            pad_or_trim(self.keys_BTA, 1, width, 0.0),
            pad_or_trim(self.values_BTD, 1, width, 0.0),
            pad_or_trim(self.covered_BTC, 1, width, 1.0),  # a fertility, which is divided by
            pad_or_trim(self.padding_BT, 1, width, True),
        )


@dataclass(frozen=True)
class Memory:
    """All views by name; each sentence's summary, from which the decoder's first state is made; and by source its
    token ids (B, T), PAD where there is none, for a model that aligns by tokens."""

    views: dict[str, View]
    summary_BS: Tensor
    tokens: dict[str, Tensor] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.summary_BS.shape[0]

    @property
    def capacity(self) -> dict[str, int]:
        """Source positions that each source has room for."""
        return {view.source: view.padding_BT.shape[1] for view in self.views.values()}

    def lengths_B(self, source: str) -> Tensor:
        """Positions that each sentence really has in that source."""
        view = next(view for view in self.views.values() if view.source == source)
        return (~view.padding_BT).sum(1)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Memory":
        """The same change to every tensor's rows."""
        return Memory(
            {name: view.map(change) for name, view in self.views.items()},
            change(self.summary_BS),
            {source: change(ids) for source, ids in self.tokens.items()},
        )

    def resize(self, capacity: dict[str, int]) -> "Memory":
        """Room for so many positions of each source: padding is added or cut at the end."""
        return replace(
            self,
            views={name: view.resize(capacity[view.source]) for name, view in self.views.items()},
            tokens={source: pad_or_trim(ids, 1, capacity[source], PAD) for source, ids in self.tokens.items()},
        )


@dataclass(frozen=True)
class State:
    """The decoder's recurrent state: leaves by name, each (B, K, ...).

    A leaf named in `positions` is (B, K, T, ...) over the positions of that source, so that search can pad and trim
    it without knowing the system.
    """

    leaves: dict[str, Tensor]
    positions: dict[str, str]

    def map(self, change: Callable[[Tensor], Tensor]) -> "State":
        return replace(self, leaves={name: change(leaf) for name, leaf in self.leaves.items()})

    def reorder(self, rows_N: Tensor, hypotheses: int) -> "State":
        """The state of other hypotheses: `rows_N` counts through (B, K) flattened; the result is (N / K, K, ...)."""
        return self.map(lambda leaf: leaf.flatten(0, 1).index_select(0, rows_N).unflatten(0, (-1, hypotheses)))

    def resize(self, capacity: dict[str, int]) -> "State":
        leaves = {
            name: pad_or_trim(leaf, 2, capacity[self.positions[name]], 0.0) if name in self.positions else leaf
            for name, leaf in self.leaves.items()
        }
        return replace(self, leaves=leaves)


def pad_or_trim(tensor: Tensor, axis: int, width: int, fill: bool | float) -> Tensor:
    """The tensor with `width` positions along an axis: cut, or filled up at the end."""
    have = tensor.shape[axis]
    if have >= width:
        return tensor.narrow(axis, 0, width)
    return F.pad(tensor, [0, 0] * (tensor.dim() - axis - 1) + [0, width - have], value=fill)
