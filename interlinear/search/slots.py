"""Beam search over a table of slots (continuous batching): sentences enter, are decoded together, and leave when done.

Offline search fills the table from an iterator, the service from its queue; both use the same search and ranking. The
search does not depend on the kind of model, and encoder memory is never copied per hypothesis.

Axes: N sentences in the table (rows), K hypotheses of each, T source positions, L output positions, C tokens that may
come next.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interlinear.batch import TARGET, Batch, CandidateInput
from interlinear.devices import to_device
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderDecoder
from interlinear.search.options import Hypothesis, SearchRequest, SearchResult
from interlinear.search.processors import NewRows, Processor, processors_of
from interlinear.search.processors.processor import OUTPUTS, POSITIONS, WORD, WORDS, round_up_capacity
from interlinear.search.ranking import lists, read_finished, stable_prefixes
from interlinear.search.state import SlotState, concatenate_memories, initial_rows, round_up_outputs
from interlinear.search.step import SearchStep, search_step


@dataclass(frozen=True)
class StepRecord:
    """Attention weights, readouts and scores of one step, kept for explanations; `rows` maps keys to rows at that step.

    score_NK: the log-probability of each hypothesis after the step.
    """

    rows: dict[Hashable, int]
    attention_weights: AttentionWeights  # (N, K, ...)
    readout_NKR: Tensor
    score_NK: Tensor


class SlotTable:
    """A beam search that sentences can enter and leave at any step.

    `width` is the widest beam allowed; narrower beams are masked. The caller limits the number of active sentences.
    Further features of search are `processors`: each sentence has its own, and the results of other sentences do not
    depend on them.

    `sync_interval` is the number of steps between transfers to the host: by default 1 on a CPU, and 4 on other devices,
    where a transfer waits for the device. A sentence that finishes between two transfers is frozen on the device, so
    that its result does not depend on `sync_interval`. `search_step` takes a step; it can be a compiled one.
    `kind_V`: the kind of each token of the vocabulary for processors (`NewRows`), by default a word of its own.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        width: int,
        sync_interval: int | None = None,
        search_step: SearchStep = search_step,
        kind_V: Tensor | None = None,
    ) -> None:
        self.model = model
        self.kind_V = torch.full((model.target_vocabulary,), WORD, dtype=torch.int8) if kind_V is None else kind_V
        self.search_step = search_step
        self.width = width
        self.device = next(model.parameters()).device
        self.requests: list[SearchRequest] = []  # by row
        self.sizes: list[dict[str, int]] = []  # by row, as `Memory.capacity`; kept on the host to save a transfer
        self.memory: Memory | None = None
        self.rows: SlotState | None = None
        self.sync_interval = sync_interval or (1 if self.device.type == "cpu" else 4)
        self.step_count = 0
        self.admitted_at: dict[Hashable, int] = {}  # step_count at admission, by key, with_attention only
        self.records: dict[int, StepRecord] = {}  # by step_count, back to the oldest such admission

    @property
    def active(self) -> int:
        return len(self.requests)

    @property
    def padded_positions(self) -> int:
        """Number of source positions that a step reads, padding included."""
        return 0 if self.memory is None else self.active * sum(self.memory.positions.values())

    @torch.inference_mode()
    def admit(self, batch: Batch, requests: Sequence[SearchRequest]) -> None:
        """Encodes a batch of sentences and adds a row for each."""
        assert all(request.options.beam <= self.width for request in requests), "a beam wider than the table"
        memory = self.model.encode(batch.to(self.device))
        every, kinds = [*self.requests, *requests], processors_of([*self.requests, *requests])
        new = self._new(requests, memory.score_dtype, batch.candidates)
        rows = initial_rows(self.model.start(memory), kinds, new, self.device)
        capacity, longest = memory.capacity, max(request.max_length for request in every) + 1
        if self.rows is not None and self.memory is not None:
            capacity = {source: max(width, self.memory.capacity[source]) for source, width in capacity.items()}
            longest = max(longest, self.rows.written_NKL.shape[2])
        capacity = {source: round_up_capacity(width) for source, width in capacity.items()}
        sizes = self._sizes(every, kinds, capacity, round_up_outputs(longest))
        memory, rows = memory.resize(capacity), rows.resize(sizes)
        if self.rows is not None and self.memory is not None:
            memory = concatenate_memories(self.memory.resize(capacity), memory)
            present = self.rows.with_processors(kinds, self._new(self.requests, new.dtype))
            rows = present.resize(sizes).concatenate(rows)
        self._place(memory, rows, every)
        self.requests = every
        self.sizes.extend(batch.sizes(row) for row in range(len(requests)))
        self.admitted_at.update({request.key: self.step_count for request in requests if request.with_attention})

    @torch.inference_mode()
    def step(self) -> None:
        """Extends each hypothesis of each unfinished sentence by one token. Never waits for the device."""
        if self.rows is None or self.memory is None:
            return
        self.step_count += 1
        result = self.search_step(self.model, self.memory, self.rows)
        self.rows = result.rows
        if self.admitted_at:
            self.records[self.step_count] = StepRecord(
                {request.key: i for i, request in enumerate(self.requests)},
                result.attention_weights,
                result.readout_NKR,
                result.rows.score_NK,
            )

    @torch.inference_mode()
    def pop_finished(self) -> list[SearchResult]:
        """Removes finished sentences from the table and returns their results."""
        if self.rows is None or self.memory is None or self.step_count % self.sync_interval:
            return []
        (done_N,) = lists([self.rows.done_N])
        finished_rows = [i for i, finished in enumerate(done_N) if finished]
        if not finished_rows:
            return []
        index = self._index(finished_rows)
        hypotheses = read_finished(self.rows.select(index), [self.requests[i].wanted for i in finished_rows])
        finished = list(zip(finished_rows, hypotheses, strict=True))
        falls = iter(lists([fall_L for row, own in finished for fall_L in self._falls(row, own)]))
        results = [self._result(row, own, falls) for row, own in finished]
        self._compact([i for i in range(self.active) if i not in set(finished_rows)])
        return results

    @torch.inference_mode()
    def prefixes(self, keys: Collection[Hashable]) -> dict[Hashable, list[int]]:
        """Stable prefixes of the outputs, by key: the common prefix of all active hypotheses and the best finished one.

        A sentence's prefix never shrinks from one step to the next. A processor may end it early (`shown_length`).
        There are none between two transfers to the host.
        """
        row_by_key = {request.key: i for i, request in enumerate(self.requests) if request.key in keys}
        if self.rows is None or not row_by_key or self.step_count % self.sync_interval:
            return {}
        prefixes = stable_prefixes(self.rows.select(self._index(list(row_by_key.values()))))
        return dict(zip(row_by_key, prefixes, strict=True))

    @torch.inference_mode()
    def cancel(self, keys: set[Hashable]) -> None:
        """Removes sentences from the table without a result."""
        self._compact([i for i, request in enumerate(self.requests) if request.key not in keys])

    def _compact(self, rows: list[int]) -> None:
        """Keeps only these rows, and reduces the capacity to the longest remaining sentence and list of candidate
        tokens."""
        if len(rows) == self.active:
            return
        self.requests = [self.requests[i] for i in rows]
        self.sizes = [self.sizes[i] for i in rows]
        self.admitted_at = {
            request.key: self.admitted_at[request.key] for request in self.requests if request.with_attention
        }
        first = min(self.admitted_at.values(), default=self.step_count)
        self.records = {step_count: record for step_count, record in self.records.items() if step_count > first}
        if not rows or self.rows is None or self.memory is None:
            self.rows = self.memory = None
            return
        index = self._index(rows)
        memory = self.memory.map(lambda tensor: tensor.index_select(0, index))
        capacity = {axis: round_up_capacity(max(1, *(sizes[axis] for sizes in self.sizes))) for axis in memory.capacity}
        outputs = round_up_outputs(max(request.max_length for request in self.requests) + 1)
        kinds = processors_of(self.requests)
        kept = self.rows.select(index).with_processors(kinds, self._new(self.requests, self.rows.score_NK.dtype))
        kept = kept.resize(self._sizes(self.requests, kinds, capacity, outputs))
        self._place(memory.resize(capacity), kept, self.requests)

    def _place(self, memory: Memory, rows: SlotState, requests: Sequence[SearchRequest]) -> None:
        """Sets the rows of all requests, in a layout that only their shape decides."""
        placed = tuple(processor.placed(requests) for processor in rows.processors)
        self.memory, self.rows = memory.map(to_contiguous), replace(rows, processors=placed).map(to_contiguous)

    def _index(self, rows: Sequence[int]) -> Tensor:
        """The row indices as a tensor on the device."""
        return to_device([torch.tensor(rows)], self.device)[0]

    def _sizes(
        self,
        requests: Sequence[SearchRequest],
        kinds: Sequence[type[Processor]],
        capacity: dict[str, int],
        outputs: int,
    ) -> dict[str, int]:
        """The size of every axis that varies: sources, axes that processors share, and axes of a single processor."""
        common = {OUTPUTS: outputs, POSITIONS: next(iter(capacity.values()))}
        own = {axis: size for kind in kinds for axis, size in kind.sizes(requests).items()}
        return {**capacity, **common, WORDS: capacity.get(TARGET, len(self.kind_V)), **own}

    def _new(
        self, requests: Sequence[SearchRequest], dtype: torch.dtype, candidates: CandidateInput | None = None
    ) -> NewRows:
        """The new rows of these sentences, as processors receive them."""
        return NewRows(requests, self.width, dtype, self.kind_V, candidates)

    def _falls(self, row: int, hypotheses: Sequence[tuple[Hypothesis, list[int]]]) -> list[Tensor]:
        """The decrease of the score of each hypothesis of a row at every step (L); nothing without attention."""
        request = self.requests[row]
        if not request.with_attention:
            return []
        key, falls = request.key, []
        first = self.admitted_at[key] + 1
        for _, path in hypotheses:
            records = [self.records[first + step] for step in range(len(path) - 1)]
            scores = [record.score_NK[record.rows[key], k] for record, k in zip(records, path[1:], strict=True)]
            falls.append(torch.stack([torch.zeros_like(self.records[first].score_NK[0, 0]), *scores]).diff())
        return falls

    def _result(
        self, row: int, hypotheses: Sequence[tuple[Hypothesis, list[int]]], falls: Iterator[list[float]]
    ) -> SearchResult:
        """The result of a finished row, from its hypotheses, their paths and, first in `falls`, its `_falls`."""
        request = self.requests[row]
        added = [self._added(request, best.ids) for best, _ in hypotheses]  # results exclude it
        best = [
            replace(one, log_probability=one.log_probability - sum(own)) if own else one
            for (one, _), own in zip(hypotheses, added, strict=True)
        ]
        if not request.with_attention:
            return SearchResult(request.key, best)
        # a token's log-probability is the decrease of the score, without what processors added to it
        logs = [[fall - change for fall, change in zip(next(falls), own, strict=True)] for own in added]
        paths = [path for _, path in hypotheses]
        return SearchResult(request.key, best, self._attention_weights(row, paths), logs)

    def _added(self, request: SearchRequest, ids: Sequence[int]) -> list[float]:
        """The sum that processors have added to the log-probability of each token of an output."""
        assert self.rows is not None
        changes = [processor.added(request, ids) for processor in self.rows.processors]
        return [sum(own) for own in zip([0.0] * len(ids), *(change for change in changes if change), strict=True)]

    def _attention_weights(self, row: int, paths: Sequence[list[int]]) -> AttentionWeights | None:
        """Attention weights of a row's hypotheses, (1, n, L, ...), read from the step records along their paths."""
        assert self.memory is not None
        if not paths:
            return None
        key, longest = self.requests[row].key, max(len(path) for path in paths)
        first, capacity = self.admitted_at[key] + 1, self.memory.capacity
        attention_weights, readouts = [], []
        for path in paths:
            steps = [min(step, len(path) - 1) for step in range(longest)]  # a shorter path repeats its last step
            records = [self.records[first + step] for step in steps]
            slots = [(record.rows[key], path[step]) for record, step in zip(records, steps, strict=True)]
            step_weights = [
                record.attention_weights.of_hypothesis(*slot).resize(capacity)
                for record, slot in zip(records, slots, strict=True)
            ]
            step_readouts = [record.readout_NKR[slot] for record, slot in zip(records, slots, strict=True)]
            attention_weights.append(AttentionWeights.combine(step_weights, torch.stack))
            readouts.append(torch.stack(step_readouts))
        row_memory = self.memory.map(lambda tensor: tensor[row : row + 1])
        weights = AttentionWeights.combine(attention_weights, lambda tensors: torch.stack(tensors)[None])
        return self.model.with_explanation_weights(row_memory, torch.stack(readouts)[None], weights)


def to_contiguous(tensor: Tensor) -> Tensor:
    """The tensor in a layout that only its shape decides: a step reads it often, and is compiled for its layout."""
    return tensor.contiguous() if tensor.numel() else tensor.new_empty(tensor.shape)
