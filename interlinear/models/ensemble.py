"""Ensembles: several models decode one output, each word by the mean of their probabilities.

Axes: B sentences, K hypotheses of each, L target positions, R readouts of all members concatenated, V vocabulary,
C candidate tokens.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from interlinear.batch import Batch
from interlinear.models.attention_reading import AttentionReading
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderDecoder, Step, Unrolled
from interlinear.models.state import State

Item = TypeVar("Item")


class Ensemble(nn.Module):
    """Models over the same sources and vocabularies, with the interface that search and explanations use.

    The members' memories and states are merged under prefixed names: `i.NAME` is view, leaf or output layer NAME of
    member i, so that code that reorders or resizes them works unchanged. All members have the batch's candidate tokens.
    Attention weights are the mean over the members.
    """

    def __init__(self, members: Sequence[EncoderDecoder]) -> None:
        super().__init__()
        self.members = nn.ModuleList(cast(Sequence[nn.Module], members))

    @property
    def models(self) -> list[EncoderDecoder]:
        return cast(list[EncoderDecoder], list(self.members))

    @property
    def target_vocabulary(self) -> int:
        """The size of the vocabulary of the output layers."""
        return self.models[0].target_vocabulary

    @property
    def attention_kinds(self) -> list[str]:
        """The attention kinds that every member has."""
        first, *others = self.models
        return [kind for kind in first.attention_kinds if all(kind in other.attention_kinds for other in others)]

    @property
    def readings(self) -> list[AttentionReading]:
        """The readings that every member has, in the order of the first."""
        first, *others = self.models
        return [reading for reading in first.readings if all(reading in other.readings for other in others)]

    @property
    def readout_size(self) -> int:
        """The size of all readouts side by side."""
        return sum(self.readout_sizes)

    @property
    def readout_sizes(self) -> list[int]:
        return [model.readout_size for model in self.models]

    def encode(self, batch: Batch) -> Memory:
        """Encodes a batch with every member."""
        member_memories = [member.encode(batch) for member in self.models]
        return Memory(
            {f"{i}.{name}": view for i, memory in enumerate(member_memories) for name, view in memory.views.items()},
            {f"{i}.{name}": own for i, memory in enumerate(member_memories) for name, own in memory.summaries.items()},
            {source: ids for memory in member_memories for source, ids in memory.tokens.items()},
            {f"{i}.{name}": own for i, memory in enumerate(member_memories) for name, own in memory.candidates.items()},
        )

    def start(self, memory: Memory) -> State:
        """The members' initial states, with one hypothesis per sentence."""
        return merge_states([m.start(own) for m, own in zip(self.models, self.member_memories(memory), strict=True)])

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> Step:
        """One more token of each hypothesis, by every member."""
        steps = [
            member.step(own, member_state(i, state), token_BK)
            for i, (member, own) in enumerate(zip(self.models, self.member_memories(memory), strict=True))
        ]
        states, readouts, attention_weights = zip(*steps, strict=True)
        return Step(merge_states(states), torch.cat(readouts, -1), AttentionWeights({}, members=attention_weights))

    def unroll(self, memory: Memory, target_BKL: Tensor, attention: bool = True) -> Unrolled:
        """The steps of every member."""
        each = zip(self.models, self.member_memories(memory), strict=True)
        readouts, weights = zip(*(member.unroll(own, target_BKL, attention) for member, own in each), strict=True)
        return Unrolled(torch.cat(readouts, -1), AttentionWeights({}, members=weights))

    def log_probabilities(self, readout: Tensor) -> Tensor:
        """Log of the mean probability over the vocabulary, (..., R) -> (..., V), in at least fp32."""
        own = self.member_readouts(readout)
        return log_mean([member.log_probabilities(part) for member, part in zip(self.models, own, strict=True)])

    def next_words(self, memory: Memory, readout: Tensor) -> tuple[Tensor, Tensor]:
        """Log of the mean probability of the tokens that may come next, (B, K, C), and their ids (B, C), as for one
        model."""
        each = zip(self.models, self.member_memories(memory), self.member_readouts(readout), strict=True)
        logs, words = zip(*(member.next_words(own, part) for member, own, part in each), strict=True)
        return log_mean(logs), words[0]

    def forced_attention(
        self, memory: Memory, target_BKL: Tensor, reading: AttentionReading | None = None
    ) -> AttentionWeights:
        """Mean attention weights of the members by forced decoding; `reading` as in `Model.forced_attention`."""
        each = zip(self.models, self.member_memories(memory), strict=True)
        return AttentionWeights.mean([member.forced_attention(own, target_BKL, reading) for member, own in each])

    def with_explanation_weights(
        self, memory: Memory, readout: Tensor, attention_weights: AttentionWeights
    ) -> AttentionWeights:
        """Mean attention weights of the members, each with its additions."""
        each = zip(
            self.models,
            self.member_memories(memory),
            self.member_readouts(readout),
            attention_weights.members,
            strict=True,
        )
        return AttentionWeights.mean(
            [member.with_explanation_weights(own, part, seen) for member, own, part, seen in each]
        )

    def member_readouts(self, readout: Tensor) -> Sequence[Tensor]:
        """Splits readouts by member."""
        own: Sequence[Tensor] = readout.split(self.readout_sizes, -1)
        return own

    def member_memories(self, memory: Memory) -> list[Memory]:
        """Splits a merged memory by member."""
        return [
            replace(
                memory,
                views=member_items(i, memory.views),
                summaries=member_items(i, memory.summaries),
                candidates=member_items(i, memory.candidates),
            )
            for i in range(len(self.models))
        ]


def log_mean(logs: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of probabilities that are given by their logarithms."""
    return torch.logsumexp(torch.stack(tuple(logs)), 0) - math.log(len(logs))


def merge_states(states: Sequence[State]) -> State:
    """Merges the states of all members under prefixed names."""
    return State(
        {f"{i}.{name}": leaf for i, state in enumerate(states) for name, leaf in state.leaves.items()},
        {f"{i}.{name}": axis for i, state in enumerate(states) for name, axis in state.axes.items()},
    )


def member_state(member: int, state: State) -> State:
    """The state of one member."""
    return State(member_items(member, state.leaves), member_items(member, state.axes))


def member_items(member: int, things: Mapping[str, Item]) -> dict[str, Item]:
    """The items of one member, without the prefix in their names."""
    prefix = f"{member}."
    return {name.removeprefix(prefix): thing for name, thing in things.items() if name.startswith(prefix)}
