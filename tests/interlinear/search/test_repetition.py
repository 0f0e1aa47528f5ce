"""Limits on repetition: a search with them chooses what a plain loop over words chooses, and nothing else changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch

from interlinear.batch import collate
from interlinear.generation.forced_decoding import forced_log_probabilities
from interlinear.models.model import Model
from interlinear.search import SearchOptions, SearchRequest, SearchResult, SlotTable
from interlinear.search.captured import CapturedStep
from interlinear.search.processors.processor import JOINED, OTHER, WORD
from interlinear.search.processors.repetition import SAID_OF
from interlinear.text import END
from tests.interlinear.search.slot_table import VOCABULARY
from tests.interlinear.search.test_captured import Recomputed
from tests.interlinear.systems import model_of

KINDS = [OTHER] * 5 + [WORD, WORD, JOINED, JOINED]
LONGEST = 12
SENTENCES = [[4, 6, 5, 7], [8, 8, 4], [5, 6, 7, 8, 4, 5], [7]]
LIMITS = [
    SearchOptions(beam=1, length_penalty="none", min_length=9),
    SearchOptions(beam=1, length_penalty="none", min_length=9, repetition_guard=False, no_repeat_ngram_size=1),
    SearchOptions(beam=1, length_penalty="none", min_length=9, repetition_guard=False, no_repeat_ngram_size=3),
    SearchOptions(beam=1, length_penalty="none", min_length=9, repetition_guard=False, repetition_penalty=1.7),
    SearchOptions(beam=1, length_penalty="none", min_length=9, no_repeat_ngram_size=2, repetition_penalty=1.3),
    SearchOptions(beam=1, length_penalty="none", min_length=9, repetition_guard=False),
]


def words_of(ids: Sequence[int]) -> tuple[int, ...]:
    """The words of a source: two tokens each, the last token and the end symbol none."""
    return tuple(i // 2 if i < len(ids) - 1 else -1 for i in range(len(ids)))


@dataclass
class Plain:
    """An output that is written word by word, with what the limits have to know."""

    options: SearchOptions
    words: tuple[int, ...]
    ids: list[int] = field(default_factory=list)
    said: list[tuple[tuple[int, ...], int]] = field(default_factory=list)  # words with the source word; the last grows

    def source_word(self, attention: Sequence[float]) -> int:
        shares = {
            w: sum(a for a, one in zip(attention, self.words, strict=False) if one == w) for w in {*self.words} - {-1}
        }
        best = max(sorted(shares), key=shares.__getitem__, default=-1)
        return best if shares.get(best, 0) >= SAID_OF else -1

    def allowed(self, token: int, attention: Sequence[float]) -> bool:
        size, ids = self.options.no_repeat_ngram_size, [*self.ids, token]
        grams = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)] if size else []
        if grams and grams[-1] in grams[:-1]:
            return False
        if not self.options.repetition_guard or KINDS[token] == OTHER:
            return True
        if KINDS[token] == JOINED:
            begun, source = self.said[-1] if self.said else ((), -1)
            return source < 0 or ((*begun, token), source) not in self.said[:-1]
        return self.source_word(attention) < 0 or ((token,), self.source_word(attention)) not in self.said

    def write(self, token: int, attention: Sequence[float]) -> None:
        self.ids.append(token)
        if KINDS[token] == JOINED and self.said:
            word, source = self.said[-1]
            self.said[-1] = ((*word, token), source)
        else:
            self.said.append(((token,), -1 if KINDS[token] == JOINED else self.source_word(attention)))


def plainly(model: Model, ids: list[int], options: SearchOptions) -> list[int]:
    """The greedy output, each word chosen from the log-probabilities of forced decoding."""
    output = Plain(options, words_of(ids))
    while len(output.ids) < LONGEST:
        tokens = [END, *range(1, 2), *range(4, VOCABULARY)]
        outputs = [[*output.ids, token] for token in tokens if token != END] + [output.ids]
        batch = collate({"source": [ids] * len(outputs)}, outputs)
        memory, target = model.encode(batch), batch.target_BL[:, None]
        logs = forced_log_probabilities(model, memory, target)[:, 0, len(output.ids)].tolist()
        attention = model.forced_attention(memory, target).attention[0, 0, len(output.ids)].tolist()
        of_token = dict(zip([t for t in tokens if t != END] + [END], logs, strict=True))
        scores = {
            token: log * (options.repetition_penalty if token in output.ids else 1)
            for token, log in of_token.items()
            if token != END and output.allowed(token, attention)
        }
        if not scores or len(output.ids) >= options.min_length:
            scores[END] = of_token[END]
        best = max(scores, key=scores.__getitem__)
        if best == END:
            break
        output.write(best, attention)
    return output.ids


def search(
    table: SlotTable, requests: Sequence[tuple[list[int], SearchOptions]], **fields: object
) -> list[SearchResult]:
    """Search sentences, each admitted one step after the one before."""
    done: list[SearchResult] = []
    waiting = [
        (ids, SearchRequest(key, options, LONGEST, source_words=words_of(ids), **fields))  # type: ignore[arg-type]
        for key, (ids, options) in enumerate(requests)
    ]
    while len(done) < len(requests):
        if waiting:
            ids, request = waiting.pop(0)
            table.admit(collate({"source": [ids]}), [request])
        table.step()
        done += table.pop_finished()
    return sorted(done, key=lambda one: int(str(one.key)))


@torch.inference_mode()
@pytest.mark.parametrize("step", ["plain", "captured"])
@pytest.mark.parametrize("system", ["rnnsearch"])
def test_greedy_outputs_are_those_of_a_plain_loop(system: str, step: str) -> None:
    """Sentences with different limits, in one table, and in steps that are captured for a size."""
    model = model_of(system)
    requests = [(ids, options) for ids in SENTENCES for options in LIMITS]
    steps = {"search_step": CapturedStep(capture=Recomputed())} if step == "captured" else {}
    table = SlotTable(model, 3, kind_V=torch.tensor(KINDS, dtype=torch.int8), **steps)
    found = [result.hypotheses[0].ids for result in search(table, requests)]
    expected = [plainly(model, *request) for request in requests]
    assert found == expected
    unlimited = [expected[i] for i in range(len(LIMITS) - 1, len(expected), len(LIMITS))]
    for i in range(len(LIMITS) - 1):
        assert [expected[j] for j in range(i, len(expected), len(LIMITS))] != unlimited, f"{LIMITS[i]} limits nothing"
