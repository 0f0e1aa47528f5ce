"""From text to text with one bundle: encode, search, decode, explain.

The service's engine thread and the offline commands drive the same `SequenceGenerator`.
"""

import re
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import torch

from seq2seq.batch import Batch, collate, stack_images
from seq2seq.bundle import Bundle
from seq2seq.config import ImageGrid
from seq2seq.errors import RequestError, UsageError
from seq2seq.explain import (
    AttentionWeights,
    Explanation,
    SourceExplanation,
    Span,
    explain,
    mean_by_word,
    pool_to_target_words,
    pool_to_words,
    round_matrices,
    sum_by_word,
)
from seq2seq.images.decode import decode_image
from seq2seq.layers.state import pad_or_trim
from seq2seq.model.ensemble import Predictor
from seq2seq.model.model import Model
from seq2seq.search import Hypothesis, SearchOptions, SearchRequest, SearchResult, SlotTable
from seq2seq.text import END, PAD, SPECIAL, UNKNOWN, Decoded, Encoded, Tokenizer
from seq2seq.text.edits import decode_script, encode_script

Item = TypeVar("Item")

NULL = "<null>"  # what a target is filled up with, as a picture shows it
LOOKAHEAD = 16  # table-fulls of requests that offline search reads ahead, to sort them by length


@dataclass(frozen=True)
class Request:
    """What the model is to read, by the name of the source, and how to search for its output.

    A model of several sources does without those that are not named, but for one. An image is pixels (S, S, 3) in
    uint8, or features of regions (T, F), as the model's `ImageGrid` asks. `tokenised`: the texts, and `target`, whose
    words stand between spaces, whatever the model learnt; the others are as people write them.
    """

    texts: dict[str, str]
    options: SearchOptions
    explain: bool = False
    tokenised: frozenset[str] = frozenset()
    images: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class EncodedRequest:
    """A request in the model's terms: the texts that it has in ids; positions of its longest source (words with the end
    symbol, or regions), and of all of them; and how many words its output may have."""

    request: Request
    sources: dict[str, Encoded]
    length: int
    positions: int
    max_length: int


@dataclass(frozen=True)
class Candidate:
    """One output. `score` ranks it (log-probability over length penalty); ids are without the end symbol."""

    text: str
    score: float
    log_probability: float
    ids: list[int]


@dataclass(frozen=True)
class GenerationResult:
    """A request's outputs, best first, and what the best one looked at, where that was asked."""

    candidates: list[Candidate]
    explanation: Explanation | None = None


class SequenceGenerator:
    """One table of slots over one bundle. Not thread-safe, but for `encode`."""

    def __init__(self, bundle: Bundle[Predictor], slots: int = 32, width: int = 5) -> None:
        """`slots` sentences are searched together; `width` is the widest beam that a request may ask for."""
        self.bundle = bundle
        self.slots = slots
        self.table = SlotTable(bundle.model, width)
        self.rows: dict[Hashable, EncodedRequest] = {}

    @property
    def attention_kinds(self) -> list[str]:
        """The kinds of looks that words can be aligned by."""
        return self.bundle.model.attention_kinds

    @property
    def active(self) -> int:
        """Sentences that are being searched."""
        return self.table.active

    @property
    def free(self) -> int:
        """Sentences that could be admitted now."""
        return self.slots - self.active

    @property
    def positions(self) -> tuple[int, int]:
        """Source positions of the sentences that are being searched, and as many as a step reads, padding counted."""
        return sum(row.positions for row in self.rows.values()), self.table.padded_positions

    def encode(self, request: Request) -> EncodedRequest:
        """The request in ids. Raises RequestError for what cannot be searched: nothing to read, an empty text, one that
        is too long, an image of another shape, too wide a beam."""
        card = self.bundle.card
        for given, known in ((request.texts, card.model.texts), (request.images, card.model.images)):
            if unknown := set(given) - set(known):
                raise RequestError(
                    sorted(unknown)[0],
                    "the model has no such source",
                    f"it reads {'; '.join(f'{name}: {source}' for name, source in card.model.sources.items())}",
                )
        if request.options.beam > self.table.width:
            raise RequestError("beam_size", f"{request.options.beam} is more than the {self.table.width} allowed here")
        for name, image in request.images.items():
            check_image_shape(name, image, card.model.images[name])
        if not request.texts and not request.images:
            (first, *_) = card.model.sources
            wanted = "the text is missing" if len(card.model.sources) == 1 else "every source is missing"
            raise RequestError(first, wanted, f"give {' or '.join(card.model.sources)}")
        sources = {name: self._encode_text(name, request) for name in card.model.texts if name in request.texts}
        words = [len(encoded.ids) + 1 for encoded in sources.values()]
        regions = [card.model.images[name].regions for name in request.images]
        limit = request.options.output_limit(max(words) - 1 if words else max(regions))
        positions = [*words, *regions]
        return EncodedRequest(request, sources, max(positions), sum(positions), min(limit, card.limits.target_length))

    def _encode_text(self, name: str, request: Request) -> Encoded:
        """One text in ids."""
        tokenizer, raw = self.bundle.tokenizers[name], name not in request.tokenised
        encoded = tokenizer.encode(to_model_text(tokenizer, request.texts[name], raw), raw)
        limit = self.bundle.card.limits.source_length
        if not encoded.ids:
            raise RequestError(name, "the text is empty")
        if len(encoded.ids) > limit:
            raise RequestError(
                name,
                f"the text has {len(encoded.ids)} tokens, and the model reads at most {limit}",
                "split it into sentences",
            )
        return encoded

    def admit(self, rows: Sequence[tuple[Hashable, EncodedRequest]]) -> None:
        """Let requests into the table, at most `free` of them, each under a key of its own."""
        if not rows:
            return
        waiting = [
            SearchRequest(
                key, row.request.options, row.max_length, row.request.explain or row.request.options.replace_unknown
            )
            for key, row in rows
        ]
        self.table.admit(self._collate([row for _, row in rows]), waiting)
        self.rows.update(rows)

    def _collate(self, rows: Sequence[EncodedRequest]) -> Batch:
        """What the model reads; a source that a row does not have is absent."""
        config = self.bundle.card.model
        texts = {
            name: [row.sources[name].ids if name in row.sources else None for row in rows] for name in config.texts
        }
        images = {
            name: stack_images([row.request.images.get(name) for row in rows], blank_image(grid), grid.regions)
            for name, grid in config.images.items()
        }
        return collate(texts, images=images)

    def step(self) -> list[tuple[Hashable, GenerationResult]]:
        """One word for every live hypothesis; the answers to what finished."""
        self.table.step()
        return [(done.key, self._result(self.rows.pop(done.key), done)) for done in self.table.pop_finished()]

    def prefixes(self, keys: Collection[Hashable]) -> dict[Hashable, list[int]]:
        """How the answers to requests in the table begin, whatever comes; in ids."""
        return self.table.prefixes(keys)

    def cancel(self, keys: Iterable[Hashable]) -> None:
        """Requests that nobody waits for any more leave the table."""
        gone = set(keys) & self.rows.keys()
        self.table.cancel(gone)
        for key in gone:
            del self.rows[key]

    def generate(
        self, requests: Iterable[Request | RequestError], lookahead: int | None = None
    ) -> Iterator[GenerationResult | RequestError]:
        """Answers in the order of the requests, which are read as they are needed.

        A request that cannot be searched is answered by its error, in its place; so is one that is an error already.

        Up to `lookahead` requests are read before the first answer, so that sentences of like length are searched
        together; 1 answers each before the next is read.
        """
        window, source = lookahead or LOOKAHEAD * self.slots, enumerate(iter(requests))
        waiting: list[tuple[int, EncodedRequest]] = []  # shortest first
        ready: dict[int, GenerationResult | RequestError] = {}
        unanswered: deque[int] = deque()
        more = True
        while more or unanswered:
            if more and len(unanswered) <= window // 2:
                for key, request in source:
                    unanswered.append(key)
                    try:
                        if isinstance(request, RequestError):
                            raise request
                        waiting.append((key, self.encode(request)))
                    except RequestError as error:
                        ready[key] = error
                    if len(unanswered) >= window:
                        break
                else:
                    more = False
                waiting.sort(key=lambda one: one[1].length)
            if waiting and (self.active == 0 or self.free >= max(1, self.slots // 4)):
                waiting, chosen = waiting[: -self.free], waiting[-self.free :]
                self.admit(chosen)
            for done, answer in self.step():
                ready[int(str(done))] = answer
            while unanswered and unanswered[0] in ready:
                yield ready.pop(unanswered.popleft())

    def align(
        self,
        pairs: Iterable[tuple[dict[str, str], str]],
        raw: bool = True,
        by: str | None = None,
        vocabulary: bool = False,
    ) -> Iterator[Explanation]:
        """What given outputs look at, by forced decoding: texts by source, and the output, in order. Images are absent.

        `raw`: texts as people write them; otherwise their words stand between spaces, also where the model was trained
        on raw text, which it is then given. `by` is the kind of looks that words are aligned by (`attention_kinds`); None: the
        best that the model has. `vocabulary`: as `Model.forced_attention` has it.
        """
        for group in batched(pairs, self.slots):
            targets = self.read_texts("target", [target for _, target in group], raw)
            if source := self.bundle.tokenizers["target"].config.operations_on:
                both = [(texts.get(source, ""), text) for texts, text in group]
                targets = [replace(t, encoded=self._encode_script(*b, raw)) for t, b in zip(targets, both, strict=True)]
            given = [
                {
                    name: self.read_texts(name, [texts[name]], raw)[0]
                    for name in self.bundle.card.model.texts
                    if name in texts
                }
                for texts, _ in group
            ]
            batch = self._collate_pairs(given, targets)
            assert batch.target_BL is not None
            with torch.inference_mode():
                device = self.table.device
                memory = self.bundle.model.encode(batch.to(device))
                attention_weights = self.bundle.model.forced_attention(
                    memory, batch.target_BL.to(device)[:, None], vocabulary
                )
            for i, (own, target) in enumerate(zip(given, targets, strict=True)):
                yield self._explain(own, target, attention_weights.of_sentence(i, 1), by)

    def _encode_script(self, mt: str, target: str, raw: bool) -> Encoded:
        """The operations that make an output, as `read_texts` has texts."""
        tokenizer = self.bundle.tokenizers["target"]
        return encode_script(tokenizer, to_model_text(tokenizer, mt, raw), to_model_text(tokenizer, target, raw), raw)

    def _collate_pairs(self, given: "Sequence[dict[str, TextWithWords]]", targets: "Sequence[TextWithWords]") -> Batch:
        """Texts and outputs as a batch, without images."""
        config = self.bundle.card.model
        texts = {name: [own[name].encoded.ids if name in own else None for own in given] for name in config.texts}
        images = {
            name: stack_images([None] * len(given), blank_image(grid), grid.regions)
            for name, grid in config.images.items()
        }
        return collate(texts, [text.encoded.ids for text in targets], images=images)

    def read_texts(self, name: str, texts: Sequence[str], raw: bool = True) -> list["TextWithWords"]:
        """Texts of a source, or of the target, as the model is given them, with their words; `raw` as in `align`."""
        tokenizer = self.bundle.tokenizers[name]
        encoded = tokenizer.encode_batch([to_model_text(tokenizer, text, raw) for text in texts], raw)
        return [to_text_with_words(tokenizer, text, ids, raw) for text, ids in zip(texts, encoded, strict=True)]

    def explain_with_nulls(self, texts: dict[str, str], target: str, raw: bool = True) -> "NullExplanation":
        """What an output's words look at, then its end symbol, then <null> until there are as many steps as the source
        has tokens (Kiyono et al. 2018, figures 2 and 3); the source's last column is its end symbol.

        Raises CallError for a model without alignment module.
        """
        model = self.bundle.model
        if not isinstance(model, Model) or model.alignment is None:
            raise UsageError(NULL, "the model has no alignment module, which alone goes on over it", "train uam")
        sources = {name: self.read_texts(name, [text], raw)[0] for name, text in texts.items()}
        (written,) = self.read_texts("target", [target], raw)
        (first, *_) = sources
        steps = len(written.encoded.ids) + 1
        nulls = max(0, len(sources[first].encoded.ids) + 1 - steps)
        batch = self._collate_pairs([sources], [written])
        assert batch.target_BL is not None
        target_1KL = pad_or_trim(batch.target_BL, 1, steps + nulls, PAD)[:, None].to(self.table.device)
        with torch.inference_mode():
            memory = model.encode(batch.to(self.table.device))
            attention_weights = model.forced_attention(memory, target_1KL)
            log_q = model.source_log_probabilities(model.teacher_forced(memory, target_1KL)[0])
        assert log_q is not None
        sources[first] = sources[first].append_symbols([SPECIAL[END]])
        written = written.append_symbols([SPECIAL[END]] + [NULL] * nulls)
        chosen = log_q[0, 0].argmax(-1).tolist()
        tokenizer = self.bundle.tokenizers[first]
        source_predictions = []
        for start, end in written.words:
            pieces = [j for j, place in enumerate(written.encoded.offsets) if place[0] < end and start < place[1]]
            ids = list(dict.fromkeys(chosen[j] for j in pieces))
            source_predictions.append(tokenizer.decode(ids) or " ".join(SPECIAL[i] for i in ids))
        return NullExplanation(self._explain(sources, written, attention_weights, "uam"), source_predictions)

    def _result(self, row: EncodedRequest, done: SearchResult) -> GenerationResult:
        """The text of every hypothesis, with its unknown words replaced where asked."""
        replaces = row.request.options.replace_unknown
        sources = self._source_texts(row) if replaces or row.request.explain else {}
        candidates = []
        for k, hypothesis in enumerate(done.hypotheses):
            replaced = self._replace_unknown(sources, hypothesis, done.attention_weights, k) if replaces else {}
            written = self._decode(row, hypothesis.ids, replaced)
            candidates.append(Candidate(written.text, hypothesis.score, hypothesis.log_probability, hypothesis.ids))
            if k == 0 and row.request.explain and done.attention_weights is not None:
                words = find_words(
                    self.bundle.tokenizers["target"], written.text, "target" not in row.request.tokenised
                )
                output = TextWithWords(to_spans(written.text, words), words, Encoded(hypothesis.ids, written.offsets))
                explanation = self._explain(sources, output, done.attention_weights.of_sentence(0, 1))
        return GenerationResult(candidates, explanation if row.request.explain else None)

    def _decode(self, row: EncodedRequest, ids: Sequence[int], replaced: dict[int, str]) -> Decoded:
        """The text that ids stand for, and the part of it that each became; operations have been applied."""
        tokenizer, request = self.bundle.tokenizers["target"], row.request
        raw = "target" not in request.tokenised
        if (source := tokenizer.config.operations_on) is None:
            written = tokenizer.decode_with_offsets(ids, replaced, raw)
        else:
            mt = to_model_text(tokenizer, request.texts.get(source, ""), source not in request.tokenised)
            written = decode_script(tokenizer, ids, mt, replaced, raw)
        return tokenizer.tokenize(written) if needs_detokenizing(tokenizer, raw) else written

    def _replace_unknown(
        self,
        sources: dict[str, "TextWithWords"],
        hypothesis: Hypothesis,
        attention_weights: AttentionWeights | None,
        k: int,
    ) -> dict[int, str]:
        """For every unknown word of an output, by position: the source word that it most looked at."""
        assert attention_weights is not None
        if not sources:
            return {}
        (name, source), *_ = sources.items()
        replaced = {}
        for position, word in enumerate(hypothesis.ids):
            if word == UNKNOWN:
                weights = attention_weights.weights[name, "attention"][0, k, position, : len(source.encoded.ids)]
                start, end = source.encoded.offsets[int(weights.argmax())]
                words = zip(source.display_words, source.words, strict=True)
                replaced[position] = next((span.text for span, (a, b) in words if start < b and a < end), "")
        return replaced

    def _source_texts(self, row: EncodedRequest) -> dict[str, "TextWithWords"]:
        """A request's texts with their words."""
        texts, tokenised = row.request.texts, row.request.tokenised
        return {
            name: to_text_with_words(self.bundle.tokenizers[name], texts[name], encoded, name not in tokenised)
            for name, encoded in row.sources.items()
        }

    def _explain(
        self,
        sources: dict[str, "TextWithWords"],
        output: "TextWithWords",
        attention_weights: AttentionWeights,
        by: str | None = None,
    ) -> Explanation:
        """The looks of one output, between words; of an image, between words and regions."""
        config = self.bundle.card.model
        places = (output.encoded.offsets, output.words)
        name = next((name for name in config.texts if name in sources), None)
        source = TextWithWords([], [], Encoded([], [])) if name is None else sources[name]
        pieces = (source.encoded.offsets, output.encoded.offsets, source.words, output.words)
        found = {} if name is None else attention_weights.matrices(name)
        fertility = None if name is None else attention_weights.fertility.get(name)
        return explain(
            source.display_words,
            output.display_words,
            {kind: pool_to_words(weights[0, 0].cpu(), *pieces) for kind, weights in found.items()},
            None if attention_weights.gate is None else mean_by_word(attention_weights.gate[0, 0].cpu(), *places),
            None if fertility is None else sum_by_word(fertility[0].cpu(), source.encoded.offsets, source.words),
            by,
            self._explain_sources(sources, output, attention_weights) if len(config.sources) > 1 else None,
            {key: mean_by_word(weight[0, 0].cpu(), *places) for key, weight in attention_weights.source_weights.items()}
            or None,
        )

    def _explain_sources(
        self, sources: dict[str, "TextWithWords"], output: "TextWithWords", attention_weights: AttentionWeights
    ) -> dict[str, SourceExplanation]:
        """What was looked at in each source that is there."""
        config = self.bundle.card.model
        every = {}
        for name, text in sources.items():
            pieces = (text.encoded.offsets, output.encoded.offsets, text.words, output.words)
            found = {
                kind: pool_to_words(weights[0, 0].cpu(), *pieces)
                for kind, weights in attention_weights.matrices(name).items()
            }
            every[name] = SourceExplanation(words=text.display_words, matrices=round_matrices(found))
        for name, grid in config.images.items():
            weights_LT = attention_weights.weights[name, "attention"][0, 0, :, : grid.regions].cpu()
            if weights_LT.any():
                found = {"attention": pool_to_target_words(weights_LT, output.encoded.offsets, output.words)}
                every[name] = SourceExplanation(grid=(grid.rows, grid.columns), matrices=round_matrices(found))
        return every


@dataclass(frozen=True)
class TextWithWords:
    """A text as a model is given it: its pieces, where its words lie among them, and these words as they are shown.

    Shown words lie in the text as it came, the others in the one that the pieces are of: `to_model_text`.
    """

    display_words: list[Span]
    words: list[tuple[int, int]]
    encoded: Encoded

    def append_symbols(self, symbols: Sequence[str]) -> "TextWithWords":
        """The same with symbols behind its end, a word and a piece each."""
        end = max([0, *(span.end for span in self.display_words), *(end for _, end in self.encoded.offsets)])
        places = [(end + i, end + i + 1) for i in range(len(symbols))]
        behind = [Span(text=symbol, start=end, end=end) for symbol in symbols]
        encoded = replace(self.encoded, offsets=[*self.encoded.offsets, *places])
        return TextWithWords([*self.display_words, *behind], [*self.words, *places], encoded)


@dataclass(frozen=True)
class NullExplanation:
    """An explanation that goes on behind the end of the output, and for each of its rows what the alignment module
    takes for its source, out of the whole vocabulary."""

    explanation: Explanation
    source_predictions: list[str]


def read_image(grid: ImageGrid, data: bytes, where: str = "image") -> np.ndarray:
    """A picture from its file's bytes, as a model reads it.

    Raises ImageError; RequestError for a model without network, which reads given features only.
    """
    if grid.network is None:
        raise RequestError(
            where, f"the model has no network for pixels: it reads {grid}", "give it features made by the same network"
        )
    return decode_image(data, grid.network.size, where)


def blank_image(grid: ImageGrid) -> np.ndarray:
    """An image of the shape and type that a model reads."""
    if grid.network is None:
        return np.zeros((grid.regions, grid.features), np.float32)
    return np.zeros((grid.network.size, grid.network.size, 3), np.uint8)


def check_image_shape(name: str, image: np.ndarray, grid: ImageGrid) -> None:
    """Raises RequestError for an image that is not what the model reads."""
    wanted = blank_image(grid)
    if (image.shape, image.dtype) != (wanted.shape, wanted.dtype):
        shape = " x ".join(map(str, image.shape))
        raise RequestError(name, f"the image is {shape} of {image.dtype}, and the model reads {grid}")


def needs_detokenizing(tokenizer: Tokenizer, raw: bool) -> bool:
    """Whether words that stand between spaces (not `raw`) are put together for a model, which learnt raw text."""
    return not raw and not tokenizer.config.tokenised


def to_model_text(tokenizer: Tokenizer, text: str, raw: bool) -> str:
    """A text in the form that the model learnt."""
    return tokenizer.detokenize(text).text if needs_detokenizing(tokenizer, raw) else text


def find_words(tokenizer: Tokenizer, text: str, raw: bool) -> list[tuple[int, int]]:
    """Where the words of a text lie: between spaces unless it is as people write it."""
    if needs_detokenizing(tokenizer, raw):
        return [match.span() for match in re.finditer(r"\S+", text)]
    return tokenizer.word_spans(text, raw)


def to_text_with_words(tokenizer: Tokenizer, text: str, encoded: Encoded, raw: bool) -> TextWithWords:
    """A text that is in ids already, with its words."""
    words = find_words(tokenizer, text, raw)
    pieced = tokenizer.detokenize(text).offsets if needs_detokenizing(tokenizer, raw) else words
    return TextWithWords(to_spans(text, words), pieced, encoded)


def to_spans(text: str, words: Sequence[tuple[int, int]]) -> list[Span]:
    """Words with their places in a text."""
    return [Span(text=text[start:end], start=start, end=end) for start, end in words]


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last one shorter."""
    group: list[Item] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
