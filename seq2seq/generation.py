"""From text to text with one bundle: encode, search, decode, explain.

The service's engine thread and the offline commands drive the same `Generation`.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from seq2seq.batch import collate
from seq2seq.bundle import Bundle
from seq2seq.ensemble import Predictor
from seq2seq.errors import RequestError
from seq2seq.looks import Explanation, Looks, Span, by_words, explain, means, sums
from seq2seq.search import Finished, Hypothesis, SearchOptions, SlotTable, Waiting
from seq2seq.text import UNKNOWN, Encoded

Item = TypeVar("Item")

LOOKAHEAD = 16  # table-fulls of requests that offline search reads ahead, to sort them by length


@dataclass(frozen=True)
class Request:
    """A text for every source of the model, and how to search for its output.

    `raw` says that the texts are as people write them; False, that they are tokenised as the training data was.
    """

    texts: dict[str, str]
    options: SearchOptions
    explain: bool = False
    raw: bool = True


@dataclass(frozen=True)
class Row:
    """A request in the model's terms."""

    request: Request
    sources: dict[str, Encoded]
    longest: int

    @property
    def length(self) -> int:
        """Words of its longest source, the end symbol counted."""
        return max(len(encoded.ids) for encoded in self.sources.values()) + 1


@dataclass(frozen=True)
class Candidate:
    """One output. `score` ranks it (log-probability over length penalty); ids are without the end symbol."""

    text: str
    score: float
    log_probability: float
    ids: list[int]


@dataclass(frozen=True)
class Answer:
    """A request's outputs, best first, and what the best one looked at, where that was asked."""

    candidates: list[Candidate]
    explanation: Explanation | None = None


class Generation:
    """One table of slots over one bundle. Not thread-safe, but for `encode`."""

    def __init__(self, bundle: Bundle[Predictor], slots: int = 32, width: int = 5) -> None:
        """`slots` sentences are searched together; `width` is the widest beam that a request may ask for."""
        self.bundle = bundle
        self.slots = slots
        self.table = SlotTable(bundle.model, width)
        self.rows: dict[Hashable, Row] = {}

    @property
    def kinds(self) -> list[str]:
        """The kinds of looks that words can be aligned by."""
        return self.bundle.model.kinds

    @property
    def live(self) -> int:
        """Sentences that are being searched."""
        return self.table.live

    @property
    def free(self) -> int:
        """Sentences that could be admitted now."""
        return self.slots - self.live

    def encode(self, request: Request) -> Row:
        """The request in ids. Raises RequestError for what cannot be searched: no text, too long, too wide a beam."""
        card = self.bundle.card
        if unknown := set(request.texts) - set(card.model.sources):
            raise RequestError(
                sorted(unknown)[0], "the model has no such source", f"it reads {', '.join(card.model.sources)}"
            )
        if request.options.beam > self.table.width:
            raise RequestError("beam_size", f"{request.options.beam} is more than the {self.table.width} allowed here")
        sources = {}
        for name in card.model.sources:
            if name not in request.texts:
                raise RequestError(name, "the text is missing")
            encoded = self.bundle.tokenizers[name].encode(request.texts[name], raw=request.raw)
            if not encoded.ids:
                raise RequestError(name, "the text is empty")
            if len(encoded.ids) > card.limits.source_length:
                raise RequestError(
                    name,
                    f"the text has {len(encoded.ids)} tokens, and the model reads at most {card.limits.source_length}",
                    "split it into sentences",
                )
            sources[name] = encoded
        longest = request.options.longest(max(len(encoded.ids) for encoded in sources.values()))
        return Row(request, sources, min(longest, card.limits.target_length))

    def admit(self, rows: Sequence[tuple[Hashable, Row]]) -> None:
        """Let requests into the table, at most `free` of them, each under a key of its own."""
        if not rows:
            return
        batch = collate({name: [row.sources[name].ids for _, row in rows] for name in self.bundle.card.model.sources})
        waiting = [
            Waiting(key, row.request.options, row.longest, row.request.explain or row.request.options.replace_unknown)
            for key, row in rows
        ]
        self.table.admit(batch, waiting)
        self.rows.update(rows)

    def advance(self) -> list[tuple[Hashable, Answer]]:
        """One word for every live hypothesis; the answers to what finished."""
        self.table.step()
        return [(done.key, self._answer(self.rows.pop(done.key), done)) for done in self.table.retire()]

    def cancel(self, keys: Iterable[Hashable]) -> None:
        """Requests that nobody waits for any more leave the table."""
        gone = set(keys) & self.rows.keys()
        self.table.cancel(gone)
        for key in gone:
            del self.rows[key]

    def answers(self, requests: Iterable[Request], lookahead: int | None = None) -> Iterator[Answer | RequestError]:
        """Answers in the order of the requests, which are read as they are needed.

        A request that cannot be searched is answered by its error, in its place.

        Up to `lookahead` requests are read before the first answer, so that sentences of like length are searched
        together; 1 answers each before the next is read.
        """
        window, source = lookahead or LOOKAHEAD * self.slots, enumerate(iter(requests))
        waiting: list[tuple[int, Row]] = []  # shortest first
        ready: dict[int, Answer | RequestError] = {}
        unanswered: deque[int] = deque()
        more = True
        while more or unanswered:
            if more and len(unanswered) <= window // 2:
                for key, request in source:
                    unanswered.append(key)
                    try:
                        waiting.append((key, self.encode(request)))
                    except RequestError as error:
                        ready[key] = error
                    if len(unanswered) >= window:
                        break
                else:
                    more = False
                waiting.sort(key=lambda one: one[1].length)
            if waiting and (self.live == 0 or self.free >= max(1, self.slots // 4)):
                waiting, chosen = waiting[: -self.free], waiting[-self.free :]
                self.admit(chosen)
            for done, answer in self.advance():
                ready[int(str(done))] = answer
            while unanswered and unanswered[0] in ready:
                yield ready.pop(unanswered.popleft())

    def align(
        self, pairs: Iterable[tuple[dict[str, str], str]], raw: bool = True, by: str | None = None
    ) -> Iterator[Explanation]:
        """What given outputs look at, by forced decoding: texts by source, and the output, in order.

        `by` is the kind of looks that words are aligned by (`kinds`); None: the best that the model has.
        """
        for group in groups(pairs, self.slots):
            sources = {
                name: self.bundle.tokenizers[name].encode_batch([texts[name] for texts, _ in group], raw)
                for name in self.bundle.card.model.sources
            }
            targets = self.bundle.tokenizers["target"].encode_batch([target for _, target in group], raw)
            batch = collate({n: [e.ids for e in rows] for n, rows in sources.items()}, [e.ids for e in targets])
            assert batch.target_BL is not None
            with torch.inference_mode():
                device = self.table.device
                memory = self.bundle.model.encode(batch.to(device))
                looks = self.bundle.model.looks(memory, batch.target_BL.to(device)[:, None])
            for i, (texts, target) in enumerate(group):
                own = looks.pick(i, 1)
                rows = {name: encoded[i] for name, encoded in sources.items()}
                yield self._explain(texts, rows, target, targets[i].offsets, own, raw, by)

    def _answer(self, row: Row, done: Finished) -> Answer:
        """The text of every hypothesis, with its unknown words replaced where asked."""
        tokenizer, raw = self.bundle.tokenizers["target"], row.request.raw
        candidates = []
        for k, hypothesis in enumerate(done.hypotheses):
            replaced = self._replace(row, hypothesis, done.looks, k) if row.request.options.replace_unknown else {}
            text = tokenizer.decode(hypothesis.ids, replaced, raw=raw)
            candidates.append(Candidate(text, hypothesis.score, hypothesis.log_probability, hypothesis.ids))
            if k == 0 and row.request.explain and done.looks is not None:
                written = tokenizer.decode_with_offsets(hypothesis.ids, replaced, raw=raw)
                best = done.looks.pick(0, 1)
                explanation = self._explain(
                    row.request.texts, row.sources, written.text, written.offsets, best, row.request.raw
                )
        return Answer(candidates, explanation if row.request.explain else None)

    def _replace(self, row: Row, hypothesis: Hypothesis, looks: Looks | None, k: int) -> dict[int, str]:
        """For every unknown word of an output, by position: the source word that it most looked at."""
        assert looks is not None
        (name, encoded), *_ = row.sources.items()
        text = row.request.texts[name]
        spans = self.bundle.tokenizers[name].words(text, row.request.raw)
        replaced = {}
        for position, word in enumerate(hypothesis.ids):
            if word == UNKNOWN:
                weights = looks.weights[name, "attention"][0, k, position, : len(encoded.ids)]
                start, end = encoded.offsets[int(weights.argmax())]
                first, last = next(((a, b) for a, b in spans if start < b and a < end), (start, end))
                replaced[position] = text[first:last]
        return replaced

    def _explain(
        self,
        texts: dict[str, str],
        sources: dict[str, Encoded],
        output: str,
        offsets: Sequence[tuple[int, int]],
        looks: Looks,
        raw: bool,
        by: str | None = None,
    ) -> Explanation:
        """The looks of one output, between words."""
        (name, encoded), *_ = sources.items()
        source_words = self.bundle.tokenizers[name].words(texts[name], raw)
        target_words = self.bundle.tokenizers["target"].words(output, raw)
        pieces = (encoded.offsets, offsets, source_words, target_words)
        matrices = {kind: by_words(weights[0, 0].cpu(), *pieces) for kind, weights in looks.matrices().items()}
        gate = None if looks.gate is None else means(looks.gate[0, 0].cpu(), offsets, target_words)
        fertility = looks.fertility.get(name)
        return explain(
            spans(texts[name], source_words),
            spans(output, target_words),
            matrices,
            gate,
            None if fertility is None else sums(fertility[0].cpu(), encoded.offsets, source_words),
            by,
        )


def spans(text: str, words: Sequence[tuple[int, int]]) -> list[Span]:
    """Words with their places in a text."""
    return [Span(text=text[start:end], start=start, end=end) for start, end in words]


def groups(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last one shorter."""
    group: list[Item] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
