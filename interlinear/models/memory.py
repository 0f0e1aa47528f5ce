"""The encoded sources of sentences, which all steps and all hypotheses share.

Axes: B sentences, T source positions, A attention size, D value size, C candidate tokens (in `View` alone: coverage),
R readout.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from interlinear.batch import TARGET
from interlinear.text import PAD

SUMMARY = "summary"  # the key of the summary of all sources of a sentence, side by side


def view_name(source: str, kind: str) -> str:
    """The name of a source's view in `Memory.views`."""
    return f"{source}.{kind}"


@dataclass(frozen=True)
class View:
    """One sequence of vectors that the decoder attends to: a source's encoder states or its word embeddings.

    keys_BTA: projected keys, computed once per sentence (A = 0 where the decoder updates the values and so computes
    keys at every step). covered_BTC: each value's summand of its coverage, C = 0 without coverage. padding_BT: True at
    padding.
    """

    source: str
    keys_BTA: Tensor
    values_BTD: Tensor
    covered_BTC: Tensor
    padding_BT: Tensor

    @property
    def absent_B1(self) -> Tensor:
        """True for a sentence without this source."""
        return self._once("_absent_B1", lambda: self.padding_BT.all(-1, keepdim=True))

    @property
    def masked_BT(self) -> Tensor:
        """The softmax mask: padding, but all False for an absent source, so that its energies stay finite and no
        gradient is NaN."""
        return self._once("_masked_BT", lambda: self.padding_BT & ~self.absent_B1)

    def _once(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """A tensor that every step needs, computed at the first; a compiled step, which keeps nothing, computes it each
        time.

        `functools.cached_property` has a lock before Python 3.12, which cannot be compiled.
        """
        if torch.compiler.is_compiling():
            return compute()
        if name not in self.__dict__:
            self.__dict__[name] = compute()
        value: Tensor = self.__dict__[name]
        return value

    def map(self, change: Callable[[Tensor], Tensor]) -> "View":
        """Applies a function to every tensor."""
        return View(
            self.source,
            change(self.keys_BTA),
            change(self.values_BTD),
            change(self.covered_BTC),
            change(self.padding_BT),
        )

    def resize(self, width: int) -> "View":
        """Pads or trims to `width` positions."""
        return View(
            self.source,
            pad_or_trim(self.keys_BTA, 1, width, 0.0),
            pad_or_trim(self.values_BTD, 1, width, 0.0),
            pad_or_trim(self.covered_BTC, 1, width, 1.0),  # 1, since a fertility is a divisor
            pad_or_trim(self.padding_BT, 1, width, True),
        )


@dataclass(frozen=True)
class Candidates:
    """The tokens that search may write for each sentence, with their rows of the output layer, gathered once.

    words_BC: ids as in `CandidateInput`. weight_BCR, bias_BC: the rows of the output layer's weight and bias; padding
    has the bias -inf, hence the probability 0. For a layer in int8, which computes the whole vocabulary, R = 0 and the
    other biases are 0.
    """

    words_BC: Tensor
    weight_BCR: Tensor
    bias_BC: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> "Candidates":
        """Applies a function to every tensor."""
        return Candidates(change(self.words_BC), change(self.weight_BCR), change(self.bias_BC))

    def resize(self, width: int) -> "Candidates":
        """Pads or trims to `width` words."""
        return Candidates(
            pad_or_trim(self.words_BC, 1, width, PAD),
            pad_or_trim(self.weight_BCR, 1, width, 0.0),
            pad_or_trim(self.bias_BC, 1, width, -torch.inf),
        )


@dataclass(frozen=True)
class Memory:
    """All encoded sources of a batch.

    views: by name. summaries: further inputs of a decoder's first state, (B, S), by name.
    tokens: token ids (B, T) by source, PAD at padding; only for a model with an alignment module.
    candidates: the tokens that search may write, by output layer; empty: the whole vocabulary.
    """

    views: dict[str, View]
    summaries: dict[str, Tensor] = field(default_factory=dict)
    tokens: dict[str, Tensor] = field(default_factory=dict)
    candidates: dict[str, Candidates] = field(default_factory=dict)

    @property
    def first(self) -> View:
        """The view whose positions coverage counts, and whose precision scores have."""
        return next(iter(self.views.values()))

    @property
    def rows(self) -> int:
        return self.first.padding_BT.shape[0]

    @property
    def score_dtype(self) -> torch.dtype:
        """The precision of log-probabilities: at least fp32."""
        return torch.promote_types(self.first.values_BTD.dtype, torch.float32)

    @property
    def positions(self) -> dict[str, int]:
        """Number of positions T of each source, padding included."""
        return {view.source: view.padding_BT.shape[1] for view in self.views.values()}

    @property
    def capacity(self) -> dict[str, int]:
        """`positions`, and as TARGET the number of candidate tokens C, padding included, if they are limited."""
        widths = [rows.words_BC.shape[1] for rows in self.candidates.values()]  # equal ones
        return self.positions | ({TARGET: widths[0]} if widths else {})

    def lengths_B(self, source: str) -> Tensor:
        """Number of real positions of each sentence in a source, (B,)."""
        return (~self.view_of(source).padding_BT).sum(1)

    def view_of(self, source: str) -> View:
        """The first view of a source."""
        return next(view for view in self.views.values() if view.source == source)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Memory":
        """Applies a function to every tensor."""
        return Memory(
            {name: view.map(change) for name, view in self.views.items()},
            {name: change(summary) for name, summary in self.summaries.items()},
            {source: change(ids) for source, ids in self.tokens.items()},
            {name: rows.map(change) for name, rows in self.candidates.items()},
        )

    def resize(self, capacity: dict[str, int]) -> "Memory":
        """Pads or trims each source, and the candidates, to a `capacity`, at the end."""
        return replace(
            self,
            views={name: view.resize(capacity[view.source]) for name, view in self.views.items()},
            tokens={source: pad_or_trim(ids, 1, capacity[source], PAD) for source, ids in self.tokens.items()},
            candidates={name: rows.resize(capacity[TARGET]) for name, rows in self.candidates.items()},
        )


def pad_or_trim(tensor: Tensor, axis: int, width: int, fill: bool | float) -> Tensor:
    """The tensor with `width` positions along an axis, trimmed or padded with `fill` at the end."""
    have = tensor.shape[axis]
    if have >= width:
        return tensor.narrow(axis, 0, width)
    return F.pad(tensor, [0, 0] * (tensor.dim() - axis - 1) + [0, width - have], value=fill)
