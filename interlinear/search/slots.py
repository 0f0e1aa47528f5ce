"""Beam search over a table of slots (continuous batching): sentences enter, are decoded together, and leave when done.

Offline search fills the table from an iterator, the service from its queue; both use the same search and ranking. The
search does not depend on the kind of model, and encoder memory is never copied per hypothesis.

Axes: N sentences in the table (rows), K hypotheses of each, T source positions, L output positions, C words that may
come next.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from interlinear.batch import TARGET, Batch, CandidateInput, moved
from interlinear.devices import to_device
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderDecoder
from interlinear.search.constraints import ConstraintState, columns_of, initial_constraints, token_count
from interlinear.search.options import Hypothesis, SearchRequest, SearchResult
from interlinear.search.post_editing import token_penalties, without_penalty, word_penalties
from interlinear.search.prefix import initial_prefixes
from interlinear.search.ranking import (
    ConstraintTable,
    backtrace,
    common_prefix,
    free_length,
    lists,
    read_hypotheses,
    tensors_of_constraints,
    tokens_along,
)
from interlinear.search.repetition import JOINED, WORD, RepetitionState, initial_repetition, longest_gram
from interlinear.search.state import SlotState, concatenate_memories, round_up_capacity, round_up_outputs
from interlinear.search.step import SearchStep, search_step
from interlinear.text import BEGIN, PAD


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
    A sentence may have constraints: token sequences that its output contains, and tokens with which it begins. It is
    searched with the others, whose results do not change.

    `sync_interval` is the number of steps between transfers to the host: by default 1 on a CPU, and 4 on other devices,
    where a transfer waits for the device. A sentence that finishes between two transfers is frozen on the device, so
    that its result does not depend on `sync_interval`. `search_step` takes a step; it can be a compiled one.
    `kind_V`: what each token of the vocabulary is (`repetition.py`), by default a word of its own; none that continues
    the word before it follows a constraint.
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
        joined_V = self.kind_V == JOINED
        self.joined_V = joined_V if bool(joined_V.any()) else None
        self.search_step = search_step
        self.width = width
        self.device = next(model.parameters()).device
        self.requests: list[SearchRequest] = []  # by row
        self.sizes: list[dict[str, int]] = []  # by row, as `Memory.capacity`; kept on the host to save a transfer
        self.memory: Memory | None = None
        self.rows: SlotState | None = None
        self.constrained_R: Tensor | None = None  # the indices of the rows with constraints
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
        for request in requests:
            assert request.options.beam <= self.width, "a beam wider than the table"
            assert request.required_tokens <= request.max_length, "constraints longer than an output"
        memory = self.model.encode(batch.to(self.device))
        new_rows = self._initial_state(memory, requests, batch.candidates)
        tokens, prefixed = self._constraint_capacity([*self.requests, *requests])
        vocabulary = self._penalised_vocabulary([*self.requests, *requests])
        if self.rows is not None and self.memory is not None:
            capacity = {s: round_up_capacity(max(n, self.memory.capacity[s])) for s, n in memory.capacity.items()}
            written = max(self.rows.written_NKL.shape[2], new_rows.written_NKL.shape[2])
            memory = concatenate_memories(self.memory.resize(capacity), memory.resize(capacity))
            widths = (tokens, self._joined_words(capacity), prefixed)
            limits = longest_gram([*self.requests, *requests]), capacity.get(TARGET, len(self.kind_V))
            rows = self.rows.resize(written, capacity).resize_constraints(*widths).with_penalty(vocabulary)
            new_rows = new_rows.resize(written, capacity).resize_constraints(*widths).with_penalty(vocabulary)
            rows = rows.resize_repetition(*limits).concatenate(new_rows.resize_repetition(*limits))
        else:
            capacity = {s: round_up_capacity(n) for s, n in memory.capacity.items()}
            memory, rows = memory.resize(capacity), new_rows.resize(new_rows.written_NKL.shape[2], capacity)
            rows = rows.resize_constraints(tokens, self._joined_words(capacity), prefixed)
            rows = rows.resize_repetition(longest_gram(requests), capacity.get(TARGET, len(self.kind_V)))
        self.memory, self.rows = memory.map(to_contiguous), rows.map(to_contiguous)
        self._set_requests([*self.requests, *requests])
        self.sizes.extend(batch.sizes(row) for row in range(len(requests)))
        self.admitted_at.update({request.key: self.step_count for request in requests if request.with_attention})

    @torch.inference_mode()
    def step(self) -> None:
        """Extends each hypothesis of each unfinished sentence by one word. Never waits for the device."""
        if self.rows is None or self.memory is None:
            return
        self.step_count += 1
        with_coverage = any(request.options.coverage_penalty for request in self.requests)
        result = self.search_step(self.model, self.memory, self.rows, with_coverage, self.constrained_R)
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
        finished_state = self.rows.map(lambda tensor: tensor.index_select(0, index))
        hypotheses = read_hypotheses(finished_state, [self.requests[i].wanted for i in finished_rows])
        finished = list(zip(finished_rows, hypotheses, strict=True))
        falls = iter(lists([fall_L for row, own in finished for fall_L in self._falls(row, own)]))
        results = [self._result(row, own, falls) for row, own in finished]
        self._compact([i for i in range(self.active) if i not in set(finished_rows)])
        return results

    @torch.inference_mode()
    def prefixes(self, keys: Collection[Hashable]) -> dict[Hashable, list[int]]:
        """Stable prefixes of the outputs, by key: the common prefix of all active hypotheses and the best finished one.

        A sentence's prefix never shrinks from one step to the next. It ends before the first constraint. There are none
        between two transfers to the host.
        """
        row_by_key = {request.key: i for i, request in enumerate(self.requests) if request.key in keys}
        if self.rows is None or not row_by_key or self.step_count % self.sync_interval:
            return {}
        rows, index = self.rows, self._index(list(row_by_key.values()))
        best = rows.final_NK[:, 0], rows.final_length_NK[:, 0], rows.final_parent_NK[:, 0]
        tensors = [rows.written_NKL, rows.parent_NKL, rows.score_NK, rows.length_N, *best]
        tensors += tensors_of_constraints(rows)
        written, parent, scores, lengths, final_score, final_length, final_hypothesis, *constrained = lists(
            [tensor.index_select(0, index) for tensor in tensors]
        )
        constraints = ConstraintTable(*constrained) if constrained else None
        prefixes: dict[Hashable, list[int]] = {}
        for row, key in enumerate(row_by_key):
            ends = [(hypothesis, lengths[row]) for hypothesis, score in enumerate(scores[row]) if score > -torch.inf]
            if final_score[row] > -torch.inf:
                ends.append((final_hypothesis[row], final_length[row]))
            paths = [backtrace(parent[row], *end) for end in ends]
            outputs = [tokens_along(written[row], path) for path in paths]
            if constraints:
                each = zip(outputs, paths, strict=True)
                outputs = [tokens[: free_length(constraints.along(row, path))] for tokens, path in each]
            prefixes[key] = common_prefix(outputs)
        return prefixes

    @torch.inference_mode()
    def cancel(self, keys: set[Hashable]) -> None:
        """Removes sentences from the table without a result."""
        self._compact([i for i, request in enumerate(self.requests) if request.key not in keys])

    def _compact(self, rows: list[int]) -> None:
        """Keeps only these rows, and reduces the capacity to the longest remaining sentence and candidates."""
        if len(rows) == self.active:
            return
        self._set_requests([self.requests[i] for i in rows])
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
        longest = round_up_outputs(max(request.max_length for request in self.requests) + 1)
        rows_state = self.rows.map(lambda tensor: tensor.index_select(0, index)).resize(longest, capacity)
        tokens, prefixed = self._constraint_capacity(self.requests)
        rows_state = rows_state.resize_constraints(tokens, self._joined_words(capacity), prefixed)
        rows_state = rows_state.with_penalty(self._penalised_vocabulary(self.requests))
        rows_state = rows_state.resize_repetition(longest_gram(self.requests), capacity.get(TARGET, len(self.kind_V)))
        self.memory, self.rows = memory.resize(capacity).map(to_contiguous), rows_state.map(to_contiguous)

    def _set_requests(self, requests: list[SearchRequest]) -> None:
        self.requests = requests
        constrained = [row for row, request in enumerate(requests) if request.constrained]
        self.constrained_R = self._index(constrained) if constrained else None

    def _index(self, rows: Sequence[int]) -> Tensor:
        """The numbers of rows on the device."""
        return to_device([torch.tensor(rows)], self.device)[0]

    def _constraint_capacity(self, requests: Sequence[SearchRequest]) -> tuple[int, bool]:
        """The number of constraint tokens of a row, padding included, 0 if no request has constraints; and whether one
        has a prefix."""
        most = max(token_count(request.constraints) for request in requests)
        prefixed = any(request.prefix is not None for request in requests)
        return round_up_capacity(max(most, int(prefixed))), prefixed

    def _penalised_vocabulary(self, requests: Sequence[SearchRequest]) -> int | None:
        """The size of the vocabulary if a request has a post-editing penalty, else None."""
        penalised = any(request.options.post_editing_penalty for request in requests)
        return self.model.target_vocabulary if penalised else None

    def _joined_words(self, capacity: dict[str, int]) -> int:
        """The number of words that may come next, for those that continue the word before; 0 if none does."""
        return 0 if self.joined_V is None else capacity.get(TARGET, len(self.joined_V))

    def _initial_state(
        self, memory: Memory, requests: Sequence[SearchRequest], candidates: CandidateInput | None
    ) -> SlotState:
        """Initial rows: one empty hypothesis per sentence."""
        n, k = memory.rows, self.width
        longest = round_up_outputs(max(request.max_length for request in requests) + 1)
        options = [request.options for request in requests]
        state = self.model.start(memory)
        state = state.map(lambda leaf: leaf.expand(-1, k, *leaf.shape[2:]))
        dtype = memory.score_dtype

        empty = torch.full((n, k), -torch.inf, dtype=dtype, device=self.device)
        zeros = torch.zeros(n, k, dtype=torch.long, device=self.device)
        penalties = [o.length_penalty_terms for o in options]
        positions = next(iter(memory.positions.values()))
        asked = {
            "beam_N": torch.tensor([o.beam for o in options]),
            "shrink_N": torch.tensor([int(r.options.shrinking and not r.has_branches) for r in requests]),
            "n_best_N": torch.tensor([o.n_best for o in options]),
            "alpha_N": torch.tensor([alpha for alpha, _ in penalties], dtype=dtype),
            "offset_N": torch.tensor([offset for _, offset in penalties], dtype=dtype),
            "min_N": torch.tensor([min(request.options.min_length, request.max_length) for request in requests]),
            "max_N": torch.tensor([request.max_length for request in requests]),
            "beta_N": torch.tensor([o.coverage_penalty for o in options], dtype=dtype),
        }
        if (penalty_NV := word_penalties(requests, self.model.target_vocabulary, dtype)) is not None:
            asked["penalty_NV"] = penalty_NV
        # Not as parts of one tensor: a step is compiled for tensors that begin their memory.
        on_device = [tensor.clone() for tensor in to_device(list(asked.values()), self.device)]
        return SlotState(
            state=state,
            token_NK=torch.full_like(zeros, BEGIN),
            score_NK=torch.cat([empty.new_zeros(n, 1), empty[:, 1:]], 1),
            length_N=zeros[:, 0].clone(),
            written_NKL=zeros.new_full((n, k, longest), PAD),
            parent_NKL=zeros.new_zeros((n, k, longest)),
            final_NK=empty,
            final_log_NK=empty.clone(),  # not the same tensor: a step is compiled for what is the same
            final_length_NK=zeros,
            final_parent_NK=zeros.clone(),
            ended_N=zeros[:, 0].clone(),
            done_N=torch.zeros(n, dtype=torch.bool, device=self.device),
            coverage_NKT=empty.new_zeros(n, k, positions),
            constraints=self._initial_constraints(requests, longest, candidates),
            repetition=self._initial_repetition(requests, longest, positions, candidates, empty),
            **dict(zip(asked, on_device, strict=True)),
        )

    def _initial_constraints(
        self, requests: Sequence[SearchRequest], outputs: int, candidates: CandidateInput | None
    ) -> ConstraintState | None:
        """The constraints of new rows; None if no request has any."""
        if not any(request.constrained for request in requests):
            return None
        constraints = [request.constraints for request in requests]
        state = initial_constraints(constraints, self.width, outputs, candidates, self.joined_V)
        if any(request.prefix is not None for request in requests):
            prefixes, n_best = [r.prefix for r in requests], [r.options.n_best for r in requests]
            prefix = initial_prefixes(prefixes, n_best, self.width, outputs, partial(columns_of, candidates))
            state = replace(state, prefix=prefix)
        return moved(state, self.device)

    def _initial_repetition(
        self,
        requests: Sequence[SearchRequest],
        outputs: int,
        positions: int,
        candidates: CandidateInput | None,
        score_NK: Tensor,
    ) -> RepetitionState | None:
        """The limits of new rows on repetition; None if no request has any."""
        if longest_gram(requests) is None:
            return None
        kind_NC = self.kind_V.expand(len(requests), -1)
        if candidates is not None:
            kind_NC = self.kind_V[candidates.words_BC.cpu()]
        return initial_repetition(requests, outputs, positions, kind_NC, score_NK)

    def _falls(self, row: int, hypotheses: Sequence[tuple[Hypothesis, list[int]]]) -> list[Tensor]:
        """By how much the score of each hypothesis of a row falls at every step (L); nothing without attention."""
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
        best = [without_penalty(hypothesis, request) for hypothesis, _ in hypotheses]
        if not request.with_attention:
            return SearchResult(request.key, best)
        paths = [path for _, path in hypotheses]
        # a token's log-probability is the fall without its penalty
        logs = [
            [fall + penalty for fall, penalty in zip(next(falls), token_penalties(best.ids, request), strict=True)]
            for best, _ in hypotheses
        ]
        return SearchResult(request.key, best, self._attention_weights(row, paths), logs)

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
