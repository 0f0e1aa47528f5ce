"""Text generation with one bundle: encode requests, search, decode outputs, explain them, and align given pairs.

Both the service's engine thread and the offline commands use `SequenceGenerator`.
"""

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import torch

from seq2seq.alignment import symmetrized_explanation
from seq2seq.attention_reading import POSTERIOR, AttentionReading
from seq2seq.batch import Batch, collate, pad, stack_images
from seq2seq.bundle import Bundle
from seq2seq.errors import RequestError, UsageError
from seq2seq.explain import (
    Explanation,
    SourceExplanation,
    TextWithWords,
    explain,
    find_words,
    mean_by_word,
    needs_detokenizing,
    pool_to_target_words,
    pool_to_words,
    round_matrices,
    sum_by_word,
    to_model_text,
    to_spans,
    to_text_with_words,
    word_probabilities,
)
from seq2seq.images.inputs import blank_image, check_image_shape
from seq2seq.layers.state import pad_or_trim
from seq2seq.model.attention_weights import AttentionWeights
from seq2seq.model.ensemble import Predictor
from seq2seq.model.model import Model
from seq2seq.search import Constraint, Hypothesis, SearchOptions, SearchRequest, SearchResult, SlotTable
from seq2seq.search.constraints import token_count
from seq2seq.terms import Term, check_terms, only_terms
from seq2seq.terms.encoding import term_constraints
from seq2seq.terms.explained import explain_copy, explain_terms
from seq2seq.terms.substitution import PlacedTerm, placed_terms, stand_ins, substitute
from seq2seq.terms.term import TERMS
from seq2seq.text import END, PAD, SPECIAL, UNKNOWN, Decoded, Encoded, Tokenizer
from seq2seq.text.edits import decode_script, encode_script

Item = TypeVar("Item")

NULL = "<null>"  # how figures label the positions that pad a target
WORD_BEGIN = "▁"  # the piece of a word's begin alone
LOOKAHEAD = 16  # offline search reads this many times the number of slots ahead, to sort requests by length


@dataclass(frozen=True)
class Request:
    """Model inputs by source name, and the search options.

    A model with several sources accepts requests without some of them, but needs at least one. An image is uint8
    pixels (S, S, 3) or features of regions (T, F), depending on the model's `ImageGrid`. `tokenised` names the texts
    (and `target`) whose words are separated by spaces, independent of the model's training data; the others are raw.
    `terms`: spans of the first text, in its order, with the exact text that stands for each in the output.
    """

    texts: dict[str, str]
    options: SearchOptions
    explain: bool = False
    tokenised: frozenset[str] = frozenset()
    images: dict[str, np.ndarray] = field(default_factory=dict)
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True)
class EncodedRequest:
    """A request with its texts as ids.

    length: positions of the longest source (tokens with the end symbol, or regions).
    positions: positions of all sources together.
    max_length: maximum number of output tokens.
    constraints: the tokens of its terms.

    A request whose text is its own translation (`is_copied`) has no sources.
    """

    request: Request
    sources: dict[str, Encoded]
    length: int
    positions: int
    max_length: int
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """One output. `score` is the log-probability divided by the length penalty; `ids` exclude the end symbol."""

    text: str
    score: float
    log_probability: float
    ids: list[int]


@dataclass(frozen=True)
class GenerationResult:
    """A request's outputs, best first, and the explanation of the best one if requested."""

    candidates: list[Candidate]
    explanation: Explanation | None = None


@dataclass(frozen=True)
class NullExplanation:
    """An explanation that continues after the end of the output, and for each of its rows the source words that the
    alignment module predicts from the whole vocabulary."""

    explanation: Explanation
    source_predictions: list[str]


TextPair = tuple[dict[str, TextWithWords], TextWithWords]  # the texts by source, and an output


class SequenceGenerator:
    """Generates outputs with one bundle, using one slot table. Only `encode` is thread-safe."""

    def __init__(
        self,
        bundle: Bundle[Predictor],
        slots: int = 32,
        width: int = 5,
        reverse: "SequenceGenerator | None" = None,
    ) -> None:
        """`slots`: number of sentences searched together; `width`: the largest beam that a request may use; `reverse`:
        a model of the opposite direction, with which explanations have the links of both (`check_opposite`)."""
        self.bundle = bundle
        self.reverse = reverse
        self.slots = slots
        joined_V = joined_words(bundle.tokenizers["target"], bundle.card.model.target.vocabulary)
        self.table = SlotTable(bundle.model, width, search_step=bundle.search_step, joined_V=joined_V)
        self.rows: dict[Hashable, EncodedRequest] = {}
        self._copied: list[Hashable] = []  # requests that are answered at the next step without a search

    @property
    def attention_kinds(self) -> list[str]:
        """The kinds of attention weights that alignments can be computed from."""
        return self.bundle.model.attention_kinds

    @property
    def best_reading(self) -> AttentionReading:
        """The weights by which words are aligned, unless others are asked for."""
        return self.bundle.model.best_reading

    @property
    def active(self) -> int:
        """Number of sentences in the table."""
        return self.table.active

    @property
    def free(self) -> int:
        """Number of free slots."""
        return self.slots - self.active

    @property
    def positions(self) -> tuple[int, int]:
        """Source positions of the sentences in the table, without and with padding."""
        searched = (row.positions for key, row in self.rows.items() if key not in self._copied)
        return sum(searched), self.table.padded_positions

    def encode(self, request: Request) -> EncodedRequest:
        """Convert a request's texts to ids.

        Raises RequestError for a request without sources, an unknown source, an empty or too long text, an image with
        the wrong shape or dtype, a beam larger than `width`, an image alone if a shortlist limits the words, or terms
        that overlap, are empty, or do not fit into an output.
        """
        card = self.bundle.card
        for requested, supported in ((request.texts, card.model.texts), (request.images, card.model.images)):
            if unsupported := set(requested) - set(supported):
                raise RequestError(
                    sorted(unsupported)[0],
                    "the model has no such source",
                    f"it reads {'; '.join(f'{name}: {source}' for name, source in card.model.sources.items())}",
                )
        if request.options.beam > self.table.width:
            raise RequestError("beam_size", f"{request.options.beam} is more than the {self.table.width} allowed here")
        for name, image in request.images.items():
            check_image_shape(name, image, card.model.images[name])
        if not request.texts and not request.images:
            (first, *_) = card.model.sources
            problem = "the text is missing" if len(card.model.sources) == 1 else "every source is missing"
            raise RequestError(first, problem, f"give {' or '.join(card.model.sources)}")
        if self.bundle.shortlist and not request.texts:
            raise RequestError(
                card.model.first_text,
                "the text is missing, and a shortlist finds the words of the output by the text",
                "give it, or search without the shortlist",
            )
        if is_copied(request):
            return EncodedRequest(request, {}, length=1, positions=1, max_length=1)
        sources = {name: self._encode_text(name, request) for name in card.model.texts if name in request.texts}
        words = [len(encoded.ids) + 1 for encoded in sources.values()]
        regions = [card.model.images[name].regions for name in request.images]
        limit = request.options.output_limit(max(words) - 1 if words else max(regions))
        positions = [*words, *regions]
        constraints = self._encode_terms(request, sources) if request.terms else ()
        if request.options.max_length is None:
            limit += token_count(constraints)
        limit = min(limit, card.limits.target_length)
        check_length(constraints, limit)
        return EncodedRequest(request, sources, max(positions), sum(positions), limit, constraints)

    def _encode_terms(self, request: Request, sources: dict[str, Encoded]) -> tuple[Constraint, ...]:
        """The tokens of a request's terms. Raises RequestError."""
        if not self.bundle.takes_terms:
            raise RequestError(TERMS, "the model takes none: it edits texts, or reads pictures first", "leave them out")
        if request.tokenised:
            raise RequestError(TERMS, "terms are for raw text, and this is tokenised", "give raw text")
        name = self.bundle.card.model.first_text
        check_terms(request.texts.get(name, ""), request.terms)
        return term_constraints(request.terms, sources[name], self.bundle.tokenizers["target"])

    def _encode_text(self, name: str, request: Request) -> Encoded:
        """Convert one text to ids. Raises RequestError if it is empty or too long."""
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
        """Add requests to the table, at most `free` of them, each with a unique key."""
        if not rows:
            return
        self.rows.update(rows)
        self._copied += [key for key, row in rows if is_copied(row.request)]
        searched = [(key, row) for key, row in rows if not is_copied(row.request)]
        search_requests = [
            SearchRequest(
                key,
                row.request.options,
                row.max_length,
                row.request.explain or row.request.options.replace_unknown,
                row.constraints,
            )
            for key, row in searched
        ]
        if searched:
            self.table.admit(self._collate([row for _, row in searched]), search_requests)

    def _collate(self, rows: Sequence[EncodedRequest]) -> Batch:
        """The batch of model inputs; a source that a request lacks is absent in its row. With the words of the
        shortlist, if there is one."""
        config = self.bundle.card.model
        texts = {
            name: [row.sources[name].ids if name in row.sources else None for row in rows] for name in config.texts
        }
        images = {
            name: stack_images([row.request.images.get(name) for row in rows], blank_image(grid), grid.regions)
            for name, grid in config.images.items()
        }
        batch = collate(texts, images=images)
        if self.bundle.shortlist is None:
            return batch
        ids = [{name: encoded.ids for name, encoded in row.sources.items()} for row in rows]
        terms = [[token for constraint in row.constraints for token in constraint.ids] for row in rows]
        return replace(batch, candidates=self.bundle.shortlist.candidates(ids, terms))

    def step(self) -> list[tuple[Hashable, GenerationResult]]:
        """Extend every active hypothesis by one token; returns the results of finished requests."""
        self.table.step()
        copied = [(key, self._copy(self.rows.pop(key))) for key in self._copied]
        self._copied = []
        searched = self.table.pop_finished()
        return copied + [(result.key, self._result(self.rows.pop(result.key), result)) for result in searched]

    def _copy(self, row: EncodedRequest) -> GenerationResult:
        """The result of a request whose text is its own translation."""
        ((name, text),) = row.request.texts.items()
        candidate = Candidate(text, 0.0, 0.0, [])
        if not row.request.explain:
            return GenerationResult([candidate])
        words = self.bundle.tokenizers[name].word_spans(text, raw=True)
        reading = self.best_reading.matrix
        kinds, symmetrized = {*self.attention_kinds, reading}, True if self.reverse else None
        explanation = explain_copy(text, words, row.request.terms, sorted(kinds), reading, symmetrized)
        return GenerationResult([candidate], explanation)

    def prefixes(self, keys: Collection[Hashable]) -> dict[Hashable, list[int]]:
        """The ids with which each request's output is certain to begin, up to its first term; they only grow from step
        to step."""
        return self.table.prefixes(keys)

    def cancel(self, keys: Iterable[Hashable]) -> None:
        """Remove cancelled requests from the table."""
        cancelled = set(keys) & self.rows.keys()
        self.table.cancel(cancelled)
        for key in cancelled:
            del self.rows[key]
        self._copied = [key for key in self._copied if key not in cancelled]

    def generate(
        self, requests: Iterable[Request | RequestError], lookahead: int | None = None
    ) -> Iterator[GenerationResult | RequestError]:
        """Yield results in the order of the requests, which are read lazily.

        An invalid request yields its RequestError in its position, as does an element that already is an error.

        Up to `lookahead` requests (default: LOOKAHEAD x slots) are read before the first result, so that sentences of
        similar length are searched together; with 1, each result is yielded before the next request is read.
        """
        window, source = lookahead or LOOKAHEAD * self.slots, enumerate(iter(requests))
        waiting: list[tuple[int, EncodedRequest]] = []  # shortest first
        ready: dict[int, GenerationResult | RequestError] = {}
        pending_keys: deque[int] = deque()
        more = True
        while more or pending_keys:
            if more and len(pending_keys) <= window // 2:
                for key, request in source:
                    pending_keys.append(key)
                    try:
                        if isinstance(request, RequestError):
                            raise request
                        waiting.append((key, self.encode(request)))
                    except RequestError as error:
                        ready[key] = error
                    if len(pending_keys) >= window:
                        break
                else:
                    more = False
                waiting.sort(key=lambda pending: pending[1].length)
            if waiting and (self.active == 0 or self.free >= max(1, self.slots // 4)):
                waiting, chosen = waiting[: -self.free], waiting[-self.free :]
                self.admit(chosen)
            for finished, result in self.step():
                ready[int(str(finished))] = result
            while pending_keys and pending_keys[0] in ready:
                yield ready.pop(pending_keys.popleft())

    def align(
        self,
        pairs: Iterable[tuple[dict[str, str], str]],
        raw: bool = True,
        reading: AttentionReading | None = None,
        confidence: bool = False,
    ) -> Iterator[Explanation]:
        """Explain given outputs by forced decoding, in order. A pair is (texts by source, output); images are absent.

        `raw`: the texts are raw; otherwise their words are separated by spaces, and are detokenized for a model that
        was trained on raw text. `reading`: the weights that words are aligned by, of a kind that the model has
        (`attention_kinds`), by default the best. `confidence`: with the probability of each target word, which takes a
        second pass.
        """
        reading = reading or self.best_reading
        for group in batched(pairs, self.slots):
            read = [self.read_pair(texts, target, raw) for texts, target in group]
            attention_weights = self.forced_attention(read, reading)
            logs = self.forced_log_probabilities(read) if confidence else None
            for i, (sources, target) in enumerate(read):
                weights, own = attention_weights.of_sentence(i, 1), logs[i] if logs else None
                yield self._explain(sources, target, weights, reading, own)

    def forced_attention(self, pairs: Sequence[TextPair], reading: AttentionReading | None = None) -> AttentionWeights:
        """Attention weights (B, 1, L, ...) of a batch of outputs by forced decoding, with what a reading needs; images
        are absent."""
        batch = self._collate_pairs([sources for sources, _ in pairs], [target for _, target in pairs])
        assert batch.target_BL is not None
        with torch.inference_mode():
            device = self.table.device
            memory = self.bundle.model.encode(batch.to(device))
            return self.bundle.model.forced_attention(memory, batch.target_BL.to(device)[:, None], reading)

    def forced_log_probabilities(self, pairs: Sequence[TextPair]) -> list[list[float]]:
        """The log-probability of each token of a batch of outputs (END excluded); images are absent."""
        batch = self._collate_pairs([sources for sources, _ in pairs], [target for _, target in pairs])
        assert batch.target_BL is not None
        with torch.inference_mode():
            device = self.table.device
            memory = self.bundle.model.encode(batch.to(device))
            rows = self.bundle.model.forced_log_probabilities(memory, batch.target_BL.to(device)[:, None])[:, 0]
        return [row[: len(target.encoded.ids)] for row, (_, target) in zip(rows.tolist(), pairs, strict=True)]

    def read_pair(self, texts: dict[str, str], target: str, raw: bool = True) -> TextPair:
        """Encode the texts of the sources and an output, and find their words; `raw` as in `align`."""
        (output,) = self.read_texts("target", [target], raw)
        if edited := self.bundle.tokenizers["target"].config.operations_on:
            output = replace(output, encoded=self._encode_script(texts.get(edited, ""), target, raw))
        names = [name for name in self.bundle.card.model.texts if name in texts]
        return {name: self.read_texts(name, [texts[name]], raw)[0] for name in names}, output

    def _encode_script(self, mt: str, target: str, raw: bool) -> Encoded:
        """The edit operations that turn `mt` into the output; `raw` as in `align`."""
        tokenizer = self.bundle.tokenizers["target"]
        return encode_script(tokenizer, to_model_text(tokenizer, mt, raw), to_model_text(tokenizer, target, raw), raw)

    def _collate_pairs(self, sources: Sequence[dict[str, TextWithWords]], targets: Sequence[TextWithWords]) -> Batch:
        """A batch of texts and their outputs, with absent images."""
        config = self.bundle.card.model
        texts = {name: [pair[name].encoded.ids if name in pair else None for pair in sources] for name in config.texts}
        images = {
            name: stack_images([None] * len(sources), blank_image(grid), grid.regions)
            for name, grid in config.images.items()
        }
        return collate(texts, [text.encoded.ids for text in targets], images=images)

    def read_texts(self, name: str, texts: Sequence[str], raw: bool = True) -> list[TextWithWords]:
        """Encode texts of a source, or of the target, and find their words; `raw` as in `align`."""
        tokenizer = self.bundle.tokenizers[name]
        encoded = tokenizer.encode_batch([to_model_text(tokenizer, text, raw) for text in texts], raw)
        return [to_text_with_words(tokenizer, text, ids, raw) for text, ids in zip(texts, encoded, strict=True)]

    def explain_with_nulls(self, texts: dict[str, str], target: str, raw: bool = True) -> NullExplanation:
        """Explain an output followed by its end symbol and by <null> up to the number of source tokens.

        The source's last column is its end symbol (Kiyono et al. 2018, figures 2 and 3). Raises UsageError for a model
        without alignment module.
        """
        model = self.bundle.model
        if not isinstance(model, Model) or model.alignment is None:
            raise UsageError(NULL, "the model has no alignment module, which this explanation needs", "train uam")
        sources = {name: self.read_texts(name, [text], raw)[0] for name, text in texts.items()}
        (output,) = self.read_texts("target", [target], raw)
        (first, *_) = sources
        steps = len(output.encoded.ids) + 1
        nulls = max(0, len(sources[first].encoded.ids) + 1 - steps)
        batch = self._collate_pairs([sources], [output])
        assert batch.target_BL is not None
        target_1KL = pad_or_trim(batch.target_BL, 1, steps + nulls, PAD)[:, None].to(self.table.device)
        with torch.inference_mode():
            memory = model.encode(batch.to(self.table.device))
            attention_weights = model.forced_attention(memory, target_1KL)
            log_q = model.source_log_probabilities(model.teacher_forced(memory, target_1KL)[0])
        assert log_q is not None
        sources[first] = sources[first].append_symbols([SPECIAL[END]])
        output = output.append_symbols([SPECIAL[END]] + [NULL] * nulls)
        predicted_ids = log_q[0, 0].argmax(-1).tolist()
        tokenizer = self.bundle.tokenizers[first]
        source_predictions = []
        for start, end in output.words:
            pieces = [j for j, span in enumerate(output.encoded.offsets) if span[0] < end and start < span[1]]
            ids = list(dict.fromkeys(predicted_ids[j] for j in pieces))
            source_predictions.append(tokenizer.decode(ids) or " ".join(SPECIAL[i] for i in ids))
        return NullExplanation(
            self._explain(sources, output, attention_weights, AttentionReading("uam")), source_predictions
        )

    def _result(self, row: EncodedRequest, result: SearchResult) -> GenerationResult:
        """Decode every hypothesis, replacing unknown words if requested and terms by their text, and explain the best
        one if requested."""
        replaces = row.request.options.replace_unknown
        sources = self._source_texts(row) if replaces or row.request.explain else {}
        candidates, explanation = [], None
        for k, hypothesis in enumerate(result.hypotheses):
            replaced = self._replace_unknown(sources, hypothesis, result.attention_weights, k) if replaces else {}
            placed = placed_terms(hypothesis.constraints, row.request.terms)
            decoded, spans = self._decode(row, hypothesis.ids, replaced, placed)
            candidates.append(Candidate(decoded.text, hypothesis.score, hypothesis.log_probability, hypothesis.ids))
            if k == 0 and row.request.explain and result.attention_weights is not None:
                explanation = self._explain_result(row, sources, result, decoded)
                if placed:
                    explanation = explain_terms(explanation, [each.term for each in placed], spans)
        return GenerationResult(candidates, explanation)

    def _explain_result(
        self, row: EncodedRequest, sources: dict[str, TextWithWords], result: SearchResult, decoded: Decoded
    ) -> Explanation:
        """Explain the best output of a search, with the links of both directions if there is a reverse model."""
        assert result.attention_weights is not None
        ids = result.hypotheses[0].ids
        words = find_words(self.bundle.tokenizers["target"], decoded.text, "target" not in row.request.tokenised)
        output = TextWithWords(to_spans(decoded.text, words), words, Encoded(ids, decoded.offsets))
        logs = result.token_log_probabilities[0] if result.token_log_probabilities else None
        best_weights = self._with_posterior(row, ids, result.attention_weights.of_sentence(0, 1))
        explanation = self._explain(sources, output, best_weights, self.best_reading, logs)
        if self.reverse:
            explanation = symmetrized_explanation(explanation, self._explain_reverse(row.request, decoded.text))
        return explanation

    def _with_posterior(
        self, row: EncodedRequest, ids: Sequence[int], attention_weights: AttentionWeights
    ) -> AttentionWeights:
        """The weights with posterior attention over the first text, if that is the best reading and the text is there.

        The output is decoded once more, alone: in a batch, rounding would depend on the other sentences.
        """
        model, text = self.bundle.model, self.bundle.card.model.first_text
        if not self.best_reading.posterior or text not in row.sources:
            return attention_weights
        batch = replace(self._collate([row]), candidates=None).to(self.table.device)
        target_11L = pad([ids])[0][:, None].to(self.table.device)
        with torch.inference_mode():
            forced = model.forced_attention(model.encode(batch), target_11L, self.best_reading)
        steps = attention_weights.attention.shape[2]
        posterior_11LT = forced.weights[text, POSTERIOR][:, :, :steps]
        return replace(attention_weights, weights=attention_weights.weights | {(text, POSTERIOR): posterior_11LT})

    def _explain_reverse(self, request: Request, output: str) -> Explanation | None:
        """The reverse model's explanation of the request's text as an output for `output`, or None if one of them is
        empty or too long for it.

        Each pair is decoded alone: in a batch, rounding would depend on the other pairs.
        """
        assert self.reverse is not None
        name, card = self.bundle.card.model.first_text, self.reverse.bundle.card
        text, raw = request.texts.get(name, ""), name not in request.tokenised
        pair = self.reverse.read_pair({card.model.first_text: output}, text, raw)
        ((read,), target), limits = (pair[0].values(), pair[1]), card.limits
        lengths = len(read.encoded.ids), len(target.encoded.ids)
        if not all(lengths) or lengths[0] > limits.source_length or lengths[1] > limits.target_length:
            return None
        weights = self.reverse.forced_attention([pair], self.reverse.best_reading)
        return self.reverse._explain(*pair, weights, self.reverse.best_reading)

    def _decode(
        self, row: EncodedRequest, ids: Sequence[int], replaced: dict[int, str], placed: Sequence[PlacedTerm]
    ) -> tuple[Decoded, list[tuple[int, int]]]:
        """Decode ids to text with the span of each id, and the spans of terms; edit operations are applied to the
        machine translation."""
        tokenizer, request = self.bundle.tokenizers["target"], row.request
        if placed:
            decoded = tokenizer.decode_with_offsets(ids, replaced | stand_ins(placed), raw=True)
            return substitute(decoded, placed, request.texts[self.bundle.card.model.first_text])
        raw = "target" not in request.tokenised
        if (source := tokenizer.config.operations_on) is None:
            decoded = tokenizer.decode_with_offsets(ids, replaced, raw)
        else:
            mt = to_model_text(tokenizer, request.texts.get(source, ""), source not in request.tokenised)
            decoded = decode_script(tokenizer, ids, mt, replaced, raw)
        return (tokenizer.tokenize(decoded) if needs_detokenizing(tokenizer, raw) else decoded), []

    def _replace_unknown(
        self,
        sources: dict[str, TextWithWords],
        hypothesis: Hypothesis,
        attention_weights: AttentionWeights | None,
        k: int,
    ) -> dict[int, str]:
        """The source word with the largest attention weight for every unknown word of an output, by position."""
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

    def _source_texts(self, row: EncodedRequest) -> dict[str, TextWithWords]:
        """A request's texts with their words, by source."""
        texts, tokenised = row.request.texts, row.request.tokenised
        return {
            name: to_text_with_words(self.bundle.tokenizers[name], texts[name], encoded, name not in tokenised)
            for name, encoded in row.sources.items()
        }

    def _explain(
        self,
        sources: dict[str, TextWithWords],
        output: TextWithWords,
        attention_weights: AttentionWeights,
        reading: AttentionReading,
        log_probabilities: Sequence[float] | None = None,
    ) -> Explanation:
        """Explain one output: weights between words, or between words and an image's regions. `log_probabilities` of
        its tokens: for the confidence of its words."""
        config = self.bundle.card.model
        target_spans = (output.encoded.offsets, output.words)
        name = next((name for name in config.texts if name in sources), None)
        source = TextWithWords([], [], Encoded([], [])) if name is None else sources[name]
        pieces = (source.encoded.offsets, output.encoded.offsets, source.words, output.words)
        matrices = {} if name is None else attention_weights.matrices(name, reading)
        if reading.matrix not in matrices:  # posterior attention where the first text is absent
            reading = self.bundle.model.quick_reading
        fertility = None if name is None else attention_weights.fertility.get(name)
        return explain(
            source.display_words,
            output.display_words,
            {kind: pool_to_words(weights[0, 0].cpu(), *pieces) for kind, weights in matrices.items()},
            None if attention_weights.gate is None else mean_by_word(attention_weights.gate[0, 0].cpu(), *target_spans),
            None if fertility is None else sum_by_word(fertility[0].cpu(), source.encoded.offsets, source.words),
            None if name is None else reading,
            self._explain_sources(sources, output, attention_weights, reading) if len(config.sources) > 1 else None,
            {
                key: mean_by_word(weight[0, 0].cpu(), *target_spans)
                for key, weight in attention_weights.source_weights.items()
            }
            or None,
            None if log_probabilities is None else self._word_probabilities(output, log_probabilities),
        )

    def _word_probabilities(self, output: TextWithWords, log_probabilities: Sequence[float]) -> list[float | None]:
        """The probability of each word of an output. A token that only begins a word (`▁`) belongs to the word of the
        next token."""
        pieces, spans = self.bundle.tokenizers["target"].pieces, list(output.encoded.offsets)
        for i in reversed(range(len(spans) - 1)):
            if pieces[output.encoded.ids[i]] == WORD_BEGIN:
                spans[i] = spans[i + 1]
        return word_probabilities(log_probabilities, spans, output.words)

    def _explain_sources(
        self,
        sources: dict[str, TextWithWords],
        output: TextWithWords,
        attention_weights: AttentionWeights,
        reading: AttentionReading,
    ) -> dict[str, SourceExplanation]:
        """The attention weights over each source that is present."""
        config = self.bundle.card.model
        explanations = {}
        for name, text in sources.items():
            pieces = (text.encoded.offsets, output.encoded.offsets, text.words, output.words)
            matrices = {
                kind: pool_to_words(weights[0, 0].cpu(), *pieces)
                for kind, weights in attention_weights.matrices(name, reading).items()
            }
            explanations[name] = SourceExplanation(words=text.display_words, matrices=round_matrices(matrices))
        for name, grid in config.images.items():
            weights_LT = attention_weights.weights[name, "attention"][0, 0, :, : grid.regions].cpu()
            if weights_LT.any():
                matrices = {"attention": pool_to_target_words(weights_LT, output.encoded.offsets, output.words)}
                explanations[name] = SourceExplanation(
                    grid=(grid.rows, grid.columns), matrices=round_matrices(matrices)
                )
        return explanations


def is_copied(request: Request) -> bool:
    """Whether a request's text is its own translation, and is not searched: it has terms only, which stay as they
    are."""
    if len(request.texts) != 1 or request.images:
        return False
    (text,) = request.texts.values()
    return only_terms(text, request.terms)


def joined_words(tokenizer: Tokenizer, vocabulary: int) -> torch.Tensor | None:
    """True for the words of a vocabulary that would continue the word before them; None if none does."""
    if not tokenizer.joined_ids:
        return None
    joined_V = torch.zeros(vocabulary, dtype=torch.bool)
    joined_V[sorted(tokenizer.joined_ids)] = True
    return joined_V


def check_length(constraints: Sequence[Constraint], limit: int) -> None:
    """Raises RequestError for terms with more tokens than an output may have."""
    if (tokens := token_count(constraints)) > limit:
        raise RequestError(
            TERMS,
            f"the terms have {tokens} tokens, and the output may have {limit}",
            "allow a longer output, or name fewer or shorter terms",
        )


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items; the last one may be shorter."""
    group: list[Item] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
