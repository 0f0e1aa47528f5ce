"""Text generation with one bundle: encode requests, search, decode outputs, and explain them.

The offline commands use `SequenceGenerator`, the service its subclass `BundleTranslator`.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch

from interlinear.alignment.links import symmetrized_explanation
from interlinear.batch import Batch, collate, pad, stack_images
from interlinear.bundle import Bundle
from interlinear.errors import RequestError
from interlinear.explanation import (
    Explanation,
    TextWithWords,
    find_words,
    needs_detokenizing,
    to_model_text,
    to_spans,
    to_text_with_words,
)
from interlinear.generation.forced_decoding import ForcedDecoder
from interlinear.generation.request import Candidate, EncodedRequest, GenerationResult, Request
from interlinear.generation.request_encoding import RequestEncoder
from interlinear.generation.target_prefix import EncodedPrefix
from interlinear.generation.terms import Term
from interlinear.generation.terms.explained import explain_copy, explain_terms
from interlinear.generation.terms.placement import place_by_alignment, says_number, words_with_terms
from interlinear.generation.terms.substitution import PlacedTerm, placed_terms, stand_ins, substitute
from interlinear.images.decode import blank_image
from interlinear.models.attention_reading import POSTERIOR, quick_reading
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import Hypothesis, SearchRequest, SearchResult, SlotTable
from interlinear.search.processors.processor import JOINED, OTHER, WORD
from interlinear.source_names import MT
from interlinear.text import UNKNOWN, Decoded, Encoded, Tokenizer
from interlinear.text.casing import Case, recased
from interlinear.text.edits import decode_script
from interlinear.text.words import Span, is_unspaced

LOOKAHEAD = 16  # offline search reads this many times the number of slots ahead, to sort requests by length


class SequenceGenerator(ForcedDecoder):
    """Generates outputs with one bundle, using one slot table. Only `encode` is thread-safe."""

    def __init__(
        self,
        bundle: Bundle[EncoderDecoder],
        slots: int = 32,
        width: int = 5,
        reverse: "SequenceGenerator | None" = None,
    ) -> None:
        """`slots`: number of sentences searched together; `width`: the largest beam that a request may use; `reverse`:
        a model of the opposite direction, with which explanations have the links of both (`check_opposite`)."""
        super().__init__(bundle, slots)
        self.reverse = reverse
        self.request_encoder = RequestEncoder(bundle, width)
        kind_V = word_kinds(bundle.tokenizers["target"], bundle.card.model.target.vocabulary)
        self.table = SlotTable(bundle.model, width, search_step=bundle.search_step, kind_V=kind_V)
        self.rows: dict[int, EncodedRequest] = {}
        self._copied: list[int] = []  # requests that are answered at the next step without a search

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

    def __contains__(self, key: object) -> bool:
        """Whether a request was admitted, and is not finished or cancelled."""
        return key in self.rows

    def encode(self, request: Request) -> EncodedRequest:
        """Convert a request's texts to ids. Raises RequestError."""
        return self.request_encoder.encode(request)

    def admit(self, rows: Sequence[tuple[int, EncodedRequest]]) -> None:
        """Add requests to the table, at most `free` of them, each with a unique number."""
        if not rows:
            return
        self.rows.update(rows)
        self._copied += [key for key, row in rows if row.is_copied]
        searched = [(key, row) for key, row in rows if not row.is_copied]
        tokenizer = self.bundle.tokenizers["target"]
        search_requests = [
            SearchRequest(
                key,
                row.request.options,
                row.max_length,
                row.request.explain
                or row.request.options.replace_unknown
                or row.request.min_alternative_probability > 0
                or row.aligns_terms,
                () if row.aligns_terms else row.constraints,
                row.prefix.for_search(tokenizer, row.request.options.n_best > 1) if row.prefix else None,
                self.request_encoder.input_words(row) if row.request.options.post_editing_penalty else frozenset(),
                self.request_encoder.source_words(row) if row.request.options.repetition_guard else (),
                row.request.options.n_best > 1,
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
        required = [row.required_ids for row in rows]
        return replace(batch, candidates=self.bundle.shortlist.candidates(ids, required))

    def step(self, working: Callable[[], None] = lambda: None) -> list[tuple[int, GenerationResult]]:
        """Extend every active hypothesis by one token; returns the results of finished requests.

        `working` is called before each explanation, which takes seconds for a long text.
        """
        self.table.step()
        copied = [(key, self._copy(self.rows.pop(key))) for key in self._copied]
        self._copied = []
        answers = []
        for result in self.table.pop_finished():
            key = number_of(result.key)
            row = self.rows.pop(key)
            placed = self._align_terms(row, result) if row.aligns_terms else []
            if None not in placed:
                answers.append((key, self._result(row, result, placed, working)))
            else:  # the output has fewer words than terms: a second search is forced to write them
                self.admit([(key, replace(row, aligns_terms=False))])
        return copied + answers

    def _copy(self, row: EncodedRequest) -> GenerationResult:
        """The result of a request whose text is its own translation."""
        name = row.request.copied_from
        text = row.request.texts[name]
        candidate = Candidate(text, 0.0, 0.0, [], tuple((term, (term.start, term.end)) for term in row.request.terms))
        if not row.request.explain:
            return GenerationResult([candidate])
        words = self.bundle.tokenizers[name].word_spans(text, raw=True)
        reading = self.best_reading.matrix
        kinds, symmetrized = {*self.attention_kinds, reading}, True if self.reverse else None
        explanation = explain_copy(text, words, row.request.terms, sorted(kinds), reading, symmetrized)
        return GenerationResult([replace(candidate, explanation=explanation)], explanation)

    def prefixes(self, keys: Collection[int]) -> dict[int, list[int]]:
        """The ids with which each request's output is certain to begin, up to its first term; they only grow from step
        to step. Excluded are requests whose output may become the unedited machine translation, or whose complete
        output is changed by terms or case."""
        certain = {key for key, row in self.rows.items() if not (row.may_stay_unedited or row.aligns_terms or row.case)}
        found = self.table.prefixes(certain.intersection(keys))
        return {number_of(key): ids for key, ids in found.items()}

    def cancel(self, keys: Iterable[int]) -> None:
        """Remove cancelled requests from the table."""
        cancelled = set(keys) & self.rows.keys()
        self.table.cancel(set(cancelled))
        for key in cancelled:
            del self.rows[key]
        self._copied = [key for key in self._copied if key not in cancelled]

    def generate(
        self, requests: Iterable[Request | RequestError], lookahead: int | None = None
    ) -> Iterator[GenerationResult | RequestError]:
        """Yield results in the order of the requests, which are read lazily.

        An invalid request yields its RequestError at its position; an element that is an error already is yielded
        unchanged.

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
                ready[finished] = result
            while pending_keys and pending_keys[0] in ready:
                yield ready.pop(pending_keys.popleft())

    def _result(
        self,
        row: EncodedRequest,
        result: SearchResult,
        aligned: Sequence[list[PlacedTerm] | None],
        working: Callable[[], None],
    ) -> GenerationResult:
        """Decode every hypothesis, replace terms by their text and, if requested, unknown words, and explain the best
        one if requested. `aligned`: the terms of each hypothesis, if alignment has placed them, and not the search."""
        replaces = row.request.options.replace_unknown
        sources = self._source_texts(row) if replaces or row.request.explain else {}
        candidates: list[Candidate] = []
        for k, hypothesis in enumerate(result.hypotheses):
            if len(candidates) == row.request.options.n_best and row.prefix is None:
                break
            replaced = self._replace_unknown(sources, hypothesis, result.attention_weights, k) if replaces else {}
            placed = aligned[k] or [] if aligned else placed_terms(hypothesis.constraints, row.terms)
            decoded, terms = self._decode_with_terms(row, hypothesis, replaced, placed)
            if any(decoded.text == better.text for better in candidates):
                continue  # different tokens of the same text
            explained = row.request.explain and (k == 0 or row.request.explain_all)
            explanation = None
            if explained and result.attention_weights is not None:
                working()
                explanation = self._explain_result(row, sources, result, decoded, k)
                if terms:
                    explanation = explain_terms(explanation, [term for term, _ in terms], [span for _, span in terms])
            score, log_probability = hypothesis.score, hypothesis.log_probability
            if not (k and row.prefix and self._is_improbable(row.prefix, row.request, result, k)):
                candidates.append(Candidate(decoded.text, score, log_probability, hypothesis.ids, terms, explanation))
        if row.case:
            candidates = [recased_candidate(one, row.case, self.bundle.tokenizers["target"]) for one in candidates]
        candidates = different_words(candidates, row.prefix)[: row.request.options.n_best]
        if candidates and self._keeps_unedited(row, candidates[0]):
            unedited = self._unedited(row)
            others = [one for one in candidates if one.text != unedited.text]
            candidates = [unedited, *others][: row.request.options.n_best]
        return GenerationResult(candidates, candidates[0].explanation if candidates else None)

    def _is_improbable(self, prefix: EncodedPrefix, request: Request, result: SearchResult, k: int) -> bool:
        """Whether the first token of the k-th output after a prefix is less probable than
        `min_alternative_probability`."""
        if not (least := request.min_alternative_probability) or result.token_log_probabilities is None:
            return False
        behind = result.token_log_probabilities[k][len(prefix.encoded.ids) :]
        return bool(behind) and math.exp(behind[0]) < least

    def _keeps_unedited(self, row: EncodedRequest, best: Candidate) -> bool:
        """Whether the machine translation is the better answer: the model's output is less probable than the request
        demands."""
        return row.may_stay_unedited and best.mean_probability < row.request.options.post_editing_confidence

    def _unedited(self, row: EncodedRequest) -> Candidate:
        """The machine translation as an output like the others."""
        request, options = row.request, row.request.options
        raw, given_raw, text = "target" not in request.tokenised, MT not in request.tokenised, request.texts[MT]
        output = self.read_output(request.texts, text, given_raw)
        if raw != given_raw:
            text = self._decode(row, output.encoded.ids, {}, ())[0].text
            output = self.read_output(request.texts, text, raw)
        forced = self.force((self._source_texts(row), output), request.explain)
        explanation = forced.explanation
        if explanation and self.reverse:
            explanation = symmetrized_explanation(explanation, self._explain_reverse(request, text))
        score = options.score(forced.log_probability, len(forced.ids) + 1)
        return Candidate(text, score, forced.log_probability, forced.ids, explanation=explanation)

    def _decode_with_terms(
        self, row: EncodedRequest, hypothesis: Hypothesis, replaced: dict[int, str], placed: list[PlacedTerm]
    ) -> tuple[Decoded, tuple[tuple[Term, Span], ...]]:
        """The text of a hypothesis with the span of each token, and its terms with their spans."""
        decoded, spans = self._decode(row, hypothesis.ids, replaced, placed)
        terms = [(each.term, span) for each, span in zip(placed, spans, strict=True)]
        if row.prefix is None:
            return decoded, tuple(terms)
        decoded, moved = row.prefix.begin(decoded)
        return decoded, (*row.prefix.placed, *((term, (a + moved, b + moved)) for term, (a, b) in terms))

    def _align_terms(self, row: EncodedRequest, result: SearchResult) -> list[list[PlacedTerm] | None]:
        """The tokens of each output of a search that its terms replace (`place_by_alignment`), without the numbers that
        the model has translated; None where there are too few."""
        assert result.attention_weights is not None
        name, tokenizer = self.bundle.card.model.first_text, self.bundle.tokenizers["target"]
        sources, codes = self._source_texts(row), self.bundle.card.languages
        languages = codes.get(name), codes.get("target")
        words = words_with_terms(sources[name].words, row.terms)
        sources[name] = TextWithWords(to_spans(row.request.texts[name], words), words, sources[name].encoded)
        placed: list[list[PlacedTerm] | None] = []
        for k, hypothesis in enumerate(result.hypotheses):
            decoded, _ = self._decode(row, hypothesis.ids, {}, ())
            words = find_words(tokenizer, decoded.text, raw=True)
            output = TextWithWords(to_spans(decoded.text, words), words, Encoded(hypothesis.ids, decoded.offsets))
            weights = result.attention_weights.of_output(k)
            explanation = self.explain_output(sources, output, weights, quick_reading(self.bundle.model.readings))
            missing = [
                term
                for term in row.terms
                if not (self.request_encoder.translates(term) and says_number(decoded.text, term.target, languages[1]))
            ]
            own = place_by_alignment(explanation, missing, decoded.offsets, languages)
            placed.append(own if len(own) == len(missing) else None)
        return placed

    def _explain_result(
        self, row: EncodedRequest, sources: dict[str, TextWithWords], result: SearchResult, decoded: Decoded, k: int
    ) -> Explanation:
        """Explain the k-th output of a search, with the links of both directions if there is a reverse model."""
        assert result.attention_weights is not None
        ids = result.hypotheses[k].ids
        words = find_words(self.bundle.tokenizers["target"], decoded.text, "target" not in row.request.tokenised)
        output = TextWithWords(to_spans(decoded.text, words), words, Encoded(ids, decoded.offsets))
        logs = result.token_log_probabilities[k] if result.token_log_probabilities else None
        weights = self._with_posterior(row, ids, result.attention_weights.of_output(k))
        explanation = self.explain_output(sources, output, weights, self.best_reading, logs)
        explanation = self.with_doubts(explanation, sources)  # before a reverse model changes the links
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
        batch = replace(self._collate([row]), candidates=None).to(self.device)
        target_11L = pad([ids])[0][:, None].to(self.device)
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
        return self.reverse.explain_output(*pair, weights, self.reverse.best_reading)

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


def number_of(key: Hashable) -> int:
    """The number of a request, which is its key in the table."""
    assert isinstance(key, int)
    return key


def word_kinds(tokenizer: Tokenizer, vocabulary: int) -> torch.Tensor:
    """The kind of each token of a vocabulary for a search. Marks, and characters of scripts without spaces, are not
    words: they may be repeated for one source word."""
    kind_V = torch.full((vocabulary,), OTHER, dtype=torch.int8)
    for number, piece in enumerate(tokenizer.pieces):
        if number in tokenizer.joined_ids:
            kind_V[number] = JOINED
        elif number >= len(tokenizer.config.reserved) and any(c.isalnum() and not is_unspaced(c) for c in piece):
            kind_V[number] = WORD
    return kind_V


def recased_candidate(candidate: Candidate, case: Case, tokenizer: Tokenizer) -> Candidate:
    """An output in a case, with its explanation; terms stay unchanged."""
    text = recased(candidate.text, case, tokenizer.casing, [span for _, span in candidate.terms])
    explanation = candidate.explanation
    if explanation:
        target = to_spans(text, [(word.start, word.end) for word in explanation.target])
        explanation = explanation.model_copy(update={"target": target})
    return replace(candidate, text=text, explanation=explanation)


def different_words(candidates: list[Candidate], prefix: EncodedPrefix | None) -> list[Candidate]:
    """The candidates without those whose first word after a prefix a better candidate has: different tokens may write
    one word."""
    if prefix is None:
        return candidates
    by_word: dict[str, Candidate] = {}
    for candidate in candidates:
        by_word.setdefault(prefix.first_word(candidate.text), candidate)
    return list(by_word.values())
