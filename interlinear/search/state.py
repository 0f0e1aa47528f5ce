"""The state of the sentences in a table: their hypotheses, back-pointers, and encoder memory.

Axes: N sentences in the table (rows), K hypotheses of each, L output positions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interlinear.batch import tensors_of
from interlinear.devices import to_device
from interlinear.models.memory import Candidates, Memory, pad_or_trim
from interlinear.models.state import WRITTEN, State
from interlinear.search.processors.processor import OUTPUTS, NewRows, Processor
from interlinear.text import BEGIN, PAD


@dataclass(frozen=True)
class SlotState:
    """The search state of all sentences in the table; the first axis of every tensor is N.

    processors: of all features that a sentence wants, in the order in which they act.
    """

    state: State
    token_NK: Tensor  # the last token of each active hypothesis
    score_NK: Tensor  # log-probability; -inf where there is no hypothesis
    length_N: Tensor  # number of tokens decoded so far
    written_NKL: Tensor  # the token that each step appended to each hypothesis
    parent_NKL: Tensor  # back-pointer to the hypothesis that was extended, so that no history is copied
    final_NK: Tensor  # ranking scores of finished hypotheses, best first; -inf for unused entries
    final_log_NK: Tensor  # their log-probability
    final_length_NK: Tensor  # their number of tokens
    final_parent_NK: Tensor  # the hypothesis that ended
    ended_N: Tensor  # number of finished hypotheses
    done_N: Tensor  # True if the sentence is finished; a step no longer changes its results
    beam_N: Tensor
    shrink_N: Tensor  # 1 where each finished hypothesis shrinks the beam by one
    n_best_N: Tensor
    alpha_N: Tensor  # exponent of the length penalty
    offset_N: Tensor  # 0 or GNMT's 5
    min_N: Tensor
    max_N: Tensor
    processors: tuple[Processor, ...] = ()

    def map(self, change: Callable[[Tensor], Tensor]) -> "SlotState":
        """Applies a function to every tensor."""
        return self._mapped(change, tuple(each.map(change) for each in self.processors))

    def map_rows(self, change: Callable[[Tensor], Tensor]) -> "SlotState":
        """Applies a function to every tensor, apart from processors' tensors of the table as a whole."""
        return self._mapped(change, tuple(each.map_rows(change) for each in self.processors))

    def _mapped(self, change: Callable[[Tensor], Tensor], processors: tuple[Processor, ...]) -> "SlotState":
        tensors = {name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return SlotState(state=self.state.map(change), processors=processors, **tensors)

    def select(self, index: Tensor) -> "SlotState":
        """The rows at these indices."""
        return self.map_rows(lambda tensor: tensor.index_select(0, index))

    def concatenate(self, other: "SlotState") -> "SlotState":
        """These rows followed by the rows of `other`, which has the same sizes and processors."""
        first, second = vars(self), vars(other)
        tensors = {n: torch.cat([v, second[n].to(v.dtype)]) for n, v in first.items() if isinstance(v, Tensor)}
        state = replace(
            self.state, leaves={n: torch.cat([leaf, other.state.leaves[n]]) for n, leaf in self.state.leaves.items()}
        )
        pairs = zip(self.processors, other.processors, strict=True)
        return SlotState(state=state, processors=tuple(one.concatenate(two) for one, two in pairs), **tensors)

    def with_processors(self, kinds: Sequence[type[Processor]], new: NewRows) -> "SlotState":
        """The rows with processors of these kinds: present ones stay, missing ones start."""
        present = {type(processor): processor for processor in self.processors}
        if missing := [kind.start(new) for kind in kinds if kind not in present]:
            started, _ = to_device_together(missing, [], self.done_N.device)
            present |= {type(processor): processor for processor in started}
        return replace(self, processors=tuple(present[kind] for kind in kinds))

    def resize(self, sizes: Mapping[str, int]) -> "SlotState":
        """Pads or trims every axis that varies, of sources and processors, to its size."""
        outputs = sizes[OUTPUTS]
        return replace(
            self,
            state=self.state.resize({**sizes, WRITTEN: outputs}),
            written_NKL=pad_or_trim(self.written_NKL, 2, outputs, PAD),
            parent_NKL=pad_or_trim(self.parent_NKL, 2, outputs, 0),
            processors=tuple(each.resize(sizes) for each in self.processors),
        )


def initial_rows(state: State, kinds: Sequence[type[Processor]], new: NewRows, device: torch.device) -> SlotState:
    """New rows: one empty hypothesis per sentence, and processors of these kinds. state: before the first token."""
    n, k = len(new.requests), new.hypotheses
    outputs = round_up_outputs(max(request.max_length for request in new.requests) + 1)
    options = [request.options for request in new.requests]
    penalties = [o.length_penalty_terms for o in options]
    asked = {
        "beam_N": torch.tensor([o.beam for o in options]),
        "shrink_N": torch.tensor([int(request.shrinks) for request in new.requests]),
        "n_best_N": torch.tensor([o.n_best for o in options]),
        "alpha_N": torch.tensor([alpha for alpha, _ in penalties], dtype=new.dtype),
        "offset_N": torch.tensor([offset for _, offset in penalties], dtype=new.dtype),
        "min_N": torch.tensor([min(request.options.min_length, request.max_length) for request in new.requests]),
        "max_N": torch.tensor([request.max_length for request in new.requests]),
    }
    processors, on_device = to_device_together([kind.start(new) for kind in kinds], list(asked.values()), device)
    empty = torch.full((n, k), -torch.inf, dtype=new.dtype, device=device)
    zeros = torch.zeros(n, k, dtype=torch.long, device=device)
    return SlotState(
        state=state.repeat(k),
        token_NK=torch.full_like(zeros, BEGIN),
        score_NK=torch.cat([empty.new_zeros(n, 1), empty[:, 1:]], 1),
        length_N=zeros[:, 0].clone(),
        written_NKL=zeros.new_full((n, k, outputs), PAD),
        parent_NKL=zeros.new_zeros((n, k, outputs)),
        final_NK=empty,
        final_log_NK=empty.clone(),  # not the same tensor: a compiled step is specialised on tensors that are identical
        final_length_NK=zeros,
        final_parent_NK=zeros.clone(),
        ended_N=zeros[:, 0].clone(),
        done_N=torch.zeros(n, dtype=torch.bool, device=device),
        processors=tuple(processors),
        **dict(zip(asked, on_device, strict=True)),
    )


def to_device_together(
    processors: Sequence[Processor], others: Sequence[Tensor], device: torch.device
) -> tuple[list[Processor], list[Tensor]]:
    """Processors and other tensors on a device, by one transfer. Not as views of one tensor: a compiled step is
    specialised on tensors with storage offset 0."""
    tensors = [tensor for processor in processors for tensor in tensors_of(processor)]
    copies = iter([tensor.clone() for tensor in to_device([*tensors, *others], device)])
    return [processor.map(lambda _: next(copies)) for processor in processors], list(copies)


def round_up_outputs(length: int) -> int:
    """Rounds a number of output positions up, to 32, 64, 128, ..."""
    return max(32, 1 << (length - 1).bit_length())


def concatenate_memories(first: Memory, second: Memory) -> Memory:
    """Concatenates the rows of two memories of the same capacity."""
    views = {
        name: replace(
            view,
            keys_BTA=torch.cat([view.keys_BTA, second.views[name].keys_BTA]),
            values_BTD=torch.cat([view.values_BTD, second.views[name].values_BTD]),
            covered_BTC=torch.cat([view.covered_BTC, second.views[name].covered_BTC]),
            padding_BT=torch.cat([view.padding_BT, second.views[name].padding_BT]),
        )
        for name, view in first.views.items()
    }
    summaries = {name: torch.cat([own, second.summaries[name]]) for name, own in first.summaries.items()}
    tokens = {source: torch.cat([ids, second.tokens[source]]) for source, ids in first.tokens.items()}
    assert first.candidates.keys() == second.candidates.keys(), "some rows have limited words, and others all"
    candidates = {
        name: Candidates(
            torch.cat([rows.words_BC, second.candidates[name].words_BC]),
            torch.cat([rows.weight_BCR, second.candidates[name].weight_BCR]),
            torch.cat([rows.bias_BC, second.candidates[name].bias_BC]),
        )
        for name, rows in first.candidates.items()
    }
    return Memory(views, summaries, tokens, candidates)
