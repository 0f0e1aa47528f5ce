"""Several models that write one output together: each word by the mean of their probabilities.

Axes: B sentences, K hypotheses of each, L target positions, R readouts of all members side by side, V vocabulary.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from seq2seq.batch import Batch
from seq2seq.explain import AttentionWeights
from seq2seq.layers.state import Memory, State
from seq2seq.model.model import Model

Item = TypeVar("Item")


class Ensemble(nn.Module):
    """Models of any systems over the same sources and vocabularies, as one that search and explanations can use.

    Memories and states lie side by side: the views and leaves of member i are named `i.NAME`, so that whatever moves
    them need not know of members. Its looks are the mean of the members'.
    """

    def __init__(self, members: Sequence[Model]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def models(self) -> list[Model]:
        return cast(list[Model], list(self.members))

    @property
    def attention_kinds(self) -> list[str]:
        """The kinds of looks that it explains itself by: those that every member has."""
        first, *others = self.models
        return [kind for kind in first.attention_kinds if all(kind in other.attention_kinds for other in others)]

    def encode(self, batch: Batch) -> Memory:
        """What the members read."""
        member_memories = [member.encode(batch) for member in self.models]
        return Memory(
            {f"{i}.{name}": view for i, memory in enumerate(member_memories) for name, view in memory.views.items()},
            torch.cat([memory.summary_BS for memory in member_memories], -1),
            {source: ids for memory in member_memories for source, ids in memory.tokens.items()},
        )

    def start(self, memory: Memory) -> State:
        """The members' states before the first word, one hypothesis a sentence."""
        return merge_states([m.start(own) for m, own in zip(self.models, self.member_memories(memory), strict=True)])

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> tuple[State, Tensor, AttentionWeights]:
        """One word of every hypothesis: the states behind it, the readouts (B, K, R) and what was looked at."""
        steps = [
            member.step(own, member_state(i, state), token_BK)
            for i, (member, own) in enumerate(zip(self.models, self.member_memories(memory), strict=True))
        ]
        states, member_readouts, attention_weights = zip(*steps, strict=True)
        return merge_states(states), torch.cat(member_readouts, -1), AttentionWeights({}, members=attention_weights)

    def log_probabilities(self, readout: Tensor) -> Tensor:
        """(..., R) -> the log of the mean probability over the vocabulary (..., V), in fp32 or better."""
        own = self.member_readouts(readout)
        logs = [member.log_probabilities(part) for member, part in zip(self.models, own, strict=True)]
        return torch.logsumexp(torch.stack(logs), 0) - math.log(len(logs))

    def forced_attention(self, memory: Memory, target_BKL: Tensor, vocabulary: bool = False) -> AttentionWeights:
        """The mean of what the members look at, by forced decoding; `vocabulary` is for each, as in `Model.forced_attention`."""
        each = zip(self.models, self.member_memories(memory), strict=True)
        return AttentionWeights.mean([member.forced_attention(own, target_BKL, vocabulary) for member, own in each])

    def with_explanation_weights(
        self, memory: Memory, readout: Tensor, attention_weights: AttentionWeights
    ) -> AttentionWeights:
        """The mean of what the members looked at in steps, with what `Model.with_explanation_weights` adds to each."""
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
        """Each member's own."""
        own: Sequence[Tensor] = readout.split([member.config.readout_size for member in self.models], -1)
        return own

    def member_memories(self, memory: Memory) -> list[Memory]:
        """Each member's own."""
        summaries = memory.summary_BS.split([member.config.summaries_size for member in self.models], -1)
        return [
            replace(memory, views=member_items(i, memory.views), summary_BS=summary)
            for i, summary in enumerate(summaries)
        ]


Predictor = Model | Ensemble  # what search and explanations need


def merge_states(states: Sequence[State]) -> State:
    """The states of all members as one."""
    return State(
        {f"{i}.{name}": leaf for i, state in enumerate(states) for name, leaf in state.leaves.items()},
        {f"{i}.{name}": source for i, state in enumerate(states) for name, source in state.positions.items()},
    )


def member_state(member: int, state: State) -> State:
    """One member's own."""
    return State(member_items(member, state.leaves), member_items(member, state.positions))


def member_items(member: int, things: Mapping[str, Item]) -> dict[str, Item]:
    """What is one member's, by the names that it gave."""
    prefix = f"{member}."
    return {name.removeprefix(prefix): thing for name, thing in things.items() if name.startswith(prefix)}
