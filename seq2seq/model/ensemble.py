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
from seq2seq.explain import Looks
from seq2seq.layers.state import Memory, State
from seq2seq.model.model import Model

Thing = TypeVar("Thing")


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
    def kinds(self) -> list[str]:
        """The kinds of looks that it explains itself by: those that every member has."""
        first, *others = self.models
        return [kind for kind in first.kinds if all(kind in other.kinds for other in others)]

    def encode(self, batch: Batch) -> Memory:
        """What the members read."""
        memories = [member.encode(batch) for member in self.models]
        return Memory(
            {f"{i}.{name}": view for i, memory in enumerate(memories) for name, view in memory.views.items()},
            torch.cat([memory.summary_BS for memory in memories], -1),
            {source: ids for memory in memories for source, ids in memory.tokens.items()},
        )

    def start(self, memory: Memory) -> State:
        """The members' states before the first word, one hypothesis a sentence."""
        return side_by_side([m.start(own) for m, own in zip(self.models, self.memories(memory), strict=True)])

    def step(self, memory: Memory, state: State, token_BK: Tensor) -> tuple[State, Tensor, Looks]:
        """One word of every hypothesis: the states behind it, the readouts (B, K, R) and what was looked at."""
        steps = [
            member.step(own, state_of(i, state), token_BK)
            for i, (member, own) in enumerate(zip(self.models, self.memories(memory), strict=True))
        ]
        states, readouts, looks = zip(*steps, strict=True)
        return side_by_side(states), torch.cat(readouts, -1), Looks({}, members=looks)

    def log_probabilities(self, readout: Tensor) -> Tensor:
        """(..., R) -> the log of the mean probability over the vocabulary (..., V), in fp32 or better."""
        own = self.readouts(readout)
        logs = [member.log_probabilities(part) for member, part in zip(self.models, own, strict=True)]
        return torch.logsumexp(torch.stack(logs), 0) - math.log(len(logs))

    def looks(self, memory: Memory, target_BKL: Tensor, vocabulary: bool = False) -> Looks:
        """The mean of what the members look at, by forced decoding; `vocabulary` is for each, as in `Model.looks`."""
        each = zip(self.models, self.memories(memory), strict=True)
        return Looks.mean([member.looks(own, target_BKL, vocabulary) for member, own in each])

    def explained(self, memory: Memory, readout: Tensor, looks: Looks) -> Looks:
        """The mean of what the members looked at in steps, with what `Model.explained` adds to each."""
        each = zip(self.models, self.memories(memory), self.readouts(readout), looks.members, strict=True)
        return Looks.mean([member.explained(own, part, seen) for member, own, part, seen in each])

    def readouts(self, readout: Tensor) -> Sequence[Tensor]:
        """Each member's own."""
        own: Sequence[Tensor] = readout.split([member.config.readout_size for member in self.models], -1)
        return own

    def memories(self, memory: Memory) -> list[Memory]:
        """Each member's own."""
        summaries = memory.summary_BS.split([member.config.summaries_size for member in self.models], -1)
        return [
            replace(memory, views=named(i, memory.views), summary_BS=summary) for i, summary in enumerate(summaries)
        ]


Predictor = Model | Ensemble  # what search and explanations need


def side_by_side(states: Sequence[State]) -> State:
    """The states of all members as one."""
    return State(
        {f"{i}.{name}": leaf for i, state in enumerate(states) for name, leaf in state.leaves.items()},
        {f"{i}.{name}": source for i, state in enumerate(states) for name, source in state.positions.items()},
    )


def state_of(member: int, state: State) -> State:
    """One member's own."""
    return State(named(member, state.leaves), named(member, state.positions))


def named(member: int, things: Mapping[str, Thing]) -> dict[str, Thing]:
    """What is one member's, by the names that it gave."""
    prefix = f"{member}."
    return {name.removeprefix(prefix): thing for name, thing in things.items() if name.startswith(prefix)}
