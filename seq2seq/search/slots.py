"""Beam search over a table of slots: sentences are admitted, stepped together, and retired as they finish.

Offline search feeds the table from an iterator, the service's engine from its queue: one search, one ranking. Nothing
here looks at what system the model is; encoder memory is never copied for a hypothesis.

Axes: N live sentences (rows of the table), K hypotheses of each, T source positions, L written positions, V vocabulary.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from seq2seq.batch import Batch
from seq2seq.explain import AttentionWeights
from seq2seq.layers.state import Memory, State, pad_or_trim
from seq2seq.model.ensemble import Predictor
from seq2seq.text import BEGIN, END, PAD

GNMT_OFFSET = 5  # Wu et al. 2016, equation 14: lp(Y) = ((5 + |Y|) / (5 + 1)) ** alpha


class SearchOptions(BaseModel):
    """How one sentence is searched for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    beam: int = Field(5, ge=1, le=64, description="hypotheses kept at each step; 1 is greedy search")
    length_penalty: Literal["none", "average"] | float = Field(
        "average",
        description="log-probabilities are summed, averaged over the words, or divided as GNMT with this alpha",
    )
    n_best: int = Field(1, ge=1, le=64, description="outputs wanted, at most the beam")
    min_length: int = Field(0, ge=0, description="words at least, in the vocabulary's units")
    max_length: int | None = Field(None, ge=1, description="words at most; by default 2 x source + 10")
    shrinking: bool = Field(
        False, description="every output that ends takes its place in the beam with it, until none is left"
    )
    coverage_penalty: float = Field(0.0, ge=0, description="GNMT's beta: a penalty on source words not looked at")
    replace_unknown: bool = Field(False, description="an unknown word becomes the source word most looked at")

    @model_validator(mode="after")
    def _n_best(self) -> Self:
        if self.n_best > self.beam:
            raise ValueError(f"n_best: {self.n_best} outputs cannot come from a beam of {self.beam}")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length: {self.min_length} is more than max_length {self.max_length}")
        return self

    @property
    def length_penalty_terms(self) -> tuple[float, float]:
        """The length penalty's exponent, and what is added to a length."""
        if isinstance(self.length_penalty, float):
            return self.length_penalty, GNMT_OFFSET
        return (1.0, 0.0) if self.length_penalty == "average" else (0.0, 0.0)

    def output_limit(self, source: int) -> int:
        """Words that an output may have for a source of so many."""
        return self.max_length if self.max_length is not None else 2 * source + 10


@dataclass(frozen=True)
class Hypothesis:
    """An output: its ids without the end symbol, what ranks it, and its log-probability (the end symbol's included)."""

    ids: list[int]
    score: float
    log_probability: float


@dataclass(frozen=True)
class SearchResult:
    """A sentence that left the table: its hypotheses, best first, and their looks, (1, n, L, T), where asked for."""

    key: Hashable
    hypotheses: list[Hypothesis]
    attention_weights: AttentionWeights | None


@dataclass(frozen=True)
class SearchRequest:
    """A sentence to admit: a name for it, its options, its limit on words, and whether its looks are wanted."""

    key: Hashable
    options: SearchOptions
    max_length: int
    with_attention: bool = False


@dataclass(frozen=True)
class SlotState:
    """All that the table keeps for its live sentences; every tensor's first axis is N."""

    state: State
    token_NK: Tensor  # the last word of every live hypothesis
    score_NK: Tensor  # its log-probability; -inf where there is no hypothesis
    length_N: Tensor  # words written so far
    written_NKL: Tensor  # the word that each step wrote at a hypothesis, and
    parent_NKL: Tensor  # the hypothesis that it went on from: back-pointers, so that no history is ever copied
    final_NK: Tensor  # ended hypotheses, best first: what ranks them; -inf where there is none yet
    final_log_NK: Tensor  # their log-probability
    final_length_NK: Tensor  # how many words they have
    final_parent_NK: Tensor  # the hypothesis they ended from
    ended_N: Tensor  # how many have ended
    done_N: Tensor  # True where the sentence is done: a step changes nothing of what is read from its row any more
    coverage_NKT: Tensor  # attention received so far by every source position
    beam_N: Tensor
    shrink_N: Tensor  # 1 where an ended hypothesis takes its place in the beam with it
    n_best_N: Tensor
    alpha_N: Tensor  # exponent of the length penalty
    offset_N: Tensor  # 0 or GNMT's 5
    min_N: Tensor
    max_N: Tensor
    beta_N: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> "SlotState":
        tensors = {name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return SlotState(state=self.state.map(change), **tensors)

    def concatenate(self, other: "SlotState") -> "SlotState":
        """These rows, then the other's, which has the same widths."""
        ours, theirs = vars(self), vars(other)
        tensors = {n: torch.cat([v, theirs[n].to(v.dtype)]) for n, v in ours.items() if isinstance(v, Tensor)}
        state = replace(
            self.state, leaves={n: torch.cat([leaf, other.state.leaves[n]]) for n, leaf in self.state.leaves.items()}
        )
        return SlotState(state=state, **tensors)

    def resize(self, written: int, capacity: dict[str, int]) -> "SlotState":
        """Room for so many written words and source positions."""
        return replace(
            self,
            state=self.state.resize(capacity),
            written_NKL=pad_or_trim(self.written_NKL, 2, written, PAD),
            parent_NKL=pad_or_trim(self.parent_NKL, 2, written, 0),
            coverage_NKT=pad_or_trim(self.coverage_NKT, 2, next(iter(capacity.values())), 0.0),
        )


@dataclass(frozen=True)
class StepRecord:
    """What a step looked at and read out, kept for explanations; `rows` says by key which row a sentence had then."""

    rows: dict[Hashable, int]
    attention_weights: AttentionWeights  # (N, K, ...)
    readout_NKR: Tensor


class SlotTable:
    """A beam search that sentences enter and leave at any step.

    `width` is the widest beam allowed; narrower ones are masked. The caller keeps `active` at what it can afford. `sync_interval`
    is the number of steps from one transfer to the host to the next: by default 1 on a CPU, and 4 elsewhere, where a
    transfer waits for the device. A sentence that is done between two of them is frozen on the device until it leaves,
    so that its result does not depend on `sync_interval`.
    """

    def __init__(self, model: Predictor, width: int, sync_interval: int | None = None) -> None:
        self.model = model
        self.width = width
        self.device = next(model.parameters()).device
        self.requests: list[SearchRequest] = []  # by row: what was asked
        self.lengths: list[dict[str, int]] = []  # by row: source lengths, on the host so that no transfer reads them
        self.memory: Memory | None = None
        self.rows: SlotState | None = None
        self.sync_interval = sync_interval or (1 if self.device.type == "cpu" else 4)
        self.step_count = 0
        self.admitted_at: dict[Hashable, int] = {}  # the clock when a sentence came whose looks are wanted
        self.records: dict[int, StepRecord] = {}  # by the clock, as far back as such a sentence needs them

    @property
    def active(self) -> int:
        return len(self.requests)

    @property
    def padded_positions(self) -> int:
        """Source positions that a step reads, those of padding counted."""
        return 0 if self.memory is None else self.active * sum(self.memory.capacity.values())

    @torch.inference_mode()
    def admit(self, batch: Batch, requests: Sequence[SearchRequest]) -> None:
        """Encode sentences, in a batch of their own, and give each a row."""
        for one in requests:
            assert one.options.beam <= self.width, "a beam wider than the table"
        columns = {name: source.lengths_B.tolist() for name, source in batch.sources.items()}
        memory = self.model.encode(batch.to(self.device))
        rows = self._initial_state(memory, requests)
        if self.rows is not None and self.memory is not None:
            capacity = {s: round_up_capacity(max(n, self.memory.capacity[s])) for s, n in memory.capacity.items()}
            written = max(self.rows.written_NKL.shape[2], rows.written_NKL.shape[2])
            memory = concatenate_memories(self.memory.resize(capacity), memory.resize(capacity))
            rows = self.rows.resize(written, capacity).concatenate(rows.resize(written, capacity))
        else:
            capacity = {s: round_up_capacity(n) for s, n in memory.capacity.items()}
            memory, rows = memory.resize(capacity), rows.resize(rows.written_NKL.shape[2], capacity)
        self.memory, self.rows = memory, rows
        self.requests.extend(requests)
        self.lengths.extend({name: lengths[row] for name, lengths in columns.items()} for row in range(len(requests)))
        self.admitted_at.update({one.key: self.step_count for one in requests if one.with_attention})

    @torch.inference_mode()
    def step(self) -> None:
        """Write one word to every live hypothesis of every sentence that is not done. Never waits for the device."""
        if self.rows is None or self.memory is None:
            return
        self.step_count += 1
        rows, memory = self.rows, self.memory
        state, readout, attention_weights = self.model.step(memory, rows.state, rows.token_NK)
        if self.admitted_at:
            self.records[self.step_count] = StepRecord(
                {one.key: i for i, one in enumerate(self.requests)}, attention_weights, readout
            )
        log_NKV = self.model.log_probabilities(readout)
        log_NKV[..., PAD] = log_NKV[..., BEGIN] = -torch.inf
        end_NK = log_NKV[..., END].clone()
        log_NKV[..., END] = -torch.inf
        coverage_NKT = rows.coverage_NKT
        if any(one.options.coverage_penalty for one in self.requests):
            coverage_NKT = coverage_NKT + attention_weights.attention

        # Candidates that go on: the best K words of each hypothesis, of which the best K go on in all.
        last_N1 = (rows.length_N >= rows.max_N)[:, None]
        k = min(self.width, log_NKV.shape[-1])
        best_NKk, word_NKk = log_NKV.topk(k, -1)
        going_NC = (rows.score_NK[..., None] + best_NKk).flatten(1).masked_fill(last_N1, -torch.inf)
        score_NK, chosen_NK = going_NC.topk(self.width, 1)
        parent_NK, token_NK = chosen_NK // k, word_NKk.flatten(1).gather(1, chosen_NK)

        # Hypotheses that end: those that are among the best of all candidates, so that they push out live ones.
        ending_NK = rows.score_NK + end_NK
        ending_NK = ending_NK.masked_fill((rows.length_N < rows.min_N)[:, None], -torch.inf)
        ranked_NK = torch.cat([score_NK, ending_NK], 1).topk(self.width, 1).values
        worst_N1 = ranked_NK.gather(1, active_beam(rows)[:, None] - 1)
        done_N1 = rows.done_N[:, None]
        ends_NK = (ending_NK >= worst_N1) & (ending_NK > -torch.inf) & ~done_N1
        final_NK = ending_NK / length_penalty_factor(rows, rows.length_N[:, None] + 1) + self._coverage_penalty(
            coverage_NKT, rows
        )
        rows = rank_finished(rows, final_NK.masked_fill(~ends_NK, -torch.inf), ending_NK, ends_NK)

        # Beams narrower than the table, then the survivors' states in their new order.
        score_NK = score_NK.masked_fill(
            torch.arange(self.width, device=self.device) >= active_beam(rows)[:, None], -torch.inf
        )
        # Where a step writes, (N, 1, L). No index: a row that is done may have no position left.
        position_L = torch.arange(rows.written_NKL.shape[2], device=self.device)
        here_N1L = ((position_L == rows.length_N[:, None]) & ~done_N1)[:, None]
        flat_M = (torch.arange(self.active, device=self.device)[:, None] * self.width + parent_NK).flatten()
        rows = replace(
            rows,
            state=state.reorder(flat_M, self.width),  # nothing is read from the state of a row that is done
            token_NK=token_NK,
            score_NK=torch.where(done_N1, rows.score_NK, score_NK),
            length_N=rows.length_N + ~rows.done_N,
            written_NKL=torch.where(here_N1L, token_NK[..., None], rows.written_NKL),
            parent_NKL=torch.where(here_N1L, parent_NK[..., None], rows.parent_NKL),
            coverage_NKT=coverage_NKT.flatten(0, 1).index_select(0, flat_M).unflatten(0, (-1, self.width)),
        )
        self.rows = replace(rows, done_N=finished_mask(rows))

    @torch.inference_mode()
    def pop_finished(self) -> list[SearchResult]:
        """The sentences that are done leave the table."""
        if self.rows is None or self.memory is None or self.step_count % self.sync_interval:
            return []
        leaving = [i for i, finished in enumerate(self.rows.done_N.tolist()) if finished]
        if not leaving:
            return []
        chosen = torch.tensor(leaving, device=self.device)
        gone = self.rows.map(lambda tensor: tensor.index_select(0, chosen))
        ends = read_hypotheses(gone, [self.requests[i].options.n_best for i in leaving])
        results = [
            SearchResult(
                self.requests[i].key,
                [hypothesis for hypothesis, _ in found],
                self._attention_weights(i, [path for _, path in found]) if self.requests[i].with_attention else None,
            )
            for i, found in zip(leaving, ends, strict=True)
        ]
        self._compact([i for i in range(self.active) if i not in set(leaving)])
        return results

    @torch.inference_mode()
    def prefixes(self, keys: Collection[Hashable]) -> dict[Hashable, list[int]]:
        """How the best hypotheses of sentences will begin: the words that all the live ones share with the best ended
        one. They only ever grow."""
        asked = {one.key: i for i, one in enumerate(self.requests) if one.key in keys}
        if self.rows is None or not asked:
            return {}
        rows, index = self.rows, torch.tensor(list(asked.values()), device=self.device)
        best = rows.final_NK[:, 0], rows.final_length_NK[:, 0], rows.final_parent_NK[:, 0]
        written, parent, scores, lengths, final, ended, starts = (
            tensor.index_select(0, index).tolist()
            for tensor in (rows.written_NKL, rows.parent_NKL, rows.score_NK, rows.length_N, *best)
        )
        found: dict[Hashable, list[int]] = {}
        for row, key in enumerate(asked):
            ends = [(at, lengths[row]) for at, score in enumerate(scores[row]) if score > -torch.inf]
            if final[row] > -torch.inf:
                ends.append((starts[row], ended[row]))
            found[key] = common_prefix([tokens_along(written[row], backtrace(parent[row], *end)) for end in ends])
        return found

    @torch.inference_mode()
    def cancel(self, keys: set[Hashable]) -> None:
        """Sentences that nobody waits for any more leave without an answer."""
        self._compact([i for i, one in enumerate(self.requests) if one.key not in keys])

    def _compact(self, rows: list[int]) -> None:
        """Close the gaps; source capacity shrinks to what the longest sentence left needs."""
        if len(rows) == self.active:
            return
        self.requests, self.lengths = [self.requests[i] for i in rows], [self.lengths[i] for i in rows]
        self.admitted_at = {one.key: self.admitted_at[one.key] for one in self.requests if one.with_attention}
        first = min(self.admitted_at.values(), default=self.step_count)
        self.records = {step_count: record for step_count, record in self.records.items() if step_count > first}
        if not rows or self.rows is None or self.memory is None:
            self.rows = self.memory = None
            return
        index = torch.tensor(rows, device=self.device)
        memory = self.memory.map(lambda tensor: tensor.index_select(0, index))
        capacity = {
            source: round_up_capacity(max(1, *(own[source] for own in self.lengths))) for source in memory.capacity
        }
        longest = max(one.max_length for one in self.requests) + 1
        self.memory = memory.resize(capacity)
        self.rows = self.rows.map(lambda tensor: tensor.index_select(0, index)).resize(longest, capacity)

    def _initial_state(self, memory: Memory, requests: Sequence[SearchRequest]) -> SlotState:
        """Rows of sentences of which nothing is written: one live hypothesis each."""
        n, k, longest = memory.rows, self.width, max(one.max_length for one in requests) + 1
        options = [one.options for one in requests]
        state = self.model.start(memory)
        state = state.map(lambda leaf: leaf.expand(-1, k, *leaf.shape[2:]))
        dtype = torch.promote_types(memory.summary_BS.dtype, torch.float32)

        def whole(values: Sequence[int]) -> Tensor:
            return torch.tensor(values, device=self.device)

        def real(values: Sequence[float]) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=self.device)

        empty = torch.full((n, k), -torch.inf, dtype=dtype, device=self.device)
        zeros = torch.zeros(n, k, dtype=torch.long, device=self.device)
        penalties = [o.length_penalty_terms for o in options]
        positions = next(iter(memory.capacity.values()))
        return SlotState(
            state=state,
            token_NK=torch.full_like(zeros, BEGIN),
            score_NK=torch.cat([empty.new_zeros(n, 1), empty[:, 1:]], 1),
            length_N=whole([0] * n),
            written_NKL=zeros.new_full((n, k, longest), PAD),
            parent_NKL=zeros.new_zeros((n, k, longest)),
            final_NK=empty,
            final_log_NK=empty,
            final_length_NK=zeros,
            final_parent_NK=zeros,
            ended_N=whole([0] * n),
            done_N=torch.zeros(n, dtype=torch.bool, device=self.device),
            coverage_NKT=empty.new_zeros(n, k, positions),
            beam_N=whole([o.beam for o in options]),
            shrink_N=whole([int(o.shrinking) for o in options]),
            n_best_N=whole([o.n_best for o in options]),
            alpha_N=real([alpha for alpha, _ in penalties]),
            offset_N=real([offset for _, offset in penalties]),
            min_N=whole([min(one.options.min_length, one.max_length) for one in requests]),
            max_N=whole([one.max_length for one in requests]),
            beta_N=real([o.coverage_penalty for o in options]),
        )  # fmt: skip

    def _coverage_penalty(self, coverage_NKT: Tensor, rows: SlotState) -> Tensor | float:
        """GNMT's coverage penalty, beta * sum_j log(min(coverage_j, 1)), (N, K); 0 where nobody asks for it."""
        if not any(one.options.coverage_penalty for one in self.requests) or self.memory is None:
            return 0.0
        real_N1T = ~next(iter(self.memory.views.values())).padding_BT[:, None]
        logs_NKT = coverage_NKT.clamp(1e-6, 1.0).log() * real_N1T
        return rows.beta_N[:, None] * logs_NKT.sum(-1)

    def _attention_weights(self, row: int, paths: Sequence[list[int]]) -> AttentionWeights | None:
        """What the hypotheses of a row looked at, (1, n, L, ...): read from the steps along their paths."""
        assert self.memory is not None
        if not paths:
            return None
        key, longest = self.requests[row].key, max(len(path) for path in paths)
        first, capacity = self.admitted_at[key] + 1, self.memory.capacity
        attention_weights, readouts = [], []
        for path in paths:
            steps = [min(step, len(path) - 1) for step in range(longest)]  # behind a shorter one's end: its last again
            records = [self.records[first + step] for step in steps]
            places = [(record.rows[key], path[step]) for record, step in zip(records, steps, strict=True)]
            seen = [
                record.attention_weights.of_hypothesis(*place).resize(capacity)
                for record, place in zip(records, places, strict=True)
            ]
            read_out = [record.readout_NKR[place] for record, place in zip(records, places, strict=True)]
            attention_weights.append(AttentionWeights.combine(seen, torch.stack))
            readouts.append(torch.stack(read_out))
        own = self.memory.map(lambda tensor: tensor[row : row + 1])
        together = AttentionWeights.combine(attention_weights, lambda tensors: torch.stack(tensors)[None])
        return self.model.with_explanation_weights(own, torch.stack(readouts)[None], together)


def round_up_capacity(positions: int) -> int:
    """Source positions that a table has room for: few different widths, none far from what is needed."""
    step = 8 if positions <= 64 else 32
    return -(-positions // step) * step


def concatenate_memories(first: Memory, second: Memory) -> Memory:
    """The rows of two memories of the same capacity."""
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
    tokens = {source: torch.cat([ids, second.tokens[source]]) for source, ids in first.tokens.items()}
    return Memory(views, torch.cat([first.summary_BS, second.summary_BS]), tokens)


def active_beam(rows: SlotState) -> Tensor:
    """Live hypotheses that each sentence may have, (N); a beam that has shrunk to nothing is done, and counts as 1."""
    return (rows.beam_N - rows.shrink_N * rows.ended_N).clamp(min=1)


def length_penalty_factor(rows: SlotState, length_NK: Tensor) -> Tensor:
    """What a log-probability is divided by, for outputs of so many words (the end symbol counted)."""
    offset_N1, alpha_N1 = rows.offset_N[:, None], rows.alpha_N[:, None]
    return ((offset_N1 + length_NK) / (offset_N1 + 1)) ** alpha_N1


def finished_mask(rows: SlotState) -> Tensor:
    """Sentences (N) with a full beam of ends, at their limit, or whose wanted ends nothing live can overtake."""
    # A live hypothesis only loses log-probability, and is divided by no more than the longest output's penalty.
    longest_N1 = rows.max_N[:, None] + 1
    bound_N = (rows.score_NK.amax(1, keepdim=True) / length_penalty_factor(rows, longest_N1)).squeeze(1)
    wanted_N = rows.final_NK.gather(1, rows.n_best_N[:, None] - 1).squeeze(1)
    beaten_N = (wanted_N > -torch.inf) & (wanted_N >= bound_N)
    return (rows.ended_N >= rows.beam_N) | (rows.length_N > rows.max_N) | beaten_N


def rank_finished(rows: SlotState, final_NK: Tensor, log_NK: Tensor, ends_NK: Tensor) -> SlotState:
    """The best K of the ends so far and the new ones; of a sentence that is done the ends so far, as they are."""
    hypothesis_NK = torch.arange(final_NK.shape[1], device=final_NK.device).expand_as(final_NK)
    which_NK = torch.cat([rows.final_NK, final_NK], 1).topk(final_NK.shape[1], 1).indices
    which_NK = torch.where(rows.done_N[:, None], hypothesis_NK, which_NK)  # topk may change the order of equal ones

    def pick(old_NK: Tensor, new_NK: Tensor) -> Tensor:
        return torch.cat([old_NK, new_NK], 1).gather(1, which_NK)

    return replace(
        rows,
        final_NK=pick(rows.final_NK, final_NK),
        final_log_NK=pick(rows.final_log_NK, log_NK),
        final_length_NK=pick(rows.final_length_NK, rows.length_N[:, None].expand_as(final_NK)),
        final_parent_NK=pick(rows.final_parent_NK, hypothesis_NK),
        ended_N=rows.ended_N + ends_NK.sum(1),
    )


def read_hypotheses(rows: SlotState, n_best: Sequence[int]) -> list[list[tuple[Hypothesis, list[int]]]]:
    """Every row's best ends, and the path of each; the back-pointers are followed on the host."""
    written, parent = rows.written_NKL.tolist(), rows.parent_NKL.tolist()
    final, logs = rows.final_NK.tolist(), rows.final_log_NK.tolist()
    lengths, starts = rows.final_length_NK.tolist(), rows.final_parent_NK.tolist()
    found: list[list[tuple[Hypothesis, list[int]]]] = []
    for row, wanted in enumerate(n_best):
        ends = []
        for k in range(wanted):
            if final[row][k] == -torch.inf:
                break
            path = backtrace(parent[row], starts[row][k], lengths[row][k])
            ends.append((Hypothesis(tokens_along(written[row], path), final[row][k], logs[row][k]), path))
        found.append(ends)
    return found


def common_prefix(several: Sequence[list[int]]) -> list[int]:
    """What all lists begin with; nothing where there are none."""
    shared = 0
    for tokens in zip(*several, strict=False):
        if len(set(tokens)) > 1:
            break
        shared += 1
    return several[0][:shared] if several else []


def backtrace(parent: list[list[int]], at: int, length: int) -> list[int]:
    """The path of the hypothesis `at` that has so many words: which one it was before each word, and after the last."""
    path = [at]
    for position in range(length - 1, -1, -1):
        path.append(parent[path[-1]][position])
    return path[::-1]


def tokens_along(written: list[list[int]], path: list[int]) -> list[int]:
    """The words along a path."""
    return [written[k][position] for position, k in enumerate(path[1:])]
