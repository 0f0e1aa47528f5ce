"""Searches of sentences that enter a slot table at different steps, and what all their results must have."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from interlinear.batch import Batch, collate
from interlinear.models.model import Model
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import (
    Constraint,
    Hypothesis,
    SearchOptions,
    SearchRequest,
    SearchResult,
    SlotTable,
    TargetPrefix,
)
from interlinear.shortlist import Shortlist
from interlinear.text import END

VOCABULARY = 9
SENTENCE = st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=12)
OPTIONS = st.builds(
    lambda beam, best, **others: SearchOptions(beam=beam, n_best=min(beam, best), **others),
    beam=st.integers(1, 6),
    best=st.integers(1, 6),
    length_penalty=st.sampled_from(["none", "average", 0.6]),
    min_length=st.integers(0, 4),
    max_length=st.integers(4, 9),
    coverage_penalty=st.sampled_from([0.0, 0.3]),
    shrinking=st.booleans(),
)
PHRASE = st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=3).map(tuple)
CONSTRAINTS = st.lists(
    st.builds(Constraint, PHRASE, st.none() | st.tuples(st.integers(0, 3), st.integers(4, 6))), max_size=2
).map(tuple)
BEGINNING = st.lists(st.integers(4, VOCABULARY - 1) | st.just(1), max_size=4).map(tuple)
PREFIX = st.builds(TargetPrefix, BEGINNING, alternatives=st.booleans())
WAITING = st.lists(st.tuples(SENTENCE, OPTIONS, st.integers(0, 6)), min_size=2, max_size=6)


class Waiting(NamedTuple):
    """A sentence, and the step at which it is admitted."""

    ids: list[int]
    options: SearchOptions
    step: int = 0
    constraints: tuple[Constraint, ...] = ()
    prefix: TargetPrefix | None = None

    @property
    def forced(self) -> list[int]:
        """The tokens that its outputs must have."""
        return [*(self.prefix.ids if self.prefix else ()), *(token for each in self.constraints for token in each.ids)]

    def request(self, key: object, with_attention: bool = False) -> SearchRequest:
        longest, prefix = self.options.output_limit(len(self.ids)) + len(self.forced), self.prefix
        if prefix is not None:
            prefix = replace(prefix, alternatives=prefix.alternatives and self.options.n_best > 1)
        return SearchRequest(key, self.options, longest, with_attention, self.constraints, prefix)


def run(
    table: SlotTable, waiting: Sequence[tuple], with_attention: bool = False, shortlist: Shortlist | None = None
) -> list[SearchResult]:
    """Search sentences, each admitted at its own step. `waiting`: the first fields of `Waiting`, or all."""
    rows = [Waiting(*one) for one in waiting]
    done: list[SearchResult] = []
    clock = 0
    while len(done) < len(rows):
        now = [(key, one) for key, one in enumerate(rows) if one.step == clock]
        if now:
            batch = collate({"source": [one.ids for _, one in now]})
            if shortlist:
                sources, forced = [{"source": one.ids} for _, one in now], [one.forced for _, one in now]
                batch = replace(batch, candidates=shortlist.candidates(sources, forced))
            table.admit(batch, [one.request(key, with_attention) for key, one in now])
        table.step()
        done += table.pop_finished()
        clock += 1
    return sorted(done, key=lambda one: int(str(one.key)))


def search(model: EncoderDecoder, batch: Batch) -> list[SearchResult]:
    """Search the sentences of a batch together, with attention."""
    table, done = SlotTable(model, 3), []
    options = SearchOptions(beam=3, n_best=3, max_length=6)
    table.admit(batch, [SearchRequest(row, options, 6, with_attention=True) for row in range(batch.rows)])
    while table.active:
        table.step()
        done += table.pop_finished()
    return sorted(done, key=lambda one: int(str(one.key)))


def scores_of(model: Model, ids: list[int], outputs: list[list[int]], penalty: str | float) -> list[float]:
    """The score of each output of a source by its definition: log P(y | x) over its length penalty."""
    batch = collate({"source": [ids] * len(outputs)}, outputs)
    readouts, _ = model.unroll(model.encode(batch), batch.target_BL[:, None])
    log_p = model.log_probabilities(readouts)[:, 0].detach()
    scores = []
    for row, words in enumerate(outputs):
        output = [*words, END]
        total = sum(float(log_p[row, i, word]) for i, word in enumerate(output))
        scores.append(total / {"none": 1.0, "average": len(output)}.get(str(penalty), ((5 + len(output)) / 6) ** 0.6))
    return scores


def contains(output: Sequence[int], phrases: Sequence[tuple[int, ...]]) -> bool:
    """Whether an output has all phrases, none of whose words are shared."""
    if not phrases:
        return True
    first, *others = phrases
    size = len(first)
    return any(
        contains([*output[:i], 0, *output[i + size :]], others)
        for i in range(len(output) - size + 1)
        if tuple(output[i : i + size]) == first
    )


def settled(
    result: SearchResult, other: SearchResult, constraints: Sequence[Constraint]
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """The hypotheses of two searches for one text that do not depend on rounding. Where an output has the words of a
    constraint twice, either can be the constraint's: such hypotheses have equal scores, and rounding decides which one
    stays in a beam, and so what the beam comes to."""
    if not constraints:
        return result.hypotheses, other.hypotheses
    best = result.hypotheses[0], other.hypotheses[0]
    if any(occurrences(one.ids, constraint.ids) > 1 for one in best for constraint in constraints):
        return [], []
    return [best[0]], [best[1]]


def occurrences(output: Sequence[int], phrase: tuple[int, ...]) -> int:
    return sum(tuple(output[i : i + len(phrase)]) == phrase for i in range(len(output)))


def check_written(result: SearchResult, constraints: Sequence[Constraint]) -> None:
    """Every output names the tokens that write its constraints: each once, from its begin to its end."""
    assert result.hypotheses
    for hypothesis in result.hypotheses:
        if not constraints:
            assert not hypothesis.constraints
            continue
        assert len(hypothesis.constraints) == len(hypothesis.ids)
        for index, constraint in enumerate(constraints):
            positions = [i for i, own in enumerate(hypothesis.constraints) if own == index]
            assert tuple(hypothesis.ids[i] for i in positions) == constraint.ids
            assert positions == list(range(positions[0], positions[-1] + 1))


def check_begun(result: SearchResult, prefix: TargetPrefix | None) -> None:
    """Every output has the prefix, and with alternatives another first word."""
    assert result.hypotheses
    if prefix is not None:
        size = len(prefix.ids)
        assert all(tuple(h.ids[:size]) == prefix.ids for h in result.hypotheses)
        if prefix.alternatives:
            firsts = [tuple(h.ids[size : size + 1]) for h in result.hypotheses]
            assert len(set(firsts)) == len(firsts)


class Transfers(TorchDispatchMode):
    """Counts operations that synchronise with the device: reads of numbers, and data-dependent sizes."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique", "equal", "repeat_interleave.Tensor")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = str(function).removeprefix("aten.")
        by_mask = name.startswith("index") and any(
            isinstance(index, torch.Tensor) and index.dtype == torch.bool
            for index in (args[1] if isinstance(args[1], list | tuple) else ())
        )
        if name.startswith(self.WAITING) or by_mask:
            self.seen.append(name)
        return function(*args, **(kwargs or {}))


def steps(table: SlotTable) -> Iterator[list[int]]:
    for _ in range(6):
        table.step()
        assert table.rows is not None
        yield table.rows.written_NKL.flatten().tolist()
